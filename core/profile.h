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
#define PROFILE(ENUM, name, id, sm, sum_terms, fraction_bits, least_exponent, summary) KVG_PROFILE_##ENUM = id,
#include "core/profiles.def"
#undef PROFILE
    KVG_PROFILE_END /* one past the largest id */
} kvg_profile;

/* The shape of the instruction that profiles describe: d[M][N] = a[M][K] b[K][N] + c[M][N]. */
enum { KVG_MMA_M = 16, KVG_MMA_N = 8, KVG_MMA_K = 16 };

typedef struct kvg_profile_info {
    kvg_profile profile;
    const char *name;
    uint32_t sm;            /* compute capability, major * 10 + minor; 0: no tensor core, and the rest is 0 */
    uint32_t sum_terms;     /* products of one fused sum; divides KVG_MMA_K */
    uint32_t fraction_bits; /* F: bits that a term keeps below the largest exponent of its sum */
    int32_t least_exponent; /* this largest exponent is never taken to be lower */
    const char *summary;
} kvg_profile_info;

/* The table, in id order; *count rows. */
const kvg_profile_info *kvg_profile_table(size_t *count);

/* The row of `profile`; NULL for values outside the table. */
const kvg_profile_info *kvg_profile_get(kvg_profile profile);

/* True for the profile of a chip's tensor core. The other profiles hold on every chip. */
static inline bool kvg_profile_is_chip(const kvg_profile_info *info)
{
    return info->sm != 0;
}

/* Looks up a name exactly as in the table. KVG_ERR_NOT_FOUND lists the known names. */
kvg_status kvg_profile_find(const char *name, kvg_profile *out) KVG_CHECKED;

/* The profile of a chip. KVG_ERR_NOT_FOUND: no row describes it. */
kvg_status kvg_profile_of_sm(uint32_t sm, kvg_profile *out) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
