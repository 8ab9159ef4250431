/* A block of nvfp4 in any dialect: the columns of the table of docs/spec/formats.md section 8. */
#ifndef KVG_GPU_ROWS_CODEC_NVFP4_CUH
#define KVG_GPU_ROWS_CODEC_NVFP4_CUH

#include <cfloat>

#include "gpu/numbers/convert.cuh"
#include "gpu/rows/row_rules.h"

struct kvg_nvfp4_block {
    uint32_t byte;

    __device__ kvg_nvfp4_block(const kvg_nvfp4_rule &rule, float amax, bool has_nan, float g)
    {
        const float S = __fdiv_rn(1, g);
        float q = q_of(rule.q, amax, g, S);
        if (has_nan && rule.nan_spreads) q = NAN;
        if (rule.zero_is_one && q == 0) q = 1;
        if (rule.clamp_low && q < 0x1p-9f) q = 0x1p-9f;
        byte = kvg_fp8_codes<__NV_E4M3>(q, 0) & 0xFF; /* saturates: the clamp at 448 */
        const float sf = kvg_fp8_pair<__NV_E4M3>((uint16_t)byte).x;
        divides = false;
        zero = NONE;
        factor = 0;
        if ((rule.guard == KVG_GUARD_AMAX && amax == 0) || (rule.guard == KVG_GUARD_Q && q == 0) ||
            (rule.guard == KVG_GUARD_SCALE && sf == 0)) return;
        const float step = __fmul_rn(rule.v == KVG_V_UNROUNDED ? q : sf, g);
        switch (rule.v) {
        case KVG_V_RCP: factor = rcp(step); break;
        case KVG_V_RCP_ENCODE: factor = rcp(__fmul_rn(sf, rcp(S))); break;
        case KVG_V_RECIPROCAL: factor = __fdiv_rn(1, step); break;
        case KVG_V_TE:
            factor = __fdiv_rn(1, __fmul_rn(sf, __fdiv_rn(1, S)));
            if (factor > FLT_MAX) factor = FLT_MAX;
            break;
        default:
            divides = true;
            factor = rule.guard == KVG_GUARD_SMALL && step < 1e-5f ? 1 : step;
            if (step == 0 && rule.guard == KVG_GUARD_SIGNED_ZERO) zero = OF_SIGN;
            if (step == 0 && rule.guard == KVG_GUARD_PLUS_ZERO) zero = PLUS;
        }
    }
    __device__ float scaled(float x) const
    {
        if (zero != NONE) return x != x ? x : zero == PLUS ? 0 : copysignf(0, x);
        return divides ? __fdiv_rn(x, factor) : __fmul_rn(x, factor);
    }

private:
    float factor;
    bool divides;
    enum { NONE, OF_SIGN, PLUS } zero; /* v is a zero */

    /* The stand-in for the GPU's approximate reciprocal, section 1. */
    static __device__ float rcp(float x)
    {
        const float r = __fdiv_rn(1, fabsf(x) < FLT_MIN ? copysignf(0, x) : x);
        return fabsf(r) < FLT_MIN ? copysignf(0, r) : r;
    }
    static __device__ float q_of(uint8_t rule, float amax, float g, float S)
    {
        switch (rule) {
        case KVG_Q_RCP: return __fmul_rn(rcp(g), __fmul_rn(amax, rcp(6)));
        case KVG_Q_ENCODE: return __fmul_rn(S, __fmul_rn(amax, rcp(6)));
        case KVG_Q_TE: return __fmul_rn(amax, __fmul_rn(S, __fdiv_rn(1, 6)));
        case KVG_Q_MINIMAX: return __fmul_rn(__fdiv_rn(amax < 1e-12f ? 1e-12f : amax, 6), S);
        default: return __fdiv_rn(amax, __fmul_rn(6, g));
        }
    }
};

#endif
