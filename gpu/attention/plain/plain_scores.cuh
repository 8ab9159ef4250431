/* Scores of a leaf, a lane per position (docs/spec/simt-contract.md section 2). */
#ifndef KVG_GPU_ATTENTION_PLAIN_PLAIN_SCORES_CUH
#define KVG_GPU_ATTENTION_PLAIN_PLAIN_SCORES_CUH

#include "gpu/attention/plain/plain_args.cuh"

/* Section 5 of docs/spec/decode-contract.md: c, and with a cap c'. */
struct kvg_simt_score {
    float factor, capped, cap;

    __device__ explicit kvg_simt_score(const kvg_simt_args &a)
    {
        factor = __fmul_rn(a.score_scale, a.k_scale ? *a.k_scale : 1);
        capped = __fdiv_rn(__fmul_rn(2, factor), a.softcap);
        cap = __fmul_rn(a.softcap, 0x1.715476p+0f);
    }
    __device__ float z(float s, bool softcap) const
    {
        if (!softcap) return __fmul_rn(s, factor);
        const float u = __fmul_rn(s, capped), t = kvg_exp2(-fabsf(u));
        const float tanh = __fdiv_rn(__fsub_rn(1, t), __fadd_rn(1, t));
        return u == u ? copysignf(__fmul_rn(tanh, cap), s) : KVG_NAN;
    }
};

struct kvg_simt_place {
    uint32_t block, offset; /* 0, 0 where the row sees nothing: a row of the pool is there, whatever it holds */
    bool seen;
};

static __device__ __forceinline__ kvg_simt_place kvg_simt_find(const kvg_simt_args &a, const int4 &row, int position)
{
    if (position < row.y || position >= row.z) return {0, 0, false};
    const uint32_t page = position / a.block_tokens;
    const int32_t entry = a.table[(uint64_t)row.x * a.width + (a.one_block ? 0 : page)];
    if (entry < 0 || (uint32_t)entry >= a.blocks) return {0, 0, false};
    return {(uint32_t)entry, position - page * a.block_tokens, true};
}

/* Where V's codes are, and its scales; or what the row's parameters are. */
template <kvg_format V>
static __device__ __forceinline__ ulonglong2 kvg_simt_v_row(const kvg_simt_args &a, const kvg_simt_place &at,
                                                            uint32_t kv_head)
{
    const uint32_t in_group = a.scales[1].group ? at.offset % 4 : 0; /* docs/spec/layouts.md section 4 */
    const uint8_t *scales = kvg_simt_row(a.scales[1], at.block, kv_head, at.offset - in_group) + in_group;
    uint64_t extra = (uint64_t)scales;
    if (kvg_simt_numbers<V>::PARAMS) {
        const float2 params = kvg_simt_params<V>(scales, a.dtype == KVG_DTYPE_BF16);
        extra = (uint64_t)__float_as_uint(params.y) << 32 | __float_as_uint(params.x);
    }
    return make_ulonglong2((uint64_t)kvg_simt_row(a.codes[1], at.block, kv_head, at.offset), extra);
}

/* 16 bytes of a row of K, with their block scales: taken off the front four by four. */
template <kvg_format K> struct kvg_simt_part {
    typedef kvg_simt_numbers<K> k;
    enum { ELEMENTS = 128 / k::BITS };
    uint4 codes;
    uint32_t bytes;

    __device__ void load(const kvg_simt_args &a, const uint8_t *row, const uint8_t *scales, uint32_t first)
    {
        codes = kvg_simt_chunk<K>(a.codes[0], row, first, a.dim, a.dialect[0].affine == KVG_AFFINE_PYTORCH);
        if (k::SCALED) bytes = scales[first / k::BLOCK];
        if (k::BLOCK < ELEMENTS && first + k::BLOCK < a.dim) {
            bytes |= (uint32_t)scales[first / k::BLOCK + 1] << 8;
        }
    }
    __device__ float next_scale()
    {
        const uint32_t byte = bytes & 0xFF;
        bytes >>= 8;
        return kvg_simt_block_scale<K>(byte);
    }
    __device__ uint2 next_four()
    {
        const uint2 four = make_uint2(codes.x, codes.y);
        if (k::BITS == 16) codes = make_uint4(codes.z, codes.w, 0, 0);
        if (k::BITS == 8) codes = make_uint4(codes.y, codes.z, codes.w, 0);
        if (k::BITS == 4) {
            codes = make_uint4(__funnelshift_r(codes.x, codes.y, 16), __funnelshift_r(codes.y, codes.z, 16),
                               __funnelshift_r(codes.z, codes.w, 16), codes.w >> 16);
        }
        return four;
    }
};

