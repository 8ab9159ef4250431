/* What the kernels of many_kernel.cuh and many_merge.cuh share: arguments, bands, items. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_ARGS_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_ARGS_CUH

#include "gpu/attention/many/many_multiply.cuh"
#include "gpu/attention/many/many_plan.h"
#include "gpu/attention/shared/decode_args.cuh"

/* Orders of places (docs/spec/decode-contract.md section 4), by which q is read. */
enum many_order { MANY_ORDER_16, MANY_ORDER_8, MANY_ORDER_4, MANY_ORDER_4_INTERLEAVED };

struct many_args {
    kvg_decode_args d;
    kvg_format format[2];   /* whose code reads a side: by kvg_side */
    many_order order;       /* of K */
    uint8_t dims[8];        /* column i of eight of V in shared memory is dim dims[i] of the eight */
    kvg_fast_divisor group; /* query heads of a KV head */
    uint32_t kv_heads, groups;
    uint32_t band_rows;        /* 64, or 64 for each group */
    uint32_t columns, out_dim; /* of V that a group has; of an output row, which is V's head_dim */
    uint32_t v_first;          /* of a row that K and V share: the first element of V */
    bool shared_row;           /* K and V share rows */
    many_cut cut;
    uint32_t stages, depth, raw, slots; /* many_shape */
    uint32_t waiting;                   /* nodes on the stack of a group */
    int4 *list;                         /* [0].x: bands; from [1] on the bands */
    float4 *stack, *nodes;              /* of CTAs; of items */
};

enum : uint32_t { MANY_NO_ROW = ~0u };

/* A band: rows of a sequence from `first` on, as many as fit in a band and the sequence has. */
struct many_band {
    int sequence;     /* -1: queries that no sequence has; they see nothing */
    uint32_t first;   /* row */
    uint32_t query;   /* of the sequence's first query token in q */
    uint32_t queries; /* query tokens of the sequence that are in q */
};

/* What an item is. */
struct many_item {
    many_band band;
    uint32_t kv_head;
    uint32_t node;                /* of its piece, or MANY_NO_NODE */
    int32_t length, given;        /* the sequence's lengths, as the inputs have them */
    uint32_t low, high;           /* keys of the item: positions low ... high - 1; none if low >= high */
    uint32_t band_low, band_high; /* of all pieces of the band */
    bool skipped;                 /* the piece is beyond the band's keys: it has no node */
};

/* Keys low ... high - 1 that query token `token` of a sequence sees, unless high <= low. Without a
 * sequence: none. */
static __device__ uint2 many_keys(const many_args &a, const many_item &item, uint32_t token)
{
    if (item.band.sequence < 0) return make_uint2(0, 0);
    return kvg_decode_keys(a.d.ranges, item.length, item.given, token);
}

/* `bands`: in the list, of a KV head. */
static __device__ many_item many_find_item(const many_args &a, const many_piece &piece, uint32_t bands)
{
    many_item item;
    item.kv_head = piece.band / bands;
    item.node = piece.node;
    const int4 band =
        a.list[bands - (piece.band - item.kv_head * bands)]; /* the last ones first: they have the most keys */
    item.band = {band.x, (uint32_t)band.y, (uint32_t)band.z, (uint32_t)band.w};
    const bool is = band.x >= 0;
    item.length = is ? a.d.ranges.lengths[band.x] : 0;
    item.given = is ? a.d.ranges.query_lengths[band.x] : 0;
    const uint32_t last_row = min(item.band.first + a.band_rows, item.band.queries * a.d.group) - 1;
    item.band_low = many_keys(a, item, a.group.into(item.band.first)).x;
    item.band_high = max(item.band_low, many_keys(a, item, a.group.into(last_row)).y);
    /* In 64 bits: in a ring positions come near to 2^31. */
    const uint64_t size = (uint64_t)KVG_CONTRACT.leaf << piece.leaves_log;
    const uint64_t begin = (item.band_low / size + piece.piece) * size;
    item.skipped = piece.piece > 0 && begin >= item.band_high;
    item.low = (uint32_t)max((uint64_t)item.band_low, begin);
    item.high = (uint32_t)min((uint64_t)item.band_high, begin + size);
    return item;
}

