/* Inputs of op mma: the classes of harness/trial/question/mma_inputs.h as the fills of configs. */
#ifndef KVG_HARNESS_TRIAL_QUESTION_MMA_FILL_H
#define KVG_HARNESS_TRIAL_QUESTION_MMA_FILL_H

#include "harness/case/case.h"
#include "support/tensor_set.h"

/* Fills the op's inputs. Fill random takes the classes of ordinary numbers, fill adversarial takes
 * all classes, tile by tile in turn. A tile depends only on the seed, the case and the tile's
 * index. */
void kvg_mma_fill(const kvg_case *c, uint64_t seed, kvg_tensor_set *in);

#endif
