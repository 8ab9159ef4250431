/* The ops quantise and dequantise over layout `rows`, for every format. */
#include "reference/formats/ref_codec.h"
#include "reference/ops/ref_ops.h"

static size_t row_count(const kvg_problem *p)
{
    return (size_t)p->tokens * p->kv_heads;
}

/* A pointer to row r of a tensor whose rows have `bytes` bytes; formats without scales have no such tensor. */
static uint8_t *at(const kvg_tensor *tensor, size_t r, size_t bytes)
{
    return tensor->bytes ? (uint8_t *)tensor->data + r * bytes : NULL;
}

/* The op's tensors of one side, each found by its role. */
typedef struct side_tensors {
    ref_side side;
    const kvg_tensor *values, *codes, *scales;
} side_tensors;

static kvg_status find_tensors(const kvg_problem *p, kvg_side side, const kvg_tensor *in, const kvg_tensor *out,
                               side_tensors *t)
{
    const kvg_op_info *op = kvg_op_get(p->op);
    const bool encode = p->op == KVG_OP_QUANTISE;
    const kvg_role *values = encode ? op->inputs : op->outputs, *codes = encode ? op->outputs : op->inputs;
    t->values = &(encode ? in : out)[kvg_roles_index(values, KVG_ROLE_VALUES, side)];
    t->codes = &(encode ? out : in)[kvg_roles_index(codes, KVG_ROLE_CODES, side)];
    t->scales = &(encode ? out : in)[kvg_roles_index(codes, KVG_ROLE_SCALES, side)];
    return ref_side_init(p, side, &in[kvg_roles_index(op->inputs, KVG_ROLE_TENSOR_SCALE, side)], &t->side);
}

static void quantise_rows(const kvg_problem *p, const side_tensors *t)
{
    const ref_side *side = &t->side;
#pragma omp parallel for schedule(static) if (row_count(p) > REF_FEW_ROWS)
    for (size_t r = 0; r < row_count(p); r++) {
        float x[KVG_MAX_HEAD_DIM];
        kvg_reference_load(p->dtype, at(t->values, r, side->value_bytes), p->head_dim, x);
        ref_side_quantise(side, x, at(t->codes, r, side->code_bytes), at(t->scales, r, side->scale_bytes));
    }
}

static void dequantise_rows(const kvg_problem *p, const side_tensors *t)
{
    const ref_side *side = &t->side;
#pragma omp parallel for schedule(static) if (row_count(p) > REF_FEW_ROWS)
    for (size_t r = 0; r < row_count(p); r++) {
        float y[KVG_MAX_HEAD_DIM];
        ref_side_dequantise(side, at(t->codes, r, side->code_bytes), at(t->scales, r, side->scale_bytes), y);
        kvg_reference_store(p->dtype, y, p->head_dim, at(t->values, r, side->value_bytes));
    }
}

static kvg_status run_rows(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out,
                           void (*rows)(const kvg_problem *p, const side_tensors *t))
{
    side_tensors t[2];
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_status s = find_tensors(p, (kvg_side)side, in, out, &t[side]);
        if (s) return s;
    }
    for (int side = KVG_K; side <= KVG_V; side++) rows(p, &t[side]);
    return KVG_OK;
}

kvg_status ref_quantise(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    return run_rows(problem, in, out, quantise_rows);
}

kvg_status ref_dequantise(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    return run_rows(problem, in, out, dequantise_rows);
}
