#include "reference/attention/ref_profile_operand.h"

#include <math.h> /* NAN */
#include <string.h>

#include "core/bits.h"
#include "reference/attention/ref_profile.h"
#include "reference/attention_profile.h"
#include "reference/formats/ref_row_scale.h"
#include "reference/numbers/ref_round.h"
#include "reference/numbers/ref_special.h"

enum {
    E2M1_CODES = 16,
    MOST_EXPONENT = 14, /* of an E8M0 scale: larger ones are read as it */
};

/* --- section 2 --- */

/* What the codes of a block are multiplied by. */
static double e4m3_scale(uint8_t byte)
{
    return (double)kvg_ref_f32_of_e4m3(byte) * 0x1p-14;
}

static double e8m0_scale(uint8_t byte)
{
    const uint8_t most = 127 + MOST_EXPONENT;
    return byte == 255 ? NAN : (double)kvg_ref_f32_of_e8m0(byte < most ? byte : most) * 0x1p-5;
}

/* How operands follow from codes: as they are (no column), decoded with the row's parameters, looked up by code, or by
 * scale byte and code. */
static const struct rule {
    kvg_format format;
    kvg_operand type; /* 0: T */
    int base;
    bool decoded;                   /* by docs/spec/formats.md section 5 */
    uint32_t codes;                 /* of an element; 0: no table */
    double (*block_scale)(uint8_t); /* NULL: no blocks */
} rules[] = {
    /*                  type, base, decoded, codes, block_scale */
    {KVG_FORMAT_F16, KVG_OPERAND_F16, 0, false, 0, NULL},
    {KVG_FORMAT_BF16, KVG_OPERAND_BF16, 0, false, 0, NULL},
    {KVG_FORMAT_INT8, 0, 0, true, 0, NULL},
    {KVG_FORMAT_INT4, 0, 0, true, 0, NULL},
    {KVG_FORMAT_E4M3, KVG_OPERAND_F16, 0, false, 256, NULL},
    {KVG_FORMAT_E5M2, KVG_OPERAND_F16, 0, false, 256, NULL},
    {KVG_FORMAT_ROWINT4, KVG_OPERAND_F16, 0, false, 16, NULL},
    {KVG_FORMAT_ROWFP4, KVG_OPERAND_F16, 0, false, 16, NULL},
    {KVG_FORMAT_NVFP4, KVG_OPERAND_F16, 14, false, E2M1_CODES, e4m3_scale},
    {KVG_FORMAT_MX16, KVG_OPERAND_F16, 5, false, E2M1_CODES, e8m0_scale},
    {KVG_FORMAT_MXFP4, KVG_OPERAND_F16, 5, false, E2M1_CODES, e8m0_scale},
};

static const struct rule *rule_of(kvg_format format)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].format == format) return &rules[i];
    }
    return NULL;
}

bool kvg_profile_has_operands(kvg_profile profile, kvg_format format)
{
    const kvg_profile_info *info = kvg_profile_get(profile);
    const kvg_operands_kind kind = info ? info->contract->operands : KVG_OPERANDS_WIDENED;
    const bool stored = format == KVG_FORMAT_F16 || format == KVG_FORMAT_BF16 || format == KVG_FORMAT_E4M3;
    if (kind == KVG_OPERANDS_WIDENED) return true;
    return kind == KVG_OPERANDS_HELD ? rule_of(format) != NULL : stored;
}

static kvg_tiling smallest_tiling(const kvg_problem *p)
{
    return kvg_problem_tiling(p, &(kvg_call_shape){.window = p->attention.window});
}

