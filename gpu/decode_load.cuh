/* The loads of op decode: a warp copies its own tiles of 32 tokens from the pages of one KV head into its own stages of
 * shared memory, and waits for nobody else. A stage is K codes, V codes (2 KiB each), K scales, V scales (256 bytes
 * each). V's rows of 64 bytes are swizzled, 16-byte chunk j of row r at j ^ (r / 2 mod 4), for ldmatrix. */
#ifndef KVG_GPU_DECODE_LOAD_CUH
#define KVG_GPU_DECODE_LOAD_CUH

#include <cstdint>

#include "core/attention.h"

enum {
    KVG_TILE = KVG_ATTENTION_TILE, /* tokens */
    KVG_GROUP = 16,                /* tokens that lie one after the other in every page */
    KVG_STAGE_V = 2048,
    KVG_STAGE_K_SCALES = 4096,
    KVG_STAGE_V_SCALES = 4352,
    KVG_STAGE = 4608,
};

/* Where a pool has the rows of (block, head): codes of 64 bytes, scales of 8, token after token. */
struct kvg_decode_pools {
    const uint8_t *codes[2], *scales[2]; /* K, V */
    uint64_t code_head[2], scale_head[2];
    uint32_t code_block[2], scale_block[2];
};

/* A lane's part of the source: its 16 bytes of every row of 512. */
template <int PAGE> struct kvg_decode_source {
    uint64_t k, v, scales;
    uint32_t k_block, v_block, scale_block;
    uint32_t block;  /* of the lane's group: lane i has group i of the warp's run */
    uint32_t hidden; /* bit i: group i has no block */

    __device__ void open(const kvg_decode_pools &p, const int32_t *table, int32_t blocks, int head, int first_token,
                         int keys, int lane)
    {
        const int side = lane / 16, chunk = PAGE == KVG_GROUP ? lane % 8 : lane % 16;
        k = (uint64_t)(p.codes[0] + head * p.code_head[0] + lane * 16);
        v = (uint64_t)(p.codes[1] + head * p.code_head[1] + lane * 16);
        scales = (uint64_t)(p.scales[side] + head * p.scale_head[side] + chunk * 16);
        k_block = p.code_block[0], v_block = p.code_block[1], scale_block = p.scale_block[side];
        const int token = min(first_token + lane * KVG_GROUP, keys - 1);
        const int32_t entry = table[token / PAGE];
        hidden = __ballot_sync(~0u, entry < 0 || entry >= blocks);
        block = entry < 0 || entry >= blocks ? 0 : entry;
    }

    /* Tile t of the run to a stage, if `go`: predicated, since a branch around the copies costs more. k_to and v_to are
     * the lane's places. The cache streams through L2, so that partial results stay there. */
    __device__ void copy(int t, bool go, uint32_t k_to, uint32_t v_to, int lane) const
    {
        const uint32_t b0 = __shfl_sync(~0u, block, 2 * t);
        uint64_t k0, k1, v0, v1, s;
        if (PAGE == KVG_GROUP) {
            const uint32_t b1 = __shfl_sync(~0u, block, 2 * t + 1), b = lane & 8 ? b1 : b0;
            k0 = at(k, b0, k_block), k1 = at(k, b1, k_block), v0 = at(v, b0, v_block), v1 = at(v, b1, v_block);
            s = at(scales, b, scale_block);
        } else {
            constexpr int TILES = PAGE > KVG_TILE ? PAGE / KVG_TILE : 1;
            const uint32_t tile = t % TILES; /* of the page: runs begin with a leaf */
            k0 = at(k, b0, k_block) + tile * 2048, v0 = at(v, b0, v_block) + tile * 2048;
            k1 = k0 + 1024, v1 = v0 + 1024;
            s = at(scales, b0, scale_block) + tile * 256;
        }
        uint64_t once;
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(once));
#define COPY "@p cp.async.cg.shared.global.L2::cache_hint "
        asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %0, 0;\n"
                     COPY "[%1], [%3], 16, %8;\n" COPY "[%1+512], [%3+512], 16, %8;\n"
                     COPY "[%1+1024], [%4], 16, %8;\n" COPY "[%1+1536], [%4+512], 16, %8;\n"
                     COPY "[%2], [%5], 16, %8;\n" COPY "[%2+512], [%5+512], 16, %8;\n"
                     COPY "[%2+1024], [%6], 16, %8;\n" COPY "[%2+1536], [%6+512], 16, %8;\n"
                     COPY "[%1+4096], [%7], 16, %8;\n}"
                     ::"r"((int)go), "r"(k_to), "r"(v_to), "l"(k0), "l"(k1), "l"(v0), "l"(v1), "l"(s), "l"(once)
                     : "memory");
#undef COPY
    }

    static __device__ uint64_t at(uint64_t base, uint32_t b, uint32_t stride)
    {
        uint64_t r;
        asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(r) : "r"(b), "r"(stride), "l"(base));
        return r;
    }
};

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

#endif
