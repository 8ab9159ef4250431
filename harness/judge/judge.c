#include "harness/judge/judge.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "harness/judge/judge_parts.h"
#include "harness/judge/relations.h"
#include "support/clock.h"

/* An empty answer: an op that updates in place starts from the same bytes every time. */
static kvg_status make_answer(const running_case *b, kvg_tensor_set *answer)
{
    kvg_status s = kvg_set_alloc(&b->c->problem, b->data.op->outputs, answer);
    if (!s) kvg_case_data_prefill(&b->data, answer);
    return s;
}

static kvg_status set_up(const kvg_case *c, running_case *b)
{
    b->c = c;
    b->judge = judge_of(&c->problem);
    kvg_status s = kvg_case_data_make(c, &b->data);
    if (!s) s = make_answer(b, &b->expected);
    if (!s) s = make_answer(b, &b->answer);
    if (!s) s = kvg_reference_run(&c->problem, b->data.in.tensors, b->expected.tensors);
    if (!s && b->judge->prepare) s = b->judge->prepare(b);
    for (size_t i = 0; !s && i < b->expected.count; i++) {
        b->output_bytes += b->expected.tensors[i].bytes;
        s = kvg_guard_protect(&b->expected.guards[i], 0);
    }
    return s;
}

/* --- judging --- */

void judge_give_up(kvg_result *r, const char *what)
{
    r->verdict = KVG_VERDICT_ERROR;
    snprintf(r->detail, sizeof r->detail, "%s: %s", what, kvg_error_text());
}

/* Fills the judging fields of *r. */
static void judge_answer(const running_case *b, const kvg_tensor *answer, kvg_result *r)
{
    if (b->judge->storage) b->judge->storage(b, answer, r);
    if (b->judge->meaning) b->judge->meaning(b, answer, r);
}

/* --- controls --- */

/* What becomes of a known-wrong answer that is offered to this check. */
static kvg_control_outcome judge_wrong(const running_case *b, const kvg_tensor_set *wrong)
{
    kvg_result storage = {.verdict = KVG_VERDICT_PASS}, decoded = {.verdict = KVG_VERDICT_PASS};
    if (b->judge->is_right(b, &b->expected, wrong)) return KVG_CONTROL_UNREACHED;
    if (b->judge->storage) b->judge->storage(b, wrong->tensors, &storage);
    if (b->judge->meaning) b->judge->meaning(b, wrong->tensors, &decoded);
    if (decoded.verdict == KVG_VERDICT_FAIL) return KVG_CONTROL_REJECTED_BY_BOUND;
    return storage.verdict == KVG_VERDICT_FAIL ? KVG_CONTROL_REJECTED : KVG_CONTROL_ACCEPTED;
}

/* Names the known-wrong variant whose answer is the candidate's. */
static void diagnose(const running_case *b, const kvg_defect *defect, const kvg_tensor_set *wrong, kvg_result *r)
{
    const size_t used = strlen(r->detail);
    if (b->judge->is_right(b, &b->expected, wrong) || !b->judge->explains(b, &b->answer, wrong)) return;
    snprintf(r->detail + used, sizeof r->detail - used, "; %s defect %s (%s)", b->judge->explained, defect->id,
             defect->summary);
}

/* Makes the wrong answer of a defect, for all that it is wanted for; a control that cannot run proves nothing. */
static kvg_control_outcome try_defect(const running_case *b, const kvg_defect *defect, bool diagnoses, kvg_result *r)
{
    kvg_tensor_set wrong = {0};
    kvg_control_outcome outcome = KVG_CONTROL_ACCEPTED;
    if (!kvg_defect_applies(defect, &b->c->problem)) return KVG_CONTROL_ABSENT;
    kvg_status s = make_answer(b, &wrong);
    if (!s) s = kvg_defect_run(defect, &b->c->problem, b->data.in.tensors, wrong.tensors);
    if (!s && diagnoses) diagnose(b, defect, &wrong, r);
    if (!s && defect->control && !b->judge->outcome) outcome = judge_wrong(b, &wrong);
    kvg_set_free(&wrong);
    return outcome;
}

/* Tries the controls; of a wrong answer also names the defects that it comes from, unless it failed for something else
 * than its bytes. */
