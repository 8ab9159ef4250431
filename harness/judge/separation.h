/* Separation of a case of op decode: how far its nearest known-wrong answer is from what a right implementation may
 * give. A case whose separation is too small cannot tell right from wrong, however many candidates pass it. */
#ifndef KVG_HARNESS_JUDGE_SEPARATION_H
#define KVG_HARNESS_JUDGE_SEPARATION_H

#include "harness/case/result.h"
#include "harness/judge/truth.h"

enum { KVG_SEPARATION_TEXT = 256 };

/* The status is that of the defect that could not be run. */
kvg_status kvg_separation_measure(const kvg_truth *truth, kvg_separation *out) KVG_CHECKED;

/* A distance at which the check says FAIL. */
bool kvg_separation_rejects(const kvg_separation *separation, double distance);

/* Some wrong answer reaches the case, and every one that does is rejected. */
bool kvg_separation_suffices(const kvg_separation *separation);

/* "3.2e+02, nearest sink_scaled" or "12 bits, nearest lse_base_2" or "no defect changes the answer". */
void kvg_separation_text(const kvg_separation *separation, char *out, size_t size);

#endif
