#include "core/problem.h"

#include <string.h>

#define ROLES(...) {ROLE_LIST(__VA_ARGS__, NONE, NONE, NONE, NONE)}
#define ROLE_LIST(a, b, c, d, ...) KVG_ROLE_##a, KVG_ROLE_##b, KVG_ROLE_##c, KVG_ROLE_##d
static const kvg_op_info ops[] = {
#define OP(ENUM, id, name, inputs, outputs, summary) {KVG_OP_##ENUM, name, inputs, outputs, summary},
#include "core/ops.def"
#undef OP
};
enum { OP_COUNT = sizeof ops / sizeof ops[0] };

const kvg_op_info *kvg_op_table(size_t *count)
{
    *count = OP_COUNT;
    return ops;
}

const kvg_op_info *kvg_op_get(kvg_op op)
{
    for (size_t i = 0; i < OP_COUNT; i++) {
        if (ops[i].op == op) return &ops[i];
    }
    return NULL;
}

kvg_status kvg_op_find(const char *name, kvg_op *out)
{
    for (size_t i = 0; i < OP_COUNT; i++) {
        if (strcmp(ops[i].name, name) == 0) {
            *out = ops[i].op;
            return KVG_OK;
        }
    }
    return kvg_fail(KVG_ERR_NOT_FOUND, "no op '%s'; known: quantise, dequantise", name);
}

size_t kvg_roles_tensors(const kvg_role roles[KVG_MAX_ROLES])
{
    size_t n = 0;
    while (n < KVG_MAX_ROLES && roles[n] != KVG_ROLE_NONE) n++;
    return 2 * n;
}

int kvg_roles_index(const kvg_role roles[KVG_MAX_ROLES], kvg_role role, kvg_side side)
{
    for (int i = 0; i < KVG_MAX_ROLES; i++) {
        if (roles[i] == role) return 2 * i + (int)side;
    }
    return -1;
}

const char *kvg_tensor_name(kvg_role role, kvg_side side)
{
    static const char *const names[][2] = {
        {"?", "?"},
        {"k", "v"},
        {"k_codes", "v_codes"},
        {"k_scales", "v_scales"},
        {"k_tensor_scale", "v_tensor_scale"},
    };
    return names[role][side];
}

kvg_status kvg_problem_check(const kvg_problem *p)
{
    if (!kvg_op_get(p->op)) return kvg_fail(KVG_ERR_INVALID, "op id %d is not in core/ops.def", (int)p->op);
    if (p->layout != KVG_LAYOUT_ROWS) {
        return kvg_fail(KVG_ERR_INVALID, "layout id %d is unknown; known: rows", (int)p->layout);
    }
    if (p->dtype != KVG_DTYPE_F16 && p->dtype != KVG_DTYPE_BF16 && p->dtype != KVG_DTYPE_F32) {
        return kvg_fail(KVG_ERR_INVALID, "model type %s cannot hold K and V: use f16, bf16 or f32",
                        kvg_dtype_name(p->dtype));
    }
    if (p->tokens < 1 || p->kv_heads < 1) {
        return kvg_fail(KVG_ERR_INVALID, "tokens %u and kv_heads %u must be at least 1", p->tokens, p->kv_heads);
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_status s = kvg_format_check_dim(p->storage[side].format, p->head_dim);
        if (s) return s;
        const kvg_format_info *f = kvg_format_get(p->storage[side].format);
        /* Affine parameters are two values of the model type: row_param_bytes says how wide that type is. */
        if (f->row_param_bytes == 4 && p->dtype == KVG_DTYPE_F32) {
            return kvg_fail(KVG_ERR_INVALID, "format %s keeps its parameters in a 16-bit model type: use f16 or bf16",
                            f->name);
        }
    }
    return KVG_OK;
}

kvg_tensor kvg_problem_tensor(const kvg_problem *p, kvg_role role, kvg_side side)
{
    kvg_format format = p->storage[side].format;
    kvg_tensor t = {.dtype = KVG_DTYPE_U8, .rank = 3, .shape = {p->tokens, p->kv_heads, 0, 0}};
    switch (role) {
    case KVG_ROLE_VALUES:
        t.dtype = p->dtype;
        t.shape[2] = p->head_dim;
        break;
    case KVG_ROLE_CODES:
        t.shape[2] = kvg_format_code_bytes(format, p->head_dim);
        break;
    case KVG_ROLE_SCALES:
        t.shape[2] = kvg_format_scale_bytes(format, p->head_dim);
        break;
    case KVG_ROLE_TENSOR_SCALE:
        t.dtype = KVG_DTYPE_F32;
        t.rank = 1;
        t.shape[0] = kvg_format_get(format)->tensor_scale ? 1 : 0;
        t.shape[1] = 0;
        break;
    case KVG_ROLE_NONE:
        t.rank = 0;
        break;
    }
    t.bytes = kvg_dtype_bytes(t.dtype);
    for (uint32_t i = 0; i < t.rank; i++) t.bytes *= (size_t)t.shape[i];
    return t;
}

const char *kvg_layout_name(kvg_layout layout)
{
    return layout == KVG_LAYOUT_ROWS ? "rows" : "?";
}

kvg_status kvg_layout_find(const char *name, kvg_layout *out)
{
    if (strcmp(name, "rows") != 0) return kvg_fail(KVG_ERR_NOT_FOUND, "no layout '%s'; known: rows", name);
    *out = KVG_LAYOUT_ROWS;
    return KVG_OK;
}
