#include "paging/pool/pool_config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- one scenario --- */

#define KNOB(field) #field, offsetof(kvg_pool_scenario, field)
static const struct knob {
    const char *name;
    size_t offset;
    int64_t min, max;
    kvg_pool_range standard;
    bool required, scalar; /* scalar: one number, no range */
} knobs[] = {
    {KNOB(operations), 1, 1000000000, {0, 0}, true, true},
    {KNOB(trace), 1, KVG_POOL_MAX_OPS, {200, 200}, false, true},
    {KNOB(sequences), 1, 4096, {8, 8}, false, true},
    {KNOB(domains), 1, KVG_POOL_DOMAINS, {1, 1}, false, true},
    {KNOB(prompts), 1, 1000000, {4, 4}, false, true},
    {KNOB(shared), 0, KVG_POOL_MAX_TOKENS, {0, 24}, false, false},
    {KNOB(tail), 0, KVG_POOL_MAX_TOKENS, {1, 8}, false, false},
    {KNOB(append), 1, KVG_POOL_MAX_TOKENS, {1, 1}, false, false},
    {KNOB(drafts), 0, 1 << 20, {0, 0}, false, false},
    {KNOB(max_tokens), 1, 1 << 20, {1, 64}, false, false},
    {KNOB(batch), 1, KVG_POOL_MAX_ITEMS, {1, 4}, false, false},
    {KNOB(priorities), 0, UINT32_MAX, {0, 7}, false, false},
    {KNOB(burst), 1, 1 << 20, {4, 24}, false, false},
    {KNOB(illegal), 0, 1000, {10, 10}, false, true},
};
enum { KNOBS = sizeof knobs / sizeof knobs[0] };
#undef KNOB

static kvg_status read_whole(kvg_json value, const struct knob *k, int64_t *out)
{
    uint64_t number;
    kvg_status s = kvg_json_u64(value, (uint64_t)k->min, (uint64_t)k->max, &number);
    if (!s) *out = (int64_t)number;
    return s;
}

/* n, or [lo, hi] where the knob is drawn. */
static kvg_status read_range(kvg_json value, const struct knob *k, kvg_pool_range *out)
{
    if (k->scalar || !kvg_json_is_array(value)) {
        kvg_status s = read_whole(value, k, &out->lo);
        out->hi = out->lo;
        return s;
    }
    if (kvg_json_count(value) != 2) return kvg_json_fail(value, "expected a number or [lowest, highest]");
    kvg_status s = read_whole(kvg_json_at(value, 0), k, &out->lo);
    if (!s) s = read_whole(kvg_json_at(value, 1), k, &out->hi);
    if (!s && out->lo > out->hi) s = kvg_json_fail(value, "the lowest is above the highest");
    return s;
}

static kvg_status read_knobs(kvg_json object, kvg_pool_scenario *scenario)
{
    kvg_status s = KVG_OK;
    for (int i = 0; !s && i < KNOBS; i++) {
        kvg_pool_range *range = (kvg_pool_range *)((char *)scenario + knobs[i].offset);
        kvg_json value;
        *range = knobs[i].standard;
        if (!knobs[i].required && !kvg_json_has(object, knobs[i].name)) continue;
        s = kvg_json_get(object, knobs[i].name, &value);
        if (!s) s = read_range(value, &knobs[i], range);
    }
    return s;
}

