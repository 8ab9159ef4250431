/* The tree over the leaves of an item, and its root (docs/spec/decode-contract.md sections 8 and
 * 9), for a warp with 16 rows. Lane 4 g + c holds of rows g and g + 8 the columns 8 j + 2 c and +
 * 1: o[4 j + i] is of row g + 8 (i / 2). */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_TREE_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_TREE_CUH

#include "gpu/attention/many/many_order.cuh"

template <int DIM> using many_node = kvg_node<DIM / 2, 2, 2>;

/* In memory a node is DIM / 8 arrays of float4 by lane, then one of m, m, l, l. */
template <int DIM> static __host__ __device__ constexpr uint32_t many_warp_node()
{
    return (DIM / 8 + 1) * KVG_WARP; /* float4s */
}

/* `put(i, x)` stores float4 i of the lane. */
template <int DIM, class PUT>
static __device__ __forceinline__ void many_put(const many_node<DIM> &x, const PUT &put)
{
#pragma unroll
    for (int i = 0; i < DIM / 8; i++) put(i, make_float4(x.o[4 * i], x.o[4 * i + 1], x.o[4 * i + 2], x.o[4 * i + 3]));
    put(DIM / 8, make_float4(x.m[0], x.m[1], x.l[0], x.l[1]));
}

/* x = merge(left, x); `left(i)` is float4 i of the lane. */
template <int DIM, class LEFT>
static __device__ __forceinline__ void many_merge(const LEFT &left, many_node<DIM> &x)
{
    const float4 h = left(DIM / 8);
    const float m[2] = {h.x, h.y}, l[2] = {h.z, h.w};
    float theirs[2] = {}, ours[2] = {};
#pragma unroll
    for (int row = 0; row < 2; row++) {
        x.m[row] = kvg_merge_weights(m[row], x.m[row], &theirs[row], &ours[row]);
        x.l[row] = kvg_merge(l[row], theirs[row], x.l[row], ours[row]);
    }
#pragma unroll
    for (int i = 0; i < DIM / 8; i++) {
        const float4 v = left(i);
        const float o[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int j = 0; j < 4; j++) x.o[4 * i + j] = kvg_merge(o[j], theirs[j / 2], x.o[4 * i + j], ours[j / 2]);
    }
}

/* Nodes that wait for the node to the right of them: one at most of each level of the tree. Those
 * of the lowest levels are in shared memory, the others on a stack, the larger below. */
struct many_waiting {
    float4 *stack;              /* of the warp */
    uint32_t stride;            /* float4s from one node on the stack to the next */
    uint32_t slots;             /* levels that have a slot in shared memory */
    uint32_t slot, slot_stride; /* its address at level 0; bytes from one to the next */
};

/* After leaf `leaf` of an item whose leaves begin with `first`: merges x with all that waits for
 * it. If it was the last, x is the item's node; else x now waits. *count: nodes on the stack. */
template <int DIM>
static __device__ __forceinline__ void many_end_leaf(const many_waiting &waiting, many_node<DIM> &x,
                                                     uint32_t leaf, uint32_t first, bool last, uint32_t *count,
                                                     int lane)
{
#pragma unroll 1
    for (uint32_t level = 0;; level++) {
        const many_step step = many_step_of(leaf, level, first, last);
        const bool in_slot = level < waiting.slots;
        const uint32_t slot = waiting.slot + level * waiting.slot_stride + lane * 16;
        if (step == MANY_ENDS) return;
        if (step == MANY_MERGES) {
            if (in_slot) {
                many_merge<DIM>([&](int i) { return kvg_load_shared_f32(slot + i * 512); }, x);
            } else {
                const float4 *from = waiting.stack + --*count * waiting.stride + lane;
                many_merge<DIM>([&](int i) { return __ldcg(from + i * KVG_WARP); }, x);
            }
        } else if (step == MANY_WAITS) {
            if (in_slot) {
                many_put<DIM>(x, [&](int i, float4 v) { kvg_store_shared_f32(slot + i * 512, v.x, v.y, v.z, v.w); });
            } else {
                float4 *to = waiting.stack + (*count)++ * waiting.stride + lane;
                many_put<DIM>(x, [&](int i, float4 v) { __stcg(to + i * KVG_WARP, v); });
            }
            return;
        }
    }
}

/* Outputs and LSE of a warp's rows. `rows`: where row g and g + 8 of the band lie, as indexes of
 * [queries, query heads]; those that are not there are MANY_NO_ROW. `columns`: of V, from
 * first_column on; others are padding. */
template <int DIM>
static __device__ __forceinline__ void many_finish(const many_args &a, many_node<DIM> &x, const uint32_t *rows,
                                                   uint32_t first_column, uint32_t columns, bool shared_row,
                                                   int lane)
{
    const kvg_decode_args &d = a.d;
    const float factor = d.v_scale ? __fmul_rn(*d.v_scale, d.v_base) : d.v_base;
    const int c = lane % 4;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        if (rows[row] == MANY_NO_ROW) continue;
        if (d.sinks) kvg_add_sink(x, row, d.sinks[rows[row] % d.query_heads]);
    }
    const uint32_t dim[2] = {a.dims[2 * c], a.dims[2 * c + 1]};
#pragma unroll
    for (int i = 0; i < DIM / 2; i++) {
        const int row = i / 2 % 2;
        if (rows[row] == MANY_NO_ROW || i / 4 * 8u >= columns) continue;
        const float y = kvg_output(x.o[i], x.l[row], factor);
        const uint32_t eight = first_column + i / 4 * 8;
        uint16_t *to = d.out + (size_t)rows[row] * a.out_dim +
                       (shared_row ? many_dim_of<false>(a, eight + 2 * c + i % 2) : eight + dim[i % 2]);
        if (d.bf16) *(__nv_bfloat16 *)to = __float2bfloat16_rn(y);
        else *(__half *)to = __float2half_rn(y);
    }
    if (first_column || c) return;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        if (rows[row] != MANY_NO_ROW) d.lse[rows[row]] = kvg_lse(x.m[row], x.l[row]);
    }
}

/* The rows g and g + 8 of the `warp`-th 16 rows of a band: their query tokens, and where they lie. */
static __device__ void many_find_rows(const many_args &a, const many_item &item, uint32_t warp, int lane,
                                      uint32_t *tokens, uint32_t *rows)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t row = item.band.first + warp * 16 + lane / 4 + i * 8, token = a.group.into(row);
        const bool is = token < item.band.queries;
        tokens[i] = is ? token : 0;
        rows[i] = is ? (item.band.query + token) * a.d.query_heads + item.kv_head * a.d.group + row - token * a.d.group
                     : MANY_NO_ROW;
    }
}

#endif
