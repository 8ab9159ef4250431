#include "tests/gpu/random_model.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/bits.h"
#include "core/rng.h"
#include "model/checkpoint/model_weights.h"
#include "reference/reference.h"

enum { MXFP4_BLOCK = 32, SEED = 0x6B76 };

/* --- numbers --- */

static bool is_codes(kvg_weight w)
{
    return w == KVG_WEIGHT_EXPERT_GATE_UP_CODES || w == KVG_WEIGHT_EXPERT_DOWN_CODES;
}

static bool is_scales(kvg_weight w)
{
    return w == KVG_WEIGHT_EXPERT_GATE_UP_SCALES || w == KVG_WEIGHT_EXPERT_DOWN_SCALES;
}

static bool is_router(kvg_weight w)
{
    return w == KVG_WEIGHT_ROUTER || w == KVG_WEIGHT_ROUTER_BIAS;
}

static bool is_norm(kvg_weight w)
{
    return w == KVG_WEIGHT_INPUT_NORM || w == KVG_WEIGHT_Q_NORM || w == KVG_WEIGHT_K_NORM ||
           w == KVG_WEIGHT_MLP_NORM || w == KVG_WEIGHT_FINAL_NORM;
}

/* Outputs of about the size of the inputs: weights of 1 / sqrt(inputs). */
static float spread_of(kvg_weight w, const kvg_weight_view *v)
{
    const bool experts = w == KVG_WEIGHT_EXPERT_GATE_UP || w == KVG_WEIGHT_EXPERT_DOWN;
    const uint64_t inputs = experts ? v->shape[1] : v->rank > 1 && !is_scales(w) ? v->shape[v->rank - 1] : 4;
    float spread = 1;
    while (spread * spread * (float)inputs > 1) spread /= 2;
    return w == KVG_WEIGHT_EMBED ? 1 : spread;
}

static kvg_weight_view make_tensor(const kvg_model_config *c, kvg_weight w, uint32_t layer)
{
    static const kvg_dtype types[] = {KVG_DTYPE_BF16, KVG_DTYPE_F16, KVG_DTYPE_F32};
    const uint64_t stream = (uint64_t)layer * KVG_WEIGHT_COUNT + w;
    const bool bytes = is_codes(w) || is_scales(w);
    kvg_weight_view v = {.dtype = bytes ? KVG_DTYPE_U8 : types[kvg_rng_below(SEED, stream, 0, 3)]};
    uint64_t count = 1;
    (void)kvg_model_weight_shape(c, w, &v.rank, v.shape);
    for (uint32_t d = 0; d < v.rank; d++) count *= v.shape[d];
    uint8_t *data = malloc(count * kvg_dtype_bytes(v.dtype));
    if (!data) {
        fprintf(stderr, "FAILED: no memory for a tensor\n");
        exit(1);
    }
    const float spread = spread_of(w, &v);
    for (uint64_t i = 0; i < count; i++) {
        if (bytes) {
            const uint64_t random = kvg_rng_u64(SEED, stream, i + 1);
            data[i] = (uint8_t)(is_scales(w) ? 121 + random % 3 : random);
            continue;
        }
        const uint64_t at = is_router(w) ? i % (count / 2) : i; /* each expert has a twin, of the same logits */
        const float x = (float)kvg_rng_normal(SEED, stream, at + 1) * spread;
        const float number = is_norm(w) ? 1 + x / 4 : x;
        kvg_reference_store(v.dtype, &number, 1, data + i * kvg_dtype_bytes(v.dtype));
    }
    v.data = data;
    return v;
}

/* --- models --- */

static kvg_model_config config_of(uint32_t index)
{
    kvg_model_config c = {.positions = 4096, .rms_eps = 1e-5f};
    switch (index) {
    case 0: /* biases everywhere, and rows that are no multiple of 8 numbers */
        c.family = KVG_MODEL_LLAMA;
        c.vocab = 77, c.hidden = 100, c.intermediate = 150, c.layers = 2;
        c.query_heads = 6, c.kv_heads = 2, c.head_dim = 64;
        c.attention_bias = c.mlp_bias = true;
        break;
    case 1: /* QK-norm with biases, tied, windows everywhere */
        c.family = KVG_MODEL_QWEN3;
        c.vocab = 130, c.hidden = 96, c.intermediate = 200, c.layers = 3;
        c.query_heads = 4, c.kv_heads = 1, c.head_dim = 128;
        c.attention_bias = c.qk_norm = c.tied = true;
        c.window = 40, c.sliding[0] = c.sliding[1] = c.sliding[2] = true;
        break;
    case 2: /* more experts than lanes, inputs of several stages */
        c.family = KVG_MODEL_GPT_OSS;
        c.vocab = 64, c.hidden = 1044, c.intermediate = 44, c.layers = 2;
        c.query_heads = 9, c.kv_heads = 1, c.head_dim = 64;
        c.attention_bias = c.sinks = true;
        c.window = 33, c.sliding[0] = true;
        c.experts = 40, c.top_k = 5, c.swiglu_limit = 0.5f;
        break;
    default: /* mxfp4 */
        c.family = KVG_MODEL_GPT_OSS;
        c.vocab = 200, c.hidden = 608, c.intermediate = 96, c.layers = 2;
        c.query_heads = 8, c.kv_heads = 2, c.head_dim = 64;
        c.attention_bias = c.sinks = c.mxfp4 = true;
        c.window = 128, c.sliding[0] = true;
        c.experts = 6, c.top_k = 3, c.swiglu_limit = 7;
    }
    c.rope = (kvg_rope){.dims = c.head_dim, .pairing = KVG_PAIRING_HALVES,
                        .scaling = {.kind = KVG_ROPE_DEFAULT, .theta = 10000}};
    return c;
}

