#include "formats.h"

#include "numbers.h"

static const kvg_format_info formats[KVG_FORMAT_END] = {
#define FORMAT(ENUM, name, id, bits, codes, block, block_scale_bytes, row_param_bytes, scales, tensor_scale, summary) \
    [id] = {KVG_FORMAT_##ENUM, #name, bits, block, block_scale_bytes, row_param_bytes, tensor_scale, summary,         \
            KVG_CODES_##codes, KVG_SCALES_##scales},
#include "core/formats.def"
#undef FORMAT
};

/* The floats that codes are. Other codes are integers. */
static const small_float *const floats[] = {
    [KVG_CODES_F16] = &FLOAT_F16,   [KVG_CODES_BF16] = &FLOAT_BF16, [KVG_CODES_E4M3] = &FLOAT_E4M3,
    [KVG_CODES_E5M2] = &FLOAT_E5M2, [KVG_CODES_E2M1] = &FLOAT_E2M1, [KVG_CODES_SIGNED] = NULL,
};

/* Elements that share a scale: a block, or the whole row. */
typedef struct group {
    const kvg_format_info *format;
    const small_float *model;
    uint32_t count;
    int largest_code;
    float tensor_scale;
} group;

typedef void encode_fn(const group *g, const float *x, uint32_t *codes, uint8_t *scale);

/* --- small steps --- */

static float largest_magnitude(const float *x, uint32_t count)
{
    float largest = 0;
    for (uint32_t i = 0; i < count; i++) largest = fmaxf(largest, fabsf(x[i])); /* fmaxf leaves NaN out */
    return largest;
}

/* The nearest integer of a range, ties to even. NaN gives 0. */
static int nearest_integer(double x, int least, int most)
{
    if (isnan(x)) return 0;
    return rint(x) < least ? least : rint(x) > most ? most : (int)rint(x);
}

/* A divisor of 0 gives a zero of x's sign, but NaN for NaN. */
static float quotient_or_zero(float x, float divisor)
{
    return divisor == 0 && !isnan(x) ? copysignf(0, x) : x / divisor;
}

static void put_word(uint32_t word, uint8_t *bytes)
{
    bytes[0] = (uint8_t)word;
    bytes[1] = (uint8_t)(word >> 8);
}

static uint32_t get_word(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8;
}

/* --- e4m3, e5m2 --- */

static void encode_fp8(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    (void)scale;
    for (uint32_t i = 0; i < g->count; i++) codes[i] = code_of(floats[g->format->codes], x[i] / g->tensor_scale, 0x7F);
}

/* --- int8, int4: a scale and the least element of a row --- */

static void encode_affine(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    float least = INFINITY, most = -INFINITY;
    for (uint32_t i = 0; i < g->count; i++) {
        if (x[i] < least || (x[i] == least && signbit(x[i]))) least = x[i];
        if (x[i] > most || (x[i] == most && !signbit(x[i]))) most = x[i];
    }
    const double factor = rounded(g->model, (most - least) * (1 / (float)g->largest_code));
    const double inverse = rounded(g->model, 1 / factor);
    for (uint32_t i = 0; i < g->count; i++) {
        const double above = rounded(g->model, (double)x[i] - least);
        codes[i] = (uint32_t)nearest_integer(rounded(g->model, above * inverse), 0, g->largest_code);
    }
    put_word(word_of(g->model, factor), scale);
    put_word(word_of(g->model, least), scale + 2);
}

/* --- rowint4, rowfp4: an f16 scale for a row --- */

static float put_f16_scale(float scale, uint8_t *bytes)
{
    const uint32_t code = word_of(&FLOAT_F16, fminf(scale, 65504));
    put_word(code, bytes);
    return (float)number_of(&FLOAT_F16, code);
}

static void encode_row16(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    const bool integers = g->format->codes == KVG_CODES_OFFSET;
    const float step = put_f16_scale(largest_magnitude(x, g->count) / (integers ? 7 : 6), scale);
    for (uint32_t i = 0; i < g->count; i++) {
        const float steps = quotient_or_zero(x[i], step);
        codes[i] = integers ? (uint32_t)(8 + nearest_integer(steps, -7, 7)) : code_of(&FLOAT_E2M1, steps, 7);
    }
}

/* --- mx16, mxfp4: the least power of two for a block by which no element is above 6 --- */

static uint8_t e8m0_of_block(float largest)
{
    if (largest == 0) return 0;
    if (isinf(largest)) return 254;
    const int exponent = ilogbf(largest), byte = 127 + exponent - (ldexpf(largest, -exponent) <= 1.5F ? 2 : 1);
    return (uint8_t)(byte > 0 ? byte : 0);
}

static void encode_mx(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    *scale = e8m0_of_block(largest_magnitude(x, g->count));
    for (uint32_t i = 0; i < g->count; i++) codes[i] = code_of(&FLOAT_E2M1, ldexp(x[i], 127 - *scale), 7);
}

/* --- nvfp4: an E4M3 scale for a block, and one for the tensor --- */

static void encode_nvfp4(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    *scale = (uint8_t)code_of(&FLOAT_E4M3, largest_magnitude(x, g->count) / (6 * g->tensor_scale), 0x7F);
    const float step = (float)number_of(&FLOAT_E4M3, *scale) * g->tensor_scale;
    for (uint32_t i = 0; i < g->count; i++) codes[i] = code_of(&FLOAT_E2M1, quotient_or_zero(x[i], step), 7);
}

/* --- mlx4, mlx8 and their kin: a scale for a block, and the end of its range that is further from 0 --- */

static void encode_mlx(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    float low = INFINITY, high = -INFINITY;
    for (uint32_t i = 0; i < g->count; i++) {
        low = fminf(low, x[i]);
        high = fmaxf(high, x[i]);
    }
    float step = (high - low) / (float)g->largest_code;
    if (step < 1e-7F) step = 1e-7F;
    const bool from_low = fabsf(low) > fabsf(high);
    const float edge = from_low ? low : high, steps = rintf(edge / (from_low ? step : -step));
    const float factor = steps != 0 ? edge / steps : from_low ? step : -step, bias = steps != 0 ? edge : 0;
    for (uint32_t i = 0; i < g->count; i++)
        codes[i] = (uint32_t)nearest_integer((x[i] - bias) / factor, 0, g->largest_code);
    put_word(word_of(g->model, factor), scale);
    put_word(word_of(g->model, bias), scale + 2);
}

/* --- int8_token_head, fp8_token_head: an f32 scale for a row --- */

static uint32_t int8_code(float x)
{
    const float away = truncf(signbit(x) ? x - 0.5F : x + 0.5F);
    return (uint32_t)nearest_integer(away, -128, 127) & 0xFF;
}

static void encode_token_head(const group *g, const float *x, uint32_t *codes, uint8_t *scale)
{
    const bool integers = g->format->codes == KVG_CODES_SIGNED;
    const float step = fmaxf(largest_magnitude(x, g->count) / (integers ? 127 : 448), 1e-6F), inverse = 1 / step;
    for (uint32_t i = 0; i < g->count; i++)
        codes[i] = integers ? int8_code(x[i] * inverse) : code_of(&FLOAT_E4M3, x[i] * inverse, 0x7F);
    memcpy(scale, &step, sizeof step);
}

/* Formats f16 and bf16 need no encoder: their codes are words of a model type. */
static encode_fn *const encoders[KVG_FORMAT_END] = {
    [KVG_FORMAT_E4M3] = encode_fp8,
    [KVG_FORMAT_E5M2] = encode_fp8,
    [KVG_FORMAT_INT8] = encode_affine,
    [KVG_FORMAT_INT4] = encode_affine,
    [KVG_FORMAT_ROWINT4] = encode_row16,
    [KVG_FORMAT_ROWFP4] = encode_row16,
    [KVG_FORMAT_MX16] = encode_mx,
    [KVG_FORMAT_MXFP4] = encode_mx,
    [KVG_FORMAT_NVFP4] = encode_nvfp4,
    [KVG_FORMAT_MLX4] = encode_mlx,
    [KVG_FORMAT_MLX4_G32] = encode_mlx,
    [KVG_FORMAT_MLX4_G128] = encode_mlx,
    [KVG_FORMAT_MLX8] = encode_mlx,
    [KVG_FORMAT_MLX8_G32] = encode_mlx,
    [KVG_FORMAT_MLX8_G128] = encode_mlx,
    [KVG_FORMAT_INT8_TOKEN_HEAD] = encode_token_head,
    [KVG_FORMAT_FP8_TOKEN_HEAD] = encode_token_head,
};

/* --- the numbers that codes and scales stand for --- */

static double number_of_element(kvg_codes kind, uint32_t code)
{
    if (kind == KVG_CODES_OFFSET) return (double)code - 8;
    if (kind == KVG_CODES_SIGNED) return (int8_t)code;
    return kind == KVG_CODES_UNSIGNED ? code : number_of(floats[kind], code);
}

static double number_of_scale(const group *g, const uint8_t *bytes)
{
    const kvg_scales kind = g->format->scales;
    float wide = 1;
    if (kind == KVG_SCALES_F32) memcpy(&wide, bytes, sizeof wide);
    if (kind == KVG_SCALES_E8M0) return *bytes == 255 ? NAN : ldexp(1, *bytes - 127);
    if (kind == KVG_SCALES_E4M3) return number_of(&FLOAT_E4M3, *bytes);
    if (kind == KVG_SCALES_F16) return number_of(&FLOAT_F16, get_word(bytes));
    if (kind == KVG_SCALES_AFFINE) return number_of(g->model, get_word(bytes));
    return wide;
}

static void numbers_of_group(const group *g, const uint32_t *codes, const uint8_t *scale, double *numbers)
{
    const bool affine = g->format->scales == KVG_SCALES_AFFINE;
    const double factor = number_of_scale(g, scale), least = affine ? number_of(g->model, get_word(scale + 2)) : 0;
    for (uint32_t i = 0; i < g->count; i++) {
        const double product = number_of_element(g->format->codes, codes[i]) * factor * g->tensor_scale;
        numbers[i] = affine ? sum_to_odd(product, least) : product;
    }
}

/* --- codes in bytes --- */

/* The place of an element's nibble among the nibbles of its row, of which a byte has the lower one first. */
static uint32_t nibble_place(kvg_format format, uint32_t element)
{
    if (format != KVG_FORMAT_INT4) return element;
    const uint32_t within = element % 8; /* the places have the elements 0 2 4 6 1 3 5 7 */
    return element - within + within / 2 + within % 2 * 4;
}

static void put_code(const kvg_format_info *f, uint32_t element, uint32_t code, uint8_t *bytes)
{
    const uint32_t place = nibble_place(f->format, element), shift = place % 2 * 4;
    if (f->element_bits == 16) put_word(code, bytes + 2 * (size_t)element);
    else if (f->element_bits == 8) bytes[element] = (uint8_t)code;
    else bytes[place / 2] = (uint8_t)((bytes[place / 2] & (0xF0 >> shift)) | code << shift);
}

static uint32_t get_code(const kvg_format_info *f, uint32_t element, const uint8_t *bytes)
{
    const uint32_t place = nibble_place(f->format, element), shift = place % 2 * 4;
    if (f->element_bits == 16) return get_word(bytes + 2 * (size_t)element);
    return f->element_bits == 8 ? bytes[element] : bytes[place / 2] >> shift & 15;
}

/* --- rows --- */

bool format_is_known(const kvg_storage *storage)
{
    return storage->format < KVG_FORMAT_END && strcmp(storage->dialect, "canonical") == 0;
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

static group group_of(const row_type *type)
{
    const kvg_format_info *f = &formats[type->format];
    return (group){f, float_of_dtype(type->model), f->block ? f->block : type->dim, (1 << f->element_bits) - 1,
                   type->tensor_scale};
}

void encode_row(const row_type *type, const uint32_t *words, stored_row *row)
{
    const group g = group_of(type);
    encode_fn *encode = encoders[type->format];
    uint32_t codes[MOST_DIM];
    float x[MOST_DIM];
    for (uint32_t i = 0; i < type->dim; i++) {
        x[i] = (float)number_of(g.model, words[i]);
        if (!encode) codes[i] = converted(g.model, floats[g.format->codes], words[i]);
    }
    for (uint32_t first = 0; encode && first < type->dim; first += g.count)
        encode(&g, x + first, codes + first, row->scales + first / g.count * g.format->block_scale_bytes);
    for (uint32_t i = 0; i < type->dim; i++) put_code(g.format, i, codes[i], row->codes);
}

void numbers_of_row(const row_type *type, const stored_row *row, double *numbers)
{
    const group g = group_of(type);
    uint32_t codes[MOST_DIM];
    for (uint32_t i = 0; i < type->dim; i++) codes[i] = get_code(g.format, i, row->codes);
    for (uint32_t first = 0; first < type->dim; first += g.count) {
        const uint8_t *scale = row->scales + first / g.count * g.format->block_scale_bytes;
        numbers_of_group(&g, codes + first, scale, numbers + first);
    }
}

/* An affine number is rounded once, to the model type. The others are rounded to f32 before. */
void decode_row(const row_type *type, const stored_row *row, uint32_t *words)
{
    const group g = group_of(type);
    const bool once = g.format->scales == KVG_SCALES_AFFINE;
    double numbers[MOST_DIM];
    numbers_of_row(type, row, numbers);
    for (uint32_t i = 0; i < type->dim; i++) {
        if (encoders[type->format]) words[i] = word_of(g.model, once ? numbers[i] : (float)numbers[i]);
        else words[i] = converted(floats[g.format->codes], g.model, get_code(g.format, i, row->codes));
    }
}
