/* Any bytes as a safetensors file. What is read keeps every promise of the header: tensors in order, side by side from
 * the first byte of data to the last, and a read of each of their bytes stays inside the file. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "golden/safetensors.h"
#include "tests/fuzz/fuzz_require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_failure(kvg_status s, kvg_status expected)
{
    require(s == expected);
    const char *text = kvg_error_text();
    require(strncmp(text, "fuzz.safetensors: ", 18) == 0);
    require_line(text);
}

/* By division, which cannot overflow as the product would: what is left is the size of an element. */
static void check_bytes_fit_shape(const kvg_safetensors_entry *entry)
{
    bool empty = false;
    for (uint32_t k = 0; k < entry->rank; k++) empty |= entry->shape[k] == 0;
    uint64_t left = entry->bytes;
    for (uint32_t k = 0; !empty && k < entry->rank; k++) {
        require(left % entry->shape[k] == 0);
        left /= entry->shape[k];
    }
    require(empty ? left == 0 : left == 1 || left == 2 || left == 4 || left == 8);
}

static void check_file(const kvg_safetensors *file, const uint8_t *data, size_t size)
{
    size_t count = kvg_safetensors_count(file);
    const uint8_t *next = NULL;
    unsigned sum = 0;
    for (size_t i = 0; i < count; i++) {
        const kvg_safetensors_entry *entry = kvg_safetensors_at(file, i);
        const uint8_t *bytes = entry->data;
        require(bytes >= data + 10 && bytes <= data + size && entry->bytes <= (size_t)(data + size - bytes));
        require(!next || bytes == next);
        require(entry->rank <= KVG_SAFETENSORS_MAX_RANK);
        check_bytes_fit_shape(entry);
        for (size_t k = 0; k < entry->bytes; k++) sum += bytes[k];
        const kvg_safetensors_entry *found = NULL;
        if (i < 16) require(kvg_safetensors_find(file, entry->name, &found) == KVG_OK && found == entry);
        next = bytes + entry->bytes;
    }
    require(!next || next == data + size);
    require(sum <= size * 255);
    require(!kvg_safetensors_at(file, count));
    const kvg_safetensors_entry *none = NULL;
    kvg_status s = kvg_safetensors_find(file, "\x01 no such tensor", &none);
    check_failure(s, KVG_ERR_NOT_FOUND);
    (void)kvg_safetensors_metadata(file, "model");
}

static void check_bytes(const uint8_t *data, size_t size)
{
    kvg_safetensors *file = NULL;
    kvg_status s = kvg_safetensors_parse("fuzz.safetensors", data, size, &file);
    if (s == KVG_OK) check_file(file, data, size);
    else check_failure(s, KVG_ERR_INVALID);
    kvg_safetensors_close(file);
}

/* Once as it is and once with the header's length made to end at the last '}': a mutation that moves the header's end
 * would otherwise get no further than that. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_bytes(data, size);
    size_t end = size;
    while (end > 8 && data[end - 1] != '}') end--;
    uint8_t *fitted = end > 8 ? malloc(size) : NULL;
    if (!fitted) return 0;
    memcpy(fitted, data, size);
    for (size_t i = 0; i < 8; i++) fitted[i] = (uint8_t)((uint64_t)(end - 8) >> (8 * i));
    check_bytes(fitted, size);
    free(fitted);
    return 0;
}
