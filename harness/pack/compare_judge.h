/* The verdict of one tensor of an answer file. Part of harness/pack/compare.c. */
#ifndef KVG_HARNESS_PACK_COMPARE_JUDGE_H
#define KVG_HARNESS_PACK_COMPARE_JUDGE_H

#include "harness/pack/compare.h"
#include "harness/pack/golden_case.h"

/* The case must be computed to judge it: a recipe, whose tensors are in no file, or one by the value rule. */
bool kvg_compare_needs_case(const kvg_pack_case *from);

/* Whether bits, not bounds, are what a decoded case failed by. */
bool kvg_compare_by_bits(const kvg_compared_case *c, bool bits_wanted);

/* Judges `out`, one of the tensors of the case. `given`: all of them, in the order of its answers, NULL where none is
 * fit to judge; `golden`: the case, where it is computed. Fills all but where. */
void kvg_compare_judge(const kvg_safetensors_entry *const *given, const kvg_compared_case *c,
                       const kvg_golden_case *golden, bool bits, kvg_compared_tensor *out);

#endif
