/* Separation of a case of op decode: how far its nearest known-wrong answer is from what a right implementation may
 * give. A case whose separation is too small cannot tell right from wrong, however many candidates pass it. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_SEPARATION_H
#define KVG_HARNESS_TRIAL_JUDGE_SEPARATION_H

#include "harness/trial/judge/truth.h"
#include "harness/trial/wrong/defects.h"

enum { KVG_SEPARATION_TEXT = 256, KVG_MAX_DEFECTS = 256 };

/* Over the rows of harness/trial/wrong/defects.def that apply to the case and are reached: they change its answer by
 * more than the roundings of a kernel in f32 throughout may (its bits, where it is judged by bits). */
typedef struct kvg_separation {
    bool by_bits;              /* the case is judged by bits (a profile): distances count changed bits */
    double least;              /* the smallest distance; +Inf where no row is reached */
    const kvg_defect *nearest; /* its row; NULL where none is reached */
    uint32_t reached, unreached;
    double distance[KVG_MAX_DEFECTS]; /* by row of the table: the largest |wrong - exact| / bound over out and lse, or
                                       * changed bits; NAN: does not apply; below 0: changes nothing here */
} kvg_separation;

/* The status is that of the defect that could not be run. */
kvg_status kvg_separation_measure(const kvg_truth *truth, kvg_separation *out) KVG_CHECKED;

/* A distance at which the check says FAIL. */
bool kvg_separation_rejects(const kvg_separation *separation, double distance);

/* Some wrong answer reaches the case, and every one that does is rejected. */
bool kvg_separation_suffices(const kvg_separation *separation);

/* "3.2e+02, nearest sink_scaled" or "12 bits, nearest lse_base_2" or "no defect changes the answer". */
void kvg_separation_text(const kvg_separation *separation, char *out, size_t size);

#endif
