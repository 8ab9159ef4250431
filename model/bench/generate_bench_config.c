#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "golden/golden.h"
#include "model/bench/generate_bench.h"
#include "model/checkpoint/model_config.h"

bool kvg_generate_bench_is(const char *path)
{
    kvg_json_doc *doc;
    if (kvg_json_open(path, &doc)) return false;
    const bool yes = kvg_json_has(kvg_json_root(doc), "generate");
    kvg_json_close(doc);
    return yes;
}

/* --- lists --- */

static kvg_status read_number(kvg_json value, void *out)
{
    uint64_t number;
    kvg_status s = kvg_json_u64(value, 1, 1 << 24, &number);
    if (!s) *(uint32_t *)out = (uint32_t)number;
    return s;
}

static kvg_status read_format(kvg_json value, void *out)
{
    const char *name;
    kvg_status s = kvg_json_string(value, &name);
    return s ? s : kvg_json_locate(value, kvg_format_find(name, out));
}

/* 1 to 16 of something. */
static kvg_status read_list(kvg_json object, const char *key, kvg_status (*one)(kvg_json value, void *out), void *items,
                            size_t size, uint32_t *count)
{
    kvg_json list;
    kvg_status s = kvg_json_get(object, key, &list);
    if (s) return s;
    *count = (uint32_t)kvg_json_count(list);
    if (!kvg_json_is_array(list) || *count < 1 || *count > KVG_GENERATE_BENCH_MOST) {
        return kvg_json_fail(list, "expected a list of 1 to %d", (int)KVG_GENERATE_BENCH_MOST);
    }
    for (uint32_t i = 0; !s && i < *count; i++) s = one(kvg_json_at(list, i), (char *)items + i * size);
    return s;
}

/* --- models --- */

static kvg_status read_products(kvg_json object, kvg_products *out)
{
    kvg_json value;
    const char *name;
    kvg_status s = kvg_json_get(object, "products", &value);
    if (!s) s = kvg_json_string(value, &name);
    return s ? s : kvg_json_locate(value, kvg_products_find(name, out));
}

/* config.json's text, as it stands in the config. */
static kvg_status read_inline_config(kvg_json value, kvg_model_config *out)
{
    char *text = kvg_json_print(value);
    if (!text) return kvg_fail(KVG_ERR_MEMORY, "cannot hold a model's config");
    kvg_status s = kvg_model_config_parse("config", text, strlen(text), out);
    cJSON_free(text);
    return kvg_json_locate(value, s);
}

/* A relative path starts at the config's folder. */
static kvg_status read_folder(kvg_json value, const char *config_path, kvg_generate_bench_model *out)
{
    const char *path, *slash = strrchr(config_path, '/');
    char file[sizeof out->folder + 16];
    kvg_status s = kvg_json_string(value, &path);
    if (s) return s;
    const int lead = path[0] == '/' || !slash ? 0 : (int)(slash - config_path) + 1;
    if (snprintf(out->folder, sizeof out->folder, "%.*s%s", lead, config_path, path) >= (int)sizeof out->folder) {
        return kvg_json_fail(value, "the path is too long");
    }
    snprintf(file, sizeof file, "%s/config.json", out->folder);
    return kvg_json_locate(value, kvg_model_config_open(file, &out->config));
}

static kvg_status read_model(kvg_json object, const char *config_path, kvg_generate_bench_model *out)
{
    static const char *const known[] = {"name", "folder", "config", "products"};
    kvg_json value;
    const char *name;
    const bool has_folder = kvg_json_has(object, "folder");
    kvg_status s = kvg_json_check_keys(object, known, sizeof known / sizeof known[0]);
    if (!s) s = kvg_json_get(object, "name", &value);
    if (!s) s = kvg_json_string(value, &name);
    if (s) return s;
    if (!name[0] || strlen(name) >= sizeof out->name) return kvg_json_fail(value, "expected 1 to 63 characters");
    snprintf(out->name, sizeof out->name, "%s", name);
    if (has_folder == kvg_json_has(object, "config")) {
        return kvg_json_fail(object, "a model has either a folder or a config, whose weights are random");
    }
    s = read_products(object, &out->products);
    if (!s) s = kvg_json_get(object, has_folder ? "folder" : "config", &value);
    if (s) return s;
    return has_folder ? read_folder(value, config_path, out) : read_inline_config(value, &out->config);
}

