/* A plug-in for kvgold: ops over nvfp4 in pages of layout hnd, in scalar code. Put your kernels in the place of its
 * functions, one by one. Codes and numbers of rows come from kvgold's reference until your own code gives them. The
 * report says so in its line `reference`. */
#include <math.h>
#include <string.h>

#include "core/plugin.h"
#include "core/plugin_tensors.h"
#include "reference/reference.h"
#include "core/problem.h"

enum { MOST_DIM = 1024, MOST_ROW_BYTES = 4 * MOST_DIM };

static const char *why = "";

static const char *error_text(void)
{
    return why;
}

static kvg_status check(const kvg_problem *p)
{
    const bool paged = p->layout != KVG_LAYOUT_ROWS;
    const bool known = p->storage[KVG_K].format == KVG_FORMAT_NVFP4 && p->storage[KVG_V].format == KVG_FORMAT_NVFP4;
    if (known && p->head_dim <= MOST_DIM && (!paged || p->layout == KVG_LAYOUT_HND) && !p->paging.shared_kv &&
        !p->rope.dims && !p->bias && p->profile == KVG_PROFILE_NONE) {
        return KVG_OK;
    }
    why = "engine: only nvfp4 on layout hnd, without rope, bias, shared rows and profile";
    return KVG_ERR_UNIMPLEMENTED;
}

/* --- rows: your encoder and decoder --- */

/* A K row and a V row as numbers of the model type, as codes, and as scales. */
typedef struct rows {
    uint8_t values[2][MOST_ROW_BYTES], codes[2][MOST_ROW_BYTES], scales[2][MOST_ROW_BYTES];
} rows;

/* Row `row` of the `count` rows that K's tensor has, and V's after it, to or from a member of `rows`. */
static void copy_sides(const kvg_tensor *tensors, size_t count, size_t row, uint8_t sides[2][MOST_ROW_BYTES],
                       bool store)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        const size_t bytes = tensors[side].bytes / count;
        if (bytes == 0) continue; /* a format without scales */
        uint8_t *at = (uint8_t *)tensors[side].data + bytes * row;
        if (store) memcpy(at, sides[side], bytes);
        else memcpy(sides[side], at, bytes);
    }
}

/* The problem of one token under one head, without a cache. */
static kvg_problem row_problem(const kvg_problem *p, kvg_op op, kvg_dtype dtype)
{
    kvg_problem row = {.op = op, .layout = KVG_LAYOUT_ROWS, .dtype = dtype, .tokens = 1, .kv_heads = 1,
                       .head_dim = p->head_dim};
    memcpy(row.storage, p->storage, sizeof row.storage);
    return row;
}

static kvg_tensor tensor(const kvg_problem *p, kvg_role role, kvg_side side, void *data)
{
    kvg_tensor t = kvg_problem_tensor(p, role, side);
    t.data = data;
    return t;
}

/* r->codes and r->scales of r->values. `g` has the tensor scales of K and V. */
static kvg_status encode(const kvg_problem *p, const kvg_tensor *g, rows *r)
{
    const kvg_problem row = row_problem(p, KVG_OP_QUANTISE, p->dtype);
    kvg_tensor in[KVG_QUANTISE_IN_COUNT], out[KVG_QUANTISE_OUT_COUNT];
    for (int side = KVG_K; side <= KVG_V; side++) {
        in[KVG_QUANTISE_IN_K + side] = tensor(&row, KVG_ROLE_VALUES, (kvg_side)side, r->values[side]);
        in[KVG_QUANTISE_IN_K_TENSOR_SCALE + side] = g[side];
        out[KVG_QUANTISE_OUT_K_CODES + side] = tensor(&row, KVG_ROLE_CODES, (kvg_side)side, r->codes[side]);
        out[KVG_QUANTISE_OUT_K_SCALES + side] = tensor(&row, KVG_ROLE_SCALES, (kvg_side)side, r->scales[side]);
    }
    return kvg_reference_run(&row, in, out);
}

