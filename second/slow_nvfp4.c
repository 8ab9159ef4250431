/* nvfp4: E2M1, an E4M3 byte per 16 and an FP32 scale per tensor: docs/spec/formats.md section 8. One row of the
 * page's table is one row of `rules` below: how q is found, its clamp, by what the elements are divided or
 * multiplied, and when v is replaced. */
#include "second/slow_codec.h"
#include "second/slow_special.h"

typedef struct block {
    slow_number g;    /* decode scale */
    slow_number amax;
    slow_number q;    /* block scale before E4M3 */
    slow_number sf;   /* the stored one */
} block;

typedef slow_number block_fn(const block *b);

static slow_number mul(slow_number a, slow_number b)
{
    return slow_rn(slow_multiply(a, b));
}

static slow_number over(slow_number a, slow_number b)
{
    return slow_rn(slow_divide(a, b));
}

static slow_number one(void)
{
    return slow_scaled(1, 0);
}

static slow_number six(void)
{
    return slow_scaled(6, 0);
}

static slow_number encode_scale(const block *b) /* S */
{
    return over(one(), b->g);
}

static slow_number q_canonical(const block *b)
{
    return over(b->amax, mul(six(), b->g));
}

static slow_number q_modelopt(const block *b)
{
    slow_number q = q_canonical(b);
    return slow_is_zero(q) ? one() : q;
}

static slow_number q_flashinfer_kv(const block *b)
{
    return mul(slow_rcp(b->g), mul(b->amax, slow_rcp(six())));
}

static slow_number q_trtllm(const block *b)
{
    return mul(encode_scale(b), mul(b->amax, slow_rcp(six())));
}

static slow_number q_flashinfer_te(const block *b)
{
    return mul(b->amax, mul(encode_scale(b), over(one(), six())));
}

static slow_number q_vllm_minimax(const block *b)
{
    slow_number least = over(one(), slow_scaled(244140625, 12)); /* 1e-12f: 10^12 = 5^12 * 2^12 */
    slow_number a = slow_compare(b->amax, least) < 0 ? least : b->amax;
    return mul(over(a, six()), encode_scale(b));
}

static slow_number q_torchao(const block *b)
{
    return over(mul(b->amax, over(one(), six())), b->g);
}

/* A subnormal number is a zero. */
static slow_number flush(slow_number x)
{
    const bool small = x.kind == SLOW_FINITE && slow_compare_magnitudes(x, slow_scaled(1, -126)) < 0;
    return small ? slow_zero(x.negative) : x;
}

static slow_number fast_reciprocal(slow_number x)
{
    return slow_rcp_approx(flush(x), true, SLOW_SPECIAL_FAULTS);
}

static slow_number flushed_product(slow_number a, slow_number b)
{
    return flush(mul(flush(a), flush(b)));
}

/* amax by the reciprocal of 6g, 0 if one of the two is flushed to it */
static slow_number q_flushed(const block *b, slow_number reciprocal)
{
    const bool none = slow_is_zero(flush(b->amax)) || slow_is_zero(flush(b->g));
    return none ? slow_zero(false) : flushed_product(b->amax, reciprocal);
}

static slow_number q_flashinfer_mla(const block *b)
{
    return q_flushed(b, slow_rcp(mul(six(), b->g)));
}

static slow_number q_flashinfer_page_sm90(const block *b)
{
    return q_flushed(b, fast_reciprocal(mul(six(), b->g)));
}

static slow_number d_stored(const block *b)
{
    return mul(b->sf, b->g);
}

static slow_number d_hopper(const block *b)
{
    slow_number d = d_stored(b), least = over(one(), slow_scaled(100000, 0)); /* 1e-5f */
    return d.kind != SLOW_NAN && slow_compare(d, least) < 0 ? one() : d;
}

static slow_number d_unrounded(const block *b)
{
    return mul(b->q, b->g);
}

static slow_number m_flashinfer_kv(const block *b)
{
    return slow_rcp(d_stored(b));
}

static slow_number m_trtllm(const block *b)
{
    return slow_rcp(mul(b->sf, slow_rcp(encode_scale(b))));
}

