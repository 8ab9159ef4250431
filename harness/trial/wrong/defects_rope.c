#include "harness/trial/wrong/defects_rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/rope_table.h"
#include "support/tensor_set.h"

/* --- which problems --- */

bool kvg_rope_turned(const kvg_problem *p, kvg_side side)
{
    return side == KVG_K && p->op == KVG_OP_APPEND && p->rope.dims > 0;
}

static bool is_kind(const kvg_problem *p, kvg_side side, kvg_rope_kind kind)
{
    return kvg_rope_turned(p, side) && p->rope.scaling.kind == kind;
}

bool kvg_rope_named(const kvg_problem *p, kvg_side side)
{
    return kvg_rope_turned(p, side) && !is_kind(p, side, KVG_ROPE_TABLE);
}

bool kvg_rope_scaled(const kvg_problem *p, kvg_side side)
{
    return kvg_rope_named(p, side) && !is_kind(p, side, KVG_ROPE_DEFAULT);
}

bool kvg_rope_llama3(const kvg_problem *p, kvg_side side) { return is_kind(p, side, KVG_ROPE_LLAMA3); }
bool kvg_rope_yarn(const kvg_problem *p, kvg_side side) { return is_kind(p, side, KVG_ROPE_YARN); }

bool kvg_rope_amplified(const kvg_problem *p, kvg_side side)
{
    kvg_rope_numbers n;
    return kvg_rope_named(p, side) && !kvg_reference_rope_numbers(&p->rope, &n) && n.attention_factor != 1;
}

static kvg_rope of_whole_row(const kvg_problem *p)
{
    kvg_rope whole = p->rope;
    whole.dims = p->head_dim;
    return whole;
}

bool kvg_rope_partial(const kvg_problem *p, kvg_side side)
{
    kvg_rope_numbers n;
    if (!kvg_rope_named(p, side) || p->rope.dims == p->head_dim) return false;
    const kvg_rope whole = of_whole_row(p);
    return kvg_reference_rope_numbers(&whole, &n) == KVG_OK;
}

bool kvg_rope_lossy(const kvg_problem *p, kvg_side side)
{
    return kvg_rope_turned(p, side) && kvg_format_get(p->storage[side].format)->element_bits < 16;
}

void kvg_rope_whole_row(kvg_problem *p, kvg_side side)
{
    (void)side;
    p->rope.dims = p->head_dim;
}

/* --- tables --- */

/* A failure leaves the right table, and the defect is then listed as unreached. */
static void put_table(const kvg_defect_site *s, const kvg_rope *rope)
{
    const kvg_status status = kvg_reference_rope_table(rope, s->tensor->data);
    (void)status;
}

static void put_scaling(const kvg_defect_site *s, kvg_rope_scaling scaling)
{
    kvg_rope rope = s->problem->rope;
    rope.scaling = scaling;
    put_table(s, &rope);
}

void kvg_rope_whole_table(const kvg_defect_site *s)
{
    kvg_problem wrong = *s->problem;
    wrong.rope = of_whole_row(&wrong);
    kvg_tensor table = kvg_problem_tensor(&wrong, KVG_ROLE_COS_SIN, KVG_K);
    table.data = calloc(table.bytes, 1);
    free(s->tensor->data);
    *s->tensor = table;
    put_table(s, &wrong.rope);
}

void kvg_rope_ignore_kind(const kvg_defect_site *s)
{
    put_scaling(s, (kvg_rope_scaling){.kind = KVG_ROPE_DEFAULT, .theta = s->problem->rope.scaling.theta,
                                      .entries = s->problem->rope.scaling.entries});
}

/* Frequencies as without a factor; the attention factor is that of the right one. */
void kvg_rope_ignore_factor(const kvg_defect_site *s)
{
    kvg_rope_scaling wrong = s->problem->rope.scaling;
    kvg_rope_numbers n;
    if (kvg_reference_rope_numbers(&s->problem->rope, &n)) return;
    wrong.factor = 1;
    wrong.mscale = wrong.mscale_all_dim = 0;
    wrong.attention_factor = n.attention_factor;
    put_scaling(s, wrong);
}

void kvg_rope_flip_truncate(const kvg_defect_site *s)
{
    kvg_rope_scaling wrong = s->problem->rope.scaling;
    wrong.truncate ^= true;
    put_scaling(s, wrong);
}

static kvg_rope_scaling not_amplified(const kvg_problem *p)
{
    kvg_rope_scaling wrong = p->rope.scaling;
    wrong.mscale = wrong.mscale_all_dim = 0;
    wrong.attention_factor = 1;
    return wrong;
}

void kvg_rope_not_amplified(const kvg_defect_site *s)
{
    put_scaling(s, not_amplified(s->problem));
}

void kvg_rope_cos_amplified(const kvg_defect_site *s)
{
    float *right = malloc(s->tensor->bytes), *table = s->tensor->data;
    if (!right) return;
    memcpy(right, table, s->tensor->bytes);
    put_scaling(s, not_amplified(s->problem));
    for (size_t i = 0; i < s->tensor->bytes / sizeof *table; i += 2) table[i] = right[i];
    free(right);
}