static kvg_status read_models(kvg_json object, const char *config_path, kvg_generate_bench_config *out)
{
    kvg_json list;
    kvg_status s = kvg_json_get(object, "models", &list);
    if (s) return s;
    const size_t count = kvg_json_count(list);
    if (!kvg_json_is_array(list) || count < 1 || count > KVG_GENERATE_BENCH_MOST) {
        return kvg_json_fail(list, "expected a list of 1 to %d models", (int)KVG_GENERATE_BENCH_MOST);
    }
    out->models = (uint32_t)count;
    for (size_t i = 0; !s && i < count; i++) s = read_model(kvg_json_at(list, i), config_path, &out->model[i]);
    return s;
}

/* --- the rest --- */

static kvg_status read_name(kvg_json object, const char *key, const char *standard, kvg_json *value, const char **out)
{
    *out = standard;
    *value = object;
    if (!kvg_json_has(object, key)) return KVG_OK;
    kvg_status s = kvg_json_get(object, key, value);
    return s ? s : kvg_json_string(*value, out);
}

static kvg_status read_cache(kvg_json object, kvg_generate_bench_config *out)
{
    kvg_json value;
    const char *name;
    uint64_t number = 16;
    kvg_status s = read_name(object, "layout", "hnd", &value, &name);
    if (!s) s = kvg_json_locate(value, kvg_layout_find(name, &out->layout));
    if (!s) s = read_name(object, "dtype", "bf16", &value, &name);
    if (!s) s = kvg_json_locate(value, kvg_dtype_find(name, &out->dtype));
    if (!s && kvg_json_has(object, "block_tokens")) {
        s = kvg_json_get_u64(object, "block_tokens", 1, 4096, &number);
    }
    out->block_tokens = (uint32_t)number;
    out->hang_seconds = 120;
    if (s || !kvg_json_has(object, "hang_seconds")) return s;
    s = kvg_json_get(object, "hang_seconds", &value);
    if (!s) s = kvg_json_double(value, &out->hang_seconds);
    if (s || (out->hang_seconds > 0 && out->hang_seconds < 1e6)) return s;
    return kvg_json_fail(value, "expected seconds above 0");
}

static kvg_status read_generate(kvg_json object, const char *path, kvg_generate_bench_config *out)
{
    static const char *const known[] = {"models", "format",       "batch", "context",
                                        "layout", "block_tokens", "dtype", "hang_seconds"};
    kvg_status s = kvg_json_check_keys(object, known, sizeof known / sizeof known[0]);
    if (!s) s = read_list(object, "format", read_format, out->format, sizeof out->format[0], &out->formats);
    if (!s) s = read_list(object, "batch", read_number, out->batch, sizeof out->batch[0], &out->batches);
    if (!s) s = read_list(object, "context", read_number, out->context, sizeof out->context[0], &out->contexts);
    if (!s) s = read_cache(object, out);
    if (!s) s = read_models(object, path, out);
    for (uint32_t m = 0; !s && m < out->models; m++) {
        for (uint32_t i = 0; !s && i < out->contexts; i++) {
            if (out->context[i] <= out->model[m].config.positions) continue;
            s = kvg_json_fail(object, "a context of %u tokens: model %s has %u positions", out->context[i],
                              out->model[m].name, out->model[m].config.positions);
        }
    }
    return s;
}

kvg_status kvg_generate_bench_open(const char *path, kvg_generate_bench_config *out)
{
    static const char *const known[] = {"$schema", "kvgold", "name", "comment", "seed", "generate"};
    kvg_json_doc *doc;
    kvg_json value;
    uint64_t version;
    *out = (kvg_generate_bench_config){0};
    kvg_status s = kvg_json_open(path, &doc);
    if (s) return s;
    const kvg_json root = kvg_json_root(doc);
    s = kvg_json_check_keys(root, known, sizeof known / sizeof known[0]);
    if (!s) s = kvg_json_get_u64(root, "kvgold", 1, 1, &version);
    if (!s) s = kvg_json_get_hex64(root, "seed", &out->seed);
    if (!s) s = kvg_json_get(root, "generate", &value);
    if (!s) s = read_generate(value, path, out);
    kvg_json_close(doc);
    return s;
}
