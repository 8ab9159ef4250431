/* The queries of a warp as operands (docs/decode-contract.md section 3). */
#ifndef KVG_GPU_DECODE_QUERY_CUH
#define KVG_GPU_DECODE_QUERY_CUH

#include "gpu/decode_args.cuh"

/* q as operand b, dims by section 4: lane 4g + c loads dims 32c ... 32c + 31 of head g. The score factors of heads 2c
 * and 2c + 1. */
static __device__ void kvg_load_q(const kvg_decode_args &a, uint32_t query, uint32_t kv_head, int lane, uint32_t *q,
                                  float *factor)
{
    const uint32_t g = lane / 4, c = lane % 4;
    uint4 v[4] = {};
    int e = 0;
    if (g < a.group) {
        const size_t row = (size_t)query * a.query_heads + kv_head * a.group + g;
        const uint4 *from = (const uint4 *)(a.q + row * KVG_DECODE_DIM + c * 32);
#pragma unroll
        for (int j = 0; j < 4; j++) v[j] = from[j];
    }
    if (a.bf16) {
        uint32_t amax = 0; /* as codes: NaN is above Inf, Inf above the rest */
#pragma unroll
        for (int j = 0; j < 16; j++) {
            const uint32_t pair = (&v[j / 4].x)[j % 4];
            amax = max(amax, max(pair & 0x7FFF, pair >> 16 & 0x7FFF));
        }
        amax = max(amax, __shfl_xor_sync(~0u, amax, 1));
        amax = max(amax, __shfl_xor_sync(~0u, amax, 2));
        const int field = amax >> 7;
        e = field == 0 || field == 255 ? 0 : min(field - 127, 126);
        const float unit = __int_as_float((127 - e) << 23);
#pragma unroll
        for (int j = 0; j < 16; j++) {
            uint32_t *pair = &v[j / 4].x + j % 4;
            *pair = kvg_bits2(__floats2half2_rn(__fmul_rn(__uint_as_float(*pair << 16), unit),
                                                __fmul_rn(__uint_as_float(*pair & 0xFFFF0000u), unit)));
        }
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        q[4 * j] = __byte_perm(v[j].x, v[j].z, 0x5410); /* the even dims of 8: 0, 4; 2, 6 */
        q[4 * j + 1] = __byte_perm(v[j].y, v[j].w, 0x5410);
        q[4 * j + 2] = __byte_perm(v[j].x, v[j].z, 0x7632); /* the odd ones */
        q[4 * j + 3] = __byte_perm(v[j].y, v[j].w, 0x7632);
    }
    const float score = __fmul_rn(__fmul_rn(a.score_scale, *a.k_scale), 0x1p14f);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        factor[h] = __fmul_rn(score, __int_as_float((127 + __shfl_sync(~0u, e, (2 * c + h) * 4)) << 23));
    }
}

#endif
