/* Profiles: the arithmetic that fixes an answer bit for bit. The table is core/profiles.def. The
 * contracts are docs/spec/numerics.md section 5 for tensor cores, and docs/spec/simt-contract.md
 * for the profile that needs none. */
#ifndef KVG_CORE_PROFILE_H
#define KVG_CORE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/contract.h"
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

/* Most pieces that a kernel of another project cuts a row into, most positions of a tile, pieces of PIECES_SEGMENTS,
 * tiles of PIECES_IN_TURN. */
enum { KVG_MOST_SPLITS = 32, KVG_MOST_TILE = 256, KVG_SEGMENTS = 16, KVG_RUN = 4 };

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
