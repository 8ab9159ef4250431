#include "harness/report/result_line.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "harness/judge/relations.h"
#include "harness/report/result_line_quality.h"
#include "harness/support/version.h"

static void add_round_trip(cJSON *line, const char *side, const kvg_round_trip *t)
{
    cJSON *object = cJSON_AddObjectToObject(line, side);
    kvg_result_add_number(object, "elements", (double)t->elements);
    kvg_result_add_number(object, "relative_l2", t->relative_l2);
    kvg_result_add_number(object, "sqnr_db", t->sqnr_db);
    kvg_result_add_number(object, "gain", t->gain);
    kvg_result_add_number(object, "worst_ratio", t->worst_ratio);
}

static void add_relations(cJSON *line, uint64_t held)
{
    cJSON *list = cJSON_AddArrayToObject(line, "relations");
    for (size_t i = 0; i < kvg_relation_count(); i++) {
        if (held >> i & 1) cJSON_AddItemToArray(list, cJSON_CreateString(kvg_relation_id(kvg_relation_get(i))));
    }
}

static void add_decode(cJSON *line, bool bits, const kvg_decode_accuracy *a)
{
    cJSON *object = cJSON_AddObjectToObject(line, "decode");
    kvg_result_add_number(object, "elements", (double)a->elements);
    kvg_result_add_number(object, "unpromised", (double)a->unpromised);
    cJSON_AddBoolToObject(object, "bits", bits);
    kvg_result_add_number(object, "worst_ratio", a->worst_ratio);
    kvg_result_add_number(object, "median_ratio", a->median_ratio);
    kvg_result_add_number(object, "lse_ratio", a->lse_ratio);
    kvg_result_add_number(object, "relative_l2", a->relative_l2);
    if (!isnan(a->codec_ratio)) kvg_result_add_number(object, "codec_ratio", a->codec_ratio);
    if (!isnan(a->codec_l2)) kvg_result_add_number(object, "codec_l2", a->codec_l2);
    if (!isnan(a->probe_ratio)) kvg_result_add_number(object, "probe_ratio", a->probe_ratio);
}

static void add_separation(cJSON *line, const kvg_separation *s)
{
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    cJSON *object = cJSON_AddObjectToObject(line, "separation");
    kvg_result_add_number(object, s->by_bits ? "bits" : "least", s->least);
    if (s->nearest) cJSON_AddStringToObject(object, "nearest", s->nearest->id);
    kvg_result_add_number(object, "reached", s->reached);
    cJSON *unreached = cJSON_AddArrayToObject(object, "unreached");
    for (size_t i = 0; i < count; i++) {
        if (s->distance[i] < 0) cJSON_AddItemToArray(unreached, cJSON_CreateString(defects[i].id));
    }
}

static void add_mode(cJSON *line, const kvg_case_policy *p)
{
    cJSON *object = cJSON_AddObjectToObject(line, "mode");
    cJSON_AddStringToObject(object, "requested", kvg_mode_name(p->requested));
    cJSON_AddStringToObject(object, "effective", kvg_mode_name(p->effective));
    cJSON_AddBoolToObject(object, "fell_back", p->fell_back);
    cJSON_AddStringToObject(object, "reason", p->reason);
    if (p->partial_kv[0]) cJSON_AddStringToObject(object, "partial_kv", p->partial_kv);
    if (p->prefix_cache[0]) cJSON_AddStringToObject(object, "prefix_cache", p->prefix_cache);
}

/* How many of 256 counters are not 0, and which, as hex. */
static unsigned hit(const uint64_t a[256], const uint64_t b[256], char set[65])
{
    unsigned count = 0;
    for (unsigned byte = 0; byte < 32; byte++) {
        unsigned bits = 0;
        for (unsigned i = 0; i < 8; i++) {
            const unsigned code = 8 * byte + i;
            if (a[code] + b[code] == 0) continue;
            bits |= 1u << i;
            count++;
        }
        snprintf(set + 2 * byte, 3, "%02x", bits);
    }
    return count;
}

static void add_reach(cJSON *line, const kvg_case *c, const kvg_reference_reach reach[2])
{
    const kvg_reference_reach *k = &reach[KVG_K], *v = &reach[KVG_V];
    const uint32_t bits = kvg_format_get(c->problem.storage[KVG_K].format)->element_bits;
    char code_set[65], scale_set[65];
    cJSON *object = cJSON_AddObjectToObject(line, "reach");
    kvg_result_add_number(object, "codes", hit(k->codes, v->codes, code_set));
    kvg_result_add_number(object, "codes_of", bits == 4 ? 16 : 256);
    kvg_result_add_number(object, "scales", hit(k->scales, v->scales, scale_set));
    kvg_result_add_number(object, "ties", (double)(k->ties + v->ties));
    kvg_result_add_number(object, "saturations", (double)(k->saturations + v->saturations));
    kvg_result_add_number(object, "zero_blocks", (double)(k->zero_blocks + v->zero_blocks));
    kvg_result_add_number(object, "negative_zeros", (double)(k->negative_zeros + v->negative_zeros));
    kvg_result_add_number(object, "subnormals", (double)(k->subnormals + v->subnormals));
    kvg_result_add_number(object, "specials", (double)(k->specials + v->specials));
    kvg_result_add_number(object, "scale_underflows", (double)(k->scale_underflows + v->scale_underflows));
    cJSON_AddStringToObject(object, "code_set", code_set);
    cJSON_AddStringToObject(object, "scale_set", scale_set);
}

