/* A small engine as a plug-in: quantise, dequantise, append, flatten and decode, written from docs/spec alone. */
#include <math.h>
#include <string.h>

#include "core/plugin.h"
#include "core/plugin_tensors.h"
#include "formats.h"
#include "numbers.h"
#include "pages.h"

static const char *why = "";

static const char *error_text(void)
{
    return why;
}

static kvg_status refused(const char *text)
{
    why = text;
    return KVG_ERR_UNIMPLEMENTED;
}

static kvg_status check(const kvg_problem *p)
{
    if (!format_is_known(&p->storage[KVG_K]) || !format_is_known(&p->storage[KVG_V]))
        return refused("engine: no such format or dialect; ask for one that libengine.json lists");
    if (p->layout != KVG_LAYOUT_ROWS && !layout_is_known(p->layout))
        return refused("engine: no such layout; ask for one that libengine.json lists");
    if (p->profile != KVG_PROFILE_NONE) return refused("engine: decode gives no profile's bits; ask for profile exact");
    return KVG_OK;
}

/* How a side is stored. `tensor_scales` are K's and V's. */
static row_type type_of_side(const kvg_problem *p, const kvg_tensor *tensor_scales, int side)
{
    const kvg_tensor *scale = &tensor_scales[side];
    return (row_type){p->storage[side].format, p->dtype, p->head_dim, scale->bytes ? *(const float *)scale->data : 1};
}

static int sides_with_rows(const kvg_problem *p)
{
    return p->paging.shared_kv ? 1 : 2;
}

/* --- values of the model type --- */

static void load_words(kvg_dtype dtype, const void *values, size_t first, uint32_t count, uint32_t *words)
{
    for (uint32_t i = 0; i < count; i++) {
        if (dtype == KVG_DTYPE_F32) words[i] = ((const uint32_t *)values)[first + i];
        else words[i] = ((const uint16_t *)values)[first + i];
    }
}

static void store_words(kvg_dtype dtype, const uint32_t *words, uint32_t count, void *values, size_t first)
{
    for (uint32_t i = 0; i < count; i++) {
        if (dtype == KVG_DTYPE_F32) ((uint32_t *)values)[first + i] = words[i];
        else ((uint16_t *)values)[first + i] = (uint16_t)words[i];
    }
}

/* --- quantise, dequantise --- */

/* Row `r` of the rows of a tensor of bytes. */
static uint8_t *bytes_of_row(const kvg_tensor *bytes, uint32_t row_bytes, size_t r)
{
    return row_bytes ? (uint8_t *)bytes->data + r * row_bytes : NULL;
}

static void copy_bytes(const uint8_t *from, uint32_t count, uint8_t *to)
{
    for (uint32_t i = 0; i < count; i++) to[i] = from[i];
}

static kvg_status quantise(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    const kvg_status status = check(p);
    const size_t rows = status ? 0 : (size_t)p->tokens * p->kv_heads;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const row_type type = type_of_side(p, &in[KVG_QUANTISE_IN_K_TENSOR_SCALE], side);
        for (size_t r = 0; r < rows; r++) {
            const uint32_t codes = format_code_bytes(type.format, type.dim), scales = format_scale_bytes(type.format, type.dim);
            uint32_t words[MOST_DIM];
            stored_row row;
            load_words(p->dtype, in[KVG_QUANTISE_IN_K + side].data, r * type.dim, type.dim, words);
            encode_row(&type, words, &row);
            copy_bytes(row.codes, codes, bytes_of_row(&out[KVG_QUANTISE_OUT_K_CODES + side], codes, r));
            copy_bytes(row.scales, scales, bytes_of_row(&out[KVG_QUANTISE_OUT_K_SCALES + side], scales, r));
        }
    }
    return status;
}

static kvg_status dequantise(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    const kvg_status status = check(p);
    const size_t rows = status ? 0 : (size_t)p->tokens * p->kv_heads;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const row_type type = type_of_side(p, &in[KVG_DEQUANTISE_IN_K_TENSOR_SCALE], side);
        for (size_t r = 0; r < rows; r++) {
            const uint32_t codes = format_code_bytes(type.format, type.dim), scales = format_scale_bytes(type.format, type.dim);
            uint32_t words[MOST_DIM];
            stored_row row;
            copy_bytes(bytes_of_row(&in[KVG_DEQUANTISE_IN_K_CODES + side], codes, r), codes, row.codes);
            copy_bytes(bytes_of_row(&in[KVG_DEQUANTISE_IN_K_SCALES + side], scales, r), scales, row.scales);
            decode_row(&type, &row, words);
            store_words(p->dtype, words, type.dim, out[KVG_DEQUANTISE_OUT_K + side].data, r * type.dim);
        }
    }
    return status;
}

/* --- append, flatten --- */

/* Adds the bias of a head. */
static void add_bias(const small_float *model, const uint32_t *bias, uint32_t dim, uint32_t *words)
{
    for (uint32_t i = 0; i < dim; i++)
        words[i] = word_of(model, number_of_code(model, words[i]) + number_of_code(model, bias[i]));
}

