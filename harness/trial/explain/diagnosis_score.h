/* How well one hypothesis explains an answer. Part of harness/trial/explain/diagnosis.c. */
#ifndef KVG_HARNESS_TRIAL_EXPLAIN_DIAGNOSIS_SCORE_H
#define KVG_HARNESS_TRIAL_EXPLAIN_DIAGNOSIS_SCORE_H

#include "harness/trial/explain/diagnosis.h"

/* What one hypothesis does with the answer, by group of units (kvg_places_group). */
typedef struct kvg_score {
    kvg_explanation e;
    uint64_t gain[KVG_PLACE_GROUPS]; /* explained wrong bits less those introduced; 0 at least */
    bool tried;                      /* there was time for it */
    bool ran;                        /* the hypothesis makes a problem that the reference answers */
    bool reached;                    /* and gives something else than the right answer */
} kvg_score;

/* Of a row of out and its lse: the bound, and that of out in units of the row's largest number. */
typedef struct kvg_kernel_bound {
    double out, relative, lse;
} kvg_kernel_bound;

/* What is the same for all hypotheses. */
typedef struct kvg_scorer {
    const kvg_evidence *q;
    const kvg_places *places;
    const kvg_problem *problem;
    uint64_t wrong_bits, all_bits; /* of the answer; op decode by number: numbers */
    kvg_arithmetic class;      /* op decode by number */
    kvg_kernel_bound *kernel;  /* the same: how far a wrong kernel's rows may be from those of another arithmetic */
    double *got[2];            /* the same: the answer's numbers */
} kvg_scorer;

/* On failure, and at the end, kvg_scorer_close. */
kvg_status kvg_scorer_open(const kvg_evidence *evidence, const kvg_places *places,
                           kvg_scorer *out) KVG_CHECKED;
void kvg_scorer_close(kvg_scorer *scorer);

/* Scores[i] of the hypothesis whose defects are scores[i].e.wrong: in parallel, each by one thread, the same whatever
 * their number, in their order. None begins after `until` (kvg_clock_seconds). noun: what they are, for progress. */
kvg_status kvg_scorer_run(const kvg_scorer *scorer, kvg_score *scores, size_t count, const char *noun,
                          double until) KVG_CHECKED;

#endif
