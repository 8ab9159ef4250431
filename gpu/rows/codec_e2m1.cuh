/* Numbers to E2M1: eight at a time as the canonical dialects do it, or one by the rules of any dialect
 * (docs/spec/formats.md section 2.1). */
#ifndef KVG_GPU_ROWS_CODEC_E2M1_CUH
#define KVG_GPU_ROWS_CODEC_E2M1_CUH

#include "gpu/rows/codec_piece.cuh"
#include "gpu/numbers/convert_fp4.cuh"
#include "gpu/rows/row_rules.h"

/* Codes of elements 8 i ... 8 i + 7, ties to even, the sign bit kept: `scaled` gives the magnitude from that of an
 * element, below 7. */
template <kvg_dtype T, typename SCALED>
__device__ __forceinline__ uint32_t kvg_e2m1_octet(const kvg_piece<T> &x, int i, SCALED scaled)
{
    float v[8];
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
        const float2 two = x.two_magnitudes(4 * i + j / 2);
        v[j] = scaled(two.x), v[j + 1] = scaled(two.y);
    }
    return kvg_e2m1_magnitudes(v) | x.nibble_signs(i);
}

/* Codes of x / d for a piece whose magnitudes are at most amax, saturating; false where that does not do for some lane
 * of the warp. */
template <kvg_dtype T>
__device__ __forceinline__ bool kvg_e2m1_quotients(const kvg_piece<T> &x, const kvg_divisor &by, float amax,
                                                   bool canonical, uint32_t *codes)
{
    if (!__any_sync(0xFFFFFFFFu, !(by.about(amax) < 6.5f) || !canonical)) {
        for (int i = 0; i < 2; i++) codes[i] = kvg_e2m1_octet(x, i, [=](float v) { return by.divide(v); });
        return true;
    }
    if (__any_sync(0xFFFFFFFFu, !by.divides(amax) || !canonical)) return false;
    for (int i = 0; i < 2; i++) codes[i] = kvg_e2m1_octet(x, i, [=](float v) { return fminf(by.divide(v), 6); });
    return true;
}

/* One code. `sign`: whose sign counts; x: that of a NaN. */
static __device__ __forceinline__ uint32_t kvg_e2m1_by(const kvg_e2m1_rule &rule, float v, float x, float sign)
{
    if (v != v) return rule.nan == KVG_NAN_SIGNED_ZERO ? __float_as_uint(x) >> 31 << 3 : rule.nan;
    const float t = fabsf(v), midpoints[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    uint32_t code = 0;
#pragma unroll
    for (int k = 0; k < 7; k++) code += t > midpoints[k] || (t == midpoints[k] && (rule.up >> k & 1)) ? 1 : 0;
    bool negative = __float_as_uint(sign) >> 31;
    if (rule.sign == KVG_SIGN_LESS) negative = sign < 0;
    if (rule.sign == KVG_SIGN_NONZERO) negative = negative && code != 0;
    if (rule.sign == KVG_SIGN_NOTPOS) negative = !(sign > 0);
    return code | (negative ? 8 : 0);
}

#endif
