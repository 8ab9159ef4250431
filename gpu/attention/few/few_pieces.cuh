/* The second of op decode's three kernels: a CTA per piece, that is a team of query tokens, eight query heads of a KV
 * head, and a run of leaves for each of its warps; or two or four, with a part of the run each. A team is neighbours in
 * q: as a rule of one sequence, whose keys are then read and converted once for all of them. Where one sequence ends in
 * a team and another begins, the CTA takes the keys of the one, then those of the other.
 *
 * A warp holds 8 query heads of each query token. K's codes are the matrix instruction's a, 16 tokens of it, q is b;
 * for the output V's dims are the rows of a, so that codes go from shared memory to operands without changing lanes. */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_PIECES_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_PIECES_CUH

#include "gpu/attention/few/few.h"
#include "gpu/attention/few/few_leaf.cuh"
#include "gpu/attention/few/few_run.cuh"

/* SHARED, SMALL_SHARED: bytes of dynamic shared memory, on small chips (few_shape.cuh) the latter; there for
 * reports, which see a kernel's name. */
template <class K, class V, int QUERIES, int SHARED, int SMALL_SHARED>
static __global__ void __launch_bounds__(KVG_WARP *KVG_DECODE_WARPS, (kvg_decode_shape<K, V, QUERIES>::CTAS))
    kvg_decode_pieces(const __grid_constant__ kvg_decode_args a)
{
    typedef kvg_decode_shape<K, V, QUERIES> shape;
    extern __shared__ __align__(128) uint8_t shared[];
    int lane = threadIdx.x % KVG_WARP;
    const int warp = threadIdx.x / KVG_WARP;
    const kvg_decode_part of = kvg_part_of(a, blockIdx.x);
    const uint32_t rest = a.units.into(of.piece), unit = of.piece - rest * a.units.divisor;
    const uint32_t piece = a.teams.into(rest), query = (rest - piece * a.teams.divisor) * QUERIES;
    kvg_team<QUERIES> team;
    int4 row;
    if constexpr (QUERIES == 1) {
        row = kvg_row_of(a, query, lane);
        row.x = kvg_uniform(row.x), row.y = kvg_uniform(row.y), row.z = kvg_uniform(row.z);
    } else {
        team.rows = (uint32_t)__cvta_generic_to_shared(shared) + shape::SHARED - shape::TEAM;
        for (int i = 0; i < QUERIES && warp == 0; i++) {
            const bool is = query + i < a.ranges.queries;
            const int4 its = is ? kvg_row_of(a, query + i, lane) : make_int4(-1, 0, 0, 0);
            if (lane == 0) team.set(i, its);
        }
        __syncthreads();
    }
    kvg_start_kernel_after();
    int from = 0, to = QUERIES == 1;
    do { /* those of one sequence; a loop for several query tokens alone */
        if constexpr (QUERIES > 1) {
            asm volatile("" : "+r"(lane)); /* addresses are made again in each turn: registers are few */
            row = team.row(from = to);
            while (++to < QUERIES && kvg_uniform(team.row(to).x) == row.x) kvg_widen(row, team.row(to));
            row.x = kvg_uniform(row.x), row.y = kvg_uniform(row.y), row.z = kvg_uniform(row.z);
        }
        /* Stretches that a row may see. In a ring positions come near to 2^31, and a run may end past it. */
        const int stretches = (int)(((uint32_t)row.z + KVG_DECODE_STRETCH - 1) / KVG_DECODE_STRETCH);
        const int run = (int)(a.run >> of.level);
        const uint32_t parts_before = ((row.y >> a.piece_log) + piece) << of.level | of.part;
        const int first_stretch = (int)parts_before * KVG_DECODE_WARPS * run;
        const uint32_t first = (uint32_t)(first_stretch + kvg_uniform(warp) * run) * KVG_DECODE_STRETCH;
        const uint32_t begin = max((uint32_t)row.y, first);
        const uint32_t end = min((uint32_t)row.z, first + run * KVG_DECODE_STRETCH);
        if ((piece || of.part) && first_stretch >= stretches) continue; /* to the next sequence */
        const uint32_t start = (uint32_t)__cvta_generic_to_shared(shared);
        constexpr uint32_t SLOTS = KVG_DECODE_WARPS * shape::STAGES * shape::STAGE, SLOT = shape::LEVELS * shape::NODE;
        const uint32_t slots = start + SLOTS + warp * QUERIES * SLOT;
        kvg_warp_state<K> w[QUERIES];
#pragma unroll
        for (int i = 0; i < QUERIES; i++) kvg_clear(w[i].node);
        if (begin < end) {
            const uint32_t stages = start + warp * shape::STAGES * shape::STAGE;
            const kvg_decode_run<QUERIES> keys = {query, unit, stages, slots, row.x, row.z, (int)first, (int)begin,
                                                  (int)end, lane, team};
            kvg_run_leaves<K, V>(a, w, keys);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < QUERIES; i++) kvg_put_shared(slots + i * SLOT, w[i].node, lane);
        __syncthreads();
        /* The nodes (0 1) (2 3), then (0 2), EMPTY ones too: a warp takes its share of the dims of all of them. */
        constexpr int ALL = K::DIM / 4, SHARE = ALL / KVG_DECODE_WARPS;
        int nth = from;
        do {
            kvg_node<SHARE> x[KVG_DECODE_WARPS];
#pragma unroll
            for (int i = 0; i < KVG_DECODE_WARPS; i++) {
                kvg_get_share<ALL>(start + SLOTS + (i * QUERIES + nth) * SLOT, warp * SHARE, x[i], lane);
            }
#pragma unroll
            for (int step = 1; step < KVG_DECODE_WARPS; step *= 2) {
#pragma unroll
                for (int i = 0; i < KVG_DECODE_WARPS; i += 2 * step) {
                    if (first_stretch + run * (i + step) < stretches) kvg_merge_nodes(x[i], x[i + step]);
                }
            }
            const size_t node = (size_t)blockIdx.x * QUERIES + nth;
            kvg_put_share<ALL>(a.nodes + node * (shape::NODE / 16), warp * SHARE, x[0], lane);
        } while (QUERIES > 1 && ++nth < to);
        if (QUERIES > 1 && to < QUERIES) __syncthreads(); /* all have read them */
    } while (QUERIES > 1 && to < QUERIES);
}

