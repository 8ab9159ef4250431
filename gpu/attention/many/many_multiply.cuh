/* The two products of op decode over keys in shared memory, for a group of four warps with 64 rows:
 * on Hopper by wgmma, elsewhere by mma.sync. Fragments of results, and every bit, are the same
 * (gpu/attention/many/wgmma.cuh).
 *
 * A stage holds a tile of 32 keys of K and of V as 16-bit operands. A side of it is width / 64
 * parts; a part is 32 rows, one per key, of 128 bytes, 64 elements, whose 16-byte chunks are
 * exchanged as gpu/attention/many/wgmma.cuh has it. Sum s of docs/spec/decode-contract.md section 4 has K's
 * elements 16 s ... 16 s + 15, in the order of many_order.cuh. V's are dims, in the order in which
 * codes are unpacked. Of rows that K and V share a stage holds one side, K's, and V is some of its parts. q lies
 * as K does, 64 rows of it. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_MULTIPLY_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_MULTIPLY_CUH

#include "gpu/attention/many/many_plan.h"
#include "gpu/attention/many/wgmma.cuh"
#include "gpu/attention/shared/decode_args.cuh"

enum {
    MANY_ROW_BYTES = 128,
    MANY_PART_BYTES = KVG_TILE * MANY_ROW_BYTES,          /* 64 elements of 32 rows */
    MANY_Q_PART_BYTES = MANY_GROUP_ROWS * MANY_ROW_BYTES, /* of 64 rows */
    MANY_SUM = 16,                                        /* elements of a sum */
    MANY_PART_SUMS = 4,
    MANY_STEP_BYTES = MANY_SUM * MANY_ROW_BYTES,          /* of a part: 16 rows */
    MANY_ONES_BYTES = MANY_SUM * 8 * 2,
};

/* Where 16-byte chunk `chunk` (0 ... 7) of row `row` lies in a part. */
static __device__ __forceinline__ uint32_t many_place(uint32_t row, uint32_t chunk)
{
    return row * MANY_ROW_BYTES + (chunk ^ row % 8) * 16;
}

/* l is summed like one more dim of V, which is 1. */
template <bool BF16> static constexpr uint32_t many_ones = BF16 ? 0x3F803F80u : 0x3C003C00u; /* two */

/* Whether wgmma sums l beside the warp, together with o: a larger o, and rows that K and V share, leave no registers
 * for it. */
template <int COLUMNS> static constexpr bool many_l_beside = KVG_HAS_WGMMA && COLUMNS <= 128;

/* Its 16 keys of 8 equal dims for wgmma, by the first threads of a CTA. */
template <bool BF16> static __device__ __forceinline__ void many_put_ones(uint32_t to)
{
    const uint32_t ones[4] = {many_ones<BF16>, many_ones<BF16>, many_ones<BF16>, many_ones<BF16>};
    if (threadIdx.x < MANY_ONES_BYTES / 16) kvg_store_shared<16>(to + threadIdx.x * 16, ones);
}

#if KVG_HAS_WGMMA

/* Products run beside the warp until many_wait. */
static __device__ __forceinline__ void many_wait()
{
    kvg_wgmma_wait<0>();
}

/* z = q K, z[16]. */
template <int DIM, bool BF16>
static __device__ __forceinline__ void many_scores(uint32_t q, uint32_t keys, int lane, float *z)
{
    const uint64_t first_q = kvg_wgmma_tile(q), first = kvg_wgmma_tile(keys);
    kvg_wgmma_begin();
#pragma unroll
    for (int s = 0; s < DIM / MANY_SUM; s++) {
        const uint32_t part = s / MANY_PART_SUMS, in_part = s % MANY_PART_SUMS * 32;
        kvg_wgmma_columns<BF16>(z, kvg_wgmma_further(first_q, part * MANY_Q_PART_BYTES + in_part),
                                kvg_wgmma_further(first, part * MANY_PART_BYTES + in_part), s > 0);
    }
    kvg_wgmma_end();
}