/* With low and high exchanged no frequency is mixed: all below the higher factor are divided. */
void kvg_rope_swap_factors(const kvg_defect_site *s)
{
    kvg_rope_scaling wrong = s->problem->rope.scaling;
    wrong.low_freq_factor = nextafterf(wrong.high_freq_factor, 0);
    put_scaling(s, wrong);
}

static float to_bf16(float x)
{
    uint16_t code;
    kvg_reference_store(KVG_DTYPE_BF16, &x, 1, &code);
    kvg_reference_load(KVG_DTYPE_BF16, &code, 1, &x);
    return x;
}

void kvg_rope_bf16_frequencies(const kvg_defect_site *s)
{
    const kvg_rope *rope = &s->problem->rope;
    float frequencies[KVG_MAX_HEAD_DIM / 2];
    kvg_status status = kvg_reference_rope_frequencies(rope, frequencies);
    for (uint32_t i = 0; !status && i < rope->dims / 2; i++) frequencies[i] = to_bf16(frequencies[i]);
    if (!status) status = kvg_reference_rope_rows(rope, frequencies, 0, rope->positions, s->tensor->data);
}

/* --- rows and positions --- */

/* Row p of the table holds row p rounded to 8 bits. */
void kvg_rope_bf16_positions(const kvg_defect_site *s)
{
    int32_t *positions = s->tensor->data;
    const float last = (float)(s->problem->rope.positions - 1);
    for (uint64_t i = 0; i < s->tensor->shape[0]; i++) {
        const float rounded = to_bf16((float)positions[i]);
        positions[i] = (int32_t)(rounded < last ? rounded : last);
    }
}

/* An array of 64-bit numbers read as one of 32 bits. */
void kvg_rope_half_stride(const kvg_defect_site *s)
{
    int32_t *positions = s->tensor->data;
    for (uint64_t i = s->tensor->shape[0]; i-- > 0;) positions[i] = i % 2 ? 0 : positions[i / 2];
}

static void copy_role(const kvg_tensor_set *from, kvg_role role, const kvg_tensor_set *to)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor *source = kvg_set_tensor(from, role, (kvg_side)side);
        if (source->bytes) memcpy(kvg_set_tensor(to, role, (kvg_side)side)->data, source->data, source->bytes);
    }
}

/* K through the codec and back, before it is turned and goes through the codec again. */
void kvg_rope_quantise_first(const kvg_defect_site *s)
{
    const kvg_problem *p = s->problem;
    const kvg_storage k = p->storage[KVG_K];
    const kvg_op_info *quantise = kvg_op_get(KVG_OP_QUANTISE), *dequantise = kvg_op_get(KVG_OP_DEQUANTISE);
    kvg_problem rows = {.op = KVG_OP_QUANTISE, .layout = KVG_LAYOUT_ROWS, .dtype = p->dtype, .storage = {k, k},
                        .tokens = p->tokens, .kv_heads = p->kv_heads, .head_dim = p->head_dim};
    kvg_tensor_set in = {0}, codes = {0}, read = {0}, back = {0};
    const kvg_role *append = kvg_op_get(KVG_OP_APPEND)->inputs;
    const kvg_tensor *scale = &s->in[kvg_roles_index(append, KVG_ROLE_TENSOR_SCALE, KVG_K)];
    kvg_status status = kvg_set_alloc(&rows, quantise->inputs, &in);
    if (!status) status = kvg_set_alloc(&rows, quantise->outputs, &codes);
    if (!status) status = kvg_set_alloc(&rows, dequantise->inputs, &read);
    if (!status) status = kvg_set_alloc(&rows, dequantise->outputs, &back);
    for (int side = KVG_K; !status && side <= KVG_V; side++) {
        memcpy(kvg_set_tensor(&in, KVG_ROLE_VALUES, (kvg_side)side)->data, s->tensor->data, s->tensor->bytes);
        kvg_tensor *to = kvg_set_tensor(&in, KVG_ROLE_TENSOR_SCALE, (kvg_side)side);
        if (to->bytes) memcpy(to->data, scale->data, scale->bytes);
    }
    if (!status) status = kvg_reference_run(&rows, in.tensors, codes.tensors);
    rows.op = KVG_OP_DEQUANTISE;
    if (!status) {
        copy_role(&codes, KVG_ROLE_CODES, &read);
        copy_role(&codes, KVG_ROLE_SCALES, &read);
        copy_role(&in, KVG_ROLE_TENSOR_SCALE, &read);
        status = kvg_reference_run(&rows, read.tensors, back.tensors);
    }
    if (!status) memcpy(s->tensor->data, back.tensors[KVG_K].data, s->tensor->bytes);
    kvg_set_free(&in);
    kvg_set_free(&codes);
    kvg_set_free(&read);
    kvg_set_free(&back);
}
