#include "harness/pack/golden_plan.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "harness/config/config_axes.h"
#include "harness/pack/golden_parts.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The profiles that answers name, ascending. */
static kvg_status list_profiles(kvg_pack *pack)
{
    const char *names[KVG_PROFILE_END];
    size_t count = 0;
    for (size_t i = 0; i < pack->case_count; i++) {
        const char *name = pack->cases[i].answer[0].profile;
        size_t known = 0;
        while (name && known < count && strcmp(names[known], name) != 0) known++;
        if (name && known == count) names[count++] = name;
    }
    qsort(names, count, sizeof names[0], by_text);
    const char **kept = kvg_pack_alloc(pack, count, sizeof *kept);
    if (!kept) return KVG_ERR_MEMORY;
    memcpy(kept, names, count * sizeof *kept);
    pack->profiles = kept;
    pack->profile_count = count;
    return KVG_OK;
}

static int by_id(const void *a, const void *b)
{
    return strcmp((*(const kvg_pack_case *const *)a)->id, (*(const kvg_pack_case *const *)b)->id);
}

static kvg_status check_ids(kvg_pack *pack)
{
    const kvg_pack_case **sorted = kvg_pack_alloc(pack, pack->case_count, sizeof *sorted);
    if (!sorted) return KVG_ERR_MEMORY;
    for (size_t i = 0; i < pack->case_count; i++) sorted[i] = &pack->cases[i];
    qsort(sorted, pack->case_count, sizeof *sorted, by_id);
    for (size_t i = 1; i < pack->case_count; i++) {
        if (strcmp(sorted[i - 1]->id, sorted[i]->id) == 0) {
            return kvg_fail(KVG_ERR_INVALID, "pack %s: two groups give case %s", pack->name, sorted[i]->id);
        }
    }
    return KVG_OK;
}

/* --- from a config --- */

/* A group: cases with the same flags. */
typedef struct group {
    const char *const *flags;
    size_t flag_count;
    bool stored;
} group;

static kvg_status get_string(kvg_pack *pack, kvg_json object, const char *key, const char **out)
{
    const char *text;
    kvg_status s = kvg_json_get_string(object, key, &text);
    if (s) return s;
    *out = kvg_pack_keep(pack, text);
    return *out ? KVG_OK : KVG_ERR_MEMORY;
}

static kvg_status read_notes(kvg_pack *pack, kvg_json root)
{
    kvg_json object;
    kvg_status s = kvg_json_get(root, "notes", &object);
    if (!s && !kvg_json_is_object(object)) s = kvg_json_fail(object, "expected an object: flag to text");
    if (s) return s;
    kvg_pack_note *notes = kvg_pack_alloc(pack, kvg_json_count(object), sizeof *notes);
    if (!notes) return KVG_ERR_MEMORY;
    pack->notes = notes;
    pack->note_count = kvg_json_count(object);
    for (size_t i = 0; i < pack->note_count && !s; i++) {
        notes[i].flag = kvg_pack_keep(pack, kvg_json_key(kvg_json_at(object, i)));
        s = notes[i].flag ? get_string(pack, object, notes[i].flag, &notes[i].text) : KVG_ERR_MEMORY;
    }
    return s;
}

static kvg_status read_flags(kvg_pack *pack, kvg_json object, bool *used, group *out)
{
    kvg_json list;
    kvg_status s = kvg_json_get(object, "flags", &list);
    if (!s && !kvg_json_is_array(list)) s = kvg_json_fail(list, "expected a list of keys of notes");
    if (s) return s;
    out->flag_count = kvg_json_count(list);
    const char **flags = kvg_pack_alloc(pack, out->flag_count, sizeof *flags);
    if (!flags) return KVG_ERR_MEMORY;
    for (size_t i = 0; i < out->flag_count && !s; i++) {
        const kvg_json value = kvg_json_at(list, i);
        const char *flag;
        size_t n = 0;
        s = kvg_json_string(value, &flag);
        while (!s && n < pack->note_count && strcmp(pack->notes[n].flag, flag) != 0) n++;
        if (!s && n == pack->note_count) s = kvg_json_fail(value, "flag '%.60s' has no note", flag);
        if (s) break;
        flags[i] = pack->notes[n].flag;
        used[n] = true;
    }
    if (!s) qsort(flags, out->flag_count, sizeof *flags, by_text);
    for (size_t i = 1; i < out->flag_count && !s; i++) {
        if (flags[i - 1] == flags[i]) s = kvg_json_fail(list, "'%s' comes twice", flags[i]);
    }
    out->flags = flags;
    return s;
}

