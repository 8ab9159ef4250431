/* Op decode for many query rows: a CTA takes item after item. Four warps fill stages with
 * operands of K and V. One group of four warps multiplies, or three, each with 64 rows of a band;
 * where K and V share rows, two with the same rows. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_KERNEL_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_KERNEL_CUH

#include "gpu/attention/many/many.h"
#include "gpu/attention/many/many_fill.cuh"
#include "gpu/attention/many/many_rows.cuh"
#include "gpu/attention/shared/small_chip.cuh"

/* Registers of a lane that fills and of one that multiplies: on Hopper the ones give theirs to the
 * others. Only so are there enough for three groups, or for two CTAs of one: elsewhere the kernels
 * of several groups are empty, which their THREADS tell the host. So are those that no small chip has
 * shared memory for. */
template <int DIM, int GROUPS> struct many_registers {
    static constexpr bool SHARED_ROW = many_memory<DIM>::SHARED_ROW;
    static constexpr bool MOVED = KVG_HAS_WGMMA && (DIM <= 128 || SHARED_ROW);
    static constexpr bool EMPTY = (GROUPS > 1 && !MOVED) || (DIM == MANY_MOST_DIM && KVG_SMALL_CHIP);
    static constexpr int CTAS = MOVED && GROUPS == 1 ? 2 : 1;
    static constexpr int THREADS = EMPTY ? KVG_WARP : KVG_WARP * (MANY_FILLERS + 4 * GROUPS);
    static constexpr int FILL = GROUPS == 3 && DIM == 128 ? 80 : 104,
                         ROWS = SHARED_ROW ? 200 : GROUPS == 1 ? 152 : DIM == 128 ? 144 : 136;
};

template <bool FEWER, int REGISTERS> static __device__ __forceinline__ void many_set_registers()
{
#if KVG_HAS_WGMMA
    if (FEWER) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
    else asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
#endif
}

/* The items of a CTA: `work` is given each that has keys or outputs, and its index. */
template <class WORK> static __device__ __forceinline__ void many_each_item(const many_args &a, const WORK &work)
{
    const uint32_t bands = (uint32_t)a.list[0].x, all = bands * a.kv_heads, items = many_items(&a.cut, all);
#pragma unroll 1
    for (uint32_t index = blockIdx.x; index < items; index += gridDim.x) {
        const many_item item = many_find_item(a, many_piece_of(&a.cut, all, index), bands);
        if (!item.skipped) work(index, item);
    }
}

/* PADDED: head_dim may be any multiple of 16 up to DIM (many_padded.cuh). */
template <int DIM, bool BF16, bool ROW_SCALES, int GROUPS, bool PADDED = false>
static __global__ void __launch_bounds__(many_registers<DIM, GROUPS>::THREADS, many_registers<DIM, GROUPS>::CTAS)
    kvg_decode_many(const __grid_constant__ many_args a)
{
    typedef many_registers<DIM, GROUPS> registers;
    if constexpr (registers::EMPTY) return;
    extern __shared__ uint8_t shared[];
    const many_memory<DIM> memory = {((uint32_t)__cvta_generic_to_shared(shared) + 1023) / 1024 * 1024};
    const int lane = threadIdx.x % KVG_WARP, warp = __shfl_sync(~0u, threadIdx.x / KVG_WARP, 0);
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < a.stages; i++) {
            /* A lane's arrival, and that of its copies into the stage. */
            many_barrier_open(memory.full(i), (a.raw ? 1 : 2) * 2 * KVG_WARP);
            many_barrier_open(memory.empty(i), 4 * GROUPS * KVG_WARP);
        }
        many_fence();
    }
    if constexpr (many_l_beside<many_memory<DIM>::COLUMNS>) {
        many_put_ones<BF16>(memory.ones());
        many_fence();
    }
    if constexpr (PADDED) {
        const uint32_t zeros[4] = {};
        for (uint32_t i = threadIdx.x * 16; i < a.stages * memory.SIDE; i += blockDim.x * 16) {
            kvg_store_shared<16>(memory.tile(a, KVG_K, 0) + i, zeros);
        }
        many_fence();
    }
    __syncthreads();
    kvg_start_kernel_after();
    kvg_wait_for_kernel_before();
    many_turn turn = {};
    if (warp < MANY_FILLERS) {
        if constexpr (registers::MOVED) many_set_registers<true, registers::FILL>();
        constexpr kvg_dtype T = BF16 ? KVG_DTYPE_BF16 : KVG_DTYPE_F16;
        typedef std::conditional_t<BF16, many_bf16_formats, many_f16_formats> own_row_formats;
        typedef std::conditional_t<BF16, many_shared_bf16_formats, many_shared_f16_formats> shared_row_formats;
        typedef std::conditional_t<registers::SHARED_ROW, shared_row_formats,
                                   std::conditional_t<ROW_SCALES, many_row_scale_formats, own_row_formats>>
            formats;
        many_each_item(a, [&](uint32_t, const many_item &item) {
            const uint32_t filler = warp;
            if (warp < MANY_FILLERS / 2)
                formats::template fill<T, DIM, PADDED, KVG_K>(a, memory, item, turn, filler, lane);
            else formats::template fill<T, DIM, PADDED, KVG_V>(a, memory, item, turn, filler, lane);
        });
    } else {
        if constexpr (registers::MOVED) many_set_registers<false, registers::ROWS>();
        many_each_item(a, [&](uint32_t index, const many_item &item) {
            many_add_item<DIM, BF16, ROW_SCALES, PADDED>(a, memory, item, index, turn, warp - MANY_FILLERS, lane);
        });
    }
}

#endif
