#define _POSIX_C_SOURCE 200809L
#include "golden/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "tests/golden/bad_files.h"
#include "tests/golden/failing_memory.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Parses from a copy of exactly `size` bytes, so that ASan and Valgrind see a read past the end. */
static kvg_status parse_bytes(const char *text, size_t size, kvg_json_doc **doc)
{
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    kvg_status s = kvg_json_parse("a.json", copy, size, doc);
    free(copy);
    return s;
}

static kvg_json_doc *parse(const char *text)
{
    kvg_json_doc *doc = NULL;
    if (parse_bytes(text, strlen(text), &doc) != KVG_OK) fail_msg("%.200s: %s", text, kvg_error_text());
    return doc;
}

static kvg_json get(kvg_json object, const char *key)
{
    kvg_json value = {0};
    if (kvg_json_get(object, key, &value) != KVG_OK) fail_msg("%s", kvg_error_text());
    return value;
}

static void assert_fails(kvg_status status, kvg_status expected, const char *text)
{
    if (status != expected) fail_msg("'%s': status %s: %s", text, kvg_status_name(status), kvg_error_text());
    if (!strstr(kvg_error_text(), text)) fail_msg("'%s' is not in '%s'", text, kvg_error_text());
}

static kvg_status open_and_close(const char *path)
{
    kvg_json_doc *doc = NULL;
    kvg_status s = kvg_json_open(path, &doc);
    if (s != KVG_OK && doc) fail_msg("%s: a failed open left a document", path);
    kvg_json_close(doc);
    return s;
}

static void test_json_refuses_every_bad_file(void **state)
{
    (void)state;
    bad_files_check(".json", open_and_close);
}

static void test_json_reads_every_kind_of_value(void **state)
{
    (void)state;
    kvg_json_doc *doc = parse("{\"s\": \"text\", \"t\": true, \"f\": false, \"n\": null, \"i\": 12, \"d\": -2.5e-1,"
                              " \"a\": [1, [2, 3], {}], \"o\": {\"k\": \"v\"}}");
    kvg_json root = kvg_json_root(doc);
    assert_true(kvg_json_is_object(root));
    assert_int_equal(kvg_json_count(root), 8);
    assert_null(kvg_json_key(root));
    assert_string_equal(kvg_json_key(kvg_json_at(root, 0)), "s");
    assert_string_equal(kvg_json_key(kvg_json_at(root, 7)), "o");

    const char *text = NULL;
    assert_int_equal(kvg_json_string(get(root, "s"), &text), KVG_OK);
    assert_string_equal(text, "text");
    bool flag = false;
    assert_int_equal(kvg_json_bool(get(root, "t"), &flag), KVG_OK);
    assert_true(flag);
    assert_int_equal(kvg_json_bool(get(root, "f"), &flag), KVG_OK);
    assert_false(flag);
    uint64_t integer = 0;
    assert_int_equal(kvg_json_u64(get(root, "i"), 12, 12, &integer), KVG_OK);
    assert_int_equal(integer, 12);
    double number = 0;
    assert_int_equal(kvg_json_double(get(root, "d"), &number), KVG_OK);
    assert_true(number == -0.25);
    assert_int_equal(kvg_json_double(get(root, "i"), &number), KVG_OK);
    assert_true(number == 12);

    kvg_json array = get(root, "a");
    assert_true(kvg_json_is_array(array));
    assert_false(kvg_json_is_object(array));
    assert_int_equal(kvg_json_count(array), 3);
    assert_null(kvg_json_key(kvg_json_at(array, 0)));
    assert_int_equal(kvg_json_u64(kvg_json_at(kvg_json_at(array, 1), 1), 0, 9, &integer), KVG_OK);
    assert_int_equal(integer, 3);
    assert_int_equal(kvg_json_count(kvg_json_at(array, 2)), 0);
    assert_true(kvg_json_is_string(get(get(root, "o"), "k")));
    assert_true(kvg_json_is_number(get(root, "i")));
    kvg_json_close(doc);
}

