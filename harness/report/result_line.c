#include "harness/report/result_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "harness/case/guest.h"
#include "harness/report/result_record.h"
#include "support/json_out.h"

static void add_part(cJSON *line, const char *key, const kvg_record *kind, const void *record)
{
    kvg_record_write(kind, record, cJSON_AddObjectToObject(line, key));
}

/* --- what was asked --- */

kvg_result_asked kvg_result_ask(const kvg_case *c, char scale[KVG_CASE_SCALE_SIZE])
{
    const kvg_problem *p = &c->problem;
    const kvg_storage *k = &p->storage[KVG_K], *v = &p->storage[KVG_V];
    const bool captured = c->fill == KVG_FILL_CAPTURE;
    return (kvg_result_asked){
        .id = c->id,
        .op = kvg_case_op_name(c),
        .k_format = kvg_format_get(k->format)->name,
        .k_dialect = k->dialect,
        .v_format = kvg_format_get(v->format)->name,
        .v_dialect = v->dialect,
        .layout = kvg_problem_layout_name(p),
        .dtype = kvg_dtype_name(p->dtype),
        .tokens = p->tokens,
        .kv_heads = p->kv_heads,
        .head_dim = p->head_dim,
        .fill = c->guest ? "" : kvg_fill_names[c->fill],
        .capture_k = captured ? c->capture[KVG_K] : "",
        .capture_v = captured ? c->capture[KVG_V] : "",
        .scale = kvg_case_scale_text(c, scale, KVG_CASE_SCALE_SIZE),
        .profile = p->profile == KVG_PROFILE_NONE ? "" : kvg_profile_get(p->profile)->name,
        .backend = c->backend,
    };
}

static void add_asked(cJSON *line, const char *type, const kvg_case *c, const char *repro)
{
    char scale[KVG_CASE_SCALE_SIZE];
    kvg_result_asked asked = kvg_result_ask(c, scale);
    asked.type = type;
    asked.repro = repro;
    kvg_record_write(kvg_record_get(KVG_RECORD_ASKED), &asked, line);
    if (c->guest) c->guest->write_asked(c, line);
}

static void add_mode(cJSON *line, const kvg_case_policy *p)
{
    const kvg_result_mode mode = {
        .requested = kvg_mode_name(p->requested),
        .effective = kvg_mode_name(p->effective),
        .fell_back = p->fell_back,
        .reason = p->reason,
        .partial_kv = p->partial_kv,
        .prefix_cache = p->prefix_cache,
    };
    add_part(line, "mode", kvg_record_get(KVG_RECORD_MODE), &mode);
}

/* --- what came of it --- */

/* Where a part of a result stands. The part begins with a bool: it was measured. */
static const struct {
    const char *key;
    kvg_record_id record;
    size_t offset;
} parts[] = {
    {"k", KVG_RECORD_TRIP, offsetof(kvg_result, round_trip[KVG_K])},
    {"v", KVG_RECORD_TRIP, offsetof(kvg_result, round_trip[KVG_V])},
    {"decode", KVG_RECORD_DECODE, offsetof(kvg_result, decode)},
    {"separation", KVG_RECORD_SEPARATION, offsetof(kvg_result, separation)},
    {"page", KVG_RECORD_PAGE, offsetof(kvg_result, page)},
    {"reach", KVG_RECORD_REACH, offsetof(kvg_result, reach)},
    {"controls", KVG_RECORD_CONTROLS, offsetof(kvg_result, controls)},
#define INVARIANCE(id, ...) {"along_" #id, KVG_RECORD_ALONG, offsetof(kvg_result, along[KVG_INVARIANCE_##id])},
#include "harness/case/invariance.def"
#undef INVARIANCE
};

kvg_status kvg_result_read(kvg_json line, kvg_result *out)
{
    *out = (kvg_result){0};
    kvg_status s = kvg_record_read(kvg_record_get(KVG_RECORD_OUTCOME), line, out);
    if (!s) s = kvg_record_read(kvg_record_get(KVG_RECORD_LISTS), line, out);
    if (!s && kvg_json_has(line, "compared")) {
        s = kvg_record_read(kvg_record_get(KVG_RECORD_COMPARED), line, &out->bytes);
    }
    for (size_t i = 0; !s && i < sizeof parts / sizeof parts[0]; i++) {
        void *part = (char *)out + parts[i].offset;
        s = kvg_record_read_part(kvg_record_get(parts[i].record), line, parts[i].key, part, part);
    }
    return s;
}