kvg_status ref_stored_check(const kvg_problem *p)
{
    const kvg_profile_info *profile = kvg_profile_get(p->profile);
    const kvg_format k = p->storage[KVG_K].format, v = p->storage[KVG_V].format;
    const bool bytes = k == KVG_FORMAT_E4M3;
    if (k != v || k != (bytes && p->dtype == KVG_DTYPE_BF16 ? KVG_FORMAT_E4M3 : kvg_format_of_dtype(p->dtype))) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s reads K and V of the model type, or of e4m3 with model type bf16: "
                        "not %s and %s with %s", profile->name, kvg_format_get(k)->name, kvg_format_get(v)->name,
                        kvg_dtype_name(p->dtype));
    }
    if (bytes && p->head_dim % profile->chip->sum_terms_8) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s adds %u products of e4m3 at once: head_dim %u is no multiple",
                        profile->name, profile->chip->sum_terms_8, p->head_dim);
    }
    if (p->attention.softcap > 0 && profile->contract->cap == KVG_CAP_NONE) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s was built without a softcap: set softcap 0", profile->name);
    }
    if (p->attention.sinks && profile->contract->sinks == KVG_SINKS_NONE) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "the bits of %s are not known with sinks", profile->name);
    }
    const bool latent = p->paging.shared_kv && p->paging.v_dim == 512 && p->paging.v_first == 0 && k == KVG_FORMAT_BF16;
    if (profile->contract->weights == KVG_WEIGHTS_BY_PAIR && !latent) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s reads rows of 576 bf16 numbers, whose first 512 are V",
                        profile->name);
    }
    if (profile->contract->weights == KVG_WEIGHTS_BY_PAIR && p->attention.window) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s has no window", profile->name);
    }
    if (profile->contract->weights != KVG_WEIGHTS_BY_PAIR && p->paging.shared_kv) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s reads K and V of their own: no rows that both share",
                        profile->name);
    }
    const bool for_one = profile->contract->operands == KVG_OPERANDS_ROUNDS;
    const bool one = p->attention.query_heads == p->kv_heads;
    if (profile->contract->end == KVG_END_NATURAL && one != for_one) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s is for %s of a KV head: %s another kernel", profile->name,
                        for_one ? "one query head" : "several query heads", for_one ? "several have" : "one has");
    }
    if (!smallest_tiling(p).tile || (for_one && p->head_dim % KVG_MMA_K)) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "the bits of %s are not known for head_dim %u in %s", profile->name,
                        p->head_dim, kvg_format_get(k)->name);
    }
    return KVG_OK;
}

kvg_status ref_holding_check(const kvg_problem *p)
{
    const kvg_profile_info *profile = kvg_profile_get(p->profile);
    const bool stored = profile->contract->operands == KVG_OPERANDS_STORED;
    if (p->dtype != KVG_DTYPE_F16 && p->dtype != KVG_DTYPE_BF16) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "the decode contract has no operands for model type %s: use f16 or bf16",
                        kvg_dtype_name(p->dtype));
    }
    if (p->head_dim % KVG_MMA_K) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "the decode contract adds %d dims at once: head_dim %u is no multiple",
                        (int)KVG_MMA_K, p->head_dim);
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_format format = p->storage[side].format;
        if (kvg_profile_has_operands(p->profile, format)) continue;
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "the decode contract has no operands for format %s",
                        kvg_format_get(format)->name);
    }
    return stored ? ref_stored_check(p) : KVG_OK;
}

static kvg_operand operand_type(kvg_dtype type)
{
    return type == KVG_DTYPE_F16 ? KVG_OPERAND_F16 : KVG_OPERAND_BF16;
}

static kvg_operand type_of(const kvg_problem *p, kvg_side side)
{
    const kvg_contract_info *contract = kvg_profile_get(p->profile)->contract;
    const kvg_operand type = rule_of(p->storage[side].format)->type;
    if (contract->operands == KVG_OPERANDS_STORED && p->storage[side].format == KVG_FORMAT_E4M3)
        return contract->end == KVG_END_RECIPROCAL ? KVG_OPERAND_E4M3 : operand_type(p->dtype);
    return type ? type : operand_type(p->dtype);
}

/* A factor of the row stays outside; two parameters are in the operand. */
static bool has_row_scale(const kvg_problem *p, kvg_side side)
{
    return kvg_format_get(p->storage[side].format)->scales == KVG_SCALES_F16;
}

static kvg_dtype dtype_of(kvg_operand type)
{
    return type == KVG_OPERAND_F16 ? KVG_DTYPE_F16 : KVG_DTYPE_BF16;
}

/* Numbers that become e4m3 are f32 numbers. */
static ref_operand operand_of(kvg_operand type, double x)
{
    if (type == KVG_OPERAND_E4M3) return ref_operand_of_e4m3(kvg_ref_e4m3_of_f32((float)x));
    const uint16_t code = type == KVG_OPERAND_F16 ? kvg_ref_f16_of_f64(x) : kvg_ref_bf16_of_f64(x);
    ref_operand o;
    ref_operand_decode(dtype_of(type), &code, 1, &o);
    return o;
}

ref_operand ref_operand_round(kvg_operand type, float x)
{
    return operand_of(type, x);
}

