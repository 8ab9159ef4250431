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
#define CONTRACT(ENUM, leaf, exp2, widest_16) KVG_LEAF_OF_##ENUM = leaf,
#include "core/profiles.def"
};

/* How a contract forms 2^x. */
typedef enum kvg_exp2_kind {
    KVG_EXP2_POLYNOMIAL, /* docs/spec/decode-contract.md section 6 */
    KVG_EXP2_APPROX,     /* ex2.approx.ftz.f32, docs/spec/numerics.md section 9 */
} kvg_exp2_kind;

/* The shape of the instruction that profiles describe: d[M][N] = a[M][K] b[K][N] + c[M][N]. */
enum { KVG_MMA_M = 16, KVG_MMA_N = 8, KVG_MMA_K = 16 };

/* The tensor core of one chip: docs/spec/numerics.md section 5. */
typedef struct kvg_chip_info {
    uint32_t sm;            /* compute capability, major * 10 + minor; 0: no tensor core, and the rest is 0 */
    uint32_t sum_terms;     /* products of one fused sum; divides KVG_MMA_K */
    uint32_t fraction_bits; /* F: bits that a term keeps below the largest exponent of its sum */
    int32_t least_exponent; /* this largest exponent is never taken to be lower */
} kvg_chip_info;

/* What a kernel does with scores and weights. */
typedef struct kvg_contract_info {
    uint32_t leaf; /* positions of one accumulator, a multiple of KVG_ATTENTION_TILE */
    kvg_exp2_kind exp2;
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

/* Positions of a leaf of a profile; without a profile, those of simt.fma.v1. */
uint32_t kvg_profile_leaf(kvg_profile profile);

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
