/* The ops on a GPU, for engines. Tensors have their data on the device, in the order of the op's
 * roles (core/ops.def).
 *
 * Every function checks the problem on the host, queues its kernels on `stream` (NULL: the default
 * stream) and returns. It allocates nothing and reads nothing back, so a CUDA graph can capture it.
 * Rows of values, rows of bias and the RoPE table start at multiples of 16 bytes. Pools start
 * anywhere.
 *
 * The reference refuses an op for some contents of its tensors: a slot beyond the pool, a slot that
 * occurs twice, a position outside the table. The GPU does not check contents. For such contents it
 * promises only that no byte outside of the tensors is touched, so check them where you make them.
 *
 * KVG_ERR_UNIMPLEMENTED, with the reason: no kernel for the dialect, the geometry or the chip.
 * KVG_ERR_INVALID: the problem breaks its contract. KVG_ERR_IO, KVG_ERR_DEVICE,
 * KVG_ERR_DEVICE_LOST: CUDA failed, now or in work queued before (gpu/gpu.h). */
#ifndef KVG_GPU_OPS_H
#define KVG_GPU_OPS_H

#include "core/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Op append (docs/spec/layouts.md section 7), in every dialect of docs/spec/formats.md. Dialects of
 * engines with an approximate reciprocal give the bytes of the stand-in that section 1 of that page
 * defines. At most 2^26 - 1 rows (tokens times heads) per call. */
kvg_status kvg_gpu_append(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
    KVG_CHECKED;

/* Ops flatten and expand. At most 65535 heads and 32767 sequences. */
kvg_status kvg_gpu_flatten(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
    KVG_CHECKED;

kvg_status kvg_gpu_probe(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
    KVG_CHECKED;

/* Op decode (docs/spec/attention.md). The problem's profile fixes the bits. A chip's profile has
 * those of docs/spec/decode-contract.md on tensor cores, from sm_80 on. simt.fma.v1 has those of
 * docs/spec/simt-contract.md. NONE means the chip's profile if there is a kernel for it, else
 * simt.fma.v1. `workspace` is device memory at a multiple of 256, of as many bytes as
 * kvg_gpu_decode_workspace gives for the problem. Nothing else may use it until the work is done.
 *
 * The kernels for tensor cores take f16 and bf16 models; K and V of one format of section 2 of that
 * contract, or e4m3 and nvfp4; head_dim a multiple of 16 up to 320 (where a CTA has 99 KiB of shared
 * memory up to 128, 256, and in f16 and bf16 what is between); any number of query heads and
 * queries, windows, soft-cap and sinks; and any layout. Rows that K and V share (MLA) have head_dim 576
 * and v_dim 512, on sm_90 alone (docs/dev/prefill-kernels.md section 7). Pools must be at multiples of
 * 16 bytes, rows of codes too, or of 8 where a row is no multiple of 16, and rows of scales at multiples
 * of the largest power of two that divides their size. int8 and int4 work in the canonical dialect,
 * other formats in all dialects. A call with many query tokens per sequence, such as a prefill, has
 * kernels of its own with the same bits. A prefill may be cut into several calls. Plain f32 takes all
 * formats except MLX's.
 *
 * Size of the workspace. Tokens are cut into pieces of 256, 1024, 2048 or 4096, long ones if there are
 * many tokens. Some pieces are cut further into parts. The workspace holds 32 head_dim + 64 bytes
 * for each query, KV head, 8 query heads and piece, and the same again for each part. There are
 * fewer than twice as many parts as CTAs that are resident on the current GPU, which must be the
 * same in both calls. With many query tokens, or rows that K and V share, it holds the sums of up
 * to 192 query rows several times for each resident CTA, and once for each part: tens to hundreds of megabytes. A
 * larger problem does not always need more: for many shapes allocate the most that any of them
 * needs. */
kvg_status kvg_gpu_decode_workspace(const kvg_problem *problem, size_t *bytes) KVG_CHECKED;
kvg_status kvg_gpu_decode(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, void *workspace,
                          kvg_stream *stream) KVG_CHECKED;

/* KVG_OK if append (flatten, expand) has a kernel for the problem's dialects and head_dim, else
 * KVG_ERR_UNIMPLEMENTED. */
kvg_status kvg_gpu_check_rows(const kvg_problem *problem) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
