#include "tests/model/runner/slow_runner.h"

#include <math.h> /* fmaf */
#include <stdlib.h>
#include <string.h>

#include "model/model_math.h"
#include "reference/reference.h"

enum { MOST = 128 /* numbers of a row of anything */, POOL = 8192 /* bytes of one layer's pool */, MOST_LAYERS = 2 };

typedef struct sequence {
    const kvg_model_setup *setup;
    const kvg_model_config *c;
    slow_fault fault;
    int32_t position;
    uint8_t pools[MOST_LAYERS][4][POOL]; /* K's and V's data, K's and V's scales */
} sequence;

static bool is(const sequence *s, slow_fault fault)
{
    return s->fault == fault;
}

static void weight_row(const sequence *s, kvg_weight weight, uint32_t layer, size_t row, float *out)
{
    s->setup->source.row(s->setup->source.weights, weight, layer, row, out);
}

/* Outputs first to first + count - 1 of a linear layer, its bias row `bias_row` of `bias` (KVG_WEIGHT_COUNT: none). */
static void linear(const sequence *s, kvg_weight weight, uint32_t layer, size_t first, uint32_t count, size_t inputs,
                   kvg_weight bias, size_t bias_row, const float *x, float *y)
{
    float w[MOST], b[MOST];
    if (bias != KVG_WEIGHT_COUNT) weight_row(s, bias, layer, bias_row, b);
    for (uint32_t o = 0; o < count; o++) {
        weight_row(s, weight, layer, first + o, w);
        y[o] = kvg_reference_dot(w, x, inputs);
        if (bias != KVG_WEIGHT_COUNT) y[o] += b[o];
    }
}

static void round_row(const sequence *s, float *x, size_t count)
{
    uint16_t codes[MOST];
    kvg_reference_store(s->setup->dtype, x, count, codes);
    kvg_reference_load(s->setup->dtype, codes, count, x);
}

static void norm(const sequence *s, kvg_weight weight, uint32_t layer, const float *x, float *y)
{
    float w[MOST];
    weight_row(s, weight, layer, 0, w);
    kvg_reference_rms_norm(x, w, s->c->hidden, s->c->rms_eps, y);
}

/* --- q and k --- */

static void norm_heads(const sequence *s, kvg_weight weight, uint32_t layer, uint32_t heads, float *x)
{
    float w[MOST];
    const uint32_t D = s->c->head_dim;
    weight_row(s, weight, layer, 0, w);
    for (uint32_t h = 0; h < heads; h++) kvg_reference_rms_norm(x + h * D, w, D, s->c->rms_eps, x + h * D);
}

/* Halves, as layouts.md section 7 has them; every step is rounded to T. */
static void turn(const sequence *s, uint32_t heads, float *x)
{
    const uint32_t D = s->c->head_dim;
    const float *table = s->setup->cos_sin + (size_t)(s->position + is(s, SLOW_POSITION_LATE)) * D;
    for (uint32_t h = 0; h < heads; h++, x += D) {
        for (uint32_t i = 0; i < D / 2; i++) {
            const float a = x[i], b = x[i + D / 2], cos = table[2 * i], sin = table[2 * i + 1];
            const float ac = a * cos, bs = b * sin, bc = b * cos, as = a * sin;
            x[i] = ac - bs;
            x[i + D / 2] = bc + as;
        }
        round_row(s, x, D);
    }
}

static void add_bias(const sequence *s, kvg_weight weight, uint32_t layer, uint32_t count, bool rounded, float *x)
{
    float b[MOST];
    if (!s->c->attention_bias) return;
    weight_row(s, weight, layer, 0, b);
    if (rounded) round_row(s, b, count);
    for (uint32_t i = 0; i < count; i++) x[i] += b[i]; /* sums of two numbers of T are rounded to T once: f32 is wide */
    round_row(s, x, count);
}

static void make_q(const sequence *s, uint32_t layer, const float *x, float *q)
{
    const uint32_t heads = s->c->query_heads, count = heads * s->c->head_dim;
    const bool bias = !is(s, SLOW_NO_Q_BIAS), late = is(s, SLOW_NORM_BEFORE_BIAS);
    linear(s, KVG_WEIGHT_Q, layer, 0, count, s->c->hidden, KVG_WEIGHT_COUNT, 0, x, q);
    if (!is(s, SLOW_Q_UNROUNDED)) round_row(s, q, count);
    if (bias && !late) add_bias(s, KVG_WEIGHT_Q_BIAS, layer, count, !is(s, SLOW_BIAS_UNROUNDED), q);
    if (s->c->qk_norm && !is(s, SLOW_NORM_AFTER_ROPE)) {
        norm_heads(s, KVG_WEIGHT_Q_NORM, layer, heads, q);
        if (!is(s, SLOW_NORM_UNROUNDED)) round_row(s, q, count);
    }
    if (bias && late) add_bias(s, KVG_WEIGHT_Q_BIAS, layer, count, true, q);
    turn(s, heads, q);
    if (s->c->qk_norm && is(s, SLOW_NORM_AFTER_ROPE)) norm_heads(s, KVG_WEIGHT_Q_NORM, layer, heads, q);
}

