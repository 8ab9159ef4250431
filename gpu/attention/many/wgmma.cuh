/* Hopper's wgmma: a warpgroup (four warps) multiplies 64 rows by a tile in shared memory.
 *
 * The sums are those of mma.sync (docs/spec/numerics.md section 5): one fused sum of 16 products and c for each output.
 * test_gpu_mma shows it. Warp w of the group has rows 16 w ... 16 w + 15; its fragments of a and d are mma.sync's:
 * lane 4 g + c holds in d[4 j + i] row g + 8 (i / 2), column 8 j + 2 c + i % 2.
 *
 * The instruction runs beside the warp: kvg_wgmma_begin before the first of a series, kvg_wgmma_end after the last,
 * and no register of it is touched before kvg_wgmma_wait. Only targets with an `a` have it (sm_90a). */
#ifndef KVG_GPU_ATTENTION_MANY_WGMMA_CUH
#define KVG_GPU_ATTENTION_MANY_WGMMA_CUH

#include <cstdint>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define KVG_HAS_WGMMA 1
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900 /* its kernels would do nothing, and say nothing */
#error "sm_90 has no wgmma, sm_90a has: configure with -DKVGOLD_CUDA_SMS=90, or with CMAKE_CUDA_ARCHITECTURES=90a-real"
#else
#define KVG_HAS_WGMMA 0
#endif

#if KVG_HAS_WGMMA

static __device__ __forceinline__ void kvg_wgmma_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ __forceinline__ void kvg_wgmma_end()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/* Waits until at most LEFT series are not done. */
template <int LEFT> static __device__ __forceinline__ void kvg_wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

/* What the instruction is told of a tile in shared memory (PTX ISA, "matrix descriptor"). A row of
 * the tile has 128 bytes in 16-byte chunks, chunk i of row r at place i ^ (r % 8); eight rows are a
 * block of 1,024 bytes that starts at a multiple of 1,024. `at` is where the first row's part
 * begins: 32 bytes further are the next 16 elements of every row. `part`: bytes to the same rows'
 * next 64 columns, which kvg_wgmma_rows of more than 64 alone reads. */
static __device__ __forceinline__ uint64_t kvg_wgmma_tile(uint32_t at, uint32_t part = 1024)
{
    constexpr uint64_t block = 1024 >> 4, exchanged = 1; /* bytes to the next block; the pattern of the chunks */
    return (uint64_t)(at >> 4 & 0x3FFF) | (uint64_t)(part >> 4) << 16 | block << 32 | exchanged << 62;
}

/* The same tile from `bytes` further on. The address is in the lowest 14 bits, in units of 16
 * bytes, and shared memory ends below 2^18 bytes: no carry. */
static __device__ __forceinline__ uint64_t kvg_wgmma_further(uint64_t tile, uint32_t bytes)
{
    uint32_t low, high;
    asm("mov.b64 {%0, %1}, %2;" : "=r"(low), "=r"(high) : "l"(tile));
    low += bytes >> 4;
    asm("mov.b64 %0, {%1, %2};" : "=l"(tile) : "r"(low), "r"(high));
    return tile;
}

/* Sixteen registers of d, from the I-th on. */
#define KVG_WGMMA_SIXTEEN(I) KVG_WGMMA_FOUR(I), KVG_WGMMA_FOUR(I + 4), KVG_WGMMA_FOUR(I + 8), KVG_WGMMA_FOUR(I + 12)
#define KVG_WGMMA_FOUR(I) "+f"(d[I]), "+f"(d[I + 1]), "+f"(d[I + 2]), "+f"(d[I + 3])

/* The instruction for 32 columns with operands of TYPE; an asm statement takes only a literal. */
#define KVG_WGMMA_COLUMNS(TYPE)                                                             \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %18, 0;\n"                           \
                 "wgmma.mma_async.sync.aligned.m64n32k16.f32." TYPE "." TYPE " "            \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, " \
                 "%16, %17, add, 1, 1, 0, 0;\n}"                                            \
                 : KVG_WGMMA_SIXTEEN(0)                                                     \
                 : "l"(a), "l"(b), "r"((int)add))

/* d += a b, or d = a b unless `add`, for 32 columns: d[16]. Rows of the tiles are rows of a,
 * columns of b: 16 elements of each. */
template <bool BF16>
static __device__ __forceinline__ void kvg_wgmma_columns(float *d, uint64_t a, uint64_t b, bool add)
{
    if constexpr (BF16) KVG_WGMMA_COLUMNS("bf16");
    else KVG_WGMMA_COLUMNS("f16");
}

/* The instruction for 64 columns, and for 128. */
#define KVG_WGMMA_ROWS_64(TYPE)                                                                      \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"                                    \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " "                     \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " \
                 "{%32, %33, %34, %35}, %36, add, 1, 1, 1;\n}"                                       \
                 : KVG_WGMMA_SIXTEEN(0), KVG_WGMMA_SIXTEEN(16)                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add))
#define KVG_WGMMA_ROWS_128(TYPE)                                                                             \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %69, 0;\n"                                            \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " "                            \
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                   \
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "          \
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "          \
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "         \
                 "{%64, %65, %66, %67}, %68, add, 1, 1, 1;\n}"                                               \
                 : KVG_WGMMA_SIXTEEN(0), KVG_WGMMA_SIXTEEN(16), KVG_WGMMA_SIXTEEN(32), KVG_WGMMA_SIXTEEN(48) \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add))

/* d += a b, or d = a b unless `add`, for 64 columns or 128: d[COLUMNS / 2]. a[4] is a fragment of 16 elements of
 * each row; rows of the tile are rows of b, [16][64] for each part of 64 columns. */
template <bool BF16, int COLUMNS>
static __device__ __forceinline__ void kvg_wgmma_rows(float *d, const uint32_t *a, uint64_t b, bool add)
{
    static_assert(COLUMNS == 64 || COLUMNS == 128, "what has an instruction here");
    if constexpr (BF16 && COLUMNS == 64) KVG_WGMMA_ROWS_64("bf16");
    else if constexpr (COLUMNS == 64) KVG_WGMMA_ROWS_64("f16");
    else if constexpr (BF16) KVG_WGMMA_ROWS_128("bf16");
    else KVG_WGMMA_ROWS_128("f16");
}

/* The instruction for 8 columns. */
#define KVG_WGMMA_EIGHT(TYPE)                                                       \
    asm volatile("{\n.reg .pred add;\nsetp.eq.b32 add, 0, 0;\n"                    \
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32." TYPE "." TYPE " "     \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, add, 1, 1, 0;\n}"         \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                   \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

/* d += a b, for 8 columns: d[4]. a[4] is a fragment of 16 elements of each row; b is [8][16], in two blocks
 * of eight rows of 16 bytes each, one behind the other. */
template <bool BF16> static __device__ __forceinline__ void kvg_wgmma_eight(float *d, const uint32_t *a, uint32_t b_at)
{
    constexpr uint64_t block = 128 >> 4; /* bytes of a block; chunks are not exchanged */
    const uint64_t b = (uint64_t)(b_at >> 4 & 0x3FFF) | block << 16 | block << 32;
    if constexpr (BF16) KVG_WGMMA_EIGHT("bf16");
    else KVG_WGMMA_EIGHT("f16");
}

#endif
#endif
