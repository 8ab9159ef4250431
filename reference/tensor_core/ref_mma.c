#include "reference/tensor_core/ref_mma.h"

#include "core/bits.h"
#include "reference/tensor_core.h"

enum {
    OPERAND_FRACTION = 10,                     /* bits behind the point of ref_operand */
    PRODUCT_FRACTION = 2 * OPERAND_FRACTION,   /* of a product */
    F32_FRACTION = 23,
    MOST_TERMS = 32,                           /* of a fused sum */
    F32_LEAST = -126,                          /* exponent of subnormals and the smallest normal numbers */
    F32_UNIT = F32_LEAST - F32_FRACTION,       /* exponent of the last place there */
    SPECIAL = REF_OPERAND_SPECIAL + REF_OPERAND_ZERO /* no finite term has this exponent, every special one has */
};

/* --- decoding --- */

typedef struct addend {
    int32_t significand; /* signed, 23 bits behind the point; NaN: 0 */
    int exponent;        /* as in ref_operand */
} addend;

static addend addend_decode(float c)
{
    const uint32_t bits = kvg_bits_of_f32(c);
    const int field = (int)(bits >> F32_FRACTION & 0xFF);
    int32_t significand = (int32_t)(bits & 0x7FFFFF);
    int exponent = (field ? field : 1) - 127;
    if (field == 0xFF) {
        significand = significand ? 0 : 1 << F32_FRACTION;
        exponent = REF_OPERAND_SPECIAL;
    } else if (field) {
        significand |= 1 << F32_FRACTION;
    } else if (!significand) {
        exponent = REF_OPERAND_ZERO;
    }
    return (addend){bits >> 31 ? -significand : significand, exponent};
}

/* One code with `exponent_bits` of exponent; the fraction is brought to 10 bits. */
static ref_operand operand_decode(uint16_t code, int exponent_bits)
{
    const int fraction_bits = 15 - exponent_bits, ones = (1 << exponent_bits) - 1, bias = ones >> 1;
    const int field = code >> fraction_bits & ones;
    int significand = (code & ((1 << fraction_bits) - 1)) << (OPERAND_FRACTION - fraction_bits);
    int exponent = (field ? field : 1) - bias;
    if (field == ones) {
        significand = significand ? 0 : 1 << OPERAND_FRACTION;
        exponent = REF_OPERAND_SPECIAL;
    } else if (field) {
        significand |= 1 << OPERAND_FRACTION;
    } else if (!significand) {
        exponent = REF_OPERAND_ZERO;
    }
    return (ref_operand){(int16_t)(code >> 15 ? -significand : significand), (int16_t)exponent};
}

void ref_operand_decode(kvg_dtype dtype, const uint16_t *codes, size_t n, ref_operand *out)
{
    const int exponent_bits = dtype == KVG_DTYPE_F16 ? 5 : 8;
    for (size_t i = 0; i < n; i++) out[i] = operand_decode(codes[i], exponent_bits);
}

ref_operand ref_operand_of_e4m3(uint8_t code)
{
    enum { FRACTION = 3, BIAS = 7 };
    const int field = code >> FRACTION & 15, fraction = code & 7;
    const int significand = (field ? fraction | 8 : fraction) << (OPERAND_FRACTION - FRACTION);
    if ((code & 0x7F) == 0x7F) return (ref_operand){0, REF_OPERAND_SPECIAL};
    if (!significand) return (ref_operand){0, REF_OPERAND_ZERO};
    return (ref_operand){(int16_t)(code >> 7 ? -significand : significand), (int16_t)((field ? field : 1) - BIAS)};
}

/* --- one fused sum --- */

/* value / 2^places, toward zero: a shift rounds down, so negative values are first raised to the next multiple. */
static int32_t truncated(int32_t value, int places)
{
    if (places > 31) places = 31; /* nothing is left: |value| < 2^28 */
    const int32_t raise = value < 0 ? (int32_t)((1u << places) - 1) : 0;
    return (value + raise) >> places;
}

/* sum * 2^unit, toward zero; |sum| < 2^34. */
static float f32_of_sum(int64_t sum, int unit)
{
    const uint32_t sign = sum < 0 ? 0x80000000u : 0;
    const uint64_t magnitude = (uint64_t)(sum < 0 ? -sum : sum);
    const int leading = unit + 63 - __builtin_clzll(magnitude | 1); /* exponent of the first bit */
    if (sum == 0 || leading < F32_UNIT) return 0.0f;
    if (leading > 127) return kvg_f32_of_bits(sign | 0x7F800000);
    const int place = leading < F32_LEAST ? F32_UNIT : leading - F32_FRACTION; /* of the last bit that stays */
    const uint32_t kept = (uint32_t)(place < unit ? magnitude << (unit - place) : magnitude >> (place - unit));
    /* The implicit bit of a normal number adds the one that takes the field from "place" to its exponent. */
    return kvg_f32_of_bits(sign | (((uint32_t)(place - F32_UNIT) << F32_FRACTION) + kept));
}

