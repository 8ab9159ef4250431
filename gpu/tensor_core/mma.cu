/* The matrix instruction itself, one warp per tile. Lane l = 4 g + t of a warp holds (PTX ISA, mma.m16n8k16):
 *   a  registers 0 ... 3: rows g, g + 8, g, g + 8; columns 2t, 2t + 1 (0, 1) and 2t + 8, 2t + 9 (2, 3)
 *   b  registers 0, 1: column g; rows 2t, 2t + 1 and 2t + 8, 2t + 9
 *   c, d  registers 0, 1: row g, columns 2t, 2t + 1; 2, 3: row g + 8 */
#include "gpu/gpu.h"

#include <cstdint>

#include "core/format.h"
#include "core/profile.h"
#include "gpu/device/cuda_status.cuh"

namespace {

enum { WARP = 32, BLOCK = 256 };
constexpr size_t A = KVG_MMA_M * KVG_MMA_K, B = KVG_MMA_K * KVG_MMA_N, C = KVG_MMA_M * KVG_MMA_N;

/* Elements (row, column) and (row, column + 1) of a, the first in the low half. */
__device__ uint32_t pair_of_a(const uint16_t *a, int row, int column)
{
    return *(const uint32_t *)(a + row * KVG_MMA_K + column);
}

/* Elements (row, column) and (row + 1, column) of b. */
__device__ uint32_t pair_of_b(const uint16_t *b, int row, int column)
{
    return b[row * KVG_MMA_N + column] | (uint32_t)b[(row + 1) * KVG_MMA_N + column] << 16;
}

#define MMA(TYPE)                                                                                                 \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 "                                   \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                            \
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                 \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),        \
                   "f"(c[2]), "f"(c[3]))

template <kvg_dtype DTYPE>
__global__ void __launch_bounds__(BLOCK)
mma_tiles(size_t tiles, const uint16_t *all_a, const uint16_t *all_b, const float *all_c, float *all_d)
{
    const size_t tile = ((size_t)blockIdx.x * BLOCK + threadIdx.x) / WARP;
    const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    if (tile >= tiles) return; /* whole warps */
    const uint16_t *tile_a = all_a + tile * A, *tile_b = all_b + tile * B;
    const float *tile_c = all_c + tile * C;
    float *tile_d = all_d + tile * C;

    uint32_t a[4], b[2];
    float c[4], d[4];
    for (int i = 0; i < 4; i++) a[i] = pair_of_a(tile_a, g + i % 2 * 8, 2 * t + i / 2 * 8);
    for (int i = 0; i < 2; i++) b[i] = pair_of_b(tile_b, 2 * t + i * 8, g);
    for (int i = 0; i < 4; i++) c[i] = tile_c[(g + i / 2 * 8) * KVG_MMA_N + 2 * t + i % 2];
    if (DTYPE == KVG_DTYPE_F16) MMA("f16");
    else MMA("bf16");
    for (int i = 0; i < 4; i++) tile_d[(g + i / 2 * 8) * KVG_MMA_N + 2 * t + i % 2] = d[i];
}

} // namespace

kvg_status kvg_gpu_mma(kvg_dtype dtype, size_t tiles, const uint16_t *a, const uint16_t *b, const float *c, float *d,
                       kvg_stream *stream)
{
    const size_t blocks = (tiles * WARP + BLOCK - 1) / BLOCK;
    if (dtype != KVG_DTYPE_F16 && dtype != KVG_DTYPE_BF16) {
        return kvg_fail(KVG_ERR_INVALID, "mma has no operands of type %s: use f16 or bf16", kvg_dtype_name(dtype));
    }
    if (blocks > INT32_MAX) return kvg_fail(KVG_ERR_INVALID, "%zu tiles are too many for one launch", tiles);
    if (tiles == 0) return KVG_OK;
    const auto kernel = dtype == KVG_DTYPE_F16 ? mma_tiles<KVG_DTYPE_F16> : mma_tiles<KVG_DTYPE_BF16>;
    kernel<<<(unsigned)blocks, BLOCK, 0, (cudaStream_t)stream>>>(tiles, a, b, c, d);
    return kvg_cuda_status("mma", cudaGetLastError());
}