static void run_controls(const running_case *b, kvg_result *r)
{
    size_t count, rejected = 0;
    const kvg_defect *defects = kvg_defect_table(&count);
    const bool wrong = r->verdict == KVG_VERDICT_FAIL && !kvg_set_same_bytes(&b->expected, &b->answer);
    for (size_t i = 0, n = 0; i < count; i++) {
        const bool diagnoses = wrong && !(r->separation.measured && r->separation.distance[i] < 0);
        kvg_control_outcome outcome = KVG_CONTROL_ABSENT;
        if (diagnoses || (defects[i].control && !b->judge->outcome)) outcome = try_defect(b, &defects[i], diagnoses, r);
        if (!defects[i].control) continue;
        assert(n < KVG_MAX_CONTROLS);
        r->controls[n] = b->judge->outcome ? b->judge->outcome(r, i) : outcome;
        rejected += r->controls[n] == KVG_CONTROL_REJECTED || r->controls[n] == KVG_CONTROL_REJECTED_BY_BOUND;
        if (r->controls[n] == KVG_CONTROL_ACCEPTED && r->verdict == KVG_VERDICT_PASS) {
            r->verdict = KVG_VERDICT_MISTRUSTED;
            snprintf(r->detail, sizeof r->detail, "the known-wrong answer '%s' passed this check", defects[i].id);
        }
        n++;
    }
    if (rejected == 0 && r->verdict == KVG_VERDICT_PASS) {
        r->verdict = KVG_VERDICT_MISTRUSTED;
        snprintf(r->detail, sizeof r->detail,
                 "no known-wrong answer differs from the right one: the fill tells nothing");
    }
}

static void count_reach(const running_case *b, kvg_result *r)
{
    const kvg_problem *p = &b->data.rows;
    const size_t bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    kvg_tensor_set rows = {0};
    const bool patterns = b->c->fill == KVG_FILL_CODES; /* the bytes themselves are what the fill made */
    if (patterns && kvg_case_data_codes(&b->data, b->expected.tensors, &rows)) judge_give_up(r, "rows of the fill");
    for (int side = KVG_K; side < kvg_problem_sides(&b->c->problem) && r->verdict != KVG_VERDICT_ERROR; side++) {
        const kvg_tensor *c = patterns ? kvg_set_tensor(&rows, KVG_ROLE_CODES, (kvg_side)side) : NULL;
        const kvg_tensor *s = patterns ? kvg_set_tensor(&rows, KVG_ROLE_SCALES, (kvg_side)side) : NULL;
        const uint8_t *values = kvg_set_tensor(&b->data.values, KVG_ROLE_VALUES, (kvg_side)side)->data;
        for (size_t row = 0; row < (size_t)p->tokens * p->kv_heads; row++) {
            float x[KVG_MAX_HEAD_DIM];
            if (patterns) {
                kvg_reference_codes_reach(p, (kvg_side)side, (const uint8_t *)c->data + row * (size_t)c->shape[2],
                                          s->bytes ? (const uint8_t *)s->data + row * (size_t)s->shape[2] : NULL,
                                          &r->reach[side]);
                continue;
            }
            kvg_reference_load(p->dtype, values + row * bytes, p->head_dim, x);
            kvg_reference_row_reach(p, (kvg_side)side, b->data.tensor_scale[side], x, &r->reach[side]);
        }
    }
    kvg_set_free(&rows);
}

/* --- running the candidate --- */

/* The verdict of a case whose implementation returned that. */
static kvg_verdict verdict_of(kvg_status s)
{
    switch (s) {
    case KVG_OK: return KVG_VERDICT_PASS;
    case KVG_ERR_UNIMPLEMENTED: return KVG_VERDICT_UNIMPLEMENTED;
    case KVG_ERR_DEVICE: return KVG_VERDICT_CRASH;
    case KVG_ERR_DEVICE_LOST: return KVG_VERDICT_DEVICE_LOST;
    default: return KVG_VERDICT_FAIL;
    }
}

/* An outcome that is no answer to judge: its verdict and why. */
static bool refused(const kvg_outcome *o, kvg_result *r)
{
    if (o->status == KVG_OK || verdict_of(o->status) == KVG_VERDICT_FAIL) return false;
    r->verdict = verdict_of(o->status);
    snprintf(r->detail, sizeof r->detail, "%s", o->text);
    return true;
}

static void run_candidate(running_case *b, kvg_candidate *candidate, kvg_result *r)
{
    kvg_outcome o;
    if (kvg_candidate_run(candidate, &b->c->problem, b->data.in.tensors, b->answer.tensors, &o)) {
        judge_give_up(r, "the candidate");
        return;
    }
    r->milliseconds = o.milliseconds;
    memcpy(r->impl, o.impl, sizeof r->impl);
    if (refused(&o, r)) return;
    if (o.status) kvg_result_fail(r, "%s returned '%s': %s", o.impl, kvg_status_name(o.status), o.text);
    if (o.fault[0]) kvg_result_fail(r, "%s", o.fault);
    if (r->verdict == KVG_VERDICT_PASS) judge_answer(b, b->answer.tensors, r);
    if (r->verdict == KVG_VERDICT_PASS && r->bytes.compared != b->output_bytes) {
        r->verdict = KVG_VERDICT_ERROR;
        snprintf(r->detail, sizeof r->detail, "%" PRIu64 " bytes compared of %zu defined", r->bytes.compared,
                 b->output_bytes);
    }
}

