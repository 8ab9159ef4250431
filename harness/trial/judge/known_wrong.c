#include "harness/trial/judge/known_wrong.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/judge/judge_parts.h"
#include "harness/trial/wrong/defect_cache.h"
#include "harness/trial/wrong/defect_run.h"
#include "harness/trial/wrong/flash_rows.h"
#include "support/progress.h"

/* What the check says to a wrong answer. */
static kvg_control_outcome judged(const judge *j, const kvg_truth *t, const kvg_tensor_set *wrong)
{
    kvg_result storage = {.verdict = KVG_VERDICT_PASS, .verdict_only = true}, decoded = storage;
    if (j->is_right(t, wrong)) return KVG_CONTROL_UNREACHED;
    if (j->storage) j->storage(t, wrong->tensors, &storage);
    if (j->meaning) j->meaning(t, wrong->tensors, &decoded);
    if (decoded.verdict == KVG_VERDICT_FAIL) return KVG_CONTROL_REJECTED_BY_BOUND;
    return storage.verdict == KVG_VERDICT_FAIL ? KVG_CONTROL_REJECTED : KVG_CONTROL_ACCEPTED;
}

/* The plain kernel's defects start from its own right answer, whose bits are not the reference's: so an outcome follows
 * from its distance. */
static kvg_control_outcome outcome_at(bool by_bits, double distance)
{
    if (distance < 0) return KVG_CONTROL_UNREACHED;
    if (!kvg_separation_rejects(by_bits, distance)) return KVG_CONTROL_WITHIN;
    return by_bits ? KVG_CONTROL_REJECTED : KVG_CONTROL_REJECTED_BY_BOUND;
}

bool kvg_control_rejects(kvg_control_outcome outcome)
{
    return outcome == KVG_CONTROL_REJECTED || outcome == KVG_CONTROL_REJECTED_BY_BOUND;
}

/* Also a defect of a witness's row for which the case asks. */
static bool is_control(const kvg_defect *defect, const kvg_question *q)
{
    size_t rows;
    const kvg_witness *table = kvg_witness_table(&rows);
    if (defect->control) return true;
    for (size_t i = 0; i < rows; i++) {
        if (kvg_witness_is(&table[i], defect) && kvg_witness_asked(&table[i], q)) return true;
    }
    return false;
}

static bool is_offered(const kvg_defect *defect, const kvg_question *q, kvg_offer offer)
{
    return offer == KVG_OFFER_ALL || (offer == KVG_OFFER_CONTROLS && is_control(defect, q));
}

/* The first row for which the case asks and of which nothing was rejected. */
static const kvg_witness *find_unseen(const kvg_question *q, const kvg_known_wrong *known)
{
    size_t rows, count;
    const kvg_witness *table = kvg_witness_table(&rows);
    const kvg_defect *defects = kvg_defect_table(&count);
    for (size_t row = 0; row < rows; row++) {
        bool seen = !kvg_witness_asked(&table[row], q);
        for (size_t i = 0; i < count && !seen; i++)
            seen = kvg_witness_is(&table[row], &defects[i]) && kvg_control_rejects(known->outcome[i]);
        if (!seen) return &table[row];
    }
    return NULL;
}

/* --- op decode: rows after rows --- */

/* A part is the rows of one sequence and query head. A KV head of the longest sequence comes first, because it shows
 * the most; then the others from the shortest on, because they cost the least. */
typedef struct parts {
    size_t count, group;
    size_t *place; /* [sequences][Hq]: which part comes when */
    bool *wanted;  /* [queries][Hq]: the rows of some of them */
    enum { UNKNOWN, SAME, CHANGED } *of; /* [sequences][Hkv]: what a defect leaves of their rows */
} parts;

typedef struct pass {
    const kvg_truth *truth;
    const judge *judge;
    kvg_separation_scene scene;
    parts parts;
    kvg_flash_kept kept;
    bool by_bits;
    const kvg_tensor_set *answer;       /* the candidate's; NULL: not to be explained */
    kvg_tensor_set blank, wrong, guess; /* what answers start from; a defect's; that with the candidate's other rows */
} pass;

