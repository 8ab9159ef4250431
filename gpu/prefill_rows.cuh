/* The warps that multiply: a group of four has 64 rows of a band, a warp 16 of them (docs/decode-contract.md sections 3
 * to 7). They take the stages that the fillers fill. */
#ifndef KVG_GPU_PREFILL_ROWS_CUH
#define KVG_GPU_PREFILL_ROWS_CUH

#include "gpu/decode_query.cuh"
#include "gpu/decode_scores.cuh"
#include "gpu/prefill_multiply.cuh"
#include "gpu/prefill_tree.cuh"

/* What a lane knows of rows g and g + 8. */
template <int DIM> struct prefill_state {
    prefill_node<DIM> node;
    float l[4];              /* the sums of weights, as the matrix instruction leaves them: row g twice, row g + 8 twice */
    float factor[2];         /* of section 3, or with a cap of section 5 */
    uint32_t low[2], high[2]; /* keys that the rows see; all, where there is no row */
    uint32_t all_from, all_to; /* keys that all rows of the warp see */
};

/* --- q --- */

/* The lane's part of a row of q as operands: four words of eight elements, or as many as D has, in the order of K's
 * places; *factor is the row's. */
template <int DIM, bool BF16>
static __device__ __forceinline__ void prefill_load_row(const prefill_args &a, uint32_t row, int lane, uint32_t *q,
                                                        float *factor)
{
    constexpr int WORDS = DIM / 32;
    const kvg_decode_args &d = a.d;
    const uint32_t c = lane % 4;
    /* Section 4: words of a segment's lane, 8 elements each. */
    const uint32_t words = a.order == PREFILL_ORDER_16 ? 1 : a.order == PREFILL_ORDER_8 ? 2 : DIM < 128 ? DIM / 32 : 4;
    uint4 v[WORDS];
#pragma unroll
    for (uint32_t j = 0; j < WORDS; j++) {
        const uint32_t element = j / words * (words * 32) + c * (words * 8) + j % words * 8;
        v[j] = row == PREFILL_NO_ROW ? make_uint4(0, 0, 0, 0)
                                     : *(const uint4 *)(d.q + (size_t)row * DIM + element);
    }
    int e = 0;
    if (d.bf16 && !BF16) {
        uint32_t amax = 0; /* as codes: NaN is above Inf, Inf above the rest */
#pragma unroll
        for (int j = 0; j < 4 * WORDS; j++) {
            const uint32_t pair = (&v[j / 4].x)[j % 4];
            amax = max(amax, max(pair & 0x7FFF, pair >> 16 & 0x7FFF));
        }
        amax = max(amax, __shfl_xor_sync(~0u, amax, 1));
        amax = max(amax, __shfl_xor_sync(~0u, amax, 2));
        const int field = amax >> 7;
        e = field == 0 || field == 255 ? 0 : min(field - 127, 126);
    }
#pragma unroll
    for (int j = 0; j < WORDS; j++) {
        uint32_t x[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[i] = kvg_convert_q<BF16>(d.bf16, (&v[j].x)[i], __int_as_float((127 - e) << 23));
        }
        uint32_t *to = q + 4 * j; /* sums 2 j and 2 j + 1, places 2 c, 2 c + 1 and 2 c + 8, 2 c + 9 */
        const uint32_t even[2] = {__byte_perm(x[0], x[2], 0x5410), __byte_perm(x[1], x[3], 0x5410)};
        const uint32_t odd[2] = {__byte_perm(x[0], x[2], 0x7632), __byte_perm(x[1], x[3], 0x7632)};
        const bool four = a.order == PREFILL_ORDER_4, mixed = a.order == PREFILL_ORDER_4_INTERLEAVED;
        to[0] = four ? even[0] : x[0];                /* 0, 4; else 0, 1 */
        to[1] = four ? even[1] : mixed ? x[2] : x[1]; /* 2, 6; 4, 5; 2, 3 */
        to[2] = four ? odd[0] : mixed ? x[1] : x[2];  /* 1, 5; 2, 3; 4, 5 */
        to[3] = four ? odd[1] : x[3];                 /* 3, 7; else 6, 7 */
    }
    const float scale = __fmul_rn(d.score_scale, d.k_scale ? *d.k_scale : 1.0f);
    *factor = __fmul_rn(__fmul_rn(scale, d.k_base), __int_as_float((127 + e) << 23));
    if (d.cap != 0) *factor = __fdiv_rn(__fmul_rn(2, *factor), d.cap);
}