/* Tiles of an item: from the first to before the end. */
static __device__ uint32_t many_first_tile(const many_item &item)
{
    return item.low / KVG_TILE;
}
static __device__ uint32_t many_end_tile(const many_item &item)
{
    return item.low < item.high ? (item.high - 1) / KVG_TILE + 1 : many_first_tile(item);
}

/* --- what groups of warps wait for: mbarriers in shared memory --- */

static __device__ __forceinline__ void many_barrier_open(uint32_t at, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}
static __device__ __forceinline__ void many_barrier_arrive(uint32_t at)
{
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(at) : "memory");
}
/* Arrives when the lane's copies until here are done. */
static __device__ __forceinline__ void many_barrier_arrive_with_copies(uint32_t at)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
}
/* Until the phase of that parity is over; that of 1 is at the start. */
static __device__ __forceinline__ void many_barrier_wait(uint32_t at, uint32_t parity)
{
    uint32_t done;
    do {
#if __CUDA_ARCH__ >= 900
        asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(at), "r"(parity)
                     : "memory");
#else
        asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(at), "r"(parity)
                     : "memory");
#endif
    } while (!done);
}
/* What was written to shared memory is for the matrix instructions to read. */
static __device__ __forceinline__ void many_fence()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* Shared memory of a CTA: barriers; for each stage the tokens of its tile that are there, as bits,
 * and row scales of K and V; ones of many_put_ones; stages of K and of V, or of rows that K and V
 * share; q of a band; raw tiles; slots of waiting nodes. */
enum {
    MANY_PRESENT = 2 * MANY_MOST_STAGES * 8,
    MANY_ROW_SCALES = MANY_PRESENT + MANY_MOST_STAGES * 8,
    MANY_ONES = MANY_ROW_SCALES + 2 * MANY_MOST_STAGES * KVG_TILE * 4,
};
static_assert(MANY_ONES + MANY_ONES_BYTES <= MANY_HEADER && MANY_ONES % 16 == 0, "what the plan counts");

template <int DIM> struct many_memory {
    static constexpr bool SHARED_ROW = DIM == MANY_SHARED_DIM;
    static constexpr int COLUMNS = SHARED_ROW ? MANY_SHARED_COLUMNS : DIM;              /* of V that a group has */
    static constexpr uint32_t SIDE = KVG_TILE * DIM * 2, Q = MANY_GROUP_ROWS * DIM * 2; /* bytes */
    static constexpr uint32_t SIDES = SHARED_ROW ? 1 : 2;
    uint32_t start; /* its address, a multiple of 1,024 */

    __device__ uint32_t full(uint32_t stage) const
    {
        return start + stage * 8;
    }
    __device__ uint32_t empty(uint32_t stage) const
    {
        return full(stage) + MANY_MOST_STAGES * 8;
    }
    __device__ uint32_t present(uint32_t stage) const
    {
        return start + MANY_PRESENT + stage * 8;
    }
    __device__ uint32_t row_scales(int side, uint32_t stage) const
    {
        return start + MANY_ROW_SCALES + (side * MANY_MOST_STAGES + stage) * KVG_TILE * 4;
    }
    __device__ uint32_t ones() const
    {
        return start + MANY_ONES;
    }
    __device__ uint32_t tile(const many_args &a, int side, uint32_t stage) const
    {
        return start + MANY_HEADER + (side % SIDES * a.stages + stage) * SIDE;
    }
    __device__ uint32_t q(const many_args &a, uint32_t group) const
    {
        return start + MANY_HEADER + SIDES * a.stages * SIDE + (SHARED_ROW ? 0 : group * Q);
    }
    __device__ uint32_t raw(const many_args &a, uint32_t filler) const
    {
        return q(a, 0) + a.band_rows * DIM * 2 + filler * a.depth * a.raw;
    }
    __device__ uint32_t slots(const many_args &a) const
    {
        return raw(a, MANY_FILLERS);
    }
};

#endif
