#include "harness/pack/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/pack/compare_judge.h"
#include "support/clock.h"
#include "support/progress.h"

/* --- the file as a whole --- */

static bool is_asked(const kvg_pack *pack, const char *name)
{
    for (size_t c = 0; c < pack->case_count; c++) {
        for (size_t i = 0; i < pack->cases[c].answer_count; i++) {
            if (strcmp(pack->cases[c].answer[i].name, name) == 0) return true;
        }
    }
    return false;
}

/* A misspelt name must not look like a case left out. */
static kvg_status check_names(const kvg_pack *pack, const char *path, const kvg_safetensors *file)
{
    size_t strangers = 0;
    const char *first = NULL;
    for (size_t i = 0; i < kvg_safetensors_count(file); i++) {
        const char *name = kvg_safetensors_at(file, i)->name;
        if (name[0] == '_' || is_asked(pack, name)) continue;
        if (strangers++ == 0) first = name;
    }
    if (strangers == 0) return KVG_OK;
    char more[48] = "";
    if (strangers > 1) snprintf(more, sizeof more, " and of %zu more tensors", strangers - 1);
    return kvg_fail(KVG_ERR_INVALID,
                    "%s: no case of pack %s asks for '%.64s'%s: `kvgold golden inspect` lists the names of answers",
                    path, pack->name, first, more);
}

/* --- one case --- */

static const kvg_safetensors_entry *find(const kvg_safetensors *file, const char *name)
{
    for (size_t i = 0; i < kvg_safetensors_count(file); i++) {
        if (strcmp(kvg_safetensors_at(file, i)->name, name) == 0) return kvg_safetensors_at(file, i);
    }
    return NULL;
}

static void shape_text(uint32_t rank, const uint64_t *shape, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRIu64, i ? "x" : "", shape[i]);
}

/* dtype and shape as asked. */
static bool is_alike(const kvg_pack_answer *asked, const kvg_safetensors_entry *given, kvg_compared_tensor *t)
{
    char want[96], have[192];
    if (strcmp(asked->dtype, given->dtype) == 0 && asked->rank == given->rank &&
        memcmp(asked->shape, given->shape, asked->rank * sizeof asked->shape[0]) == 0) {
        return true;
    }
    shape_text(asked->rank, asked->shape, want, sizeof want);
    shape_text(given->rank, given->shape, have, sizeof have);
    t->verdict = KVG_VERDICT_FAIL;
    snprintf(t->reason, sizeof t->reason, "is %.8s [%.120s], not %s [%s]: nothing is converted", given->dtype, have,
             asked->dtype, want);
    return false;
}

/* Finds the case's tensors in the file; false: there is nothing to judge. */
static bool collect(const kvg_pack_case *from, const kvg_safetensors *file, kvg_compared_case *c,
                    const kvg_safetensors_entry *given[KVG_PACK_MAX_TENSORS])
{
    size_t missing = 0;
    char names[KVG_COMPARE_TEXT - 64] = "";
    *c = (kvg_compared_case){.from = from, .verdict = KVG_VERDICT_PASS, .tensor_count = from->answer_count};
    for (size_t i = 0; i < from->answer_count; i++) {
        given[i] = find(file, from->answer[i].name);
        c->tensors[i] = (kvg_compared_tensor){.asked = &from->answer[i], .worst_ratio = NAN};
        if (given[i]) continue;
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", missing ? ", " : "", from->answer[i].short_name);
        c->tensors[i].verdict = KVG_VERDICT_FAIL;
        snprintf(c->tensors[i].reason, sizeof c->tensors[i].reason, "missing");
        missing++;
    }
    if (missing == 0) return true;
    c->verdict = missing == from->answer_count ? KVG_VERDICT_SKIP : KVG_VERDICT_FAIL;
    if (c->verdict == KVG_VERDICT_SKIP) {
        snprintf(c->reason, sizeof c->reason, "unanswered");
        c->tensor_count = 0;
        return false;
    }
    snprintf(c->reason, sizeof c->reason, "incomplete: %s missing", names);
    return true;
}

/* Where `what` says what the wrong numbers are, no hypothesis that gives less than half of them is named beside it. */
static void drop_small_shares(kvg_compared_case *c)
{
    kvg_diagnosis *d = &c->diagnosis;
    bool fitted = false;
    size_t kept = 0;
    for (size_t i = 0; i < c->tensor_count; i++) fitted = fitted || c->tensors[i].where.fitted;
    for (size_t i = 0; i < d->count; i++) {
        const kvg_explanation *e = &d->explanations[i];
        if (!fitted || e->exact || 2 * e->explained >= d->wrong_bits) d->explanations[kept++] = *e;
    }
    d->count = kept;
}

/* Where and why, from a case computed anew. */
static kvg_status explain(const kvg_compare_options *o, const kvg_golden_case *golden, const kvg_tensor *answer,
                          kvg_compared_case *c)
{
    const bool by_number = kvg_op_attends(golden->c->problem.op) && !kvg_compare_by_bits(c, o->bits);
    const kvg_evidence evidence = {
        .data = &golden->data,
        .expected = golden->truth.expected.tensors,
        .answer = answer,
        .truth = by_number ? &golden->truth : NULL,
        .numbers = golden->truth.exact.out ? &golden->truth : NULL,
        .pairs = o->pairs,
        .seconds = o->seconds,
    };
    kvg_places places;
    kvg_status s = kvg_places_open(&golden->data, &places);
    if (s) return s;
    for (size_t i = 0; i < c->tensor_count && !s; i++) {
        const int index = kvg_golden_case_output(golden, c->tensors[i].asked->short_name);
        if (index >= 0 && c->tensors[i].verdict == KVG_VERDICT_FAIL)
            s = kvg_where_find(&evidence, &places, (size_t)index, &c->tensors[i].where);
    }
    if (!s) s = kvg_diagnose(&evidence, &places, &c->diagnosis);
    if (!s) drop_small_shares(c);
    c->diagnosed = !s;
    kvg_places_close(&places);
    return s;
}

