#include "second/slow_operand.h"

/* --- how the contracts have them --- */

/* docs/spec/decode-contract.md section 2. */
static const struct rule {
    kvg_format format;
    kvg_dtype type; /* 0: T */
    int base;
} tensor_core_rules[] = {
    {KVG_FORMAT_F16, KVG_DTYPE_F16, 0},     {KVG_FORMAT_BF16, KVG_DTYPE_BF16, 0},
    {KVG_FORMAT_INT8, 0, 0},                {KVG_FORMAT_INT4, 0, 0},
    {KVG_FORMAT_E4M3, KVG_DTYPE_F16, 0},    {KVG_FORMAT_E5M2, KVG_DTYPE_F16, 0},
    {KVG_FORMAT_ROWINT4, KVG_DTYPE_F16, 0}, {KVG_FORMAT_ROWFP4, KVG_DTYPE_F16, 0},
    {KVG_FORMAT_NVFP4, KVG_DTYPE_F16, 14},  {KVG_FORMAT_MX16, KVG_DTYPE_F16, 5},
    {KVG_FORMAT_MXFP4, KVG_DTYPE_F16, 5},
};

static const struct rule *rule_of(kvg_format format)
{
    for (size_t i = 0; i < sizeof tensor_core_rules / sizeof tensor_core_rules[0]; i++) {
        if (tensor_core_rules[i].format == format) return &tensor_core_rules[i];
    }
    return NULL;
}

bool slow_has_operands(kvg_format format)
{
    return rule_of(format) != NULL;
}

bool slow_has_row_scale(kvg_format format)
{
    const kvg_format_info *f = kvg_format_get(format);
    return f->row_param_bytes && f->scales != KVG_SCALES_AFFINE;
}

static slow_operands tensor_core_operands(const slow_side *side, slow_decode_fault fault)
{
    const struct rule *rule = rule_of(side->codec->format);
    const bool powers = kvg_format_get(rule->format)->scales == KVG_SCALES_E8M0;
    const bool base_one = fault == (powers ? SLOW_DECODE_MX_BASE_ONE : SLOW_DECODE_FP4_BASE_ONE);
    return (slow_operands){
        .type = slow_layout_of(rule->type ? rule->type : side->dtype),
        .base = base_one ? 0 : rule->base,
        .most_scale = fault == SLOW_DECODE_MX_UNCLAMPED ? 127 : 14,
        .has_row_scale = slow_has_row_scale(rule->format),
    };
}

static slow_operands wide_operands(const slow_side *side, slow_decode_fault fault)
{
    const kvg_format format = side->codec->format;
    const bool row = slow_has_row_scale(format);
    return (slow_operands){.type = &slow_f32, .most_scale = fault == SLOW_DECODE_MX_CLAMPED ? 14 : 127,
                           .has_row_scale = row && fault == SLOW_DECODE_ROW_SCALE_OUTSIDE};
}

bool slow_one_by_one(const kvg_contract_info *contract)
{
    return contract->operands == KVG_OPERANDS_WIDENED || contract->operands == KVG_OPERANDS_THREADS;
}

/* Another kernel has e4m3 as it is stored, or widened to T: docs/spec/other-kernels.md sections 1.6 and 2.1. */
static const slow_layout *stored_type(const slow_side *side, const kvg_contract_info *contract)
{
    const bool narrow = side->codec->format == KVG_FORMAT_E4M3 && contract->end == KVG_END_RECIPROCAL;
    return narrow ? &slow_e4m3 : slow_layout_of(side->dtype);
}

slow_operands slow_operands_of(const slow_side *side, const kvg_profile_info *profile, slow_decode_fault fault)
{
    const bool wide = slow_one_by_one(profile->contract);
    slow_operands o = wide ? wide_operands(side, fault) : tensor_core_operands(side, fault);
    o.stored = profile->contract->operands == KVG_OPERANDS_STORED;
    if (o.stored) o.type = stored_type(side, profile->contract);
    o.widest_16 = profile->contract->widest_16;
    o.side = side;
    o.fault = fault;
    const bool rounds = side->codec->form == SLOW_ROUNDED_PRODUCT;
    o.has_g = fault == SLOW_DECODE_G_INSIDE || (fault == SLOW_DECODE_MODELOPT_INSIDE && rounds);
    o.g = o.has_g ? slow_scaled(1, 0) : side->row.g;
    return o;
}

/* --- rows --- */

slow_number slow_row_scale(const slow_operands *o, const slow_row_bytes *row)
{
    return slow_element_of(o->side, row, 0).scale;
}

/* Of affine formats: what op dequantise gives before its last rounding. */
static slow_number affine_of(const slow_operands *o, const slow_element *e)
{
    const slow_form form = o->side->codec->form;
    if (form == SLOW_ZERO_POINT) {
        return slow_rn(slow_multiply(slow_rn(slow_subtract(e->code, e->parameter)), e->scale));
    }
    if (form == SLOW_ZERO_POINT_IN_T) {
        return slow_rn(slow_multiply(slow_round(o->side->row.type, slow_subtract(e->code, e->parameter)), e->scale));
    }
    slow_number product = slow_multiply(e->code, e->scale);
    if (form == SLOW_LESS_ZERO) {
        const slow_number zero = slow_round(o->side->row.type, slow_multiply(e->scale, e->parameter));
        const slow_number x = slow_subtract(product, zero);
        return o->side->row.type == &slow_f16 ? x : slow_rn(x);
    }
    const bool twice = form == SLOW_AFFINE_TWICE;
    if (twice != (o->fault == SLOW_DECODE_AFFINE_TWICE)) product = slow_round(o->side->row.type, product);
    return slow_add(product, e->parameter);
}