static void test_json_takes_all_that_the_grammar_allows(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{}", "[]", "0", "-0", "true", "false", "null", "\"\"", " \t\r\n[ ] \n", "[-1.5E+10, 1e-3, 0.0e0, 0e-999, 10]",
        "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0001\\uD83D\\uDE00\"]", "{\"a\":{\"b\":[{\"c\":[]}]}}",
        "{\"\": 1, \" \": 2, \"A\": 3, \"a\": 4}", /* keys of different case are different keys */
        "[\"\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\x7f\"]",
        "[0.1111111111111111111111111111111111111111111111111111111111111]", /* 63 characters */
        "[1.7976931348623157e308, 5e-324]",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", /* 32 deep */
    };
    for (size_t i = 0; i < COUNT(good); i++) kvg_json_close(parse(good[i]));
}

static void test_json_decodes_escapes(void **state)
{
    (void)state;
    kvg_json_doc *doc = parse("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"]");
    const char *text = NULL;
    assert_int_equal(kvg_json_string(kvg_json_at(kvg_json_root(doc), 0), &text), KVG_OK);
    assert_string_equal(text, "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    kvg_json_close(doc);
}

static void test_json_refuses_every_cut_text(void **state)
{
    (void)state;
    kvg_json_doc *none = NULL;
    assert_fails(parse_bytes("", 0, &none), KVG_ERR_INVALID, "a.json: is empty");
    const char *text = "{\"a\": [1.5e3, true, \"\\u00e9\\n\xe2\x82\xac\"], \"b\": {\"c\": null}}";
    for (size_t size = 0; size < strlen(text); size++) {
        kvg_json_doc *doc = NULL;
        assert_int_equal(parse_bytes(text, size, &doc), KVG_ERR_INVALID);
        assert_null(doc);
    }
    kvg_json_close(parse(text));
}

static char *repeat(const char *open, const char *item, size_t times, const char *close)
{
    size_t length = strlen(item);
    char *text = malloc(strlen(open) + times * length + strlen(close) + 1);
    assert_non_null(text);
    strcpy(text, open);
    char *end = text + strlen(open);
    for (size_t i = 0; i < times; i++, end += length) memcpy(end, item, length);
    strcpy(end, close);
    return text;
}

static void test_json_bounds_values_and_bytes(void **state)
{
    (void)state;
    kvg_json_doc *doc = NULL;
    char *fits = repeat("[", "0,", (1 << 20) - 2, "0]"); /* with the array itself, 2^20 values */
    kvg_json_close(parse(fits));
    free(fits);
    char *more = repeat("[", "0,", (1 << 20) - 1, "0]");
    assert_fails(parse_bytes(more, strlen(more), &doc), KVG_ERR_INVALID, "more than 1048576 values");
    free(more);
    char *bytes = repeat("[\"", "x", KVG_JSON_MAX_BYTES - 4, "\"]");
    kvg_json_close(parse(bytes));
    free(bytes);
    char *large = repeat("[\"", "x", KVG_JSON_MAX_BYTES - 3, "\"]");
    assert_fails(parse_bytes(large, strlen(large), &doc), KVG_ERR_INVALID, "16777217 bytes of JSON are over the limit");
    free(large);
}

static void test_json_reaches_elements_in_constant_time(void **state)
{
    (void)state;
    enum { N = 300000 }; /* a walk from the first element for each would be 45 thousand million steps */
    char *text = repeat("[", "7,", N - 1, "7]");
    kvg_json_doc *doc = parse(text);
    kvg_json root = kvg_json_root(doc);
    uint64_t sum = 0;
    for (size_t i = 0; i < kvg_json_count(root); i++) {
        uint64_t x = 0;
        assert_int_equal(kvg_json_u64(kvg_json_at(root, i), 7, 7, &x), KVG_OK);
        sum += x;
    }
    assert_int_equal(sum, UINT64_C(7) * N);
    kvg_json_close(doc);
    free(text);
}

static void test_json_finds_duplicates_among_many_keys(void **state)
{
    (void)state;
    enum { N = 100000 };
    char *text = malloc(16 * N + 32);
    assert_non_null(text);
    size_t used = 0;
    for (int i = 0; i < N; i++) used += (size_t)sprintf(text + used, "%c\"k%d\":0", i ? ',' : '{', i);
    strcpy(text + used, "}");
    kvg_json_close(parse(text));
    strcpy(text + used, ",\"k77\":0}");
    kvg_json_doc *doc = NULL;
    assert_fails(parse_bytes(text, strlen(text), &doc), KVG_ERR_INVALID, "$: duplicate key 'k77'");
    free(text);
}

static void test_json_integers_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t min, max;
        const char *error; /* NULL: is read */
        uint64_t value;
    } cases[] = {
        {"0", 0, 0, NULL, 0},
        {"9007199254740992", 0, UINT64_MAX, NULL, UINT64_C(1) << 53},
        {"9007199254740991", 0, UINT64_MAX, NULL, (UINT64_C(1) << 53) - 1},
        {"4294967296", 0, UINT64_MAX, NULL, UINT64_C(1) << 32}, /* cJSON's valueint saturates */
        {"9007199254740993", 0, UINT64_MAX, "from 0 to 9007199254740992, got 9007199254740993", 0},
        {"18446744073709551616", 0, UINT64_MAX, "got 18446744073709551616", 0},      /* 2^64 */
        {"18446744073709551617", 0, UINT64_MAX, "got 18446744073709551617", 0},      /* wraps to 1 */
        {"100000000000000000000000000001", 0, UINT64_MAX, "got 10000000000000", 0},
        {"7", 8, 9, "expected an integer from 8 to 9, got 7", 0},
        {"10", 8, 9, "expected an integer from 8 to 9, got 10", 0},
        {"8", 8, 9, NULL, 8},
        {"9", 8, 9, NULL, 9},
        {"-1", 0, 9, "got -1", 0},
        {"-0", 0, 9, "got -0", 0},
        {"1.0", 0, 9, "got 1.0 (write it without fraction or exponent)", 0},
        {"1e0", 0, 9, "got 1e0 (write it without", 0},
        {"0.99999999999999999999", 0, 9, "got 0.99999999999999999999", 0}, /* as a double it is 1 */
        {"\"1\"", 0, 9, "expected an integer from 0 to 9, got a string", 0},
        {"null", 0, 9, "got null", 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"before\": [1, \"2\\\"3\", {\"4\": 5.5}], \"x\": %s, \"after\": 6}",
                 cases[i].text);
        kvg_json_doc *doc = parse(text);
        uint64_t value = 0;
        kvg_status s = kvg_json_u64(get(kvg_json_root(doc), "x"), cases[i].min, cases[i].max, &value);
        if (cases[i].error) {
            assert_fails(s, KVG_ERR_INVALID, cases[i].error);
            assert_fails(s, KVG_ERR_INVALID, "a.json: $.x: ");
        } else {
            assert_int_equal(s, KVG_OK);
            assert_int_equal(value, cases[i].value);
        }
        kvg_json_close(doc);
    }
}