/* A value or a list of values for each geometry key: a trace draws one of each. */
static kvg_status read_choices(kvg_json object, kvg_pool_scenario *scenario)
{
    const char *known[KVG_POOL_GEOMETRY_KEYS];
    for (int i = 0; i < KVG_POOL_GEOMETRY_KEYS; i++) known[i] = kvg_pool_geometry_keys[i].name;
    kvg_status s = kvg_json_check_keys(object, known, KVG_POOL_GEOMETRY_KEYS);
    kvg_pool_geometry largest;
    for (int i = 0; !s && i < KVG_POOL_GEOMETRY_KEYS; i++) {
        kvg_json value;
        scenario->choices[i] = 1;
        scenario->geometry[i][0] = kvg_pool_geometry_keys[i].standard;
        if (kvg_json_has(object, known[i])) {
            s = kvg_json_get(object, known[i], &value);
            const bool list = !s && kvg_json_is_array(value);
            const size_t count = list ? kvg_json_count(value) : 1;
            if (!s && (count == 0 || count > KVG_POOL_MAX_CHOICES)) {
                s = kvg_json_fail(value, "expected 1 to %d values", KVG_POOL_MAX_CHOICES);
            }
            for (size_t j = 0; !s && j < count; j++) {
                s = kvg_pool_geometry_read(list ? kvg_json_at(value, j) : value, i, &scenario->geometry[i][j]);
            }
            scenario->choices[i] = (uint32_t)count;
        }
        int64_t most = scenario->geometry[i][0];
        for (uint32_t j = 1; !s && j < scenario->choices[i]; j++) {
            if (scenario->geometry[i][j] > most) most = scenario->geometry[i][j];
        }
        kvg_pool_geometry_set(&largest, i, most);
    }
    if (!s && kvg_pool_geometry_check(&largest)) s = kvg_json_fail(object, "%s", kvg_error_text());
    return s;
}

/* How often each operation is drawn, against the others; those not named keep their own weight. */
static kvg_status read_weights(kvg_json object, kvg_pool_scenario *scenario)
{
    static const unsigned standard[KVG_POOL_VERBS] = {
        [KVG_POOL_CREATE] = 8,   [KVG_POOL_APPEND] = 8,  [KVG_POOL_MATERIALISE] = 20, [KVG_POOL_WRITTEN] = 40,
        [KVG_POOL_RELEASE] = 3,  [KVG_POOL_PREEMPT] = 3, [KVG_POOL_FORK] = 3,         [KVG_POOL_ERASE] = 5,
        [KVG_POOL_COMMIT] = 2,   [KVG_POOL_VERIFY] = 2,  [KVG_POOL_READ] = 1,         [KVG_POOL_EVICT] = 2,
        [KVG_POOL_ALLOCATE] = 8, [KVG_POOL_LOCK] = 8,    [KVG_POOL_UNLOCK] = 14,      [KVG_POOL_FREE] = 4,
        [KVG_POOL_TOUCH] = 6,    [KVG_POOL_ALIVE] = 6,   [KVG_POOL_BEGIN] = 2,        [KVG_POOL_END] = 2,
        [KVG_POOL_UNDO] = 2,
    };
    const char *names[KVG_POOL_VERBS];
    size_t count = 0, total = 0;
    kvg_json weights = object;
    kvg_status s = KVG_OK;
    for (int i = 0; i < KVG_POOL_VERBS; i++) {
        const bool fits = kvg_pool_verb_fits((kvg_pool_verb)i, scenario->blocks);
        scenario->weights[i] = fits ? standard[i] : 0;
        if (fits) names[count++] = kvg_pool_verb_name((kvg_pool_verb)i);
    }
    if (!kvg_json_has(object, "weights")) return KVG_OK;
    s = kvg_json_get(object, "weights", &weights);
    if (!s) s = kvg_json_check_keys(weights, names, count);
    for (int i = 0; !s && i < KVG_POOL_VERBS; i++) {
        uint64_t number;
        if (kvg_json_has(weights, kvg_pool_verb_name((kvg_pool_verb)i))) {
            s = kvg_json_get_u64(weights, kvg_pool_verb_name((kvg_pool_verb)i), 0, 10000, &number);
            if (!s) scenario->weights[i] = (unsigned)number;
        }
        total += scenario->weights[i];
    }
    if (!s && total == 0) s = kvg_json_fail(weights, "no operation has a weight");
    return s;
}

