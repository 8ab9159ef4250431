#include "harness/config/config.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/name.h"
#include "harness/config/config_axes.h"
#include "harness/trial/question/fill.h"

static int by_id(const void *a, const void *b)
{
    const kvg_case *x = *(const kvg_case *const *)a, *y = *(const kvg_case *const *)b;
    const int order = strcmp(x->id, y->id);
    return order ? order : (x > y) - (x < y);
}

/* Combinations that differ only in an axis the format does not have (a tensor scale, say) are one case: the first
 * stays. */
static kvg_status drop_duplicates(kvg_config *config)
{
    const size_t n = config->case_count;
    const kvg_case **sorted = malloc((n + 1) * sizeof *sorted);
    bool *drop = calloc(n + 1, sizeof *drop);
    if (!sorted || !drop) {
        free(sorted);
        free(drop);
        return kvg_fail(KVG_ERR_MEMORY, "cannot sort %zu cases", n);
    }
    for (size_t i = 0; i < n; i++) sorted[i] = &config->cases[i];
    qsort(sorted, n, sizeof *sorted, by_id);
    kvg_status s = KVG_OK;
    for (size_t i = 1; i < n; i++) {
        const kvg_case *a = sorted[i - 1], *b = sorted[i];
        if (strcmp(a->id, b->id) != 0) continue;
        drop[b - config->cases] = true;
        if (a->fill == KVG_FILL_CAPTURE && strcmp(a->capture_file, b->capture_file) != 0) {
            s = kvg_fail(KVG_ERR_INVALID, "%s: %s and %s both have the tensors of case %s: rename one's", config->path,
                         a->capture_file, b->capture_file, a->id);
        }
    }
    config->case_count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!drop[i]) config->cases[config->case_count++] = config->cases[i];
    }
    free(sorted);
    free(drop);
    return s;
}

static kvg_status read_limits(kvg_config *config, kvg_json root)
{
    static const char *const keys[] = {"slow_seconds", "hang_seconds"};
    kvg_json limits;
    config->slow_seconds = 10;
    config->hang_seconds = 60;
    if (!kvg_json_has(root, "limits")) return KVG_OK;
    kvg_status s = kvg_json_get(root, "limits", &limits);
    if (!s) s = kvg_json_check_keys(limits, keys, 2);
    if (!s && kvg_json_has(limits, keys[1])) {
        s = kvg_json_get_double(limits, keys[1], &config->hang_seconds);
        config->slow_seconds = fmin(config->slow_seconds, config->hang_seconds);
    }
    if (!s && kvg_json_has(limits, keys[0])) {
        s = kvg_json_get_double(limits, keys[0], &config->slow_seconds);
    }
    if (!s &&
        !(config->slow_seconds > 0 && config->hang_seconds >= config->slow_seconds && config->hang_seconds < 1e6)) {
        s = kvg_json_fail(limits, "0 < slow_seconds <= hang_seconds is required; hang_seconds is 60 unless given");
    }
    return s;
}

/* A group of ops, or of the guest. */
static kvg_status add_group(kvg_config *config, const kvg_guest *guest, kvg_json group)
{
    kvg_json op;
    const char *name;
    const bool named = kvg_json_has(group, "op") && !kvg_json_get(group, "op", &op) && kvg_json_is_string(op) &&
                       !kvg_json_string(op, &name) && kvg_guest_is_known(name);
    if (!named) {
        kvg_status s = config_group_add(config, group);
        return s || !kvg_json_has(group, "covers") ? s : config_cover_check(config, group);
    }
    if (guest && strcmp(guest->name, name) == 0) return guest->add(guest, config, group);
    return kvg_fail(KVG_ERR_INVALID, "%s: cases of op %s are for `kvgold check` alone", config->path, name);
}

