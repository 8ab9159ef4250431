#include "harness/report/result_line.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "harness/case/guest.h"
#include "harness/judge/relations.h"
#include "harness/report/result_record.h"
#include "support/json_out.h"
#include "support/version.h"

static void add_part(cJSON *line, const char *key, const kvg_record *kind, const void *record)
{
    kvg_record_write(kind, record, cJSON_AddObjectToObject(line, key));
}

/* --- what was asked --- */

static void add_asked(cJSON *line, const char *type, const kvg_case *c, const char *repro)
{
    const kvg_problem *p = &c->problem;
    const kvg_storage *k = &p->storage[KVG_K], *v = &p->storage[KVG_V];
    const bool captured = c->fill == KVG_FILL_CAPTURE;
    char scale[KVG_CASE_SCALE_SIZE];
    kvg_result_asked asked = {
        .type = type,
        .id = c->id,
        .repro = repro,
        .op = kvg_case_op_name(c),
        .k_format = kvg_format_get(k->format)->name,
        .k_dialect = k->dialect,
        .v_format = kvg_format_get(v->format)->name,
        .v_dialect = v->dialect,
        .layout = kvg_layout_get(p->layout)->name,
        .dtype = kvg_dtype_name(p->dtype),
        .tokens = p->tokens,
        .kv_heads = p->kv_heads,
        .head_dim = p->head_dim,
        .fill = c->guest ? "" : kvg_fill_names[c->fill],
        .capture_k = captured ? c->capture[KVG_K] : "",
        .capture_v = captured ? c->capture[KVG_V] : "",
        .scale = kvg_case_scale_text(c, scale, sizeof scale),
        .backend = c->backend,
    };
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

static void add_separation(cJSON *line, const kvg_separation *s)
{
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    kvg_result_separation record = {
        .least = s->by_bits ? NAN : s->least,
        .bits = s->by_bits ? s->least : NAN,
        .nearest = s->nearest ? s->nearest->id : "",
        .reached = s->reached,
    };
    for (size_t i = 0; i < count; i++) {
        if (s->distance[i] < 0) kvg_names_add(&record.unreached, defects[i].id);
    }
    add_part(line, "separation", kvg_record_get(KVG_RECORD_SEPARATION), &record);
}

static void add_relations(cJSON *line, uint64_t held)
{
    kvg_result_lists lists = {0};
    for (size_t i = 0; i < KVG_RELATIONS; i++) {
        if (held >> i & 1) kvg_names_add(&lists.relations, kvg_relation_id(kvg_relation_get(i)));
    }
    kvg_record_write(kvg_record_get(KVG_RECORD_LISTS), &lists, line);
}

/* How many of 256 counters are not 0, and which. */
static unsigned hit(const uint64_t a[KVG_FIELD_CODES], const uint64_t b[KVG_FIELD_CODES],
                    uint8_t set[KVG_FIELD_CODES / 8])
{
    unsigned count = 0;
    for (unsigned code = 0; code < KVG_FIELD_CODES; code++) {
        if (a[code] + b[code] == 0) continue;
        set[code / 8] |= (uint8_t)(1u << code % 8);
        count++;
    }
    return count;
}

static void add_reach(cJSON *line, const kvg_case *c, const kvg_reference_reach reach[2])
{
    const kvg_reference_reach *k = &reach[KVG_K], *v = &reach[KVG_V];
    const uint32_t bits = kvg_format_get(c->problem.storage[KVG_K].format)->element_bits;
    kvg_result_reach record = {
        .codes_of = bits == 4 ? 16 : 256,
#define TALLY(type, name, ...) .name = k->name + v->name,
#include "harness/case/result_fields.def"
    };
    record.codes = hit(k->codes, v->codes, record.code_set);
    record.scales = hit(k->scales, v->scales, record.scale_set);
    add_part(line, "reach", kvg_record_get(KVG_RECORD_REACH), &record);
}

static void add_controls(cJSON *line, const kvg_case *c, const kvg_result *r)
{
    kvg_result_controls record = {0};
    kvg_names *const lists[] = {
        [KVG_CONTROL_UNREACHED] = &record.unreached,
        [KVG_CONTROL_REJECTED] = &record.rejected,
        [KVG_CONTROL_REJECTED_BY_BOUND] = &record.rejected,
        [KVG_CONTROL_WITHIN] = &record.within,
        [KVG_CONTROL_ACCEPTED] = &record.accepted,
    };
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    for (size_t i = 0, n = 0; i < count; i++) {
        if (!defects[i].control) continue;
        const kvg_control_outcome outcome = r->controls[n++];
        if (outcome == KVG_CONTROL_ABSENT) continue;
        kvg_names_add(lists[outcome], defects[i].id);
        if (outcome == KVG_CONTROL_REJECTED_BY_BOUND) kvg_names_add(&record.by_bound, defects[i].id);
    }
    if (c->guest) c->guest->controls(r, &record.rejected, &record.accepted);
    add_part(line, "controls", kvg_record_get(KVG_RECORD_CONTROLS), &record);
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

char *kvg_result_line(const kvg_case *c, const kvg_result *r, const char *repro, bool slow)
{
    const kvg_result_outcome outcome = {
        .status = r->verdict,
        .detail = r->detail,
        .impl = r->impl,
        .ms = r->milliseconds,
        .slow = slow,
    };
    cJSON *line = cJSON_CreateObject();
    add_asked(line, "case", c, repro);
    kvg_record_write(kvg_record_get(KVG_RECORD_OUTCOME), &outcome, line);
    if (c->policy.given) add_mode(line, &c->policy);
    const bool judged = r->impl[0] && (r->verdict == KVG_VERDICT_PASS || r->verdict == KVG_VERDICT_FAIL ||
                                    r->verdict == KVG_VERDICT_MISTRUSTED);
    if (!judged) return print(line);
    kvg_record_write(kvg_record_get(KVG_RECORD_COMPARED), &r->bytes, line);
    if (r->round_trip[KVG_K].elements) add_part(line, "k", kvg_record_get(KVG_RECORD_TRIP), &r->round_trip[KVG_K]);
    if (r->round_trip[KVG_V].elements) add_part(line, "v", kvg_record_get(KVG_RECORD_TRIP), &r->round_trip[KVG_V]);
    if (r->decode.elements) add_part(line, "decode", kvg_record_get(KVG_RECORD_DECODE), &r->decode);
    if (r->separation.measured) add_separation(line, &r->separation);
    if (r->relations) add_relations(line, r->relations);
    if (r->reach[KVG_K].elements) add_reach(line, c, r->reach);
    if (c->guest) c->guest->write(r, line);
    add_controls(line, c, r);
    return print(line);
}

char *kvg_result_run_line(const char *config, const char *name, uint64_t seed, const char *shard, size_t cases)
{
    char hex[24];
    snprintf(hex, sizeof hex, "0x%" PRIx64, seed);
    cJSON *line = start("run");
    cJSON_AddNumberToObject(line, "kvgold", KVG_RESULT_LAYOUT);
    cJSON_AddStringToObject(line, "version", KVG_VERSION);
    cJSON_AddStringToObject(line, "config", config);
    cJSON_AddStringToObject(line, "name", name);
    cJSON_AddStringToObject(line, "seed", hex);
    cJSON_AddStringToObject(line, "shard", shard);
    cJSON_AddNumberToObject(line, "cases", (double)cases);
    return print(line);
}

char *kvg_result_start_line(const kvg_case *c, const char *repro)
{
    cJSON *line = cJSON_CreateObject();
    add_asked(line, "start", c, repro);
    return print(line);
}

char *kvg_result_end_line(bool interrupted, double seconds, const size_t counts[KVG_VERDICT_COUNT])
{
    cJSON *line = start("end");
    cJSON_AddBoolToObject(line, "interrupted", interrupted);
    kvg_result_add_number(line, "seconds", seconds);
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) {
        if (counts[i]) cJSON_AddNumberToObject(line, kvg_verdict_name((kvg_verdict)i), (double)counts[i]);
    }
    return print(line);
}