/* The same questions in other ways (harness/judge/relations.def): each answer is judged like the first. */
static void run_relations(const running_case *b, kvg_candidate *candidate, kvg_result *r)
{
    for (size_t i = 0; i < kvg_relation_count() && r->verdict == KVG_VERDICT_PASS; i++) {
        const kvg_relation *relation = kvg_relation_get(i);
        kvg_result other = {.verdict = KVG_VERDICT_PASS};
        kvg_tensor_set answer = {0};
        if (!kvg_relation_applies(relation, &b->data, candidate)) continue;
        const kvg_status s = kvg_relation_answer(relation, &b->data, candidate, &answer);
        if (s && s != KVG_ERR_UNIMPLEMENTED) {
            kvg_result_fail(&other, "%s", kvg_error_text());
            other.verdict = verdict_of(s);
        }
        if (!s) judge_answer(b, answer.tensors, &other);
        if (other.verdict != KVG_VERDICT_PASS) {
            r->verdict = other.verdict;
            snprintf(r->detail, sizeof r->detail, "relation %s (%s): %.400s", kvg_relation_id(relation),
                     kvg_relation_summary(relation), other.detail);
        } else if (!s) {
            r->relations |= 1ull << i;
        }
        kvg_set_free(&answer);
    }
}

static int by_time(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void time_candidate(running_case *b, kvg_candidate *candidate, double seconds, kvg_result *r, kvg_timing *timing)
{
    enum { MAX_RUNS = 4096 };
    static double times[MAX_RUNS];
    kvg_outcome o;
    size_t runs = 0;
    for (const double start = kvg_clock_seconds();
         runs < MAX_RUNS && (runs < 3 || kvg_clock_seconds() - start < seconds); runs++) {
        for (size_t i = 0; i < b->answer.count; i++) { /* an answer that is not written again is not an answer */
            if (b->answer.tensors[i].bytes) memset(b->answer.tensors[i].data, 0x5A, b->answer.tensors[i].bytes);
        }
        kvg_case_data_prefill(&b->data, &b->answer);
        if (kvg_candidate_run(candidate, &b->c->problem, b->data.in.tensors, b->answer.tensors, &o)) {
            judge_give_up(r, "the candidate");
            return;
        }
        if (o.status || o.fault[0]) {
            kvg_result_fail(r, "%s failed while it was timed: %s", r->impl, o.status ? o.text : o.fault);
            return;
        }
        times[runs] = o.milliseconds;
    }
    judge_answer(b, b->answer.tensors, r);
    if (r->verdict != KVG_VERDICT_PASS) return;
    qsort(times, runs, sizeof *times, by_time);
    *timing = (kvg_timing){runs, times[runs / 2], times[0], times[runs - 1]};
}

/* The case from start to end; `timing` is NULL where it is only to be checked. */
static void check_case(const kvg_case *c, kvg_candidate *candidate, double seconds, kvg_result *out, kvg_timing *timing)
{
    *out = (kvg_result){.verdict = KVG_VERDICT_PASS};
    running_case *b = calloc(1, sizeof *b);
    kvg_candidate_next_case(candidate);
    kvg_status s = b ? set_up(c, b) : kvg_fail(KVG_ERR_MEMORY, "cannot hold a case");
    if (s) {
        out->verdict = KVG_VERDICT_ERROR;
        snprintf(out->detail, sizeof out->detail, "setting up: %s", kvg_error_text());
    } else {
        run_candidate(b, candidate, out);
        if (!timing && b->judge->has_relations && c->relations) run_relations(b, candidate, out);
        if (!timing && (out->verdict == KVG_VERDICT_PASS || out->verdict == KVG_VERDICT_FAIL)) {
            if (b->judge->measure) b->judge->measure(b, out);
            run_controls(b, out);
            count_reach(b, out);
        }
        if (timing && out->verdict == KVG_VERDICT_PASS) time_candidate(b, candidate, seconds, out, timing);
    }
    if (!b) return;
    if (b->judge->forget) b->judge->forget(b);
    kvg_case_data_free(&b->data);
    kvg_set_free(&b->expected);
    kvg_set_free(&b->answer);
    free(b);
}

void kvg_check_case(const kvg_case *c, kvg_candidate *candidate, kvg_result *out)
{
    check_case(c, candidate, 0, out, NULL);
}

void kvg_check_run(const kvg_case *c, const kvg_backend *backend, kvg_result *out)
{
    kvg_candidate *candidate;
    *out = (kvg_result){.verdict = KVG_VERDICT_ERROR};
    if (kvg_candidate_here(backend, &candidate)) {
        judge_give_up(out, "the candidate");
        return;
    }
    check_case(c, candidate, 0, out, NULL);
    kvg_candidate_end(candidate);
}

void kvg_check_time(const kvg_case *c, kvg_candidate *candidate, double seconds, kvg_result *out, kvg_timing *timing)
{
    *timing = (kvg_timing){0};
    check_case(c, candidate, seconds, out, timing);
}
