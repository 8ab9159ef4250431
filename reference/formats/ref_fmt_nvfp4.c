/* nvfp4: docs/spec/formats.md section 8. Every line of arithmetic is one f32 rounding, in the order of the table
 * there. */
#include <float.h>
#include <math.h>

#include "reference/formats/ref_fp4_block.h"
#include "reference/numbers/ref_special.h"

enum { BLOCK = 16 };

typedef enum scale_rule {
    Q_DIVIDE,      /* RN(amax / RN(6g)) */
    Q_RCP_DECODE,  /* RN(rcp(g) * RN(amax * rcp(6))) */
    Q_ENCODE,      /* RN(S * RN(amax * rcp(6))), S = RN(1/g) */
    Q_ENCODE_TE,   /* RN(amax * RN(S * RN(1/6))) */
    Q_MINIMAX,     /* RN(RN(max(amax, 1e-12) / 6) * RN(1/g)) */
    Q_SIXTH,       /* RN(RN(amax * RN(1/6)) / g) */
    Q_FLUSHED,     /* RN(amax * RN(1 / RN(6g))), subnormals are zeros, and 0 for a g of 0 */
    Q_FLUSHED_SM90 /* the same with sm_90's rcp.approx */
} scale_rule;

typedef enum element_rule {
    V_DIVIDE,          /* RN(x / d), d = RN(sf * g) */
    V_RCP_DECODE,      /* RN(x * rcp(RN(sf * g))) */
    V_RCP_ENCODE,      /* RN(x * rcp(RN(sf * rcp(S)))) */
    V_ENCODE_TE,       /* RN(x * min(RN(1 / RN(sf * RN(1/S))), FLT_MAX)) */
    V_RECIPROCAL,      /* RN(x * RN(1 / RN(sf * g))) */
    V_UNROUNDED,       /* RN(x / RN(q * g)): the scale before it was rounded */
    V_ENCODE_OVER,     /* RN(x * RN(S / sf)) */
    V_FLUSHED,         /* RN(x * RN(1 / RN(sf * g))), as Q_FLUSHED */
    V_FLUSHED_SM90     /* as Q_FLUSHED_SM90 */
} element_rule;

/* When v is not what the element rule says. */
typedef enum guard {
    GUARD_NONE,
    GUARD_DIVISOR_SIGNED, /* divisor 0: a zero of x's sign */
    GUARD_DIVISOR_PLUS,   /* divisor 0: +0 */
    GUARD_DIVISOR_SMALL,  /* divisor below 1e-5: divide by 1 */
    GUARD_AMAX,           /* amax 0: multiply by 0 */
    GUARD_Q,              /* q 0: multiply by 0 */
    GUARD_SCALE,          /* sf 0: multiply by 0 */
    GUARD_SCALE_OR_NAN    /* sf 0 or NaN: multiply by 0 */
} guard;

typedef enum reader {
    SCALE_LAST,           /* RN((e2m1 * sf) * g) */
    SCALE_FIRST,          /* e2m1 * RN(sf * g) */
    SCALE_FIRST_PLUS_ZERO /* the same with code 8 as +0 */
} reader;

typedef struct nvfp4_dialect {
    ref_fp4_dialect fp4;
    scale_rule q;
    element_rule v;
    guard guard;
    float least;          /* q is raised to it */
    bool zero_is_one;     /* q = 0 becomes 1 */
    bool propagates_nan;  /* a NaN element makes q NaN */
    reader reader;
    uint8_t scale_slack, element_slack; /* a and b of "value (a, b)"; 0 for dialects compared as bits */
} nvfp4_dialect;

#define BITS KVG_DIALECT_BITS
#define VALUE KVG_DIALECT_VALUE
#define HARDWARE {KVG_REF_TIES_EVEN, REF_SIGN_BIT, 7}
#define TORCH {KVG_REF_TIES_EVEN, REF_SIGN_LESS, 7}
#define PAGE {KVG_REF_TIES_EVEN, REF_SIGN_BIT, REF_NAN_SIGNED_ZERO}
#define NO_MINUS_ZERO {KVG_REF_TIES_EVEN, REF_SIGN_NONZERO, 7}