/* Of all cases, where the config gives it; else each keeps its own. */
static kvg_status set_layer(const kvg_golden_plan *plan, kvg_case *c)
{
    if (!plan->has_layer) return KVG_OK;
    if (!kvg_layout_get(c->problem.layout)->paged || plan->layer >= c->problem.paging.layers) {
        return kvg_fail(KVG_ERR_INVALID, "%s has no layer %llu", c->id, (unsigned long long)plan->layer);
    }
    c->problem.paging.layer = (uint32_t)plan->layer;
    return KVG_OK;
}

/* The cases of a group, as a config of `kvgold check` has them. */
static kvg_status read_cases(const kvg_golden_plan *plan, kvg_json object, const char *path, kvg_config *out)
{
    const kvg_pack *pack = plan->pack;
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    kvg_json list;
    kvg_json_text t = {0};
    kvg_status s = kvg_json_get(object, "cases", &list);
    if (s) return s;
    char *cases = kvg_json_print(list);
    if (!cases) return kvg_fail(KVG_ERR_MEMORY, "%s: no memory for its cases", path);
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    kvg_json_add(&t, "{\"kvgold\": 1, \"name\": \"%s\", \"seed\": \"0x%" PRIx64 "\", \"cases\": %s}", pack->name,
                 pack->seed, cases);
    cJSON_free(cases);
    s = kvg_json_text_check(&t);
    if (!s) s = kvg_config_parse(path, t.text, t.size, folder, NULL, out);
    if (!s) s = kvg_config_use_backend(out, "reference");
    for (size_t i = 0; !s && i < out->case_count; i++) s = set_layer(plan, &out->cases[i]);
    kvg_json_text_free(&t);
    if (!s) return KVG_OK;
    const char *why = kvg_error_text(); /* the file stands before the group's place already */
    const size_t length = strlen(path);
    if (strncmp(why, path, length) == 0 && strncmp(why + length, ": ", 2) == 0) why += length + 2;
    return kvg_json_fail(object, "%s", why);
}

static kvg_status take_case(kvg_golden_plan *plan, const kvg_case *c, const group *g, size_t *room)
{
    kvg_pack *pack = plan->pack;
    if (pack->case_count == *room) {
        if (*room == KVG_PACK_MAX_CASES) {
            return kvg_fail(KVG_ERR_INVALID, "pack %s: more than %d cases: split it", pack->name, KVG_PACK_MAX_CASES);
        }
        *room = *room ? 2 * *room : 64;
        if (*room > KVG_PACK_MAX_CASES) *room = KVG_PACK_MAX_CASES;
        kvg_pack_case *grown = kvg_pack_alloc(pack, *room, sizeof *grown);
        const kvg_case **cases = kvg_pack_alloc(pack, *room, sizeof *cases);
        if (!grown || !cases) return KVG_ERR_MEMORY;
        if (pack->case_count) {
            memcpy(grown, pack->cases, pack->case_count * sizeof *grown);
            memcpy(cases, plan->cases, pack->case_count * sizeof *cases);
        }
        pack->cases = grown;
        plan->cases = cases;
    }
    kvg_pack_case *out = &pack->cases[pack->case_count];
    kvg_status s = kvg_golden_describe(pack, pack->case_count, c, out);
    if (s) return s;
    out->flags = g->flags;
    out->flag_count = g->flag_count;
    out->stored = g->stored;
    plan->cases[pack->case_count++] = c;
    if (c->problem.text) pack->format_version = KVG_PACK_VERSION_OF_TEXTS;
    return KVG_OK;
}

