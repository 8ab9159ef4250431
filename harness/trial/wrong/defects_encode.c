#include "harness/trial/wrong/defects_encode.h"

#include <math.h>
#include <string.h>

#include "core/bits.h"
#include "harness/trial/wrong/defects_rows.h"
#include "harness/trial/wrong/wrong_rounding.h"

static const kvg_format_info *format_of(const kvg_problem *p, kvg_side side)
{
    return kvg_format_get(p->storage[side].format);
}

/* --- which problems --- */

static bool is_16_bit_float(const kvg_format_info *f)
{
    return f->codes == KVG_CODES_F16 || f->codes == KVG_CODES_BF16;
}

/* MLX's codes follow from a scale that is not stored. */
static bool knows(const kvg_problem *p, kvg_side side)
{
    const kvg_format_info *f = format_of(p, side);
    return kvg_rows_encodes_canonical(p, side) && !is_16_bit_float(f) && !(f->scales == KVG_SCALES_AFFINE && f->block);
}

bool kvg_encode_ties_even(const kvg_problem *p, kvg_side side)
{
    return knows(p, side) && format_of(p, side)->codes != KVG_CODES_SIGNED;
}

bool kvg_encode_rounds_scales(const kvg_problem *p, kvg_side side)
{
    const kvg_scales scales = format_of(p, side)->scales;
    return knows(p, side) && (scales == KVG_SCALES_E4M3 || scales == KVG_SCALES_F16);
}

bool kvg_encode_seeks_amax(const kvg_problem *p, kvg_side side)
{
    return knows(p, side) && format_of(p, side)->scales != KVG_SCALES_NONE;
}

bool kvg_encode_two_scales(const kvg_problem *p, kvg_side side)
{
    return side == KVG_V && !p->paging.shared_kv && kvg_encode_seeks_amax(p, side) &&
           p->storage[KVG_K].format == p->storage[KVG_V].format;
}

/* A row format's E2M1 has a dialect without one. */
bool kvg_encode_has_sign_bit(const kvg_problem *p, kvg_side side)
{
    const kvg_format_info *f = format_of(p, side);
    const bool minifloat = f->codes == KVG_CODES_E2M1 || f->codes == KVG_CODES_E4M3 || f->codes == KVG_CODES_E5M2;
    return minifloat && (f->block ? kvg_rows_encodes(p, side) : kvg_rows_encodes_canonical(p, side));
}

bool kvg_encode_inf_is_no_largest(const kvg_problem *p, kvg_side side)
{
    const kvg_format_info *f = format_of(p, side);
    return kvg_rows_encodes(p, side) &&
           (is_16_bit_float(f) || f->scales == KVG_SCALES_F32 || f->scales == KVG_SCALES_AFFINE);
}

/* --- codes of integers --- */

