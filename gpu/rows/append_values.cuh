/* The values that append stores, before they are encoded: new rows plus bias, K turned by RoPE (docs/spec/layouts.md
 * section 7, steps 1 and 2), eight elements at a time. */
#ifndef KVG_GPU_ROWS_APPEND_VALUES_CUH
#define KVG_GPU_ROWS_APPEND_VALUES_CUH

#include "gpu/numbers/convert.cuh"

enum { KVG_APPEND_OCTET = 8 };

struct kvg_append_values {
    const void *rows, *bias; /* [tokens, heads, dim], [heads, dim] in T; bias may be null */
    const float *cos_sin;    /* [positions, rope_dims / 2, 2]; null: no RoPE */
    const int32_t *positions;
    uint32_t dim, rope_dims, table_rows;
    bool halves;             /* pairs (i, i + R / 2), else (2i, 2i + 1) */
    bool whole_octets;       /* no octet, nor the octet of its partners, is turned in part */
};

/* The row of the table for a token. A position outside of it is refused by contract: its row could lie anywhere. */
__device__ __forceinline__ const float *kvg_turns_of(const kvg_append_values &v, uint32_t token)
{
    if (!v.cos_sin) return nullptr;
    const uint32_t position = (uint32_t)v.positions[token];
    return v.cos_sin + (size_t)(position < v.table_rows ? position : 0) * v.rope_dims;
}

/* 32 bytes of f32 or 16 of another type as words, from a multiple of 16 bytes on. */
template <kvg_dtype T>
__device__ __forceinline__ void kvg_octet_words(const void *tensor, size_t element, uint32_t *words)
{
    const uint4 *from = (const uint4 *)((const typename kvg_scalar<T>::bits *)tensor + element);
#pragma unroll
    for (int i = 0; i < (T == KVG_DTYPE_F32 ? 2 : 1); i++) {
        const uint4 v = from[i];
        words[4 * i] = v.x, words[4 * i + 1] = v.y, words[4 * i + 2] = v.z, words[4 * i + 3] = v.w;
    }
}
template <kvg_dtype T> __device__ __forceinline__ void kvg_octet_floats(const uint32_t *words, float *f)
{
#pragma unroll
    for (int i = 0; i < KVG_APPEND_OCTET; i += 2) {
        if constexpr (T == KVG_DTYPE_F32) {
            f[i] = __uint_as_float(words[i]), f[i + 1] = __uint_as_float(words[i + 1]);
        } else {
            const float2 two = kvg_scalar<T>::widen2(words[i / 2]);
            f[i] = two.x, f[i + 1] = two.y;
        }
    }
}

/* Eight elements of row token * heads + head as the tensor has them. */
template <kvg_dtype T>
__device__ __forceinline__ void kvg_append_raw(const kvg_append_values &v, uint32_t row, uint32_t first,
                                               uint32_t *words)
{
    kvg_octet_words<T>(v.rows, (size_t)row * v.dim + first, words);
}

/* u = RN_T(x + b) in place. */
template <kvg_dtype T>
__device__ __forceinline__ void kvg_append_bias(const kvg_append_values &v, uint32_t head, uint32_t first,
                                                uint32_t *words)
{
    uint32_t bias[8];
    float x[KVG_APPEND_OCTET], b[KVG_APPEND_OCTET];
    kvg_octet_words<T>(v.bias, (size_t)head * v.dim + first, bias);
    kvg_octet_floats<T>(words, x);
    kvg_octet_floats<T>(bias, b);
#pragma unroll
    for (int i = 0; i < KVG_APPEND_OCTET; i++) x[i] = __fadd_rn(x[i], b[i]);
    kvg_narrow<T>(x, words);
}

/* Both numbers of a pair times cos and sin: `first` is the pair's first element. */
__device__ __forceinline__ float kvg_turned(bool first, float own, float other, float c, float s)
{
    const float along = __fmul_rn(own, c), across = __fmul_rn(other, s);
    return first ? __fsub_rn(along, across) : __fadd_rn(along, across);
}

/* One element, biased, in T, whatever its neighbours do. */
template <kvg_dtype T>
__device__ __forceinline__ typename kvg_scalar<T>::bits kvg_turned_alone(const kvg_append_values &v, const float *turns,
                                                                     size_t row, size_t bias_row, uint32_t element)
{
    typedef kvg_scalar<T> scalar;
    typedef const typename scalar::bits *bits;
    const uint32_t half = v.rope_dims / 2, pair = v.halves ? element % half : element / 2;
    const bool is_first = v.halves ? element < half : element % 2 == 0;
    const uint32_t partner = v.halves ? (is_first ? element + half : element - half) : element ^ 1;
    float own = scalar::widen(((bits)v.rows)[row + element]), other = scalar::widen(((bits)v.rows)[row + partner]);
    if (v.bias) {
        own = scalar::widen(scalar::round(__fadd_rn(own, scalar::widen(((bits)v.bias)[bias_row + element]))));
        other = scalar::widen(scalar::round(__fadd_rn(other, scalar::widen(((bits)v.bias)[bias_row + partner]))));
    }
    return scalar::round(kvg_turned(is_first, own, other, turns[2 * pair], turns[2 * pair + 1]));
}