/* Every code's number, as the row of all codes is decoded. */
static void fill_by_code(const ref_side *stored, ref_holding *h)
{
    ref_row row = stored->row;
    uint16_t codes[256];
    double y[256];
    static const uint8_t scales[4] = {0}; /* the scale comes back as the factor */
    row.head_dim = h->codes;
    for (uint32_t i = 0; i < h->codes; i++) codes[i] = (uint16_t)i;
    stored->codec->exact(&row, codes, scales, y);
    for (uint32_t i = 0; i < h->codes; i++) h->table[i] = operand_of(h->type, y[i]);
}

static void fill_by_block(double (*block_scale)(uint8_t), ref_holding *h)
{
    for (uint32_t i = 0; i < 256 * h->codes; i++) {
        const double value = kvg_ref_f32_of_e2m1((uint8_t)(i % h->codes));
        h->table[i] = operand_of(h->type, value * block_scale((uint8_t)(i / h->codes)));
    }
}

void ref_holding_init(const ref_kv *kv, kvg_side side, ref_holding *out)
{
    const ref_side *stored = &kv->side[side];
    const struct rule *rule = rule_of(kv->p->storage[side].format);
    *out = (ref_holding){
        .kv = kv,
        .side = side,
        .type = type_of(kv->p, side),
        .base = rule->base,
        .row_scaled = has_row_scale(kv->p, side),
        .factor = stored->row.tensor_scale * (float)(1 << rule->base),
        .codes = rule->codes,
        .block = kvg_format_get(rule->format)->block,
        .decoded = rule->decoded,
    };
    if (out->type == KVG_OPERAND_E4M3) {
        for (uint32_t i = 0; i < out->codes; i++) out->table[i] = ref_operand_of_e4m3((uint8_t)i);
        return;
    }
    if (rule->block_scale) fill_by_block(rule->block_scale, out);
    else if (rule->codes) fill_by_code(stored, out);
}

/* The number that docs/spec/formats.md section 5 gives, in T. */
static void decode_row(const ref_holding *h, const uint16_t *codes, const uint8_t *scales, uint32_t n, ref_operand *out)
{
    const ref_side *stored = &h->kv->side[h->side];
    float y[KVG_MAX_HEAD_DIM];
    stored->codec->decode(&stored->row, codes, scales, y);
    for (uint32_t i = 0; i < n; i++) out[i] = operand_of(h->type, y[i]);
}

void ref_holding_row(const ref_holding *h, uint32_t sequence, uint32_t head, uint32_t position, ref_operand *out,
                     float *row_scale)
{
    const kvg_problem *p = h->kv->p;
    const uint32_t D = p->head_dim, first = h->side == KVG_V && p->paging.shared_kv ? p->paging.v_first : 0;
    uint16_t codes[KVG_MAX_HEAD_DIM];
    uint8_t scales[KVG_MAX_HEAD_DIM];
    ref_operand row[KVG_MAX_HEAD_DIM];
    ref_kv_codes(h->kv, h->side, sequence, head, position, codes, scales);
    *row_scale = h->row_scaled ? ref_row_scale_read(scales) : 1;
    if (h->decoded) {
        decode_row(h, codes, scales, D, row);
    } else if (h->codes) {
        for (uint32_t i = 0; i < D; i++) row[i] = h->table[(h->block ? scales[i / h->block] * h->codes : 0) + codes[i]];
    } else {
        ref_operand_decode(dtype_of(h->type), codes, D, row);
    }
    memcpy(out, row + first, ref_kv_dim(h->kv, h->side) * sizeof *out);
}

/* --- section 3 --- */

static float widen(kvg_dtype type, uint16_t code)
{
    return type == KVG_DTYPE_F16 ? kvg_ref_f32_of_f16(code) : kvg_ref_f32_of_bf16(code);
}

/* floor(log2(amax)), at most 126; 0 where it is no normal number. */
static int exponent_of_row(const uint16_t *q, uint32_t n)
{
    uint32_t largest = 0; /* bit patterns of magnitudes are in the order of the numbers, NaN above all */
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t magnitude = q[i] & 0x7FFF;
        if (magnitude > largest) largest = magnitude;
    }
    const int field = (int)(largest >> 7);
    if (field == 0 || field == 255) return 0;
    return field - 127 < 126 ? field - 127 : 126;
}

void ref_query_operands(kvg_dtype T, kvg_operand type, const uint16_t *q, uint32_t n, ref_operand *out, int *exponent)
{
    *exponent = 0;
    if (type == operand_type(T)) {
        ref_operand_decode(T, q, n, out);
        return;
    }
    if (T == KVG_DTYPE_BF16 && type == KVG_OPERAND_F16) *exponent = exponent_of_row(q, n);
    const float down = kvg_f32_of_bits((uint32_t)(127 - *exponent) << 23);
    for (uint32_t i = 0; i < n; i++) {
        const float scaled = widen(T, q[i]) * down;
        out[i] = operand_of(type, scaled);
    }
}

