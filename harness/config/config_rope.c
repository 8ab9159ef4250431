/* Axis "rope": which elements of K turn, and where the table of cos and sin comes from (docs/spec/numerics.md
 * section 8). */
#include "harness/config/config_axes.h"
#include "reference/rope_table.h"

/* A member that `needed` may miss leaves *out alone. */
static kvg_status read_count(kvg_json object, const char *key, bool needed, uint32_t *out)
{
    kvg_json value;
    uint64_t number = 0;
    if (!needed && !kvg_json_has(object, key)) return KVG_OK;
    kvg_status s = kvg_json_get(object, key, &value);
    if (!s) s = kvg_json_u64(value, 0, 1 << 24, &number);
    *out = (uint32_t)number;
    return s;
}

static kvg_status read_parameters(kvg_json object, kvg_rope_scaling *scaling)
{
    size_t count;
    const kvg_rope_parameter *parameters = kvg_rope_parameter_table(&count);
    for (size_t i = 0; i < count; i++) {
        kvg_json value;
        double number;
        if (!kvg_json_has(object, parameters[i].name)) continue;
        kvg_status s = kvg_json_get(object, parameters[i].name, &value);
        if (!s) s = kvg_json_double(value, &number);
        if (s) return s;
        kvg_rope_parameter_set(scaling, &parameters[i], (float)number);
    }
    return KVG_OK;
}

static kvg_status check_keys(kvg_json object)
{
    enum { MOST = 32 };
    const char *keys[MOST] = {"kind", "truncate", "entries"};
    size_t count;
    const kvg_rope_parameter *parameters = kvg_rope_parameter_table(&count);
    for (size_t i = 0; i < count && i + 3 < MOST; i++) keys[i + 3] = parameters[i].name;
    return kvg_json_check_keys(object, keys, count + 3);
}

/* {"kind": "yarn", "theta": 150000, "factor": 32, ...}: a kind and its parameters. */
static kvg_status read_scaling(kvg_json object, kvg_rope_scaling *out)
{
    kvg_json value;
    const char *name;
    kvg_status s = check_keys(object);
    if (!s) s = kvg_json_get(object, "kind", &value);
    if (!s) s = kvg_json_string(value, &name);
    if (!s) s = kvg_json_locate(value, kvg_rope_kind_find(name, &out->kind));
    if (!s) s = read_parameters(object, out);
    out->truncate = out->kind == KVG_ROPE_YARN; /* as Hugging Face's configs mean it */
    if (!s && kvg_json_has(object, "truncate")) {
        s = kvg_json_get(object, "truncate", &value);
        if (!s) s = kvg_json_bool(value, &out->truncate);
    }
    if (s || !kvg_json_has(object, "entries")) return s;
    s = kvg_json_get(object, "entries", &value);
    if (!s) s = kvg_json_string(value, &name);
    return s ? s : kvg_json_locate(value, kvg_dtype_find(name, &out->entries));
}

kvg_status kvg_rope_read(kvg_config *config, kvg_json value, kvg_case *c)
{
    static const char *const keys[] = {"dims", "positions", "pairing", "scaling"};
    static const char *const pairings[] = {"adjacent", "halves"};
    kvg_rope r = {.positions = 256};
    bool halves = false;
    kvg_json scaling;
    (void)config;
    kvg_status s = kvg_json_check_keys(value, keys, 4);
    if (!s) s = read_count(value, "dims", true, &r.dims);
    if (!s) s = read_count(value, "positions", false, &r.positions);
    if (!s) s = kvg_axis_either(value, "pairing", pairings, &halves);
    r.pairing = halves ? KVG_PAIRING_HALVES : KVG_PAIRING_ADJACENT;
    if (!s && kvg_json_has(value, "scaling")) {
        s = kvg_json_get(value, "scaling", &scaling);
        if (!s) s = read_scaling(scaling, &r.scaling);
    }
    if (s || !r.dims) return s;
    c->problem.rope = r;
    kvg_rope_numbers numbers;
    return r.scaling.kind ? kvg_json_locate(value, kvg_reference_rope_numbers(&r, &numbers)) : KVG_OK;
}
