/* configs/schema.json, from the tables of axes and keys. What no table says stands here as JSON. */
#include <string.h>

#include "harness/case/invariance.h"
#include "harness/config/config_axes.h"
#include "support/json_schema.h"

enum { MOST_NAMES = 256 };

/* --- what one value may be --- */

/* A name, "all", or all but some; for each side where the axis has sides. */
static void add_words(kvg_json_text *t, const kvg_axis_info *axis)
{
    static const char all_but[] = KVG_JSON(
        "type": "object", "required": ["all_but"], "additionalProperties": false,
        "properties": {"all_but": {"type": "array", "minItems": 1, "uniqueItems": true, "items": );
    const char *name = axis->name;
    kvg_json_add(t, "{\"anyOf\": [{\"$ref\": \"#/$defs/%s\"}, {\"const\": \"all\"}, ", name);
    kvg_json_add(t, "{%s {\"$ref\": \"#/$defs/%s\"}}}}", all_but, name);
    if (axis->value.kind == KVG_VALUE_SIDES) {
        kvg_json_add(t, ", {\"type\": \"object\", \"required\": [\"k\", \"v\"], \"additionalProperties\": false, "
                     "\"properties\": {\"k\": {\"$ref\": \"#/$defs/%s\"}, \"v\": {\"$ref\": \"#/$defs/%s\"}}}", name,
                     name);
    }
    kvg_json_add(t, "]}");
}

/* A value whose kind says all; `words`: of a key that takes names. */
static void add_kind(kvg_json_text *t, const kvg_value *value, const config_words *words)
{
    switch (value->kind) {
    case KVG_VALUE_COUNT:
        kvg_json_add(t, "{\"type\": \"integer\", \"minimum\": %llu, \"maximum\": %llu}",
                     (unsigned long long)value->least, (unsigned long long)value->most);
        return;
    case KVG_VALUE_FACTOR: kvg_json_add(t, "{\"type\": \"number\", \"minimum\": 0, \"maximum\": 3.4e38}"); return;
    case KVG_VALUE_FLAG: kvg_json_add(t, "{\"type\": \"boolean\"}"); return;
    case KVG_VALUE_CHOICE: kvg_json_add_enum(t, NULL, value->names); return;
    case KVG_VALUE_WORD: kvg_json_add_enum(t, words->at, NULL); return;
    case KVG_VALUE_SIDES:
    case KVG_VALUE_OWN: return;
    }
}

/* What an axis says beside its kind of value. */
static const struct {
    const char *one;      /* a value; of an axis of another kind than OWN: a value as well */
    const char *excluded; /* a value in "exclude"; NULL: the kind says it */
    const char *note;     /* on that */
} own[KVG_AXIS_COUNT] = {
    [KVG_AXIS_FORMAT] = {.note = "\"e4m3+nvfp4\" where K and V differ."},
    [KVG_AXIS_POLICY] = {KVG_JSON({"$ref": "#/$defs/policy"}), "words", "\"policy16@sm90\", \"policy16@sm80>none\"."},
    [KVG_AXIS_DIALECT] = {.note = "\"trtllm+vllm\" where K and V differ."},
    [KVG_AXIS_LAYOUT] = {.one = KVG_JSON({"$ref": "#/$defs/layout_text"})},
    [KVG_AXIS_MODEL] = {KVG_JSON({"$ref": "#/$defs/name"}), "words", NULL},
    [KVG_AXIS_PADDING] = {KVG_JSON({"$ref": "#/$defs/padding"}), "flags", "Whether there is any."},
    [KVG_AXIS_SHARED_KV] = {KVG_JSON({"$ref": "#/$defs/shared_kv"}), "flags", "Whether V is a part of K's row."},
    [KVG_AXIS_ROPE] = {KVG_JSON({"$ref": "#/$defs/rope"}), "flags", "Whether elements turn."},
    [KVG_AXIS_QUERIES] = {KVG_JSON({"type": "string", "pattern": "^[1-9][0-9]{0,4} each$"}), "integers_or_words", NULL},
    [KVG_AXIS_LAYER] = {KVG_JSON({"anyOf": [{"type": "integer", "minimum": 0, "maximum": 1023}, {"const": "seed"}]}),
                        "integers_or_words", NULL},
    [KVG_AXIS_SOFTCAP] = {.note = "Whether there is one."},
    [KVG_AXIS_SCORE_SCALE] = {.note = "Whether one is given."},
    [KVG_AXIS_FILL] = {KVG_JSON({"anyOf": [{"$ref": "#/$defs/fill"}, {"$ref": "#/$defs/capture"}]}), "words",
                       "\"capture\" is every capture."},
    [KVG_AXIS_SCALE] = {KVG_JSON({"anyOf": [{"$ref": "#/$defs/scale"}, {"$ref": "#/$defs/tensor_scale"},
                                        {"$ref": "#/$defs/scale_of_sides"}]}),
                        "words", "P1 to P4, or \"given\" for every number."},
    [KVG_AXIS_BACKEND] = {KVG_JSON({"$ref": "#/$defs/name"}), "words", NULL},
    [KVG_AXIS_INVARIANT] = {.excluded = "flags", .note = "Whether there are any."},
};

static void add_one(kvg_json_text *t, kvg_axis which)
{
    const kvg_axis_info *axis = kvg_axis_get(which);
    const bool both = own[which].one && axis->value.kind != KVG_VALUE_OWN;
    if (both) kvg_json_add(t, "{\"anyOf\": [");
    if (axis->value.kind == KVG_VALUE_WORD || axis->value.kind == KVG_VALUE_SIDES) add_words(t, axis);
    else add_kind(t, &axis->value, NULL);
    if (both) kvg_json_add(t, ", ");
    if (own[which].one) kvg_json_add(t, "%s", own[which].one);
    if (which == KVG_AXIS_INVARIANT) {
        kvg_json_add(t, "{\"type\": \"array\", \"minItems\": 1, \"items\": ");
        kvg_json_add_enum(t, NULL, kvg_invariance_names);
        kvg_json_add(t, "}");
    }
    if (both) kvg_json_add(t, "]}");
}

static const char *excluded_def(kvg_axis which)
{
    if (own[which].excluded) return own[which].excluded;
    switch (kvg_axis_get(which)->value.kind) {
    case KVG_VALUE_COUNT: return "integers";
    case KVG_VALUE_FACTOR:
    case KVG_VALUE_FLAG: return "flags";
    case KVG_VALUE_CHOICE:
    case KVG_VALUE_WORD:
    case KVG_VALUE_SIDES:
    case KVG_VALUE_OWN: break;
    }
    return "words";
}

/* --- axes --- */

/* A fallback of the tables as JSON: a name becomes a string. */
static void add_default(kvg_json_text *t, const char *fallback)
{
    const bool plain = strspn(fallback, "0123456789.") == strlen(fallback) || strcmp(fallback, "true") == 0 ||
                       strcmp(fallback, "false") == 0;
    if (!*fallback || strcmp(fallback, "required") == 0) return;
    kvg_json_add(t, ", \"default\": ");
    if (plain) kvg_json_add(t, "%s", fallback);
    else kvg_json_add_string(t, fallback);
}

/* One value, or a list of them; where a value is a list, that alone. */
static void add_axis(kvg_json_text *t, kvg_axis which)
{
    const kvg_axis_info *axis = kvg_axis_get(which);
    kvg_json_add(t, "\"%s\": {\"description\": ", axis->name);
    kvg_json_add_string(t, axis->meaning);
    add_default(t, axis->fallback);
    if (which == KVG_AXIS_INVARIANT) {
        kvg_json_add(t, ", \"$ref\": \"#/$defs/%s_value\"}", axis->name);
        return;
    }
    kvg_json_add(t, ", \"anyOf\": [{\"$ref\": \"#/$defs/%s_value\"}, {\"type\": \"array\", \"minItems\": 1, \"items\": "
                 "{\"$ref\": \"#/$defs/%s_value\"}}]}", axis->name, axis->name);
}

static void add_reference(kvg_json_text *t, kvg_axis which)
{
    const char *name = kvg_axis_get(which)->name;
    kvg_json_add(t, "\"%s\": {\"$ref\": \"#/$defs/axes/properties/%s\"}", name, name);
}

static void add_excluded(kvg_json_text *t, kvg_axis which)
{
    kvg_json_add(t, "\"%s\": {\"$ref\": \"#/$defs/%s\"", kvg_axis_get(which)->name, excluded_def(which));
    if (own[which].note) kvg_json_add(t, ", \"description\": ");
    if (own[which].note) kvg_json_add_string(t, own[which].note);
    kvg_json_add(t, "}");
}

static void add_each_axis(kvg_json_text *t, void (*add)(kvg_json_text *t, kvg_axis which))
{
    for (int a = 0; a < KVG_AXIS_COUNT; a++) {
        if (a) kvg_json_add(t, ", ");
        add(t, (kvg_axis)a);
    }
}

static void add_axes(kvg_json_text *t)
{
    static const char of_group[] = KVG_JSON(
        "type": "object", "required": ["op", "fill"],
        "if": {"properties": {"op": {"enum": ["mma", ["mma"]]}}},
        "then": {"description": "The tiles of op mma follow from dtype and tokens.", "required": ["profile"],
                 "not": {"anyOf": [{"required": ["format"]}, {"required": ["policy"]}, {"required": ["dialect"]},
                                   {"required": ["model"]}, {"required": ["kv_heads"]}, {"required": ["head_dim"]}]}},
        "else": {"if": {"properties": {"op": {"enum": ["merge", ["merge"]]}}},
                 "then": {"description": "The parts of op merge are in the model type.",
                          "required": ["kv_heads", "head_dim"],
                          "not": {"anyOf": [{"required": ["format"]}, {"required": ["policy"]},
                                            {"required": ["dialect"]}, {"required": ["model"]}]}},
                 "else": {"oneOf": [{"required": ["format"]}, {"required": ["policy"]}],
                          "anyOf": [{"required": ["model"]}, {"required": ["kv_heads", "head_dim"]}]}},
        "allOf": [{"$ref": "#/$defs/one_shape"}], "additionalProperties": false, "properties": );
    static const char more[] = KVG_JSON(
        "comment": {"type": "string", "description": "For people."},
        "include": {"type": "array", "items": {"$ref": "#/$defs/axes"},
                    "description": "Further products. An axis that one leaves out has the group's first value."},
        "exclude": {"type": "array", "items": {"$ref": "#/$defs/exclude"},
                    "description": "A case of the group, included ones too, is left out if all keys of one match it."},
        "covers": {"type": "object", "required": ["strength", "most_work", "values"], "additionalProperties": false,
                   "description": "What the rows of the group are a covering array of: `kvgold lint` counts it.",
                   "properties": {
                       "strength": {"type": "integer", "minimum": 1, "maximum": 3},
                       "most_work": {"type": "integer", "minimum": 1},
                       "values": {"$ref": "#/$defs/axes"},
                       "without": {"type": "array", "items": {"$ref": "#/$defs/axes"}},
                       "rows": {"type": "array", "items": {"type": "string", "pattern": "^[0-9a-zA-Z -]*$"},
                                "description": "Further rows, as words: a character for each axis of values."}}});
    static const char of_axes[] = KVG_JSON(
        "type": "object", "minProperties": 1,
        "allOf": [{"$ref": "#/$defs/one_shape"}, {"$ref": "#/$defs/one_storage"}],
        "additionalProperties": false, "properties": );
    static const char of_exclude[] = KVG_JSON(
        "type": "object", "minProperties": 1,
        "description": "Values as in the case's id; a list matches if one of its values does.",
        "additionalProperties": false, "properties": );
    kvg_json_add(t, "\"group\": {%s {", of_group);
    add_each_axis(t, add_reference);
    kvg_json_add(t, ", %s}}, \"axes\": {%s {", more, of_axes);
    add_each_axis(t, add_axis);
    kvg_json_add(t, "}}, \"exclude\": {%s {", of_exclude);
    add_each_axis(t, add_excluded);
    kvg_json_add(t, "}}");
}

/* --- objects --- */

/* The key's value with its description: the text of the value without its last bracket goes on. */
static void add_key(kvg_json_text *t, const config_key *key)
{
    kvg_json_text one = {0};
    add_kind(&one, &key->value, config_key_words(key));
    if (key->schema) kvg_json_add(&one, "%s", key->schema);
    kvg_json_add(t, "\"%s\": %.*s", key->name, one.size ? (int)one.size - 1 : 0, one.size ? one.text : "");
    add_default(t, key->fallback);
    kvg_json_add(t, ", \"description\": ");
    kvg_json_add_string(t, key->meaning);
    kvg_json_add(t, "}");
    t->failed |= one.failed;
    kvg_json_text_free(&one);
}

static void add_parameters(kvg_json_text *t)
{
    size_t count;
    const kvg_rope_parameter *parameters = kvg_rope_parameter_table(&count);
    for (size_t i = 0; i < count; i++) {
        const kvg_rope_parameter *p = &parameters[i];
        kvg_json_add(t, ", \"%s\": {\"type\": \"%s\", \"minimum\": %.17g, \"maximum\": %.17g, ", p->name,
                     p->whole ? "integer" : "number", (double)p->least, (double)p->most);
        kvg_json_add(t, "\"description\": \"Of kinds ");
        config_add_kinds(t, p->taken);
        kvg_json_add(t, ".\"}");
    }
}

static void add_keys(kvg_json_text *t, config_keys keys)
{
    for (size_t i = 0; i < keys.count; i++) {
        if (i) kvg_json_add(t, ", ");
        add_key(t, &keys.key[i]);
    }
}

void kvg_config_schema_keys(kvg_json_text *t, config_keys keys)
{
    add_keys(t, keys);
    kvg_json_add(t, ", ");
}

static void add_required(kvg_json_text *t, config_keys keys, const char *separator)
{
    for (size_t i = 0; i < keys.count; i++) {
        if (strcmp(keys.key[i].fallback, "required") != 0) continue;
        kvg_json_add(t, "%s\"%s\"", separator, keys.key[i].name);
        separator = ", ";
    }
}

void kvg_config_schema_required(kvg_json_text *t, config_keys keys)
{
    add_required(t, keys, ", ");
}

void kvg_config_schema_axis(kvg_json_text *t, kvg_axis which)
{
    add_reference(t, which);
    kvg_json_add(t, ", ");
}

static void add_object(kvg_json_text *t, const char *name, config_object object)
{
    const config_keys keys = config_keys_of(object);
    kvg_json_add(t, ", \"%s\": {\"type\": \"object\", \"required\": [", name);
    add_required(t, keys, "");
    if (object == CONFIG_SCALING) kvg_json_add(t, ", \"theta\""); /* every kind takes it */
    kvg_json_add(t, "], \"additionalProperties\": false, \"properties\": {");
    add_keys(t, keys);
    if (object == CONFIG_SCALING) add_parameters(t);
    kvg_json_add(t, "}}");
}

/* --- names and the rest --- */

static const char *fill_at(size_t index)
{
    if (index >= KVG_FILL_CAPTURE) index++; /* a capture is an object */
    return kvg_fill_names[index];
}

/* What a value of each axis is, and the names of tables that axes take. */
static void add_values(kvg_json_text *t)
{
    for (int a = 0; a < KVG_AXIS_COUNT; a++) {
        const kvg_axis_info *axis = kvg_axis_get((kvg_axis)a);
        kvg_json_add(t, ", \"%s_value\": ", axis->name);
        add_one(t, (kvg_axis)a);
        if (!config_words_of((kvg_axis)a)) continue;
        kvg_json_add(t, ", \"%s\": ", axis->name);
        kvg_json_add_enum(t, config_words_of((kvg_axis)a)->at, NULL);
    }
    kvg_json_add(t, ", \"fill\": ");
    kvg_json_add_enum(t, fill_at, NULL);
}

static const char head[] = KVG_JSON(
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "kvgold config",
    "description": "What `kvgold check` runs, as `kvgold list schema` prints it. The program checks more.",
    "type": "object",
    "required": ["kvgold", "name", "seed", "cases"],
    "additionalProperties": false,
    "properties": {
        "$schema": {"type": "string", "description": "For editors: this file."},
        "kvgold": {"const": 1, "description": "Version of this layout."},
        "name": {"type": "string", "description": "Files of one name, seed and number of shards are merged."},
        "comment": {"type": "string", "description": "For people."},
        "seed": {"type": "string", "pattern": "^0x[0-9a-fA-F]{1,16}$",
                 "description": "Of all input data. --seed overrides it."},
        "limits": {
            "type": "object", "description": "Seconds that a case may take; slow_seconds <= hang_seconds.",
            "additionalProperties": false,
            "properties": {
                "slow_seconds": {"$ref": "#/$defs/seconds", "default": 10,
                                 "description": "Above it a case is marked slow. At most hang_seconds."},
                "hang_seconds": {"$ref": "#/$defs/seconds", "default": 60,
                                 "description": "Above it a case is a HANG."}
            }
        },
        "cases": {
            "type": "array", "minItems": 1,
            "description": "Case groups. Each is a product: one case for every combination of its values.",
            "items": );

static const char rest[] = KVG_JSON(
    "one_shape": {
        "description": "A model has kv_heads and head_dim: give it or them.",
        "not": {"required": ["model"], "anyOf": [{"required": ["kv_heads"]}, {"required": ["head_dim"]}]}
    },
    "one_storage": {
        "description": "A policy chooses the format: give it or the format.",
        "not": {"required": ["format", "policy"]}
    },
    "capture": {
        "type": "object", "required": ["capture", "k", "v"], "additionalProperties": false,
        "description": "Tensors [tokens, heads, head_dim] of a safetensors file, from the config's folder.",
        "properties": {"capture": {"$ref": "#/$defs/name"}, "k": {"type": "string"}, "v": {"type": "string"}}
    },
    "layout_text": {
        "type": "object", "required": ["name", "text"], "additionalProperties": false,
        "description": "A layout of your own: docs/spec/layouts.md section 8.",
        "properties": {"name": {"type": "string", "pattern": "^[a-z0-9_]{1,32}$"},
                       "text": {"type": "string", "maxLength": 1024}}
    },
    "scale": {"enum": ["P1", "P2", "P3", "P4"]},
    "tensor_scale": {"type": "number", "exclusiveMinimum": 0, "maximum": 3.4e38,
                     "description": "The decode scale g, as f32."},
    "scale_of_sides": {
        "type": "object", "required": ["k", "v"], "additionalProperties": false,
        "properties": {"k": {"$ref": "#/$defs/tensor_scale"}, "v": {"$ref": "#/$defs/tensor_scale"}}
    },
    "name": {"type": "string", "minLength": 1},
    "seconds": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1000000},
    "words": {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "string"}}]},
    "flags": {"anyOf": [{"type": "boolean"}, {"type": "array", "minItems": 1, "items": {"type": "boolean"}}]},
    "integers": {"anyOf": [{"type": "integer"}, {"type": "array", "minItems": 1, "items": {"type": "integer"}}]},
    "integers_or_words": {"anyOf": [{"$ref": "#/$defs/integers"}, {"$ref": "#/$defs/words"}]},
    "model": {
        "title": "kvgold model",
        "description": "The geometry of a model's KV cache: configs/models/<name>.json.",
        "type": "object",
        "required": ["title", "query_heads", "kv_heads", "head_dim", "source"],
        "oneOf": [{"required": ["layers"]}, {"required": ["groups"]}],
        "additionalProperties": false,
        "properties": {
            "title": {"type": "string", "maxLength": 95},
            "layers": {"type": "integer", "minimum": 1, "maximum": 10000, "description": "Layers that hold KV."},
            "groups": {"type": "array", "minItems": 1, "maxItems": 8, "items": {"$ref": "#/$defs/layer_group"},
                       "description": "Layers that hold KV, where they differ."},
            "other_layers": {"type": "integer", "minimum": 1, "maximum": 10000,
                             "description": "Layers that hold none: Mamba, linear attention."},
            "query_heads": {"type": "integer", "minimum": 1, "maximum": 1024, "description": "A multiple of kv_heads."},
            "kv_heads": {"type": "integer", "minimum": 1, "maximum": 1024},
            "head_dim": {"type": "integer", "minimum": 1, "maximum": 1024},
            "shared_kv": {"type": "boolean", "default": false,
                          "description": "K and V are one row (MLA): V takes no room."},
            "source": {"type": "string", "maxLength": 255, "description": "Where the numbers come from."}
        }
    },
    "layer_group": {
        "type": "object",
        "required": ["layers"],
        "additionalProperties": false,
        "properties": {
            "layers": {"type": "integer", "minimum": 1, "maximum": 10000},
            "window": {"type": "integer", "minimum": 1, "maximum": 1073741824,
                       "description": "The tokens that a query sees, itself included; without it, all."},
            "kv_heads": {"type": "integer", "minimum": 1, "maximum": 1024, "description": "In place of the model's."},
            "head_dim": {"type": "integer", "minimum": 1, "maximum": 1024, "description": "In place of the model's."}
        }
    });