/* Turns the pairs of a row of K. `cos_sin` is the row of the table at the token's position. */
static void rotate(const kvg_rope *rope, const small_float *model, const float *cos_sin, uint32_t *words)
{
    const uint32_t pairs = rope->dims / 2;
    const bool adjacent = rope->pairing == KVG_PAIRING_ADJACENT;
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t *first = &words[adjacent ? 2 * i : i], *second = &words[adjacent ? 2 * i + 1 : i + pairs];
        const float x = (float)number_of_code(model, *first), y = (float)number_of_code(model, *second);
        const float c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        const float x_cos = x * c, y_sin = y * s, y_cos = y * c, x_sin = x * s;
        *first = word_of(model, x_cos - y_sin);
        *second = word_of(model, y_cos + x_sin);
    }
}

static void append_row(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *pools, uint32_t token, row_place place)
{
    const small_float *model = float_of_dtype(p->dtype);
    const row_type type = type_of_side(p, &in[KVG_APPEND_IN_K_TENSOR_SCALE], place.side);
    const size_t first = ((size_t)token * p->kv_heads + place.head) * p->head_dim;
    uint32_t words[MOST_DIM], bias[MOST_DIM];
    stored_row row;
    load_words(p->dtype, in[KVG_APPEND_IN_K + place.side].data, first, p->head_dim, words);
    if (p->bias) {
        const void *biases = in[KVG_APPEND_IN_K_BIAS + place.side].data;
        load_words(p->dtype, biases, (size_t)place.head * p->head_dim, p->head_dim, bias);
        add_bias(model, bias, p->head_dim, words);
    }
    if (place.side == KVG_K && p->rope.dims) {
        const size_t position = (size_t)((const int32_t *)in[KVG_APPEND_IN_POSITIONS].data)[token];
        rotate(&p->rope, model, (const float *)in[KVG_APPEND_IN_COS_SIN].data + position * p->rope.dims, words);
    }
    encode_row(&type, words, &row);
    store_row(p, pools, place, &row);
}

static kvg_status append(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    const kvg_status status = check(p);
    const int64_t *slots = in[KVG_APPEND_IN_SLOTS].data;
    for (uint32_t token = 0; !status && token < p->tokens; token++) {
        for (uint32_t head = 0; slots[token] >= 0 && head < p->kv_heads; head++) {
            for (int side = KVG_K; side < sides_with_rows(p); side++)
                append_row(p, in, &out[KVG_APPEND_OUT_K_DATA], token, (row_place){side, head, slots[token]});
        }
    }
    return status;
}

/* A row of K or V at a position, as words. With shared rows V is a part of K's. */
static void flatten_row(const kvg_problem *p, const kvg_tensor *in, row_place place, uint32_t *words)
{
    const row_type type = type_of_side(p, &in[KVG_FLATTEN_IN_K_TENSOR_SCALE], place.side);
    stored_row row;
    load_row(p, &in[KVG_FLATTEN_IN_K_DATA], place, &row);
    decode_row(&type, &row, words);
}

static kvg_status flatten(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    const kvg_paging *g = &p->paging;
    const int32_t *lengths = in[KVG_FLATTEN_IN_LENGTHS].data;
    const uint32_t sequences = check(p) ? 0 : g->sequences, v_dim = g->shared_kv ? g->v_dim : p->head_dim;
    for (uint32_t sequence = 0; sequence < sequences; sequence++) {
        for (int64_t position = 0; position < p->tokens && position < lengths[sequence]; position++) {
            const int64_t slot = slot_of_position(p, &in[KVG_FLATTEN_IN_BLOCK_TABLE], sequence, position, lengths[sequence]);
            for (uint32_t head = 0; slot >= 0 && head < p->kv_heads; head++) {
                const size_t row = ((size_t)sequence * p->kv_heads + head) * p->tokens + (size_t)position;
                uint32_t words[MOST_DIM];
                flatten_row(p, in, (row_place){KVG_K, head, slot}, words);
                store_words(p->dtype, words, p->head_dim, out[KVG_FLATTEN_OUT_K_FLAT].data, row * p->head_dim);
                if (!g->shared_kv) flatten_row(p, in, (row_place){KVG_V, head, slot}, words);
                store_words(p->dtype, words + g->v_first, v_dim, out[KVG_FLATTEN_OUT_V_FLAT].data, row * v_dim);
            }
        }
    }
    return check(p);
}

/* --- decode --- */

/* A query under one head on its way through its keys: the largest score, and sums of weights relative to it. */
typedef struct softmax {
    double largest, weights, sums[MOST_DIM];
} softmax;

static void add_weight(softmax *s, double score, const double *v, uint32_t dim)
{
    const double largest = score > s->largest ? score : s->largest;
    const double old = s->weights > 0 ? exp(s->largest - largest) : 0, weight = exp(score - largest);
    s->largest = largest;
    s->weights = s->weights * old + weight;
    for (uint32_t i = 0; i < dim; i++) s->sums[i] = s->sums[i] * old + weight * v[i];
}

