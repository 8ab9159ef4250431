/* The objects that axes take: config_keys.def as a table, and one way to read them and a guest's. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "harness/config/config_axes.h"
#include "support/json_schema.h"

static const char *const config_pairings[] = {"adjacent", "halves", NULL};
static const char *const config_actions[] = {"fail", "fallback", NULL};
static const char *const config_gatings[] = {"kvgold", "design", NULL};

static const config_key table[] = {
#define KEY(OF, key, may_be, without, means)                                                                          \
    {.object = CONFIG_##OF, .name = #key, .value = KVG_VALUE_OF_##may_be, .fallback = without, .meaning = means},
#define OWN_KEY(OF, key, as_json, in_words, without, means)                                                           \
    {.object = CONFIG_##OF, .name = #key, .schema = as_json, .values = in_words, .fallback = without, .meaning = means},
#include "harness/config/config_keys.def"
};
enum { KEYS = sizeof table / sizeof table[0] };

config_keys config_keys_of(config_object object)
{
    size_t first = 0, end;
    while (first < KEYS && table[first].object != object) first++;
    for (end = first; end < KEYS && table[end].object == object;) end++;
    for (size_t i = end; i < KEYS; i++) assert(table[i].object != object); /* they stand side by side */
    assert(first < end);
    return (config_keys){table + first, end - first};
}

size_t kvg_config_key_names(config_keys keys, const char **names, size_t count)
{
    for (size_t i = 0; i < keys.count; i++) names[count++] = keys.key[i].name;
    return count;
}

static kvg_status read_key(const config_key *key, kvg_json json, void *object)
{
    kvg_json value;
    if (!kvg_json_has(json, key->name) && strcmp(key->fallback, "required") != 0) {
        config_take_fallback(&key->value, key->fallback, object);
        return KVG_OK;
    }
    kvg_status s = kvg_json_get(json, key->name, &value);
    if (s) return s;
    if (key->value.kind == KVG_VALUE_WORD) return config_read_word(config_key_words(key), KVG_K, value, object);
    return config_read_value(&key->value, key->name, value, object);
}

kvg_status kvg_config_read_keys(config_keys keys, kvg_json value, void *object)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < keys.count && !s; i++) s = read_key(&keys.key[i], value, object);
    return s;
}

kvg_status config_read_object(config_object object, kvg_json value, kvg_case *c)
{
    const char *names[KEYS];
    const config_keys keys = config_keys_of(object);
    kvg_status s = kvg_json_check_keys(value, names, kvg_config_key_names(keys, names, 0));
    return s ? s : kvg_config_read_keys(keys, value, c);
}
