/* Values whose kind says all that there is to say. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "harness/config/config_axes.h"

static kvg_status read_factor(const kvg_value *value, kvg_json json, void *object)
{
    double x = 0;
    kvg_status s = kvg_json_double(json, &x);
    const float factor = (float)x;
    kvg_value_set_factor(value, factor, object);
    if (s || x == 0 || (factor > 0 && factor <= FLT_MAX)) return s;
    return kvg_json_fail(json, "expected an f32 above 0, or 0 for none");
}

/* The place of a name in a list; the list's length if it is not there. */
static size_t find_name(const char *const *names, const char *name)
{
    size_t i = 0;
    while (names[i] && strcmp(names[i], name) != 0) i++;
    return i;
}

static kvg_status read_choice(const kvg_value *value, const char *what, kvg_json json, void *object)
{
    const char *name;
    kvg_status s = kvg_json_string(json, &name);
    if (s) return s;
    const size_t index = find_name(value->names, name);
    if (!value->names[index]) return kvg_json_fail_name(json, what, name, value->names, index);
    kvg_value_set_number(value, value->least + index, object);
    return KVG_OK;
}

kvg_status config_read_value(const kvg_value *value, const char *name, kvg_json json, void *object)
{
    uint64_t number = 0;
    bool flag = false;
    kvg_status s = KVG_OK;
    switch (value->kind) {
    case KVG_VALUE_COUNT:
        s = kvg_json_u64(json, value->least, value->most, &number);
        if (!s) kvg_value_set_number(value, number, object);
        return s;
    case KVG_VALUE_FLAG:
        s = kvg_json_bool(json, &flag);
        if (!s) kvg_value_set_number(value, flag, object);
        return s;
    case KVG_VALUE_FACTOR: return read_factor(value, json, object);
    case KVG_VALUE_CHOICE: return read_choice(value, name, json, object);
    case KVG_VALUE_WORD:
    case KVG_VALUE_SIDES:
    case KVG_VALUE_OWN: break;
    }
    return KVG_OK;
}

void config_take_fallback(const kvg_value *value, const char *fallback, void *object)
{
    if (!*fallback || strcmp(fallback, "required") == 0) return;
    switch (value->kind) {
    case KVG_VALUE_COUNT: kvg_value_set_number(value, strtoull(fallback, NULL, 10), object); return;
    case KVG_VALUE_FLAG: kvg_value_set_number(value, strcmp(fallback, "true") == 0, object); return;
    case KVG_VALUE_FACTOR: kvg_value_set_factor(value, strtof(fallback, NULL), object); return;
    case KVG_VALUE_CHOICE:
        kvg_value_set_number(value, value->least + find_name(value->names, fallback), object);
        return;
    case KVG_VALUE_WORD:
    case KVG_VALUE_SIDES:
    case KVG_VALUE_OWN: return;
    }
}

kvg_status config_read_sides(kvg_json value, kvg_json out[2])
{
    static const char *const keys[] = {"k", "v"};
    out[KVG_K] = out[KVG_V] = value;
    if (!kvg_json_is_object(value)) return KVG_OK;
    kvg_status s = kvg_json_check_keys(value, keys, 2);
    if (!s) s = kvg_json_get(value, "k", &out[KVG_K]);
    if (!s) s = kvg_json_get(value, "v", &out[KVG_V]);
    return s;
}
