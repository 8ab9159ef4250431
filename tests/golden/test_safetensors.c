#define _POSIX_C_SOURCE 200809L
#include "golden/safetensors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "golden/json.h"
#include "tests/golden/bad_files.h"
#include "tests/golden/failing_memory.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* A file in memory of exactly its size, so that ASan and Valgrind see a read past the end. Data byte i is i. */
typedef struct image {
    unsigned char *bytes;
    size_t size;
} image;

static image make_image(const char *header, size_t data_size)
{
    size_t length = strlen(header);
    image made = {malloc(8 + length + data_size), 8 + length + data_size};
    assert_non_null(made.bytes);
    for (size_t i = 0; i < 8; i++) made.bytes[i] = (unsigned char)(length >> (8 * i));
    memcpy(made.bytes + 8, header, length);
    for (size_t i = 0; i < data_size; i++) made.bytes[8 + length + i] = (unsigned char)i;
    return made;
}

static kvg_status parse_and_close(const void *bytes, size_t size)
{
    kvg_safetensors *file = NULL;
    kvg_status s = kvg_safetensors_parse("a.safetensors", bytes, size, &file);
    if (s != KVG_OK && file) fail_msg("a failed parse left a handle");
    kvg_safetensors_close(file);
    return s;
}

static kvg_status open_and_close(const char *path)
{
    kvg_safetensors *file = NULL;
    kvg_status s = kvg_safetensors_open(path, &file);
    if (s != KVG_OK && file) fail_msg("%s: a failed open left a handle", path);
    kvg_safetensors_close(file);
    return s;
}

static void assert_fails(kvg_status status, kvg_status expected, const char *text)
{
    if (status != expected) fail_msg("'%s': status %s: %s", text, kvg_status_name(status), kvg_error_text());
    if (!strstr(kvg_error_text(), text)) fail_msg("'%s' is not in '%s'", text, kvg_error_text());
}

static void test_safetensors_refuses_every_bad_file(void **state)
{
    (void)state;
    bad_files_check(".safetensors", open_and_close);
}

/* Tensors out of order in the header, a scalar, empty ones between and at both ends, rank 8, metadata, padding. */
static const char good_header[] =
    "{\"late\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[12,20]},"
    "\"__metadata__\":{\"model\":\"tiny\",\"empty\":\"\"},"
    "\"k.0\":{\"data_offsets\":[0,2],\"dtype\":\"BF16\",\"shape\":[]},"
    "\"empty.first\":{\"shape\":[0],\"dtype\":\"I64\",\"data_offsets\":[0,0]},"
    "\"empty.last\":{\"dtype\":\"F64\",\"shape\":[3,0,9007199254740992],\"data_offsets\":[20,20]},"
    "\"k.1\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,5,1,1,2],\"data_offsets\":[2,12]},"
    "\"none.middle\":{\"dtype\":\"U8\",\"shape\":[0,0],\"data_offsets\":[2,2]}}   ";

static void check_good(const kvg_safetensors *file)
{
    static const struct {
        const char *name, *dtype;
        size_t begin, bytes;
        uint32_t rank;
        uint64_t shape[8];
    } expected[] = {
        {"empty.first", "I64", 0, 0, 1, {0}},
        {"k.0", "BF16", 0, 2, 0, {0}},
        {"none.middle", "U8", 2, 0, 2, {0, 0}},
        {"k.1", "U8", 2, 10, 8, {1, 1, 1, 1, 5, 1, 1, 2}},
        {"late", "F32", 12, 8, 2, {2, 1}},
        {"empty.last", "F64", 20, 0, 3, {3, 0, UINT64_C(1) << 53}},
    };
    assert_int_equal(kvg_safetensors_count(file), COUNT(expected));
    for (size_t i = 0; i < COUNT(expected); i++) {
        const kvg_safetensors_entry *entry = kvg_safetensors_at(file, i);
        assert_string_equal(entry->name, expected[i].name);
        assert_string_equal(entry->dtype, expected[i].dtype);
        assert_int_equal(entry->bytes, expected[i].bytes);
        assert_int_equal(entry->rank, expected[i].rank);
        assert_memory_equal(entry->shape, expected[i].shape, sizeof entry->shape);
        const unsigned char *data = entry->data;
        for (size_t k = 0; k < entry->bytes; k++) assert_int_equal(data[k], expected[i].begin + k);
        const kvg_safetensors_entry *found = NULL;
        assert_int_equal(kvg_safetensors_find(file, expected[i].name, &found), KVG_OK);
        assert_ptr_equal(found, entry);
    }
    assert_null(kvg_safetensors_at(file, COUNT(expected)));
    assert_string_equal(kvg_safetensors_metadata(file, "model"), "tiny");
    assert_string_equal(kvg_safetensors_metadata(file, "empty"), "");
    assert_null(kvg_safetensors_metadata(file, "Model"));
}