void random_model_make(uint32_t index, random_model *out)
{
    static const char *const names[RANDOM_MODELS] = {"llama", "qwen3", "gpt_oss", "gpt_oss mxfp4"};
    *out = (random_model){names[index], config_of(index), NULL};
    const uint32_t layers = out->config.layers;
    out->views = calloc((size_t)layers * KVG_WEIGHT_COUNT, sizeof *out->views);
    if (!out->views) {
        fprintf(stderr, "FAILED: no memory for a model\n");
        exit(1);
    }
    for (uint32_t i = 0; i < layers * KVG_WEIGHT_COUNT; i++) {
        const kvg_weight w = (kvg_weight)(i % KVG_WEIGHT_COUNT);
        const uint32_t layer = i / KVG_WEIGHT_COUNT;
        uint64_t shape[4];
        uint32_t rank;
        if (layer < kvg_model_weight_shape(&out->config, w, &rank, shape)) {
            out->views[i] = make_tensor(&out->config, w, layer);
        }
    }
}

void random_model_free(random_model *m)
{
    for (uint32_t i = 0; i < m->config.layers * KVG_WEIGHT_COUNT; i++) free((void *)(uintptr_t)m->views[i].data);
    free(m->views);
}

/* --- the source --- */

static kvg_weight_view view_of(const void *weights, kvg_weight w, uint32_t layer)
{
    const random_model *m = weights;
    return m->views[(size_t)layer * KVG_WEIGHT_COUNT + w];
}

/* Row `row` of mxfp4: docs/spec/generate.md section 3. */
static size_t blocks_row(const kvg_weight_view *codes, const kvg_weight_view *scales, size_t row, float *out)
{
    static const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const size_t blocks = (size_t)scales->shape[2];
    const uint8_t *code = (const uint8_t *)codes->data + row * blocks * (MXFP4_BLOCK / 2);
    const uint8_t *scale = (const uint8_t *)scales->data + row * blocks;
    for (size_t i = 0; i < blocks * MXFP4_BLOCK; i++) {
        const int nibble = code[i / 2] >> i % 2 * 4 & 15;
        const float power = kvg_f32_of_bits((uint32_t)scale[i / MXFP4_BLOCK] << 23);
        out[i] = (nibble & 8 ? -values[nibble & 7] : values[nibble & 7]) * power;
    }
    return blocks * MXFP4_BLOCK;
}

static size_t row_of(const void *weights, kvg_weight w, uint32_t layer, size_t row, float *out)
{
    const bool gate_up = w == KVG_WEIGHT_EXPERT_GATE_UP, experts = gate_up || w == KVG_WEIGHT_EXPERT_DOWN;
    const kvg_weight_view v = view_of(weights, w, layer);
    if (experts && !v.data) {
        const kvg_weight_view codes =
            view_of(weights, gate_up ? KVG_WEIGHT_EXPERT_GATE_UP_CODES : KVG_WEIGHT_EXPERT_DOWN_CODES, layer);
        const kvg_weight_view scales =
            view_of(weights, gate_up ? KVG_WEIGHT_EXPERT_GATE_UP_SCALES : KVG_WEIGHT_EXPERT_DOWN_SCALES, layer);
        return blocks_row(&codes, &scales, row, out);
    }
    const size_t size = kvg_dtype_bytes(v.dtype), length = (size_t)v.shape[v.rank - 1];
    const uint8_t *data = v.data;
    if (!experts) {
        kvg_reference_load(v.dtype, data + row * length * size, length, out);
        return length;
    }
    const size_t inputs = (size_t)v.shape[1]; /* an output is a column */
    for (size_t i = 0; i < inputs; i++) {
        const size_t at = (row / length * inputs + i) * length + row % length;
        kvg_reference_load(v.dtype, data + at * size, 1, &out[i]);
    }
    return inputs;
}

kvg_model_source random_model_source(const random_model *m)
{
    return (kvg_model_source){m, view_of, row_of};
}
