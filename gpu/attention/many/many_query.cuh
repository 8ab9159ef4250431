/* The rows of q that a warp multiplies, as operands in shared memory. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_QUERY_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_QUERY_CUH

#include "gpu/attention/many/many_order.cuh"
#include "gpu/attention/shared/score.cuh"

/* What lane c' has of sums `sum` and sum + 1 of a row: their pairs; 0 beyond the row. */
static __device__ __noinline__ uint4 many_gather_q(const many_args &a, uint32_t row, uint32_t sum, uint32_t c)
{
    uint32_t pairs[4] = {};
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t at = (sum + i / 2) * MANY_SUM + many_word(c, i % 2) * 2;
        if (row == MANY_NO_ROW || at >= a.out_dim) break;
        const uint16_t *const from = a.d.q + (size_t)row * a.out_dim;
        pairs[i] = from[many_dim_of<true>(a, at)] | (uint32_t)from[many_dim_of<true>(a, at + 1)] << 16;
    }
    return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

/* The lane's part of a row of q as operands: four words of eight elements, or as many as D has, in
 * the order of K's places; *factor is the row's. */
template <int DIM, bool BF16, bool PADDED>
static __device__ __forceinline__ void many_load_row(const many_args &a, uint32_t row, int lane, uint32_t *q,
                                                     float *factor)
{
    constexpr int WORDS = DIM / 32;
    const kvg_decode_args &d = a.d;
    const uint32_t c = lane % 4;
    /* Section 4: words of a segment's lane, 8 elements each; a last segment may have fewer. */
    const uint32_t widest = a.order == MANY_ORDER_16 ? 1 : a.order == MANY_ORDER_8 ? 2 : 4;
    uint4 v[WORDS];
#pragma unroll
    for (uint32_t j = 0; j < WORDS; j++) {
        if constexpr (PADDED) {
            v[j] = many_gather_q(a, row, j * 2, c);
            continue;
        }
        if (KVG_CONTRACT.neighbours && a.order == MANY_ORDER_16) { /* four elements of each of two sums */
            const uint2 *const four = (const uint2 *)(d.q + (size_t)row * DIM + j * 32 + c * 4);
            const bool is = row != MANY_NO_ROW;
            const uint2 low = is ? four[0] : make_uint2(0, 0), high = is ? four[4] : make_uint2(0, 0);
            v[j] = make_uint4(low.x, low.y, high.x, high.y);
            continue;
        }
        const uint32_t first = j / widest * widest, words = DIM % 128 ? min(widest, WORDS - first) : widest;
        const uint32_t element = first * 32 + c * (words * 8) + (j - first) * 8;
        v[j] = row == MANY_NO_ROW ? make_uint4(0, 0, 0, 0) : *(const uint4 *)(d.q + (size_t)row * DIM + element);
    }
    const int e = d.bf16 && !BF16 ? kvg_exponent_of_q<WORDS>(v) : 0;
#pragma unroll
    for (int j = 0; j < WORDS; j++) {
        uint32_t x[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[i] = kvg_convert_q<BF16>(d.bf16, (&v[j].x)[i], __int_as_float((127 - e) << 23));
        }
        uint32_t *to = q + 4 * j; /* of sums 2 j and 2 j + 1 the pairs 0 and 1 */
        if constexpr (PADDED) {
            to[0] = x[0], to[1] = x[1], to[2] = x[2], to[3] = x[3];
            continue;
        }
        const uint32_t even[2] = {__byte_perm(x[0], x[2], 0x5410), __byte_perm(x[1], x[3], 0x5410)};
        const uint32_t odd[2] = {__byte_perm(x[0], x[2], 0x7632), __byte_perm(x[1], x[3], 0x7632)};
        const bool four = a.order == MANY_ORDER_4, mixed = a.order == MANY_ORDER_4_INTERLEAVED;
        to[0] = four ? even[0] : x[0];                /* 0, 4; else 0, 1 */
        to[1] = four ? even[1] : mixed ? x[2] : x[1]; /* 2, 6; 4, 5; 2, 3 */
        to[2] = four ? odd[0] : mixed ? x[1] : x[2];  /* 1, 5; 2, 3; 4, 5 */
        to[3] = four ? odd[1] : x[3];                 /* 3, 7; else 6, 7 */
    }
    *factor = kvg_score_factor(d, d.k_scale ? *d.k_scale : 1.0f, e);
}

/* Rows g and g + 8 of the warp's 16 to their places, unless another warp does it: not `put`. */
template <int DIM, bool BF16, bool PADDED>
static __device__ __forceinline__ void many_put_q(const many_args &a, const uint32_t *rows, uint32_t warp,
                                                  int lane, bool put, uint32_t q, float *factor)
{
#pragma unroll
    for (int row = 0; row < 2; row++) {
        uint32_t part[DIM / 8]; /* of each sum its two pairs */
        many_load_row<DIM, BF16, PADDED>(a, rows[row], lane, part, factor + row);
#pragma unroll
        for (uint32_t pair = 0; pair < 2 && put; pair++) {
            const uint32_t word = many_word(lane % 4, pair);
            const uint32_t place = many_place(warp % 4 * 16 + row * 8 + lane / 4, word / 4) + word % 4 * 4;
#pragma unroll
            for (uint32_t s = 0; s < DIM / MANY_SUM; s++) { /* two chunks each */
                const uint32_t of_part = q + s / MANY_PART_SUMS * MANY_Q_PART_BYTES;
                kvg_store_shared<4>(of_part + (place ^ s % MANY_PART_SUMS * 32), part + 2 * s + pair);
            }
        }
    }
}

#endif