/* Rows g and g + 8 of the warp's 16 to their places. */
template <int DIM, bool BF16>
static __device__ __forceinline__ void prefill_put_q(const prefill_args &a, const uint32_t *rows, uint32_t warp, int lane,
                                                     uint32_t q, float *factor)
{
#pragma unroll
    for (int row = 0; row < 2; row++) {
        uint32_t part[DIM / 8]; /* of a sum: places 2 c, 2 c + 1, and 2 c + 8, 2 c + 9 */
        prefill_load_row<DIM, BF16>(a, rows[row], lane, part, factor + row);
#pragma unroll
        for (int i = 0; i < DIM / 8; i++) {
            kvg_store_shared<4>(q + i / 8 * PREFILL_Q_PART_BYTES + lane % 4 * 4 +
                                    prefill_place(warp % 4 * 16 + row * 8 + lane / 4, i % 8), part + i);
        }
    }
}

/* --- a tile --- */

/* Registers that a matrix instruction may have been at work with until here: nothing of them is moved over this place. */
template <int N> static __device__ __forceinline__ void prefill_hold(float *x)
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(x[i])::"memory");
}
template <int N> static __device__ __forceinline__ void prefill_hold(uint32_t *x)
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+r"(x[i])::"memory");
}

/* Of 32 positions from `from` on: those before `to`, as bits. */
static __device__ __forceinline__ uint32_t prefill_before(uint32_t from, uint32_t to)
{
    const uint32_t n = to > from ? min(to - from, 32u) : 0;
    return (uint32_t)((1ull << n) - 1);
}

/* S' to z: z[4 j + i] is of row g + 8 (i / 2), key 8 j + 2 c + i % 2 of a tile that begins with key `first`. `present`:
 * its tokens that are there, as bits. */
template <int DIM>
static __device__ __forceinline__ void prefill_scale(const prefill_args &a, const prefill_state<DIM> &w, uint32_t first,
                                                     uint32_t present, int lane, float *z)
{
#pragma unroll
    for (int i = 0; i < 16; i++) z[i] = __fmul_rn(z[i], w.factor[i / 2 % 2]);
    const bool plain = present == ~0u && first >= w.all_from && first + KVG_TILE <= w.all_to && a.d.cap == 0;
    if (__builtin_expect(plain, 1)) return;
    if (a.d.cap != 0) {
#pragma unroll
        for (int i = 0; i < 16; i++) z[i] = kvg_cap_score(z[i], w.factor[i / 2 % 2], a.d.cap);
    }
#pragma unroll
    for (int row = 0; row < 2; row++) {
        const uint32_t seen = prefill_before(first, w.high[row]) & ~prefill_before(first, w.low[row]) & present;
        const uint32_t mine = seen >> lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (!(mine >> (i / 2 * 8 + i % 2) & 1)) z[i / 2 * 4 + 2 * row + i % 2] = -KVG_INF;
        }
    }
}

/* The largest z of each row, NaN if one is. */
static __device__ __forceinline__ void prefill_top(const float *z, float *top)
{
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float x = kvg_max_or_nan(z[2 * row], z[2 * row + 1]);
#pragma unroll
        for (int j = 4; j < 16; j += 4) x = kvg_max_or_nan(x, kvg_max_or_nan(z[j + 2 * row], z[j + 2 * row + 1]));
        x = kvg_max_or_nan(x, __shfl_xor_sync(~0u, x, 1));
        top[row] = kvg_max_or_nan(x, __shfl_xor_sync(~0u, x, 2));
    }
}

/* Section 7, step 2: m, and what l and o are multiplied by; 1 for a row that stays as it is. */
template <int DIM>
static __device__ __forceinline__ void prefill_raise(prefill_state<DIM> &w, const float *z, float limit, float *factor)
{
    float top[2];
    prefill_top(z, top);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        const bool stays = __fsub_rn(top[row], w.node.m[row]) <= limit, broken = !(top[row] < KVG_INF);
        factor[row] = stays ? 1.0f : broken ? KVG_NAN : kvg_exp2(__fsub_rn(w.node.m[row], top[row]));
        if (!stays) w.node.m[row] = top[row];
    }
}

/* From exponents to fragments of two sums of 16 keys: weights, times V's row scales if it has such. The weights
 * themselves are added to l. */