static kvg_status read_group(kvg_golden_plan *plan, kvg_json object, const char *path, bool *used, size_t *room)
{
    static const char *const keys[] = {"flags", "stored", "comment", "cases"};
    group g = {.stored = true};
    kvg_config *config = &plan->configs[plan->config_count];
    kvg_status s = kvg_json_check_keys(object, keys, COUNT(keys));
    if (!s) s = kvg_json_check_notes(object);
    if (!s) s = read_flags(plan->pack, object, used, &g);
    if (!s && kvg_json_has(object, "stored")) {
        s = kvg_json_get_bool(object, "stored", &g.stored);
    }
    if (!s) s = read_cases(plan, object, path, config);
    if (s) return s;
    plan->config_count++;
    for (size_t i = 0; i < config->case_count && !s; i++) s = take_case(plan, &config->cases[i], &g, room);
    return s;
}

static kvg_status read_head(kvg_golden_plan *plan, kvg_json root)
{
    kvg_pack *pack = plan->pack;
    static const char *const keys[] = {"$schema", "kvgold_golden", "name",    "version", "licence",
                                       "seed",    "layer",         "comment", "notes",   "groups"};
    uint64_t version;
    kvg_status s = kvg_json_check_keys(root, keys, COUNT(keys));
    if (!s) s = kvg_json_check_notes(root);
    if (!s) s = kvg_json_get_u64(root, "kvgold_golden", 1, 1, &version);
    if (!s) s = get_string(pack, root, "name", &pack->name);
    if (!s) s = get_string(pack, root, "version", &pack->version);
    if (!s) s = get_string(pack, root, "licence", &pack->licence);
    plan->has_layer = kvg_json_has(root, "layer");
    if (!s && plan->has_layer) s = kvg_json_get_u64(root, "layer", 0, UINT32_MAX, &plan->layer);
    if (!s) s = kvg_json_get_hex64(root, "seed", &pack->seed);
    if (!s && !kvg_pack_is_name(pack->name)) {
        s = kvg_json_fail(root, "name '%.80s' is not 1 to 64 of a-z 0-9 _ . -", pack->name);
    }
    if (!s && !pack->licence[0]) s = kvg_json_fail(root, "licence is empty: give an SPDX expression");
    if (!s && !kvg_pack_is_version(pack->version)) {
        s = kvg_json_fail(root, "version '%.80s' is not MAJOR.MINOR.PATCH", pack->version);
    }
    return s ? s : read_notes(pack, root);
}

static kvg_status read_plan(kvg_golden_plan *plan, kvg_json root, const char *path)
{
    kvg_pack *pack = plan->pack;
    kvg_json groups;
    size_t room = 0;
    kvg_status s = read_head(plan, root);
    if (!s) s = kvg_json_get(root, "groups", &groups);
    if (!s && !kvg_json_is_array(groups)) s = kvg_json_fail(groups, "expected a list of groups");
    if (s) return s;
    bool *used = kvg_pack_alloc(pack, pack->note_count, sizeof *used);
    plan->configs = calloc(kvg_json_count(groups) + 1, sizeof *plan->configs);
    if (!used || !plan->configs) return kvg_fail(KVG_ERR_MEMORY, "%s: no memory for its groups", path);
    for (size_t i = 0; i < kvg_json_count(groups) && !s; i++) {
        s = read_group(plan, kvg_json_at(groups, i), path, used, &room);
    }
    if (!s && pack->case_count == 0) s = kvg_json_fail(groups, "gives no case: an empty pack proves nothing");
    for (size_t i = 0; i < pack->note_count && !s; i++) {
        if (!used[i]) s = kvg_json_fail(root, "note '%s' is of no group's flags: remove it", pack->notes[i].flag);
    }
    if (!s) s = check_ids(pack);
    return s ? s : list_profiles(pack);
}

kvg_status kvg_golden_plan_read(const char *path, kvg_golden_plan *out)
{
    kvg_json_doc *doc = NULL;
    *out = (kvg_golden_plan){0};
    kvg_status s = kvg_json_open(path, &doc);
    if (!s) s = kvg_pack_new(&out->pack);
    if (!s) {
        out->pack->format_version = KVG_PACK_VERSION;
        s = read_plan(out, kvg_json_root(doc), path);
    }
    kvg_json_close(doc);
    return s;
}

/* --- without some cases --- */