static slow_number m_flashinfer_te(const block *b)
{
    slow_number m = over(one(), mul(b->sf, over(one(), encode_scale(b))));
    return m.kind == SLOW_INF ? slow_decode(&slow_f32, slow_f32.largest) : m; /* min(m, FLT_MAX), NaN kept */
}

static slow_number m_flashinfer_page(const block *b)
{
    return over(one(), d_stored(b));
}

static slow_number m_torchao(const block *b)
{
    return over(encode_scale(b), b->sf);
}

static slow_number m_flashinfer_page_sm90(const block *b)
{
    return fast_reciprocal(d_stored(b));
}

/* SMALLEST: the smallest number of E4M3. NORMAL: its smallest normal one. */
typedef enum nvfp4_clamp { UNCLAMPED, AT_MOST_448, FROM_SMALLEST_TO_448, FROM_NORMAL_TO_448 } nvfp4_clamp;
typedef enum nvfp4_use { DIVIDE, MULTIPLY, MULTIPLY_FLUSHED } nvfp4_use;
typedef enum nvfp4_guard {
    NEVER,
    FACTOR_IS_ZERO,
    AMAX_IS_ZERO,
    Q_IS_ZERO,
    SF_IS_ZERO,
    SF_IS_ZERO_OR_NAN
} nvfp4_guard;
typedef enum nvfp4_substitute { ZERO_OF_SIGN_OF_X, PLUS_ZERO, X_TIMES_ZERO } nvfp4_substitute;

typedef struct nvfp4_rules {
    block_fn *q;
    nvfp4_clamp clamp;
    block_fn *factor;
    nvfp4_use use;
    nvfp4_guard guard;           /* when v is replaced ... */
    nvfp4_substitute substitute; /* ... by what */
    slow_e2m1_rule e2m1;
    bool nan_propagates; /* a NaN element makes amax NaN */
    bool reads_plus_zero; /* code 8 is read as +0 */
} nvfp4_rules;

static slow_number apply_clamp(nvfp4_clamp clamp, slow_number q)
{
    const slow_number low = slow_decode(&slow_e4m3, clamp == FROM_NORMAL_TO_448 ? 8 : 1);
    const slow_number high = slow_decode(&slow_e4m3, slow_e4m3.largest);
    if (clamp == UNCLAMPED || q.kind == SLOW_NAN) return q;
    if (slow_compare(q, high) > 0) return high;
    if (clamp != AT_MOST_448 && slow_compare(q, low) < 0) return low;
    return q;
}

static bool guarded(nvfp4_guard guard, const block *b, slow_number factor)
{
    switch (guard) {
    case NEVER: return false;
    case FACTOR_IS_ZERO: return slow_is_zero(factor);
    case AMAX_IS_ZERO: return slow_is_zero(b->amax);
    case Q_IS_ZERO: return slow_is_zero(b->q);
    case SF_IS_ZERO: return slow_is_zero(b->sf);
    case SF_IS_ZERO_OR_NAN: return slow_is_zero(b->sf) || b->sf.kind == SLOW_NAN;
    }
    return false;
}

static slow_number replace(nvfp4_substitute substitute, slow_number x)
{
    switch (substitute) {
    case ZERO_OF_SIGN_OF_X: return slow_zero(x.negative);
    case PLUS_ZERO: return slow_zero(false);
    case X_TIMES_ZERO: break;
    }
    return mul(x, slow_zero(false));
}

static slow_number find_amax(const nvfp4_rules *rules, const slow_number *x, size_t count)
{
    for (size_t i = 0; rules->nan_propagates && i < count; i++) {
        if (x[i].kind == SLOW_NAN) return slow_nan();
    }
    return slow_amax(x, count);
}

static slow_number scaled(nvfp4_use use, slow_number x, slow_number factor)
{
    switch (use) {
    case DIVIDE: return over(x, factor);
    case MULTIPLY: return mul(x, factor);
    case MULTIPLY_FLUSHED: break;
    }
    return flushed_product(x, factor);
}

