/* What the harness asks about one row: its round-trip bound, what it reached, whether a value dialect may write it. */
#include <math.h>

#include "core/bits.h"
#include "reference/formats/ref_codec.h"

static const ref_grid *grid_of(const ref_codec *codec, const ref_row *row)
{
    return codec->grid_of ? codec->grid_of(row) : &codec->grid;
}

/* What a bound needs of the model type. */
typedef struct rounding {
    double largest, half_ulp, half_step;
} rounding;

/* docs/spec/numerics.md section 2.1. The scale is somewhere in d; every other quantity is one rounding away from
 * exact. */
static double element_bound(const rounding *T, const ref_grid *grid, ref_range d, double x)
{
    const double a = fabs(x), reach = x < 0 ? -grid->low : grid->high;
    const double rounded = ref_max(grid->relative * a, grid->absolute * d.high);
    const double clipping = a - reach * d.low;
    const double error = ref_max(rounded, clipping) + a * 0x1p-21 + d.high * 0x1p-149;
    const double value = a + error;
    if (value > T->largest) return INFINITY;
    return error + (T->half_ulp + 0x1p-22) * value + 2 * T->half_step + 0x1p-149;
}

void kvg_reference_row_bound(const kvg_problem *problem, kvg_side side, float tensor_scale, const float *x,
                             double *bound)
{
    const ref_codec *codec = ref_codec_get(problem->storage[side].format);
    ref_row row;
    if (ref_row_init(problem, side, tensor_scale, &row)) {
        for (uint32_t i = 0; i < problem->head_dim; i++)
            bound[i] = 0; /* nothing passes: the caller reports the scale */
        return;
    }
    if (codec->bound) {
        codec->bound(&row, x, bound);
        return;
    }
    const kvg_format_info *format = kvg_format_get(codec->format);
    const uint32_t block = format->block ? format->block : row.head_dim;
    /* 1/g, 6g and their kin must stay normal, or nothing is promised. */
    const bool usual = row.tensor_scale >= 0x1p-100f && row.tensor_scale <= 0x1p100f;
    const bool scaled = format->block || format->row_param_bytes || format->tensor_scale;
    const ref_grid *grid = grid_of(codec, &row);
    const rounding T = {ref_largest(row.dtype), ref_half_ulp(row.dtype), ref_half_step(row.dtype)};
    for (uint32_t start = 0; start < row.head_dim; start += block) {
        bool has_nan;
        const double amax = ref_amax(x + start, block, &has_nan);
        const bool shared = format->block || format->row_param_bytes; /* an Inf spoils the scale of its neighbours */
        const ref_range d = scaled ? codec->scale_range(&row, amax, has_nan) : (ref_range){1, 1};
        for (uint32_t i = start; i < start + block; i++) {
            const bool held = scaled || fabsf(x[i]) <= grid->high; /* f16, bf16: what is larger can become an Inf */
            const bool promised = usual && held && isfinite(x[i]) && !(shared && isinf(amax)) && isfinite(d.high);
            bound[i] = promised ? element_bound(&T, grid, d, x[i]) : INFINITY;
        }
    }
}

bool kvg_reference_row_accept(const kvg_problem *problem, kvg_side side, float tensor_scale, const float *x,
                              const uint8_t *codes, const uint8_t *scales, uint32_t *steps, uint32_t *bad_element)
{
    const ref_codec *codec = ref_codec_get(problem->storage[side].format);
    ref_row row;
    uint16_t unpacked[KVG_MAX_HEAD_DIM];
    *steps = 0;
    *bad_element = 0;
    if (!codec->accept || ref_row_init(problem, side, tensor_scale, &row)) return false;
    ref_unpack(codec->packing(&row), codes, row.head_dim, unpacked);
    return codec->accept(&row, x, unpacked, scales, steps, bad_element);
}

/* v lies exactly between the number of `code` and that of a neighbouring code. Numbers of a grid have at most 16
 * significant bits, so that a midpoint has at most 17: 1.25, between 1 and 1.5 of E2M1, has three. */
static bool is_tie(const ref_codec *codec, const ref_row *row, uint16_t code, double v)
{
    const uint64_t beyond_17_bits = (1ull << 36) - 1;
    if ((kvg_bits_of_f64(v) & beyond_17_bits) != 0 || !isfinite(v)) return false;
    const double own = codec->grid_value(row, code);
    if (v == own) return false;
    for (int step = -1; step <= 1; step += 2) {
        const int64_t neighbour = (int64_t)code + step;
        if (neighbour < 0 || neighbour >= grid_of(codec, row)->codes) continue;
        if (v - own == codec->grid_value(row, (uint16_t)neighbour) - v) return true;
    }
    return false;
}