static void test_json_hex_strings(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        uint64_t value;
    } cases[] = {
        {"0x0", true, 0},
        {"0xFfffFfffFfffFfff", true, UINT64_MAX},
        {"0x0123456789abcdef", true, UINT64_C(0x0123456789abcdef)},
        {"0x", false, 0},
        {"", false, 0},
        {"12", false, 0},
        {"0X12", false, 0},
        {"0x12345678123456781", false, 0},
        {"0x12 ", false, 0},
        {" 0x12", false, 0},
        {"0x-1", false, 0},
        {"-0x1", false, 0},
        {"0x1g", false, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[64];
        snprintf(text, sizeof text, "[\"%s\"]", cases[i].text);
        kvg_json_doc *doc = parse(text);
        uint64_t value = 0;
        kvg_status s = kvg_json_hex64(kvg_json_at(kvg_json_root(doc), 0), &value);
        if (cases[i].good) assert_int_equal(s, KVG_OK);
        else assert_fails(s, KVG_ERR_INVALID, "$[0]: expected a string of \"0x\" and 1 to 16 hex digits, got '");
        assert_int_equal(value, cases[i].value);
        kvg_json_close(doc);
    }
}

static void test_json_names_the_type_it_wanted(void **state)
{
    (void)state;
    kvg_json_doc *doc = parse("[{}, [], \"s\", 1, true, null]");
    kvg_json root = kvg_json_root(doc);
    kvg_json none = kvg_json_at(root, 6);
    const char *text = NULL;
    double number = 0;
    bool flag = false;
    uint64_t hex = 0;
    static const char *const keys[] = {"a"};
    kvg_json at[6];
    for (size_t i = 0; i < COUNT(at); i++) at[i] = kvg_json_at(root, i);
    assert_fails(kvg_json_string(at[0], &text), KVG_ERR_INVALID, "$[0]: expected a string, got an object");
    assert_fails(kvg_json_double(at[1], &number), KVG_ERR_INVALID, "$[1]: expected a number, got an array");
    assert_fails(kvg_json_bool(at[2], &flag), KVG_ERR_INVALID, "$[2]: expected true or false, got a string");
    assert_fails(kvg_json_hex64(at[3], &hex), KVG_ERR_INVALID, "hex digits, got a number");
    assert_fails(kvg_json_string(at[4], &text), KVG_ERR_INVALID, "$[4]: expected a string, got true");
    assert_fails(kvg_json_check_keys(at[5], keys, 1), KVG_ERR_INVALID, "$[5]: expected an object, got null");
    assert_fails(kvg_json_get(at[1], "a", &none), KVG_ERR_INVALID, "$[1]: expected an object, got an array");
    assert_fails(kvg_json_get(at[0], "a", &none), KVG_ERR_INVALID, "$[0]: missing key 'a'");
    assert_null(none.item);
    assert_fails(kvg_json_string(none, &text), KVG_ERR_INVALID, "expected a string, got nothing");
    assert_false(kvg_json_has(root, "a"));
    assert_false(kvg_json_has(kvg_json_at(root, 2), "a"));
    assert_int_equal(kvg_json_count(none), 0);
    assert_null(kvg_json_key(none));
    assert_false(kvg_json_is_object(none));
    kvg_json_close(doc);
}