/* A sum with an Inf or NaN in it. */
static float special_sum(const ref_operand *a, const ref_operand *b, size_t terms, addend c)
{
    bool nan = c.exponent >= SPECIAL && c.significand == 0;
    bool infinite[2] = {c.exponent >= SPECIAL && c.significand > 0, c.exponent >= SPECIAL && c.significand < 0};
    for (size_t i = 0; i < terms; i++) {
        if (a[i].exponent + b[i].exponent < SPECIAL) continue;
        const int32_t product = a[i].significand * b[i].significand;
        if (product == 0) nan = true; /* NaN, or Inf times zero */
        else infinite[product < 0] = true;
    }
    if (nan || (infinite[0] && infinite[1])) return kvg_f32_of_bits(0x7FFFFFFF);
    return kvg_f32_of_bits(infinite[0] ? 0x7F800000 : 0xFF800000);
}

/* How terms with so many bits behind the point are brought to those of a sum: first up, then down by what is left. */
typedef struct alignment {
    int up, down;
} alignment;

static alignment alignment_of(int fraction_bits, int term_bits)
{
    const int up = fraction_bits - term_bits;
    return up < 0 ? (alignment){0, -up} : (alignment){up, 0};
}

/* value brought to a sum and then divided by 2^places, toward zero; |value| * 2^up < 2^28. */
static int32_t aligned(int32_t value, alignment to, int places)
{
    return truncated(value * (1 << to.up), places + to.down);
}

static float fused_sum(const ref_sum *rule, const ref_operand *a, const ref_operand *b, float c)
{
    const addend start = addend_decode(c);
    int exponent[MOST_TERMS], largest = rule->least_exponent;
    if (start.exponent > largest) largest = start.exponent;
    for (size_t i = 0; i < rule->terms; i++) {
        exponent[i] = a[i].exponent + b[i].exponent;
        if (exponent[i] > largest) largest = exponent[i];
    }
    if (largest >= SPECIAL) return special_sum(a, b, rule->terms, start);

    /* 33 terms below 2^27: the sum needs 33 bits and a sign. */
    const alignment product_to = alignment_of(rule->fraction_bits, PRODUCT_FRACTION);
    int64_t sum = aligned(start.significand, alignment_of(rule->fraction_bits, F32_FRACTION),
                          largest - start.exponent);
    for (size_t i = 0; i < rule->terms; i++) {
        const int32_t product = a[i].significand * b[i].significand;
        sum += aligned(product, product_to, largest - exponent[i]);
    }
    const float result = f32_of_sum(sum, largest - rule->fraction_bits);
    return rule->cut ? kvg_f32_of_bits(kvg_bits_of_f32(result) >> rule->cut << rule->cut) : result;
}

ref_sum ref_sum_of(const kvg_chip_info *chip)
{
    return (ref_sum){chip->sum_terms, (int)chip->fraction_bits, chip->least_exponent, 0};
}

ref_sum ref_sum_of_e4m3(const kvg_chip_info *chip)
{
    const int fraction_bits = (int)chip->fraction_bits_8;
    return (ref_sum){chip->sum_terms_8, fraction_bits, chip->least_exponent, (uint32_t)(F32_FRACTION - fraction_bits)};
}

float ref_mma_dot(const ref_sum *sum, const ref_operand *a, const ref_operand *b, size_t n, float c)
{
    for (size_t i = 0; i < n; i += sum->terms) c = fused_sum(sum, a + i, b + i, c);
    return c;
}

/* --- the instruction --- */

static void mma_tile(const ref_sum *sum, kvg_dtype dtype, const uint16_t *a, const uint16_t *b,
                     const float *c, float *d)
{
    uint16_t columns[KVG_MMA_N * KVG_MMA_K]; /* b transposed */
    ref_operand left[KVG_MMA_M * KVG_MMA_K], right[KVG_MMA_N * KVG_MMA_K];
    for (int k = 0; k < KVG_MMA_K; k++) {
        for (int n = 0; n < KVG_MMA_N; n++) columns[n * KVG_MMA_K + k] = b[k * KVG_MMA_N + n];
    }
    ref_operand_decode(dtype, a, KVG_MMA_M * KVG_MMA_K, left);
    ref_operand_decode(dtype, columns, KVG_MMA_N * KVG_MMA_K, right);
    for (int i = 0; i < KVG_MMA_M * KVG_MMA_N; i++) {
        const int m = i / KVG_MMA_N, n = i % KVG_MMA_N;
        d[i] = ref_mma_dot(sum, left + m * KVG_MMA_K, right + n * KVG_MMA_K, KVG_MMA_K, c[i]);
    }
}

kvg_status kvg_reference_mma(kvg_profile profile, kvg_dtype dtype, size_t tiles, const uint16_t *a, const uint16_t *b,
                             const float *c, float *d)
{
    const kvg_profile_info *info = kvg_profile_get(profile);
    if (!info) return kvg_fail(KVG_ERR_INVALID, "no profile %d: core/profiles.def has them all", (int)profile);
    if (!kvg_profile_is_chip(info)) return kvg_fail(KVG_ERR_INVALID, "%s has no tensor core", info->name);
    if (dtype != KVG_DTYPE_F16 && dtype != KVG_DTYPE_BF16) {
        return kvg_fail(KVG_ERR_INVALID, "%s has no operands of type %s: use f16 or bf16", info->name,
                        kvg_dtype_name(dtype));
    }
    const ref_sum sum = ref_sum_of(info->chip);
    for (size_t t = 0; t < tiles; t++) {
        mma_tile(&sum, dtype, a + t * KVG_MMA_M * KVG_MMA_K, b + t * KVG_MMA_K * KVG_MMA_N,
                 c + t * KVG_MMA_M * KVG_MMA_N, d + t * KVG_MMA_M * KVG_MMA_N);
    }
    return KVG_OK;
}
