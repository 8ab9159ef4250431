#include "harness/trial/judge/judge.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/judge/far_pools.h"
#include "harness/trial/judge/variance.h"
#include "harness/trial/judge/judge_parts.h"
#include "harness/trial/judge/known_wrong.h"
#include "harness/trial/judge/relations.h"
#include "harness/trial/judge/where.h"
#include "harness/trial/question/describe.h"
#include "harness/trial/question/fill.h"
#include "support/clock.h"
#include "support/sort.h"

/* --- judging --- */

static const judge *judge_for(const kvg_truth *t)
{
    return judge_of(&t->question->c->problem);
}

/* Fills the judging fields of *r. */
static void judge_answer(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r)
{
    const judge *j = judge_for(t);
    if (j->storage) j->storage(t, answer, r);
    if (j->meaning) j->meaning(t, answer, r);
}

/* --- controls --- */

static void add_control(kvg_result_controls *to, const char *id, kvg_control_outcome outcome)
{
    kvg_names *const lists[] = {
        [KVG_CONTROL_UNREACHED] = &to->unreached, [KVG_CONTROL_REJECTED] = &to->rejected,
        [KVG_CONTROL_REJECTED_BY_BOUND] = &to->rejected, [KVG_CONTROL_WITHIN] = &to->within,
        [KVG_CONTROL_ACCEPTED] = &to->accepted,
    };
    if (outcome != KVG_CONTROL_ABSENT) kvg_names_add(lists[outcome], id);
    if (outcome == KVG_CONTROL_REJECTED_BY_BOUND) kvg_names_add(&to->by_bound, id);
}

static void report_separation(const kvg_known_wrong *known, kvg_result *r)
{
    const kvg_separation *s = &known->separation;
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    r->separation = (kvg_result_separation){
        .measured = true,
        .least = s->by_bits ? NAN : s->least,
        .bits = s->by_bits ? s->least : NAN,
        .nearest = s->nearest ? s->nearest->id : "",
        .reached = s->reached,
    };
    for (size_t i = 0; i < count; i++) {
        if (known->distance[i] < 0) kvg_names_add(&r->separation.unreached, defects[i].id);
    }
}

/* Which rows have all that is wrong and more, the one that has the least more first. More than a few have it by chance.
 * Words that say what is wrong speak before them, but for `weak` ones. */
static void report_places(const kvg_known_wrong *known, bool weak, kvg_result *r)
{
    enum { MOST = 3 };
    size_t count, found = 0, best[MOST];
    const kvg_defect *defects = kvg_defect_table(&count);
    char names[sizeof r->fitted] = "";
    for (size_t i = 0; i < count; i++) {
        if (known->part[i] == 0) continue;
        if (found++ == MOST) return;
        size_t at = found - 1;
        for (; at > 0 && known->part[best[at - 1]] < known->part[i]; at--) best[at] = best[at - 1];
        best[at] = i;
    }
    if (found == 0) return;
    kvg_result_add(r, "at places as defect %s (%s): %.2g %% of what that makes wrong", defects[best[0]].id,
                   defects[best[0]].summary, 100 * known->part[best[0]] < 99 ? 100 * known->part[best[0]] : 99);
    for (size_t i = 0; i < found; i++) {
        if (i > 0) kvg_result_add(r, "or as %s (%s)", defects[best[i]].id, defects[best[i]].summary);
        kvg_describe_add(names, sizeof names, "%s%s", i > 0 ? ", or " : "at places as defect ", defects[best[i]].id);
    }
    if (weak || !r->fitted[0]) memcpy(r->fitted, names, sizeof names);
}

static kvg_evidence evidence_of(const kvg_truth *t, const kvg_tensor_set *answer)
{
    const kvg_problem *p = &t->question->c->problem;
    const bool by_number = kvg_op_attends(p->op) && p->profile == KVG_PROFILE_NONE;
    return (kvg_evidence){.data = t->question, .expected = t->expected.tensors, .answer = answer->tensors,
                          .truth = by_number ? t : NULL, .numbers = kvg_op_attends(p->op) ? t : NULL};
}