/* Scores of TOGETHER tiles from position `first` on. */
template <kvg_format K, kvg_format V>
static __device__ __forceinline__ void kvg_simt_scores(const kvg_simt_args &a, kvg_simt_shared &to, const int4 &row,
                                                       int leaf, int first, uint32_t kv_head, int lane)
{
    typedef kvg_simt_numbers<K> k;
    constexpr int N = KVG_SIMT_TOGETHER, H = KVG_SIMT_HEADS, ELEMENTS = kvg_simt_part<K>::ELEMENTS;
    constexpr bool AHEAD = k::BITS == 16; /* others have work enough between two loads, and too few registers */
    const bool bf16 = a.dtype == KVG_DTYPE_BF16;
    const uint8_t *codes[N], *scales[N];
    float2 scale[N];
    bool seen[N];
#pragma unroll
    for (int j = 0; j < N; j++) {
        const int at = first + j * KVG_SIMT_TILE + lane;
        const kvg_simt_place place = kvg_simt_find(a, row, leaf * KVG_SIMT_LEAF + at);
        const uint8_t *extra = kvg_simt_row(a.scales[0], place.block, kv_head, place.offset);
        codes[j] = kvg_simt_row(a.codes[0], place.block, kv_head, place.offset);
        scales[j] = extra;
        scale[j] = kvg_simt_params<K>(extra, bf16);
        seen[j] = place.seen;
        to.v[at] = kvg_simt_v_row<V>(a, place, kv_head);
        const uint32_t all = __ballot_sync(~0u, seen[j]);
        if (lane == 0) to.seen[first / KVG_SIMT_TILE + j] = all;
    }
    float s[N][H] = {};
    const uint32_t stride = kvg_simt_stride(a.dim);
    kvg_simt_part<K> now[N], next[N];
#pragma unroll
    for (int j = 0; j < N && AHEAD; j++) next[j].load(a, codes[j], scales[j], 0);
#pragma unroll 1
    for (uint32_t d = 0; d < a.dim; d += ELEMENTS) {
#pragma unroll
        for (int j = 0; j < N; j++) {
            if (!AHEAD) now[j].load(a, codes[j], scales[j], d);
            else now[j] = next[j];
            if (AHEAD && d + ELEMENTS < a.dim) next[j].load(a, codes[j], scales[j], d + ELEMENTS);
        }
#pragma unroll 1
        for (uint32_t at = d; at < min(d + ELEMENTS, a.dim); at += 8) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float x[N][4];
#pragma unroll
                for (int j = 0; j < N; j++) {
                    if (k::SCALED && i == 0 && at % k::BLOCK == 0) scale[j].x = now[j].next_scale();
                    kvg_simt_values<K>(now[j].next_four(), scale[j], a.dialect[0], bf16, x[j]);
                }
                if (at + 4 * i + 4 > a.dim) { /* beyond the row */
#pragma unroll
                    for (int e = 0; e < 4 * N; e++) {
                        if (at + 4 * i + e % 4 >= a.dim) x[e / 4][e % 4] = 0;
                    }
                }
                if (i && at + 4 >= a.dim) break;
#pragma unroll
                for (int h = 0; h < H; h++) {
                    const float4 q = *(const float4 *)(to.q() + h * stride + at + 4 * i);
#pragma unroll
                    for (int j = 0; j < N; j++) {
                        s[j][h] = fmaf(q.x, x[j][0], s[j][h]);
                        s[j][h] = fmaf(q.y, x[j][1], s[j][h]);
                        s[j][h] = fmaf(q.z, x[j][2], s[j][h]);
                        s[j][h] = fmaf(q.w, x[j][3], s[j][h]);
                    }
                }
            }
        }
    }
    const kvg_simt_score score(a);
#pragma unroll
    for (int j = 0; j < N; j++) {
#pragma unroll
        for (int h = 0; h < H; h++) {
            to.p[first + j * KVG_SIMT_TILE + lane][h] = seen[j] ? score.z(s[j][h], a.softcap != 0) : -KVG_INF;
        }
    }
}

#endif
