#include "model/generate/quality_hooks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/candidate/candidate.h"
#include "reference/reference.h"
#include "support/tensor_set.h"

kvg_status kvg_answer_reference(void *context, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    (void)context;
    return kvg_reference_run(problem, in, out);
}

kvg_status kvg_answer_candidate(void *context, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    return kvg_candidate_answer(context, problem, in, out);
}

static kvg_status pass_on(const kvg_answerer *next, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    return next->run(next->context, problem, in, out);
}

static int input_at(const kvg_problem *p, kvg_role role, kvg_side side)
{
    return kvg_roles_index(kvg_op_get(p->op)->inputs, role, side);
}

/* --- layers that are not quantised --- */

/* The tensors of `problem` in a list, with the data that `from` has for the same role but for pools, which are the
 * shadow's. */
static void take_tensors(const kvg_shadow *shadow, const kvg_problem *problem, const kvg_role *roles,
                         const kvg_tensor *from, kvg_tensor *to)
{
    for (size_t i = 0; i < kvg_roles_tensors(roles); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        to[i] = kvg_problem_tensor(problem, role, side);
        to[i].data = role == KVG_ROLE_DATA_POOL ? shadow->pools[side] : from[i].data;
    }
}

static kvg_status make_pools(kvg_shadow *shadow, const kvg_problem *problem)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        uint64_t bytes = 0;
        kvg_status s = kvg_problem_pool_bytes(problem, KVG_ROLE_DATA_POOL, (kvg_side)side, &bytes);
        if (s) return s;
        if (shadow->pools[side] && shadow->bytes[side] == bytes) continue;
        free(shadow->pools[side]);
        shadow->bytes[side] = bytes;
        shadow->pools[side] = calloc(1, bytes ? bytes : 1);
        if (!shadow->pools[side]) return kvg_fail(KVG_ERR_MEMORY, "no memory for a pool of %zu bytes", (size_t)bytes);
    }
    return KVG_OK;
}

kvg_status kvg_answer_shadow(void *context, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    kvg_shadow *shadow = context;
    if (shadow->quantised[problem->paging.layer]) return pass_on(&shadow->next, problem, in, out);
    const kvg_op_info *op = kvg_op_get(problem->op);
    const kvg_format format = kvg_format_of_dtype(shadow->dtype == KVG_DTYPE_F16 ? KVG_DTYPE_F16 : KVG_DTYPE_BF16);
    kvg_tensor in_here[KVG_MAX_TENSORS], out_here[KVG_MAX_TENSORS];
    kvg_problem p = *problem;
    p.storage[KVG_K] = p.storage[KVG_V] = (kvg_storage){format, "canonical"};
    kvg_status s = make_pools(shadow, &p);
    if (s) return s;
    take_tensors(shadow, &p, op->inputs, in, in_here);
    take_tensors(shadow, &p, op->outputs, out, out_here);
    return pass_on(&shadow->plain, &p, in_here, out_here);
}

void kvg_shadow_close(kvg_shadow *shadow)
{
    free(shadow->pools[KVG_K]);
    free(shadow->pools[KVG_V]);
}

/* --- rows of append --- */

/* Calls `take` for every head's row of one side, bias added; with_rope: K turned, too. */
static void each_row(const kvg_problem *p, const kvg_tensor *in, kvg_side side, bool with_rope,
                     void (*take)(void *context, size_t row, const float *x), void *context)
{
    const kvg_tensor *values = &in[input_at(p, KVG_ROLE_VALUES, side)];
    const kvg_tensor *biases = &in[input_at(p, KVG_ROLE_BIAS, side)];
    const int32_t *positions = in[input_at(p, KVG_ROLE_POSITIONS, KVG_K)].data;
    const float *table = in[input_at(p, KVG_ROLE_COS_SIN, KVG_K)].data;
    const size_t size = kvg_dtype_bytes(p->dtype), D = p->head_dim;
    for (size_t row = 0; row < (size_t)p->tokens * p->kv_heads; row++) {
        float x[KVG_MAX_HEAD_DIM], bias[KVG_MAX_HEAD_DIM];
        const bool turned = side == KVG_K && with_rope && p->rope.dims;
        const float *cos_sin = turned ? table + (size_t)positions[row / p->kv_heads] * p->rope.dims : NULL;
        kvg_reference_load(p->dtype, (const uint8_t *)values->data + row * D * size, D, x);
        if (p->bias) {
            kvg_reference_load(p->dtype, (const uint8_t *)biases->data + row % p->kv_heads * D * size, D, bias);
        }
        kvg_reference_prepare(p, side, p->bias ? bias : NULL, cos_sin, x);
        take(context, row, x);
    }
}

typedef struct largest {
    uint32_t count;
    float value;
} largest;

static void take_largest(void *context, size_t row, const float *x)
{
    largest *l = context;
    (void)row;
    for (uint32_t i = 0; i < l->count; i++) {
        if (!(fabsf(x[i]) <= l->value)) l->value = fabsf(x[i]); /* a NaN stays */
    }
}

static void note_largest(const kvg_problem *p, const kvg_tensor *in, kvg_side side, bool with_rope, float *value)
{
    largest l = {.count = p->head_dim, .value = *value};
    each_row(p, in, side, with_rope, take_largest, &l);
    *value = l.value;
}