/* o += p V; o = p V if `fresh`. p: two fragments of 16 keys each. With many_l_beside l += weights, which are
 * fragments as p is. `ones`: where many_put_ones has put them. */
template <int DIM, bool BF16>
static __device__ __forceinline__ void many_values(const uint32_t *p, const uint32_t *weights, uint32_t values,
                                                   uint32_t ones, bool fresh, int lane, float *o, float *l)
{
    constexpr int COLUMNS = DIM % 128 ? 64 : 128; /* of an instruction */
    const uint64_t first = kvg_wgmma_tile(values, MANY_PART_BYTES);
    kvg_wgmma_begin();
#pragma unroll
    for (int step = 0; step < 2; step++) {
#pragma unroll
        for (int column = 0; column < DIM; column += COLUMNS) {
            const uint32_t at = column / 64 * MANY_PART_BYTES + step * MANY_STEP_BYTES;
            kvg_wgmma_rows<BF16, COLUMNS>(o + column / 2, p + 4 * step, kvg_wgmma_further(first, at),
                                          step > 0 || !fresh);
        }
        if constexpr (many_l_beside<DIM>) kvg_wgmma_eight<BF16>(l, weights + 4 * step, ones);
    }
    kvg_wgmma_end();
}

#else

static __device__ __forceinline__ void many_wait()
{
}

static __device__ __forceinline__ void many_load(uint32_t *r, uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at)
                 : "memory");
}

template <int DIM, bool BF16>
static __device__ __forceinline__ void many_scores(uint32_t q, uint32_t keys, int lane, float *z)
{
    const uint32_t mine = q + MANY_STEP_BYTES * (threadIdx.x / KVG_WARP % 4); /* 16 rows */
#pragma unroll
    for (int i = 0; i < KVG_TILE / 2; i++) z[i] = 0;
#pragma unroll
    for (int s = 0; s < DIM / MANY_SUM; s += 2) {
        const uint32_t part = s / MANY_PART_SUMS, first = s % MANY_PART_SUMS * 2;
        uint32_t a[8]; /* rows 0 ... 7 and 8 ... 15 of a chunk, then of the next, for two sums */
        many_load(a, mine + part * MANY_Q_PART_BYTES + many_place(lane % 16, first + lane / 16));
        many_load(a + 4, mine + part * MANY_Q_PART_BYTES + many_place(lane % 16, first + 2 + lane / 16));
#pragma unroll
        for (int j = 0; j < KVG_TILE / 8; j++) {
            uint32_t b[4];
            many_load(b, keys + part * MANY_PART_BYTES + many_place(8 * j + lane % 8, first + lane / 8));
            kvg_multiply<BF16>(z + 4 * j, a[0], a[1], a[2], a[3], b[0], b[1]);
            kvg_multiply<BF16>(z + 4 * j, a[4], a[5], a[6], a[7], b[2], b[3]);
        }
    }
}

template <int DIM, bool BF16>
static __device__ __forceinline__ void many_values(const uint32_t *p, const uint32_t *, uint32_t values, uint32_t,
                                                   bool fresh, int lane, float *o, float *)
{
    if (fresh) {
#pragma unroll
        for (int i = 0; i < DIM / 2; i++) o[i] = 0;
    }
#pragma unroll
    for (int step = 0; step < 2; step++) {
        const uint32_t *a = p + 4 * step;
#pragma unroll
        for (int j = 0; j < DIM / 8; j += 2) { /* of eight dims */
            uint32_t b[4];
            kvg_load_transposed(b, values + j / 8 * MANY_PART_BYTES + step * MANY_STEP_BYTES +
                                       many_place(lane % 16, j % 8 + lane / 16));
            kvg_multiply<BF16>(o + 4 * j, a[0], a[1], a[2], a[3], b[0], b[1]);
            kvg_multiply<BF16>(o + 4 * j + 4, a[0], a[1], a[2], a[3], b[2], b[3]);
        }
    }
}

#endif
#endif
