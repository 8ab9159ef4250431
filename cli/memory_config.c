#include "cli/memory_config.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/memory.h"
#include "policy/mode.h"
#include "golden/golden.h"
#include "harness/config/config_names.h"

/* One requirement: pools of `plan` for `context` tokens must be at least `at_least` times smaller than plain rows of
 * `against`. */
typedef struct requirement {
    kvg_model model;
    kvg_memory_plan plan;
    kvg_format against;
    uint64_t context;
    double at_least;
} requirement;

static kvg_status read_name(kvg_json object, const char *key, const char *fallback, kvg_json *value, const char **out)
{
    *out = fallback;
    *value = object;
    if (fallback && !kvg_json_has(object, key)) return KVG_OK;
    kvg_status s = kvg_json_get(object, key, value);
    return s ? s : kvg_json_string(*value, out);
}

static kvg_status read_number(kvg_json object, const char *key, uint64_t fallback, uint64_t max, uint64_t *out)
{
    *out = fallback;
    if (!kvg_json_has(object, key)) return KVG_OK;
    return kvg_json_get_u64(object, key, 0, max, out);
}

/* "mode" (of modes.md) or "format". */
static kvg_status read_storage(kvg_json object, requirement *r)
{
    kvg_json value;
    const char *name;
    kvg_mode mode;
    const bool by_mode = kvg_json_has(object, "mode");
    if (by_mode == kvg_json_has(object, "format")) {
        return kvg_json_fail(object, "give \"mode\" or \"format\", one of them");
    }
    kvg_status s = read_name(object, by_mode ? "mode" : "format", NULL, &value, &name);
    if (s) return s;
    if (!by_mode) return kvg_json_locate(value, kvg_format_find(name, &r->plan.format));
    s = kvg_json_locate(value, kvg_mode_find(name, &mode));
    if (!s) r->plan.format = kvg_mode_format(mode, r->plan.dtype);
    if (!s && r->plan.format == KVG_FORMAT_NONE) {
        s = kvg_json_fail(value, "mode %s cannot store model type %s", name, kvg_dtype_name(r->plan.dtype));
    }
    return s;
}

/* A model by name, or by a path that starts at the config's folder. */
static kvg_status load_model(const char *config, const char *name, kvg_model *out)
{
    char path[2 * PATH_MAX];
    const char *slash = strrchr(config, '/');
    const size_t length = strlen(name);
    const bool relative = length > 5 && strcmp(name + length - 5, ".json") == 0 && name[0] != '/';
    snprintf(path, sizeof path, "%.*s%s", relative && slash ? (int)(slash + 1 - config) : 0, config, name);
    return kvg_model_load(NULL, path, out);
}

/* A name, or a text. */
static kvg_status read_layout(kvg_json object, kvg_memory_plan *plan)
{
    kvg_json value;
    const char *name;
    if (!kvg_json_has(object, "layout")) return KVG_OK;
    kvg_status s = kvg_json_get(object, "layout", &value);
    if (s) return s;
    if (kvg_json_is_object(value)) {
        plan->layout = KVG_LAYOUT_TEXT;
        return kvg_config_layout_text(value, &plan->text);
    }
    s = kvg_json_string(value, &name);
    return s ? s : kvg_json_locate(value, kvg_layout_find(name, &plan->layout));
}

