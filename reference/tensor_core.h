/* The tensor cores of GPUs, bit for bit on the CPU: docs/spec/numerics.md section 5. */
#ifndef KVG_REFERENCE_TENSOR_CORE_H
#define KVG_REFERENCE_TENSOR_CORE_H

#include "core/format.h"
#include "core/profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The result of mma.sync.aligned.m16n8k16.row.col.f32 on the profile's chip, for `tiles`
 * independent tiles that lie one after the other, each matrix row-major:
 *     d[16][8] = a[16][16] b[16][8] + c[16][8]
 *
 * a and b hold codes of `dtype` (f16 or bf16). d may be c. KVG_ERR_INVALID: the profile is no
 * chip's, or another dtype. */
kvg_status kvg_reference_mma(kvg_profile profile, kvg_dtype dtype, size_t tiles, const uint16_t *a, const uint16_t *b,
                             const float *c, float *d) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