static void test_json_suggests_the_nearest_key(void **state)
{
    (void)state;
    static const char *const known[] = {"fill", "tokens", "head_dim", "k_format", "v_format", "seed"};
    static const struct {
        const char *key;
        const char *error; /* NULL: is known */
    } cases[] = {
        {"fill", NULL},
        {"Fill", "a.json: $.case: unknown key 'Fill' (did you mean 'fill'?)"},
        {"HEAD_DIM", "(did you mean 'head_dim'?)"},
        {"fil", "(did you mean 'fill'?)"},
        {"fills", "(did you mean 'fill'?)"},
        {"tokns", "(did you mean 'tokens'?)"},
        {"headdim", "(did you mean 'head_dim'?)"},
        {"V_fromat", "(did you mean 'v_format'?)"},  /* 2 of 8; k_format is 3 away */
        {"my_head_dim", "(did you mean 'head_dim'?)"}, /* 3 of 11 */
        {"the_head_dim", "(did you mean 'head_dim'?)"}, /* 4 of 12 */
        {"no_head_dim_x", "unknown key 'no_head_dim_x'; known: fill, tokens, head_dim, k_format, v_format, seed"},
        {"k_formt", "(did you mean 'k_format'?)"},      /* v_format is near too, but not nearest */
        {"xy", "unknown key 'xy'; known: fill"},
        {"", "unknown key ''; known: fill"},
        {"a\\nb\\u0007c", "unknown key 'a?b?c'; known: fill"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[100];
        snprintf(text, sizeof text, "{\"case\": {\"seed\": 1, \"%s\": 2}}", cases[i].key);
        kvg_json_doc *doc = parse(text);
        kvg_status s = kvg_json_check_keys(get(kvg_json_root(doc), "case"), known, COUNT(known));
        if (cases[i].error) assert_fails(s, KVG_ERR_INVALID, cases[i].error);
        else assert_int_equal(s, KVG_OK);
        kvg_json_close(doc);
    }
}

static void test_json_lists_the_known_names_where_none_is_near(void **state)
{
    (void)state;
    static const char *const known[] = {"cd", "e"};
    char name[101];
    memset(name, 'n', 100);
    name[100] = '\0';
    kvg_json_doc *doc = parse("[0]");
    kvg_json value = kvg_json_at(kvg_json_root(doc), 0);
    /* Two edits make "cd" of "ab" and one makes "e" of "a": all of the name, so neither is near. */
    assert_fails(kvg_json_fail_name(value, "op", "ab", known, 2), KVG_ERR_INVALID,
                 "a.json: $[0]: unknown op 'ab'; known: cd, e");
    assert_fails(kvg_json_fail_name(value, "op", "a", known, 2), KVG_ERR_INVALID, "unknown op 'a'; known: cd, e");
    assert_fails(kvg_json_fail_name(value, "op", "a", known, 0), KVG_ERR_INVALID, "unknown op 'a'; known: none");
    assert_fails(kvg_json_fail_name(value, "op", name, known, 2), KVG_ERR_INVALID, "nnnn...'; known: cd, e");
    kvg_json_close(doc);
}

static void test_json_keys_have_case(void **state)
{
    (void)state;
    kvg_json_doc *doc = parse("{\"Seed\": 1}");
    kvg_json value = {0};
    assert_false(kvg_json_has(kvg_json_root(doc), "seed"));
    assert_true(kvg_json_has(kvg_json_root(doc), "Seed"));
    assert_fails(kvg_json_get(kvg_json_root(doc), "seed", &value), KVG_ERR_INVALID, "$: missing key 'seed'");
    kvg_json_close(doc);
}

static void test_json_errors_give_the_path(void **state)
{
    (void)state;
    kvg_json_doc *doc = parse("{\"cases\": [0, 1, {\"fill\": {\"a b\": [[2]]}}]}");
    kvg_json fill = get(kvg_json_at(get(kvg_json_root(doc), "cases"), 2), "fill");
    assert_fails(kvg_json_fail(fill, "bad %d", 5), KVG_ERR_INVALID, "a.json: $.cases[2].fill: bad 5");
    assert_fails(kvg_json_fail(kvg_json_root(doc), "bad"), KVG_ERR_INVALID, "a.json: $: bad");
    kvg_json inner = kvg_json_at(kvg_json_at(get(fill, "a b"), 0), 0);
    assert_fails(kvg_json_fail(inner, "bad"), KVG_ERR_INVALID, "a.json: $.cases[2].fill[\"a b\"][0][0]: bad");
    kvg_json_close(doc);
}

/* Whatever names a file holds, the error is one line, keeps the end of the path and has room for the message. */
static void test_json_errors_stay_one_line(void **state)
{
    (void)state;
    char key[301];
    memset(key, 'k', 300);
    key[300] = '\0';
    char text[4096] = "";
    char *end = text;
    for (int i = 0; i < 8; i++) end += sprintf(end, "{\"%s\\n\":", key);
    end += sprintf(end, "{\"last\": 1}");
    for (int i = 0; i < 8; i++) end += sprintf(end, "}");
    char name[1001];
    memset(name, 'n', 1000);
    strcpy(name + 990, "\n/end.json");
    kvg_json_doc *doc = NULL;
    assert_int_equal(kvg_json_parse(name, text, strlen(text), &doc), KVG_OK);
    kvg_json value = kvg_json_root(doc);
    while (kvg_json_is_object(value)) value = kvg_json_at(value, 0);
    const char *string = NULL;
    kvg_status s = kvg_json_string(value, &string);
    assert_fails(s, KVG_ERR_INVALID, "/end.json: ...");
    assert_fails(s, KVG_ERR_INVALID, ".last: expected a string, got a number");
    for (const char *c = kvg_error_text(); *c; c++) assert_true((unsigned char)*c >= 0x20);
    kvg_json_close(doc);
}

/* ---- files ---- */

static char folder[] = "/tmp/kvg_test_json_XXXXXX";

static const char *in_folder(const char *file)
{
    static char path[100];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return path;
}

static void write_file(const char *file, const char *text, off_t size)
{
    FILE *f = fopen(in_folder(file), "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    if (size > 0) assert_int_equal(truncate(in_folder(file), size), 0);
}

static void test_json_opens_only_regular_files(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_fails(open_and_close(folder), KVG_ERR_IO, "is a folder");
    assert_fails(open_and_close(in_folder("none.json")), KVG_ERR_NOT_FOUND, "none.json: no such file");
    assert_int_equal(mkfifo(in_folder("fifo.json"), 0600), 0);
    assert_fails(open_and_close(in_folder("fifo.json")), KVG_ERR_IO, "fifo.json: is not a regular file");
    assert_fails(open_and_close("/dev/null"), KVG_ERR_IO, "/dev/null: is not a regular file");
    write_file("empty.json", "", 0);
    assert_fails(open_and_close(in_folder("empty.json")), KVG_ERR_INVALID, "empty.json: is empty");
    write_file("large.json", "{}", KVG_JSON_MAX_BYTES + 1);
    assert_fails(open_and_close(in_folder("large.json")), KVG_ERR_IO, "large.json: 16777217 bytes of JSON are over");
    write_file("good.json", "{\"a\": 1}\n", 0);
    assert_int_equal(open_and_close(in_folder("good.json")), KVG_OK);
    static const char *const files[] = {"fifo.json", "empty.json", "large.json", "good.json"};
    for (size_t i = 0; i < COUNT(files); i++) assert_int_equal(unlink(in_folder(files[i])), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* ---- memory ---- */

static void test_json_survives_every_failed_allocation(void **state)
{
    (void)state;
    failing_memory_start();
    const char *text = "{\"a\": [1, \"two\", {\"b\": null}], \"c\": -3.5, \"d\": {}}";
    kvg_status s = KVG_ERR_MEMORY;
    int failures = -1;
    for (int n = 0; s == KVG_ERR_MEMORY; n++, failures++) {
        allocations_left = n;
        kvg_json_doc *doc = NULL;
        s = kvg_json_parse("a.json", text, strlen(text), &doc);
        if (s == KVG_ERR_MEMORY) assert_non_null(strstr(kvg_error_text(), "a.json: no memory for "));
        char *printed = s ? NULL : kvg_json_print(kvg_json_root(doc));
        if (printed) assert_string_equal(printed, "{\"a\":[1,\"two\",{\"b\":null}],\"c\":-3.5,\"d\":{}}");
        else s = KVG_ERR_MEMORY;
        cJSON_free(printed);
        kvg_json_close(doc);
        assert_int_equal(allocations_live, 0);
    }
    cJSON_InitHooks(NULL);
    assert_int_equal(s, KVG_OK);
    assert_true(failures > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_refuses_every_bad_file),
        cmocka_unit_test(test_json_reads_every_kind_of_value),
        cmocka_unit_test(test_json_takes_all_that_the_grammar_allows),
        cmocka_unit_test(test_json_decodes_escapes),
        cmocka_unit_test(test_json_refuses_every_cut_text),
        cmocka_unit_test(test_json_bounds_values_and_bytes),
        cmocka_unit_test(test_json_reaches_elements_in_constant_time),
        cmocka_unit_test(test_json_finds_duplicates_among_many_keys),
        cmocka_unit_test(test_json_integers_are_exact),
        cmocka_unit_test(test_json_hex_strings),
        cmocka_unit_test(test_json_names_the_type_it_wanted),
        cmocka_unit_test(test_json_suggests_the_nearest_key),
        cmocka_unit_test(test_json_lists_the_known_names_where_none_is_near),
        cmocka_unit_test(test_json_keys_have_case),
        cmocka_unit_test(test_json_errors_give_the_path),
        cmocka_unit_test(test_json_errors_stay_one_line),
        cmocka_unit_test(test_json_opens_only_regular_files),
        cmocka_unit_test(test_json_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
