/* int8 and int4, two parameters per row: docs/spec/formats.md section 5. */
#include "second/slow_codec.h"

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

/* Where element j is stored, in units of codes: bytes for int8, nibbles for int4. */
typedef size_t place_fn(size_t j, size_t dim);

static size_t place_in_order(size_t j, size_t dim)
{
    (void)dim;
    return j;
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

typedef struct affine_rules {
    int n; /* largest q */
    place_fn *place;
    bool muladd; /* decoding rounds the product too */
} affine_rules;

static void put_code(const affine_rules *rules, const slow_row *row, uint8_t *codes, size_t j, int q)
{
    size_t place = rules->place(j, row->dim);
    if (rules->n == 255) {
        codes[place] = (uint8_t)q;
    } else {
        slow_put_nibble(codes, place, (unsigned)q);
    }
}

static slow_number get_code(const affine_rules *rules, const slow_row *row, const uint8_t *codes, size_t j)
{
    size_t place = rules->place(j, row->dim);
    return slow_scaled(rules->n == 255 ? codes[place] : slow_get_nibble(codes, place), 0);
}

static int to_code(const affine_rules *rules, slow_number n, slow_direction direction)
{
    return n.kind == SLOW_NAN ? 0 : slow_to_integer(n, direction, 0, rules->n);
}

static void quantise_canonical(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                               uint8_t *scales)
{
    const affine_rules *rules = codec->rules;
    extent e = find_extent(x, row->dim);
    slow_number one = slow_scaled(1, 0);
    slow_number c = slow_rn(slow_divide(one, slow_scaled(rules->n, 0)));
    slow_number range = slow_rn(slow_subtract(e.max, e.min));
    slow_number scale = slow_round(row->type, slow_rn(slow_multiply(range, c)));
    slow_number inverse = slow_round(row->type, slow_divide(one, scale));
    slow_put16(scales, row->type, scale);
    slow_put16(scales + 2, row->type, e.min);
    for (size_t j = 0; j < row->dim; j++) {
        slow_number offset = slow_round(row->type, slow_subtract(x[j], e.min));
        slow_number steps = slow_round(row->type, slow_multiply(offset, inverse));
        put_code(rules, row, codes, j, to_code(rules, steps, SLOW_TO_NEAREST_EVEN));
    }
}

static void dequantise_canonical(const slow_codec *codec, const slow_row *row, const uint8_t *codes,
                                 const uint8_t *scales, slow_number *x)
{
    const affine_rules *rules = codec->rules;
    slow_number scale = slow_get16(scales, row->type), min = slow_get16(scales + 2, row->type);
    for (size_t j = 0; j < row->dim; j++) {
        slow_number product = slow_multiply(get_code(rules, row, codes, j), scale);
        if (rules->muladd) product = slow_round(row->type, product);
        x[j] = slow_add(product, min);
    }
}

static void quantise_pytorch(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                             uint8_t *scales)
{
    const affine_rules *rules = codec->rules;
    extent e = find_extent(x, row->dim);
    slow_number range = slow_rn(slow_subtract(e.max, e.min));
    slow_number s = slow_rn(slow_divide(range, slow_scaled(rules->n, 0)));
    slow_number minus_min = e.min;
    minus_min.negative = !minus_min.negative;
    slow_number z = slow_rn(slow_divide(minus_min, s));
    slow_put16(scales, row->type, s);
    slow_put16(scales + 2, row->type, z);
    for (size_t j = 0; j < row->dim; j++) {
        slow_number steps = slow_rn(slow_add(slow_rn(slow_divide(x[j], s)), z));
        slow_number raised = slow_rn(slow_add(steps, slow_scaled(1, -1)));
        put_code(rules, row, codes, j, to_code(rules, raised, SLOW_TO_ZERO));
    }
}

static void dequantise_pytorch(const slow_codec *codec, const slow_row *row, const uint8_t *codes,
                               const uint8_t *scales, slow_number *x)
{
    slow_number s = slow_get16(scales, row->type), z = slow_get16(scales + 2, row->type);
    for (size_t j = 0; j < row->dim; j++) {
        slow_number steps = slow_rn(slow_subtract(get_code(codec->rules, row, codes, j), z));
        x[j] = slow_rn(slow_multiply(steps, s));
    }
}

static const affine_rules int8_fused = {255, place_in_order, false}, int8_muladd = {255, place_in_order, true};
static const affine_rules int4_fused = {15, place_evens_first, false}, int4_muladd = {15, place_evens_first, true};
static const affine_rules int4_halves = {15, place_halves, false};

static const slow_codec codecs[] = {
    {KVG_FORMAT_INT8, "canonical", quantise_canonical, dequantise_canonical, &int8_fused},
    {KVG_FORMAT_INT8, "turbomind-muladd", quantise_canonical, dequantise_canonical, &int8_muladd},
    {KVG_FORMAT_INT8, "pytorch", quantise_pytorch, dequantise_pytorch, &int8_fused},
    {KVG_FORMAT_INT4, "canonical", quantise_canonical, dequantise_canonical, &int4_fused},
    {KVG_FORMAT_INT4, "turbomind-muladd", quantise_canonical, dequantise_canonical, &int4_muladd},
    {KVG_FORMAT_INT4, "pytorch", quantise_pytorch, dequantise_pytorch, &int4_halves},
};

/* Only these formats interleave. */
size_t slow_place_of_element(const slow_codec *codec, size_t j, size_t dim)
{
    const bool affine = codec->format == KVG_FORMAT_INT8 || codec->format == KVG_FORMAT_INT4;
    return affine ? ((const affine_rules *)codec->rules)->place(j, dim) : j;
}

slow_codecs slow_affine_codecs(void)
{
    return (slow_codecs){codecs, sizeof codecs / sizeof codecs[0]};
}
