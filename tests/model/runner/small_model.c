#include "tests/model/runner/small_model.h"

#include <stddef.h>
#include <stdlib.h>

#include "core/rng.h"
#include "reference/rope_table.h"

enum { SEED = 0x736D };

void small_model_make(small_model_kind kind, small_model *out)
{
    kvg_model_config *c = &out->config;
    *out = (small_model){.tensor_scale = {{0.5f, 0.3f}, {0.7f, 0.45f}}};
    *c = (kvg_model_config){.vocab = SMALL_VOCAB, .hidden = 20, .intermediate = 12, .layers = 2, .query_heads = 6,
                            .kv_heads = 2, .head_dim = SMALL_D, .positions = SMALL_TOKENS, .rms_eps = 1e-5f};
    c->rope = (kvg_rope){.dims = SMALL_D, .positions = SMALL_TOKENS, .pairing = KVG_PAIRING_HALVES,
                         .scaling = {.kind = KVG_ROPE_DEFAULT, .theta = 100}};
    if (kind == SMALL_LLAMA) c->tied = true;
    if (kind == SMALL_LLAMA_BIASES) c->attention_bias = c->mlp_bias = true;
    if (kind == SMALL_QWEN3) {
        c->family = KVG_MODEL_QWEN3;
        c->qk_norm = c->attention_bias = c->tied = c->sliding[1] = true;
        c->window = SMALL_WINDOW;
    }
    if (kind == SMALL_GPT_OSS) {
        c->family = KVG_MODEL_GPT_OSS;
        c->attention_bias = c->sinks = c->sliding[0] = true;
        c->window = SMALL_WINDOW;
        c->experts = 5, c->top_k = 3, c->swiglu_limit = 0.5f;
    }
    if (kvg_reference_rope_table(&c->rope, out->cos_sin)) abort();
}

static size_t length_of(const kvg_model_config *c, kvg_weight weight)
{
    switch (weight) {
    case KVG_WEIGHT_O:
    case KVG_WEIGHT_Q_BIAS: return (size_t)c->query_heads * c->head_dim;
    case KVG_WEIGHT_K_BIAS:
    case KVG_WEIGHT_V_BIAS: return (size_t)c->kv_heads * c->head_dim;
    case KVG_WEIGHT_Q_NORM:
    case KVG_WEIGHT_K_NORM: return c->head_dim;
    case KVG_WEIGHT_SINKS: return c->query_heads;
    case KVG_WEIGHT_DOWN:
    case KVG_WEIGHT_GATE_BIAS:
    case KVG_WEIGHT_UP_BIAS:
    case KVG_WEIGHT_EXPERT_DOWN: return c->intermediate;
    case KVG_WEIGHT_ROUTER_BIAS: return c->experts;
    case KVG_WEIGHT_EXPERT_GATE_UP_BIAS: return 2 * (size_t)c->intermediate;
    default: return c->hidden;
    }
}

/* About as large as makes outputs as large as inputs. */
static size_t row_of(const void *weights, kvg_weight weight, uint32_t layer, size_t row, float *out)
{
    const small_model *m = weights;
    const size_t length = length_of(&m->config, weight);
    const float spread = weight == KVG_WEIGHT_EMBED ? 1 : 0.375f;
    for (size_t i = 0; i < length; i++) {
        const uint64_t stream = (uint64_t)layer * KVG_WEIGHT_COUNT + weight;
        out[i] = (float)kvg_rng_normal(SEED, stream, row * length + i) * spread;
    }
    return length;
}

static kvg_weight_view view_of(const void *weights, kvg_weight weight, uint32_t layer)
{
    (void)weights, (void)weight, (void)layer;
    return (kvg_weight_view){0};
}

kvg_model_source small_model_source(const small_model *model)
{
    return (kvg_model_source){model, view_of, row_of};
}
