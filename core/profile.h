/* Profiles: the arithmetic that fixes an answer bit for bit. The table is core/profiles.def. The
 * contracts are docs/spec/numerics.md section 5 for tensor cores, and docs/spec/simt-contract.md
 * for the profile that needs none. */
#ifndef KVG_CORE_PROFILE_H
#define KVG_CORE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvg_profile {
    KVG_PROFILE_NONE = 0, /* the exact answer */
#define PROFILE(ENUM, name, id, chip, contract, summary) KVG_PROFILE_##ENUM = id,
#include "core/profiles.def"
    KVG_PROFILE_END /* one past the largest id */
} kvg_profile;

/* Positions of a contract's leaf, for code that must know them when it is compiled. */
enum {
#define CONTRACT(ENUM, operands, tile, leaf, ...) KVG_LEAF_OF_##ENUM = leaf,
#include "core/profiles.def"
};

/* How a contract forms 2^x. */
typedef enum kvg_exp2_kind {
    KVG_EXP2_POLYNOMIAL, /* docs/spec/decode-contract.md section 6 */
    KVG_EXP2_APPROX,     /* ex2.approx.ftz.f32, docs/spec/numerics.md section 9 */
    KVG_EXP2_APPROX_E,   /* e^x: ex2.approx.f32 of RN(x log2 e) */
} kvg_exp2_kind;

typedef enum kvg_operands_kind {
    KVG_OPERANDS_HELD,    /* in f16 or bf16, docs/spec/decode-contract.md section 2 */
    KVG_OPERANDS_WIDENED, /* in f32, docs/spec/simt-contract.md section 1 */
    KVG_OPERANDS_STORED,  /* the codes of the cache */
    KVG_OPERANDS_THREADS, /* the codes, in f32, their products added by threads, docs/spec/other-kernels.md section 4 */
} kvg_operands_kind;

typedef enum kvg_tile_order { KVG_TILES_FIRST_UP, KVG_TILES_LAST_DOWN } kvg_tile_order;

/* The score factor c, from the scale of the problem. */
typedef enum kvg_factor_kind {
    KVG_FACTOR_ROUNDED, /* RN(RN(RN(scale) log2 e) g_K), with K's tensor scale g_K */
    KVG_FACTOR_ONCE,    /* RN(RN(scale log2 e) g_K) */
    KVG_FACTOR_WIDE,    /* RN(scale g_K RN(log2 e)), products in binary64 */
    KVG_FACTOR_PLAIN,   /* RN(scale): weights are powers of e */
} kvg_factor_kind;

/* What a softcap does to a score. */
typedef enum kvg_cap_kind {
    KVG_CAP_EXP2,     /* docs/spec/decode-contract.md section 5 */
    KVG_CAP_TANH,     /* tanh.approx, docs/spec/other-kernels.md section 2.1 */
    KVG_CAP_QUOTIENT, /* 1 - 2 / (e^2y + 1), section 5 */
    KVG_CAP_SIGMOID,  /* 2 / (1 + e^-2y) - 1, section 6 */
    KVG_CAP_NONE,     /* the kernel has none */
} kvg_cap_kind;

/* When a sink joins its row. */
typedef enum kvg_sinks_kind {
    KVG_SINKS_LAST,
    KVG_SINKS_NARROW, /* last, and sinks are bf16 numbers */
    KVG_SINKS_FIRST,  /* m starts as the sink */
    KVG_SINKS_NONE,   /* not known */
} kvg_sinks_kind;

/* The exponent of a weight, from the dot product S, the score factor c and the reference point m. */
typedef enum kvg_exponent_kind {
    KVG_EXPONENT_SUBTRACTED, /* RN(RN(S c) - m) */
    KVG_EXPONENT_FUSED,      /* fma(S, c, -RN(m c)) */
    KVG_EXPONENT_SUBTRACTED_ALL, /* RN(RN(S c) - m); the factor by which sums follow m is formed at each tile */
    KVG_EXPONENT_FUSED_ALL,  /* also that of the factor by which sums follow m: fma(m, c, -RN(new m c)), at each tile */
} kvg_exponent_kind;

/* What l, the sum of the weights, adds. */
typedef enum kvg_weights_kind {
    KVG_WEIGHTS_AS_VALUES, /* the rounded weights, as if they were multiplied by a V of 1 */
    KVG_WEIGHTS_IN_ORDER,  /* the weights in f32, position by position */
    KVG_WEIGHTS_BY_LANE,   /* the weights in f32, in four lanes: lane j has positions 8 i + 2 j and 8 i + 2 j + 1 */
    KVG_WEIGHTS_JOINED,    /* position by position; sums follow m as the first weight of a tile joins them */
    KVG_WEIGHTS_BY_WARP,   /* the weights in f32, a tile in a tree; l follows m as the tile joins it */
} kvg_weights_kind;

