/* A small engine as a plug-in, written from docs/spec alone: the ops, over rows (formats.h) in pages (pages.h). */
#include "core/plugin.h"
#include "core/plugin_tensors.h"
#include "numbers.h"
#include "pages.h"

/* --- rows --- */

static void load_words(kvg_dtype dtype, const void *values, size_t first, uint32_t count, uint32_t *words)
{
    for (uint32_t i = 0; i < count; i++)
        words[i] = dtype == KVG_DTYPE_F32 ? ((const uint32_t *)values)[first + i]
                                          : ((const uint16_t *)values)[first + i];
}

static void store_words(kvg_dtype dtype, const uint32_t *words, uint32_t count, void *values, size_t first)
{
    for (uint32_t i = 0; i < count; i++) {
        if (dtype == KVG_DTYPE_F32) ((uint32_t *)values)[first + i] = words[i];
        else ((uint16_t *)values)[first + i] = (uint16_t)words[i];
    }
}

/* How the rows of a side are stored, by the tensor scales of K and V. */
static row_type type_of_side(const kvg_problem *p, const kvg_tensor *scales, int side)
{
    const float scale = scales[side].bytes ? *(const float *)scales[side].data : 1;
    return (row_type){p->storage[side].format, p->dtype, p->head_dim, scale};
}

static void write_row(const kvg_problem *p, const kvg_tensor *scales, kvg_tensor *pools, row_place place,
                      const uint32_t *words)
{
    const row_type type = type_of_side(p, scales, place.side);
    stored_row row = {{0}, {0}};
    encode_row(&type, words, &row);
    copy_row(p, pools, place, &row, true);
}

static void read_row(const kvg_problem *p, const kvg_tensor *scales, const kvg_tensor *pools, row_place place,
                     uint32_t *words)
{
    const row_type type = type_of_side(p, scales, place.side);
    stored_row row;
    copy_row(p, pools, place, &row, false);
    decode_row(&type, &row, words);
}

static uint32_t v_dim_of(const kvg_problem *p)
{
    return p->paging.shared_kv ? p->paging.v_dim : p->head_dim;
}

/* --- quantise, dequantise --- */

static void quantise(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    for (uint32_t row = 0; row < p->tokens * p->kv_heads; row++) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            const row_place place = {side, row % p->kv_heads, row / p->kv_heads};
            uint32_t words[MOST_DIM];
            load_words(p->dtype, in[KVG_QUANTISE_IN_K + side].data, (size_t)row * p->head_dim, p->head_dim, words);
            write_row(p, &in[KVG_QUANTISE_IN_K_TENSOR_SCALE], &out[KVG_QUANTISE_OUT_K_CODES], place, words);
        }
    }
}

static void dequantise(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    for (uint32_t row = 0; row < p->tokens * p->kv_heads; row++) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            const row_place place = {side, row % p->kv_heads, row / p->kv_heads};
            uint32_t words[MOST_DIM];
            read_row(p, &in[KVG_DEQUANTISE_IN_K_TENSOR_SCALE], &in[KVG_DEQUANTISE_IN_K_CODES], place, words);
            store_words(p->dtype, words, p->head_dim, out[KVG_DEQUANTISE_OUT_K + side].data,
                        (size_t)row * p->head_dim);
        }
    }
}

/* --- append --- */

static void add_bias(const kvg_problem *p, const kvg_tensor *bias, uint32_t head, uint32_t *words)
{
    const small_float *model = float_of_dtype(p->dtype);
    uint32_t addends[MOST_DIM];
    load_words(p->dtype, bias->data, (size_t)head * p->head_dim, p->head_dim, addends);
    for (uint32_t i = 0; i < p->head_dim; i++)
        words[i] = word_of(model, number_of(model, words[i]) + number_of(model, addends[i]));
}

/* Turns the pairs of a row by the angles of its position: `cos_sin` has cos and sin of each pair. */
static void rotate(const kvg_problem *p, const float *cos_sin, uint32_t *words)
{
    const small_float *model = float_of_dtype(p->dtype);
    const bool adjacent = p->rope.pairing == KVG_PAIRING_ADJACENT;
    for (uint32_t i = 0; i < p->rope.dims / 2; i++) {
        uint32_t *first = &words[adjacent ? 2 * i : i], *second = first + (adjacent ? 1 : p->rope.dims / 2);
        const float x = (float)number_of(model, *first), y = (float)number_of(model, *second);
        *first = word_of(model, x * cos_sin[2 * i] - y * cos_sin[2 * i + 1]);
        *second = word_of(model, y * cos_sin[2 * i] + x * cos_sin[2 * i + 1]);
    }
}