/* Whether the judge takes a tensor for right that has other bits: NaNs of numbers are alike. */
static bool is_alike(const kvg_problem *p, const kvg_evidence *e, size_t index)
{
    const kvg_tensor *want = &e->expected[index], *have = &e->answer[index];
    if (p->profile == KVG_PROFILE_NONE) return false;
    const size_t count = want->bytes / kvg_dtype_bytes(want->dtype);
    return kvg_differ_numbers(want->dtype, want->data, have->data, count).wrong == 0;
}

/* What the wrong units of the first wrong tensor have in common. A dialect that is judged by value is left out, and so
 * are outputs whose places, of 8 bytes each, would fill the memory. True: a defect says more than these words. */
static bool add_where(const kvg_truth *t, const kvg_evidence *evidence, kvg_result *r)
{
    enum { MOST_BYTES = 1 << 26 };
    const kvg_problem *p = &t->question->c->problem;
    size_t bytes = 0;
    for (size_t i = 0; i < t->expected.count; i++) bytes += t->expected.tensors[i].bytes;
    if (bytes > MOST_BYTES) return false;
    kvg_where where = {0};
    kvg_places places;
    for (int side = KVG_K; side <= KVG_V; side++) {
        if (kvg_case_by_value(&p->storage[side])) return false;
    }
    if (kvg_places_open(t->question, &places)) return false;
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < kvg_case_asked(t->question->c) && !s && !where.wrong; i++) {
        if (!is_alike(p, evidence, i)) s = kvg_where_find(evidence, &places, i, &where);
    }
    kvg_places_close(&places);
    if (s || (!where.extent[0] && !where.pattern[0])) return false;
    const char *between = where.extent[0] && where.pattern[0] ? "; " : "";
    kvg_result_add(r, "in common: %s%s%s", where.extent, between, where.pattern);
    if (where.fitted) memcpy(r->fitted, where.pattern, sizeof r->fitted);
    return where.alike;
}

/* Tries the known-wrong answers. A candidate's wrong one is explained by those that it is, unless it failed for
 * something else than its bytes. */
static void try_known_wrong(const kvg_truth *t, const kvg_tensor_set *answer, const kvg_defect **doubted,
                            kvg_known_wrong *known, kvg_result *r)
{
    const judge *j = judge_for(t);
    const bool fails = r->verdict == KVG_VERDICT_FAIL && r->broken.count == 0;
    const bool wrong = fails && !kvg_set_same_bytes(&t->expected, answer);
    if (wrong && j->name) j->name(t, answer->tensors, r);
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    if (r->verdict != KVG_VERDICT_PASS) doubted = NULL; /* no draw follows */
    if (kvg_known_wrong_try(t, wrong ? answer : NULL, KVG_OFFER_CONTROLS, doubted, known)) {
        if (r->verdict == KVG_VERDICT_PASS) kvg_result_give_up(r, "known-wrong answers");
        return;
    }
    char doubt[KVG_DOUBT_TEXT];
    if (r->verdict == KVG_VERDICT_PASS && !kvg_known_wrong_tells(known, doubt)) {
        r->verdict = KVG_VERDICT_MISTRUSTED;
        snprintf(r->detail, sizeof r->detail, "%s", doubt);
    }
    if (j->by_distance) report_separation(known, r);
    r->controls.measured = true;
    const kvg_evidence evidence = wrong ? evidence_of(t, answer) : (kvg_evidence){0};
    const kvg_case *c = t->question->c;
    const bool constant = wrong && kvg_where_constant(&evidence, kvg_case_asked(c));
    for (size_t i = 0; i < count; i++) {
        const kvg_wrong w = {.defect = &defects[i], .sides = KVG_BOTH_SIDES};
        const bool may = kvg_where_explains(constant, &w, 1, c->problem.op);
        if (may && (known->explains[i] || known->part[i] == 1)) {
            kvg_names_add(&r->explained, defects[i].id);
            kvg_result_add(r, "%s defect %s (%s)", known->explains[i] ? j->explained : "near", defects[i].id,
                           defects[i].summary);
        }
        add_control(&r->controls, defects[i].id, known->outcome[i]);
    }
    const bool weak = wrong && r->explained.count == 0 && add_where(t, &evidence, r);
    if (!constant && r->explained.count == 0) report_places(known, weak, r);
}