static const nvfp4_dialect dialects[] = {
    /* name, source, compare, E2M1 | q, v, guard | least q, 0 -> 1, NaN propagates, reader | slack */
    {{{"canonical", "N1z: ModelOpt's arithmetic, hardware signs", BITS}, HARDWARE},
     Q_DIVIDE, V_DIVIDE, GUARD_DIVISOR_SIGNED, 0, false, false, SCALE_LAST, 0, 0},
    {{{"modelopt", "N1: Model-Optimizer NVFP4QTensor", BITS}, TORCH},
     Q_DIVIDE, V_DIVIDE, GUARD_NONE, 0x1p-9f, true, true, SCALE_FIRST_PLUS_ZERO, 0, 0},
    {{{"modelopt-fake", "N2: Model-Optimizer Triton fake quant", BITS}, HARDWARE},
     Q_DIVIDE, V_DIVIDE, GUARD_DIVISOR_PLUS, 0, false, false, SCALE_LAST, 0, 0},
    {{{"modelopt-hopper", "N2h: Model-Optimizer Hopper fake quant", BITS}, HARDWARE},
     Q_DIVIDE, V_DIVIDE, GUARD_DIVISOR_SMALL, 0, false, false, SCALE_LAST, 0, 0},
    {{{"flashinfer-kv", "N3: flashinfer nvfp4_kv_quantize, SGLang", VALUE}, HARDWARE},
     Q_RCP_DECODE, V_RCP_DECODE, GUARD_AMAX, 0, false, false, SCALE_LAST, 4, 2},
    {{{"trtllm", "N4: TensorRT-LLM cvt_warp_fp16_to_fp4", VALUE}, HARDWARE},
     Q_ENCODE, V_RCP_ENCODE, GUARD_Q, 0, false, false, SCALE_LAST, 3, 4},
    {{{"flashinfer-fast", "N4f: flashinfer fp4_quantize", VALUE}, HARDWARE},
     Q_ENCODE, V_RCP_ENCODE, GUARD_AMAX, 0, false, false, SCALE_LAST, 3, 4},
    {{{"flashinfer-te", "N4x: flashinfer, Transformer Engine exact path", BITS}, HARDWARE},
     Q_ENCODE_TE, V_ENCODE_TE, GUARD_NONE, 0, false, false, SCALE_LAST, 0, 0},
    {{{"flashinfer-page", "N5: flashinfer page.cuh append", BITS}, PAGE},
     Q_DIVIDE, V_RECIPROCAL, GUARD_SCALE, 0, false, false, SCALE_LAST, 0, 0},
    {{{"vllm", "N6: vLLM KV writer", VALUE}, HARDWARE},
     Q_ENCODE, V_RCP_ENCODE, GUARD_SCALE, 0, false, false, SCALE_LAST, 3, 4},
    {{{"vllm-minimax", "N7: vLLM MiniMax-M3", BITS}, NO_MINUS_ZERO},
     Q_MINIMAX, V_DIVIDE, GUARD_NONE, 0x1p-9f, false, false, SCALE_LAST, 0, 0},
    {{{"torchao", "torchao NVFP4Tensor on CUDA", BITS}, {KVG_REF_TIES_EVEN, REF_SIGN_BIT, 4}},
     Q_SIXTH, V_ENCODE_OVER, GUARD_NONE, 0x1p-6f, false, true, SCALE_FIRST, 0, 0},
    {{{"flashinfer-page-sm90", "N5 as compiled for sm_90", BITS}, {KVG_REF_TIES_EVEN, REF_SIGN_BIT, 0}},
     Q_FLUSHED_SM90, V_FLUSHED_SM90, GUARD_SCALE_OR_NAN, 0, false, false, SCALE_LAST, 0, 0},
    {{{"flashinfer-mla", "N5m: flashinfer page.cuh, MLA append", BITS}, {KVG_REF_TIES_EVEN, REF_SIGN_BIT, 0}},
     Q_FLUSHED, V_FLUSHED, GUARD_SCALE_OR_NAN, 0, false, false, SCALE_LAST, 0, 0},
    {{{"seed", "N10: elements by the UNROUNDED scale; known wrong", BITS}, HARDWARE},
     Q_DIVIDE, V_UNROUNDED, GUARD_DIVISOR_SIGNED, 0, false, false, SCALE_LAST, 0, 0},
};

