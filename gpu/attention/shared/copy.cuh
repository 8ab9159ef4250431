/* Copies of op decode from the cache to shared memory, by the lane that asks for them. */
#ifndef KVG_GPU_ATTENTION_SHARED_COPY_CUH
#define KVG_GPU_ATTENTION_SHARED_COPY_CUH

#include "gpu/attention/shared/decode_args.cuh"

/* The cache streams through L2, so that partial results stay there. */
static __device__ __forceinline__ uint64_t kvg_streaming()
{
    uint64_t once;
#if __CUDA_ARCH__ == 900
    once = 0x12F0000000000000ull; /* what the instruction gives; as a constant it needs no registers */
#else
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
#endif
    return once;
}

/* Nothing comes, and zeros are written, unless `go`. */
template <int BYTES>
static __device__ __forceinline__ void kvg_copy(uint32_t to, uint64_t from, bool go, uint64_t policy)
{
    const uint32_t bytes = go ? BYTES : 0;
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;"
                     ::"r"(to), "l"(from), "r"(bytes), "l"(policy) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global.L2::cache_hint [%0], [%1], %4, %2, %3;"
                     ::"r"(to), "l"(from), "r"(bytes), "l"(policy), "n"(BYTES) : "memory");
    }
}

/* The same without the policy: for kernels of which ptxas 13.0 makes copies without a descriptor if they have one. */
template <int BYTES> static __device__ __forceinline__ void kvg_copy(uint32_t to, uint64_t from, bool go)
{
    const uint32_t bytes = go ? BYTES : 0;
    if constexpr (BYTES == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;"
                     ::"r"(to), "l"(from), "r"(bytes), "n"(BYTES) : "memory");
    }
}

/* Where a token lies: offset in its page; of the keys up to `end`. */
static __device__ __forceinline__ uint32_t kvg_offset_of(const kvg_decode_args &a, int token, int end, uint32_t *page)
{
    const kvg_fast_divisor &B = a.block_tokens;
    if (a.ring) return *page = 0, B.rest(token);
    *page = B.into(min((uint32_t)token, (uint32_t)end - 1));
    return min(token - *page * B.divisor, B.divisor - 1);
}

/* One instruction: written as a mad.wide it becomes three, and one more with what is added to a row's address. */
static __device__ __forceinline__ uint64_t kvg_row_at(uint64_t base, uint32_t index, uint32_t unit)
{
    uint64_t r;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(r) : "r"(index), "r"(unit));
    r += base;
    asm volatile("" : "+l"(r));
    return r;
}

static __device__ __forceinline__ void kvg_copies_end()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits until all but the last `LEFT` groups of the lane are there; the others' then too. */
template <int LEFT> static __device__ __forceinline__ void kvg_copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
    __syncwarp();
}

/* Whether scales of V may come in groups of four tokens (docs/spec/layouts.md section 4). */
template <class V> static constexpr bool kvg_can_group = V::BLOCK == 16;

/* Byte s of token t from row t - t mod 4 + s div (S / 4), byte s mod (S / 4) * 4 + t mod 4 of it, to row t. */
template <int S> static __device__ void kvg_ungroup_scales(uint32_t stage, int lane)
{
    uint32_t bytes[S];
#pragma unroll
    for (int s = 0; s < S; s++) {
        kvg_load_shared<1>(bytes + s, stage + (lane / 4 * 4 + s / (S / 4)) * S + s % (S / 4) * 4 + lane % 4);
    }
    __syncwarp();
#pragma unroll
    for (int s = 0; s < S; s++) kvg_store_shared8(stage + lane * S + s, bytes[s]);
    __syncwarp();
}

#endif
