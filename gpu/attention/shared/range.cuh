/* Which keys a query of op decode sees (docs/spec/attention.md section 2): a range of positions.
 * Whether a position of it has a block is for the table to say. */
#ifndef KVG_GPU_ATTENTION_SHARED_RANGE_CUH
#define KVG_GPU_ATTENTION_SHARED_RANGE_CUH

#include <cstdint>

#include <cuda_runtime.h>

struct kvg_decode_ranges {
    const int32_t *lengths, *query_lengths; /* [sequences] */
    int4 *rows;                             /* [queries]: sequence, first position, one after the last; 0 */
    uint32_t sequences, queries;
    uint32_t tokens;  /* no sequence has more; 0: no limit */
    uint32_t window;  /* keys; 0: all */
    uint32_t ring;    /* tokens that a ring holds; 0: no ring */
};

/* Keys low ... high - 1 that query `query` of a sequence sees; none if high <= low. `given` and
 * `queries`: the sequence's lengths, as the inputs have them. */
static __device__ uint2 kvg_decode_keys(const kvg_decode_ranges &a, int32_t given, int32_t queries, uint32_t query)
{
    const uint32_t tokens = max(given, 0);
    const int64_t length = a.tokens ? min(tokens, a.tokens) : tokens;
    const int64_t position = length - queries + query;
    int64_t low = 0;
    if (a.window) low = max(low, position + 1 - (int64_t)a.window);
    if (a.ring) low = max(low, length - (int64_t)a.ring);
    return make_uint2((uint32_t)low, (uint32_t)max(low, position + 1));
}
static __device__ int4 kvg_decode_range(const kvg_decode_ranges &a, uint32_t sequence, int32_t given, int32_t queries,
                                        uint32_t query)
{
    const uint2 keys = kvg_decode_keys(a, given, queries, query);
    return keys.x < keys.y ? make_int4((int)sequence, (int)keys.x, (int)keys.y, 0) : make_int4((int)sequence, 0, 0, 0);
}

/* The sum over the lanes up to this one. */
static __device__ uint32_t kvg_sum_to_lane(uint32_t x, int lane)
{
    for (int step = 1; step < 32; step *= 2) {
        const uint32_t before = __shfl_up_sync(~0u, x, step);
        if (lane >= step) x += before;
    }
    return x;
}

/* The range of query `query`, by a whole warp out of the sequences' lengths. Queries that no
 * sequence has see nothing. */
static __device__ int4 kvg_decode_range_of(const kvg_decode_ranges &a, uint32_t query, int lane)
{
    uint32_t left = query; /* queries from the first of these sequences on */
    for (uint32_t first = 0; first < a.sequences; first += 32) {
        const uint32_t mine = first + lane;
        const bool is = mine < a.sequences;
        const int32_t queries = is ? a.query_lengths[mine] : 0, length = is ? a.lengths[mine] : 0;
        const bool one_each = __all_sync(~0u, queries == is);
        const uint32_t end = one_each ? min((uint32_t)lane + 1, a.sequences - first) /* queries up to the lane's */
                                      : kvg_sum_to_lane(max(queries, 0), lane);
        const int s = __popc(__ballot_sync(~0u, end <= left)); /* that end before */
        if (s < 32) {
            const uint32_t before = __shfl_sync(~0u, end, max(s - 1, 0));
            return kvg_decode_range(a, first + s, __shfl_sync(~0u, length, s), __shfl_sync(~0u, queries, s),
                                    left - (s ? before : 0));
        }
        left -= __shfl_sync(~0u, end, 31);
    }
    return make_int4(0, 0, 0, 0);
}

#endif