static kvg_status open_parts(const kvg_question *q, parts *out)
{
    const kvg_problem *p = &q->c->problem;
    const int32_t *lengths = kvg_set_tensor(&q->in, KVG_ROLE_LENGTHS, KVG_K)->data;
    const size_t heads = p->attention.query_heads;
    out->count = p->paging.sequences * heads;
    out->group = heads / p->kv_heads;
    out->place = malloc(out->count * sizeof *out->place);
    out->wanted = malloc(p->attention.queries * heads * sizeof *out->wanted);
    out->of = calloc(p->paging.sequences * p->kv_heads, sizeof *out->of);
    size_t *order = malloc(p->paging.sequences * sizeof *order); /* sequences, the shortest first */
    for (size_t i = 0; order && i < p->paging.sequences; i++) {
        size_t at = i;
        for (; at && lengths[order[at - 1]] > lengths[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    const bool got = order && out->place && out->wanted && out->of;
    for (size_t i = 0; got && i < out->count; i++)
        out->place[order[i / heads] * heads + i % heads] = (i + out->group) % out->count;
    free(order);
    return got ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "cannot order %zu parts", out->count);
}

/* The rows that are wanted, from one answer to another. */
static void copy_rows(const kvg_question *q, const bool *wanted, const kvg_tensor_set *from, kvg_tensor_set *to)
{
    const size_t rows = (size_t)q->c->problem.attention.queries * q->c->problem.attention.query_heads;
    for (size_t t = 0; t < to->count; t++) {
        const size_t bytes = rows ? to->tensors[t].bytes / rows : 0;
        for (size_t i = 0; i < rows; i++) {
            if (wanted[i]) memcpy((uint8_t *)to->tensors[t].data + i * bytes,
                                  (const uint8_t *)from->tensors[t].data + i * bytes, bytes);
        }
    }
}

static void copy_answer(const kvg_tensor_set *from, kvg_tensor_set *to)
{
    for (size_t i = 0; i < to->count; i++) {
        if (to->tensors[i].bytes) memcpy(to->tensors[i].data, from->tensors[i].data, to->tensors[i].bytes);
    }
}

/* Whether a defect may change the rows of a sequence and KV head, which have number `of`: the plain kernel meets it
 * there, or what is read there is other than it was. */
static bool may_change(const pass *a, const kvg_defect *defect, const kvg_wrong_inputs *inputs, size_t of)
{
    const kvg_question *q = a->truth->question;
    const kvg_problem *p = &q->c->problem;
    if (defect->flash) return a->kept.met[of] >> defect->flash & 1;
    if (inputs->same || memcmp(&inputs->problem, p, sizeof *p) != 0) return true;
    return !kvg_cache_reads_alike(p, q->in.tensors, inputs->in, (uint32_t)(of / p->kv_heads),
                                  (uint32_t)(of % p->kv_heads));
}

/* Parts `from` to `to` - 1; with a defect those of them that it may change. False: there are none. */
static bool want_parts(pass *a, size_t from, size_t to, const kvg_defect *defect, const kvg_wrong_inputs *inputs)
{
    const kvg_question *q = a->truth->question;
    const kvg_problem *p = &q->c->problem;
    const uint32_t heads = p->attention.query_heads;
    bool any = false;
    for (size_t i = 0; i < (size_t)p->attention.queries * heads; i++) {
        const uint32_t head = (uint32_t)(i % heads), sequence = q->queries[i / heads].sequence;
        const size_t part = (size_t)sequence * heads + head;
        const size_t of = part / a->parts.group; /* the KV head's number */
        a->parts.wanted[i] = a->parts.place[part] >= from && a->parts.place[part] < to;
        if (!defect || !a->parts.wanted[i]) continue;
        if (a->parts.of[of] == UNKNOWN) a->parts.of[of] = may_change(a, defect, inputs, of) ? CHANGED : SAME;
        a->parts.wanted[i] = a->parts.of[of] == CHANGED;
        any = any || a->parts.wanted[i];
    }
    return any;
}

/* The wanted rows of a defect's answer, in the place of what was there. `all`: every row is wanted, and the defect
 * changes what comes out. */
static kvg_status add_rows(pass *a, const kvg_wrong *w, bool all, kvg_wrong_inputs *inputs)
{
    const kvg_question *q = a->truth->question;
    kvg_status s = KVG_OK;
    if (!inputs->same || w->defect->flash) {
        copy_rows(q, a->parts.wanted, &a->blank, &a->wrong);
        s = kvg_wrong_answer(w, 1, inputs, a->parts.wanted, &a->kept, a->wrong.tensors);
    }
    if (!s && all) s = kvg_wrong_change(w, 1, &q->c->problem, q->in.tensors, inputs, a->wrong.tensors);
    return s;
}

/* How many parts are looked at after `done` of them: one, its KV head's, twice as many. */
static size_t next_step(const parts *p, size_t done)
{
    const size_t next = done == 0 ? 1 : done < p->group ? p->group : 2 * done;
    return next < p->count ? next : p->count;
}

/* How far a defect has been followed. */
typedef struct measure {
    size_t done; /* parts */
    double distance;
    bool explains; /* so far it is what the candidate answered */
} measure;

/* Follows a defect for one step more, or until the check rejects its answer and it does not explain the candidate's. */
static kvg_status go_on(pass *a, const kvg_defect *defect, measure *m)
{
    const kvg_question *q = a->truth->question;
    const kvg_wrong w = {.defect = defect, .sides = KVG_BOTH_SIDES};
    const bool at_once = kvg_wrong_changes_outputs(&w, 1, q->c->problem.op);
    bool enough = false;
    kvg_wrong_inputs inputs;
    kvg_status s = kvg_wrong_apply(&w, 1, &q->c->problem, q->in.tensors, &inputs);
    if (s) return s;
    copy_answer(kvg_separation_right(&a->scene, defect), &a->wrong);
    for (size_t i = 0; i < (size_t)q->c->problem.paging.sequences * q->c->problem.kv_heads; i++)
        a->parts.of[i] = UNKNOWN;
    if (m->explains) copy_answer(a->answer, &a->guess);
    while (m->done < a->parts.count && !enough) {
        const size_t to = at_once ? a->parts.count : next_step(&a->parts, m->done);
        if (want_parts(a, m->done, to, defect, &inputs)) s = add_rows(a, &w, at_once, &inputs);
        if (!s) s = kvg_separation_measure(&a->scene, defect, &a->wrong, a->parts.wanted, &m->distance);
        if (s) break;
        if (m->explains) {
            (void)want_parts(a, m->done, to, NULL, NULL);
            copy_rows(q, a->parts.wanted, &a->wrong, &a->guess);
            m->explains = a->judge->explains(a->truth, a->answer, &a->guess);
        }
        m->done = to;
        enough = kvg_separation_rejects(a->by_bits, m->distance) && !m->explains;
    }
    m->explains = m->explains && !s && !(m->distance < 0) && !a->judge->is_right(a->truth, &a->wrong);
    kvg_wrong_inputs_free(&inputs);
    return s;
}

/* Of all defects that were followed, the first with the smallest distance; NULL: none changes the answer. */
static measure *find_nearest(measure *of, size_t count)
{
    measure *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        if (of[i].done && of[i].distance >= 0 && (!nearest || of[i].distance < nearest->distance)) nearest = &of[i];
    }
    return nearest;
}

/* Follows every defect until the check rejects it, then those that may be the nearest until one is known to be. */
static kvg_status measure_all(pass *a, const kvg_defect **doubted, kvg_known_wrong *out)
{
    measure of[KVG_MAX_DEFECTS] = {0};
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    const size_t first = doubted && *doubted ? (size_t)(*doubted - defects) : 0;
    bool doubt = false;
    kvg_status s = KVG_OK;
    for (size_t n = 0; n < count && !s && !doubt; n++) {
        const size_t i = (first + n) % count;
        of[i] = (measure){.distance = -1, .explains = a->answer != NULL};
        kvg_progress_part(n, count, "known-wrong answers");
        if (kvg_defect_applies(&defects[i], &a->truth->question->c->problem)) s = go_on(a, &defects[i], &of[i]);
        out->explains[i] = of[i].done && of[i].explains;
        doubt = doubted && !a->answer && of[i].distance >= 0 && !kvg_separation_rejects(a->by_bits, of[i].distance);
        if (doubt) *doubted = &defects[i];
    }
    for (measure *m = find_nearest(of, count); !s && m && m->done < a->parts.count; m = find_nearest(of, count))
        s = go_on(a, &defects[m - of], m);
    for (size_t i = 0; i < count && !s; i++) {
        if (!of[i].done) continue;
        out->distance[i] = of[i].distance;
        kvg_separation_add(&out->separation, &defects[i], of[i].distance);
    }
    return s;
}

/* --- a defect at places --- */

/* Whether the defect has all that is wrong in the candidate's answer. What the plain kernel makes wrong is near to what
 * another kernel makes wrong in the same way, and has other bits. */
static void consider_places(const pass *a, size_t index, const kvg_defect *defect, kvg_known_wrong *out)
{
    enum { FEWEST = 16 }; /* fewer may be alike by chance */
    const judge_share share = defect->flash ? judge_share_numbers(a->truth, a->answer, &a->wrong)
                                            : a->judge->share(a->truth, a->answer, &a->wrong);
    if (share.given < share.wrong || share.telling < FEWEST || 2 * share.telling < share.wrong) return;
    out->part[index] = (double)share.given / (double)share.changed;
}

/* The same of op decode: by the candidate's wrong rows, then by all rows, which say how much more there would be. */
static kvg_status try_places(pass *a, kvg_known_wrong *out)
{
    const kvg_question *q = a->truth->question;
    const size_t rows = (size_t)q->c->problem.attention.queries * q->c->problem.attention.query_heads;
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < count && !s; i++) {
        const kvg_wrong w = {.defect = &defects[i], .sides = KVG_BOTH_SIDES};
        const bool all = kvg_wrong_changes_outputs(&w, 1, q->c->problem.op);
        kvg_wrong_inputs inputs;
        kvg_progress_part(i, count, "known-wrong answers at places");
        if (!kvg_defect_applies(w.defect, &q->c->problem)) continue;
        s = kvg_wrong_apply(&w, 1, &q->c->problem, q->in.tensors, &inputs);
        if (s) return s;
        for (bool whole = all, ended = false; !s && !ended; whole = true) {
            memset(a->parts.wanted, whole, rows * sizeof *a->parts.wanted);
            if (!whole) a->judge->mark(a->truth, a->answer, a->parts.wanted);
            copy_answer(kvg_separation_right(&a->scene, w.defect), &a->wrong);
            s = add_rows(a, &w, all, &inputs);
            if (!s) consider_places(a, i, w.defect, out);
            ended = whole || out->part[i] == 0;
        }
        kvg_wrong_inputs_free(&inputs);
    }
    return s;
}