/* --- reach --- */

/* How many of 256 counters are not 0, and which. */
static unsigned hit(const uint64_t counters[KVG_FIELD_CODES], kvg_code_set set)
{
    unsigned count = 0;
    for (unsigned code = 0; code < KVG_FIELD_CODES; code++) {
        if (counters[code] == 0) continue;
        set[code / 8] |= (uint8_t)(1u << code % 8);
        count++;
    }
    return count;
}

static kvg_result_reach reach_of(const kvg_problem *p, const kvg_reference_reach *met)
{
    kvg_result_reach reach = {
        .measured = met->elements > 0,
        .codes_of = kvg_format_get(p->storage[KVG_K].format)->element_bits == 4 ? 16 : 256,
        .met = {
            [KVG_MET_TIES] = met->ties,
            [KVG_MET_SATURATIONS] = met->saturations,
            [KVG_MET_ZERO_BLOCKS] = met->zero_blocks,
            [KVG_MET_NEGATIVE_ZEROS] = met->negative_zeros,
            [KVG_MET_SUBNORMALS] = met->subnormals,
            [KVG_MET_SPECIALS] = met->specials,
            [KVG_MET_SCALE_UNDERFLOWS] = met->scale_underflows,
        },
    };
    reach.codes = hit(met->codes, reach.code_set);
    reach.scales = hit(met->scales, reach.scale_set);
    return reach;
}

/* Adds what row `row` of a side reaches; codes and scales are NULL where values say it. */
static void reach_row(const kvg_question *q, kvg_side side, const kvg_tensor *codes, const kvg_tensor *scales,
                      size_t row, kvg_reference_reach *met)
{
    const kvg_problem *p = &q->rows;
    const size_t bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    float x[KVG_MAX_HEAD_DIM];
    if (codes) {
        kvg_reference_codes_reach(p, side, (const uint8_t *)codes->data + row * (size_t)codes->shape[2],
                                  scales->bytes ? (const uint8_t *)scales->data + row * (size_t)scales->shape[2] : NULL,
                                  met);
        return;
    }
    kvg_reference_load(p->dtype, (const uint8_t *)kvg_set_tensor(&q->values, KVG_ROLE_VALUES, side)->data + row * bytes,
                       p->head_dim, x);
    kvg_reference_row_reach(p, side, q->tensor_scale[side], x, met);
}

/* All counters are of one type. */
static void add_reach(const kvg_reference_reach *some, kvg_reference_reach *to)
{
    const uint64_t *from = (const uint64_t *)some;
    for (size_t i = 0; i < sizeof *to / sizeof *from; i++) ((uint64_t *)to)[i] += from[i];
}

static void count_reach(const kvg_truth *t, kvg_result *r)
{
    enum { FEW_ROWS = 128 };
    const kvg_question *q = t->question;
    const size_t count = (size_t)q->rows.tokens * q->rows.kv_heads;
    kvg_tensor_set rows = {0};
    kvg_reference_reach met = {0}; /* of K and V together */
    const bool patterns = q->c->fill == KVG_FILL_CODES; /* the bytes themselves are what the fill made */
    if (patterns && kvg_question_codes(q, t->expected.tensors, &rows)) kvg_result_give_up(r, "rows of the fill");
    for (int side = KVG_K; side < kvg_problem_sides(&q->c->problem) && r->verdict != KVG_VERDICT_ERROR; side++) {
        const kvg_tensor *c = patterns ? kvg_set_tensor(&rows, KVG_ROLE_CODES, (kvg_side)side) : NULL;
        const kvg_tensor *s = patterns ? kvg_set_tensor(&rows, KVG_ROLE_SCALES, (kvg_side)side) : NULL;
#pragma omp parallel if (count > FEW_ROWS)
        {
            kvg_reference_reach some = {0};
#pragma omp for
            for (size_t row = 0; row < count; row++) reach_row(q, (kvg_side)side, c, s, row, &some);
#pragma omp critical
            add_reach(&some, &met);
        }
    }
    r->reach = reach_of(&q->c->problem, &met);
    kvg_set_free(&rows);
}