/* r->values of r->codes and r->scales, as numbers of `dtype`. */
static kvg_status decode(const kvg_problem *p, const kvg_tensor *g, kvg_dtype dtype, rows *r)
{
    const kvg_problem row = row_problem(p, KVG_OP_DEQUANTISE, dtype);
    kvg_tensor in[KVG_DEQUANTISE_IN_COUNT], out[KVG_DEQUANTISE_OUT_COUNT];
    for (int side = KVG_K; side <= KVG_V; side++) {
        in[KVG_DEQUANTISE_IN_K_CODES + side] = tensor(&row, KVG_ROLE_CODES, (kvg_side)side, r->codes[side]);
        in[KVG_DEQUANTISE_IN_K_SCALES + side] = tensor(&row, KVG_ROLE_SCALES, (kvg_side)side, r->scales[side]);
        in[KVG_DEQUANTISE_IN_K_TENSOR_SCALE + side] = g[side];
        out[KVG_DEQUANTISE_OUT_K + side] = tensor(&row, KVG_ROLE_VALUES, (kvg_side)side, r->values[side]);
    }
    return kvg_reference_run(&row, in, out);
}

/* --- pages: where the bytes of a row lie --- */

/* Pools of K and V for codes, then those for scales, in the order in which an op has its tensors. */
static uint8_t *pool_of(const kvg_tensor *pools, const kvg_row_map *map)
{
    return pools[(map->pool == KVG_ROLE_SCALE_POOL ? 2 : 0) + map->side].data;
}

static void copy_row(const kvg_problem *p, const kvg_tensor *pools, const kvg_row_map *map, int64_t slot, uint32_t head,
                     uint8_t *bytes, bool store)
{
    const uint32_t B = p->paging.block_tokens, block = (uint32_t)(slot / B), offset = (uint32_t)(slot % B);
    uint8_t *pool = pool_of(pools, map);
    if (store) kvg_rows_write(map, pool, p->paging.layer, block, head, offset, bytes);
    else kvg_rows_read(map, pool, p->paging.layer, block, head, offset, bytes);
}

static void copy_rows(const kvg_problem *p, const kvg_tensor *pools, int64_t slot, uint32_t head, rows *r, bool store)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        copy_row(p, pools, &p->map.codes[side], slot, head, r->codes[side], store);
        copy_row(p, pools, &p->map.scales[side], slot, head, r->scales[side], store);
    }
}

/* The slot of a position of a sequence; -1: it has none. */
static int64_t slot_of(const kvg_problem *p, const kvg_tensor *table, uint32_t sequence, int64_t position,
                       int64_t length)
{
    const int64_t B = p->paging.block_tokens;
    const bool ring = p->layout == KVG_LAYOUT_RING, whole = ring || p->layout == KVG_LAYOUT_CONTIGUOUS;
    const int32_t *row = (const int32_t *)table->data + sequence * table->shape[1];
    const int32_t block = row[whole ? 0 : position / B];
    if (block < 0 || (uint32_t)block >= p->paging.blocks || (ring && position < length - B)) return -1;
    return block * B + position % B;
}

/* --- quantise --- */

static kvg_status engine_quantise(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    static rows r;
    kvg_status s = check(p);
    (void)stream;
    for (size_t row = 0, all = (size_t)p->tokens * p->kv_heads; !s && row < all; row++) {
        copy_sides(&in[KVG_QUANTISE_IN_K], all, row, r.values, false);
        s = encode(p, &in[KVG_QUANTISE_IN_K_TENSOR_SCALE], &r);
        if (s) break;
        copy_sides(&out[KVG_QUANTISE_OUT_K_CODES], all, row, r.codes, true);
        copy_sides(&out[KVG_QUANTISE_OUT_K_SCALES], all, row, r.scales, true);
    }
    return s;
}

/* --- dequantise --- */