static bool is_plain_name(const char *name)
{
    const size_t length = strlen(name);
    return length > 0 && length < 48 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == length;
}

static kvg_status read_name(kvg_json object, const char **out)
{
    kvg_json value;
    kvg_status s = kvg_json_get(object, "name", &value);
    if (!s) s = kvg_json_string(value, out);
    if (!s && !is_plain_name(*out)) {
        s = kvg_json_fail(value, "a name is 1 to 47 lower-case letters, digits, '_' and '-'");
    }
    return s;
}

static kvg_status read_kind(kvg_json object, bool *blocks)
{
    static const char *const kinds[] = {"sequences", "blocks"};
    kvg_json value;
    const char *name;
    *blocks = false;
    if (!kvg_json_has(object, "kind")) return KVG_OK;
    kvg_status s = kvg_json_get(object, "kind", &value);
    if (!s) s = kvg_json_string(value, &name);
    if (s) return s;
    *blocks = strcmp(name, kinds[1]) == 0;
    return *blocks || strcmp(name, kinds[0]) == 0 ? KVG_OK : kvg_json_fail_name(value, "kind of trace", name, kinds, 2);
}

static kvg_status read_scenario(kvg_json object, kvg_pool_scenario *scenario)
{
    const char *known[KNOBS + 6] = {"name", "comment", "kind", "pool", "weights", "faults"};
    for (int i = 0; i < KNOBS; i++) known[6 + i] = knobs[i].name;
    kvg_json value;
    kvg_status s = kvg_json_check_keys(object, known, KNOBS + 6);
    if (!s) s = read_name(object, &scenario->name);
    if (!s) s = kvg_json_check_notes(object);
    if (!s) s = read_kind(object, &scenario->blocks);
    if (!s) s = read_knobs(object, scenario);
    if (!s) s = read_weights(object, scenario);
    if (!s && kvg_json_has(object, "faults")) {
        s = kvg_json_get_bool(object, "faults", &scenario->faults);
    }
    if (!s) s = kvg_json_get(object, "pool", &value);
    if (!s) s = read_choices(value, scenario);
    return s;
}

/* --- the file --- */

static kvg_status read_list(kvg_json root, const char *key, kvg_json *list, size_t *count)
{
    *count = 0;
    if (!kvg_json_has(root, key)) return KVG_OK;
    kvg_status s = kvg_json_get(root, key, list);
    if (s) return s;
    if (!kvg_json_is_array(*list) || kvg_json_count(*list) == 0) {
        return kvg_json_fail(*list, "expected a list, not empty");
    }
    *count = kvg_json_count(*list);
    return KVG_OK;
}

static kvg_status read_scenarios(kvg_json root, kvg_pool_config *config)
{
    kvg_json list = root;
    size_t count;
    kvg_status s = read_list(root, "scenarios", &list, &count);
    if (s || count == 0) return s;
    config->scenarios = calloc(count, sizeof *config->scenarios);
    if (!config->scenarios) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu scenarios", count);
    for (size_t i = 0; !s && i < count; i++) {
        s = read_scenario(kvg_json_at(list, i), &config->scenarios[i]);
        for (size_t j = 0; !s && j < i; j++) {
            if (strcmp(config->scenarios[j].name, config->scenarios[i].name) != 0) continue;
            s = kvg_json_fail(kvg_json_at(list, i), "a scenario before has the name '%s'", config->scenarios[i].name);
        }
        config->scenario_count = i + 1;
    }
    return s;
}

