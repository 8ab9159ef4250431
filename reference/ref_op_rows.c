/* The ops quantise and dequantise over layout `rows`, for every format, and the reference as a backend. */
#include <stdbool.h>
#include <stddef.h>

#include "core/bits.h"
#include "reference/ref_codec.h"

/* One side (K or V) of a problem: its rows and where its tensors are. */
typedef struct side_tensors {
    ref_row row;
    const ref_codec *codec;
    ref_packing packing;
    size_t rows, value_bytes, code_bytes, scale_bytes;
} side_tensors;

static kvg_status side_init(const kvg_problem *p, kvg_side side, const kvg_tensor *tensor_scale, side_tensors *t)
{
    float g = 1;
    if (tensor_scale->bytes == sizeof g) memcpy(&g, tensor_scale->data, sizeof g);
    kvg_status s = ref_row_init(p, side, g, &t->row);
    if (s) return s == KVG_ERR_NOT_FOUND ? KVG_ERR_UNIMPLEMENTED : s; /* a dialect that this backend does not know */
    const kvg_format format = p->storage[side].format;
    t->codec = ref_codec_get(format);
    t->packing = t->codec->packing(&t->row);
    t->rows = (size_t)p->tokens * p->kv_heads;
    t->value_bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    t->code_bytes = kvg_format_code_bytes(format, p->head_dim);
    t->scale_bytes = kvg_format_scale_bytes(format, p->head_dim);
    return KVG_OK;
}

/* A pointer to row r of a tensor whose rows have `bytes` bytes; formats without scales have no such tensor. */
static uint8_t *at(const kvg_tensor *tensor, size_t r, size_t bytes)
{
    return tensor->bytes ? (uint8_t *)tensor->data + r * bytes : NULL;
}

static void quantise_rows(const side_tensors *t, const kvg_tensor *values, kvg_tensor *codes, kvg_tensor *scales)
{
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < t->rows; r++) {
        float x[KVG_MAX_HEAD_DIM];
        double v[KVG_MAX_HEAD_DIM];
        uint16_t code[KVG_MAX_HEAD_DIM];
        kvg_reference_load(t->row.dtype, at(values, r, t->value_bytes), t->row.head_dim, x);
        t->codec->scale(&t->row, x, at(scales, r, t->scale_bytes), v);
        for (uint32_t i = 0; i < t->row.head_dim; i++) code[i] = t->codec->encode(&t->row, x[i], v[i]);
        ref_pack(t->packing, code, t->row.head_dim, at(codes, r, t->code_bytes));
    }
}

static void dequantise_rows(const side_tensors *t, const kvg_tensor *codes, const kvg_tensor *scales,
                            kvg_tensor *values)
{
#pragma omp parallel for schedule(static)
    for (size_t r = 0; r < t->rows; r++) {
        uint16_t code[KVG_MAX_HEAD_DIM];
        float y[KVG_MAX_HEAD_DIM];
        ref_unpack(t->packing, at(codes, r, t->code_bytes), t->row.head_dim, code);
        t->codec->decode(&t->row, code, at(scales, r, t->scale_bytes), y);
        for (uint32_t i = 0; i < t->row.head_dim; i++) {
            if (!t->codec->keeps_nan && y[i] != y[i]) y[i] = kvg_f32_of_bits(0x7FFFFFFFu); /* section 2.5 */
        }
        kvg_reference_store(t->row.dtype, y, t->row.head_dim, at(values, r, t->value_bytes));
    }
}

/* Tensors come in the order of core/ops.def: role i of K at 2i, of V at 2i + 1. */
static kvg_status quantise(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    side_tensors t[2];
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_status s = side_init(problem, side, &in[2 + side], &t[side]);
        if (s) return s;
    }
    for (int side = KVG_K; side <= KVG_V; side++) quantise_rows(&t[side], &in[side], &out[side], &out[2 + side]);
    return KVG_OK;
}

static kvg_status dequantise(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    side_tensors t[2];
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_status s = side_init(problem, side, &in[4 + side], &t[side]);
        if (s) return s;
    }
    for (int side = KVG_K; side <= KVG_V; side++) dequantise_rows(&t[side], &in[side], &in[2 + side], &out[side]);
    return KVG_OK;
}

static const kvg_impl impls[] = {
    {"reference_quantise_any_c", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, quantise},
    {"reference_dequantise_any_c", KVG_OP_DEQUANTISE, KVG_FORMAT_NONE, 0, dequantise},
};

static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof backend,
    .name = "reference",
    .impls = impls,
    .impl_count = sizeof impls / sizeof impls[0],
    .error_text = kvg_error_text,
};

const kvg_backend *kvg_reference_backend(void)
{
    return &backend;
}

kvg_status kvg_reference_run(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_impl *impl;
    kvg_status s = kvg_backend_choose(&backend, problem, &impl);
    return s ? s : impl->run(problem, in, out, NULL);
}
