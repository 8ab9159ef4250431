/* The names that axes, and keys of the objects that axes take, have from tables of core and reference. */
#include <string.h>

#include "harness/config/config_axes.h"
#include "harness/config/config_names.h"

static const char *op_at(size_t index)
{
    size_t count;
    const kvg_op_info *ops = kvg_op_table(&count);
    return index < count ? ops[index].name : NULL;
}

static const char *op_get(const kvg_case *c, kvg_side side)
{
    (void)side;
    return kvg_op_get(c->problem.op)->name;
}

static kvg_status op_set(kvg_case *c, kvg_side side, const char *name)
{
    (void)side;
    return kvg_op_find(name, &c->problem.op);
}

static const char *format_at(size_t index)
{
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    return index < count ? formats[index].name : NULL;
}

/* "" for a policy that was refused: it has no format. */
static const char *format_get(const kvg_case *c, kvg_side side)
{
    const kvg_format format = c->problem.storage[side].format;
    return format == KVG_FORMAT_NONE ? "" : kvg_format_get(format)->name;
}

static kvg_status format_set(kvg_case *c, kvg_side side, const char *name)
{
    return kvg_format_find(name, &c->problem.storage[side].format);
}

/* Dialect `index` of all formats, one after the other; NULL behind the last. */
static const char *dialect_of_any(size_t index)
{
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    for (size_t i = 0; i < count; i++) {
        const size_t dialects = kvg_reference_dialect_count(formats[i].format);
        if (index < dialects) return kvg_reference_dialect(formats[i].format, index)->name;
        index -= dialects;
    }
    return NULL;
}

static bool is_first(size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(dialect_of_any(i), dialect_of_any(index)) == 0) return false;
    }
    return true;
}

/* Several formats have dialects of one name: it is there once. */
static const char *dialect_at(size_t index)
{
    for (size_t i = 0; dialect_of_any(i); i++) {
        if (is_first(i) && index-- == 0) return dialect_of_any(i);
    }
    return NULL;
}

static const char *dialect_get(const kvg_case *c, kvg_side side)
{
    return c->problem.storage[side].format == KVG_FORMAT_NONE ? "" : c->problem.storage[side].dialect;
}

static kvg_status dialect_set(kvg_case *c, kvg_side side, const char *name)
{
    size_t index;
    kvg_status s = kvg_reference_dialect_find(c->problem.storage[side].format, name, &index);
    if (!s) c->problem.storage[side].dialect = name;
    return s;
}

static const char *layout_at(size_t index)
{
    size_t count;
    const kvg_layout_info *layouts = kvg_layout_table(&count);
    return index < count ? layouts[index].name : NULL;
}

static const char *layout_get(const kvg_case *c, kvg_side side)
{
    (void)side;
    return kvg_problem_layout_name(&c->problem);
}

static kvg_status layout_set(kvg_case *c, kvg_side side, const char *name)
{
    (void)side;
    return kvg_layout_find(name, &c->problem.layout);
}

/* The types that K and V rows may have; kvg_problem_check refuses the others. */
static const char *dtype_at(size_t index)
{
    static const kvg_dtype types[] = {KVG_DTYPE_F16, KVG_DTYPE_BF16, KVG_DTYPE_F32};
    return index < sizeof types / sizeof types[0] ? kvg_dtype_name(types[index]) : NULL;
}

static const char *dtype_get(const kvg_case *c, kvg_side side)
{
    (void)side;
    return kvg_dtype_name(c->problem.dtype);
}

static kvg_status dtype_set(kvg_case *c, kvg_side side, const char *name)
{
    (void)side;
    return kvg_dtype_find(name, &c->problem.dtype);
}

static const char no_profile[] = "exact";

static const char *profile_at(size_t index)
{
    size_t count;
    const kvg_profile_info *profiles = kvg_profile_table(&count);
    if (index == 0) return no_profile;
    return index <= count ? profiles[index - 1].name : NULL;
}

static const char *profile_get(const kvg_case *c, kvg_side side)
{
    (void)side;
    return c->problem.profile == KVG_PROFILE_NONE ? no_profile : kvg_profile_get(c->problem.profile)->name;
}

static kvg_status profile_set(kvg_case *c, kvg_side side, const char *name)
{
    (void)side;
    c->problem.profile = KVG_PROFILE_NONE;
    return strcmp(name, no_profile) == 0 ? KVG_OK : kvg_profile_find(name, &c->problem.profile);
}

static const char *domain_at(size_t index)
{
    const char *name = kvg_policy_domain_name((kvg_policy_domain)((int)KVG_POLICY_TURBOMIND + (int)index));
    return strcmp(name, "?") == 0 ? NULL : name;
}

static const char *domain_get(const kvg_case *c, kvg_side side)
{
    (void)side;
    return kvg_policy_domain_name(c->policy.request.domain);
}

static kvg_status domain_set(kvg_case *c, kvg_side side, const char *name)
{
    (void)side;
    return kvg_policy_domain_find(name, &c->policy.request.domain);
}

static const char *kind_at(size_t index)
{
    const int kind = (int)KVG_ROPE_TABLE + 1 + (int)index;
    return kind < KVG_ROPE_END ? kvg_rope_kind_name((kvg_rope_kind)kind) : NULL;
}

static const char *kind_get(const kvg_case *c, kvg_side side)
{
    (void)side;
    return kvg_rope_kind_name(c->problem.rope.scaling.kind);
}

static kvg_status kind_set(kvg_case *c, kvg_side side, const char *name)
{
    (void)side;
    return kvg_rope_kind_find(name, &c->problem.rope.scaling.kind);
}

static const char *entries_get(const kvg_case *c, kvg_side side)
{
    (void)side;
    return kvg_dtype_name(c->problem.rope.scaling.entries);
}

static kvg_status entries_set(kvg_case *c, kvg_side side, const char *name)
{
    (void)side;
    return kvg_dtype_find(name, &c->problem.rope.scaling.entries);
}

const config_words *config_words_of(kvg_axis axis)
{
    static const config_words words[KVG_AXIS_COUNT] = {
        [KVG_AXIS_OP] = {op_at, op_get, op_set},
        [KVG_AXIS_FORMAT] = {format_at, format_get, format_set},
        [KVG_AXIS_DIALECT] = {dialect_at, dialect_get, dialect_set},
        [KVG_AXIS_LAYOUT] = {layout_at, layout_get, layout_set},
        [KVG_AXIS_DTYPE] = {dtype_at, dtype_get, dtype_set},
        [KVG_AXIS_PROFILE] = {profile_at, profile_get, profile_set},
    };
    return words[axis].at ? &words[axis] : NULL;
}

kvg_json_names kvg_config_names(kvg_axis axis)
{
    const config_words *words = config_words_of(axis);
    return words ? words->at : NULL;
}

const config_words *config_key_words(const config_key *key)
{
    static const struct {
        config_object object;
        const char *name;
        config_words words;
    } rows[] = {
        {CONFIG_POLICY, "domain", {domain_at, domain_get, domain_set}},
        {CONFIG_SCALING, "kind", {kind_at, kind_get, kind_set}},
        {CONFIG_SCALING, "entries", {dtype_at, entries_get, entries_set}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].object == key->object && strcmp(rows[i].name, key->name) == 0) return &rows[i].words;
    }
    return NULL;
}

kvg_status config_read_word(const config_words *words, kvg_side side, kvg_json value, kvg_case *c)
{
    const char *name;
    kvg_status s = kvg_json_string(value, &name);
    return s ? s : kvg_json_locate(value, words->set(c, side, name));
}