/* Paths of traces start at the config's folder. */
static kvg_status read_traces(kvg_json root, kvg_pool_config *config)
{
    kvg_json list = root;
    size_t count;
    const char *slash = strrchr(config->path, '/');
    const size_t folder = slash ? (size_t)(slash - config->path) + 1 : 0;
    kvg_status s = read_list(root, "traces", &list, &count);
    if (s || count == 0) return s;
    config->traces = calloc(count, sizeof *config->traces);
    if (!config->traces) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu traces", count);
    for (size_t i = 0; !s && i < count; i++) {
        const char *name;
        s = kvg_json_string(kvg_json_at(list, i), &name);
        if (s) break;
        const size_t skip = name[0] == '/' ? 0 : folder, size = skip + strlen(name) + 1;
        config->traces[i] = malloc(size);
        if (!config->traces[i]) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu traces", count);
        snprintf(config->traces[i], size, "%.*s%s", (int)skip, config->path, name);
        config->trace_count = i + 1;
    }
    return s;
}

static kvg_status read_bench(kvg_json root, kvg_pool_config *config)
{
    static const char *const keys[] = {"blocks", "seconds"};
    kvg_json bench, list, value;
    size_t count;
    if (!kvg_json_has(root, "bench")) return KVG_OK;
    kvg_status s = kvg_json_get(root, "bench", &bench);
    if (!s) s = kvg_json_check_keys(bench, keys, 2);
    if (!s) s = kvg_json_get(bench, "blocks", &value);
    if (!s) s = read_list(bench, "blocks", &list, &count);
    if (!s && count > KVG_POOL_MAX_CHOICES) s = kvg_json_fail(list, "more than %d sizes", KVG_POOL_MAX_CHOICES);
    for (size_t i = 0; !s && i < count; i++) {
        uint64_t blocks;
        s = kvg_json_u64(kvg_json_at(list, i), 256, 1 << 24, &blocks);
        if (!s) config->bench_blocks[config->bench_count++] = (uint32_t)blocks;
    }
    config->bench_seconds = 0.1;
    if (!s && kvg_json_has(bench, "seconds")) {
        s = kvg_json_get(bench, "seconds", &value);
        if (!s) s = kvg_json_double(value, &config->bench_seconds);
        if (!s && !(config->bench_seconds > 0 && config->bench_seconds <= 60)) {
            s = kvg_json_fail(value, "expected a number above 0, at most 60");
        }
    }
    return s;
}

static kvg_status read_file(kvg_json root, kvg_pool_config *config)
{
    static const char *const known[] = {"$schema", "kvgold", "name", "comment", "seed", "scenarios", "traces", "bench"};
    uint64_t version;
    if (kvg_json_has(root, "cases")) {
        return kvg_json_fail(root, "this is a config of `kvgold check`: a pool config has \"scenarios\" or \"traces\"");
    }
    if (kvg_json_has(root, "ops")) return kvg_json_fail(root, "this is a trace: run it by `kvgold pool replay`");
    kvg_status s = kvg_json_check_keys(root, known, sizeof known / sizeof known[0]);
    if (!s) s = kvg_json_get_u64(root, "kvgold", 1, 1, &version);
    if (!s) s = read_name(root, &config->name);
    if (!s) s = kvg_json_check_notes(root);
    if (!s) s = kvg_json_get_hex64(root, "seed", &config->seed);
    if (!s) s = read_scenarios(root, config);
    if (!s) s = read_traces(root, config);
    if (!s) s = read_bench(root, config);
    if (!s && config->scenario_count + config->trace_count + config->bench_count == 0) {
        s = kvg_json_fail(root, "nothing to do: give \"scenarios\", \"traces\" or \"bench\"");
    }
    return s;
}

kvg_status kvg_pool_config_open(const char *path, kvg_pool_config *out)
{
    *out = (kvg_pool_config){.path = path};
    kvg_status s = kvg_json_open(path, &out->doc);
    if (s) return s;
    s = read_file(kvg_json_root(out->doc), out);
    if (s) kvg_pool_config_close(out);
    return s;
}

void kvg_pool_config_close(kvg_pool_config *config)
{
    for (size_t i = 0; i < config->trace_count; i++) free(config->traces[i]);
    free(config->traces);
    free(config->scenarios);
    kvg_json_close(config->doc);
    *config = (kvg_pool_config){0};
}
