/* The weights of a model, widened once and laid out for products. */
#include <stdlib.h>
#include <string.h>

#include "model/runner/ref_model_run.h"
#include "reference/reference.h"

enum { LANES = REF_LINEAR_LANES };

struct ref_memory {
    struct ref_memory *next;
    _Alignas(64) float floats[]; /* vectors of weights lie in one line of the cache */
};

/* One opening: where it reads, and what it may not go on from. */
typedef struct opening {
    const kvg_model_setup *setup;
    ref_weights *weights;
    bool failed; /* no memory */
} opening;

/* Floats that live as long as the weights, 0 at first; NULL, now and for good, once there is no memory. */
static void *take(opening *o, size_t bytes)
{
    const size_t size = (sizeof(struct ref_memory) + bytes + 63) / 64 * 64;
    struct ref_memory *m = o->failed ? NULL : aligned_alloc(64, size);
    o->failed = !m;
    if (!m) return NULL;
    memset(m, 0, size);
    m->next = o->weights->memory;
    o->weights->memory = m;
    return m->floats;
}

static size_t read_row(const opening *o, kvg_weight weight, uint32_t layer, size_t row, float *out)
{
    const kvg_model_source *s = &o->setup->source;
    return s->row(s->weights, weight, layer, row, out);
}

/* Row `row` of a tensor, `length` numbers. */
static const float *vector(opening *o, kvg_weight weight, uint32_t layer, size_t row, size_t length)
{
    float *x = take(o, length * sizeof *x);
    if (x) read_row(o, weight, layer, row, x);
    return x;
}

/* Rows first to first + outputs - 1 of a tensor as a linear layer; `bias` may be NULL. */
static void linear(opening *o, kvg_weight weight, uint32_t layer, size_t first, uint32_t outputs, uint32_t inputs,
                   const float *bias, ref_linear *out)
{
    const size_t tiles = (outputs + LANES - 1) / LANES;
    float *to = take(o, tiles * inputs * LANES * sizeof *to), *row = malloc(inputs * sizeof *row);
    *out = (ref_linear){outputs, inputs, to, bias};
    o->failed |= !row;
    for (uint32_t i = 0; !o->failed && i < outputs; i++) {
        float *column = to + (size_t)(i / LANES) * inputs * LANES + i % LANES;
        read_row(o, weight, layer, first + i, row);
        for (uint32_t k = 0; k < inputs; k++) column[(size_t)k * LANES] = row[k];
    }
    free(row);
}

/* A bias as T has it: append takes it so. */
static const void *rounded(opening *o, const float *bias, size_t length)
{
    void *codes = take(o, length * kvg_dtype_bytes(o->setup->dtype));
    if (codes) kvg_reference_store(o->setup->dtype, bias, length, codes);
    return codes;
}

static const float *widened(opening *o, const void *codes, size_t length)
{
    float *x = take(o, length * sizeof *x);
    if (x) kvg_reference_load(o->setup->dtype, codes, length, x);
    return x;
}

/* What adds nothing to any number. */
static const void *negative_zeros(opening *o, size_t length)
{
    float *x = take(o, length * sizeof *x);
    for (size_t i = 0; x && i < length; i++) x[i] = -0.0f;
    return rounded(o, x, length);
}

static void attention_biases(opening *o, uint32_t layer, ref_layer *l)
{
    const kvg_model_config *c = o->setup->config;
    const size_t queries = (size_t)c->query_heads * c->head_dim, keys = (size_t)c->kv_heads * c->head_dim;
    l->q_bias = widened(o, rounded(o, vector(o, KVG_WEIGHT_Q_BIAS, layer, 0, queries), queries), queries);
    l->append_bias[KVG_K] = rounded(o, vector(o, KVG_WEIGHT_K_BIAS, layer, 0, keys), keys);
    l->append_bias[KVG_V] = rounded(o, vector(o, KVG_WEIGHT_V_BIAS, layer, 0, keys), keys);
    if (!c->qk_norm) return;
    l->k_bias = widened(o, l->append_bias[KVG_K], keys);
    l->append_bias[KVG_K] = negative_zeros(o, keys);
}

