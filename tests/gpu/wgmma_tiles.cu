#include "tests/gpu/wgmma_tiles.h"

#include "core/profile.h"
#include "gpu/device/cuda_status.cuh"
#include "gpu/attention/many/wgmma.cuh"

namespace {

enum { GROUP = 4, THREADS = 128, ROW_BYTES = 128, TILE_BYTES = 64 * ROW_BYTES, PART_BYTES = 16 * ROW_BYTES };
constexpr size_t A = KVG_MMA_M * KVG_MMA_K, B = KVG_MMA_K * KVG_MMA_N, C = KVG_MMA_M * KVG_MMA_N;

__global__ void has_wgmma(uint32_t *out)
{
    *out = KVG_HAS_WGMMA;
}

#if KVG_HAS_WGMMA
/* Where element `element` of row `row` lies: exchanged chunks of 16 bytes (gpu/attention/many/wgmma.cuh), in parts of
 * 64 elements of 16 rows if there are several. */
__device__ uint32_t place(uint32_t row, uint32_t element)
{
    return element / 64 * PART_BYTES + row * ROW_BYTES + ((element / 8 % 8 ^ row % 8) * 8 + element % 8) * 2;
}
#endif

/* A warpgroup for four tiles. By columns, as op decode multiplies q and K: a and b are in shared
 * memory, 64 and 32 rows of 64 elements, of which 16 are multiplied. By rows, as it multiplies
 * weights and V: a is in registers, b is 16 rows of 64 or 128 columns, of which the tiles have 32. By eight
 * columns, as it sums weights: a is in registers, each tile has a b of its own. */
template <bool BF16, wgmma_way WAY>
__global__ void __launch_bounds__(THREADS)
    multiply_tiles(bool fresh, const uint16_t *all_a, const uint16_t *all_b, const float *all_c, float *all_d)
{
#if KVG_HAS_WGMMA
    __shared__ __align__(1024) uint8_t a_tile[TILE_BYTES], b_tile[TILE_BYTES];
    constexpr bool ROWS = WAY == WGMMA_ROWS || WAY == WGMMA_ROWS_128, EIGHT = WAY == WGMMA_EIGHT;
    constexpr int BLOCKS = WAY == WGMMA_ROWS_128 ? 16 : ROWS ? 8 : EIGHT ? 1 : 4; /* of eight columns of d */
    const size_t first = (size_t)blockIdx.x * GROUP;
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const uint32_t columns = ROWS ? blockIdx.x % (BLOCKS / 4) * 32 : 0, /* the first of the tiles' */
        part = ROWS || EIGHT ? 0 : blockIdx.x % 4;                      /* of elements */
    for (uint32_t i = threadIdx.x; i < TILE_BYTES; i += THREADS) a_tile[i] = b_tile[i] = 0xFF; /* NaN besides */
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < GROUP * B; i += THREADS) {
        const uint32_t column = columns + i / B * KVG_MMA_N + i % KVG_MMA_N, k = i % B / KVG_MMA_N;
        const uint32_t to = EIGHT ? i / B * B * 2 + (k / 8 * KVG_MMA_N + i % KVG_MMA_N) * 16 + k % 8 * 2
                            : ROWS ? place(k, column)
                                   : place(column, part * KVG_MMA_K + k);
        *(uint16_t *)(b_tile + to) = all_b[(first + i / B) * B + i % B];
    }
    for (uint32_t i = threadIdx.x; i < GROUP * A; i += THREADS) { /* rows of all four, one after the other */
        *(uint16_t *)(a_tile + place(i / KVG_MMA_K, part * KVG_MMA_K + i % KVG_MMA_K)) = all_a[first * A + i];
    }
    const uint16_t *tile_a = all_a + (first + warp) * A;
    const size_t tile_c = (first + warp) * C;
    const uint32_t mine = EIGHT ? 0 : columns / KVG_MMA_N + warp;
    uint32_t a[4];
    for (int i = 0; i < 4; i++) {
        a[i] = *(const uint32_t *)(tile_a + (g + i % 2 * 8) * KVG_MMA_K + 2 * t + i / 2 * 8);
    }
    float d[BLOCKS * 4];
#pragma unroll
    for (int i = 0; i < BLOCKS * 4; i++) {
        const float c = all_c[tile_c + (g + i % 4 / 2 * 8) * KVG_MMA_N + 2 * t + i % 2];
        d[i] = fresh ? __int_as_float(0x7FFFFFFF) : (uint32_t)i / 4 == mine ? c : 0;
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    const uint64_t tile = kvg_wgmma_further(kvg_wgmma_tile((uint32_t)__cvta_generic_to_shared(b_tile), PART_BYTES),
                                              part * 32);
    kvg_wgmma_begin();
    if constexpr (ROWS) {
        kvg_wgmma_rows<BF16, BLOCKS * 8>(d, a, tile, !fresh);
    } else if constexpr (EIGHT) {
        const float first_d[4] = {d[0], d[1], d[2], d[3]};
        for (uint32_t i = 0; i < GROUP; i++) { /* the group multiplies by one b after the other */
            float of_tile[4] = {first_d[0], first_d[1], first_d[2], first_d[3]};
            kvg_wgmma_begin();
            kvg_wgmma_eight<BF16>(of_tile, a, (uint32_t)__cvta_generic_to_shared(b_tile) + i * (uint32_t)B * 2);
            kvg_wgmma_end();
            kvg_wgmma_wait<0>();
            for (uint32_t j = 0; j < 4; j++) d[j] = i == warp ? of_tile[j] : d[j];
        }
    } else {
        const uint64_t q = kvg_wgmma_further(kvg_wgmma_tile((uint32_t)__cvta_generic_to_shared(a_tile)), part * 32);
        kvg_wgmma_columns<BF16>(d, q, tile, !fresh);
    }
    kvg_wgmma_end();
    kvg_wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < BLOCKS * 4; i++) {
        if ((uint32_t)i / 4 == mine) all_d[tile_c + (g + i % 4 / 2 * 8) * KVG_MMA_N + 2 * t + i % 2] = d[i];
    }
#endif
}

