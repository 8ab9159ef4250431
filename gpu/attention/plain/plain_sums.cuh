/* Weights and sums of a leaf (docs/spec/simt-contract.md section 3). */
#ifndef KVG_GPU_ATTENTION_PLAIN_PLAIN_SUMS_CUH
#define KVG_GPU_ATTENTION_PLAIN_PLAIN_SUMS_CUH

#include "gpu/attention/plain/plain_args.cuh"

/* Scores to weights and rescaling factors (section 3, without V); m and l of head lane mod 8. Positions that are not
 * seen have the score -Inf, so the weight +0. */
static __device__ __forceinline__ void kvg_simt_weights(kvg_simt_shared &s, int lane, float *m_out, float *l_out)
{
    constexpr int STEPS = KVG_SIMT_TILE * KVG_SIMT_HEADS / KVG_SIMT_WARP;
    const int head = lane % KVG_SIMT_HEADS;
    float m = KVG_EMPTY, l = 0;
#pragma unroll 1
    for (int tile = 0; tile < KVG_SIMT_TILES; tile++) {
        if (s.seen[tile] == 0) continue;
        float *p = s.p[tile * KVG_SIMT_TILE], z[STEPS], top = -KVG_INF;
#pragma unroll
        for (int i = 0; i < STEPS; i++) {
            z[i] = p[i * KVG_SIMT_WARP + lane];
            top = kvg_max_or_nan(top, z[i]);
        }
        for (int other = KVG_SIMT_HEADS; other < KVG_SIMT_WARP; other *= 2) {
            top = kvg_max_or_nan(top, __shfl_xor_sync(~0u, top, other));
        }
        float w = 1;
        if (!(__fsub_rn(top, m) <= 8.0f)) {
            w = top < KVG_INF ? kvg_exp2(__fsub_rn(m, top)) : KVG_NAN;
            m = top;
        }
        if (lane < KVG_SIMT_HEADS) s.rescale[tile][head] = w;
#pragma unroll
        for (int i = 0; i < STEPS; i++) p[i * KVG_SIMT_WARP + lane] = kvg_exp2(__fsub_rn(z[i], m));
        __syncwarp();
        l = __fmul_rn(l, w);
#pragma unroll 8
        for (int i = 0; i < KVG_SIMT_TILE; i++) l = __fadd_rn(l, p[i * KVG_SIMT_HEADS + head]);
    }
    *m_out = m, *l_out = l;
}

/* Rows of V that a lane loads at once: its four elements and their scale. */
template <kvg_format V> struct kvg_simt_batch {
    uint2 codes[KVG_SIMT_AHEAD];
    uint32_t bytes[KVG_SIMT_AHEAD];

    __device__ void load(const kvg_simt_args &a, const kvg_simt_shared &s, int first, uint32_t element,
                         uint64_t scale_at)
    {
#pragma unroll
        for (int j = 0; j < KVG_SIMT_AHEAD; j++) {
            const ulonglong2 at = s.v[first + j];
            codes[j] = kvg_simt_quad<V>(a.codes[1], (const uint8_t *)at.x, element, a.dim,
                                        a.dialect[1].affine == KVG_AFFINE_PYTORCH);
            if (kvg_simt_numbers<V>::SCALED) bytes[j] = *((const uint8_t *)at.y + scale_at);
        }
    }
};

/* The sums of V for four elements of a row, all heads; quad 0 has the first element that is wanted. Positions from
 * `begin` to `end`, both multiples of AHEAD, have their rows in s.v. */
template <kvg_format V>
static __device__ __forceinline__ void kvg_simt_sums(const kvg_simt_args &a, const kvg_simt_shared &s, int begin,
                                                     int end, uint32_t quad, float (*o)[4])
{
    typedef kvg_simt_numbers<V> v;
    constexpr int H = KVG_SIMT_HEADS, N = KVG_SIMT_AHEAD;
    const bool bf16 = a.dtype == KVG_DTYPE_BF16;
    const uint32_t element = a.v_first / 4 * 4 + 4 * quad, block = element / v::BLOCK, group = a.scales[1].group;
    const uint64_t scale_at = group ? block / group * a.scales[1].token + block % group * 4 : block;
    kvg_simt_batch<V> next;
    next.load(a, s, begin, element, scale_at);
#pragma unroll 1
    for (int first = begin; first < end; first += N) {
        const int tile = first / KVG_SIMT_TILE;
        const uint32_t seen = s.seen[tile];
        const kvg_simt_batch<V> now = next;
        if (first + N < end) next.load(a, s, first + N, element, scale_at);
        if (seen == 0) continue;
        if (first == begin || first % KVG_SIMT_TILE == 0) {
#pragma unroll
            for (int h = 0; h < H; h++) {
                const float w = s.rescale[tile][h];
#pragma unroll
                for (int i = 0; i < 4; i++) o[h][i] = __fmul_rn(o[h][i], w);
            }
        }
#pragma unroll
        for (int j = 0; j < N; j++) {
            float x[4];
            float2 scale = make_float2(1, 0);
            if (v::SCALED) scale.x = kvg_simt_block_scale<V>(now.bytes[j]);
            if (v::PARAMS) scale = *(const float2 *)&s.v[first + j].y;
            uint2 codes = now.codes[j];
            if (V == KVG_FORMAT_INT4 && a.codes[1].unit) codes.x = kvg_simt_interleaved(codes.x, element / 4 % 2);
            kvg_simt_values<V>(codes, scale, a.dialect[1], bf16, x);
            if (!(seen >> (first + j) % KVG_SIMT_TILE & 1)) x[0] = x[1] = x[2] = x[3] = 0;
#pragma unroll
            for (int h = 0; h < H; h += 4) {
                const float4 four = *(const float4 *)&s.p[first + j][h];
                const float p[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                for (int i = 0; i < 16; i++) o[h + i / 4][i % 4] = fmaf(p[i / 4], x[i % 4], o[h + i / 4][i % 4]);
            }
        }
    }
}

#endif