static void attention(opening *o, uint32_t layer, ref_layer *l)
{
    const kvg_model_config *c = o->setup->config;
    const uint32_t queries = c->query_heads * c->head_dim, keys = c->kv_heads * c->head_dim;
    const bool bias = c->attention_bias;
    linear(o, KVG_WEIGHT_Q, layer, 0, queries, c->hidden, NULL, &l->q);
    linear(o, KVG_WEIGHT_K, layer, 0, keys, c->hidden, NULL, &l->k);
    linear(o, KVG_WEIGHT_V, layer, 0, keys, c->hidden, NULL, &l->v);
    linear(o, KVG_WEIGHT_O, layer, 0, c->hidden, queries,
           bias ? vector(o, KVG_WEIGHT_O_BIAS, layer, 0, c->hidden) : NULL, &l->o);
    if (bias) attention_biases(o, layer, l);
    if (c->qk_norm) {
        l->q_norm = vector(o, KVG_WEIGHT_Q_NORM, layer, 0, c->head_dim);
        l->k_norm = vector(o, KVG_WEIGHT_K_NORM, layer, 0, c->head_dim);
    }
    if (c->sinks) l->sinks = vector(o, KVG_WEIGHT_SINKS, layer, 0, c->query_heads);
}

static void dense(opening *o, uint32_t layer, ref_layer *l)
{
    const kvg_model_config *c = o->setup->config;
    const uint32_t inner = c->intermediate;
    const bool bias = c->mlp_bias;
    linear(o, KVG_WEIGHT_GATE, layer, 0, inner, c->hidden,
           bias ? vector(o, KVG_WEIGHT_GATE_BIAS, layer, 0, inner) : NULL, &l->gate);
    linear(o, KVG_WEIGHT_UP, layer, 0, inner, c->hidden,
           bias ? vector(o, KVG_WEIGHT_UP_BIAS, layer, 0, inner) : NULL, &l->up);
    linear(o, KVG_WEIGHT_DOWN, layer, 0, c->hidden, inner,
           bias ? vector(o, KVG_WEIGHT_DOWN_BIAS, layer, 0, c->hidden) : NULL, &l->down);
}

static void experts(opening *o, uint32_t layer, ref_layer *l)
{
    const kvg_model_config *c = o->setup->config;
    const uint32_t inner = 2 * c->intermediate;
    linear(o, KVG_WEIGHT_ROUTER, layer, 0, c->experts, c->hidden,
           vector(o, KVG_WEIGHT_ROUTER_BIAS, layer, 0, c->experts), &l->router);
    l->gate_up = take(o, c->experts * sizeof *l->gate_up);
    l->expert_down = take(o, c->experts * sizeof *l->expert_down);
    for (uint32_t e = 0; !o->failed && e < c->experts; e++) {
        linear(o, KVG_WEIGHT_EXPERT_GATE_UP, layer, (size_t)e * inner, inner, c->hidden,
               vector(o, KVG_WEIGHT_EXPERT_GATE_UP_BIAS, layer, e, inner), &l->gate_up[e]);
        linear(o, KVG_WEIGHT_EXPERT_DOWN, layer, (size_t)e * c->hidden, c->hidden, c->intermediate,
               vector(o, KVG_WEIGHT_EXPERT_DOWN_BIAS, layer, e, c->hidden), &l->expert_down[e]);
    }
}

kvg_status ref_weights_open(const kvg_model_setup *setup, ref_weights *out)
{
    const kvg_model_config *c = setup->config;
    *out = (ref_weights){0};
    opening o = {setup, out, false};
    out->layers = take(&o, c->layers * sizeof *out->layers);
    for (uint32_t i = 0; !o.failed && i < c->layers; i++) {
        ref_layer *l = &out->layers[i];
        l->input_norm = vector(&o, KVG_WEIGHT_INPUT_NORM, i, 0, c->hidden);
        l->mlp_norm = vector(&o, KVG_WEIGHT_MLP_NORM, i, 0, c->hidden);
        attention(&o, i, l);
        if (c->experts) experts(&o, i, l);
        else dense(&o, i, l);
    }
    out->final_norm = vector(&o, KVG_WEIGHT_FINAL_NORM, 0, 0, c->hidden);
    linear(&o, c->tied ? KVG_WEIGHT_EMBED : KVG_WEIGHT_OUTPUT, 0, 0, c->vocab, c->hidden, NULL, &out->output);
    if (!o.failed) return KVG_OK;
    return kvg_fail(KVG_ERR_MEMORY, "no memory for the weights of %u layers in f32", c->layers);
}

void ref_weights_close(ref_weights *w)
{
    while (w->memory) {
        struct ref_memory *next = w->memory->next;
        free(w->memory);
        w->memory = next;
    }
}