/* --- asking --- */

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

/* The answer to a question that was asked in another way: of other rows of q, so that who remembers the first answer by
 * its q must work again; relation `repeated` alone asks the very same. */
typedef struct related_answer {
    bool asked;
    const kvg_question *question; /* that of the case, or the next member */
    kvg_question other_q;
    kvg_status status; /* not KVG_OK: why there is no answer */
    char why[KVG_CANDIDATE_TEXT_SIZE];
    kvg_tensor_set tensors;
} related_answer;

/* All that the candidate says to a question, copied out of the memory that it sees. */
typedef struct answers {
    kvg_tensor_set first;
    kvg_outcome outcome;
    related_answer related[KVG_RELATIONS]; /* of each row of harness/trial/judge/relations.def */
    related_answer far;                    /* in far pools */
    kvg_variance along[KVG_INVARIANCE_AXES]; /* how the rows of the first answer fared in other company */
    kvg_status lost;                       /* not KVG_OK: the candidate was gone there, and why */
    char why_lost[KVG_CANDIDATE_TEXT_SIZE];
} answers;

static bool is_gone(kvg_status s)
{
    return s == KVG_ERR_DEVICE || s == KVG_ERR_DEVICE_LOST;
}

/* The status that says that the candidate is gone, or KVG_OK. */
static kvg_status loss_of(const answers *a)
{
    if (is_gone(a->outcome.status)) return a->outcome.status;
    for (size_t i = 0; i < KVG_RELATIONS; i++) {
        if (is_gone(a->related[i].status)) return a->related[i].status;
    }
    return is_gone(a->far.status) ? a->far.status : a->lost;
}

static void note_why(related_answer *other)
{
    if (other->status) snprintf(other->why, sizeof other->why, "%s", kvg_error_text());
}

/* Not KVG_OK: the judge itself failed. A first answer that is none is not asked for again. */
static kvg_status ask(const kvg_question *q, kvg_candidate *candidate, bool again, answers *a)
{
    const bool relations = q->c->relations && judge_of(&q->c->problem)->has_relations;
    kvg_status s = kvg_answer_alloc(q, &a->first);
    if (!s) s = kvg_candidate_run(candidate, &q->c->problem, q->in.tensors, a->first.tensors, &a->outcome);
    if (s || a->outcome.status || a->outcome.fault[0] || !again) return s;
    for (size_t i = 0; relations && i < KVG_RELATIONS; i++) {
        related_answer *other = &a->related[i];
        if (!kvg_relation_is_right(kvg_relation_get(i))) continue;
        if (!kvg_relation_applies(kvg_relation_get(i), q, candidate)) continue;
        other->asked = true;
        other->question = i == KVG_RELATION_repeated ? q : &other->other_q;
        if (other->question != q) s = kvg_question_with_other_q(q, i, &other->other_q);
        if (s) return s;
        other->status = kvg_relation_answer(kvg_relation_get(i), other->question, candidate, &other->tensors, NULL);
        note_why(other);
        if (is_gone(other->status)) return KVG_OK;
    }
    if (q->c->far_blocks) {
        a->far = (related_answer){.asked = true, .question = q};
        a->far.status = kvg_far_answer(q, candidate, &a->far.tensors);
        note_why(&a->far);
        if (is_gone(a->far.status)) return KVG_OK;
    }
    s = kvg_invariance_ask(q, candidate, &a->first, a->along);
    if (!is_gone(s)) return s;
    a->lost = s;
    snprintf(a->why_lost, sizeof a->why_lost, "%s", kvg_error_text());
    return KVG_OK;
}

static void free_answers(answers *a)
{
    kvg_set_free(&a->first);
    for (size_t i = 0; i < KVG_RELATIONS; i++) {
        related_answer *other = &a->related[i];
        if (other->question == &other->other_q) kvg_question_with_other_q_free(&other->other_q);
        kvg_set_free(&other->tensors);
    }
    kvg_set_free(&a->far.tensors);
}

/* --- verdicts --- */

