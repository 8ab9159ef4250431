/* Inputs of op merge: two partial results. */
#ifndef KVG_HARNESS_TRIAL_QUESTION_MERGE_FILL_H
#define KVG_HARNESS_TRIAL_QUESTION_MERGE_FILL_H

#include "harness/case/case.h"
#include "support/tensor_set.h"

/* Fills the op's inputs. Rows take turns: of the first, the second or both parts no key was seen, the LSEs are equal,
 * or some way apart. What a part without keys holds is what the case says of memory that nobody owns. A row depends
 * only on the seed, the case and the row's index. */
void kvg_merge_fill(const kvg_case *c, uint64_t seed, kvg_tensor_set *in);

#endif
