/* mx16 and mxfp4, E2M1 with a power of two per block: docs/spec/formats.md section 7. */
#include "second/slow_codec.h"
#include "second/slow_mpfr.h"

/* Section 7 states e by the binary exponent and mantissa of amax. The same e is the smallest with
 * amax < limit * 2^e, or <= if the limit itself is inside: a search with exact comparison finds it. */
typedef struct mx_rules {
    struct {
        int limit;
        bool inside;
    } fits;
    int least;            /* e is not below it; set NO_LEAST if there is no such rule */
    uint8_t zero_byte;    /* for amax = 0 */
    bool unit_if_special; /* Inf or NaN in the block: byte 0x7F */
    bool flush_byte_zero; /* byte 0 writes magnitude 0 */
    bool special_is_lost; /* NaN in the block: byte 0; else Inf: byte 255; all codes are those of NaN */
    bool logarithm;       /* e is ceil(RN_T(log2 t)), t the larger of RN_T(amax / 6) and RN_T(1e-10) */
    slow_e2m1_rule e2m1;
} mx_rules;

enum { NO_LEAST = -1000, LOST = -2000, BIAS = 127, LAST_BYTE = 254 };

#define CEIL6 {6, true}
#define FLOOR {8, false}
#define EVEN {7, false}
#define TRUNC6 {12, false}

static int find_exponent(const mx_rules *rules, slow_number amax)
{
    int e = amax.exponent - 4; /* too small: amax >= 2^exponent > 12 * 2^e */
    if (e < rules->least) e = rules->least;
    for (;; e++) {
        int order = slow_compare_magnitudes(amax, slow_scaled(rules->fits.limit, e));
        if (order < 0 || (order == 0 && rules->fits.inside)) return e;
    }
}

/* ceil(RN_T(log2 t)), or LOST for t = 0. */
static int find_logarithm(const slow_layout *type, slow_number amax)
{
    const slow_number least = slow_round(type, slow_decode(&slow_f32, 0x2EDBE6FF)); /* 1e-10 */
    slow_number t = slow_round(type, slow_rn(slow_divide(amax, slow_scaled(6, 0))));
    if (slow_compare(t, least) < 0) t = least;
    if (slow_is_zero(t)) return LOST;
    mpfr_t log;
    mpfr_init2(log, 200);
    slow_to_mpfr(log, t);
    mpfr_log2(log, log, MPFR_RNDN);
    const slow_number rounded = slow_round(type, slow_from_mpfr(log));
    mpfr_clear(log);
    const int down = slow_to_integer(rounded, SLOW_TO_ZERO, -1000, 1000);
    return slow_compare_magnitudes(rounded, slow_scaled(down, 0)) != 0 && !rounded.negative ? down + 1 : down;
}

/* The byte of a block, and e; e is LOST where no element keeps its value. */
static uint8_t choose_byte(const mx_rules *rules, const slow_layout *type, const slow_number *x, size_t count, int *e)
{
    slow_number amax = slow_amax(x, count);
    bool has_nan = false;
    for (size_t i = 0; i < count; i++) has_nan = has_nan || x[i].kind == SLOW_NAN;
    const bool special = has_nan || amax.kind == SLOW_INF;
    *e = LOST;
    if (special && rules->special_is_lost) return has_nan ? 0 : 255;
    if (special && rules->unit_if_special) *e = 0;
    else if (amax.kind == SLOW_INF) *e = LAST_BYTE - BIAS;
    else if (rules->logarithm) *e = find_logarithm(type, amax);
    else if (slow_is_zero(amax)) *e = rules->zero_byte - BIAS;
    else *e = find_exponent(rules, amax);
    if (*e == LOST) return 0;
    if (*e < -BIAS) *e = -BIAS;
    if (*e > LAST_BYTE - BIAS) *e = LAST_BYTE - BIAS;
    return (uint8_t)(*e + BIAS);
}

/* x / 2^e; without a scale NaN, or where t was 0 what a division by 0 gives. */
static slow_number element_of(const mx_rules *rules, slow_number x, int e, bool special)
{
    if (e == LOST) return special || slow_is_zero(x) ? slow_nan() : slow_infinity(x.negative);
    x.exponent -= e; /* without effect on Inf and NaN */
    return rules->flush_byte_zero && e == -BIAS && x.kind != SLOW_NAN ? slow_zero(x.negative) : x;
}