static kvg_status engine_dequantise(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    static rows r;
    kvg_status s = check(p);
    (void)stream;
    for (size_t row = 0, all = (size_t)p->tokens * p->kv_heads; !s && row < all; row++) {
        copy_sides(&in[KVG_DEQUANTISE_IN_K_CODES], all, row, r.codes, false);
        copy_sides(&in[KVG_DEQUANTISE_IN_K_SCALES], all, row, r.scales, false);
        s = decode(p, &in[KVG_DEQUANTISE_IN_K_TENSOR_SCALE], p->dtype, &r);
        if (!s) copy_sides(&out[KVG_DEQUANTISE_OUT_K], all, row, r.values, true);
    }
    return s;
}

/* --- append --- */

static kvg_status engine_append(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    static rows r;
    const int64_t *slots = in[KVG_APPEND_IN_SLOTS].data;
    kvg_status s = check(p);
    (void)stream;
    for (uint32_t token = 0; !s && token < p->tokens; token++) {
        for (uint32_t head = 0; !s && slots[token] >= 0 && head < p->kv_heads; head++) {
            const size_t all = (size_t)p->tokens * p->kv_heads, row = (size_t)token * p->kv_heads + head;
            copy_sides(&in[KVG_APPEND_IN_K], all, row, r.values, false);
            s = encode(p, &in[KVG_APPEND_IN_K_TENSOR_SCALE], &r);
            if (!s) copy_rows(p, &out[KVG_APPEND_OUT_K_DATA], slots[token], head, &r, true);
        }
    }
    return s;
}

/* --- flatten --- */

/* Rows of positions that have no slot stay as they are. */
static kvg_status engine_flatten(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    static rows r;
    const int32_t *lengths = in[KVG_FLATTEN_IN_LENGTHS].data;
    kvg_status s = check(p);
    (void)stream;
    for (uint32_t sequence = 0; !s && sequence < p->paging.sequences; sequence++) {
        for (int64_t position = 0; !s && position < lengths[sequence] && position < p->tokens; position++) {
            const int64_t slot = slot_of(p, &in[KVG_FLATTEN_IN_BLOCK_TABLE], sequence, position, lengths[sequence]);
            for (uint32_t head = 0; !s && slot >= 0 && head < p->kv_heads; head++) {
                copy_rows(p, &in[KVG_FLATTEN_IN_K_DATA], slot, head, &r, false);
                s = decode(p, &in[KVG_FLATTEN_IN_K_TENSOR_SCALE], p->dtype, &r);
                const size_t all = (size_t)p->paging.sequences * p->kv_heads * p->tokens;
                const size_t row = ((size_t)sequence * p->kv_heads + head) * p->tokens + (size_t)position;
                if (!s) copy_sides(&out[KVG_FLATTEN_OUT_K_FLAT], all, row, r.values, true);
            }
        }
    }
    return s;
}

/* --- decode --- */

/* A query under one head, while it goes through its keys: the largest score, and sums of weights relative to it. */
typedef struct running {
    double largest, weights, sums[MOST_DIM];
} running;

static void see(running *run, double score, const float *v, uint32_t dim)
{
    const double largest = score > run->largest ? score : run->largest;
    const double old = run->weights > 0 ? exp(run->largest - largest) : 0, weight = exp(score - largest);
    run->largest = largest;
    run->weights = run->weights * old + weight;
    for (uint32_t i = 0; i < dim; i++) run->sums[i] = run->sums[i] * old + (v ? weight * v[i] : 0);
}

