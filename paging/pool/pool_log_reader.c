#include "paging/pool/pool_log_reader.h"

#include <stdlib.h>
#include <string.h>

kvg_status pool_reader_room(pool_reader *r, size_t size)
{
    r->used_numbers = r->used_texts = r->used_digits = 0;
    if (size <= r->room) return KVG_OK;
    free(r->numbers);
    free(r->texts);
    free(r->digits);
    r->numbers = malloc(size * sizeof r->numbers[0]);
    r->texts = malloc(size * sizeof r->texts[0]);
    r->digits = malloc(size * 2); /* a NUL behind each number */
    r->room = r->numbers && r->texts && r->digits ? size : 0;
    return r->room ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "no memory for a line of %zu bytes", size);
}

void pool_reader_free(pool_reader *r)
{
    free(r->line);
    free(r->numbers);
    free(r->texts);
    free(r->digits);
}

kvg_status pool_read_name(pool_reader *r, kvg_json value, const char **out)
{
    const char *digits;
    size_t length;
    if (kvg_json_is_string(value)) return kvg_json_string(value, out);
    if (!kvg_json_is_number(value)) return kvg_json_fail(value, "expected a string or an integer");
    kvg_status s = kvg_json_digits(value, &digits, &length);
    if (s) return s;
    *out = memcpy(r->digits + r->used_digits, digits, length);
    r->digits[r->used_digits + length] = '\0';
    r->used_digits += length + 1;
    return KVG_OK;
}

kvg_status pool_read_integer(kvg_json value, int64_t *out)
{
    const char *digits;
    size_t length;
    kvg_status s = kvg_json_digits(value, &digits, &length);
    if (!s) *out = strtoll(digits, NULL, 10);
    return s;
}

kvg_status pool_read_list(pool_reader *r, kvg_json list, bool names, kvg_audit_value *out)
{
    if (!kvg_json_is_array(list)) return kvg_json_fail(list, "expected a list");
    out->count = kvg_json_count(list);
    out->numbers = r->numbers + r->used_numbers;
    out->texts = r->texts + r->used_texts;
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < out->count && !s; i++) {
        s = names ? pool_read_name(r, kvg_json_at(list, i), &r->texts[r->used_texts++])
                  : pool_read_integer(kvg_json_at(list, i), &r->numbers[r->used_numbers++]);
    }
    return s;
}