template <bool BF16> static __device__ __forceinline__ uint32_t prefill_pair(float x, float y)
{
    return BF16 ? kvg_bits2(__floats2bfloat162_rn(x, y)) : kvg_bits2(__floats2half2_rn(x, y));
}
template <bool BF16, bool ROW_SCALES>
static __device__ __forceinline__ void prefill_weights(const float *x, uint32_t scales, int lane, float *l, uint32_t *p)
{
    constexpr uint32_t ones = BF16 ? 0x3F803F80u : 0x3C003C00u;
#pragma unroll
    for (int step = 0; step < 2; step++) {
        uint32_t plain[4];
#pragma unroll
        for (int i = 0; i < 4; i++) { /* row g + 8 (i % 2), keys 16 step + 8 (i / 2) + 2 c and + 1 */
            const float *y = x + 8 * step + 2 * i;
            const float first = kvg_exp2(y[0]), second = kvg_exp2(y[1]);
            plain[i] = prefill_pair<BF16>(first, second);
            if constexpr (ROW_SCALES) {
                uint32_t r[2];
                kvg_load_shared<8>(r, scales + (step * 16 + i / 2 * 8 + lane % 4 * 2) * 4);
                p[4 * step + i] = prefill_pair<BF16>(__fmul_rn(first, __uint_as_float(r[0])),
                                                     __fmul_rn(second, __uint_as_float(r[1])));
            } else {
                p[4 * step + i] = plain[i];
            }
        }
        kvg_multiply<BF16>(l, plain[0], plain[1], plain[2], plain[3], ones, ones);
    }
}

/* A tile's scores to weights; m may change, and with it o and l. z is used up. `fresh`: it is a leaf's first tile. */
template <int DIM, bool BF16, bool ROW_SCALES>
static __device__ __forceinline__ void prefill_weigh(prefill_state<DIM> &w, float *z, uint32_t scales, bool fresh, int lane,
                                                     uint32_t *p)
{
    constexpr float limit = ROW_SCALES ? 0.0f : 8.0f;
    float x[16];
    const auto subtract = [&] {
#pragma unroll
        for (int i = 0; i < 16; i++) x[i] = __fsub_rn(z[i], w.node.m[i / 2 % 2]);
    };
    subtract();
    /* The largest by its bits: negative numbers are negative, and the NaN that arithmetic makes is 0x7FFFFFFF. In a leaf's
     * first tile m is EMPTY's, which a row that sees a key is far above. */
    int top = __float_as_int(x[0]);
#pragma unroll
    for (int i = 1; i < 15; i += 2) top = __vimax3_s32(top, __float_as_int(x[i]), __float_as_int(x[i + 1]));
    if (__any_sync(~0u, max(top, __float_as_int(x[15])) > __float_as_int(limit)) || fresh) {
        float factor[2];
        prefill_raise(w, z, limit, factor);
        if (fresh) { /* o is not read; l was 0 */
#pragma unroll
            for (int i = 0; i < 4; i++) w.l[i] = factor[i / 2] == factor[i / 2] ? 0.0f : KVG_NAN;
        } else {
#pragma unroll
            for (int i = 0; i < DIM / 2; i++) w.node.o[i] = __fmul_rn(w.node.o[i], factor[i / 2 % 2]);
#pragma unroll
            for (int i = 0; i < 4; i++) w.l[i] = __fmul_rn(w.l[i], factor[i / 2]);
        }
        subtract();
    }
    prefill_weights<BF16, ROW_SCALES>(x, scales, lane, w.l, p);
}

/* --- an item --- */

template <int DIM>
static __device__ __forceinline__ void prefill_see(const prefill_args &a, const prefill_item &item,
                                                   const uint32_t *tokens, const uint32_t *rows,
                                                   prefill_state<DIM> &w)
{
    w.all_from = 0, w.all_to = ~0u;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        const uint2 keys = prefill_keys(a, item, tokens[row]);
        const bool is = rows[row] != PREFILL_NO_ROW;
        w.low[row] = is ? keys.x : 0, w.high[row] = is ? keys.y : ~0u;
        w.all_from = max(w.all_from, w.low[row]), w.all_to = min(w.all_to, w.high[row]);
    }
#pragma unroll
    for (int other = 4; other < KVG_WARP; other *= 2) {
        w.all_from = max(w.all_from, __shfl_xor_sync(~0u, w.all_from, other));
        w.all_to = min(w.all_to, __shfl_xor_sync(~0u, w.all_to, other));
    }
}

/* S to S' where K has row scales. */
static __device__ __forceinline__ void prefill_scale_keys(uint32_t scales, int lane, float *z)
{
#pragma unroll
    for (int j = 0; j < KVG_TILE / 8; j++) {
        uint32_t r[2];
        kvg_load_shared<8>(r, scales + (j * 8 + lane % 4 * 2) * 4);
#pragma unroll
        for (int i = 0; i < 4; i++) z[4 * j + i] = __fmul_rn(z[4 * j + i], __uint_as_float(r[i % 2]));
    }
}