kvg_status kvg_result_keep(kvg_result *r, const char *(*keep)(void *context, const char *text), void *context)
{
    kvg_status s = kvg_record_keep(kvg_record_get(KVG_RECORD_OUTCOME), r, keep, context);
    if (!s) s = kvg_record_keep(kvg_record_get(KVG_RECORD_LISTS), r, keep, context);
    for (size_t i = 0; !s && i < sizeof parts / sizeof parts[0]; i++) {
        void *part = (char *)r + parts[i].offset;
        if (*(const bool *)part) s = kvg_record_keep(kvg_record_get(parts[i].record), part, keep, context);
    }
    return s;
}

/* --- lines --- */

/* Prints and frees. cJSON drops what it could not allocate, so a NULL in between shows as a shorter line; a NULL line
 * is the caller's to handle. */
static char *print(cJSON *line)
{
    char *text = kvg_json_line(line);
    cJSON_Delete(line);
    return text;
}

static cJSON *start(const char *type)
{
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "type", type);
    return line;
}

char *kvg_result_line(const kvg_case *c, const kvg_result *r, const char *repro)
{
    cJSON *line = cJSON_CreateObject();
    add_asked(line, "case", c, repro);
    kvg_record_write(kvg_record_get(KVG_RECORD_OUTCOME), r, line);
    if (c->policy.given) add_mode(line, &c->policy);
    if (!kvg_result_is_judged(r)) return print(line);
    kvg_record_write(kvg_record_get(KVG_RECORD_COMPARED), &r->bytes, line);
    kvg_record_write(kvg_record_get(KVG_RECORD_LISTS), r, line);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const void *part = (const char *)r + parts[i].offset;
        if (*(const bool *)part) add_part(line, parts[i].key, kvg_record_get(parts[i].record), part);
    }
    if (c->guest) c->guest->write(r, line);
    return print(line);
}

char *kvg_result_run_line(const kvg_result_run *run)
{
    char hex[24];
    snprintf(hex, sizeof hex, "0x%" PRIx64, run->seed);
    cJSON *line = start("run");
    cJSON_AddNumberToObject(line, "kvgold", KVG_RESULT_LAYOUT);
    cJSON_AddStringToObject(line, "version", run->version);
    cJSON_AddStringToObject(line, "config", run->config);
    cJSON_AddStringToObject(line, "name", run->name);
    cJSON_AddStringToObject(line, "seed", hex);
    cJSON_AddBoolToObject(line, "public_seed", run->public_seed);
    cJSON_AddStringToObject(line, "shard", run->shard);
    cJSON_AddNumberToObject(line, "cases", (double)run->cases);
    if (run->config_cases) cJSON_AddNumberToObject(line, "config_cases", (double)run->config_cases);
    cJSON *origins = run->origin_count ? cJSON_AddArrayToObject(line, "origins") : NULL;
    for (size_t i = 0; i < run->origin_count; i++) {
        cJSON *origin = cJSON_CreateObject();
        kvg_record_write(kvg_record_get(KVG_RECORD_ORIGIN), &run->origins[i], origin);
        cJSON_AddItemToArray(origins, origin);
    }
    return print(line);
}

char *kvg_result_start_line(const kvg_case *c, const char *repro)
{
    cJSON *line = cJSON_CreateObject();
    add_asked(line, "start", c, repro);
    return print(line);
}

char *kvg_result_end_line(bool interrupted, double seconds, const uint64_t counts[KVG_VERDICT_COUNT],
                          const kvg_cell *cells, size_t cell_count)
{
    cJSON *line = start("end");
    cJSON_AddBoolToObject(line, "interrupted", interrupted);
    kvg_result_add_number(line, "seconds", seconds);
    cJSON_AddNumberToObject(line, "cells", (double)cell_count);
    cJSON_AddNumberToObject(line, "cells_judged", (double)kvg_cells_judged(cells, cell_count));
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) {
        if (counts[i]) cJSON_AddNumberToObject(line, kvg_verdict_name((kvg_verdict)i), (double)counts[i]);
    }
    return print(line);
}