/* --- section 4 --- */

/* Which neighbours of a lane the places of sum t hold: 8 (t div 2), `odd` more for an odd t, and `inner` by i. */
static const struct places {
    uint32_t bits, widest, odd;  /* widest 0: the profile says it */
    uint8_t inner[4], narrow[4]; /* narrow: in a segment of 16 */
} places[] = {
    {4, 128, 1, {0, 4, 2, 6}, {0, 2, 1, 3}},
    {8, 64, 4, {0, 1, 2, 3}, {0, 1, 2, 3}},
    {16, 0, 4, {0, 1, 2, 3}, {0, 1, 2, 3}},
};

void ref_score_order(const ref_kv *kv, uint16_t *dims)
{
    const uint32_t D = kv->p->head_dim, bits = kvg_format_get(kv->p->storage[KVG_K].format)->element_bits;
    const struct places *at = places;
    while (at->bits != bits) at++;
    const kvg_contract_info *contract = kvg_profile_get(kv->p->profile)->contract;
    if (contract->operands == KVG_OPERANDS_STORED) {
        for (uint32_t d = 0; d < D; d++) dims[d] = (uint16_t)d;
        return;
    }
    uint32_t width = at->widest ? at->widest : contract->widest_16;
    for (uint32_t start = 0; start < D; start += width) {
        while (start + width > D) width /= 2;
        const uint8_t *inner = width == KVG_MMA_K ? at->narrow : at->inner;
        for (uint32_t j = 0; j < width; j++) {
            const uint32_t t = j / KVG_MMA_K, k = j % KVG_MMA_K, lane = k % 8 / 2, i = 2 * (k / 8) + k % 2;
            const uint32_t place = start + width / 4 * lane + 8 * (t / 2) + at->odd * (t % 2) + inner[i];
            dims[start + j] = (uint16_t)(bits == 4 ? ref_nibble_element(kv->side[KVG_K].packing, place, D) : place);
        }
    }
}

/* --- the class --- */

void ref_holding_class(const kvg_problem *p, kvg_arithmetic *out)
{
    const kvg_operand k = type_of(p, KVG_K), v = type_of(p, KVG_V);
    const bool bytes = v == KVG_OPERAND_E4M3;
    const kvg_profile_info *profile = kvg_profile_get(p->profile);
    const ref_exp2_rule *exp2 = ref_exp2_rule_of(profile->contract->exp2);
    const kvg_exponent_kind exponent = profile->contract->exponent;
    const kvg_tiling tiling = smallest_tiling(p);
    const bool typed = profile->contract->weights == KVG_WEIGHTS_BY_TILE;
    *out = (kvg_arithmetic){
        .q = k, .k = k, .p = v, .v = v,
        .folded = true,
        .rounded_sum = profile->contract->weights == KVG_WEIGHTS_AS_VALUES || typed,
        .typed = typed,
        .fused_exponent = exponent == KVG_EXPONENT_FUSED || exponent == KVG_EXPONENT_FUSED_EACH ||
                          exponent == KVG_EXPONENT_FUSED_ALL || exponent == KVG_EXPONENT_FUSED_E,
        .fused_rescales = exponent == KVG_EXPONENT_FUSED_ALL,
        .rounded_twice = profile->contract->end == KVG_END_PARTS && p->storage[KVG_V].format == KVG_FORMAT_E4M3,
        .late_sink = profile->contract->end == KVG_END_RECIPROCAL,
        .q_unit = 1,
        .p_unit = bytes ? 1.0f / (1 << REF_E4M3_OFFSET) : 1,
        .fraction_bits = bytes ? profile->chip->fraction_bits_8 : profile->chip->fraction_bits,
        .tile = tiling.tile,
        .span = profile->contract->leaf,
        .parts = profile->contract->end == KVG_END_SEGMENTS ? KVG_SEGMENTS : tiling.parts,
        .k_unit = (float)(1 << rule_of(p->storage[KVG_K].format)->base),
        .v_unit = (float)(1 << rule_of(p->storage[KVG_V].format)->base),
        .exp2_error = exp2->error,
        .tanh_error = profile->contract->cap == KVG_CAP_TANH ? REF_TANH_APPROX_ERROR : exp2->tanh_error,
        .most_exponent = MOST_EXPONENT,
    };
}