static float flushed(float x)
{
    return fabsf(x) < FLT_MIN ? copysignf(0.0f, x) : x;
}

/* Correctly rounded, subnormals flushed on both sides: also the reference's stand-in for rcp.approx.ftz.f32. */
static float rcp(float x)
{
    return flushed(1.0f / flushed(x));
}

static float flushed_product(float x, float reciprocal)
{
    const float product = flushed(x) * reciprocal;
    return flushed(product);
}

static float block_q(const nvfp4_dialect *dialect, float g, float amax, bool has_nan)
{
    if (has_nan && dialect->propagates_nan) return NAN;
    const float encode = 1.0f / g;
    float q = 0, sixth;
    switch (dialect->q) {
    case Q_DIVIDE:
        q = amax / (6.0f * g);
        break;
    case Q_RCP_DECODE:
        sixth = amax * rcp(6.0f);
        q = rcp(g) * sixth;
        break;
    case Q_ENCODE:
        sixth = amax * rcp(6.0f);
        q = encode * sixth;
        break;
    case Q_ENCODE_TE:
        sixth = 1.0f / 6.0f;
        q = amax * (encode * sixth);
        break;
    case Q_MINIMAX:
        sixth = (amax < 1e-12f ? 1e-12f : amax) / 6.0f;
        q = sixth * encode;
        break;
    case Q_SIXTH:
        sixth = 1.0f / 6.0f;
        sixth = amax * sixth;
        q = sixth / g;
        break;
    case Q_FLUSHED:
        q = flushed(amax) > 0 && flushed(g) > 0 ? flushed_product(amax, rcp(6.0f * g)) : 0;
        break;
    case Q_FLUSHED_SM90:
        q = flushed(amax) > 0 && flushed(g) > 0 ? flushed_product(amax, ref_rcp_approx(flushed(6.0f * g), true)) : 0;
        break;
    }
    if (dialect->zero_is_one && q == 0) q = 1;
    if (q < dialect->least) q = dialect->least;
    return q; /* the upper clamp is e4m3's saturation */
}

/* How v follows from x in one block: a divisor, or a multiplier, or a constant +0. */
typedef struct element_scale {
    enum { DIVIDE, MULTIPLY, MULTIPLY_FLUSHED, PLUS_ZERO, SIGNED_ZERO } kind;
    float factor;
} element_scale;

static element_scale by_divisor(const nvfp4_dialect *dialect, float divisor)
{
    if (divisor == 0 && dialect->guard == GUARD_DIVISOR_SIGNED) return (element_scale){SIGNED_ZERO, 0};
    if (divisor == 0 && dialect->guard == GUARD_DIVISOR_PLUS) return (element_scale){PLUS_ZERO, 0};
    if (divisor < 1e-5f && dialect->guard == GUARD_DIVISOR_SMALL) divisor = 1;
    return (element_scale){DIVIDE, divisor};
}

