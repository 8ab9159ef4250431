#include "harness/trial/judge/known_wrong.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "harness/trial/judge/judge_parts.h"
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
static kvg_control_outcome outcome_at(const kvg_separation *s, double distance)
{
    if (distance < 0) return KVG_CONTROL_UNREACHED;
    if (!kvg_separation_rejects(s, distance)) return KVG_CONTROL_WITHIN;
    return s->by_bits ? KVG_CONTROL_REJECTED : KVG_CONTROL_REJECTED_BY_BOUND;
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

kvg_status kvg_known_wrong_try(const kvg_truth *t, const kvg_tensor_set *answer, kvg_offer offer, kvg_known_wrong *out)
{
    const kvg_question *q = t->question;
    const kvg_problem *p = &q->c->problem;
    const judge *j = judge_of(p);
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    kvg_separation_scene scene = {0};
    assert(count <= KVG_MAX_DEFECTS);
    *out = (kvg_known_wrong){.separation = {.by_bits = p->profile != KVG_PROFILE_NONE, .least = INFINITY}};
    kvg_status s = j->by_distance ? kvg_separation_open(t, &scene) : KVG_OK;
    for (size_t i = 0; i < count; i++) {
        const kvg_defect *defect = &defects[i];
        const bool control = offer != KVG_OFFER_NONE && is_control(defect, q);
        const bool offered = control || offer == KVG_OFFER_ALL;
        kvg_tensor_set wrong = {0};
        out->distance[i] = NAN;
        kvg_progress_part(i, count, "known-wrong answers");
        if (s || !kvg_defect_applies(defect, p) || !(offered || j->by_distance || answer)) continue;
        s = kvg_answer_alloc(q, &wrong);
        if (!s) s = kvg_defect_run(defect, p, q->in.tensors, wrong.tensors);
        if (!s && j->by_distance) out->distance[i] = kvg_separation_add(&scene, defect, &wrong, &out->separation);
        if (!s && offered) {
            out->outcome[i] = j->by_distance ? outcome_at(&out->separation, out->distance[i]) : judged(j, t, &wrong);
        }
        if (control && !out->accepted && out->outcome[i] == KVG_CONTROL_ACCEPTED) out->accepted = defect;
        out->explains[i] = !s && answer && !(out->distance[i] < 0) && !j->is_right(t, &wrong) &&
                           j->explains(t, answer, &wrong);
        kvg_set_free(&wrong);
    }
    kvg_separation_close(&scene);
    if (!s && offer != KVG_OFFER_NONE && !q->c->unseen) out->unseen = find_unseen(q, out);
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