static void judge_first(const kvg_truth *t, const answers *a, kvg_result *r)
{
    const kvg_outcome *o = &a->outcome;
    if (o->status) kvg_result_fail(r, "%s returned '%s': %s", o->impl, kvg_status_name(o->status), o->text);
    if (o->fault[0]) kvg_result_fail(r, "%s", o->fault);
    if (r->verdict == KVG_VERDICT_PASS) judge_answer(t, a->first.tensors, r);
    if (r->verdict == KVG_VERDICT_PASS && r->bytes.compared != t->bytes) {
        r->verdict = KVG_VERDICT_ERROR;
        snprintf(r->detail, sizeof r->detail, "%" PRIu64 " bytes compared of %zu defined", r->bytes.compared, t->bytes);
    }
}

/* An answer to the same question in another way is judged like the first, unless something was wrong before. */
static void judge_other(const kvg_truth *t, const related_answer *answer, const char *id, const char *summary,
                        kvg_result *r)
{
    kvg_result other = {.verdict = KVG_VERDICT_PASS};
    if (!answer->asked || r->verdict != KVG_VERDICT_PASS) return;
    if (answer->status) {
        kvg_result_fail(&other, "%s", answer->why);
        other.verdict = verdict_of(answer->status);
    } else if (answer->question == t->question) {
        judge_answer(t, answer->tensors.tensors, &other);
    } else {
        kvg_truth of_other_q;
        if (kvg_know_again(answer->question, &of_other_q)) kvg_result_give_up(&other, "setting up");
        else judge_answer(&of_other_q, answer->tensors.tensors, &other);
        kvg_truth_free(&of_other_q);
    }
    if (other.verdict == KVG_VERDICT_PASS) {
        kvg_names_add(&r->relations, id);
        return;
    }
    r->verdict = other.verdict;
    if (r->verdict != KVG_VERDICT_ERROR) kvg_names_add(&r->broken, id);
    snprintf(r->detail, sizeof r->detail, "relation %s (%s): %.400s", id, summary, other.detail);
}

static void judge_related(const kvg_truth *t, const answers *a, kvg_result *r)
{
    for (size_t i = 0; i < KVG_RELATIONS; i++) {
        const kvg_relation *relation = kvg_relation_get(i);
        judge_other(t, &a->related[i], kvg_relation_id(relation), kvg_relation_summary(relation), r);
    }
    judge_other(t, &a->far, KVG_FAR_ID, KVG_FAR_SUMMARY, r);
}

/* --- timing --- */

/* Milliseconds of a run as the candidate's process says, unless that cannot be. */
static double believed(const kvg_outcome *o, bool *possible)
{
    *possible = o->milliseconds >= 0 && o->milliseconds <= o->waited;
    return *possible ? o->milliseconds : o->waited;
}

/* Only what was judged is timed, so here the judge asks after it knows. The last answer is judged again. */
static void time_candidate(const kvg_question *q, kvg_candidate *candidate, double seconds, kvg_tensor_set *answer,
                           kvg_result *r, kvg_timing *timing)
{
    enum { MAX_RUNS = 4096 };
    static double times[MAX_RUNS];
    kvg_outcome o;
    size_t runs = 0, impossible = 0;
    bool possible;
    double fastest = 0;
    for (const double start = kvg_clock_seconds();
         runs < MAX_RUNS && (runs < 3 || kvg_clock_seconds() - start < seconds); runs++) {
        for (size_t i = 0; i < answer->count; i++) { /* an answer that is not written again is not an answer */
            if (answer->tensors[i].bytes) memset(answer->tensors[i].data, 0x5A, answer->tensors[i].bytes);
        }
        kvg_question_prefill(q, answer);
        if (kvg_candidate_run(candidate, &q->c->problem, q->in.tensors, answer->tensors, &o)) {
            kvg_result_give_up(r, "the candidate");
            return;
        }
        if (o.status || o.fault[0]) {
            kvg_result_fail(r, "%s failed while it was timed: %s", r->impl, o.status ? o.text : o.fault);
            return;
        }
        times[runs] = believed(&o, &possible);
        fastest = runs && fastest < o.waited ? fastest : o.waited;
        impossible += !possible;
    }
    kvg_sort_doubles(times, runs);
    *timing = (kvg_timing){runs, impossible, times[runs / 2], times[0], times[runs - 1], fastest};
}

