/* int8 and int4, two parameters per row: docs/spec/formats.md section 5. */
#include "second/slow_codec.h"
#include "second/slow_special.h"

typedef struct extent {
    slow_number min, max;
} extent;

/* NaN elements are skipped; the order of slow_compare has -0 below +0. */
static extent find_extent(const slow_number *x, size_t count)
{
    extent e = {slow_infinity(false), slow_infinity(true)};
    for (size_t i = 0; i < count; i++) {
        if (x[i].kind == SLOW_NAN) continue;
        if (slow_compare(x[i], e.min) < 0) e.min = x[i];
        if (slow_compare(x[i], e.max) > 0) e.max = x[i];
    }
    return e;
}

/* Nibbles of a word: q0 q2 q4 q6 q1 q3 q5 q7. */
static size_t place_evens_first(size_t j, size_t dim)
{
    (void)dim;
    size_t in_word = j % 8;
    return j - in_word + (in_word % 2) * 4 + in_word / 2;
}

/* Byte j = q_j | q_(j + D/2) << 4. */
static size_t place_halves(size_t j, size_t dim)
{
    size_t half = dim / 2;
    return j < half ? 2 * j : 2 * (j - half) + 1;
}

/* The rules are n, the largest q. */
static int largest_of(const slow_codec *codec)
{
    return *(const int *)codec->rules;
}

static void put_code(const slow_codec *codec, const slow_row *row, uint8_t *codes, size_t j, int q)
{
    size_t place = slow_place_of_element(codec, j, row->dim);
    if (largest_of(codec) == 255) {
        codes[place] = (uint8_t)q;
    } else {
        slow_put_nibble(codes, place, (unsigned)q);
    }
}

static slow_number get_code(const slow_codec *codec, const slow_row *row, const uint8_t *codes, size_t j)
{
    size_t place = slow_place_of_element(codec, j, row->dim);
    return slow_scaled(largest_of(codec) == 255 ? codes[place] : slow_get_nibble(codes, place), 0);
}

static int to_code(const slow_codec *codec, slow_number n, slow_direction direction)
{
    return n.kind == SLOW_NAN ? 0 : slow_to_integer(n, direction, 0, largest_of(codec));
}

static void quantise_canonical(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                               uint8_t *scales)
{
    extent e = find_extent(x, row->dim);
    slow_number one = slow_scaled(1, 0);
    slow_number c = slow_rn(slow_divide(one, slow_scaled(largest_of(codec), 0)));
    slow_number range = slow_rn(slow_subtract(e.max, e.min));
    slow_number scale = slow_round(row->type, slow_rn(slow_multiply(range, c)));
    slow_number inverse = slow_round(row->type, slow_divide(one, scale));
    slow_put16(scales, row->type, scale);
    slow_put16(scales + 2, row->type, e.min);
    for (size_t j = 0; j < row->dim; j++) {
        slow_number offset = slow_round(row->type, slow_subtract(x[j], e.min));
        slow_number steps = slow_round(row->type, slow_multiply(offset, inverse));
        put_code(codec, row, codes, j, to_code(codec, steps, SLOW_TO_NEAREST_EVEN));
    }
}

static void dequantise_canonical(const slow_codec *codec, const slow_row *row, const uint8_t *codes,
                                 const uint8_t *scales, slow_number *x)
{
    slow_number scale = slow_get16(scales, row->type), min = slow_get16(scales + 2, row->type);
    for (size_t j = 0; j < row->dim; j++) {
        slow_number product = slow_multiply(get_code(codec, row, codes, j), scale);
        if (codec->form == SLOW_AFFINE_TWICE) product = slow_round(row->type, product);
        x[j] = slow_add(product, min);
    }
}