/* Tensors of the answer as the op's outputs, in memory that is aligned; data NULL where there is none. */
static kvg_status align(const kvg_golden_case *golden, const kvg_compared_case *c,
                        const kvg_safetensors_entry *const *given, kvg_tensor answer[KVG_MAX_TENSORS])
{
    memcpy(answer, golden->truth.expected.tensors, golden->truth.expected.count * sizeof *answer);
    for (size_t i = 0; i < golden->truth.expected.count; i++) answer[i].data = NULL;
    for (size_t i = 0; i < c->tensor_count; i++) {
        const int index = kvg_golden_case_output(golden, c->tensors[i].asked->short_name);
        if (index < 0 || !given[i]) continue;
        answer[index].data = malloc(answer[index].bytes);
        if (!answer[index].data)
            return kvg_fail(KVG_ERR_MEMORY, "cannot hold an answer of %zu bytes", answer[index].bytes);
        memcpy(answer[index].data, given[i]->data, answer[index].bytes);
    }
    return KVG_OK;
}

static void judge_case(const kvg_pack *pack, const kvg_compare_options *o, const kvg_safetensors_entry **given,
                       kvg_compared_case *c)
{
    kvg_golden_case golden = {0};
    kvg_tensor answer[KVG_MAX_TENSORS] = {{0}};
    bool computed = false;
    for (size_t i = 0; i < c->tensor_count; i++) {
        if (given[i] && !is_alike(&c->from->answer[i], given[i], &c->tensors[i])) given[i] = NULL;
    }
    if (kvg_compare_needs_case(c->from)) {
        computed = kvg_golden_case_open(pack, c->from, &golden) == KVG_OK;
        if (!computed) {
            c->verdict = KVG_VERDICT_ERROR;
            snprintf(c->reason, sizeof c->reason, "the case cannot be computed: %.240s", kvg_error_text());
        }
    }
    for (size_t i = 0; i < c->tensor_count && c->verdict != KVG_VERDICT_ERROR; i++) {
        if (given[i]) kvg_compare_judge(given, c, computed ? &golden : NULL, o->bits, &c->tensors[i]);
        if (c->tensors[i].verdict == KVG_VERDICT_FAIL) c->verdict = KVG_VERDICT_FAIL;
    }
    if (c->verdict == KVG_VERDICT_FAIL && o->why) {
        kvg_status s = computed ? KVG_OK : kvg_golden_case_open(pack, c->from, &golden);
        if (!s) s = align(&golden, c, given, answer);
        if (!s) s = explain(o, &golden, answer, c);
        if (s) snprintf(c->no_diagnosis, sizeof c->no_diagnosis, "%.300s", kvg_error_text());
    }
    for (size_t i = 0; i < KVG_MAX_TENSORS; i++) free(answer[i].data);
    kvg_golden_case_free(&golden);
}

/* --- all of them --- */

kvg_status kvg_compare(const kvg_pack *pack, const char *path, const kvg_compare_options *o, kvg_compare_report *report,
                       void *context, kvg_comparison *out)
{
    const kvg_pack_case *only = NULL;
    kvg_safetensors *file = NULL;
    size_t failed = 0;
    *out = (kvg_comparison){.pack = pack, .answer = path, .bits = o->bits};
    kvg_status s = o->only ? kvg_pack_find(pack, o->only, &only) : KVG_OK;
    if (!s) s = kvg_safetensors_open(path, &file);
    if (!s) s = check_names(pack, path, file);
    if (!s) {
        out->cases = calloc(pack->case_count, sizeof *out->cases);
        if (!out->cases) s = kvg_fail(KVG_ERR_MEMORY, "cannot hold the verdicts of %zu cases", pack->case_count);
    }
    kvg_progress_begin("compare", only ? 1 : pack->case_count, "cases");
    for (size_t i = 0; !s && i < pack->case_count; i++) {
        const kvg_safetensors_entry *given[KVG_PACK_MAX_TENSORS];
        kvg_compared_case *c = &out->cases[out->case_count];
        if (only && only != &pack->cases[i]) continue;
        kvg_progress_at(out->case_count, failed, pack->cases[i].id, kvg_clock_seconds());
        if (collect(&pack->cases[i], file, c, given)) judge_case(pack, o, given, c);
        out->case_count++;
        out->counts[c->verdict]++;
        failed += kvg_verdict_fails(c->verdict);
        out->unanswered += c->verdict == KVG_VERDICT_SKIP;
        kvg_progress_pause();
        if (report) report(context, c);
    }
    kvg_progress_end();
    kvg_safetensors_close(file);
    return s;
}

void kvg_comparison_free(kvg_comparison *c)
{
    free(c->cases);
    *c = (kvg_comparison){0};
}