static kvg_status read_config(kvg_config *config, const uint64_t *seed, const kvg_guest *guest)
{
    static const char *const keys[] = {"$schema", "kvgold", "name", "comment", "seed", "limits", "cases"};
    const kvg_json root = kvg_json_root(config->data->doc);
    kvg_json value;
    uint64_t version;
    if (kvg_json_has(root, "scenarios") || kvg_json_has(root, "traces") || kvg_json_has(root, "bench")) {
        return kvg_json_fail(root, "this is a config of `kvgold pool`: one of `kvgold check` has \"cases\"");
    }
    kvg_status s = kvg_json_check_keys(root, keys, sizeof keys / sizeof keys[0]);
    if (!s) s = kvg_json_check_notes(root);
    if (!s) s = kvg_json_get_u64(root, "kvgold", 1, 1, &version);
    if (!s) s = kvg_json_get_string(root, "name", &config->name);
    if (!s) s = kvg_json_get_hex64(root, "seed", &config->seed);
    if (!s && seed) config->seed = *seed;
    config->public_seed = !seed;
    if (!s) s = read_limits(config, root);
    if (!s) s = kvg_json_get(root, "cases", &value);
    if (!s && !kvg_json_is_array(value)) s = kvg_json_fail(value, "expected a list of case groups");
    for (size_t i = 0; !s && i < kvg_json_count(value); i++) {
        s = add_group(config, guest, kvg_json_at(value, i));
    }
    if (!s) s = drop_duplicates(config);
    if (!s && config->case_count == 0) s = kvg_json_fail(root, "selects no case: an empty run proves nothing");
    return s;
}

static kvg_status config_init(const char *name, const char *folder, kvg_config *out)
{
    *out = (kvg_config){0};
    out->data = calloc(1, sizeof *out->data);
    if (!out->data) return kvg_fail(KVG_ERR_MEMORY, "cannot hold a config");
    kvg_status s = kvg_config_keep(out, folder, &out->data->folder);
    return s ? s : kvg_config_keep(out, name, &out->path);
}

static kvg_status finish(kvg_config *out, kvg_status s, const uint64_t *seed, const kvg_guest *guest)
{
    if (!s) s = read_config(out, seed, guest);
    if (s) kvg_config_close(out);
    return s;
}

kvg_status kvg_config_parse(const char *name, const char *text, size_t size, const char *folder,
                            const kvg_guest *guest, kvg_config *out)
{
    kvg_status s = config_init(name, folder, out);
    if (!s) s = kvg_json_parse(name, text, size, &out->data->doc);
    return finish(out, s, NULL, guest);
}

kvg_status kvg_config_open(const char *path, const uint64_t *seed, const kvg_guest *guest, kvg_config *out)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    kvg_status s = config_init(path, folder, out);
    if (!s) s = kvg_json_open(path, &out->data->doc);
    s = finish(out, s, seed, guest);
    for (size_t i = 0; !s && i < out->case_count; i++) kvg_fill_shuffle(&out->cases[i]);
    return s;
}

kvg_status kvg_config_find(const kvg_config *config, const char *id, const kvg_case **out)
{
    const char **ids = malloc(config->case_count * sizeof *ids);
    if (!ids) return kvg_fail(KVG_ERR_MEMORY, "no memory for the ids of %s", config->path);
    *out = NULL;
    for (size_t i = 0; i < config->case_count; i++) {
        ids[i] = config->cases[i].id;
        if (strcmp(ids[i], id) == 0) *out = &config->cases[i];
    }
    const char *nearest = *out ? NULL : kvg_name_nearest(id, ids, sizeof ids[0], config->case_count);
    free(ids);
    if (*out) return KVG_OK;
    if (nearest) {
        return kvg_fail(KVG_ERR_NOT_FOUND, "%s: no case '%s' (did you mean '%s'?)", config->path, id, nearest);
    }
    return kvg_fail(KVG_ERR_NOT_FOUND, "%s: no case '%s': `kvgold list %s` shows them", config->path, id, config->path);
}

kvg_status kvg_config_use_backend(kvg_config *config, const char *backend)
{
    if (!*backend) return kvg_fail(KVG_ERR_INVALID, "a backend needs a name: reference, defect:<id> or a plug-in");
    for (size_t i = 0; i < config->case_count; i++) {
        config->cases[i].backend = backend;
        kvg_status s = kvg_case_name(&config->cases[i]);
        if (s) return s;
    }
    return drop_duplicates(config);
}