static kvg_status attend(const kvg_problem *p, const kvg_tensor *in, uint32_t sequence, int64_t position, uint32_t head,
                         const float *q, running *run)
{
    static rows r;
    static float k[MOST_DIM], v[MOST_DIM];
    const kvg_attention *a = &p->attention;
    const bool affine = kvg_format_get(p->storage[KVG_K].format)->scales == KVG_SCALES_AFFINE;
    const kvg_dtype dtype = affine ? p->dtype : KVG_DTYPE_F32; /* affine formats have no numbers in f32 */
    const double scale = a->scale > 0 ? (double)a->scale : 1 / sqrt(p->head_dim);
    const int64_t length = ((const int32_t *)in[KVG_DECODE_IN_LENGTHS].data)[sequence];
    kvg_status s = KVG_OK;
    const int64_t first = a->window && position >= a->window ? position - a->window + 1 : 0;
    for (int64_t key = first; !s && key <= position; key++) {
        const int64_t slot = slot_of(p, &in[KVG_DECODE_IN_BLOCK_TABLE], sequence, key, length);
        if (slot < 0) continue;
        copy_rows(p, &in[KVG_DECODE_IN_K_DATA], slot, head / (a->query_heads / p->kv_heads), &r, false);
        s = decode(p, &in[KVG_DECODE_IN_K_TENSOR_SCALE], dtype, &r);
        kvg_reference_load(dtype, r.values[KVG_K], p->head_dim, k);
        kvg_reference_load(dtype, r.values[KVG_V], p->head_dim, v);
        double score = 0;
        for (uint32_t i = 0; i < p->head_dim; i++) score += (double)q[i] * k[i];
        score *= scale;
        if (a->softcap > 0) score = a->softcap * tanh(score / a->softcap);
        see(run, score, v, p->head_dim);
    }
    if (a->sinks) {
        const float sink = ((const float *)in[KVG_DECODE_IN_SINKS].data)[head];
        if (sink > -INFINITY) see(run, sink, NULL, p->head_dim);
    }
    return s;
}

static kvg_status engine_decode(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    const int32_t *lengths = in[KVG_DECODE_IN_LENGTHS].data, *queries = in[KVG_DECODE_IN_QUERY_LENGTHS].data;
    const kvg_tensor *q = &in[KVG_DECODE_IN_Q], *answer = &out[KVG_DECODE_OUT_OUT];
    float *lse = out[KVG_DECODE_OUT_LSE].data, numbers[MOST_DIM];
    const size_t bytes = q->bytes / p->attention.queries / p->attention.query_heads;
    size_t row = 0; /* of q, out and lse: all heads of a query, then those of the next one */
    kvg_status s = check(p);
    (void)stream;
    for (uint32_t sequence = 0; !s && sequence < p->paging.sequences; sequence++) {
        for (int32_t i = 0; i < queries[sequence]; i++) {
            for (uint32_t head = 0; !s && head < p->attention.query_heads; head++, row++) {
                static running run;
                run = (running){.largest = -INFINITY};
                kvg_reference_load(p->dtype, (uint8_t *)q->data + bytes * row, p->head_dim, numbers);
                s = attend(p, in, sequence, (int64_t)lengths[sequence] - queries[sequence] + i, head, numbers, &run);
                for (uint32_t d = 0; d < p->head_dim; d++)
                    numbers[d] = run.weights > 0 ? (float)(run.sums[d] / run.weights) : 0;
                kvg_reference_store(p->dtype, numbers, p->head_dim, (uint8_t *)answer->data + bytes * row);
                lse[row] = run.weights > 0 ? (float)(run.largest + log(run.weights)) : -INFINITY;
            }
        }
    }
    return s;
}

/* --- what the library exports --- */

static const kvg_impl impls[] = {
    {"engine_quantise", KVG_OP_QUANTISE, KVG_FORMAT_NVFP4, 0, engine_quantise},
    {"engine_dequantise", KVG_OP_DEQUANTISE, KVG_FORMAT_NVFP4, 0, engine_dequantise},
    {"engine_append", KVG_OP_APPEND, KVG_FORMAT_NVFP4, 0, engine_append},
    {"engine_flatten", KVG_OP_FLATTEN, KVG_FORMAT_NVFP4, 0, engine_flatten},
    {"engine_decode", KVG_OP_DECODE, KVG_FORMAT_NVFP4, 0, engine_decode},
};

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    static kvg_backend backend;
    backend.abi = KVG_BACKEND_ABI;
    backend.struct_size = sizeof backend;
    backend.problem_size = sizeof(kvg_problem);
    backend.name = "engine";
    backend.impls = impls;
    backend.impl_count = sizeof impls / sizeof impls[0];
    backend.error_text = error_text;
    return &backend;
}
