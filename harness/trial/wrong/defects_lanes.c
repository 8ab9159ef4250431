#include "harness/trial/wrong/defects_lanes.h"
#include "support/tensor_set.h"

#include <stdlib.h>
#include <string.h>

static uint32_t lanes_of(uint32_t dims)
{
    uint32_t lanes = 1;
    while (lanes < dims) lanes *= 2;
    return lanes;
}

bool kvg_lanes_apply(const kvg_problem *p, kvg_side side)
{
    const kvg_format_info *f = kvg_format_get(p->storage[side].format);
    return p->op == KVG_OP_QUANTISE && f->scales == KVG_SCALES_AFFINE && f->row_param_bytes &&
           lanes_of(p->head_dim) > p->head_dim && lanes_of(p->head_dim) <= KVG_MAX_HEAD_DIM;
}

/* Both sides of the wide problem are this one. */
void kvg_lanes_join(const kvg_defect_site *s)
{
    kvg_problem wide = *s->problem;
    wide.head_dim = lanes_of(wide.head_dim);
    wide.storage[1 - s->side] = wide.storage[s->side];
    const size_t rows = (size_t)wide.tokens * wide.kv_heads, element = kvg_dtype_bytes(wide.dtype);
    const size_t from = s->problem->head_dim * element, to = wide.head_dim * element;
    const kvg_op_info *op = kvg_op_get(wide.op);
    kvg_tensor in[KVG_MAX_TENSORS], out[KVG_MAX_TENSORS];
    const size_t outputs = kvg_roles_tensors(op->outputs);
    const uint8_t *narrow = s->in[kvg_roles_index(op->inputs, KVG_ROLE_VALUES, s->side)].data;
    uint8_t *values = calloc(rows, to);
    bool got = values;
    for (size_t r = 0; got && r < rows; r++) memcpy(values + r * to, narrow + r * from, from);
    /* affine formats have no tensor scale */
    kvg_gather(&wide, op->inputs, &(kvg_source){.role = KVG_ROLE_VALUES, .data = {values, values}}, 1, in);
    kvg_gather(&wide, op->outputs, NULL, 0, out);
    for (size_t i = 0; i < outputs; i++) {
        out[i].data = malloc(out[i].bytes);
        got = got && out[i].data;
    }
    /* where memory lacks the caller sees an unchanged answer and lists the defect as unreached */
    if (got && kvg_reference_run(&wide, in, out) == KVG_OK) {
        const kvg_format format = s->problem->storage[s->side].format;
        const bool codes = s->tensor->shape[2] == kvg_format_code_bytes(format, s->problem->head_dim);
        const kvg_tensor *t = &out[kvg_roles_index(op->outputs, codes ? KVG_ROLE_CODES : KVG_ROLE_SCALES, s->side)];
        const size_t width = (size_t)s->tensor->shape[2];
        for (size_t r = 0; r < rows; r++)
            memcpy((uint8_t *)s->tensor->data + r * width, (const uint8_t *)t->data + r * (size_t)t->shape[2], width);
    }
    for (size_t i = 0; i < outputs; i++) free(out[i].data);
    free(values);
}