static element_scale block_element_scale(const nvfp4_dialect *dialect, float g, float amax, float q, float sf)
{
    if ((dialect->guard == GUARD_AMAX && amax == 0) || (dialect->guard == GUARD_Q && q == 0) ||
        (dialect->guard == GUARD_SCALE && sf == 0) || (dialect->guard == GUARD_SCALE_OR_NAN && !(sf > 0))) {
        return (element_scale){MULTIPLY, 0};
    }
    const float encode = 1.0f / g;
    float reciprocal;
    switch (dialect->v) {
    case V_DIVIDE: return by_divisor(dialect, sf * g);
    case V_UNROUNDED: return by_divisor(dialect, q * g);
    case V_RCP_DECODE: return (element_scale){MULTIPLY, rcp(sf * g)};
    case V_RCP_ENCODE: return (element_scale){MULTIPLY, rcp(sf * rcp(encode))};
    case V_RECIPROCAL: return (element_scale){MULTIPLY, 1.0f / (sf * g)};
    case V_ENCODE_TE:
        reciprocal = 1.0f / (sf * (1.0f / encode));
        return (element_scale){MULTIPLY, reciprocal > FLT_MAX ? FLT_MAX : reciprocal};
    case V_ENCODE_OVER: return (element_scale){MULTIPLY, encode / sf};
    case V_FLUSHED: return (element_scale){MULTIPLY_FLUSHED, rcp(sf * g)};
    case V_FLUSHED_SM90: return (element_scale){MULTIPLY_FLUSHED, ref_rcp_approx(flushed(sf * g), true)};
    }
    return (element_scale){PLUS_ZERO, 0};
}

static float element_v(element_scale scale, float x)
{
    switch (scale.kind) {
    case DIVIDE: return x / scale.factor;
    case MULTIPLY: return x * scale.factor;
    case MULTIPLY_FLUSHED: return flushed_product(x, scale.factor);
    case SIGNED_ZERO: return isnan(x) ? x : copysignf(0.0f, x);
    case PLUS_ZERO: break;
    }
    return isnan(x) ? x : 0.0f;
}

static void scale_row(const ref_row *row, const float *x, uint8_t *scales, double *v)
{
    const nvfp4_dialect *dialect = row->dialect;
    const float g = row->tensor_scale;
    for (uint32_t start = 0; start < row->head_dim; start += BLOCK) {
        bool has_nan;
        const float amax = ref_amax(x + start, BLOCK, &has_nan);
        const float q = block_q(dialect, g, amax, has_nan);
        const uint8_t byte = kvg_ref_e4m3_of_f32(q);
        *scales++ = byte;
        const element_scale s = block_element_scale(dialect, g, amax, q, kvg_ref_f32_of_e4m3(byte));
        for (uint32_t i = start; i < start + BLOCK; i++) v[i] = element_v(s, x[i]);
    }
}

static void decode(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y)
{
    const nvfp4_dialect *dialect = row->dialect;
    const float g = row->tensor_scale;
    float sf = 0;
    for (uint32_t i = 0; i < row->head_dim; i++) {
        if (i % BLOCK == 0) sf = kvg_ref_f32_of_e4m3(scales[i / BLOCK]);
        const float value = kvg_ref_f32_of_e2m1((uint8_t)codes[i]);
        if (dialect->reader == SCALE_LAST) {
            const float product = value * sf; /* exact */
            y[i] = product * g;
        } else {
            const float d = sf * g;
            y[i] = (value == 0 && dialect->reader == SCALE_FIRST_PLUS_ZERO ? 0.0f : value) * d;
        }
    }
}

static double exact(const ref_row *row, const uint16_t *codes, const uint8_t *scales, double *y)
{
    const nvfp4_dialect *dialect = row->dialect;
    const bool first = dialect->reader != SCALE_LAST;
    for (uint32_t start = 0; start < row->head_dim; start += BLOCK) {
        const float sf = kvg_ref_f32_of_e4m3(scales[start / BLOCK]);
        /* RN(sf * g) belongs to the number's definition */
        const double d = first ? sf * row->tensor_scale : sf;
        for (uint32_t i = start; i < start + BLOCK; i++) y[i] = (double)kvg_ref_f32_of_e2m1((uint8_t)codes[i]) * d;
    }
    return first ? 1 : row->tensor_scale;
}