static void test_safetensors_reads_a_good_file(void **state)
{
    (void)state;
    image made = make_image(good_header, 20);
    kvg_safetensors *file = NULL;
    kvg_status s = kvg_safetensors_parse("a.safetensors", made.bytes, made.size, &file);
    if (s != KVG_OK) fail_msg("%s", kvg_error_text());
    check_good(file);
    kvg_safetensors_close(file);
    free(made.bytes);
}

static void test_safetensors_may_hold_no_tensor(void **state)
{
    (void)state;
    static const char *const headers[] = {"{}", "{} ", "{ }", "{\"__metadata__\":{}}"};
    for (size_t i = 0; i < COUNT(headers); i++) {
        image made = make_image(headers[i], 0);
        kvg_safetensors *file = NULL;
        assert_int_equal(kvg_safetensors_parse("a.safetensors", made.bytes, made.size, &file), KVG_OK);
        assert_int_equal(kvg_safetensors_count(file), 0);
        assert_null(kvg_safetensors_at(file, 0));
        assert_null(kvg_safetensors_metadata(file, "model"));
        const kvg_safetensors_entry *found = NULL;
        kvg_status s = kvg_safetensors_find(file, "k", &found);
        assert_fails(s, KVG_ERR_NOT_FOUND, "a.safetensors: no tensor 'k' among its 0");
        kvg_safetensors_close(file);
        free(made.bytes);
    }
}

static void test_safetensors_knows_the_size_of_every_dtype(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t bytes;
    } dtypes[] = {
        {"BOOL", 1}, {"U8", 1},  {"I8", 1},   {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}, {"I16", 2}, {"U16", 2},
        {"F16", 2},  {"BF16", 2}, {"I32", 4}, {"U32", 4},     {"F32", 4},     {"F64", 8},     {"I64", 8}, {"U64", 8},
    };
    for (size_t i = 0; i < COUNT(dtypes); i++) {
        for (size_t bytes = 0; bytes <= 9 * 3; bytes++) {
            char header[200];
            snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"%s\",\"shape\":[3],\"data_offsets\":[0,%zu]}}",
                     dtypes[i].name, bytes);
            image made = make_image(header, bytes);
            kvg_status s = parse_and_close(made.bytes, made.size);
            if (bytes == 3 * dtypes[i].bytes) assert_int_equal(s, KVG_OK);
            else assert_fails(s, KVG_ERR_INVALID, "a.safetensors: header: $.a: dtype and shape take ");
            free(made.bytes);
        }
    }
}

static void test_safetensors_refuses_every_cut_file(void **state)
{
    (void)state;
    image made = make_image(good_header, 20);
    for (size_t size = 0; size < made.size; size++) {
        unsigned char *cut = malloc(size ? size : 1);
        assert_non_null(cut);
        memcpy(cut, made.bytes, size);
        assert_int_equal(parse_and_close(cut, size), KVG_ERR_INVALID);
        free(cut);
    }
    free(made.bytes);
    image longer = make_image(good_header, 21);
    assert_fails(parse_and_close(longer.bytes, longer.size), KVG_ERR_INVALID, "1 bytes after the last tensor");
    free(longer.bytes);
}

static void test_safetensors_bounds_the_header(void **state)
{
    (void)state;
    char *header = malloc(KVG_JSON_MAX_BYTES + 2);
    assert_non_null(header);
    memset(header, ' ', KVG_JSON_MAX_BYTES + 1);
    memcpy(header, "{}", 2);
    header[KVG_JSON_MAX_BYTES] = '\0';
    image fits = make_image(header, 0);
    assert_int_equal(parse_and_close(fits.bytes, fits.size), KVG_OK);
    header[KVG_JSON_MAX_BYTES] = ' ';
    header[KVG_JSON_MAX_BYTES + 1] = '\0';
    image more = make_image(header, 0);
    assert_fails(parse_and_close(more.bytes, more.size), KVG_ERR_INVALID,
                 "header of 16777217 bytes is over this reader's limit of 16777216");
    free(fits.bytes);
    free(more.bytes);
    free(header);
}

