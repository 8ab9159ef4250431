#include "reference/formats/ref_codec.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/bits.h"
#include "core/name.h"
#include "reference/numbers/ref_round.h"

/* One codec per line of core/formats.def, named ref_fmt_<name>. */
#define FORMAT(ENUM, name, ...) extern const ref_codec ref_fmt_##name;
#include "core/formats.def"
#undef FORMAT

static const ref_codec *const codecs[] = {
#define FORMAT(ENUM, name, ...) &ref_fmt_##name,
#include "core/formats.def"
#undef FORMAT
};

const ref_codec *ref_codec_get(kvg_format format)
{
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        if (codecs[i]->format == format) return codecs[i];
    }
    return NULL;
}

size_t kvg_reference_dialect_count(kvg_format format)
{
    return ref_codec_get(format)->dialect_count;
}

const kvg_dialect *kvg_reference_dialect(kvg_format format, size_t index)
{
    const ref_codec *codec = ref_codec_get(format);
    return (const kvg_dialect *)(const void *)((const char *)codec->dialects + index * codec->dialect_size);
}

kvg_dialect_number kvg_reference_dialect_number(kvg_format format, size_t index)
{
    const ref_codec *codec = ref_codec_get(format);
    return codec->number ? codec->number(kvg_reference_dialect(format, index)) : KVG_NUMBER_FUSED;
}

kvg_status kvg_reference_dialect_find(kvg_format format, const char *name, size_t *index)
{
    const ref_codec *codec = ref_codec_get(format);
    char what[64];
    snprintf(what, sizeof what, "%s dialect", kvg_format_get(format)->name);
    return kvg_name_find(what, name, &kvg_reference_dialect(format, 0)->name, codec->dialect_size, codec->dialect_count,
                         index);
}

kvg_status ref_row_init(const kvg_problem *problem, kvg_side side, float tensor_scale, ref_row *row)
{
    const kvg_storage *storage = &problem->storage[side];
    size_t index;
    kvg_status s = kvg_reference_dialect_find(storage->format, storage->dialect, &index);
    if (s) return s;
    const bool scaled = kvg_format_get(storage->format)->tensor_scale;
    if (scaled && !(tensor_scale > 0 && tensor_scale <= FLT_MAX)) {
        return kvg_fail(KVG_ERR_INVALID, "%s is %a: a tensor scale must be finite and above 0",
                        kvg_tensor_name(KVG_ROLE_TENSOR_SCALE, side), (double)tensor_scale);
    }
    *row = (ref_row){
        .dtype = problem->dtype,
        .head_dim = problem->head_dim,
        .dialect = kvg_reference_dialect(storage->format, index),
        .tensor_scale = scaled ? tensor_scale : 1,
    };
    return KVG_OK;
}

kvg_status ref_side_init(const kvg_problem *p, kvg_side side, const kvg_tensor *tensor_scale, ref_side *out)
{
    const kvg_format format = p->storage[side].format;
    float g = 1;
    if (tensor_scale->bytes == sizeof g) memcpy(&g, tensor_scale->data, sizeof g);
    kvg_status s = ref_row_init(p, side, g, &out->row);
    if (s) return s == KVG_ERR_NOT_FOUND ? KVG_ERR_UNIMPLEMENTED : s; /* a dialect that this backend does not know */
    out->codec = ref_codec_get(format);
    out->packing = out->codec->packing(&out->row);
    out->value_bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    out->code_bytes = kvg_format_code_bytes(format, p->head_dim);
    out->scale_bytes = kvg_format_scale_bytes(format, p->head_dim);
    return KVG_OK;
}

void ref_side_quantise(const ref_side *t, const float *x, uint8_t *codes, uint8_t *scales)
{
    double v[KVG_MAX_HEAD_DIM];
    uint16_t code[KVG_MAX_HEAD_DIM];
    t->codec->scale(&t->row, x, scales, v);
    for (uint32_t i = 0; i < t->row.head_dim; i++) code[i] = t->codec->encode(&t->row, x[i], v[i]);
    ref_pack(t->packing, code, t->row.head_dim, codes);
}

void ref_side_dequantise(const ref_side *t, const uint8_t *codes, const uint8_t *scales, float *y)
{
    uint16_t code[KVG_MAX_HEAD_DIM];
    ref_unpack(t->packing, codes, t->row.head_dim, code);
    t->codec->decode(&t->row, code, scales, y);
    for (uint32_t i = 0; i < t->row.head_dim; i++) {
        if (!t->codec->keeps_nan && y[i] != y[i]) y[i] = kvg_f32_of_bits(0x7FFFFFFFu); /* section 2.5 */
    }
}