typedef enum kvg_end_kind {
    KVG_END_DIVIDED,    /* docs/spec/decode-contract.md section 9 */
    KVG_END_RECIPROCAL, /* docs/spec/other-kernels.md section 1.4 */
    KVG_END_PARTS,      /* section 2.4 */
    KVG_END_LOG2,       /* section 3 */
    KVG_END_STATES,     /* section 4 */
    /* Without LSE: */
    KVG_END_QUOTIENT,   /* section 5, without segments */
    KVG_END_SEGMENTS,   /* section 5 */
    KVG_END_NATURAL,    /* section 6 */
} kvg_end_kind;

/* Most pieces that a kernel of another project cuts a row into, most positions of a tile, pieces of END_SEGMENTS. */
enum { KVG_MOST_SPLITS = 32, KVG_MOST_TILE = 256, KVG_SEGMENTS = 16 };

/* The shape of the instruction that profiles describe: d[M][N] = a[M][K] b[K][N] + c[M][N]. */
enum { KVG_MMA_M = 16, KVG_MMA_N = 8, KVG_MMA_K = 16 };

/* The tensor core of one chip: docs/spec/numerics.md section 5. */
typedef struct kvg_chip_info {
    uint32_t sm;            /* compute capability, major * 10 + minor; 0: no tensor core, and the rest is 0 */
    uint32_t sum_terms;     /* products of one fused sum; divides KVG_MMA_K */
    uint32_t fraction_bits; /* F: bits that a term keeps below the largest exponent of its sum */
    int32_t least_exponent; /* this largest exponent is never taken to be lower */
    uint32_t sum_terms_8, fraction_bits_8; /* of products of e4m3: docs/spec/numerics.md section 5.4; 0: not known */
} kvg_chip_info;

/* What a kernel does with operands, scores and weights. */
typedef struct kvg_contract_info {
    kvg_operands_kind operands;
    uint32_t tile; /* positions between two looks at the maximum; 0: kvg_profile_tiling says it */
    uint32_t leaf; /* positions of one accumulator, a multiple of tile; 0: one for the whole row */
    kvg_tile_order order;
    kvg_factor_kind factor;
    kvg_cap_kind cap;
    kvg_exponent_kind exponent;
    kvg_exp2_kind exp2;
    uint32_t rise; /* how far, in log2 units, a score may lie above m before the row is rescaled */
    kvg_weights_kind weights;
    kvg_sinks_kind sinks;
    kvg_end_kind end;
    uint32_t widest_16; /* elements in the widest segment of a row of 16-bit codes; 0: products are added one by one */
} kvg_contract_info;

typedef struct kvg_profile_info {
    kvg_profile profile;
    const char *name;
    const kvg_chip_info *chip;
    const kvg_contract_info *contract;
    const char *summary;
} kvg_profile_info;

/* The table, in id order; *count rows. */
const kvg_profile_info *kvg_profile_table(size_t *count);

/* The row of `profile`; NULL for values outside the table. */
const kvg_profile_info *kvg_profile_get(kvg_profile profile);

/* Positions after which a row's arithmetic begins anew: a leaf, or a tile where a contract has no leaves; without a
 * profile, a leaf of simt.fma.v1. */
uint32_t kvg_profile_leaf(kvg_profile profile);

/* What a kernel chooses its tiles by. */
typedef struct kvg_call_shape {
    bool one_token;     /* every sequence has one query token */
    uint32_t window;    /* keys; 0: all */
    uint32_t mean_rows; /* of q, of a KV head and a sequence, rounded down */
} kvg_call_shape;

typedef enum kvg_block_rows { KVG_BLOCK_OF_KV, KVG_BLOCK_OF_QUERY, KVG_BLOCK_OF_TOKENS } kvg_block_rows;

typedef struct kvg_tiling {
    uint32_t tile;          /* positions; 0: the contract has no such rows */
    uint32_t parts;         /* sums of a row: tile n belongs to part n mod parts */
    uint32_t rows;          /* of a block that is walked as a whole; 0: each row is walked by itself */
    kvg_block_rows of_head; /* rows of a KV head, token by token; of one query head; of a KV head, whole tokens */
} kvg_tiling;

kvg_tiling kvg_profile_tiling(kvg_profile profile, uint32_t element_bits, uint32_t head_dim,
                              const kvg_call_shape *call);

/* The profile is a contract of this project, and not another project's kernel. */
static inline bool kvg_profile_is_own(const kvg_profile_info *info)
{
    return info->contract->operands == KVG_OPERANDS_HELD || info->contract->operands == KVG_OPERANDS_WIDENED;
}

/* The kernel gives an LSE beside its outputs. */
static inline bool kvg_profile_gives_lse(const kvg_profile_info *info)
{
    return info->contract->end < KVG_END_QUOTIENT;
}

/* True for the profile of a chip's tensor core. The other profiles hold on every chip. */
static inline bool kvg_profile_is_chip(const kvg_profile_info *info)
{
    return info->chip->sm != 0;
}

/* Looks up a name exactly as in the table. KVG_ERR_NOT_FOUND lists the known names. */
kvg_status kvg_profile_find(const char *name, kvg_profile *out) KVG_CHECKED;

/* The newest profile of a chip, whose bits the CUDA kernels give there. KVG_ERR_NOT_FOUND: no row
 * describes it. */
kvg_status kvg_profile_of_sm(uint32_t sm, kvg_profile *out) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
