/* The tables of docs/reference/config-keys.md: every axis and every key, as Markdown. */
#include <math.h>
#include <string.h>

#include "harness/config/config_axes.h"

static const char *const scopes[] = {
    [KVG_SCOPE_ALL] = "",
    [KVG_SCOPE_STORED] = "all ops but mma, merge",
    [KVG_SCOPE_SHAPED] = "all ops but mma",
    [KVG_SCOPE_PAGED] = "layouts with pages",
    [KVG_SCOPE_UNOWNED] = "layouts with pages, merge",
    [KVG_SCOPE_APPEND] = "append",
    [KVG_SCOPE_DECODE] = "decode",
    [KVG_SCOPE_PROFILED] = "decode, mma",
};

/* Values that no kind says. */
static const char *const own_axes[KVG_AXIS_COUNT] = {
    [KVG_AXIS_POLICY] = "[a policy](#policy)",
    [KVG_AXIS_LAYOUT] = "or `{\"name\": \"mine\", \"text\": \"[L B N H]{ ... }\"}`",
    [KVG_AXIS_MODEL] = "the name of a model, or a path that ends in .json",
    [KVG_AXIS_PADDING] = "[a padding](#padding)",
    [KVG_AXIS_SHARED_KV] = "[a shared_kv](#shared_kv)",
    [KVG_AXIS_ROPE] = "[a rope](#rope)",
    [KVG_AXIS_LAYER] = "an integer from 0 on, or `\"seed\"`",
    [KVG_AXIS_QUERIES] = "or `\"N each\"`",
    [KVG_AXIS_FILL] = "`kvgold list fills`; of a capture `{\"capture\": FILE, \"k\": TENSOR, \"v\": TENSOR}`",
    [KVG_AXIS_SCALE] = "`P1` to `P4`, an f32 above 0, or `{\"k\": 0.3, \"v\": 2}`",
    [KVG_AXIS_BACKEND] = "a name, or a path",
    [KVG_AXIS_INVARIANT] = "a list of axes, such as `[\"batch\", \"queries\"]`",
};

static void add_names(kvg_json_text *t, const char *(*at)(size_t index), const char *const *names)
{
    for (size_t i = 0; at ? at(i) != NULL : names[i] != NULL; i++) {
        kvg_json_add(t, "%s`%s`", i ? ", " : "", at ? at(i) : names[i]);
    }
}

static void add_values(kvg_json_text *t, const kvg_value *value, const config_words *words)
{
    switch (value->kind) {
    case KVG_VALUE_COUNT:
        kvg_json_add(t, "%llu to %llu", (unsigned long long)value->least, (unsigned long long)value->most);
        return;
    case KVG_VALUE_FACTOR: kvg_json_add(t, "an f32 above 0, or 0"); return;
    case KVG_VALUE_FLAG: kvg_json_add(t, "`true`, `false`"); return;
    case KVG_VALUE_CHOICE: add_names(t, NULL, value->names); return;
    case KVG_VALUE_WORD: add_names(t, words->at, NULL); return;
    case KVG_VALUE_SIDES:
        add_names(t, words->at, NULL);
        kvg_json_add(t, "; `{\"k\": NAME, \"v\": NAME}`");
        return;
    case KVG_VALUE_OWN: return;
    }
}

static void add_fallback(kvg_json_text *t, const char *fallback)
{
    const char *quote = strcmp(fallback, "required") == 0 ? "" : "`";
    if (*fallback) kvg_json_add(t, " | %s%s%s", quote, fallback, quote);
    else kvg_json_add(t, " |");
}

static void add_axis(kvg_json_text *t, kvg_axis which)
{
    const kvg_axis_info *axis = kvg_axis_get(which);
    const char *for_whom = scopes[axis->scope];
    kvg_json_add(t, "| `%s` |%s%s | ", axis->name, *for_whom ? " " : "", for_whom);
    add_values(t, &axis->value, config_words_of(which));
    if (own_axes[which]) kvg_json_add(t, "%s%s", axis->value.kind == KVG_VALUE_OWN ? "" : ", ", own_axes[which]);
    add_fallback(t, axis->fallback);
    kvg_json_add(t, " | %s |\n", axis->meaning);
}

/* A limit: a power of two beyond a million is written as one. */
static void add_limit(kvg_json_text *t, double limit)
{
    int exponent;
    if (frexp(limit, &exponent) == 0.5 && (limit > 1e6 || limit < 1e-6)) kvg_json_add(t, "2^%d", exponent - 1);
    else kvg_json_add(t, "%.9g", limit);
}

static void add_parameters(kvg_json_text *t)
{
    size_t count;
    const kvg_rope_parameter *parameters = kvg_rope_parameter_table(&count);
    for (size_t i = 0; i < count; i++) {
        const kvg_rope_parameter *p = &parameters[i];
        kvg_json_add(t, "| `%s` | ", p->name);
        add_limit(t, (double)p->least);
        kvg_json_add(t, " to ");
        add_limit(t, (double)p->most);
        kvg_json_add(t, "%s | | ", p->whole ? ", an integer" : "");
        kvg_json_add(t, "%s", p->taken == p->needed ? "Required of " : "Of ");
        config_add_kinds(t, p->taken);
        kvg_json_add(t, ". |\n");
    }
}

void kvg_config_page_keys(kvg_json_text *t, const char *title, config_keys keys)
{
    kvg_json_add(t, "\n## %s\n\n", title);
    kvg_json_add(t, "| key | values | default | meaning |\n| --- | --- | --- | --- |\n");
    for (size_t i = 0; i < keys.count; i++) {
        const config_key *key = &keys.key[i];
        kvg_json_add(t, "| `%s` | ", key->name);
        add_values(t, &key->value, config_key_words(key));
        if (key->values) kvg_json_add(t, "%s", key->values);
        add_fallback(t, key->fallback);
        kvg_json_add(t, " | %s |\n", key->meaning);
    }
}

kvg_status kvg_config_page(const kvg_guest *guest, kvg_json_text *t)
{
    static const struct {
        config_object object;
        const char *title;
    } objects[] = {{CONFIG_POLICY, "policy"}, {CONFIG_PADDING, "padding"}, {CONFIG_SHARED_KV, "shared_kv"},
                   {CONFIG_ROPE, "rope"}, {CONFIG_SCALING, "scaling"}};
    kvg_json_add(t, "## Axes of a group\n\n| axis | for | values | default | meaning |\n"
                 "| --- | --- | --- | --- | --- |\n");
    for (int a = 0; a < KVG_AXIS_COUNT; a++) add_axis(t, (kvg_axis)a);
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        kvg_config_page_keys(t, objects[i].title, config_keys_of(objects[i].object));
        if (objects[i].object == CONFIG_SCALING) add_parameters(t);
    }
    if (guest) guest->page(t);
    return kvg_json_text_check(t);
}