void ref_pack(ref_packing packing, const uint16_t *codes, size_t count, uint8_t *bytes)
{
    if (packing == REF_PACK_U16) {
        for (size_t i = 0; i < count; i++) ref_write_u16(bytes + 2 * i, codes[i]);
    } else if (packing == REF_PACK_U8) {
        for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)codes[i];
    } else {
        for (size_t i = 0; i < count; i += 2) {
            const uint16_t low = codes[ref_nibble_element(packing, i, count)];
            const uint16_t high = codes[ref_nibble_element(packing, i + 1, count)];
            bytes[i / 2] = (uint8_t)(high << 4 | low);
        }
    }
}

void ref_unpack(ref_packing packing, const uint8_t *bytes, size_t count, uint16_t *codes)
{
    if (packing == REF_PACK_U16) {
        for (size_t i = 0; i < count; i++) codes[i] = ref_read_u16(bytes + 2 * i);
    } else if (packing == REF_PACK_U8) {
        for (size_t i = 0; i < count; i++) codes[i] = bytes[i];
    } else {
        for (size_t i = 0; i < count; i += 2) {
            codes[ref_nibble_element(packing, i, count)] = bytes[i / 2] & 15;
            codes[ref_nibble_element(packing, i + 1, count)] = bytes[i / 2] >> 4;
        }
    }
}

/* The model types: rounding from f64, and the constants that bounds need. */

static const struct model_type {
    kvg_dtype dtype;
    double half_ulp, half_step, largest, smallest_normal;
    float (*to_f32)(uint16_t);
    uint16_t (*of_f32)(float);
    uint16_t (*of_f64)(double);
} model_types[] = {
    {KVG_DTYPE_F16, 0x1p-11, 0x1p-25, 65504, 0x1p-14, kvg_ref_f32_of_f16, kvg_ref_f16_of_f32, kvg_ref_f16_of_f64},
    {KVG_DTYPE_BF16, 0x1p-8, 0x1p-134, 0x1.FEp127, 0x1p-126, kvg_ref_f32_of_bf16, kvg_ref_bf16_of_f32,
     kvg_ref_bf16_of_f64},
    {KVG_DTYPE_F32, 0x1p-24, 0x1p-150, FLT_MAX, FLT_MIN, NULL, NULL, NULL},
};

static const struct model_type *model_type(kvg_dtype dtype)
{
    return dtype == KVG_DTYPE_F16 ? &model_types[0] : dtype == KVG_DTYPE_BF16 ? &model_types[1] : &model_types[2];
}

float ref_round_to(kvg_dtype dtype, double x)
{
    const struct model_type *type = model_type(dtype);
    return type->of_f64 ? type->to_f32(type->of_f64(x)) : (float)x;
}

/* The sum is first rounded to odd, which a second rounding to so few bits cannot tell from the exact sum. */
float ref_round_sum(kvg_dtype dtype, double a, double b)
{
    double sum = a + b;
    if (!(fabs(sum) <= DBL_MAX)) return ref_round_to(dtype, sum);
    const double part = sum - a;
    const double error = (a - (sum - part)) + (b - part); /* the exact sum is sum + error */
    uint64_t bits = kvg_bits_of_f64(sum);
    if (error != 0 && (bits & 1) == 0) {
        /* The exact sum lies between sum and the odd neighbour on error's side. */
        bits = (error > 0) == (sum > 0) ? bits + 1 : bits - 1;
        sum = kvg_f64_of_bits(bits);
    }
    return ref_round_to(dtype, sum);
}

double ref_half_ulp(kvg_dtype dtype) { return model_type(dtype)->half_ulp; }
double ref_half_step(kvg_dtype dtype) { return model_type(dtype)->half_step; }
double ref_largest(kvg_dtype dtype) { return model_type(dtype)->largest; }
double ref_smallest_normal(kvg_dtype dtype) { return model_type(dtype)->smallest_normal; }

void kvg_reference_load(kvg_dtype dtype, const void *from, size_t count, float *to)
{
    const struct model_type *type = model_type(dtype);
    if (!type->to_f32) {
        memcpy(to, from, count * sizeof *to);
        return;
    }
    const uint8_t *bytes = from;
    for (size_t i = 0; i < count; i++) to[i] = type->to_f32(ref_read_u16(bytes + 2 * i));
}

void kvg_reference_store(kvg_dtype dtype, const float *from, size_t count, void *to)
{
    const struct model_type *type = model_type(dtype);
    if (!type->of_f32) {
        memcpy(to, from, count * sizeof *from);
        return;
    }
    for (size_t i = 0; i < count; i++) ref_write_u16((uint8_t *)to + 2 * i, type->of_f32(from[i]));
}

float ref_amax(const float *x, size_t n, bool *has_nan)
{
    float amax = 0;
    *has_nan = false;
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i])) *has_nan = true;
        else if (fabsf(x[i]) > amax) amax = fabsf(x[i]);
    }
    return amax;
}