/* What stands in "cases": a group of ops, or of the guest, whose name is its op. */
static void add_groups(kvg_json_text *t, const kvg_guest *guest)
{
    static const char ops[] = KVG_JSON({"$ref": "#/$defs/group"});
    if (!guest) {
        kvg_json_add(t, "%s", ops);
        return;
    }
    kvg_json_add(t, "{\"if\": {\"type\": \"object\", \"required\": [\"op\"], \"properties\": {\"op\": {\"const\": "
                 "\"%s\"}}}, \"then\": {\"$ref\": \"#/$defs/%s\"}, \"else\": %s}", guest->name, guest->name, ops);
}

kvg_status kvg_config_schema(const kvg_guest *guest, kvg_json_text *out)
{
    static const struct {
        const char *name;
        config_object object;
    } objects[] = {{"policy", CONFIG_POLICY}, {"padding", CONFIG_PADDING}, {"shared_kv", CONFIG_SHARED_KV},
                   {"rope", CONFIG_ROPE}, {"rope_scaling", CONFIG_SCALING}};
    kvg_json_text t = {0};
    kvg_json_add(&t, "{%s", head);
    add_groups(&t, guest);
    kvg_json_add(&t, "}}, \"$defs\": {");
    if (guest) guest->schema(&t);
    add_axes(&t);
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) add_object(&t, objects[i].name, objects[i].object);
    add_values(&t);
    kvg_json_add(&t, ", %s}}", rest);
    kvg_status s = kvg_json_text_check(&t);
    if (!s) kvg_json_lay_out(out, t.text);
    kvg_json_text_free(&t);
    return s ? s : kvg_json_text_check(out);
}