/* The power of two of a block. */
static slow_number mx_scale(const slow_operands *o, slow_number scale)
{
    if (scale.kind == SLOW_NAN) return o->fault == SLOW_DECODE_MX_NAN_CLAMPED ? slow_scaled(1, 14) : scale;
    const slow_number largest = slow_scaled(1, o->most_scale);
    return slow_compare(scale, largest) > 0 ? largest : scale;
}

static slow_number value_of(const slow_operands *o, const slow_row_bytes *row, size_t dim)
{
    const slow_element e = slow_element_of(o->side, row, dim);
    switch (kvg_format_get(o->side->codec->format)->scales) {
    case KVG_SCALES_AFFINE: {
        const slow_number x = affine_of(o, &e);
        return o->fault == SLOW_DECODE_AFFINE_IN_T ? slow_round(o->side->row.type, x) : x;
    }
    case KVG_SCALES_E8M0: {
        const slow_number x = slow_multiply(e.code, mx_scale(o, e.scale));
        const bool tiny = x.kind == SLOW_FINITE && slow_compare_magnitudes(x, slow_scaled(1, -126)) < 0;
        return tiny && o->fault == SLOW_DECODE_MX_FLUSHED ? slow_zero(x.negative) : x;
    }
    case KVG_SCALES_NONE:
    case KVG_SCALES_E4M3:
    case KVG_SCALES_F16:
    case KVG_SCALES_F32: break;
    }
    return o->has_row_scale ? e.code : slow_multiply(e.code, e.scale); /* 1 where there is none */
}

uint32_t slow_operand_code(const slow_layout *type, slow_number x)
{
    return type == &slow_e4m3 ? slow_fp8_encode(type, x) : (uint32_t)slow_encode(type, x);
}

void slow_operands_load(const slow_operands *o, const slow_row_bytes *row, uint32_t *codes)
{
    const slow_number unit = slow_scaled(1, -o->base);
    for (size_t d = 0; d < o->side->row.dim; d++) {
        slow_number x = slow_multiply(value_of(o, row, d), unit);
        if (o->has_g) x = slow_multiply(x, o->side->row.g);
        codes[d] = slow_operand_code(o->type, x);
    }
}

/* --- section 4 of docs/spec/decode-contract.md --- */

/* The segment that sum s falls into: its width, its first place, and the number of the sum in it. */
typedef struct segment {
    size_t width, first, sum;
} segment;

static segment segment_of(size_t dim, size_t widest, bool narrow_first, size_t s)
{
    segment g = {.sum = s};
    size_t widths[KVG_MAX_HEAD_DIM / 16], count = 0;
    for (size_t width = widest, left = dim; left > 0; left -= width) {
        while (width > left) width /= 2;
        widths[count++] = width;
    }
    for (size_t i = 0; i < count; i++) {
        g.width = widths[narrow_first ? count - 1 - i : i];
        if (g.sum < g.width / 16) break;
        g.first += g.width;
        g.sum -= g.width / 16;
    }
    return g;
}

static size_t place_of_sum(const slow_operands *o, size_t s, size_t k)
{
    const size_t dim = o->side->row.dim, stored_bits = kvg_format_get(o->side->codec->format)->element_bits;
    const size_t bits = o->stored ? 16 : stored_bits;
    const slow_decode_fault fault = o->fault;
    static const size_t shuffled[] = {0, 4, 2, 6}, in_pairs[] = {0, 2, 4, 6}, narrow[] = {0, 2, 1, 3};
    size_t widest = bits == 4 ? 128 : bits == 8 ? 64 : o->widest_16;
    if (fault == SLOW_DECODE_WIDEST_HALVED && widest > KVG_MMA_K) widest /= 2;
    if (fault == SLOW_DECODE_WIDEST_DOUBLED) widest *= 2;
    const segment g = segment_of(dim, widest, fault == SLOW_DECODE_NARROW_FIRST, s);
    const size_t lane = k % 8 / 2, i = 2 * (k / 8) + k % 2, own = g.first + g.width / 4 * lane, t = g.sum;
    if (bits != 4) return own + 4 * t + i;
    if (g.width == 16) return own + narrow[i];
    const bool by_pairs = fault == SLOW_DECODE_PLACES_BY_PAIRS;
    return own + 8 * (t / 2) + t % 2 + (by_pairs ? in_pairs : shuffled)[i];
}

/* The dim whose code lies at a place: the other way round than slow_place_of_element. */
static size_t dim_at(const slow_side *side, size_t place)
{
    size_t d = 0;
    while (slow_place_of_element(side->codec, d, side->row.dim) != place) d++;
    return d;
}

static size_t dim_in_sums(const slow_operands *o, size_t i)
{
    if (o->fault == SLOW_DECODE_PLACES_IN_ORDER) return i;
    if (o->fault == SLOW_DECODE_SUMS_REVERSED) i = o->side->row.dim - KVG_MMA_K - i + 2 * (i % KVG_MMA_K);
    const size_t place = place_of_sum(o, i / KVG_MMA_K, i % KVG_MMA_K);
    return o->fault == SLOW_DECODE_INT4_BY_DIM ? place : dim_at(o->side, place);
}

size_t slow_dim_of_product(const slow_operands *o, bool one_by_one, size_t i)
{
    if (!one_by_one) return dim_in_sums(o, i);
    if (o->fault == SLOW_DECODE_DIMS_REVERSED) return o->side->row.dim - 1 - i;
    return o->fault == SLOW_DECODE_DIMS_BY_PLACE ? dim_at(o->side, i) : i;
}