static void quantise_block(const nvfp4_rules *rules, slow_number g, const slow_number *x, size_t count,
                           uint8_t *codes, uint8_t *scale)
{
    block b = {.g = g, .amax = find_amax(rules, x, count)};
    b.q = apply_clamp(rules->clamp, rules->q(&b));
    *scale = slow_fp8_encode(&slow_e4m3, b.q);
    b.sf = slow_decode(&slow_e4m3, *scale);
    slow_number factor = rules->factor(&b);
    bool replaced = guarded(rules->guard, &b, factor);
    for (size_t j = 0; j < count; j++) {
        slow_number v = scaled(rules->use, x[j], factor);
        if (replaced && x[j].kind != SLOW_NAN) v = replace(rules->substitute, x[j]); /* NaN stays NaN */
        if (v.kind == SLOW_NAN) v.negative = x[j].negative; /* section 2.1: the sign of v is that of x */
        slow_put_nibble(codes, j, slow_e2m1_encode(&rules->e2m1, v));
    }
}

static void quantise(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                     uint8_t *scales)
{
    size_t size = kvg_format_get(codec->format)->block;
    for (size_t i = 0; i < row->dim / size; i++) {
        quantise_block(codec->rules, row->g, x + i * size, size, codes + i * size / 2, &scales[i]);
    }
}

static void dequantise(const slow_codec *codec, const slow_row *row, const uint8_t *codes, const uint8_t *scales,
                       slow_number *x)
{
    size_t size = kvg_format_get(codec->format)->block;
    for (size_t j = 0; j < row->dim; j++) {
        slow_number code = slow_decode(&slow_e2m1, slow_get_nibble(codes, j));
        slow_number sf = slow_decode(&slow_e4m3, scales[j / size]);
        x[j] = mul(slow_multiply(code, sf), row->g);
    }
}

/* By the rounded product of both scales. */
static void dequantise_scale_first(const slow_codec *codec, const slow_row *row, const uint8_t *codes,
                                   const uint8_t *scales, slow_number *x)
{
    const nvfp4_rules *rules = codec->rules;
    size_t size = kvg_format_get(codec->format)->block;
    for (size_t j = 0; j < row->dim; j++) {
        slow_number code = slow_decode(&slow_e2m1, slow_get_nibble(codes, j));
        if (rules->reads_plus_zero && slow_is_zero(code)) code.negative = false;
        x[j] = mul(code, mul(slow_decode(&slow_e4m3, scales[j / size]), row->g));
    }
}

#define RULE(sign, nan) {SLOW_TIES_EVEN, SLOW_SIGN_##sign, nan}
static const nvfp4_rules canonical = {
    .q = q_canonical, .factor = d_stored, .guard = FACTOR_IS_ZERO, .substitute = ZERO_OF_SIGN_OF_X,
    .e2m1 = RULE(BIT, 7)};
static const nvfp4_rules modelopt = {
    .q = q_modelopt, .clamp = FROM_SMALLEST_TO_448, .factor = d_stored, .e2m1 = RULE(LESS, 7),
    .nan_propagates = true, .reads_plus_zero = true};
static const nvfp4_rules modelopt_fake = {
    .q = q_canonical, .clamp = AT_MOST_448, .factor = d_stored, .guard = FACTOR_IS_ZERO, .substitute = PLUS_ZERO,
    .e2m1 = RULE(BIT, 7)};
static const nvfp4_rules modelopt_hopper = {
    .q = q_canonical, .clamp = AT_MOST_448, .factor = d_hopper, .e2m1 = RULE(BIT, 7)};
static const nvfp4_rules flashinfer_kv = {
    .q = q_flashinfer_kv, .factor = m_flashinfer_kv, .use = MULTIPLY, .guard = AMAX_IS_ZERO,
    .substitute = X_TIMES_ZERO, .e2m1 = RULE(BIT, 7)};
static const nvfp4_rules trtllm = {
    .q = q_trtllm, .factor = m_trtllm, .use = MULTIPLY, .guard = Q_IS_ZERO, .substitute = X_TIMES_ZERO,
    .e2m1 = RULE(BIT, 7)};