/* What append takes, and the bias that it adds. */
static void make_k(const sequence *s, uint32_t layer, const float *x, float *k, float *bias)
{
    const uint32_t count = s->c->kv_heads * s->c->head_dim;
    linear(s, KVG_WEIGHT_K, layer, 0, count, s->c->hidden, KVG_WEIGHT_COUNT, 0, x, k);
    round_row(s, k, count);
    if (s->c->attention_bias) weight_row(s, KVG_WEIGHT_K_BIAS, layer, 0, bias);
    if (!s->c->qk_norm) return;
    add_bias(s, KVG_WEIGHT_K_BIAS, layer, count, true, k);
    norm_heads(s, KVG_WEIGHT_K_NORM, layer, s->c->kv_heads, k);
    for (uint32_t i = 0; i < count; i++) bias[i] = -0.0f;
}

/* --- the cache --- */

static kvg_problem problem_of(const sequence *s, kvg_op op, uint32_t layer)
{
    const bool slides = s->c->sliding[layer] != is(s, SLOW_WINDOWS_MOVED);
    kvg_problem p = {.op = op,
                     .layout = KVG_LAYOUT_NHD,
                     .dtype = s->setup->dtype,
                     .storage = {s->setup->storage[KVG_K], s->setup->storage[KVG_V]},
                     .tokens = 1,
                     .kv_heads = s->c->kv_heads,
                     .head_dim = s->c->head_dim,
                     .paging = {.layers = 1, .blocks = 1, .block_tokens = s->setup->max_tokens}};
    if (op == KVG_OP_APPEND) {
        p.rope = s->c->rope;
        p.rope.positions = s->setup->max_tokens;
        p.bias = s->c->attention_bias;
        return p;
    }
    p.tokens = s->setup->max_tokens;
    p.paging.sequences = 1;
    p.profile = s->setup->profile;
    p.attention = (kvg_attention){.query_heads = s->c->query_heads, .queries = 1,
                                  .window = slides ? s->c->window - is(s, SLOW_WINDOW_SHORT) : 0,
                                  .sinks = s->c->sinks};
    return p;
}

/* Ops by the places of their tensors in core/ops.def. */
static kvg_status run(const kvg_problem *p, void *const *inputs, void *const *outputs)
{
    const kvg_op_info *op = kvg_op_get(p->op);
    const kvg_role *lists[2] = {op->inputs, op->outputs};
    void *const *data[2] = {inputs, outputs};
    kvg_tensor tensors[2][KVG_MAX_TENSORS];
    for (int list = 0; list < 2; list++) {
        for (size_t i = 0; i < kvg_roles_tensors(lists[list]); i++) {
            kvg_role role;
            kvg_side side;
            kvg_roles_at(lists[list], i, &role, &side);
            tensors[list][i] = kvg_problem_tensor(p, role, side);
            tensors[list][i].data = data[list][i];
            if ((role == KVG_ROLE_DATA_POOL || role == KVG_ROLE_SCALE_POOL) && tensors[list][i].bytes > POOL) abort();
        }
    }
    return kvg_reference_run(p, tensors[0], tensors[1]);
}

static void scales_of(const sequence *s, uint32_t layer, float g[2])
{
    const uint32_t from = is(s, SLOW_SCALES_OF_FIRST) ? 0 : layer;
    for (int side = KVG_K; side <= KVG_V; side++)
        g[side] = s->setup->tensor_scale ? s->setup->tensor_scale[from][is(s, SLOW_SCALES_EXCHANGED) ^ side] : 1;
}