/* --- a case from start to end --- */

typedef struct running_case {
    kvg_question question;
    answers answers;
    kvg_truth truth;
    kvg_known_wrong known_wrong;
    const kvg_defect **doubted; /* as kvg_known_wrong_try has it: NULL for the last draw */
} running_case;

/* Without controls where the case is timed. */
static void judge_case(running_case *b, bool controls, kvg_result *out)
{
    const kvg_truth *t = &b->truth;
    if (kvg_know(&b->question, &b->truth)) {
        kvg_result_give_up(out, "setting up");
        return;
    }
    judge_first(t, &b->answers, out);
    judge_related(t, &b->answers, out);
    if (b->answers.lost && out->verdict == KVG_VERDICT_PASS) {
        out->verdict = verdict_of(b->answers.lost);
        snprintf(out->detail, sizeof out->detail, "in other company: %.400s", b->answers.why_lost);
    }
    kvg_invariance_judge(t->question->c, b->answers.along, out);
    if (!controls || (out->verdict != KVG_VERDICT_PASS && out->verdict != KVG_VERDICT_FAIL)) return;
    try_known_wrong(t, &b->answers.first, b->doubted, &b->known_wrong, out);
    if (!b->doubted || out->verdict != KVG_VERDICT_MISTRUSTED) count_reach(t, out);
}

/* `timing` is NULL where the case is only to be checked. The order is: ask, then know, then judge. */
static void check_draw(const kvg_case *c, kvg_candidate *candidate, const kvg_defect **doubted, double seconds,
                       kvg_result *out, kvg_timing *timing)
{
    *out = (kvg_result){.verdict = KVG_VERDICT_PASS};
    running_case *b = calloc(1, sizeof *b);
    kvg_candidate_next_case(candidate);
    if (b) b->doubted = doubted;
    const kvg_status s = b ? kvg_question_make(c, &b->question) : kvg_fail(KVG_ERR_MEMORY, "cannot hold a case");
    if (s) {
        kvg_result_give_up(out, "setting up");
    } else if (ask(&b->question, candidate, !timing, &b->answers)) {
        kvg_result_give_up(out, "the candidate");
    } else {
        const kvg_outcome *o = &b->answers.outcome;
        bool possible;
        out->milliseconds = believed(o, &possible);
        if (!possible) {
            snprintf(out->suspect, sizeof out->suspect, "%g ms in a call of %g ms", o->milliseconds, o->waited);
        }
        memcpy(out->impl, b->answers.outcome.impl, sizeof out->impl);
        out->lost = loss_of(&b->answers);
        if (!refused(&b->answers.outcome, out)) judge_case(b, !timing, out);
    }
    if (timing && out->verdict == KVG_VERDICT_PASS) {
        kvg_timing measured = {0};
        time_candidate(&b->question, candidate, seconds, &b->answers.first, out, &measured);
        if (out->verdict == KVG_VERDICT_PASS) judge_answer(&b->truth, b->answers.first.tensors, out);
        if (out->verdict == KVG_VERDICT_PASS) *timing = measured;
    }
    if (!b) return;
    kvg_truth_free(&b->truth);
    free_answers(&b->answers);
    kvg_question_free(&b->question);
    free(b);
}

/* A case whose data cannot tell right from wrong is asked again with other data. What is wrong in any draw is wrong. */
static void check_case(const kvg_case *c, kvg_candidate *candidate, double seconds, kvg_result *out, kvg_timing *timing)
{
    uint64_t redraws = 0;
    const kvg_defect *doubted = NULL;
    check_draw(c, candidate, &doubted, seconds, out, timing);
    while (out->verdict == KVG_VERDICT_MISTRUSTED && redraws < KVG_REDRAWS) {
        const kvg_case drawn = kvg_fill_draw(c, ++redraws);
        check_draw(&drawn, candidate, redraws < KVG_REDRAWS ? &doubted : NULL, seconds, out, timing);
        out->redraws = redraws;
    }
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
        kvg_result_give_up(out, "the candidate");
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
