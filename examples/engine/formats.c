#include "formats.h"

#include <string.h>

#include "numbers.h"

/* Elements that share a scale: a block, or the whole row. */
typedef struct group {
    const small_float *model;
    uint32_t count;
    int largest_code; /* where codes are integers from 0 on */
    float tensor_scale;
} group;

typedef void encode_fn(const group *g, const float *x, uint32_t *codes, uint8_t *scale);

static const kvg_format_info formats[KVG_FORMAT_END] = {
#define FORMAT(ENUM, name, id, bits, codes, block, block_scale_bytes, row_param_bytes, scales, tensor_scale, summary) \
    [id] = {KVG_FORMAT_##ENUM, #name, bits, block, block_scale_bytes, row_param_bytes, tensor_scale, summary,         \
            KVG_CODES_##codes, KVG_SCALES_##scales},
#include "core/formats.def"
#undef FORMAT
};

/* --- small steps --- */

static float largest_magnitude(const float *x, uint32_t count)
{
    float largest = 0;
    for (uint32_t i = 0; i < count; i++) largest = fmaxf(largest, fabsf(x[i])); /* fmaxf leaves NaN out */
    return largest;
}

/* The nearest integer, ties to even. NaN gives 0, or `least` if that is higher. */
static int nearest_integer(double x, int least, int most)
{
    const double nearest = isnan(x) ? 0 : rint(x);
    return nearest < least ? least : nearest > most ? most : (int)nearest;
}

static uint32_t e2m1(double x)
{
    return code_of(&FLOAT_E2M1, x, 7);
}

/* x / divisor, but a zero of x's sign where the divisor is 0. */
static float quotient_or_zero(float x, float divisor)
{
    if (isnan(x)) return x;
    return divisor == 0 ? copysignf(0, x) : x / divisor;
}

static void put_word(uint8_t *bytes, uint32_t word)
{
    bytes[0] = (uint8_t)word;
    bytes[1] = (uint8_t)(word >> 8);
}

static uint32_t get_word(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8;
}

static void put_long(uint8_t *bytes, uint32_t word)
{
    put_word(bytes, word & 0xFFFF);
    put_word(bytes + 2, word >> 16);
}

static uint32_t get_long(const uint8_t *bytes)
{
    return get_word(bytes) | get_word(bytes + 2) << 16;
}

/* --- e4m3, e5m2 --- */

static void encode_e4m3(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    (void)scale;
    for (uint32_t i = 0; i < g->count; i++) codes[i] = code_of(&FLOAT_E4M3, x[i] / g->tensor_scale, 0x7F);
}

static void encode_e5m2(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    (void)scale;
    for (uint32_t i = 0; i < g->count; i++) codes[i] = code_of(&FLOAT_E5M2, x[i] / g->tensor_scale, 0x7F);
}

/* --- int8, int4: affine rows --- */

static void encode_affine(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    float least = INFINITY, most = -INFINITY;
    for (uint32_t i = 0; i < g->count; i++) {
        if (x[i] < least || (x[i] == least && signbit(x[i]))) least = x[i];
        if (x[i] > most || (x[i] == most && !signbit(x[i]))) most = x[i];
    }
    const float range = most - least, step = 1.0F / (float)g->largest_code;
    const double factor = rounded(g->model, range * step), inverse = rounded(g->model, 1 / factor);
    for (uint32_t i = 0; i < g->count; i++) {
        const double above = rounded(g->model, (double)x[i] - least);
        codes[i] = (uint32_t)nearest_integer(rounded(g->model, above * inverse), 0, g->largest_code);
    }
    put_word(scale, word_of(g->model, factor));
    put_word(scale + 2, word_of(g->model, least));
}

/* --- rowint4, rowfp4: an f16 scale for a row --- */

static float put_f16_scale(float scale, uint8_t *bytes)
{
    uint32_t code = code_of_number(&FLOAT_F16, scale);
    if (code == FLOAT_F16.overflow) code--; /* 65504 */
    put_word(bytes, code);
    return (float)number_of_code(&FLOAT_F16, code);
}

static void encode_rowint4(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    const float step = put_f16_scale(largest_magnitude(x, g->count) / 7, scale);
    for (uint32_t i = 0; i < g->count; i++)
        codes[i] = (uint32_t)(nearest_integer(quotient_or_zero(x[i], step), -7, 7) + 8);
}

static void encode_rowfp4(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    const float step = put_f16_scale(largest_magnitude(x, g->count) / 6, scale);
    for (uint32_t i = 0; i < g->count; i++) codes[i] = e2m1(quotient_or_zero(x[i], step));
}

/* --- mx16, mxfp4: a power of two for a block --- */

/* The least power of two by which no element is above 6, as an E8M0 byte. */
static int e8m0_byte(float largest)
{
    if (isinf(largest)) return 254;
    if (largest == 0) return 0;
    const int exponent = ilogbf(largest);
    const int byte = exponent - (ldexpf(largest, -exponent) <= 1.5F ? 2 : 1) + 127;
    return byte < 0 ? 0 : byte > 254 ? 254 : byte;
}

static void encode_mx(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    *scale = (uint8_t)e8m0_byte(largest_magnitude(x, g->count));
    for (uint32_t i = 0; i < g->count; i++) codes[i] = e2m1(ldexp(x[i], 127 - *scale));
}

/* --- nvfp4: an E4M3 scale for a block, and one for the tensor --- */

static void encode_nvfp4(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    const float divisor = 6 * g->tensor_scale;
    *scale = (uint8_t)code_of(&FLOAT_E4M3, largest_magnitude(x, g->count) / divisor, 0x7F);
    const float step = (float)number_of_code(&FLOAT_E4M3, *scale) * g->tensor_scale;
    for (uint32_t i = 0; i < g->count; i++) codes[i] = e2m1(quotient_or_zero(x[i], step));
}

/* --- mlx4, mlx8 and their kin: affine blocks, from the edge that is further from 0 --- */

static void encode_mlx(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    float low = INFINITY, high = -INFINITY, bias = 0;
    for (uint32_t i = 0; i < g->count; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    float step = (high - low) / (float)g->largest_code;
    if (step < 1e-7F) step = 1e-7F;
    const bool from_low = fabsf(low) > fabsf(high);
    const float edge = from_low ? low : high;
    if (!from_low) step = -step;
    const float steps = rintf(edge / step);
    if (steps != 0) {
        step = edge / steps;
        bias = edge;
    }
    for (uint32_t i = 0; i < g->count; i++)
        codes[i] = (uint32_t)nearest_integer((x[i] - bias) / step, 0, g->largest_code);
    put_word(scale, word_of(g->model, step));
    put_word(scale + 2, word_of(g->model, bias));
}

/* --- int8_token_head, fp8_token_head: an f32 scale for a row --- */

static float put_f32_scale(float scale, uint8_t *bytes)
{
    const float kept = scale > 1e-6F ? scale : 1e-6F;
    put_long(bytes, code_of_number(&FLOAT_F32, kept));
    return kept;
}

static void encode_int8_token_head(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    const float inverse = 1 / put_f32_scale(largest_magnitude(x, g->count) / 127, scale);
    for (uint32_t i = 0; i < g->count; i++) {
        const float y = x[i] * inverse, away = truncf(signbit(y) ? y - 0.5F : y + 0.5F);
        codes[i] = (uint32_t)nearest_integer(away, -128, 127) & 0xFF;
    }
}

static void encode_fp8_token_head(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    const float inverse = 1 / put_f32_scale(largest_magnitude(x, g->count) / 448, scale);
    for (uint32_t i = 0; i < g->count; i++) codes[i] = code_of(&FLOAT_E4M3, x[i] * inverse, 0x7F);
}

/* The formats that are missing here store words of a 16-bit type as they are. */
static encode_fn *const encoders[KVG_FORMAT_END] = {
    [KVG_FORMAT_E4M3] = encode_e4m3,
    [KVG_FORMAT_E5M2] = encode_e5m2,
    [KVG_FORMAT_INT8] = encode_affine,
    [KVG_FORMAT_INT4] = encode_affine,
    [KVG_FORMAT_ROWINT4] = encode_rowint4,
    [KVG_FORMAT_ROWFP4] = encode_rowfp4,
    [KVG_FORMAT_MX16] = encode_mx,
    [KVG_FORMAT_MXFP4] = encode_mx,
    [KVG_FORMAT_NVFP4] = encode_nvfp4,
    [KVG_FORMAT_MLX4] = encode_mlx,
    [KVG_FORMAT_MLX4_G32] = encode_mlx,
    [KVG_FORMAT_MLX4_G128] = encode_mlx,
    [KVG_FORMAT_MLX8] = encode_mlx,
    [KVG_FORMAT_MLX8_G32] = encode_mlx,
    [KVG_FORMAT_MLX8_G128] = encode_mlx,
    [KVG_FORMAT_INT8_TOKEN_HEAD] = encode_int8_token_head,
    [KVG_FORMAT_FP8_TOKEN_HEAD] = encode_fp8_token_head,
};

/* --- the numbers that codes and scales stand for --- */

/* The type whose words a format stores; NULL for a format with scales. */
static const small_float *words_of(const kvg_format_info *f)
{
    return f->codes == KVG_CODES_F16 ? &FLOAT_F16 : f->codes == KVG_CODES_BF16 ? &FLOAT_BF16 : NULL;
}

static double number_of_element(kvg_codes kind, uint32_t code)
{
    if (kind == KVG_CODES_F16) return number_of_code(&FLOAT_F16, code);
    if (kind == KVG_CODES_BF16) return number_of_code(&FLOAT_BF16, code);
    if (kind == KVG_CODES_E4M3) return number_of_code(&FLOAT_E4M3, code);
    if (kind == KVG_CODES_E5M2) return number_of_code(&FLOAT_E5M2, code);
    if (kind == KVG_CODES_E2M1) return number_of_code(&FLOAT_E2M1, code);
    if (kind == KVG_CODES_OFFSET) return (double)code - 8;
    return kind == KVG_CODES_SIGNED ? (double)(int8_t)code : (double)code;
}

static double number_of_scale(kvg_scales kind, const small_float *model, const uint8_t *bytes)
{
    if (kind == KVG_SCALES_E8M0) return *bytes == 255 ? NAN : ldexp(1, *bytes - 127);
    if (kind == KVG_SCALES_E4M3) return number_of_code(&FLOAT_E4M3, *bytes);
    if (kind == KVG_SCALES_F16) return number_of_code(&FLOAT_F16, get_word(bytes));
    if (kind == KVG_SCALES_F32) return number_of_code(&FLOAT_F32, get_long(bytes));
    return kind == KVG_SCALES_AFFINE ? number_of_code(model, get_word(bytes)) : 1;
}

static void numbers_of_group(const kvg_format_info *f, const group *g, const uint32_t *codes, const uint8_t *scale,
                             double *numbers)
{
    const double factor = number_of_scale(f->scales, g->model, scale), tensor_scale = f->tensor_scale ? g->tensor_scale : 1;
    for (uint32_t i = 0; i < g->count; i++) {
        const double product = number_of_element(f->codes, codes[i]) * factor * tensor_scale;
        const bool affine = f->scales == KVG_SCALES_AFFINE;
        numbers[i] = affine ? sum_to_odd(product, number_of_code(g->model, get_word(scale + 2))) : product;
    }
}

/* --- codes in bytes --- */

/* The place of an element's nibble among the nibbles of its row, the lower one of a byte first. */
static uint32_t nibble_place(kvg_format format, uint32_t element)
{
    if (format != KVG_FORMAT_INT4) return element;
    const uint32_t within = element % 8; /* the order is 0 2 4 6 1 3 5 7 */
    return element - within + within / 2 + within % 2 * 4;
}

static void pack_codes(const kvg_format_info *f, uint32_t dim, const uint32_t *codes, uint8_t *bytes)
{
    memset(bytes, 0, format_code_bytes(f->format, dim));
    for (uint32_t i = 0; i < dim; i++) {
        const uint32_t place = nibble_place(f->format, i);
        if (f->element_bits == 16) put_word(bytes + 2 * (size_t)i, codes[i]);
        else if (f->element_bits == 8) bytes[i] = (uint8_t)codes[i];
        else bytes[place / 2] |= (uint8_t)(codes[i] << place % 2 * 4);
    }
}

static void unpack_codes(const kvg_format_info *f, uint32_t dim, const uint8_t *bytes, uint32_t *codes)
{
    for (uint32_t i = 0; i < dim; i++) {
        const uint32_t place = nibble_place(f->format, i);
        if (f->element_bits == 16) codes[i] = get_word(bytes + 2 * (size_t)i);
        else if (f->element_bits == 8) codes[i] = bytes[i];
        else codes[i] = bytes[place / 2] >> place % 2 * 4 & 15;
    }
}

/* --- rows --- */

bool format_is_known(const kvg_storage *storage)
{
    const kvg_format format = storage->format;
    return format > KVG_FORMAT_NONE && format < KVG_FORMAT_END && strcmp(storage->dialect, "canonical") == 0 &&
           (words_of(&formats[format]) || encoders[format]);
}

bool format_has_row_parameters(kvg_format format)
{
    return formats[format].row_param_bytes > 0;
}

uint32_t format_code_bytes(kvg_format format, uint32_t dim)
{
    return dim * formats[format].element_bits / 8;
}

uint32_t format_scale_bytes(kvg_format format, uint32_t dim)
{
    const kvg_format_info *f = &formats[format];
    return f->row_param_bytes + (f->block ? dim / f->block * f->block_scale_bytes : 0);
}

static group group_of(const row_type *type, const kvg_format_info *f)
{
    return (group){float_of_dtype(type->model), f->block ? f->block : type->dim, (1 << f->element_bits) - 1,
                   type->tensor_scale};
}

void encode_row(const row_type *type, const uint32_t *words, stored_row *row)
{
    const kvg_format_info *f = &formats[type->format];
    const group g = group_of(type, f);
    uint32_t codes[MOST_DIM];
    float x[MOST_DIM];
    for (uint32_t i = 0; i < type->dim; i++) {
        if (words_of(f)) codes[i] = converted(g.model, words_of(f), words[i]);
        else x[i] = (float)number_of_code(g.model, words[i]);
    }
    for (uint32_t first = 0; !words_of(f) && first < type->dim; first += g.count)
        encoders[type->format](&g, x + first, codes + first, row->scales + first / g.count * f->block_scale_bytes);
    pack_codes(f, type->dim, codes, row->codes);
}

void numbers_of_row(const row_type *type, const stored_row *row, double *numbers)
{
    const kvg_format_info *f = &formats[type->format];
    const group g = group_of(type, f);
    uint32_t codes[MOST_DIM];
    unpack_codes(f, type->dim, row->codes, codes);
    for (uint32_t first = 0; first < type->dim; first += g.count)
        numbers_of_group(f, &g, codes + first, row->scales + first / g.count * f->block_scale_bytes, numbers + first);
}

void decode_row(const row_type *type, const stored_row *row, uint32_t *words)
{
    const kvg_format_info *f = &formats[type->format];
    const small_float *model = float_of_dtype(type->model);
    double numbers[MOST_DIM];
    if (words_of(f)) {
        unpack_codes(f, type->dim, row->codes, words);
        for (uint32_t i = 0; i < type->dim; i++) words[i] = converted(words_of(f), model, words[i]);
        return;
    }
    numbers_of_row(type, row, numbers);
    for (uint32_t i = 0; i < type->dim; i++)
        words[i] = word_of(model, f->scales == KVG_SCALES_AFFINE ? numbers[i] : (float)numbers[i]);
}