/* Where the nodes of the CTA's warp `warp` wait. */
template <int DIM>
static __device__ prefill_waiting prefill_waiting_of(const prefill_args &a, const prefill_memory<DIM> &memory,
                                                     uint32_t warp)
{
    constexpr uint32_t NODE = prefill_warp_node<DIM>();
    float4 *const stack = a.stack + ((size_t)blockIdx.x * a.groups + warp / 4) * a.waiting * 4 * NODE + warp % 4 * NODE;
    constexpr uint32_t BYTES = NODE * (uint32_t)sizeof(float4);
    return {stack, 4 * NODE, a.slots, memory.slots(a) + warp * BYTES, a.groups * 4 * BYTES};
}

/* All keys of an item for the warp's rows; then its node, or outputs. `warp`: of the CTA's that multiply. */
template <int DIM, bool BF16, bool ROW_SCALES>
static __device__ __forceinline__ void prefill_add_item(const prefill_args &a, const prefill_memory<DIM> &memory,
                                                        const prefill_item &item, const prefill_piece &piece,
                                                        prefill_turn &turn, uint32_t warp, int lane)
{
    const uint32_t first = prefill_first_tile(item), end = prefill_end_tile(item), q = memory.q(a, warp / 4);
    prefill_state<DIM> w;
    uint32_t tokens[2], rows[2], waiting = 0;
    prefill_find_rows(a, item, warp, lane, tokens, rows);
    const bool has_rows = __shfl_sync(~0u, rows[0], 0) != PREFILL_NO_ROW;
    const auto meet = [&] { asm volatile("barrier.sync %0, 128;" ::"r"(1 + warp / 4) : "memory"); }; /* the group */
    meet(); /* all have done with the q before */
    prefill_put_q<DIM, BF16>(a, rows, warp, lane, q, w.factor);
    prefill_fence();
    meet();
    prefill_see(a, item, tokens, rows, w);
    w.node.m[0] = w.node.m[1] = KVG_EMPTY;
    w.node.l[0] = w.node.l[1] = 0;
#pragma unroll
    for (int i = 0; i < DIM / 2; i++) w.node.o[i] = 0;
    uint32_t p[8] = {};
    const auto release = [&](uint32_t stage) { /* to the fillers */
        __syncwarp();
        if (lane == 0) prefill_barrier_arrive(memory.empty(stage));
        __syncwarp();
    };
    const auto settle = [&] { /* the products are done */
        prefill_wait();
        prefill_hold<DIM / 2>(w.node.o);
        prefill_hold<8>(p);
    };
#pragma unroll 1
    for (uint32_t tile = first; tile < end;) { /* leaves */
        const uint32_t leaf = tile / KVG_LEAF_TILES, leaf_end = min(end, (leaf + 1) * KVG_LEAF_TILES);
        bool fresh = true;
        w.node.m[0] = w.node.m[1] = KVG_EMPTY;
#pragma unroll 1
        do {
            const uint32_t at = turn.stage;
            float z[KVG_TILE / 2];
            uint32_t present;
            prefill_barrier_wait(memory.full(at), turn.odd);
            prefill_scores<DIM, BF16>(q, memory.tile(a, KVG_K, at), lane, z);
            kvg_load_shared<4>(&present, memory.present(at));
            settle();
            prefill_hold<KVG_TILE / 2>(z);
            if (!fresh) release(at ? at - 1 : a.stages - 1);
            if (has_rows) {
                if (ROW_SCALES) prefill_scale_keys(memory.row_scales(KVG_K, at), lane, z);
                prefill_scale(a, w, tile * KVG_TILE, present, lane, z);
                prefill_weigh<DIM, BF16, ROW_SCALES>(w, z, memory.row_scales(KVG_V, at), fresh, lane, p);
            }
            prefill_values<DIM, BF16>(p, memory.tile(a, KVG_V, at), fresh, lane, w.node.o);
            fresh = false;
            prefill_next(a, turn);
        } while (++tile < leaf_end);
        settle();
        release(turn.stage ? turn.stage - 1 : a.stages - 1);
        w.node.l[0] = w.l[0], w.node.l[1] = w.l[2];
        if (has_rows) {
            prefill_end_leaf<DIM>(prefill_waiting_of(a, memory, warp), w.node, leaf, first / KVG_LEAF_TILES, tile == end,
                                  &waiting, lane);
        }
    }
    if (!has_rows) return;
    if (piece.node == PREFILL_NO_NODE) {
        const uint32_t bands = (uint32_t)a.list[0].x; /* found again, so that no registers hold it through the loop */
        prefill_find_rows(a, prefill_find_item(a, piece, bands), warp, lane, tokens, rows);
        prefill_finish<DIM>(a, w.node, rows, 0, lane);
    } else {
        const size_t node = (size_t)piece.node * a.groups * 4 + warp;
        float4 *to = a.nodes + node * prefill_warp_node<DIM>() + lane;
        prefill_put<DIM>(w.node, [&](int i, float4 v) { __stcg(to + i * KVG_WARP, v); });
    }
}

#endif
