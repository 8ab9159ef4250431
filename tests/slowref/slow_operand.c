#include "tests/slowref/slow_operand.h"

#include <string.h>

#include "tests/slowref/slow_decode.h"

kvg_dtype slow_operand_type(kvg_format format, kvg_dtype model)
{
    switch (format) {
    case KVG_FORMAT_BF16: return KVG_DTYPE_BF16;
    case KVG_FORMAT_INT8:
    case KVG_FORMAT_INT4: return model;
    default: return KVG_DTYPE_F16;
    }
}

int slow_operand_base(kvg_format format, uint64_t faults)
{
    switch (format) {
    case KVG_FORMAT_NVFP4: return slow_decode_wrong(faults, SLOW_DECODE_FP4_BASE_ONE) ? 0 : 14;
    case KVG_FORMAT_MX16:
    case KVG_FORMAT_MXFP4: return slow_decode_wrong(faults, SLOW_DECODE_MX_BASE_ONE) ? 0 : 5;
    default: return 0;
    }
}

bool slow_has_row_scale(kvg_format format)
{
    return format == KVG_FORMAT_ROWINT4 || format == KVG_FORMAT_ROWFP4;
}

slow_number slow_row_scale(const slow_row_bytes *row)
{
    return slow_get16(row->scales, &slow_f16);
}

/* int8, int4: what op dequantise gives in the model type. */
static slow_number affine_of(const slow_side *s, const slow_element *e, uint64_t faults)
{
    const char *dialect = s->codec->dialect;
    if (strcmp(dialect, "pytorch") == 0) {
        return slow_rn(slow_multiply(slow_rn(slow_subtract(e->code, e->parameter)), e->scale));
    }
    slow_number product = slow_multiply(e->code, e->scale);
    const bool twice = strcmp(dialect, "turbomind-muladd") == 0;
    if (twice != slow_decode_wrong(faults, SLOW_DECODE_AFFINE_TWICE)) product = slow_round(s->row.type, product);
    return slow_add(product, e->parameter);
}

/* The power of two of a block, above 2^14 read as 2^14. */
static slow_number mx_scale(slow_number scale, uint64_t faults)
{
    const slow_number largest = slow_scaled(1, 14);
    if (scale.kind == SLOW_NAN) return slow_decode_wrong(faults, SLOW_DECODE_MX_NAN_CLAMPED) ? largest : scale;
    const bool clamped = slow_compare(scale, largest) > 0 && !slow_decode_wrong(faults, SLOW_DECODE_MX_UNCLAMPED);
    return clamped ? largest : scale;
}

static slow_number operand_of(const slow_side *s, const slow_row_bytes *row, uint64_t faults, size_t dim)
{
    const slow_element e = slow_element_of(s, row, dim);
    const slow_number unit = slow_scaled(1, -slow_operand_base(s->codec->format, faults));
    switch (s->codec->format) {
    case KVG_FORMAT_INT8:
    case KVG_FORMAT_INT4: return affine_of(s, &e, faults);
    case KVG_FORMAT_MX16:
    case KVG_FORMAT_MXFP4: return slow_multiply(slow_multiply(e.code, mx_scale(e.scale, faults)), unit);
    case KVG_FORMAT_NVFP4: return slow_multiply(slow_multiply(e.code, e.scale), unit);
    default: return e.code;
    }
}

void slow_operands(const slow_side *s, const slow_row_bytes *row, uint64_t faults, uint16_t *codes)
{
    const slow_layout *type = slow_layout_of(slow_operand_type(s->codec->format, s->dtype));
    for (size_t d = 0; d < s->row.dim; d++) {
        codes[d] = (uint16_t)slow_encode(type, operand_of(s, row, faults, d));
    }
}

/* --- section 4 --- */

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

static size_t place_of_sum(size_t dim, size_t bits, uint64_t faults, size_t s, size_t k)
{
    static const size_t shuffled[] = {0, 4, 2, 6}, in_pairs[] = {0, 2, 4, 6}, narrow[] = {0, 2, 1, 3};
    size_t widest = bits == 4 ? 128 : bits == 8 ? 64 : 32;
    if (slow_decode_wrong(faults, SLOW_DECODE_WIDEST_HALVED)) widest /= 2;
    const segment g = segment_of(dim, widest, slow_decode_wrong(faults, SLOW_DECODE_NARROW_FIRST), s);
    const size_t lane = k % 8 / 2, i = 2 * (k / 8) + k % 2, own = g.first + g.width / 4 * lane, t = g.sum;
    if (bits != 4) return own + 4 * t + i;
    if (g.width == 16) return own + narrow[i];
    const bool by_pairs = slow_decode_wrong(faults, SLOW_DECODE_PLACES_BY_PAIRS);
    return own + 8 * (t / 2) + t % 2 + (by_pairs ? in_pairs : shuffled)[i];
}

/* The dim whose code lies at a place: the other way round than slow_place_of_element. */
static size_t dim_at(const slow_side *side, size_t place)
{
    size_t d = 0;
    while (slow_place_of_element(side->codec, d, side->row.dim) != place) d++;
    return d;
}

size_t slow_dim_of_sum(const slow_side *side, uint64_t faults, size_t s, size_t k)
{
    if (slow_decode_wrong(faults, SLOW_DECODE_PLACES_IN_ORDER)) return 16 * s + k;
    const size_t bits = kvg_format_get(side->codec->format)->element_bits;
    const size_t place = place_of_sum(side->row.dim, bits, faults, s, k);
    return slow_decode_wrong(faults, SLOW_DECODE_INT4_BY_DIM) ? place : dim_at(side, place);
}