static void quantise_pytorch(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                             uint8_t *scales)
{
    extent e = find_extent(x, row->dim);
    slow_number range = slow_rn(slow_subtract(e.max, e.min));
    slow_number s = slow_rn(slow_divide(range, slow_scaled(largest_of(codec), 0)));
    slow_number minus_min = e.min;
    minus_min.negative = !minus_min.negative;
    slow_number z = slow_rn(slow_divide(minus_min, s));
    slow_put16(scales, row->type, s);
    slow_put16(scales + 2, row->type, z);
    for (size_t j = 0; j < row->dim; j++) {
        slow_number steps = slow_rn(slow_add(slow_rn(slow_divide(x[j], s)), z));
        slow_number raised = slow_rn(slow_add(steps, slow_scaled(1, -1)));
        put_code(codec, row, codes, j, to_code(codec, raised, SLOW_TO_ZERO));
    }
}

static void quantise_lmdeploy(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                              uint8_t *scales)
{
    extent e = find_extent(x, row->dim);
    if (slow_compare(e.max, e.min) < 0) e.max = e.min = slow_nan();
    const slow_number range = slow_rn(slow_subtract(e.max, e.min));
    const slow_number of_n = slow_rn(slow_divide(slow_scaled(1, 0), slow_scaled(largest_of(codec), 0)));
    const slow_number s = slow_rn(slow_multiply(range, of_n));
    const slow_number below = slow_rn(slow_subtract(slow_zero(false), e.min));
    const slow_number z = slow_div_full(below, s, false, SLOW_SPECIAL_FAULTS);
    slow_put16(scales, row->type, s);
    slow_put16(scales + 2, row->type, z);
    for (size_t j = 0; j < row->dim; j++) {
        const slow_number steps = slow_rn(slow_add(slow_div_full_unrounded(x[j], s), z));
        put_code(codec, row, codes, j, to_code(codec, slow_rn(slow_add(steps, slow_scaled(1, -1))), SLOW_TO_ZERO));
    }
}

/* Of rows that a NaN makes NaN. */
static extent extent_or_nan(const slow_number *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (x[i].kind == SLOW_NAN) return (extent){slow_nan(), slow_nan()};
    }
    return find_extent(x, count);
}

static void quantise_quanto(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                            uint8_t *scales)
{
    const extent e = extent_or_nan(x, row->dim);
    const slow_number range = slow_round(row->type, slow_subtract(e.max, e.min));
    const slow_number scale = slow_round(row->type, slow_divide(range, slow_scaled(largest_of(codec), 0)));
    slow_put16(scales, row->type, scale);
    slow_put16(scales + 2, row->type, slow_is_zero(e.min) ? slow_zero(false) : e.min);
    for (size_t j = 0; j < row->dim; j++) {
        const slow_number above = slow_round(row->type, slow_subtract(x[j], e.min));
        const slow_number steps = slow_round(row->type, slow_divide(above, scale));
        put_code(codec, row, codes, j, to_code(codec, steps, SLOW_TO_NEAREST_EVEN));
    }
}

static void quantise_hqq(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                         uint8_t *scales)
{
    const extent e = extent_or_nan(x, row->dim);
    const slow_number one = slow_scaled(1, 0), range = slow_rn(slow_subtract(e.max, e.min));
    const slow_number least = slow_rn(slow_divide(one, slow_scaled(10000, 0))), most = slow_scaled(20000, 0);
    slow_number inverse = slow_rn(slow_multiply(slow_rn(slow_divide(one, range)), slow_scaled(largest_of(codec), 0)));
    if (range.kind != SLOW_NAN && slow_compare(range, least) <= 0) {
        inverse = one;
    } else if (inverse.kind != SLOW_NAN && slow_compare(inverse, most) > 0) {
        inverse = most;
    }
    slow_number z = slow_rn(slow_multiply(e.min, inverse));
    if (z.kind != SLOW_NAN) z.negative = !slow_is_zero(z) && !z.negative;
    slow_put16(scales, row->type, slow_rn(slow_divide(one, inverse)));
    slow_put16(scales + 2, row->type, z);
    for (size_t j = 0; j < row->dim; j++) {
        const slow_number steps = slow_rn(slow_add(slow_rn(slow_multiply(x[j], inverse)), z));
        put_code(codec, row, codes, j, to_code(codec, steps, SLOW_TO_NEAREST_EVEN));
    }
}