void kvg_reference_codes_reach(const kvg_problem *problem, kvg_side side, const uint8_t *codes, const uint8_t *scales,
                               kvg_reference_reach *reach)
{
    const ref_codec *codec = ref_codec_get(problem->storage[side].format);
    const kvg_format_info *format = kvg_format_get(codec->format);
    ref_row row;
    uint16_t unpacked[KVG_MAX_HEAD_DIM];
    if (ref_row_init(problem, side, 1, &row)) return;
    ref_unpack(codec->packing(&row), codes, row.head_dim, unpacked);
    for (uint32_t i = 0; i < row.head_dim; i++) {
        reach->elements++;
        reach->codes[format->element_bits == 16 ? unpacked[i] >> 8 : unpacked[i]]++;
    }
    const bool bytes = format->block_scale_bytes == 1;
    for (uint32_t i = 0; bytes && i < row.head_dim / format->block; i++) reach->scales[scales[i]]++;
}

uint32_t kvg_reference_code_dim(const kvg_problem *problem, kvg_side side, size_t byte, unsigned nibble)
{
    const kvg_format_info *format = kvg_format_get(problem->storage[side].format);
    ref_row row;
    if (format->element_bits != 4) return (uint32_t)(byte * 8 / format->element_bits);
    if (ref_row_init(problem, side, 1, &row)) return 0;
    const ref_packing packing = ref_codec_get(format->format)->packing(&row);
    return (uint32_t)ref_nibble_element(packing, 2 * byte + nibble, row.head_dim);
}

static void count_elements(const ref_codec *codec, const ref_row *row, const float *x, const double *v,
                           kvg_reference_reach *reach)
{
    const ref_grid *grid = grid_of(codec, row);
    const double smallest = ref_smallest_normal(row->dtype);
    for (uint32_t i = 0; i < row->head_dim; i++) {
        const uint16_t code = codec->encode(row, x[i], v[i]);
        reach->elements++;
        reach->codes[grid->codes > 256 ? code >> 8 : code]++;
        reach->ties += is_tie(codec, row, code, v[i]);
        reach->saturations += isfinite(x[i]) && (v[i] > grid->high || v[i] < grid->low);
        reach->negative_zeros += kvg_bits_of_f32(x[i]) == 0x80000000u;
        reach->subnormals += x[i] != 0 && fabs((double)x[i]) < smallest;
        reach->specials += !isfinite(x[i]);
    }
}

static bool scale_is_0(kvg_scales kind, const uint8_t *scale)
{
    switch (kind) {
    case KVG_SCALES_NONE: return false;
    case KVG_SCALES_E8M0:
    case KVG_SCALES_E4M3: return *scale == 0;
    case KVG_SCALES_F16:
    case KVG_SCALES_AFFINE: return (ref_read_u16(scale) & 0x7FFF) == 0;
    case KVG_SCALES_F32: return (ref_read_u16(scale) | (ref_read_u16(scale + 2) & 0x7FFF)) == 0;
    }
    return false;
}

void kvg_reference_row_reach(const kvg_problem *problem, kvg_side side, float tensor_scale, const float *x,
                             kvg_reference_reach *reach)
{
    const ref_codec *codec = ref_codec_get(problem->storage[side].format);
    const kvg_format_info *format = kvg_format_get(codec->format);
    ref_row row;
    if (ref_row_init(problem, side, tensor_scale, &row)) return;
    double v[KVG_MAX_HEAD_DIM];
    uint8_t scales[KVG_MAX_HEAD_DIM];
    codec->scale(&row, x, scales, v);
    count_elements(codec, &row, x, v, reach);

    const uint32_t block = format->block ? format->block : row.head_dim;
    for (uint32_t start = 0; start < row.head_dim; start += block) {
        bool has_nan;
        const float amax = ref_amax(x + start, block, &has_nan);
        reach->zero_blocks += amax == 0;
        const uint8_t *scale = scales + start / block * format->block_scale_bytes;
        if (format->block_scale_bytes == 1) reach->scales[*scale]++;
        reach->scale_underflows += amax > 0 && scale_is_0(format->scales, scale);
    }
}
