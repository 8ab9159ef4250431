/* The verdict of one tensor of an answer file. Part of harness/pack/compare.c. */
#ifndef KVG_HARNESS_PACK_COMPARE_JUDGE_H
#define KVG_HARNESS_PACK_COMPARE_JUDGE_H

#include "harness/pack/compare.h"
#include "harness/pack/golden_case.h"

/* True if the case must be computed to judge it: it is a recipe, whose tensors are in no file, or
 * it is judged by the value rule. */
bool kvg_compare_needs_case(const kvg_pack_case *from);

/* True if a decoded case failed by its bits, not by its bounds. */
bool kvg_compare_by_bits(const kvg_compared_case *c, bool bits_wanted);

/* Judges `out`, one of the tensors of the case. `given` has all tensors in the order of the case's
 * answers, NULL for each that cannot be judged. `golden` is the case, if it was computed. Fills all
 * members of `out` except `where`. */
void kvg_compare_judge(const kvg_safetensors_entry *const *given, const kvg_compared_case *c,
                       const kvg_golden_case *golden, bool bits, kvg_compared_tensor *out);

#endif