static void dequantise_pytorch(const slow_codec *codec, const slow_row *row, const uint8_t *codes,
                               const uint8_t *scales, slow_number *x)
{
    slow_number s = slow_get16(scales, row->type), z = slow_get16(scales + 2, row->type);
    for (size_t j = 0; j < row->dim; j++) {
        slow_number steps = slow_rn(slow_subtract(get_code(codec, row, codes, j), z));
        x[j] = slow_rn(slow_multiply(steps, s));
    }
}

static void dequantise_hqq(const slow_codec *codec, const slow_row *row, const uint8_t *codes, const uint8_t *scales,
                           slow_number *x)
{
    const slow_number s = slow_get16(scales, row->type), z = slow_get16(scales + 2, row->type);
    for (size_t j = 0; j < row->dim; j++) {
        const slow_number steps = slow_round(row->type, slow_subtract(get_code(codec, row, codes, j), z));
        x[j] = slow_rn(slow_multiply(steps, s));
    }
}

static void dequantise_flatten(const slow_codec *codec, const slow_row *row, const uint8_t *codes,
                               const uint8_t *scales, slow_number *x)
{
    const slow_number s = slow_get16(scales, row->type), z = slow_get16(scales + 2, row->type);
    const slow_number zero = slow_round(row->type, slow_multiply(s, z));
    for (size_t j = 0; j < row->dim; j++) {
        x[j] = slow_subtract(slow_multiply(get_code(codec, row, codes, j), s), zero);
        if (row->type != &slow_f16) x[j] = slow_rn(x[j]);
    }
}

static const int byte = 255, nibble = 15;

static const slow_codec int8[] = {
    {KVG_FORMAT_INT8, "canonical", quantise_canonical, dequantise_canonical, &byte, SLOW_AFFINE, NULL},
    {KVG_FORMAT_INT8, "turbomind-muladd", quantise_canonical, dequantise_canonical, &byte, SLOW_AFFINE_TWICE, NULL},
    {KVG_FORMAT_INT8, "pytorch", quantise_pytorch, dequantise_pytorch, &byte, SLOW_ZERO_POINT, NULL},
    {KVG_FORMAT_INT8, "lmdeploy-sm90", quantise_lmdeploy, dequantise_pytorch, &byte, SLOW_ZERO_POINT, NULL},
    {KVG_FORMAT_INT8, "lmdeploy-flatten-sm90", quantise_lmdeploy, dequantise_flatten, &byte, SLOW_LESS_ZERO, NULL},
    {KVG_FORMAT_INT8, "hqq", quantise_hqq, dequantise_hqq, &byte, SLOW_ZERO_POINT_IN_T, NULL},
};
static const slow_codec int4[] = {
    {KVG_FORMAT_INT4, "canonical", quantise_canonical, dequantise_canonical, &nibble, SLOW_AFFINE, place_evens_first},
    {KVG_FORMAT_INT4, "turbomind-muladd", quantise_canonical, dequantise_canonical, &nibble, SLOW_AFFINE_TWICE,
     place_evens_first},
    {KVG_FORMAT_INT4, "pytorch", quantise_pytorch, dequantise_pytorch, &nibble, SLOW_ZERO_POINT, place_halves},
    {KVG_FORMAT_INT4, "lmdeploy-sm90", quantise_lmdeploy, dequantise_pytorch, &nibble, SLOW_ZERO_POINT, place_halves},
    {KVG_FORMAT_INT4, "lmdeploy-flatten-sm90", quantise_lmdeploy, dequantise_flatten, &nibble, SLOW_LESS_ZERO,
     place_halves},
    {KVG_FORMAT_INT4, "quanto", quantise_quanto, dequantise_canonical, &nibble, SLOW_AFFINE_TWICE, place_evens_first},
    {KVG_FORMAT_INT4, "hqq", quantise_hqq, dequantise_hqq, &nibble, SLOW_ZERO_POINT_IN_T, place_evens_first},
};
const slow_codecs slow_of_int8 = SLOW_CODECS(int8);
const slow_codecs slow_of_int4 = SLOW_CODECS(int4);