kvg_status check_wgmma()
{
    uint32_t *device = nullptr, got = 0;
    kvg_status s = kvg_gpu_alloc(sizeof *device, (void **)&device);
    if (s) return s;
    has_wgmma<<<1, 1>>>(device);
    s = kvg_cuda_status("wgmma", cudaGetLastError());
    if (!s) s = kvg_gpu_download(&got, device, sizeof got, nullptr);
    kvg_gpu_free(device);
    if (!s && !got) s = kvg_fail(KVG_ERR_UNIMPLEMENTED, "this build has no wgmma for this GPU: only sm_90a has it");
    return s;
}

} // namespace

kvg_status wgmma_tiles(kvg_dtype dtype, wgmma_way way, bool fresh, size_t tiles, const uint16_t *a, const uint16_t *b,
                       const float *c, float *d, kvg_stream *stream)
{
    kvg_status s = check_wgmma();
    if (s) return s;
    if (tiles % GROUP)
        return kvg_fail(KVG_ERR_INVALID, "wgmma takes %d tiles at once, %zu are no multiple", GROUP, tiles);
    const bool bf16 = dtype == KVG_DTYPE_BF16;
    typedef void (*kernel_of_way)(bool, const uint16_t *, const uint16_t *, const float *, float *);
    static const kernel_of_way kernels[][2] = {
        {multiply_tiles<false, WGMMA_COLUMNS>, multiply_tiles<true, WGMMA_COLUMNS>},
        {multiply_tiles<false, WGMMA_ROWS>, multiply_tiles<true, WGMMA_ROWS>},
        {multiply_tiles<false, WGMMA_ROWS_128>, multiply_tiles<true, WGMMA_ROWS_128>},
        {multiply_tiles<false, WGMMA_EIGHT>, multiply_tiles<true, WGMMA_EIGHT>},
    };
    kernels[way][bf16]<<<(unsigned)(tiles / GROUP), THREADS, 0, (cudaStream_t)stream>>>(fresh, a, b, c, d);
    return kvg_cuda_status("wgmma", cudaGetLastError());
}