static bool any_explains(const kvg_known_wrong *known)
{
    bool any = false;
    for (size_t i = 0; i < KVG_MAX_DEFECTS; i++) any = any || known->explains[i];
    return any;
}

/* --- the pass --- */

static kvg_status open_pass(const kvg_truth *t, const kvg_tensor_set *answer, pass *out)
{
    const kvg_question *q = t->question;
    *out = (pass){.truth = t, .judge = judge_of(&q->c->problem), .answer = answer,
                  .by_bits = q->c->problem.profile != KVG_PROFILE_NONE};
    kvg_status s = kvg_answer_alloc(q, &out->blank);
    if (!s) s = kvg_answer_alloc(q, &out->wrong);
    if (!s && out->judge->by_distance) s = open_parts(q, &out->parts);
    if (!s && out->judge->by_distance) s = kvg_flash_kept_open(&q->c->problem, &out->kept);
    if (!s && out->judge->by_distance) s = kvg_separation_open(t, &out->kept, &out->scene);
    if (!s && out->judge->by_distance && answer) s = kvg_answer_alloc(q, &out->guess);
    return s;
}

static void close_pass(pass *a)
{
    kvg_separation_close(&a->scene);
    kvg_flash_kept_close(&a->kept);
    free(a->parts.place);
    free(a->parts.wanted);
    free(a->parts.of);
    kvg_set_free(&a->blank);
    kvg_set_free(&a->wrong);
    kvg_set_free(&a->guess);
}

