/* Axis "rope": which elements of K turn, and where the table of cos and sin comes from (docs/spec/numerics.md
 * section 8). */
#include "harness/config/config_axes.h"
#include "reference/rope_table.h"

static kvg_status read_parameters(kvg_json object, kvg_rope_scaling *scaling)
{
    size_t count;
    const kvg_rope_parameter *parameters = kvg_rope_parameter_table(&count);
    for (size_t i = 0; i < count; i++) {
        double number;
        if (!kvg_json_has(object, parameters[i].name)) continue;
        kvg_status s = kvg_json_get_double(object, parameters[i].name, &number);
        if (s) return s;
        kvg_rope_parameter_set(scaling, &parameters[i], (float)number);
    }
    return KVG_OK;
}

/* {"kind": "yarn", "theta": 150000, "factor": 32, ...}: a kind and its parameters. */
static kvg_status read_scaling(kvg_json object, kvg_case *c)
{
    kvg_rope_scaling *scaling = &c->problem.rope.scaling;
    const char *keys[32];
    size_t count, named = kvg_config_key_names(config_keys_of(CONFIG_SCALING), keys, 0);
    const kvg_rope_parameter *parameters = kvg_rope_parameter_table(&count);
    for (size_t i = 0; i < count && named < sizeof keys / sizeof keys[0]; i++) keys[named++] = parameters[i].name;
    kvg_status s = kvg_json_check_keys(object, keys, named);
    if (!s) s = kvg_config_read_keys(config_keys_of(CONFIG_SCALING), object, c);
    if (!kvg_json_has(object, "truncate")) scaling->truncate = scaling->kind == KVG_ROPE_YARN; /* as Hugging Face's */
    return s ? s : read_parameters(object, scaling);
}

kvg_status kvg_rope_read(kvg_json value, kvg_case *c)
{
    kvg_rope *rope = &c->problem.rope;
    kvg_json scaling;
    kvg_status s = config_read_object(CONFIG_ROPE, value, c);
    if (!s && kvg_json_has(value, "scaling")) {
        s = kvg_json_get(value, "scaling", &scaling);
        if (!s) s = read_scaling(scaling, c);
    }
    if (s) return s;
    if (!rope->dims) *rope = (kvg_rope){0};
    kvg_rope_numbers numbers;
    return rope->scaling.kind ? kvg_json_locate(value, kvg_reference_rope_numbers(rope, &numbers)) : KVG_OK;
}

void config_add_kinds(kvg_json_text *out, uint32_t kinds)
{
    const char *separator = "";
    for (int kind = KVG_ROPE_TABLE + 1; kind < KVG_ROPE_END; kind++) {
        if (!(kinds & 1u << kind)) continue;
        kvg_json_add(out, "%s%s", separator, kvg_rope_kind_name((kvg_rope_kind)kind));
        separator = ", ";
    }
}
