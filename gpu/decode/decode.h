/* Room decode: op decode for one or two query tokens of a CTA, and what all families of its kernels share.
 *
 *   decode_mma*                On tensor cores (docs/spec/decode-contract.md): a file per group of formats.
 *   decode_simt*               In plain f32 (docs/spec/simt-contract.md).
 *   decode_setup               What the host makes of a problem and its tensors.
 *   decode_plan                How rows and keys are cut into work.
 *   decode_pieces, decode_leaf What a CTA does: a leaf or more for each warp; a leaf for all of them.
 *   decode_range, decode_rows  Which keys a query sees.
 *   decode_node, decode_merge, decode_scalar     Nodes of the tree, exponentials, merges, the root.
 *
 * docs/dev/decode-kernels.md says how they work. This header names the families: two on tensor cores
 * and one in plain f32. */
#ifndef KVG_GPU_DECODE_DECODE_H
#define KVG_GPU_DECODE_DECODE_H

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

/* `few`: a CTA for each query token. `many`: bands of many rows (gpu/prefill/prefill_plan.h). Both
 * give the same bits. */
extern const kvg_decode_family kvg_decode_mma_few, kvg_decode_mma_many, kvg_decode_simt;

#ifdef __cplusplus
}
#endif
#endif
