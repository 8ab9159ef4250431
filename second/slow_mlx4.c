/* mlx4 and its kin, two parameters per group: docs/spec/formats.md section 11. */
#include "second/slow_codec.h"

enum { PARAMS = 4 };

typedef struct mlx_rules {
    bool metal; /* ties go away from zero, and the largest element is at least 0 */
    size_t group;
    int largest; /* code */
} mlx_rules;

typedef struct parameters {
    slow_number scale, bias;
} parameters;

static slow_number magnitude(slow_number n)
{
    n.negative = false;
    return n;
}

/* The nearest integer: `quotient` is a number of f32, so that a half more or less is exact where it matters. */
static slow_number nearest(const mlx_rules *rules, slow_number quotient)
{
    const slow_number large = slow_scaled(1, 24);
    if (quotient.kind != SLOW_FINITE || slow_compare_magnitudes(quotient, large) >= 0) return quotient; /* whole */
    const slow_number size = magnitude(quotient);
    const slow_direction direction = rules->metal ? SLOW_TO_ZERO : SLOW_TO_NEAREST_EVEN;
    const slow_number raised = rules->metal ? slow_add(size, slow_scaled(1, -1)) : size;
    const int whole = slow_to_integer(raised, direction, 0, 1 << 24);
    return slow_scaled(quotient.negative ? -whole : whole, 0);
}

static parameters choose(const mlx_rules *rules, const slow_number *x)
{
    slow_number low = slow_infinity(false), high = rules->metal ? slow_zero(false) : slow_infinity(true);
    for (size_t i = 0; i < rules->group; i++) {
        if (x[i].kind == SLOW_NAN) continue;
        if (slow_compare(x[i], low) < 0) low = x[i];
        if (slow_compare(x[i], high) > 0) high = x[i];
    }
    const slow_number least = slow_rn(slow_divide(slow_scaled(1, 0), slow_scaled(10000000, 0))); /* 1e-7f */
    slow_number step = slow_rn(slow_divide(slow_rn(slow_subtract(high, low)), slow_scaled(rules->largest, 0)));
    if (step.kind != SLOW_NAN && slow_compare(step, least) < 0) step = least;
    const bool from_low = slow_compare_magnitudes(low, high) > 0;
    const slow_number edge = from_low ? low : high;
    if (!from_low) step.negative = !step.negative;
    const slow_number quotient = slow_rn(slow_divide(edge, step)), steps = nearest(rules, quotient);
    if (slow_is_zero(steps)) return (parameters){step, slow_zero(false)};
    return (parameters){slow_rn(slow_divide(edge, steps)), edge};
}

/* Codes of 8 bits are a byte each, those of 4 bits a nibble. */
static void put_code(const mlx_rules *rules, uint8_t *codes, size_t j, int q)
{
    if (rules->largest == 255) {
        codes[j] = (uint8_t)q;
    } else {
        slow_put_nibble(codes, j, (unsigned)q);
    }
}

static slow_number get_code(const mlx_rules *rules, const uint8_t *codes, size_t j)
{
    return slow_scaled(rules->largest == 255 ? codes[j] : slow_get_nibble(codes, j), 0);
}

static void quantise(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                     uint8_t *scales)
{
    const mlx_rules *rules = codec->rules;
    for (size_t start = 0; start < row->dim; start += rules->group, scales += PARAMS) {
        const parameters p = choose(rules, x + start);
        slow_put16(scales, row->type, p.scale);
        slow_put16(scales + 2, row->type, p.bias);
        for (size_t j = start; j < start + rules->group; j++) {
            const slow_number steps = slow_rn(slow_divide(slow_rn(slow_subtract(x[j], p.bias)), p.scale));
            const bool none = steps.kind == SLOW_NAN || steps.negative;
            const slow_number whole = none ? slow_zero(false) : nearest(rules, steps);
            put_code(rules, codes, j, slow_to_integer(whole, SLOW_TO_ZERO, 0, rules->largest));
        }
    }
}

static void dequantise(const slow_codec *codec, const slow_row *row, const uint8_t *codes, const uint8_t *scales,
                       slow_number *x)
{
    const mlx_rules *rules = codec->rules;
    for (size_t j = 0; j < row->dim; j++) {
        const uint8_t *at = scales + j / rules->group * PARAMS;
        slow_number product = slow_multiply(get_code(rules, codes, j), slow_get16(at, row->type));
        if (codec->form == SLOW_AFFINE_TWICE) product = slow_round(row->type, product);
        x[j] = slow_add(product, slow_get16(at + 2, row->type));
    }
}

/* One format: the size of its groups and its largest code. */
#define MLX_FORMAT(ENUM, name, group, largest)                                                          \
    static const mlx_rules name##_cpu = {false, group, largest}, name##_metal = {true, group, largest}; \
    static const slow_codec name[] = {                                                                  \
        {KVG_FORMAT_##ENUM, "canonical", quantise, dequantise, &name##_cpu, SLOW_AFFINE, NULL},         \
        {KVG_FORMAT_##ENUM, "mlx-cpu", quantise, dequantise, &name##_cpu, SLOW_AFFINE_TWICE, NULL},     \
        {KVG_FORMAT_##ENUM, "mlx-metal", quantise, dequantise, &name##_metal, SLOW_AFFINE, NULL},       \
    };                                                                                                  \
    const slow_codecs slow_of_##name = SLOW_CODECS(name);

MLX_FORMAT(MLX4, mlx4, 64, 15)
MLX_FORMAT(MLX4_G32, mlx4_g32, 32, 15)
MLX_FORMAT(MLX4_G128, mlx4_g128, 128, 15)
MLX_FORMAT(MLX8, mlx8, 64, 255)
MLX_FORMAT(MLX8_G32, mlx8_g32, 32, 255)
MLX_FORMAT(MLX8_G128, mlx8_g128, 128, 255)
