/* The ops on a GPU, for engines: tensors whose data lie on the device, in the order of the op's roles (core/ops.def).
 *
 * Every function checks the problem on the host, queues its kernels on `stream` (NULL: the default stream) and returns;
 * it allocates nothing and reads nothing back, so a CUDA graph can capture it. Rows of values and of bias and the table
 * of RoPE start at multiples of 16 bytes, pools anywhere. Where the reference refuses an op for what its tensors hold
 * (a slot beyond the pool, one that comes twice, a position outside the table), nothing is promised here but that no
 * byte outside of the tensors is touched: check such things where they are made.
 *
 * KVG_ERR_UNIMPLEMENTED: no kernel for the dialect, the geometry or the chip, with the reason; KVG_ERR_INVALID: the
 * problem is none; KVG_ERR_IO, KVG_ERR_DEVICE, KVG_ERR_DEVICE_LOST: CUDA failed, now or in work queued before
 * (gpu/gpu.h). */
#ifndef KVG_GPU_OPS_H
#define KVG_GPU_OPS_H

#include "core/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* docs/spec/layouts.md section 7, in every dialect of docs/spec/formats.md; those of engines with an approximate
 * reciprocal give the bytes of section 1's stand-in for it. At most 2^26 - 1 rows (tokens times heads) at once. */
kvg_status kvg_gpu_append(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
    KVG_CHECKED;

/* Ops flatten and expand. At most 65535 heads and 32767 sequences. */
kvg_status kvg_gpu_flatten(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
    KVG_CHECKED;

kvg_status kvg_gpu_probe(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
    KVG_CHECKED;

/* docs/spec/attention.md. The problem's profile says which bits: a chip's those of docs/spec/decode-contract.md on
 * tensor cores, from sm_80 on; simt.fma.v1 those of docs/spec/simt-contract.md. NONE: the first where it has a kernel,
 * else the second. `workspace`: as many bytes of device memory as kvg_gpu_decode_workspace says for the problem, at a
 * multiple of 256, of no other use until the work is done.
 *
 * On tensor cores: f16 and bf16 models; K and V of one format, or e4m3 and nvfp4; head_dim 64, 128 or 256; any number
 * of query heads and queries, windows, soft-cap and sinks; any layout but shared rows, with pools and rows of codes at
 * multiples of 16 bytes and rows of scales at multiples of their size; int8 and int4 in the canonical dialect, the rest
 * in all. A call with many query tokens for each sequence, a prefill for instance, has kernels of its own, and the same
 * bits. A prefill may be cut into several calls.
 *
 * The workspace holds 32 head_dim + 64 bytes for each query, KV head, 8 query heads and piece of 1024, 2048 or 4096
 * tokens, long ones where there are many, and for as many again as pieces are cut into more: less than twice the CTAs
 * that are resident on the GPU, the current one in both calls. With many query tokens it holds the sums of up to 192
 * query rows several times for each resident CTA, and once for each part of what is cut: tens to hundreds of megabytes.
 * It does not grow with each of a problem's numbers: for many shapes take the most that any of them needs. */
kvg_status kvg_gpu_decode_workspace(const kvg_problem *problem, size_t *bytes) KVG_CHECKED;
kvg_status kvg_gpu_decode(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, void *workspace,
                          kvg_stream *stream) KVG_CHECKED;

/* KVG_ERR_UNIMPLEMENTED unless append (flatten, expand) has a kernel for the problem's dialects and head_dim. */
kvg_status kvg_gpu_check_rows(const kvg_problem *problem) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
