/* The values of an axis in an object: one value, a list, or names that "all" stands for.
 *
 * "all" stands for every name of the axis' table, {"all_but": ["int4"]} for every other one. An axis of names takes
 * them, alone or once in a list. Those of axis dialect stay one value here: which dialects there are depends on the
 * format. The list of axis invariant is one value. */
#include <string.h>

#include "harness/config/config_axes.h"

enum { MOST_NAMES = 256 };

bool kvg_config_is_all(kvg_json value)
{
    const char *name;
    if (kvg_json_is_object(value)) return kvg_json_has(value, "all_but");
    return kvg_json_is_string(value) && !kvg_json_string(value, &name) && strcmp(name, "all") == 0;
}

static bool list_has(kvg_json list, size_t count, const char *name)
{
    const char *other;
    for (size_t i = 0; i < count; i++) {
        if (!kvg_json_string(kvg_json_at(list, i), &other) && strcmp(other, name) == 0) return true;
    }
    return false;
}

bool kvg_config_all_has(kvg_json value, const char *name)
{
    kvg_json left_out;
    if (!kvg_json_is_object(value) || kvg_json_get(value, "all_but", &left_out)) return true;
    return !list_has(left_out, kvg_json_count(left_out), name);
}

/* --- what is refused --- */

static kvg_status check_name(kvg_json list, size_t index, const char *what, const config_words *words)
{
    const kvg_json value = kvg_json_at(list, index);
    const char *name, *known[MOST_NAMES];
    size_t count = 0;
    bool found = false;
    kvg_status s = kvg_json_string(value, &name);
    for (; !s && count < MOST_NAMES && words->at(count); count++) {
        known[count] = words->at(count);
        found |= strcmp(known[count], name) == 0;
    }
    if (s) return s;
    if (!found) return kvg_json_fail_name(value, what, name, known, count);
    return list_has(list, index, name) ? kvg_json_fail(value, "'%s' is left out already", name) : KVG_OK;
}

static kvg_status check_all_but(kvg_json object, const kvg_axis_info *axis, const config_words *words)
{
    static const char *const keys[] = {"all_but"};
    kvg_json list;
    kvg_status s = kvg_json_check_keys(object, keys, 1);
    if (!s) s = kvg_json_get(object, "all_but", &list);
    if (s) return s;
    if (!kvg_json_is_array(list)) return kvg_json_fail(list, "expected a list of names that \"all\" is without");
    const size_t count = kvg_json_count(list);
    if (count == 0) return kvg_json_fail(list, "an empty list leaves nothing out: write \"all\"");
    for (size_t i = 0; i < count && !s; i++) s = check_name(list, i, axis->name, words);
    if (!s && !words->at(count)) s = kvg_json_fail(list, "leaves out every %s: nothing is left", axis->name);
    return s;
}

kvg_status kvg_config_list_check(kvg_json object, kvg_axis which)
{
    const kvg_axis_info *axis = kvg_axis_get(which);
    const config_words *words = config_words_of(which);
    kvg_json value;
    if (!kvg_json_has(object, axis->name)) return KVG_OK;
    kvg_status s = kvg_json_get(object, axis->name, &value);
    const bool is_list = kvg_json_is_array(value);
    const size_t count = is_list ? kvg_json_count(value) : 1;
    if (!s && count == 0) s = kvg_json_fail(object, "\"%s\" is an empty list: the product has no case", axis->name);
    bool before = false;
    for (size_t i = 0; words && i < count && !s; i++) {
        const kvg_json one = is_list ? kvg_json_at(value, i) : value;
        if (!kvg_config_is_all(one)) continue;
        if (before) return kvg_json_fail(one, "\"all\" or \"all_but\" stands in this list already");
        if (kvg_json_is_object(one)) s = check_all_but(one, axis, words);
        before = true;
    }
    return s;
}

/* --- values --- */

/* A value of the axis may stand for several. */
static bool spreads(kvg_axis which)
{
    return config_words_of(which) && which != KVG_AXIS_DIALECT;
}

/* Name `index` of those that a value stands for; NULL behind the last, and for a value that is none of many names. */
static const char *name_at(kvg_json value, kvg_axis which, size_t index)
{
    const config_words *words = config_words_of(which);
    if (!spreads(which) || !kvg_config_is_all(value)) return NULL;
    for (size_t i = 0; words->at(i); i++) {
        if (kvg_config_all_has(value, words->at(i)) && index-- == 0) return words->at(i);
    }
    return NULL;
}

static size_t value_count(kvg_json value, kvg_axis which)
{
    size_t count = 0;
    while (name_at(value, which, count)) count++;
    return count ? count : 1;
}

size_t kvg_config_list_count(kvg_json object, kvg_axis which)
{
    const char *key = kvg_axis_get(which)->name;
    kvg_json value;
    size_t count = 0;
    if (!kvg_json_has(object, key) || kvg_json_get(object, key, &value)) return 0;
    if (!kvg_json_is_array(value) || which == KVG_AXIS_INVARIANT) return value_count(value, which);
    if (!spreads(which)) return kvg_json_count(value);
    for (size_t i = 0; i < kvg_json_count(value); i++) count += value_count(kvg_json_at(value, i), which);
    return count;
}

config_choice kvg_config_list_at(kvg_json object, kvg_axis which, size_t index)
{
    kvg_json value = object;
    if (kvg_json_get(object, kvg_axis_get(which)->name, &value)) return (config_choice){.value = object};
    if (which == KVG_AXIS_INVARIANT) return (config_choice){true, value, NULL};
    if (kvg_json_is_array(value) && !spreads(which)) return (config_choice){true, kvg_json_at(value, index), NULL};
    if (kvg_json_is_array(value)) {
        size_t i = 0;
        for (const kvg_json list = value; value = kvg_json_at(list, i), index >= value_count(value, which); i++) {
            index -= value_count(value, which);
        }
    }
    return (config_choice){true, value, name_at(value, which, index)};
}

kvg_status kvg_config_list_read(kvg_axis which, kvg_config *config, const config_choice *choice, kvg_case *c)
{
    const config_words *words = config_words_of(which);
    if (!choice->word) return kvg_axis_read(which, config, choice->value, c);
    kvg_status s = words->set(c, KVG_K, choice->word);
    return s ? s : words->set(c, KVG_V, choice->word);
}