template <class SHAPE> constexpr kvg_decode_fit kvg_decode_fit_of()
{
    return {SHAPE::SHARED, SHAPE::CTAS, SHAPE::LEVELS};
}

template <kvg_format K_FORMAT, kvg_format V_FORMAT, kvg_dtype T, int DIM, int QUERIES = 1>
constexpr kvg_decode_kernel kvg_decode_kernel_of()
{
    typedef kvg_side_of<K_FORMAT, T, DIM> K;
    typedef kvg_side_of<V_FORMAT, T, DIM> V;
    constexpr bool any = K::OPERAND != KVG_OPERAND_AFFINE;
    typedef kvg_decode_shape<K, V, QUERIES, false> large;
    typedef kvg_decode_shape<K, V, QUERIES, true> small;
    typedef kvg_leaf_shape<K, V, KVG_LEAF_OF_MMA16816_V1> leaf_v1;
    typedef kvg_leaf_shape<K, V, KVG_LEAF_OF_MMA16816_V2> leaf_v2;
    constexpr kvg_leaf_fit leaves[2] = {{leaf_v1::LEAF, leaf_v1::SHARED}, {leaf_v2::LEAF, leaf_v2::SHARED}};
    void (*leaf)(const kvg_decode_args) = nullptr;
    if constexpr (QUERIES == 1 && leaf_v1::FITS) leaf = kvg_decode_leaf<K, V, leaf_v1::SHARED, leaf_v2::SHARED>;
    return {{K_FORMAT, V_FORMAT}, any, T, DIM, QUERIES, {kvg_decode_fit_of<large>(), kvg_decode_fit_of<small>()},
            kvg_decode_pieces<K, V, QUERIES, large::SHARED, small::SHARED>, leaf, {leaves[0], leaves[1]}};
}

#endif