kvg_status kvg_answer_amax(void *context, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    kvg_amax *amax = context;
    if (problem->op == KVG_OP_APPEND) {
        const uint32_t layer = problem->paging.layer;
        note_largest(problem, in, KVG_K, true, &amax->stored[layer][KVG_K]);
        note_largest(problem, in, KVG_V, false, &amax->stored[layer][KVG_V]);
        note_largest(problem, in, KVG_K, false, &amax->before_rope[layer]);
    }
    return pass_on(&amax->next, problem, in, out);
}

/* --- K quantised before RoPE --- */

typedef struct rows {
    const kvg_problem *problem;
    uint8_t *bytes;
} rows;

static void take_row(void *context, size_t row, const float *x)
{
    const rows *r = context;
    const size_t D = r->problem->head_dim, size = kvg_dtype_bytes(r->problem->dtype);
    kvg_reference_store(r->problem->dtype, x, D, r->bytes + row * D * size);
}

/* The bytes of a role, if the set has any of it: `bytes` of `from`, over and over. */
static void fill_role(const kvg_tensor_set *set, kvg_role role, const void *from, size_t bytes)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor *t = kvg_set_tensor(set, role, (kvg_side)side);
        for (size_t i = 0; t && i < t->bytes; i++) ((uint8_t *)t->data)[i] = ((const uint8_t *)from)[i % bytes];
    }
}

/* Rows [tokens, heads, dim] to codes and scales, and back. Both sides of the ops are K's. */
static kvg_status round_trip(const kvg_before_rope *b, const kvg_problem *append, void *values, size_t bytes)
{
    const float g = b->tensor_scale ? b->tensor_scale[append->paging.layer][KVG_K] : 1;
    kvg_problem p = {.op = KVG_OP_QUANTISE, .layout = KVG_LAYOUT_ROWS, .dtype = append->dtype,
                     .storage = {b->storage, b->storage}, .tokens = append->tokens, .kv_heads = append->kv_heads,
                     .head_dim = append->head_dim};
    kvg_tensor_set in = {0}, codes = {0}, again = {0}, decoded = {0};
    kvg_status s = kvg_problem_check(&p);
    if (!s) s = kvg_set_alloc(&p, kvg_op_get(KVG_OP_QUANTISE)->inputs, &in);
    if (!s) s = kvg_set_alloc(&p, kvg_op_get(KVG_OP_QUANTISE)->outputs, &codes);
    if (!s) s = kvg_set_alloc(&p, kvg_op_get(KVG_OP_DEQUANTISE)->inputs, &again);
    if (!s) s = kvg_set_alloc(&p, kvg_op_get(KVG_OP_DEQUANTISE)->outputs, &decoded);
    if (!s) {
        fill_role(&in, KVG_ROLE_VALUES, values, bytes);
        fill_role(&in, KVG_ROLE_TENSOR_SCALE, &g, sizeof g);
        s = kvg_reference_run(&p, in.tensors, codes.tensors);
    }
    if (!s) {
        p.op = KVG_OP_DEQUANTISE;
        for (size_t i = 0; i < again.count; i++) {
            kvg_role role;
            kvg_side side;
            kvg_roles_at(again.roles, i, &role, &side);
            const kvg_tensor *from = kvg_set_tensor(&codes, role, side);
            if (!from) from = kvg_set_tensor(&in, role, side);
            if (from->bytes) memcpy(again.tensors[i].data, from->data, from->bytes);
        }
        s = kvg_reference_run(&p, again.tensors, decoded.tensors);
    }
    if (!s) memcpy(values, decoded.tensors[KVG_K].data, bytes);
    kvg_set_free(&in);
    kvg_set_free(&codes);
    kvg_set_free(&again);
    kvg_set_free(&decoded);
    return s;
}

kvg_status kvg_answer_before_rope(void *context, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_before_rope *b = context;
    if (problem->op != KVG_OP_APPEND) return pass_on(&b->next, problem, in, out);
    kvg_tensor changed[KVG_MAX_TENSORS];
    memcpy(changed, in, kvg_roles_tensors(kvg_op_get(problem->op)->inputs) * sizeof *in);
    kvg_tensor *k = &changed[input_at(problem, KVG_ROLE_VALUES, KVG_K)];
    kvg_tensor *bias = &changed[input_at(problem, KVG_ROLE_BIAS, KVG_K)];
    const float none = -0.0f;
    kvg_status s = KVG_OK;
    k->data = malloc(k->bytes + 1);
    bias->data = malloc(bias->bytes + 1);
    if (!k->data || !bias->data) s = kvg_fail(KVG_ERR_MEMORY, "no memory for %u rows of K", problem->tokens);
    if (!s) {
        const size_t size = kvg_dtype_bytes(problem->dtype);
        each_row(problem, in, KVG_K, false, take_row, &(rows){problem, k->data});
        for (size_t i = 0; i < bias->bytes / size; i++) {
            kvg_reference_store(problem->dtype, &none, 1, (uint8_t *)bias->data + i * size); /* x + -0 is x */
        }
        s = round_trip(b, problem, k->data, k->bytes);
    }
    if (!s) s = pass_on(&b->next, problem, changed, out);
    free(k->data);
    free(bias->data);
    return s;
}
