/* Any bytes as JSON. Beyond "no crash": what is read can be walked and every typed read of it answers; what is refused
 * leaves a one-line text and is never taken for lack of memory. */
#include <string.h>

#include "golden/json.h"
#include "tests/fuzz/fuzz_require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_failure(kvg_status s)
{
    require(s == KVG_ERR_INVALID);
    const char *text = kvg_error_text();
    require(strncmp(text, "fuzz.json: ", 11) == 0);
    require_line(text);
}

static void check_value(kvg_json value, size_t depth)
{
    static const char *const known[] = {"cases", "fill", "seed"};
    const char *string = NULL;
    bool flag = false;
    uint64_t integer = 0;
    uint64_t hex = 0;
    double number = 0;
    kvg_json member = {0};
    require(depth <= KVG_JSON_MAX_DEPTH);
    kvg_status reads[] = {
        kvg_json_string(value, &string), kvg_json_bool(value, &flag), kvg_json_u64(value, 0, UINT64_MAX, &integer),
        kvg_json_double(value, &number), kvg_json_hex64(value, &hex), kvg_json_check_keys(value, known, 3),
        kvg_json_get(value, "seed", &member),
    };
    require((reads[0] == KVG_OK) >= (reads[4] == KVG_OK)); /* hex strings are strings */
    require((reads[3] == KVG_OK) >= (reads[2] == KVG_OK)); /* integers are numbers, and exact as doubles */
    if (reads[2] == KVG_OK) require((double)integer == number && (uint64_t)number == integer);
    if (reads[3] == KVG_OK) require(number - number == 0);
}

static void walk(kvg_json value, size_t depth)
{
    check_value(value, depth);
    for (size_t i = 0; i < kvg_json_count(value); i++) {
        kvg_json child = kvg_json_at(value, i);
        require((kvg_json_key(child) != NULL) == kvg_json_is_object(value));
        if (kvg_json_is_object(value)) {
            kvg_json same = {0};
            if (i < 16) require(kvg_json_get(value, kvg_json_key(child), &same) == KVG_OK && same.item == child.item);
        }
        check_failure(kvg_json_fail(child, "x"));
        walk(child, depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kvg_json_doc *doc = NULL;
    kvg_status s = kvg_json_parse("fuzz.json", (const char *)data, size, &doc);
    if (s == KVG_OK) walk(kvg_json_root(doc), 0);
    else check_failure(s);
    kvg_json_close(doc);
    return 0;
}
