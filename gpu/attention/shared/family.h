/* Room attention/shared: what the families of kernels of op decode share.
 *
 *   contract, small_chip       What differs between chips: the contract, and shared memory.
 *   scalar, node               Exponentials, divisions, nodes of the tree and their merges.
 *   range, decode_rows         Which keys a query sees.
 *
 * What both families on tensor cores share (docs/spec/decode-contract.md):
 *
 *   setup                      What the host makes of a problem and its tensors.
 *   decode_args                What it tells the kernels.
 *   side, operand, unpack      Formats, the matrix instruction, stored codes to its operands.
 *   copy                       Copies from the cache to shared memory.
 *   score                      From a row of q to its scores.
 *
 * This header names the families: two on tensor cores and one in plain f32. */
#ifndef KVG_GPU_ATTENTION_SHARED_FAMILY_H
#define KVG_GPU_ATTENTION_SHARED_FAMILY_H

#include "core/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Functions as in gpu/ops.h. KVG_ERR_UNIMPLEMENTED, with the reason, of a problem that a family does
 * not answer. */
typedef struct kvg_decode_family {
    kvg_status (*workspace)(const kvg_problem *problem, size_t *bytes);
    kvg_status (*run)(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, void *workspace,
                      kvg_stream *stream);
} kvg_decode_family;

/* `few`: a CTA for each query token, or for two. `many`: bands of many rows. Both give the same bits. */
extern const kvg_decode_family kvg_decode_mma_few, kvg_decode_mma_many, kvg_decode_simt;

#ifdef __cplusplus
}
#endif
#endif