/* --- ops that are judged by what they store: first of few tokens --- */

/* The case with few of its tokens, whose data are those of the first ones. False: it has few, or cannot have fewer. */
static bool has_few_tokens(const kvg_case *c, kvg_case *few)
{
    enum { FEW = 512 };
    kvg_problem *p = &few->problem;
    *few = *c;
    if (judge_of(p)->by_distance || c->fill == KVG_FILL_CAPTURE || c->shared_prefix) return false;
    if (p->tokens <= 2 * FEW) return false;
    p->tokens = FEW;
    if (kvg_op_get(p->op)->paged) {
        const uint64_t B = p->paging.block_tokens, sequences = p->paging.sequences;
        const uint64_t all = sequences * ((c->problem.tokens + B - 1) / B), kept = sequences * ((FEW + B - 1) / B);
        if (p->paging.blocks < all) return false;
        p->paging.blocks -= (uint32_t)(all - kept);
    }
    return !kvg_problem_check(p) && !kvg_problem_lay_out(p);
}

/* What the check says to the known-wrong answers of the case with few tokens. What it rejects there, it rejects. */
static kvg_status try_few(const kvg_case *few, kvg_offer offer, kvg_known_wrong *out)
{
    kvg_question question;
    kvg_truth truth = {0};
    kvg_status s = kvg_question_make(few, &question);
    if (!s) s = kvg_know(&question, &truth);
    if (!s) s = kvg_known_wrong_try(&truth, NULL, offer, NULL, out);
    kvg_truth_free(&truth);
    kvg_question_free(&question);
    return s;
}