/* Op generate has controls of its own; how each was rejected stands under "quality". */
static void add_planted(cJSON *rejected, cJSON *accepted, const kvg_quality_result *q)
{
    for (size_t i = 0; i < q->defect_count; i++) {
        const kvg_quality_defect *d = &q->defects[i];
        if (!d->applies) continue;
        cJSON_AddItemToArray(d->by_bits || d->by_limits ? rejected : accepted, cJSON_CreateString(d->id));
    }
}

static void add_controls(cJSON *line, const kvg_result *r)
{
    cJSON *object = cJSON_AddObjectToObject(line, "controls");
    cJSON *rejected = cJSON_AddArrayToObject(object, "rejected");
    cJSON *unreached = cJSON_AddArrayToObject(object, "unreached");
    cJSON *accepted = cJSON_AddArrayToObject(object, "accepted");
    cJSON *within = cJSON_AddArrayToObject(object, "within");
    cJSON *by_bound = cJSON_AddArrayToObject(object, "by_bound");
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    for (size_t i = 0, n = 0; i < count; i++) {
        if (!defects[i].control) continue;
        cJSON *list = NULL;
        switch (r->controls[n++]) {
        case KVG_CONTROL_ABSENT: continue;
        case KVG_CONTROL_UNREACHED: list = unreached; break;
        case KVG_CONTROL_ACCEPTED: list = accepted; break;
        case KVG_CONTROL_WITHIN: list = within; break;
        case KVG_CONTROL_REJECTED: list = rejected; break;
        case KVG_CONTROL_REJECTED_BY_BOUND:
            list = rejected;
            cJSON_AddItemToArray(by_bound, cJSON_CreateString(defects[i].id));
            break;
        }
        cJSON_AddItemToArray(list, cJSON_CreateString(defects[i].id));
    }
    add_planted(rejected, accepted, &r->quality);
}

/* Prints and frees. cJSON drops what it could not allocate, so a NULL in between shows as a shorter line; a NULL line
 * is the caller's to handle. */
static char *print(cJSON *line)
{
    char *text = cJSON_PrintUnformatted(line);
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
    cJSON *line = start("case");
    cJSON_AddStringToObject(line, "id", c->id);
    cJSON_AddStringToObject(line, "status", kvg_verdict_name(r->verdict));
    cJSON_AddStringToObject(line, "detail", r->detail);
    cJSON_AddStringToObject(line, "repro", repro);
    cJSON_AddStringToObject(line, "impl", r->impl);
    kvg_result_add_number(line, "ms", r->milliseconds);
    cJSON_AddBoolToObject(line, "slow", slow);
    if (c->policy.given) add_mode(line, &c->policy);
    const bool judged = r->impl[0] && (r->verdict == KVG_VERDICT_PASS || r->verdict == KVG_VERDICT_FAIL ||
                                    r->verdict == KVG_VERDICT_MISTRUSTED);
    if (!judged) return print(line);
    kvg_result_add_number(line, "compared", (double)r->compared_bytes);
    kvg_result_add_number(line, "mismatched", (double)r->mismatched_bytes);
    kvg_result_add_number(line, "steps", (double)r->value_steps);
    if (r->round_trip[KVG_K].elements) add_round_trip(line, "k", &r->round_trip[KVG_K]);
    if (r->round_trip[KVG_V].elements) add_round_trip(line, "v", &r->round_trip[KVG_V]);
    if (r->decode.elements) add_decode(line, c->problem.profile != KVG_PROFILE_NONE, &r->decode);
    if (r->separation.measured) add_separation(line, &r->separation);
    if (r->relations) add_relations(line, r->relations);
    if (r->reach[KVG_K].elements) add_reach(line, c, r->reach);
    if (r->quality.measured) kvg_result_add_quality(line, &r->quality);
    add_controls(line, r);
    return print(line);
}

char *kvg_result_run_line(const char *config, const char *name, uint64_t seed, const char *shard, size_t cases)
{
    char hex[24];
    snprintf(hex, sizeof hex, "0x%" PRIx64, seed);
    cJSON *line = start("run");
    cJSON_AddNumberToObject(line, "kvgold", 1);
    cJSON_AddStringToObject(line, "version", KVG_VERSION);
    cJSON_AddStringToObject(line, "config", config);
    cJSON_AddStringToObject(line, "name", name);
    cJSON_AddStringToObject(line, "seed", hex);
    cJSON_AddStringToObject(line, "shard", shard);
    cJSON_AddNumberToObject(line, "cases", (double)cases);
    return print(line);
}

char *kvg_result_start_line(const char *id, const char *repro)
{
    cJSON *line = start("start");
    cJSON_AddStringToObject(line, "id", id);
    cJSON_AddStringToObject(line, "repro", repro);
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
