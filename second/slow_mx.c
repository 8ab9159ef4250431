/* mx16 and mxfp4, E2M1 with a power of two per block: docs/spec/formats.md section 7. */
#include "second/slow_codec.h"

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
    slow_e2m1_rule e2m1;
} mx_rules;

enum { NO_LEAST = -1000, BIAS = 127, LAST_BYTE = 254 };

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

static uint8_t choose_byte(const mx_rules *rules, const slow_number *x, size_t count)
{
    slow_number amax = slow_amax(x, count);
    bool special = amax.kind == SLOW_INF;
    for (size_t i = 0; i < count; i++) special = special || x[i].kind == SLOW_NAN;
    if (special && rules->unit_if_special) return BIAS;
    if (amax.kind == SLOW_INF) return LAST_BYTE;
    if (slow_is_zero(amax)) return rules->zero_byte;
    int byte = find_exponent(rules, amax) + BIAS;
    return (uint8_t)(byte < 0 ? 0 : byte > LAST_BYTE ? LAST_BYTE : byte);
}

static void quantise(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                     uint8_t *scales)
{
    const mx_rules *rules = codec->rules;
    size_t block = kvg_format_get(codec->format)->block;
    for (size_t b = 0; b < row->dim / block; b++) {
        scales[b] = choose_byte(rules, x + b * block, block);
        for (size_t j = b * block; j < (b + 1) * block; j++) {
            slow_number v = x[j];
            v.exponent += BIAS - scales[b]; /* without effect on Inf and NaN */
            if (rules->flush_byte_zero && scales[b] == 0 && v.kind != SLOW_NAN) v = slow_zero(v.negative);
            slow_put_nibble(codes, j, slow_e2m1_encode(&rules->e2m1, v));
        }
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
