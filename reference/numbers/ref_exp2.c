#include "reference/numbers/ref_exp2.h"

#include "core/bits.h"
#include "reference/numbers/ref_fused.h"
#include "reference/numbers/ref_special.h"

enum { F32_FRACTION = 23 };

/* Horner's rule, one fma per step. Nothing branches, so that a loop becomes one over vectors. */
REF_FUSED_BODY float exp2_of(float x)
{
    const uint32_t any = x > -127 ? UINT32_MAX : 0; /* none for NaN */
    const float kept = kvg_f32_of_bits(kvg_bits_of_f32(x) & any);
    const int32_t toward_zero = (int32_t)kept;
    const int32_t n = toward_zero - ((float)toward_zero > kept);
    const float t = kept - (float)n;
    const float p3 = fmaf(0x1.bc31b2p-7f, t, 0x1.aa3fd8p-5f), p2 = fmaf(p3, t, 0x1.ee587ep-3f);
    const float p = fmaf(fmaf(p2, t, 0x1.62d51cp-1f), t, 1);
    return kvg_f32_of_bits((kvg_bits_of_f32(p) + ((uint32_t)n << F32_FRACTION)) & any);
}

float ref_exp2(float x)
{
    return exp2_of(x);
}

REF_FUSED_BODY void ref_exp2_all_body(float *x, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) x[i] = exp2_of(x[i]);
}

REF_FUSED(ref_exp2_all, (float *x, size_t count), (x, count))

static float approx(float x)
{
    return ref_ex2_approx(x, true);
}

static void approx_all(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) x[i] = approx(x[i]);
}

/* e^x */
static float approx_e(float x)
{
    const float in_log2 = x * 0x1.715476p+0f;
    return ref_ex2_approx(in_log2, false);
}

static void approx_e_all(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) x[i] = approx_e(x[i]);
}

const ref_exp2_rule *ref_exp2_rule_of(kvg_exp2_kind kind)
{
    static const ref_exp2_rule rules[] = {
        [KVG_EXP2_POLYNOMIAL] = {ref_exp2, ref_exp2_all, 0x1p-18f /* 3.40e-6 */,
                                 0x1p-19f /* half of that, and three roundings */},
        [KVG_EXP2_APPROX] = {approx, approx_all, 0, 0},
        [KVG_EXP2_APPROX_E] = {approx_e, approx_e_all, 0x1p-16f /* RN and RN(log2 e) at |x| up to 104 */, 0x1p-19f},
    };
    return &rules[kind];
}

/* p[0] + p[1] x + ... by Horner's rule, one fma per step. */
static float polynomial(const float *p, int terms, float x)
{
    float y = p[terms - 1];
    for (int i = terms - 2; i >= 0; i--) y = fmaf(y, x, p[i]);
    return y;
}

float ref_log2(float x)
{
    static const float b[] = {0x1.715476p+0f,  -0x1.71547p-1f, 0x1.ec73d6p-2f,  -0x1.715c4ep-2f, 0x1.26d394p-2f,
                              -0x1.e95c7ep-3f, 0x1.b9c8aap-3f, -0x1.a877c8p-3f, 0x1.01b07cp-3f};
    const uint32_t root_half = 0x3F3504F3; /* sqrt(1/2): k takes 1 + t into [sqrt(1/2), sqrt(2)) */
    const int32_t above = (int32_t)(kvg_bits_of_f32(x) - root_half);
    const int32_t k = above >> F32_FRACTION; /* arithmetic: rounds down */
    const float t = kvg_f32_of_bits(kvg_bits_of_f32(x) - ((uint32_t)k << F32_FRACTION)) - 1;
    return fmaf(t, polynomial(b, sizeof b / sizeof b[0], t), (float)k);
}