static kvg_status read_requirement(const char *config, kvg_json object, requirement *r)
{
    static const char *const keys[] = {"model", "mode", "format", "dtype", "layout", "block_tokens", "row_padding",
                                       "data_padding", "scale_padding", "context", "against", "at_least", "comment"};
    kvg_json value;
    const char *name;
    uint64_t numbers[5];
    *r = (requirement){.plan = {.layout = KVG_LAYOUT_TURBOMIND}};
    kvg_status s = kvg_json_check_keys(object, keys, sizeof keys / sizeof keys[0]);
    if (!s) s = read_name(object, "model", NULL, &value, &name);
    if (!s) s = kvg_json_locate(value, load_model(config, name, &r->model));
    if (!s) s = read_name(object, "dtype", "bf16", &value, &name);
    if (!s) s = kvg_json_locate(value, kvg_dtype_find(name, &r->plan.dtype));
    if (!s) s = read_storage(object, r);
    if (!s) s = read_layout(object, &r->plan);
    if (!s) s = read_name(object, "against", "f16", &value, &name);
    if (!s) s = kvg_json_locate(value, kvg_format_find(name, &r->against));
    if (!s) s = read_number(object, "block_tokens", 64, 1 << 20, &numbers[0]);
    if (!s) s = read_number(object, "row_padding", 0, 1 << 20, &numbers[1]);
    if (!s) s = read_number(object, "data_padding", 0, 1 << 20, &numbers[2]);
    if (!s) s = read_number(object, "scale_padding", 0, 1 << 20, &numbers[3]);
    if (!s) s = read_number(object, "context", 4096, 1 << 30, &r->context);
    if (!s) s = kvg_json_get(object, "at_least", &value);
    if (!s) s = kvg_json_double(value, &r->at_least);
    if (s) return s;
    if (!(r->at_least > 0 && r->at_least <= 64)) return kvg_json_fail(value, "a saving is above 0 and at most 64");
    if (numbers[0] < 1) return kvg_json_fail(object, "block_tokens must be at least 1");
    r->plan.block_tokens = (uint32_t)numbers[0];
    r->plan.row_padding = (uint32_t)numbers[1];
    r->plan.data_padding = (uint32_t)numbers[2];
    r->plan.scale_padding = (uint32_t)numbers[3];
    return KVG_OK;
}

/* Prints the verdict; false on a shortfall. */
static bool judge(const requirement *r, const kvg_memory_use *use)
{
    const uint64_t plain = kvg_memory_row_bytes(&r->model, r->against, r->context), held = use->data + use->scales;
    const double saving = (double)plain / (double)held;
    const bool met = saving >= r->at_least;
    const char *layout = r->plan.text.name ? r->plan.text.name : kvg_layout_get(r->plan.layout)->name;
    printf("%s %s %s %s B %u: %llu tokens take %llu bytes, %s %llu: %.4fx, at least %gx wanted\n",
           met ? "ok  " : "FAIL", r->model.name, kvg_format_get(r->plan.format)->name, layout, r->plan.block_tokens,
           (unsigned long long)r->context, (unsigned long long)held, kvg_format_get(r->against)->name,
           (unsigned long long)plain, saving, r->at_least);
    if (!met) {
        const uint64_t allowed = (uint64_t)((double)plain / r->at_least);
        printf("     %llu bytes too many: data %llu, scales %llu; of both padding %llu, tails of blocks %llu\n",
               (unsigned long long)(held - allowed), (unsigned long long)use->data, (unsigned long long)use->scales,
               (unsigned long long)use->padding, (unsigned long long)use->tail);
    }
    return met;
}

static kvg_status run(const char *path, kvg_json root, size_t *met, size_t *count)
{
    static const char *const keys[] = {"$schema", "kvgold", "name", "comment", "memory"};
    kvg_json list, value;
    uint64_t version;
    const char *name;
    kvg_status s = kvg_json_check_keys(root, keys, sizeof keys / sizeof keys[0]);
    if (!s) s = kvg_json_get_u64(root, "kvgold", 1, 1, &version);
    if (!s) s = read_name(root, "name", NULL, &value, &name);
    if (!s) s = kvg_json_get(root, "memory", &list);
    if (!s && (!kvg_json_is_array(list) || kvg_json_count(list) == 0)) {
        s = kvg_json_fail(list, "expected a list of requirements");
    }
    for (; !s && *count < kvg_json_count(list); ++*count) {
        const kvg_json object = kvg_json_at(list, *count);
        requirement r;
        kvg_memory_use use;
        s = read_requirement(path, object, &r);
        if (!s) s = kvg_json_locate(object, kvg_memory_measure(&r.model, &r.plan, r.context, &use));
        if (!s) *met += judge(&r, &use);
    }
    return s;
}

kvg_status kvg_memory_require(const char *path, size_t *met, size_t *count)
{
    kvg_json_doc *doc;
    *met = *count = 0;
    kvg_status s = kvg_json_open(path, &doc);
    if (s) return s;
    s = run(path, kvg_json_root(doc), met, count);
    kvg_json_close(doc);
    return s;
}