static void append_row(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *pools, uint32_t token, row_place place)
{
    const size_t first = ((size_t)token * p->kv_heads + place.head) * p->head_dim;
    uint32_t words[MOST_DIM];
    load_words(p->dtype, in[KVG_APPEND_IN_K + place.side].data, first, p->head_dim, words);
    if (p->bias) add_bias(p, &in[KVG_APPEND_IN_K_BIAS + place.side], place.head, words);
    if (p->rope.dims && place.side == KVG_K) {
        const int32_t *positions = in[KVG_APPEND_IN_POSITIONS].data;
        rotate(p, (const float *)in[KVG_APPEND_IN_COS_SIN].data + (size_t)positions[token] * p->rope.dims, words);
    }
    write_row(p, &in[KVG_APPEND_IN_K_TENSOR_SCALE], pools, place, words);
}

static void append(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const int64_t *slots = in[KVG_APPEND_IN_SLOTS].data;
    const int sides = p->paging.shared_kv ? 1 : 2;
    for (uint32_t token = 0; token < p->tokens; token++) {
        for (uint32_t head = 0; slots[token] >= 0 && head < p->kv_heads; head++) {
            for (int side = KVG_K; side < sides; side++)
                append_row(p, in, &out[KVG_APPEND_OUT_K_DATA], token, (row_place){side, head, slots[token]});
        }
    }
}

/* --- flatten --- */

/* The rows of K and V that lie in one slot. With shared rows V is a part of K's. */
static void flatten_slot(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, row_place place, size_t row)
{
    const kvg_tensor *scales = &in[KVG_FLATTEN_IN_K_TENSOR_SCALE], *pools = &in[KVG_FLATTEN_IN_K_DATA];
    const uint32_t v_dim = v_dim_of(p);
    uint32_t words[MOST_DIM];
    read_row(p, scales, pools, place, words);
    store_words(p->dtype, words, p->head_dim, out[KVG_FLATTEN_OUT_K_FLAT].data, row * p->head_dim);
    place.side = KVG_V;
    if (!p->paging.shared_kv) read_row(p, scales, pools, place, words);
    store_words(p->dtype, words + p->paging.v_first, v_dim, out[KVG_FLATTEN_OUT_V_FLAT].data, row * v_dim);
}

static void flatten(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const int32_t *lengths = in[KVG_FLATTEN_IN_LENGTHS].data;
    for (uint32_t sequence = 0; sequence < p->paging.sequences; sequence++) {
        const int64_t length = lengths[sequence];
        for (uint32_t position = 0; position < p->tokens && position < length; position++) {
            const int64_t slot = slot_of_position(p, &in[KVG_FLATTEN_IN_BLOCK_TABLE], sequence, position, length);
            for (uint32_t head = 0; slot >= 0 && head < p->kv_heads; head++) {
                const size_t row = ((size_t)sequence * p->kv_heads + head) * p->tokens + position;
                flatten_slot(p, in, out, (row_place){KVG_K, head, slot}, row);
            }
        }
    }
}

/* --- decode --- */

/* A query under one of its heads. */
typedef struct question {
    uint32_t sequence, head;
    int64_t position, length; /* the query's position in a sequence of this length */
    double q[MOST_DIM];
} question;

/* Attention over the keys so far: the largest score, and sums of weights relative to it. */
typedef struct softmax {
    double largest, weights, sums[MOST_DIM];
} softmax;

/* Before the first key there is the head's sink, which has a weight and no value, or nothing. */
static softmax before_keys(const kvg_problem *p, const kvg_tensor *in, uint32_t head)
{
    const float sink = p->attention.sinks ? ((const float *)in[KVG_DECODE_IN_SINKS].data)[head] : -INFINITY;
    return (softmax){.largest = sink, .weights = sink > -INFINITY ? 1 : 0};
}

static void add_key(softmax *s, double score, const double *v, uint32_t v_dim)
{
    const double largest = fmax(s->largest, score), old = exp(s->largest - largest), weight = exp(score - largest);
    s->largest = largest;
    s->weights = s->weights * old + weight;
    for (uint32_t i = 0; i < v_dim; i++) s->sums[i] = s->sums[i] * old + v[i] * weight;
}

static double score_of(const kvg_problem *p, const double *q, const double *k)
{
    const kvg_attention *a = &p->attention;
    double product = 0;
    for (uint32_t i = 0; i < p->head_dim; i++) product += q[i] * k[i];
    const double score = product * (a->scale > 0 ? (double)a->scale : 1 / sqrt(p->head_dim));
    return a->softcap > 0 ? a->softcap * tanh(score / a->softcap) : score;
}