static double clamped(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

static unsigned integer_of(const kvg_format_info *f, double v, kvg_ties ties)
{
    const double half = (double)(1u << (f->element_bits - 1));
    if (f->codes == KVG_CODES_UNSIGNED) return isnan(v) ? 0 : (unsigned)kvg_nearest(clamped(v, 0, 2 * half - 1), ties);
    if (f->codes == KVG_CODES_OFFSET)
        return isnan(v) ? (unsigned)half : (unsigned)(kvg_nearest(clamped(v, 1 - half, half - 1), ties) + half);
    const float moved = (float)v + copysignf(0.5f, (float)v); /* section 12: halves go away from zero */
    return isnan(v) ? 0 : (uint8_t)(int8_t)clamped(moved, -half, half - 1);
}

/* --- scales: docs/spec/formats.md sections 5 to 8, 12 and 13 --- */

typedef struct encoder {
    kvg_ties codes, scales;
    bool restarts; /* a NaN takes the place of a running maximum, and whatever follows takes the NaN's */
    bool of_k;     /* V has K's scales */
} encoder;

typedef struct extent {
    float low, high, amax;
} extent;

static bool is_before(float a, float b)
{
    return a < b || (a == b && signbit(a) && !signbit(b));
}

static extent extent_of(const float *x, uint32_t n, bool restarts)
{
    extent e = {INFINITY, -INFINITY, 0};
    for (uint32_t i = 0; i < n; i++) {
        if (isnan(x[i]) && !restarts) continue;
        const bool anew = isnan(x[i]) || isnan(e.amax);
        if (anew || is_before(x[i], e.low)) e.low = x[i];
        if (anew || is_before(e.high, x[i])) e.high = x[i];
        if (anew || fabsf(x[i]) > e.amax) e.amax = fabsf(x[i]);
    }
    return e;
}

/* ceil(log2(amax / 6)) as a byte. */
static uint8_t power_byte(float amax)
{
    int k;
    if (isnan(amax)) return 0xFF;
    if (isinf(amax)) return 254;
    const bool low = frexpf(amax, &k) <= 0.75f; /* amax = m 2^(k - 1), m at most 1.5 */
    return amax > 0 ? (uint8_t)clamped((low ? k - 3 : k - 2) + 127, 0, 254) : 0;
}

static float through(kvg_dtype dtype, float x)
{
    uint16_t code;
    kvg_reference_store(dtype, &x, 1, &code);
    kvg_reference_load(dtype, &code, 1, &x);
    return x;
}

static void write_affine(kvg_dtype dtype, const kvg_format_info *f, const extent *e, uint8_t *to)
{
    const float per_step = 1.0f / (float)((1u << f->element_bits) - 1);
    float params[2] = {(e->high - e->low) * per_step, e->low};
    for (int i = 0; i < 2; i++) params[i] = isnan(params[i]) ? kvg_f32_of_bits(0x7FFFFFFFu) : params[i];
    kvg_reference_store(dtype, params, 2, to);
}

static void write_scale(const kvg_defect_site *s, const extent *e, kvg_ties ties, uint8_t *to)
{
    const kvg_format_info *f = format_of(s->problem, s->side);
    unsigned code;
    float scale;
    switch (f->scales) {
    case KVG_SCALES_NONE: break;
    case KVG_SCALES_E8M0: *to = power_byte(e->amax); break;
    case KVG_SCALES_E4M3:
        *to = (uint8_t)kvg_float_code(KVG_CODES_E4M3, e->amax / (6.0f * kvg_rows_tensor_scale(s)), ties);
        break;
    case KVG_SCALES_F16:
        code = kvg_float_code(KVG_CODES_F16, e->amax / (f->codes == KVG_CODES_OFFSET ? 7.0f : 6.0f), ties);
        to[0] = (uint8_t)code;
        to[1] = (uint8_t)(code >> 8);
        break;
    case KVG_SCALES_F32:
        scale = e->amax / (f->codes == KVG_CODES_SIGNED ? 127.0f : 448.0f);
        if (scale < 1e-6f) scale = 1e-6f;
        kvg_reference_store(KVG_DTYPE_F32, &scale, 1, to);
        break;
    case KVG_SCALES_AFFINE: write_affine(s->problem->dtype, f, e, to); break;
    }
}

/* --- codes --- */

/* RN(x / d), or a zero of x's sign where d is 0. */
static float quotient(float x, float d)
{
    return d == 0 && !isnan(x) ? copysignf(0, x) : x / d;
}

/* What is rounded to a code. */
static double scaled(const kvg_defect_site *s, const uint8_t *scale, float x)
{
    const kvg_dtype T = s->problem->dtype;
    float param[2];
    switch (format_of(s->problem, s->side)->scales) {
    case KVG_SCALES_NONE: break;
    case KVG_SCALES_E8M0: return *scale == 0xFF ? NAN : ldexp(x, 127 - *scale);
    case KVG_SCALES_E4M3:
        return quotient(x, (float)kvg_float_value(KVG_CODES_E4M3, *scale) * kvg_rows_tensor_scale(s));
    case KVG_SCALES_F16: kvg_reference_load(KVG_DTYPE_F16, scale, 1, param); return quotient(x, param[0]);
    case KVG_SCALES_F32: kvg_reference_load(KVG_DTYPE_F32, scale, 1, param); return x * (1.0f / param[0]);
    case KVG_SCALES_AFFINE:
        kvg_reference_load(T, scale, 2, param);
        return through(T, through(T, x - param[1]) * through(T, 1.0f / param[0]));
    }
    return x / kvg_rows_tensor_scale(s);
}

static unsigned code_at(const uint8_t *codes, uint32_t bits, uint32_t i)
{
    if (bits == 16) return codes[2 * i] | (unsigned)codes[2 * i + 1] << 8;
    return bits == 8 ? codes[i] : codes[i / 2] >> (i % 2 * 4) & 15u;
}

static void put_code(uint8_t *codes, uint32_t bits, uint32_t i, unsigned code)
{
    const unsigned shift = i % 2 * 4;
    if (bits == 4) codes[i / 2] = (uint8_t)((codes[i / 2] & ~(15u << shift)) | code << shift);
    else for (uint32_t b = 0; b < bits / 8; b++) codes[i * bits / 8 + b] = (uint8_t)(code >> 8 * b);
}

/* Which element the i-th code of a row is. */
static void find_elements(const kvg_defect_site *s, uint32_t *element)
{
    const uint32_t bits = format_of(s->problem, s->side)->element_bits;
    for (uint32_t i = 0; i < s->problem->head_dim; i++)
        element[i] = kvg_reference_code_dim(s->problem, s->side, (size_t)i * bits / 8, i % 2);
}

static void encode(const kvg_defect_site *s, const encoder *how)
{
    const kvg_problem *p = s->problem;
    const kvg_format_info *f = format_of(p, s->side);
    const uint32_t D = p->head_dim, bits = f->element_bits, span = f->block ? f->block : D;
    const uint32_t width = f->block ? f->block_scale_bytes : f->row_param_bytes;
    const bool floats = f->codes < KVG_CODES_UNSIGNED;
    uint32_t element[KVG_MAX_HEAD_DIM];
    find_elements(s, element);
    for (size_t row = 0; row < kvg_rows_count(s); row++) {
        float x[KVG_MAX_HEAD_DIM];
        uint8_t scales[KVG_MAX_HEAD_DIM];
        const size_t row_width = D / span * width;
        kvg_rows_load(s, row, x);
        for (uint32_t i = 0; i < D / span; i++) {
            const extent e = extent_of(x + i * span, span, how->restarts);
            write_scale(s, &e, how->scales, scales + i * width);
        }
        if (how->of_k) memcpy(scales, (uint8_t *)s->scales[KVG_K]->data + row * row_width, row_width);
        if (width) {
            uint8_t *stored = (uint8_t *)s->scales[s->side]->data + row * row_width;
            if (!how->codes && memcmp(stored, scales, row_width) == 0) continue; /* the codes that stand there follow */
            memcpy(stored, scales, row_width);
        }
        uint8_t *codes = (uint8_t *)s->tensor->data + row * D * bits / 8;
        for (uint32_t i = 0; i < D; i++) {
            const double v = scaled(s, scales + element[i] / span * width, x[element[i]]);
            put_code(codes, bits, i, floats ? kvg_float_code(f->codes, v, how->codes) : integer_of(f, v, how->codes));
        }
    }
}

void kvg_encode_round_away(const kvg_defect_site *s) { encode(s, &(encoder){.codes = KVG_TIES_AWAY}); }
void kvg_encode_round_up(const kvg_defect_site *s) { encode(s, &(encoder){.codes = KVG_TIES_UP}); }
void kvg_encode_round_to_zero(const kvg_defect_site *s) { encode(s, &(encoder){.codes = KVG_TIES_TO_ZERO}); }
void kvg_encode_scales_away(const kvg_defect_site *s) { encode(s, &(encoder){.scales = KVG_TIES_AWAY}); }
void kvg_encode_scales_to_zero(const kvg_defect_site *s) { encode(s, &(encoder){.scales = KVG_TIES_TO_ZERO}); }
void kvg_encode_restart_at_nan(const kvg_defect_site *s) { encode(s, &(encoder){.restarts = true}); }
void kvg_encode_by_scales_of_k(const kvg_defect_site *s) { encode(s, &(encoder){.of_k = true}); }

/* --- single codes --- */

static void change_codes(const kvg_defect_site *s, unsigned (*wrong)(const kvg_format_info *f, float x, unsigned code))
{
    const kvg_format_info *f = format_of(s->problem, s->side);
    const uint32_t D = s->problem->head_dim, bits = f->element_bits;
    uint32_t element[KVG_MAX_HEAD_DIM];
    find_elements(s, element);
    for (size_t row = 0; row < kvg_rows_count(s); row++) {
        float x[KVG_MAX_HEAD_DIM];
        uint8_t *codes = (uint8_t *)s->tensor->data + row * D * bits / 8;
        kvg_rows_load(s, row, x);
        for (uint32_t i = 0; i < D; i++) put_code(codes, bits, i, wrong(f, x[element[i]], code_at(codes, bits, i)));
    }
}

static unsigned with_sign(const kvg_format_info *f, float x, unsigned code)
{
    const unsigned sign = 1u << (f->element_bits - 1);
    return signbit(x) ? code | sign : code & ~sign;
}

static unsigned finite(const kvg_format_info *f, float x, unsigned code)
{
    if (!isinf(x)) return code;
    return f->codes < KVG_CODES_UNSIGNED ? kvg_float_code(f->codes, x, KVG_TIES_EVEN)
                                         : integer_of(f, x, KVG_TIES_EVEN);
}

void kvg_encode_sign_of_input(const kvg_defect_site *s) { change_codes(s, with_sign); }
void kvg_encode_saturate_inf(const kvg_defect_site *s) { change_codes(s, finite); }
