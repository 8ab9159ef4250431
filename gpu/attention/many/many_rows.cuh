/* The warps that multiply: a group of four has 64 rows of a band, a warp 16 of them
 * (docs/spec/decode-contract.md sections 3 to 7). They take the stages that the fillers fill. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_ROWS_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_ROWS_CUH

#include "gpu/attention/many/many_multiply.cuh"
#include "gpu/attention/many/many_query.cuh"
#include "gpu/attention/many/many_tree.cuh"
#include "gpu/attention/many/many_weights.cuh"

template <int COLUMNS>
static __device__ __forceinline__ void many_see(const many_args &a, const many_item &item,
                                                const uint32_t *tokens, const uint32_t *rows,
                                                many_state<COLUMNS> &w)
{
    w.all_from = 0, w.all_to = ~0u;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        const uint2 keys = many_keys(a, item, tokens[row]);
        const bool is = rows[row] != MANY_NO_ROW;
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
static __device__ __forceinline__ void many_scale_keys(uint32_t scales, int lane, float *z)
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
static __device__ many_waiting many_waiting_of(const many_args &a, const many_memory<DIM> &memory,
                                               uint32_t warp)
{
    constexpr uint32_t NODE = many_warp_node<many_memory<DIM>::COLUMNS>();
    float4 *const stack = a.stack + ((size_t)blockIdx.x * a.groups + warp / 4) * a.waiting * 4 * NODE + warp % 4 * NODE;
    constexpr uint32_t BYTES = NODE * (uint32_t)sizeof(float4);
    return {stack, 4 * NODE, a.slots, memory.slots(a) + warp * BYTES, a.groups * 4 * BYTES};
}

/* All keys of an item for the warp's rows; then its node, or outputs. `index`: the item's. `warp`: of
 * the CTA's that multiply. */
template <int DIM, bool BF16, bool ROW_SCALES, bool PADDED>
static __device__ __forceinline__ void many_add_item(const many_args &a, const many_memory<DIM> &memory,
                                                     const many_item &item, uint32_t index,
                                                     many_turn &turn, uint32_t warp, int lane)
{
    /* Groups have rows of their own; if K and V share rows, the same rows and columns of their own. */
    constexpr bool SHARED_ROW = many_memory<DIM>::SHARED_ROW;
    constexpr int COLUMNS = many_memory<DIM>::COLUMNS, MEET = SHARED_ROW ? MANY_SHARED_GROUPS * 128 : 128;
    const uint32_t first = many_first_tile(item), end = many_end_tile(item), group = warp / 4;
    const uint32_t row_warp = SHARED_ROW ? warp % 4 : warp;
    const uint32_t own_columns = SHARED_ROW ? (a.v_first + group * COLUMNS) / 64 * MANY_PART_BYTES : 0;
    const uint32_t q = memory.q(a, group);
    many_state<COLUMNS> w;
    uint32_t tokens[2], rows[2], waiting = 0;
    many_find_rows(a, item, row_warp, lane, tokens, rows);
    const bool has_rows = __shfl_sync(~0u, rows[0], 0) != MANY_NO_ROW;
    /* Those that have the same q. */
    const auto meet = [&] {
        asm volatile("barrier.sync %0, %1;" ::"r"(SHARED_ROW ? 1 : 1 + group), "n"(MEET) : "memory");
    };
    meet(); /* all have done with the q before */
    many_put_q<DIM, BF16, PADDED>(a, rows, warp, lane, !SHARED_ROW || group == 0, q, w.factor);
    many_fence();
    meet();
    many_see(a, item, tokens, rows, w);
    w.node.m[0] = w.node.m[1] = KVG_EMPTY;
    w.node.l[0] = w.node.l[1] = 0;
#pragma unroll
    for (int i = 0; i < COLUMNS / 2; i++) w.node.o[i] = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) w.l[i] = 0;
    many_fragments<ROW_SCALES> p = {};
    /* Waits until the products are done. */
    const auto settle = [&] {
        many_wait();
        many_hold<COLUMNS / 2>(w.node.o);
        many_hold<8>(p.of_values());
        if constexpr (many_l_beside<COLUMNS>) {
            many_hold<4>(w.l);
            many_hold<8>(p.weights);
        }
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
            many_barrier_wait(memory.full(at), turn.odd);
            if (!a.raw) many_fence(); /* copies into stages: their lanes do not wait for them */
            many_scores<DIM, BF16>(q, memory.tile(a, KVG_K, at), lane, z);
            kvg_load_shared<4>(&present, memory.present(at));
            settle();
            many_hold<KVG_TILE / 2>(z);
            if (!fresh) many_barrier_arrive(memory.empty(at ? at - 1 : a.stages - 1));
            if (has_rows) {
                if (ROW_SCALES) many_scale_keys(memory.row_scales(KVG_K, at), lane, z);
                many_scale(a, w, tile * KVG_TILE, present, lane, z);
                many_weigh<COLUMNS, BF16, ROW_SCALES>(w, z, memory.row_scales(KVG_V, at), fresh, lane, p);
            }
            many_values<COLUMNS, BF16>(p.of_values(), p.weights, memory.tile(a, KVG_V, at) + own_columns,
                                       memory.ones(), fresh, lane, w.node.o, w.l);
            fresh = false;
            many_next(a, turn);
        } while (++tile < leaf_end);
        settle();
        many_barrier_arrive(memory.empty(turn.stage ? turn.stage - 1 : a.stages - 1));
        w.node.l[0] = w.l[0], w.node.l[1] = w.l[2];
        if (has_rows) {
            many_end_leaf<COLUMNS>(many_waiting_of(a, memory, warp), w.node, leaf, first / KVG_LEAF_TILES,
                                   tile == end, &waiting, lane);
        }
    }
    if (!has_rows) return;
    if (item.node == MANY_NO_NODE) {
        const uint32_t bands = (uint32_t)a.list[0].x; /* found again, so that no registers hold it through the loop */
        const many_piece piece = many_piece_of(&a.cut, bands * a.kv_heads, index);
        many_find_rows(a, many_find_item(a, piece, bands), row_warp, lane, tokens, rows);
        many_finish<COLUMNS>(a, w.node, rows, SHARED_ROW ? group * COLUMNS : 0, PADDED ? a.out_dim : COLUMNS,
                             SHARED_ROW, lane);
    } else {
        const size_t node = (size_t)item.node * a.groups * 4 + warp;
        float4 *to = a.nodes + node * many_warp_node<COLUMNS>() + lane;
        many_put<COLUMNS>(w.node, [&](int i, float4 v) { __stcg(to + i * KVG_WARP, v); });
    }
}

#endif
