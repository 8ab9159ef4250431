/* The queries of a warp as operands (docs/spec/decode-contract.md section 3). */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_QUERY_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_QUERY_CUH

#include "gpu/attention/few/few_shape.cuh"
#include "gpu/attention/shared/score.cuh"

/* What a lane reads of q: lane 4g + c has the dims of head g that it has of K's rows, in words of eight. K's scale. */
template <class K> struct kvg_query_words {
    static constexpr int WORDS = K::SEGMENTS * K::WORDS;
    uint4 v[WORDS];
    float k_scale;
};

template <class K>
static __device__ __forceinline__ void kvg_load_q(const kvg_decode_args &a, uint32_t query, uint32_t unit, int lane,
                                                  kvg_query_words<K> *to)
{
    constexpr int WORDS = kvg_query_words<K>::WORDS;
    const uint32_t g = lane / 4, c = lane % 4;
    const uint32_t kv_head = a.chunks.into(unit), in_group = a.chunks.rest(unit) * KVG_DECODE_HEADS + g;
#pragma unroll
    for (int j = 0; j < WORDS; j++) to->v[j] = make_uint4(0, 0, 0, 0);
    if (in_group < a.group) {
        const size_t row = (size_t)query * a.query_heads + kv_head * a.group + in_group;
        if constexpr (kvg_has_neighbours<K>) { /* of two sums the dims 2c, 2c + 1, 2c + 8 and 2c + 9 */
            const uint32_t *from = (const uint32_t *)(a.q + row * K::DIM) + c;
#pragma unroll
            for (int j = 0; j < WORDS; j++) {
                to->v[j] = make_uint4(from[16 * j], from[16 * j + 4], from[16 * j + 8], from[16 * j + 12]);
            }
        } else {
            const uint4 *from = (const uint4 *)(a.q + row * K::DIM + c * (K::SEGMENT / 4));
#pragma unroll
            for (int j = 0; j < WORDS; j++) to->v[j] = from[j / K::WORDS * (K::SEGMENT / 8) + j % K::WORDS];
        }
    }
    to->k_scale = a.k_scale ? *a.k_scale : 1;
}

/* q as operand b, dims by section 4. The score factors of heads 2c and 2c + 1. */
template <class K>
static __device__ __forceinline__ void kvg_convert_query(const kvg_decode_args &a, const kvg_query_words<K> &from,
                                                         int lane, uint32_t *q, float *factor)
{
    constexpr int WORDS = kvg_query_words<K>::WORDS;
    const uint4 *v = from.v;
    const uint32_t c = lane % 4;
    const int e = a.bf16 && !K::BF16 ? kvg_exponent_of_q<WORDS>(from.v) : 0;
#pragma unroll
    for (int j = 0; j < WORDS; j++) {
        uint32_t x[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[i] = kvg_convert_q<K::BF16>(a.bf16, (&v[j].x)[i], __int_as_float((127 - e) << 23));
        }
        uint32_t *to = q + 4 * j;
        if (K::FORMAT == KVG_FORMAT_INT4) { /* places 0 ... 7 are dims 0 2 4 6 1 3 5 7 */
            to[0] = x[0], to[1] = x[2], to[2] = x[1], to[3] = x[3];
        } else if (K::BITS == 4) {
            to[0] = __byte_perm(x[0], x[2], 0x5410), to[1] = __byte_perm(x[1], x[3], 0x5410); /* 0, 4; 2, 6 */
            to[2] = __byte_perm(x[0], x[2], 0x7632), to[3] = __byte_perm(x[1], x[3], 0x7632); /* 1, 5; 3, 7 */
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) to[i] = x[i];
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) factor[h] = kvg_score_factor(a, from.k_scale, __shfl_sync(~0u, e, (2 * c + h) * 4));
}

/* The rows of a warp before their first leaf. */
template <class K, int QUERIES>
static __device__ __forceinline__ void kvg_start_rows(const kvg_decode_args &a, kvg_warp_state<K> (&w)[QUERIES],
                                                      const kvg_query_words<K> (&q)[QUERIES], int lane)
{
    kvg_convert_query<K>(a, q[0], lane, w[0].q, w[0].factor);
    kvg_clear_leaf(w[0]);
#pragma unroll
    for (int i = 1; i < QUERIES; i++) {
        kvg_convert_query<K>(a, q[i], lane, w[i].q, w[i].factor);
        kvg_clear_leaf(w[i]);
    }
}

#endif