static void read_numbers(const kvg_problem *p, const kvg_tensor *in, row_place place, double *numbers)
{
    const row_type type = type_of_side(p, &in[KVG_DECODE_IN_K_TENSOR_SCALE], place.side);
    stored_row row;
    copy_row(p, &in[KVG_DECODE_IN_K_DATA], place, &row, false);
    numbers_of_row(&type, &row, numbers);
}

static void attend(const kvg_problem *p, const kvg_tensor *in, const question *asked, softmax *s)
{
    const kvg_attention *a = &p->attention;
    const uint32_t head = asked->head / (a->query_heads / p->kv_heads);
    const int64_t first = a->window ? asked->position - a->window + 1 : 0;
    for (int64_t key = first > 0 ? first : 0; key <= asked->position; key++) {
        const int64_t slot = slot_of_position(p, &in[KVG_DECODE_IN_BLOCK_TABLE], asked->sequence, key, asked->length);
        double k[MOST_DIM], v[MOST_DIM];
        if (slot < 0) continue;
        read_numbers(p, in, (row_place){KVG_K, head, slot}, k);
        if (!p->paging.shared_kv) read_numbers(p, in, (row_place){KVG_V, head, slot}, v);
        add_key(s, score_of(p, asked->q, k), p->paging.shared_kv ? k + p->paging.v_first : v, v_dim_of(p));
    }
}

/* Row `row` of q, out and lse: all heads of a query, then those of the next one. */
static void answer(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, question *asked, size_t row)
{
    const small_float *model = float_of_dtype(p->dtype);
    const uint32_t v_dim = v_dim_of(p);
    softmax s = before_keys(p, in, asked->head);
    uint32_t words[MOST_DIM];
    load_words(p->dtype, in[KVG_DECODE_IN_Q].data, row * p->head_dim, p->head_dim, words);
    for (uint32_t i = 0; i < p->head_dim; i++) asked->q[i] = number_of(model, words[i]);
    attend(p, in, asked, &s);
    for (uint32_t i = 0; i < v_dim; i++) words[i] = word_of(model, s.weights > 0 ? s.sums[i] / s.weights : 0);
    store_words(p->dtype, words, v_dim, out[KVG_DECODE_OUT_OUT].data, row * v_dim);
    ((float *)out[KVG_DECODE_OUT_LSE].data)[row] = (float)(s.largest + log(s.weights));
}

static void decode(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const int32_t *lengths = in[KVG_DECODE_IN_LENGTHS].data, *queries = in[KVG_DECODE_IN_QUERY_LENGTHS].data;
    size_t row = 0;
    for (uint32_t sequence = 0; sequence < p->paging.sequences; sequence++) {
        for (int32_t j = 0; j < queries[sequence]; j++) {
            question asked = {.sequence = sequence, .length = lengths[sequence]};
            asked.position = asked.length - queries[sequence] + j;
            for (; asked.head < p->attention.query_heads; asked.head++) answer(p, in, out, &asked, row++);
        }
    }
}

/* --- what the library exports --- */

static const char *error_text(void)
{
    return "plain: no such dialect, layout or profile here; ask for what libplain.json lists";
}

static void (*const ops[KVG_OP_END])(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out) = {
    [KVG_OP_QUANTISE] = quantise, [KVG_OP_DEQUANTISE] = dequantise, [KVG_OP_APPEND] = append,
    [KVG_OP_FLATTEN] = flatten,   [KVG_OP_DECODE] = decode,
};

static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    const bool stored = format_is_known(&p->storage[KVG_K]) && format_is_known(&p->storage[KVG_V]);
    if (!stored || !layout_is_known(p->layout) || p->profile != KVG_PROFILE_NONE) return KVG_ERR_UNIMPLEMENTED;
    ops[p->op](p, in, out);
    return KVG_OK;
}

static const kvg_impl impls[] = {
    {"plain_quantise_any", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run},
    {"plain_dequantise_any", KVG_OP_DEQUANTISE, KVG_FORMAT_NONE, 0, run},
    {"plain_append_any", KVG_OP_APPEND, KVG_FORMAT_NONE, 0, run},
    {"plain_flatten_any", KVG_OP_FLATTEN, KVG_FORMAT_NONE, 0, run},
    {"plain_decode_any", KVG_OP_DECODE, KVG_FORMAT_NONE, 0, run},
};

static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof backend,
    .problem_size = sizeof(kvg_problem),
    .name = "plain",
    .impls = impls,
    .impl_count = sizeof impls / sizeof impls[0],
    .error_text = error_text,
};

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    return &backend;
}