static void quantise(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                     uint8_t *scales)
{
    const mx_rules *rules = codec->rules;
    size_t block = kvg_format_get(codec->format)->block;
    for (size_t b = 0; b < row->dim / block; b++) {
        int e;
        bool special = false;
        scales[b] = choose_byte(rules, row->type, x + b * block, block, &e);
        for (size_t j = b * block; j < (b + 1) * block; j++) special = special || x[j].kind != SLOW_FINITE;
        for (size_t j = b * block; j < (b + 1) * block; j++)
            slow_put_nibble(codes, j, slow_e2m1_encode(&rules->e2m1, element_of(rules, x[j], e, special)));
    }
}

static void dequantise(const slow_codec *codec, const slow_row *row, const uint8_t *codes, const uint8_t *scales,
                       slow_number *x)
{
    size_t block = kvg_format_get(codec->format)->block;
    for (size_t j = 0; j < row->dim; j++) {
        slow_number code = slow_decode(&slow_e2m1, slow_get_nibble(codes, j));
        x[j] = slow_rn(slow_multiply(code, slow_e8m0_decode(scales[j / block])));
    }
}

#define PLAIN {SLOW_TIES_EVEN, SLOW_SIGN_BIT, 7}
static const mx_rules ceil6 = {.fits = CEIL6, .least = NO_LEAST, .e2m1 = PLAIN};
static const mx_rules sglang = {
    .fits = CEIL6, .least = -33, .zero_byte = 0x5E, .e2m1 = {SLOW_TIES_AWAY, SLOW_SIGN_LESS, 0}};
static const mx_rules sglang_sm90 = {.fits = CEIL6, .least = -33, .zero_byte = 0x5E, .special_is_lost = true,
                                     .e2m1 = {SLOW_TIES_AWAY, SLOW_SIGN_LESS, 0}};
static const mx_rules sglang_eager = {.fits = CEIL6, .logarithm = true, .special_is_lost = true,
                                      .e2m1 = {SLOW_TIES_AWAY, SLOW_SIGN_LESS, 0}};
static const mx_rules ocp = {.fits = FLOOR, .least = NO_LEAST, .e2m1 = PLAIN};
static const mx_rules modelopt = {
    .fits = CEIL6, .least = NO_LEAST, .e2m1 = {SLOW_TIES_ZERO, SLOW_SIGN_NOTPOS, 8}};
static const mx_rules modelopt_floor = {
    .fits = FLOOR, .least = NO_LEAST, .zero_byte = 0x7F, .unit_if_special = true, .e2m1 = PLAIN};
static const mx_rules modelopt_ceil = {
    .fits = CEIL6, .least = NO_LEAST, .zero_byte = 0x7F, .unit_if_special = true, .e2m1 = PLAIN};
static const mx_rules trtllm = {.fits = CEIL6, .least = NO_LEAST, .flush_byte_zero = true, .e2m1 = PLAIN};
static const mx_rules vllm = {.fits = EVEN, .least = NO_LEAST, .e2m1 = PLAIN};
static const mx_rules vllm_old = {.fits = TRUNC6, .least = NO_LEAST, .e2m1 = PLAIN};
static const mx_rules ggml = {.fits = FLOOR, .least = NO_LEAST, .e2m1 = {SLOW_TIES_ZERO, SLOW_SIGN_NONZERO, 0}};

static const slow_codec mx16[] = {
    {KVG_FORMAT_MX16, "canonical", quantise, dequantise, &ceil6, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_MX16, "turbomind", quantise, dequantise, &ceil6, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_MX16, "sglang", quantise, dequantise, &sglang, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_MX16, "sglang-sm90", quantise, dequantise, &sglang_sm90, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_MX16, "sglang-eager-sm90", quantise, dequantise, &sglang_eager, SLOW_PRODUCT, NULL},
};
static const slow_codec mxfp4[] = {
    {KVG_FORMAT_MXFP4, "canonical", quantise, dequantise, &ceil6, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_MXFP4, "ocp", quantise, dequantise, &ocp, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_MXFP4, "modelopt", quantise, dequantise, &modelopt, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_MXFP4, "modelopt-floor", quantise, dequantise, &modelopt_floor, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_MXFP4, "modelopt-ceil", quantise, dequantise, &modelopt_ceil, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_MXFP4, "trtllm", quantise, dequantise, &trtllm, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_MXFP4, "vllm", quantise, dequantise, &vllm, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_MXFP4, "vllm-old", quantise, dequantise, &vllm_old, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_MXFP4, "ggml", quantise, dequantise, &ggml, SLOW_PRODUCT, NULL},
};
const slow_codecs slow_of_mx16 = SLOW_CODECS(mx16);
const slow_codecs slow_of_mxfp4 = SLOW_CODECS(mxfp4);