/* Offers the rows of the table to the check, one after the other. */
static kvg_status offer_all(pass *a, kvg_offer offer, kvg_known_wrong *out)
{
    const kvg_truth *t = a->truth;
    const kvg_problem *p = &t->question->c->problem;
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    kvg_known_wrong few = {0};
    kvg_case fewer;
    kvg_status s = !a->answer && has_few_tokens(t->question->c, &fewer) ? try_few(&fewer, offer, &few) : KVG_OK;
    for (size_t i = 0; i < count && !s; i++) {
        const bool offered = is_offered(&defects[i], t->question, offer);
        if (!kvg_defect_applies(&defects[i], p) || !(offered || a->answer)) continue;
        out->outcome[i] = few.outcome[i];
        if (kvg_control_rejects(few.outcome[i])) continue;
        kvg_progress_part(i, count, "known-wrong answers");
        copy_answer(&a->blank, &a->wrong);
        s = kvg_defect_run(&defects[i], p, t->question->in.tensors, a->wrong.tensors);
        if (s) break;
        if (offered) out->outcome[i] = judged(a->judge, t, &a->wrong);
        const bool passed = out->outcome[i] == KVG_CONTROL_ACCEPTED && is_control(&defects[i], t->question);
        if (passed && !out->accepted) out->accepted = &defects[i];
        if (!a->answer) continue;
        out->explains[i] = !a->judge->is_right(t, &a->wrong) && a->judge->explains(t, a->answer, &a->wrong);
        consider_places(a, i, &defects[i], out);
    }
    return s;
}

/* --- ops that are judged by distance --- */

static kvg_status measure_and_place(pass *a, kvg_offer offer, const kvg_defect **doubted, kvg_known_wrong *out)
{
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    kvg_status s = measure_all(a, doubted, out);
    if (!s && a->answer && !any_explains(out)) s = try_places(a, out);
    for (size_t i = 0; i < count && !s; i++) {
        const kvg_question *q = a->truth->question;
        if (!kvg_defect_applies(&defects[i], &q->c->problem) || !is_offered(&defects[i], q, offer)) continue;
        out->outcome[i] = outcome_at(a->by_bits, out->distance[i]);
    }
    return s;
}

kvg_status kvg_known_wrong_try(const kvg_truth *t, const kvg_tensor_set *answer, kvg_offer offer,
                               const kvg_defect **doubted, kvg_known_wrong *out)
{
    size_t count;
    pass a;
    (void)kvg_defect_table(&count);
    assert(count <= KVG_MAX_DEFECTS);
    kvg_status s = open_pass(t, answer, &a);
    *out = (kvg_known_wrong){.separation = {.by_bits = a.by_bits, .least = INFINITY}};
    for (size_t i = 0; i < count; i++) out->distance[i] = NAN;
    if (!s) s = a.judge->by_distance ? measure_and_place(&a, offer, doubted, out) : offer_all(&a, offer, out);
    if (any_explains(out)) memset(out->part, 0, sizeof out->part);
    close_pass(&a);
    if (!s && offer != KVG_OFFER_NONE && !t->question->c->unseen) out->unseen = find_unseen(t->question, out);
    return s;
}

static bool any_rejected(const kvg_known_wrong *known)
{
    for (size_t i = 0; i < KVG_MAX_DEFECTS; i++) {
        if (kvg_control_rejects(known->outcome[i])) return true;
    }
    return false;
}

bool kvg_known_wrong_tells(const kvg_known_wrong *known, char doubt[KVG_DOUBT_TEXT])
{
    const kvg_separation *separation = &known->separation;
    *doubt = '\0';
    if (known->unseen) {
        snprintf(doubt, KVG_DOUBT_TEXT, "%s is asked for and never seen: defect %s would pass; %s", known->unseen->axis,
                 known->unseen->defects[0], known->unseen->remedy);
    } else if (separation->nearest && !kvg_separation_suffices(separation)) {
        char text[KVG_SEPARATION_TEXT];
        kvg_separation_text(separation, text, sizeof text);
        snprintf(doubt, KVG_DOUBT_TEXT, "separation %s (%s): that wrong answer would pass; use more queries, other "
                 "lengths, scales or options", text, separation->nearest->summary);
    } else if (known->accepted) {
        snprintf(doubt, KVG_DOUBT_TEXT, "the known-wrong answer '%s' passed this check", known->accepted->id);
    } else if (!any_rejected(known)) {
        snprintf(doubt, KVG_DOUBT_TEXT, "no known-wrong answer differs from the right one: use more tokens, or another "
                 "fill");
    } else {
        return true;
    }
    return false;
}