static bool has_flag(const kvg_pack *pack, const char *flag)
{
    for (size_t i = 0; i < pack->case_count; i++) {
        for (size_t n = 0; n < pack->cases[i].flag_count; n++) {
            if (strcmp(pack->cases[i].flags[n], flag) == 0) return true;
        }
    }
    return false;
}

kvg_status kvg_golden_plan_drop(kvg_golden_plan *plan, const bool *drop)
{
    kvg_pack *pack = plan->pack;
    size_t kept = 0;
    for (size_t i = 0; i < pack->case_count; i++) {
        if (drop[i]) continue;
        const kvg_pack_case old = pack->cases[i];
        kvg_pack_case *c = &pack->cases[kept];
        *c = (kvg_pack_case){.flags = old.flags, .flag_count = old.flag_count, .stored = old.stored,
                             .separation = old.separation};
        plan->cases[kept] = plan->cases[i];
        kvg_status s = kvg_golden_describe(pack, kept, plan->cases[kept], c);
        if (s) return s;
        kept++;
    }
    pack->case_count = kept;
    kvg_pack_note *notes = kvg_pack_alloc(pack, pack->note_count, sizeof *notes);
    if (!notes) return KVG_ERR_MEMORY;
    size_t note_count = 0;
    for (size_t i = 0; i < pack->note_count; i++) {
        if (has_flag(pack, pack->notes[i].flag)) notes[note_count++] = pack->notes[i];
    }
    pack->notes = notes;
    pack->note_count = note_count;
    return list_profiles(pack);
}

/* --- from a pack --- */

/* Digests of tensors that have the same name in both lists. */
static void take_digests(kvg_pack_tensor *to, size_t count, const kvg_pack_tensor *from, size_t from_count)
{
    for (size_t i = 0; i < count; i++) {
        const kvg_pack_tensor *t = kvg_pack_tensor_find(from, from_count, to[i].short_name);
        if (t) to[i].sha256 = t->sha256;
    }
}

static kvg_status retake_case(kvg_golden_plan *plan, const kvg_pack *from, size_t i)
{
    kvg_golden_case parsed;
    const kvg_pack_case *old = &from->cases[i];
    kvg_pack_case *c = &plan->pack->cases[i];
    kvg_status s = kvg_golden_case_parse(from, old, &parsed);
    if (s) {
        kvg_golden_case_free(&parsed);
        return s;
    }
    plan->configs[plan->config_count] = parsed.config; /* whose cases stay where they are */
    plan->cases[i] = plan->configs[plan->config_count++].cases;
    s = kvg_golden_describe(plan->pack, i, plan->cases[i], c);
    if (s) return s;
    c->flags = old->flags;
    c->flag_count = old->flag_count;
    c->stored = old->stored;
    c->separation = old->separation;
    c->has_erratum = old->has_erratum;
    take_digests(c->prompt, c->prompt_count, old->prompt, old->prompt_count);
    take_digests(c->expected, c->expected_count, old->expected, old->expected_count);
    return KVG_OK;
}

kvg_status kvg_golden_plan_of(const kvg_pack *from, kvg_golden_plan *out)
{
    *out = (kvg_golden_plan){0};
    kvg_status s = kvg_pack_new(&out->pack);
    if (s) return s;
    kvg_pack *pack = out->pack;
    struct kvg_pack_data *data = pack->data;
    *pack = *from;
    pack->data = data;
    pack->cases = kvg_pack_alloc(pack, from->case_count, sizeof *pack->cases);
    out->cases = kvg_pack_alloc(pack, from->case_count, sizeof *out->cases);
    out->configs = calloc(from->case_count, sizeof *out->configs);
    if (!pack->cases || !out->cases || !out->configs) {
        return kvg_fail(KVG_ERR_MEMORY, "no memory for %zu cases", from->case_count);
    }
    for (size_t i = 0; i < from->case_count && !s; i++) s = retake_case(out, from, i);
    return s ? s : list_profiles(pack);
}

void kvg_golden_plan_free(kvg_golden_plan *plan)
{
    for (size_t i = 0; i < plan->config_count; i++) kvg_config_close(&plan->configs[i]);
    free(plan->configs);
    kvg_pack_close(plan->pack);
    *plan = (kvg_golden_plan){0};
}