static const nvfp4_rules flashinfer_fast = {
    .q = q_trtllm, .factor = m_trtllm, .use = MULTIPLY, .guard = AMAX_IS_ZERO, .substitute = X_TIMES_ZERO,
    .e2m1 = RULE(BIT, 7)};
static const nvfp4_rules flashinfer_te = {
    .q = q_flashinfer_te, .factor = m_flashinfer_te, .use = MULTIPLY, .e2m1 = RULE(BIT, 7)};
static const nvfp4_rules flashinfer_page = {
    .q = q_canonical, .factor = m_flashinfer_page, .use = MULTIPLY, .guard = SF_IS_ZERO, .substitute = X_TIMES_ZERO,
    .e2m1 = RULE(BIT, SLOW_NAN_SIGNED_ZERO)};
static const nvfp4_rules vllm = {
    .q = q_trtllm, .factor = m_trtllm, .use = MULTIPLY, .guard = SF_IS_ZERO, .substitute = X_TIMES_ZERO,
    .e2m1 = RULE(BIT, 7)};
static const nvfp4_rules vllm_minimax = {
    .q = q_vllm_minimax, .clamp = FROM_SMALLEST_TO_448, .factor = d_stored, .e2m1 = RULE(NONZERO, 7)};
static const nvfp4_rules torchao = {
    .q = q_torchao, .clamp = FROM_NORMAL_TO_448, .factor = m_torchao, .use = MULTIPLY, .e2m1 = RULE(BIT, 4),
    .nan_propagates = true};
static const nvfp4_rules flashinfer_page_sm90 = {
    .q = q_flashinfer_page_sm90, .factor = m_flashinfer_page_sm90, .use = MULTIPLY_FLUSHED, .guard = SF_IS_ZERO_OR_NAN,
    .substitute = X_TIMES_ZERO, .e2m1 = RULE(BIT, 0)};
static const nvfp4_rules flashinfer_mla = {
    .q = q_flashinfer_mla, .factor = m_flashinfer_kv, .use = MULTIPLY_FLUSHED, .guard = SF_IS_ZERO_OR_NAN,
    .substitute = X_TIMES_ZERO, .e2m1 = RULE(BIT, 0)};
static const nvfp4_rules seed = {
    .q = q_canonical, .factor = d_unrounded, .guard = FACTOR_IS_ZERO, .substitute = ZERO_OF_SIGN_OF_X,
    .e2m1 = RULE(BIT, 7)};

static const slow_codec nvfp4[] = {
    {KVG_FORMAT_NVFP4, "canonical", quantise, dequantise, &canonical, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_NVFP4, "modelopt", quantise, dequantise_scale_first, &modelopt, SLOW_ROUNDED_PRODUCT, NULL},
    {KVG_FORMAT_NVFP4, "modelopt-fake", quantise, dequantise, &modelopt_fake, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_NVFP4, "modelopt-hopper", quantise, dequantise, &modelopt_hopper, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_NVFP4, "flashinfer-kv", quantise, dequantise, &flashinfer_kv, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_NVFP4, "trtllm", quantise, dequantise, &trtllm, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_NVFP4, "flashinfer-fast", quantise, dequantise, &flashinfer_fast, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_NVFP4, "flashinfer-te", quantise, dequantise, &flashinfer_te, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_NVFP4, "flashinfer-page", quantise, dequantise, &flashinfer_page, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_NVFP4, "vllm", quantise, dequantise, &vllm, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_NVFP4, "vllm-minimax", quantise, dequantise, &vllm_minimax, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_NVFP4, "torchao", quantise, dequantise_scale_first, &torchao, SLOW_ROUNDED_PRODUCT, NULL},
    {KVG_FORMAT_NVFP4, "flashinfer-page-sm90", quantise, dequantise, &flashinfer_page_sm90, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_NVFP4, "flashinfer-mla", quantise, dequantise, &flashinfer_mla, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_NVFP4, "seed", quantise, dequantise, &seed, SLOW_PRODUCT, NULL},
};
const slow_codecs slow_of_nvfp4 = SLOW_CODECS(nvfp4);