/* An octet that turns in part, or whose partners lie across two: one by one, its words a shift register. */
template <kvg_dtype T>
__device__ __forceinline__ void kvg_turn_each(const kvg_append_values &v, const float *turns, uint32_t row,
                                              uint32_t head, uint32_t first, uint32_t *words)
{
    typedef typename kvg_scalar<T>::bits bits;
    enum { LAST = KVG_APPEND_OCTET * sizeof(bits) / 4 - 1 };
    const size_t own_row = (size_t)row * v.dim, bias_row = (size_t)head * v.dim;
#pragma unroll 1
    for (uint32_t element = first; element < first + KVG_APPEND_OCTET; element++) {
        uint32_t next = (bits)words[0];
        if (element < v.rope_dims) next = kvg_turned_alone<T>(v, turns, own_row, bias_row, element);
#pragma unroll
        for (int k = 0; k < LAST; k++) {
            words[k] = sizeof(bits) == 4 ? words[k + 1] : __funnelshift_r(words[k], words[k + 1], 16);
        }
        words[LAST] = sizeof(bits) == 4 ? next : words[LAST] >> 16 | next << 16;
    }
}

/* An octet of whole pairs. */
template <kvg_dtype T>
__device__ __forceinline__ void kvg_turn(const kvg_append_values &v, const float *turns, uint32_t row, uint32_t head,
                                         uint32_t first, uint32_t *words)
{
    float own[KVG_APPEND_OCTET], turned[KVG_APPEND_OCTET];
    kvg_octet_floats<T>(words, own);
    if (v.halves) {
        const bool is_first = first < v.rope_dims / 2;
        const uint32_t partner_first = is_first ? first + v.rope_dims / 2 : first - v.rope_dims / 2;
        const float4 *turn = (const float4 *)(turns + 2 * (is_first ? first : partner_first));
        uint32_t partner[8];
        float other[KVG_APPEND_OCTET];
        kvg_append_raw<T>(v, row, partner_first, partner);
        if (v.bias) kvg_append_bias<T>(v, head, partner_first, partner);
        kvg_octet_floats<T>(partner, other);
#pragma unroll
        for (int i = 0; i < KVG_APPEND_OCTET; i += 2) {
            const float4 t = turn[i / 2];
            turned[i] = kvg_turned(is_first, own[i], other[i], t.x, t.y);
            turned[i + 1] = kvg_turned(is_first, own[i + 1], other[i + 1], t.z, t.w);
        }
    } else {
        const float4 *turn = (const float4 *)(turns + first);
#pragma unroll
        for (int i = 0; i < KVG_APPEND_OCTET; i += 2) {
            const float4 two = turn[i / 4];
            const float c = i % 4 ? two.z : two.x, s = i % 4 ? two.w : two.y;
            turned[i] = kvg_turned(true, own[i], own[i + 1], c, s);
            turned[i + 1] = kvg_turned(false, own[i + 1], own[i], c, s);
        }
    }
    kvg_narrow<T>(turned, words);
}

/* An octet and its partners, half the turned elements on; `turns` is the octet's. */
template <kvg_dtype T> __device__ __forceinline__ void kvg_turn_partners(const float *turns, uint32_t *words)
{
    enum { WORDS = KVG_APPEND_OCTET * sizeof(typename kvg_scalar<T>::bits) / 4 };
    const float4 *turn = (const float4 *)turns;
    float a[KVG_APPEND_OCTET], b[KVG_APPEND_OCTET];
    kvg_octet_floats<T>(words, a);
    kvg_octet_floats<T>(words + WORDS, b);
#pragma unroll
    for (int i = 0; i < KVG_APPEND_OCTET; i++) {
        const float4 two = __ldg(turn + i / 2);
        const float c = i % 2 ? two.z : two.x, s = i % 2 ? two.w : two.y, own = a[i];
        a[i] = kvg_turned(true, own, b[i], c, s);
        b[i] = kvg_turned(false, b[i], own, c, s);
    }
    kvg_narrow<T>(a, words);
    kvg_narrow<T>(b, words + WORDS);
}

/* Step 2 on eight elements from `first` on. */
template <kvg_dtype T>
__device__ __forceinline__ void kvg_turn_octet(const kvg_append_values &v, const float *turns, uint32_t row,
                                               uint32_t head, uint32_t first, uint32_t *words)
{
    if (first >= v.rope_dims) return;
    if (v.whole_octets) kvg_turn<T>(v, turns, row, head, first, words);
    else kvg_turn_each<T>(v, turns, row, head, first, words);
}

#endif
