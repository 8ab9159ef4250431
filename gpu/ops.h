/* The ops on a GPU, for engines: tensors whose data lie on the device, in the order of the op's roles (core/ops.def).
 *
 * Every function checks the problem on the host, queues its kernels on `stream` (NULL: the default stream) and returns;
 * it allocates nothing and reads nothing back, so a CUDA graph can capture it. Rows of values start at multiples of 16
 * bytes, pools anywhere. Where the reference refuses an op for what its tensors hold (a slot beyond the pool, one that
 * comes twice, a position outside the table), nothing is promised here but that no byte outside of the tensors is
 * touched: check such things where they are made.
 *
 * KVG_ERR_UNIMPLEMENTED: no kernel for the dialect, the geometry or the chip, with the reason; KVG_ERR_INVALID: the
 * problem is none; KVG_ERR_IO: CUDA failed, now or in work queued before. */
#ifndef KVG_GPU_OPS_H
#define KVG_GPU_OPS_H

#include "core/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* docs/layouts.md section 7. Storage in the canonical dialect. */
kvg_status kvg_gpu_append(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
    KVG_CHECKED;

/* Ops flatten and expand. */
kvg_status kvg_gpu_flatten(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
    KVG_CHECKED;

kvg_status kvg_gpu_probe(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
    KVG_CHECKED;

/* docs/attention.md, bit for bit docs/decode-contract.md on the chip it runs on (sm_90 and later). `workspace`: as many
 * bytes of device memory as kvg_gpu_decode_workspace says for the problem, at a multiple of 256, of no other use until
 * the work is done. nvfp4 with head_dim 128, f16 or bf16, up to 8 query heads per KV head, pages of 16, 32, 64 or 128
 * tokens with a head's rows one after the other; no window, no softcap. */
kvg_status kvg_gpu_decode_workspace(const kvg_problem *problem, size_t *bytes) KVG_CHECKED;
kvg_status kvg_gpu_decode(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, void *workspace,
                          kvg_stream *stream) KVG_CHECKED;

/* KVG_ERR_UNIMPLEMENTED unless append (flatten, expand) has a kernel for the problem's dialects and head_dim. */
kvg_status kvg_gpu_check_rows(const kvg_problem *problem) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