static kvg_status append(sequence *s, uint32_t layer, const float *x)
{
    const kvg_dtype T = s->setup->dtype;
    const uint32_t count = s->c->kv_heads * s->c->head_dim;
    float k[MOST], v[MOST], biases[2][MOST] = {{0}}, g[2];
    uint16_t rows[2][MOST], bias_codes[2][MOST];
    int32_t position = s->position;
    int64_t slot = s->position;
    make_k(s, layer, x, k, biases[KVG_K]);
    linear(s, KVG_WEIGHT_V, layer, 0, count, s->c->hidden, KVG_WEIGHT_COUNT, 0, x, v);
    if (s->c->attention_bias) weight_row(s, KVG_WEIGHT_V_BIAS, layer, 0, biases[KVG_V]);
    scales_of(s, layer, g);
    kvg_reference_store(T, k, count, rows[KVG_K]);
    kvg_reference_store(T, v, count, rows[KVG_V]);
    for (int side = KVG_K; side <= KVG_V; side++) kvg_reference_store(T, biases[side], count, bias_codes[side]);
    const kvg_problem p = problem_of(s, KVG_OP_APPEND, layer);
    uint8_t(*pools)[POOL] = s->pools[layer];
    void *const inputs[] = {rows[0], rows[1], &g[0], &g[1], bias_codes[0], bias_codes[1], &position,
                            (void *)(uintptr_t)s->setup->cos_sin, &slot};
    void *const outputs[] = {pools[0], pools[1], pools[2], pools[3]};
    return run(&p, inputs, outputs);
}

/* Where query head h stands among those of an op that reads KV head h / G. */
static uint32_t head_place(const sequence *s, uint32_t h)
{
    const uint32_t kv = s->c->kv_heads, group = s->c->query_heads / kv;
    return is(s, SLOW_HEADS_MODULO) ? h % kv * group + h / kv : h;
}

static kvg_status decode(sequence *s, uint32_t layer, const float *q, float *out)
{
    const kvg_dtype T = s->setup->dtype;
    const uint32_t D = s->c->head_dim;
    float sinks[MOST], g[2], lse[MOST];
    uint16_t q_codes[MOST], out_codes[MOST];
    int32_t block = 0, length = s->position + 1, queries = 1;
    for (uint32_t h = 0; h < s->c->query_heads; h++)
        kvg_reference_store(T, q + h * D, D, q_codes + head_place(s, h) * D);
    if (s->c->sinks) weight_row(s, KVG_WEIGHT_SINKS, layer, 0, sinks);
    for (uint32_t h = 0; is(s, SLOW_NO_SINKS) && h < s->c->query_heads; h++) sinks[h] = -INFINITY;
    scales_of(s, layer, g);
    const kvg_problem p = problem_of(s, KVG_OP_DECODE, layer);
    uint8_t(*pools)[POOL] = s->pools[layer];
    void *const inputs[] = {q_codes, pools[0], pools[1], pools[2], pools[3], &g[0], &g[1], &block, &length, &queries,
                            sinks};
    void *const outputs[] = {out_codes, lse};
    kvg_status status = run(&p, inputs, outputs);
    for (uint32_t h = 0; h < s->c->query_heads; h++)
        kvg_reference_load(T, out_codes + head_place(s, h) * D, D, out + h * D);
    return status;
}

static kvg_status attend(sequence *s, uint32_t layer, const float *x, float *y)
{
    const uint32_t queries = s->c->query_heads * s->c->head_dim;
    const bool bias = s->c->attention_bias && !is(s, SLOW_NO_O_BIAS);
    float q[MOST], out[MOST];
    make_q(s, layer, x, q);
    kvg_status status = append(s, layer, x);
    if (!status) status = decode(s, layer, q, out);
    if (!status) {
        linear(s, KVG_WEIGHT_O, layer, 0, s->c->hidden, queries, bias ? KVG_WEIGHT_O_BIAS : KVG_WEIGHT_COUNT, 0, out,
               y);
    }
    return status;
}

/* --- the MLP --- */

static void dense(const sequence *s, uint32_t layer, const float *x, float *y)
{
    const bool bias = s->c->mlp_bias;
    const uint32_t inner = s->c->intermediate;
    float gate[MOST], up[MOST];
    linear(s, KVG_WEIGHT_GATE, layer, 0, inner, s->c->hidden, bias ? KVG_WEIGHT_GATE_BIAS : KVG_WEIGHT_COUNT, 0, x,
           gate);
    linear(s, KVG_WEIGHT_UP, layer, 0, inner, s->c->hidden, bias ? KVG_WEIGHT_UP_BIAS : KVG_WEIGHT_COUNT, 0, x, up);
    kvg_reference_swiglu(gate, up, inner, s->c->swiglu_limit, gate);
    linear(s, KVG_WEIGHT_DOWN, layer, 0, s->c->hidden, inner, bias ? KVG_WEIGHT_DOWN_BIAS : KVG_WEIGHT_COUNT, 0, gate,
           y);
}

