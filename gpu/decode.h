/* The two families of kernels behind op decode: tensor cores (docs/spec/decode-contract.md) and plain f32
 * (docs/spec/simt-contract.md). Functions as in gpu/ops.h, for a problem that kvg_problem_check has passed. */
#ifndef KVG_GPU_DECODE_H
#define KVG_GPU_DECODE_H

#include "core/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvg_decode_family {
    kvg_status (*workspace)(const kvg_problem *problem, size_t *bytes);
    kvg_status (*run)(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, void *workspace,
                      kvg_stream *stream);
} kvg_decode_family;

extern const kvg_decode_family kvg_decode_mma, kvg_decode_simt;

/* The two kinds of kernels behind kvg_decode_mma, which takes the faster one: a CTA for each query token, and bands of
 * many rows (gpu/prefill_plan.h). The bits are the same: for tests. */
extern const kvg_decode_family kvg_decode_mma_few, kvg_decode_mma_many;

#ifdef __cplusplus
}
#endif
#endif