static double score_of(const kvg_problem *p, const double *q, const double *k)
{
    const kvg_attention *a = &p->attention;
    double product = 0;
    for (uint32_t i = 0; i < p->head_dim; i++) product += q[i] * k[i];
    const double score = product * (a->scale > 0 ? (double)a->scale : 1 / sqrt(p->head_dim));
    return a->softcap > 0 ? a->softcap * tanh(score / a->softcap) : score;
}

/* The numbers of a row that decode reads. */
static void read_row(const kvg_problem *p, const kvg_tensor *in, row_place place, double *numbers)
{
    const row_type type = type_of_side(p, &in[KVG_DECODE_IN_K_TENSOR_SCALE], place.side);
    stored_row row;
    load_row(p, &in[KVG_DECODE_IN_K_DATA], place, &row);
    numbers_of_row(&type, &row, numbers);
}

/* A query under one of its heads. */
typedef struct question {
    uint32_t sequence, head;
    int64_t position, length; /* the query's position in a sequence of this length */
    double q[MOST_DIM];
} question;

static void attend(const kvg_problem *p, const kvg_tensor *in, const question *asked, uint32_t v_dim, softmax *s)
{
    const kvg_attention *a = &p->attention;
    const uint32_t head = asked->head / (a->query_heads / p->kv_heads);
    const bool cut = a->window && asked->position >= a->window;
    for (int64_t key = cut ? asked->position - a->window + 1 : 0; key <= asked->position; key++) {
        const int64_t slot = slot_of_position(p, &in[KVG_DECODE_IN_BLOCK_TABLE], asked->sequence, key, asked->length);
        double k[MOST_DIM], v[MOST_DIM];
        if (slot < 0) continue;
        read_row(p, in, (row_place){KVG_K, head, slot}, k);
        if (!p->paging.shared_kv) read_row(p, in, (row_place){KVG_V, head, slot}, v);
        add_weight(s, score_of(p, asked->q, k), p->paging.shared_kv ? k + p->paging.v_first : v, v_dim);
    }
}

/* Before the first key there is the head's sink, which has a weight and no value, or nothing. */
static softmax before_keys(const kvg_problem *p, const kvg_tensor *in, uint32_t query_head)
{
    const float sink = p->attention.sinks ? ((const float *)in[KVG_DECODE_IN_SINKS].data)[query_head] : -INFINITY;
    return (softmax){.largest = sink, .weights = sink > -INFINITY ? 1 : 0};
}

/* Row `row` of q, out and lse: all heads of a query, then those of the next one. */
static void answer(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, question *asked, size_t row)
{
    const uint32_t v_dim = p->paging.shared_kv ? p->paging.v_dim : p->head_dim;
    const small_float *model = float_of_dtype(p->dtype);
    uint32_t words[MOST_DIM];
    softmax s = before_keys(p, in, asked->head);
    load_words(p->dtype, in[KVG_DECODE_IN_Q].data, row * p->head_dim, p->head_dim, words);
    for (uint32_t i = 0; i < p->head_dim; i++) asked->q[i] = number_of_code(model, words[i]);
    attend(p, in, asked, v_dim, &s);
    for (uint32_t i = 0; i < v_dim; i++) words[i] = word_of(model, s.weights > 0 ? s.sums[i] / s.weights : 0);
    store_words(p->dtype, words, v_dim, out[KVG_DECODE_OUT_OUT].data, row * v_dim);
    ((float *)out[KVG_DECODE_OUT_LSE].data)[row] = (float)(s.largest + log(s.weights));
}

static kvg_status decode(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    const int32_t *lengths = in[KVG_DECODE_IN_LENGTHS].data, *queries = in[KVG_DECODE_IN_QUERY_LENGTHS].data;
    const uint32_t sequences = check(p) ? 0 : p->paging.sequences;
    size_t row = 0;
    for (uint32_t sequence = 0; sequence < sequences; sequence++) {
        for (int32_t j = 0; j < queries[sequence]; j++) {
            question asked = {.sequence = sequence, .length = lengths[sequence]};
            asked.position = asked.length - queries[sequence] + j;
            for (; asked.head < p->attention.query_heads; asked.head++, row++) answer(p, in, out, &asked, row);
        }
    }
    return check(p);
}

/* --- what the library exports --- */

static const kvg_impl impls[] = {
    {"engine_quantise_any", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, quantise},
    {"engine_dequantise_any", KVG_OP_DEQUANTISE, KVG_FORMAT_NONE, 0, dequantise},
    {"engine_append_any", KVG_OP_APPEND, KVG_FORMAT_NONE, 0, append},
    {"engine_flatten_any", KVG_OP_FLATTEN, KVG_FORMAT_NONE, 0, flatten},
    {"engine_decode_any", KVG_OP_DECODE, KVG_FORMAT_NONE, 0, decode},
};

static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof backend,
    .problem_size = sizeof(kvg_problem),
    .name = "engine",
    .impls = impls,
    .impl_count = sizeof impls / sizeof impls[0],
    .error_text = error_text,
};

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    return &backend;
}