static void expert(const sequence *s, uint32_t layer, uint32_t e, const float *x, float *y)
{
    const uint32_t inner = s->c->intermediate, hidden = s->c->hidden;
    float both[MOST], gate[MOST], up[MOST];
    linear(s, KVG_WEIGHT_EXPERT_GATE_UP, layer, (size_t)e * 2 * inner, 2 * inner, hidden,
           KVG_WEIGHT_EXPERT_GATE_UP_BIAS, e, x, both);
    for (uint32_t i = 0; i < inner; i++) {
        gate[i] = both[is(s, SLOW_GATE_UP_HALVES) ? i : 2 * i];
        up[i] = both[is(s, SLOW_GATE_UP_HALVES) ? inner + i : 2 * i + 1];
    }
    kvg_reference_swiglu(gate, up, inner, s->c->swiglu_limit, gate);
    linear(s, KVG_WEIGHT_EXPERT_DOWN, layer, (size_t)e * hidden, hidden, inner, KVG_WEIGHT_EXPERT_DOWN_BIAS, e, gate,
           y);
}

static void experts(const sequence *s, uint32_t layer, const float *x, float *y)
{
    float logits[MOST], shares[MOST], answer[MOST];
    uint32_t chosen[MOST];
    linear(s, KVG_WEIGHT_ROUTER, layer, 0, s->c->experts, s->c->hidden, KVG_WEIGHT_ROUTER_BIAS, 0, x, logits);
    kvg_reference_route(logits, s->c->experts, s->c->top_k, chosen, shares);
    for (uint32_t i = 0; i < s->c->hidden; i++) y[i] = 0;
    for (uint32_t n = 0; n < (is(s, SLOW_EXPERT_INDEX_ORDER) ? s->c->experts : s->c->top_k); n++) {
        for (uint32_t j = 0; j < s->c->top_k; j++) {
            if (is(s, SLOW_EXPERT_INDEX_ORDER) ? chosen[j] != n : j != n) continue;
            expert(s, layer, chosen[j], x, answer);
            for (uint32_t i = 0; i < s->c->hidden; i++) {
                const float product = shares[j] * answer[i];
                y[i] = is(s, SLOW_EXPERT_UNFUSED) ? y[i] + product : fmaf(shares[j], answer[i], y[i]);
            }
        }
    }
}

/* --- a row --- */

static kvg_status run_row(sequence *s, int32_t token, float *logits)
{
    const uint32_t hidden = s->c->hidden;
    const bool tied = s->c->tied || is(s, SLOW_OUTPUT_TIED);
    float x[MOST], normed[MOST], y[MOST];
    weight_row(s, KVG_WEIGHT_EMBED, 0, (size_t)token, x);
    for (uint32_t layer = 0; layer < s->c->layers; layer++) {
        norm(s, KVG_WEIGHT_INPUT_NORM, layer, x, normed);
        kvg_status status = attend(s, layer, normed, y);
        if (status) return status;
        for (uint32_t i = 0; i < hidden; i++) x[i] += y[i];
        norm(s, KVG_WEIGHT_MLP_NORM, layer, x, normed);
        (s->c->experts ? experts : dense)(s, layer, is(s, SLOW_MLP_OF_UNNORMED) ? x : normed, y);
        for (uint32_t i = 0; i < hidden; i++) x[i] = (is(s, SLOW_RESIDUAL_NORMED) ? normed[i] : x[i]) + y[i];
    }
    norm(s, KVG_WEIGHT_FINAL_NORM, 0, x, normed);
    linear(s, tied ? KVG_WEIGHT_EMBED : KVG_WEIGHT_OUTPUT, 0, 0, s->c->vocab, hidden, KVG_WEIGHT_COUNT, 0,
           is(s, SLOW_NO_FINAL_NORM) ? x : normed, logits);
    return KVG_OK;
}

kvg_status slow_run(const kvg_model_setup *setup, const int32_t *tokens, uint32_t count, slow_fault fault,
                    float *logits)
{
    sequence *s = calloc(1, sizeof *s);
    if (!s || setup->config->layers > MOST_LAYERS) abort();
    *s = (sequence){.setup = setup, .c = setup->config, .fault = fault};
    kvg_status status = KVG_OK;
    for (uint32_t i = 0; !status && i < count; i++) {
        s->position = (int32_t)i;
        status = run_row(s, tokens[i], logits + (size_t)i * setup->config->vocab);
    }
    free(s);
    return status;
}
