/* mlx4 and its kin: docs/spec/formats.md section 11. */
#include <float.h>
#include <math.h>

#include "reference/formats/ref_affine.h"
#include "reference/numbers/ref_round.h"

enum { PARAMS = 4 }; /* bytes of a group's scale and bias */

typedef struct mlx_dialect {
    ref_affine_dialect affine;
    uint32_t group; /* elements that share a scale and a bias */
    bool metal;     /* ties go away from zero, and the largest element is at least 0 */
} mlx_dialect;

typedef struct group {
    float low, high, scale, bias;
} group;

static group group_of(const mlx_dialect *dialect, const float *x)
{
    const float n = (float)dialect->affine.levels, least = 1e-7f;
    group g = {INFINITY, dialect->metal ? 0 : -INFINITY, 0, 0};
    for (uint32_t i = 0; i < dialect->group; i++) {
        if (x[i] < g.low) g.low = x[i];
        if (x[i] > g.high) g.high = x[i];
    }
    const bool from_low = fabsf(g.low) > fabsf(g.high);
    const float edge = from_low ? g.low : g.high, step = (g.high - g.low) / n;
    g.scale = step < least ? least : step;
    if (!from_low) g.scale = -g.scale;
    const float quotient = edge / g.scale;
    const float steps = dialect->metal ? roundf(quotient) : (float)ref_to_integer(quotient);
    if (steps != 0) {
        g.scale = edge / steps;
        g.bias = edge;
    }
    return g;
}

static void scale(const ref_row *row, const float *x, uint8_t *scales, double *v)
{
    const mlx_dialect *dialect = row->dialect;
    for (uint32_t start = 0; start < row->head_dim; start += dialect->group, scales += PARAMS) {
        const group g = group_of(dialect, x + start);
        ref_affine_write(row->dtype, g.scale, scales);
        ref_affine_write(row->dtype, g.bias, scales + 2);
        for (uint32_t i = start; i < start + dialect->group; i++) v[i] = (x[i] - g.bias) / g.scale;
    }
}

static uint16_t encode(const ref_row *row, float x, double v)
{
    (void)x;
    const mlx_dialect *dialect = row->dialect;
    if (!(v > 0)) return 0; /* NaN too */
    if (v >= dialect->affine.levels) return (uint16_t)dialect->affine.levels;
    return (uint16_t)(dialect->metal ? floor(v + 0.5) : ref_to_integer(v));
}

/* A row of one group. */
static ref_row one_group(const ref_row *row)
{
    ref_row one = *row;
    one.head_dim = ((const mlx_dialect *)row->dialect)->group;
    return one;
}

static void decode(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y)
{
    const ref_row one = one_group(row);
    for (uint32_t i = 0; i < row->head_dim; i += one.head_dim, scales += PARAMS) {
        ref_affine_decode(&one, codes + i, scales, y + i);
    }
}

static double exact(const ref_row *row, const uint16_t *codes, const uint8_t *scales, double *y)
{
    const ref_row one = one_group(row);
    for (uint32_t i = 0; i < row->head_dim; i += one.head_dim, scales += PARAMS) {
        ref_affine_exact(&one, codes + i, scales, y + i);
    }
    return 1;
}

static void operands(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y)
{
    const ref_row one = one_group(row);
    for (uint32_t i = 0; i < row->head_dim; i += one.head_dim, scales += PARAMS) {
        ref_affine_operands(&one, codes + i, scales, y + i);
    }
}

static double grid_value(const ref_row *row, uint16_t code)
{
    (void)row;
    return code;
}

/* Section 11: the code's rounding or what lies beyond the last code, the scale's rounding to T for each step, and those
 * of decoding. */
static void bound(const ref_row *row, const float *x, double *bounds)
{
    const mlx_dialect *dialect = row->dialect;
    const double n = dialect->affine.levels, h = ref_half_ulp(row->dtype), tiny = ref_half_step(row->dtype);
    const bool twice = dialect->affine.rule == KVG_NUMBER_TWICE;
    for (uint32_t start = 0; start < row->head_dim; start += dialect->group) {
        const group g = group_of(dialect, x + start);
        const double step = fabs((double)g.scale);
        const bool promised = isfinite(g.low) && isfinite(g.high) && step <= ref_largest(row->dtype);
        for (uint32_t i = start; i < start + dialect->group; i++) {
            const double reach = fabs((double)x[i] - (double)g.bias), product = ref_min(n * step, reach + 0.5 * step);
            const double coded = ref_max(0.5 * step, reach - n * step) + 0x1p-22 * reach;
            const double stored = product * h + n * tiny, decoded = product * (1 + h) * h + tiny;
            const double value = fabs((double)x[i]) + coded + stored + decoded;
            const double error = (coded + stored + decoded + value * h + tiny) * (1 + 0x1p-30);
            const double largest = twice ? ref_max(value, product + stored + decoded) : value; /* that T has to hold */
            bounds[i] = promised && isfinite(x[i]) && largest <= ref_largest(row->dtype) ? error : INFINITY;
        }
    }
}

/* One format: groups of `size` elements, codes 0 to `largest`, as they lie in bytes. */
#define MLX_FORMAT(ENUM, name, size, largest, codes_lie)                                                              \
    static const mlx_dialect name##_dialects[] = {                                                                    \
        {{{"canonical", "MLX's bytes, fma", KVG_DIALECT_BITS},                                                        \
          KVG_NUMBER_FUSED, largest, codes_lie, REF_WRITER_RECIPROCAL}, size, false},                                 \
        {{{"mlx-cpu", "MLX, CPU backend", KVG_DIALECT_BITS},                                                          \
          KVG_NUMBER_TWICE, largest, codes_lie, REF_WRITER_RECIPROCAL}, size, false},                                 \
        {{{"mlx-metal", "MLX, Metal and CUDA", KVG_DIALECT_BITS},                                                     \
          KVG_NUMBER_FUSED, largest, codes_lie, REF_WRITER_RECIPROCAL}, size, true},                                  \
    };                                                                                                                \
    const ref_codec ref_fmt_##name = {                                                                                \
        .format = KVG_FORMAT_##ENUM,                                                                                  \
        REF_DIALECTS(name##_dialects),                                                                                \
        .grid = {.codes = (largest) + 1, .low = 0, .high = largest, .absolute = 0.5},                                 \
        .number = ref_affine_number,                                                                                  \
        .packing = ref_affine_packing,                                                                                \
        .scale = scale,                                                                                               \
        .encode = encode,                                                                                             \
        .decode = decode,                                                                                             \
        .exact = exact,                                                                                               \
        .operands = operands,                                                                                         \
        .grid_value = grid_value,                                                                                     \
        .bound = bound,                                                                                               \
    };

MLX_FORMAT(MLX4, mlx4, 64, 15, REF_PACK_ODD_EVEN)
MLX_FORMAT(MLX4_G32, mlx4_g32, 32, 15, REF_PACK_ODD_EVEN)
MLX_FORMAT(MLX4_G128, mlx4_g128, 128, 15, REF_PACK_ODD_EVEN)
MLX_FORMAT(MLX8, mlx8, 64, 255, REF_PACK_U8)
MLX_FORMAT(MLX8_G32, mlx8_g32, 32, 255, REF_PACK_U8)
MLX_FORMAT(MLX8_G128, mlx8_g128, 128, 255, REF_PACK_U8)
