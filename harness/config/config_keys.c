/* The objects that axes take: config_keys.def as a table, and one way to read them all. */
#include <stdint.h>
#include <string.h>

#include "harness/config/config_axes.h"

static const char *const config_pairings[] = {"adjacent", "halves", NULL};
static const char *const config_actions[] = {"fail", "fallback", NULL};
static const char *const config_gatings[] = {"kvgold", "design", NULL};

static const config_key keys[] = {
#define KEY(OF, key, may_be, without, means)                                                                          \
    {.object = CONFIG_##OF, .name = #key, .value = KVG_VALUE_OF_##may_be, .fallback = without, .meaning = means},
#include "harness/config/config_keys.def"
#undef KEY
};
enum { KEYS = sizeof keys / sizeof keys[0] };

const config_key *config_key_table(size_t *count)
{
    *count = KEYS;
    return keys;
}

size_t config_key_names(config_object object, const char **names, size_t count)
{
    for (size_t i = 0; i < KEYS; i++) {
        if (keys[i].object == object) names[count++] = keys[i].name;
    }
    return count;
}

static kvg_status read_key(const config_key *key, kvg_json object, kvg_case *c)
{
    kvg_json value;
    if (!kvg_json_has(object, key->name) && strcmp(key->fallback, "required") != 0) {
        config_take_fallback(&key->value, key->fallback, c);
        return KVG_OK;
    }
    kvg_status s = kvg_json_get(object, key->name, &value);
    if (s) return s;
    if (key->value.kind == KVG_VALUE_WORD) return config_read_word(config_key_words(key), KVG_K, value, c);
    return config_read_value(&key->value, key->name, value, c);
}

kvg_status config_read_keys(config_object object, kvg_json value, kvg_case *c)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < KEYS && !s; i++) {
        if (keys[i].object == object) s = read_key(&keys[i], value, c);
    }
    return s;
}

kvg_status config_read_object(config_object object, kvg_json value, kvg_case *c)
{
    const char *names[KEYS];
    kvg_status s = kvg_json_check_keys(value, names, config_key_names(object, names, 0));
    return s ? s : config_read_keys(object, value, c);
}
