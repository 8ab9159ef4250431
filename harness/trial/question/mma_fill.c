#include "harness/trial/question/mma_fill.h"

#include <string.h>

#include "harness/trial/question/mma_inputs.h"

enum { ORDINARY = 2 }; /* the first classes: no specials, no subnormals */

void kvg_mma_fill(const kvg_case *c, uint64_t seed, kvg_tensor_set *in)
{
    uint16_t *a = kvg_set_tensor(in, KVG_ROLE_MMA_A, KVG_K)->data, *b = kvg_set_tensor(in, KVG_ROLE_MMA_B, KVG_K)->data;
    float *addend = kvg_set_tensor(in, KVG_ROLE_MMA_C, KVG_K)->data;
    const size_t classes = c->fill == KVG_FILL_RANDOM ? ORDINARY : kvg_mma_class_count;
    for (size_t i = 0; i < c->problem.tokens && c->fill != KVG_FILL_ZERO; i++) {
        kvg_mma_tile_fill(&kvg_mma_classes[i % classes], c->problem.dtype, seed, i, a + i * KVG_TILE_A,
                          b + i * KVG_TILE_B, addend + i * KVG_TILE_C);
    }
    for (size_t i = 0; i < in->count && c->fill == KVG_FILL_ZERO; i++) {
        memset(in->tensors[i].data, 0, in->tensors[i].bytes);
    }
}