/* docs/spec/numerics.md section 2.2: e4m3 rounds q by at most 1/16 of it, or by half its smallest step 2^-9. */
static ref_range scale_range(const ref_row *row, double amax, bool has_nan)
{
    const nvfp4_dialect *dialect = row->dialect;
    const double g = row->tensor_scale, slack = 0x1p-20; /* up to a handful of f32 roundings */
    if (has_nan && dialect->propagates_nan) return (ref_range){0, INFINITY};
    const double q = amax / (6 * g), q_low = q * (1 - slack), q_high = q * (1 + slack) + 0x1p-149;
    const double floor = dialect->least;
    double low = ref_max(floor, q_low - ref_max(q_low * 0x1p-4, 0x1p-10));
    double high = ref_max(floor, q_high + ref_max(q_high * 0x1p-4, 0x1p-10));
    ref_range d = {ref_min(low, 448) * g * (1 - slack), ref_min(high, 448) * g * (1 + slack)};
    if (dialect->guard == GUARD_DIVISOR_SMALL && d.low < 1e-5) d.low = 0; /* codes of x / 1: all zero */
    if (dialect->v == V_UNROUNDED) {
        /* Codes are chosen for q*g and read with sf*g: docs/spec/numerics.md 2.2, "the unrounded scale". */
        d.low = 0;
        d.high = 4 * (1.5 * q_high + 6 * ref_max(q_high * 0x1p-4, 0x1p-10)) * g;
    }
    if (dialect->zero_is_one && amax == 0) d.high = ref_max(d.high, g * (1 + slack));
    return d;
}

/* magnitude of code c lies between those of v moved down and up by `slack` units of 2^-23, with v's sign */
static bool code_near(const nvfp4_dialect *dialect, uint16_t code, float x, double v, int slack)
{
    const double eps = slack * 0x1p-23;
    if (isnan(v) || isinf(v)) return code == ref_e2m1_encode(&dialect->fp4.rules, x, v);
    uint16_t low = ref_e2m1_encode(&dialect->fp4.rules, x, v * (1 - eps));
    uint16_t high = ref_e2m1_encode(&dialect->fp4.rules, x, v * (1 + eps));
    return (code & 8) == (low & 8) && (code & 7) >= (low & 7) && (code & 7) <= (high & 7);
}

static bool accept(const ref_row *row, const float *x, const uint16_t *codes, const uint8_t *scales, uint32_t *steps,
                   uint32_t *bad_element)
{
    const nvfp4_dialect *dialect = row->dialect;
    const float g = row->tensor_scale;
    const double eps = dialect->scale_slack * 0x1p-23;
    *steps = 0;
    for (uint32_t start = 0; start < row->head_dim; start += BLOCK) {
        bool has_nan;
        const float amax = ref_amax(x + start, BLOCK, &has_nan);
        const float q = block_q(dialect, g, amax, has_nan);
        const uint8_t byte = scales[start / BLOCK], own = kvg_ref_e4m3_of_f32(q);
        const uint8_t low = kvg_ref_e4m3_of_f32((float)(q * (1 - eps)));
        const uint8_t high = kvg_ref_e4m3_of_f32((float)(q * (1 + eps)));
        *bad_element = start;
        if (byte != own && !(byte >= low && byte <= high)) return false;
        *steps += byte != own;
        const element_scale s = block_element_scale(dialect, g, amax, q, kvg_ref_f32_of_e4m3(byte));
        for (uint32_t i = start; i < start + BLOCK; i++) {
            const double v = element_v(s, x[i]);
            *bad_element = i;
            if (!code_near(dialect, codes[i], x[i], v, dialect->element_slack)) return false;
            *steps += codes[i] != ref_e2m1_encode(&dialect->fp4.rules, x[i], v);
        }
    }
    return true;
}

const ref_codec ref_fmt_nvfp4 = {
    .format = KVG_FORMAT_NVFP4,
    REF_DIALECTS(dialects),
    .grid = REF_FP4_GRID,
    REF_FP4_CODEC,
    .scale = scale_row,
    .decode = decode,
    .exact = exact,
    .scale_range = scale_range,
    .accept = accept,
};
