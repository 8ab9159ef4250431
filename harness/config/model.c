#include "harness/config/model.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/name.h"
#include "golden/golden.h"
#include "support/shipped.h"

kvg_status kvg_model_folder(char *out, size_t size)
{
    return kvg_shipped_path("configs/models", out, size);
}

kvg_status kvg_model_carried(char *out, size_t size)
{
    return kvg_shipped_path("golden/data/model", out, size);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

kvg_status kvg_model_names(const char *folder, char names[][64], size_t max, size_t *count)
{
    DIR *dir = opendir(folder);
    if (!dir) return kvg_fail(KVG_ERR_NOT_FOUND, "cannot read the folder %s", folder);
    *count = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL && *count < max;) {
        const size_t length = strlen(e->d_name);
        if (length < 6 || length > 68 || strcmp(e->d_name + length - 5, ".json") != 0) continue;
        snprintf(names[(*count)++], 64, "%.*s", (int)length - 5, e->d_name);
    }
    closedir(dir);
    qsort(names, *count, 64, by_name);
    return KVG_OK;
}

static kvg_status read_text(kvg_json object, const char *key, char *out, size_t size)
{
    kvg_json value;
    const char *text;
    kvg_status s = kvg_json_get(object, key, &value);
    if (!s) s = kvg_json_string(value, &text);
    if (!s && strlen(text) >= size) s = kvg_json_fail(value, "longer than %zu characters", size - 1);
    if (!s) snprintf(out, size, "%s", text);
    return s;
}

static kvg_status read_count(kvg_json object, const char *key, uint64_t min, uint64_t max, uint32_t *out)
{
    uint64_t number = 0;
    kvg_status s = kvg_json_get_u64(object, key, min, max, &number);
    *out = (uint32_t)number;
    return s;
}

static kvg_status check_heads(kvg_json object, uint32_t query_heads, uint32_t kv_heads)
{
    if (query_heads % kv_heads == 0) return KVG_OK;
    return kvg_json_fail(object, "query_heads %u is not a multiple of kv_heads %u", query_heads, kv_heads);
}

/* *g has the geometry of the model, which a group may replace. */
static kvg_status read_group(kvg_json object, uint32_t query_heads, kvg_model_group *g)
{
    static const char *const keys[] = {"layers", "window", "kv_heads", "head_dim"};
    kvg_status s = kvg_json_check_keys(object, keys, sizeof keys / sizeof keys[0]);
    if (!s) s = read_count(object, "layers", 1, 10000, &g->layers);
    if (!s && kvg_json_has(object, "window")) s = read_count(object, "window", 1, 1 << 30, &g->window);
    if (!s && kvg_json_has(object, "kv_heads")) s = read_count(object, "kv_heads", 1, 1024, &g->kv_heads);
    if (!s && kvg_json_has(object, "head_dim")) s = read_count(object, "head_dim", 1, 1024, &g->head_dim);
    return s ? s : check_heads(object, query_heads, g->kv_heads);
}

/* "layers", or "groups" of layers. */
static kvg_status read_groups(kvg_json root, const kvg_model_group *geometry, kvg_model *m)
{
    kvg_json list;
    if (kvg_json_has(root, "layers") == kvg_json_has(root, "groups")) {
        return kvg_json_fail(root, "give \"layers\" or \"groups\", one of them");
    }
    m->groups[0] = *geometry;
    m->group_count = 1;
    if (kvg_json_has(root, "layers")) return read_count(root, "layers", 1, 10000, &m->groups[0].layers);
    kvg_status s = kvg_json_get(root, "groups", &list);
    if (s) return s;
    m->group_count = kvg_json_count(list);
    if (!kvg_json_is_array(list) || m->group_count < 1 || m->group_count > KVG_MODEL_GROUPS) {
        return kvg_json_fail(list, "expected a list of 1 to %d groups of layers", KVG_MODEL_GROUPS);
    }
    for (size_t i = 0; i < m->group_count && !s; i++) {
        m->groups[i] = *geometry;
        s = read_group(kvg_json_at(list, i), m->query_heads, &m->groups[i]);
    }
    return s;
}

static kvg_status read_model(kvg_json root, kvg_model *m)
{
    static const char *const keys[] = {"title",    "layers",   "groups",    "other_layers", "query_heads",
                                       "kv_heads", "head_dim", "shared_kv", "source"};
    kvg_model_group geometry = {0};
    bool shared = false;
    kvg_status s = kvg_json_check_keys(root, keys, sizeof keys / sizeof keys[0]);
    if (!s) s = read_text(root, "title", m->title, sizeof m->title);
    if (!s && kvg_json_has(root, "other_layers")) s = read_count(root, "other_layers", 1, 10000, &m->other_layers);
    if (!s) s = read_count(root, "query_heads", 1, 1024, &m->query_heads);
    if (!s) s = read_count(root, "kv_heads", 1, 1024, &geometry.kv_heads);
    if (!s) s = read_count(root, "head_dim", 1, 1024, &geometry.head_dim);
    if (!s) s = read_text(root, "source", m->source, sizeof m->source);
    if (!s && kvg_json_has(root, "shared_kv")) {
        s = kvg_json_get_bool(root, "shared_kv", &shared);
    }
    geometry.shared_kv = shared;
    if (!s) s = check_heads(root, m->query_heads, geometry.kv_heads);
    return s ? s : read_groups(root, &geometry, m);
}

kvg_status kvg_model_whole(const kvg_model *m, kvg_model_group *out)
{
    bool same = true;
    *out = m->groups[0];
    out->window = 0;
    for (size_t i = 1; i < m->group_count; i++) {
        const kvg_model_group *g = &m->groups[i];
        out->layers += g->layers;
        same = same && g->kv_heads == out->kv_heads && g->head_dim == out->head_dim;
    }
    if (same) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "the layers of model %s differ in kv_heads or head_dim: give those of one group "
                    "in place of the model", m->name);
}

static kvg_status unknown_model(const char *folder, const char *name)
{
    char names[64][64];
    const char *known[64];
    size_t count = 0;
    kvg_status s = kvg_model_names(folder, names, 64, &count);
    if (s) return s;
    for (size_t i = 0; i < count; i++) known[i] = names[i];
    return kvg_fail_in(kvg_name_fail("model", name, known, sizeof known[0], count), "%s", folder);
}

kvg_status kvg_model_load(const char *folder, const char *name, kvg_model *out)
{
    *out = (kvg_model){0};
    char path[PATH_MAX + 80], default_folder[PATH_MAX];
    const size_t length = strlen(name);
    const bool is_path = length > 5 && strcmp(name + length - 5, ".json") == 0;
    if (is_path) {
        snprintf(path, sizeof path, "%s", name);
    } else {
        if (!folder) {
            kvg_status s = kvg_model_folder(default_folder, sizeof default_folder);
            if (s) return s;
            folder = default_folder;
        }
        struct stat info;
        snprintf(path, sizeof path, "%s/%s.json", folder, name);
        if (length >= sizeof out->name || strchr(name, '/') || stat(path, &info) != 0)
            return unknown_model(folder, name);
    }
    const char *slash = strrchr(path, '/');
    snprintf(out->name, sizeof out->name, "%.63s", slash ? slash + 1 : path);
    char *dot = strrchr(out->name, '.');
    if (dot) *dot = 0;
    kvg_json_doc *doc;
    kvg_status s = kvg_json_open(path, &doc);
    if (s) return s;
    s = read_model(kvg_json_root(doc), out);
    kvg_json_close(doc);
    return s;
}