static void test_safetensors_suggests_the_nearest_tensor(void **state)
{
    (void)state;
    image made = make_image("{\"layers.0.k\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
                            "\"layers.10.v\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0);
    kvg_safetensors *file = NULL;
    assert_int_equal(kvg_safetensors_parse("a.safetensors", made.bytes, made.size, &file), KVG_OK);
    static const struct {
        const char *name, *error;
    } cases[] = {
        {"Layers.0.K", "a.safetensors: no tensor 'Layers.0.K' (did you mean 'layers.0.k'?)"},
        {"layer.10.v", "(did you mean 'layers.10.v'?)"},
        {"layers.1.v", "(did you mean 'layers.10.v'?)"},
        {"q", "a.safetensors: no tensor 'q' among its 2"},
        {"__metadata__", "no tensor '__metadata__' among its 2"},
        {"layers\n", "no tensor 'layers?'"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const kvg_safetensors_entry *found = NULL;
        assert_fails(kvg_safetensors_find(file, cases[i].name, &found), KVG_ERR_NOT_FOUND, cases[i].error);
    }
    kvg_safetensors_close(file);
    free(made.bytes);
}

/* ---- files ---- */

static char folder[] = "/tmp/kvg_test_safetensors_XXXXXX";

static const char *in_folder(const char *file)
{
    static char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return path;
}

static void write_file(const char *file, const void *bytes, size_t size)
{
    FILE *f = fopen(in_folder(file), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* Linux: whether this process maps a file of the folder. */
static bool is_mapped(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    bool found = false;
    char line[512];
    while (fgets(line, sizeof line, maps)) found |= strstr(line, folder) != NULL;
    fclose(maps);
    return found;
}

static void test_safetensors_opens_only_regular_files(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_fails(open_and_close(folder), KVG_ERR_IO, "is a folder");
    assert_fails(open_and_close(in_folder("none")), KVG_ERR_NOT_FOUND, "none: no such file");
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    assert_fails(open_and_close(in_folder("fifo")), KVG_ERR_IO, "fifo: is not a regular file");
    write_file("empty", "", 0);
    assert_fails(open_and_close(in_folder("empty")), KVG_ERR_INVALID, "empty: is empty");
    write_file("short", "\2\0\0\0", 4);
    assert_fails(open_and_close(in_folder("short")), KVG_ERR_INVALID, "short: 4 bytes cannot hold the header's length");
    image made = make_image(good_header, 20);
    write_file("good", made.bytes, made.size);
    free(made.bytes);
    kvg_safetensors *file = NULL;
    assert_int_equal(kvg_safetensors_open(in_folder("good"), &file), KVG_OK);
    static const char *const files[] = {"fifo", "empty", "short", "good"};
    for (size_t i = 0; i < COUNT(files); i++) assert_int_equal(unlink(in_folder(files[i])), 0);
    assert_int_equal(rmdir(folder), 0);
    check_good(file); /* the mapping outlives descriptor and name */
    assert_true(is_mapped());
    kvg_safetensors_close(file);
    assert_false(is_mapped());
}

/* ---- memory ---- */

static void test_safetensors_survives_every_failed_allocation(void **state)
{
    (void)state;
    image made = make_image(good_header, 20);
    failing_memory_start();
    kvg_status s = KVG_ERR_MEMORY;
    int failures = -1;
    for (int n = 0; s == KVG_ERR_MEMORY; n++, failures++) {
        allocations_left = n;
        kvg_safetensors *file = NULL;
        s = kvg_safetensors_parse("a.safetensors", made.bytes, made.size, &file);
        if (s == KVG_ERR_MEMORY) assert_non_null(strstr(kvg_error_text(), "a.safetensors: "));
        const kvg_safetensors_entry *found = NULL;
        allocations_left = 0;
        if (s == KVG_OK) assert_fails(kvg_safetensors_find(file, "x", &found), KVG_ERR_MEMORY, "no memory for 6 names");
        kvg_safetensors_close(file);
        assert_int_equal(allocations_live, 0);
    }
    cJSON_InitHooks(NULL);
    free(made.bytes);
    assert_int_equal(s, KVG_OK);
    assert_true(failures > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors_refuses_every_bad_file),
        cmocka_unit_test(test_safetensors_reads_a_good_file),
        cmocka_unit_test(test_safetensors_may_hold_no_tensor),
        cmocka_unit_test(test_safetensors_knows_the_size_of_every_dtype),
        cmocka_unit_test(test_safetensors_refuses_every_cut_file),
        cmocka_unit_test(test_safetensors_bounds_the_header),
        cmocka_unit_test(test_safetensors_suggests_the_nearest_tensor),
        cmocka_unit_test(test_safetensors_opens_only_regular_files),
        cmocka_unit_test(test_safetensors_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
