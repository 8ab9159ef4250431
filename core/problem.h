/* A problem: everything that defines one computation. A config line, a CLI argument, a golden pack entry and a
 * kernel launch all mean the same struct. Its tensors follow from it alone (kvg_problem_tensor). */
#ifndef KVG_CORE_PROBLEM_H
#define KVG_CORE_PROBLEM_H

#include "core/format.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvg_op {
#define OP(ENUM, id, name, inputs, outputs, summary) KVG_OP_##ENUM = id,
#include "core/ops.def"
#undef OP
    KVG_OP_END
} kvg_op;

typedef enum kvg_role {
    KVG_ROLE_NONE = 0,
    KVG_ROLE_VALUES,       /* [T, Hkv, D] in the model type */
    KVG_ROLE_CODES,        /* [T, Hkv, code bytes] u8 */
    KVG_ROLE_SCALES,       /* [T, Hkv, scale bytes] u8: block scales in block order, then row parameters */
    KVG_ROLE_TENSOR_SCALE  /* [1] f32: the decode scale g (value = code * scale * g) */
} kvg_role;

typedef enum kvg_side { KVG_K = 0, KVG_V = 1 } kvg_side;

/* How one side (K or V) is stored. */
typedef struct kvg_storage {
    kvg_format format;
    const char *dialect; /* name in the format's dialect table; "canonical" unless an engine is named */
} kvg_storage;

typedef enum kvg_layout {
    KVG_LAYOUT_ROWS = 1 /* plain rows: token, head, bytes; no paging */
} kvg_layout;

typedef struct kvg_problem {
    kvg_op op;
    kvg_layout layout;
    kvg_dtype dtype;         /* model type T of K and V rows: f16, bf16 or f32 */
    kvg_storage storage[2];  /* indexed by kvg_side */
    uint32_t tokens;         /* T */
    uint32_t kv_heads;       /* Hkv */
    uint32_t head_dim;       /* D */
} kvg_problem;

/* A dense row-major tensor. `bytes` is the size of `data`; a tensor that a format does not have (the scales of f16)
 * has 0 bytes and data may be NULL. The caller owns data. */
typedef struct kvg_tensor {
    kvg_dtype dtype;
    uint32_t rank;
    uint64_t shape[4];
    void *data;
    size_t bytes;
} kvg_tensor;

enum { KVG_MAX_ROLES = 4, KVG_MAX_TENSORS = 2 * KVG_MAX_ROLES };

typedef struct kvg_op_info {
    kvg_op op;
    const char *name;
    kvg_role inputs[KVG_MAX_ROLES];  /* ended by KVG_ROLE_NONE unless full */
    kvg_role outputs[KVG_MAX_ROLES];
    const char *summary;
} kvg_op_info;

const kvg_op_info *kvg_op_table(size_t *count);
const kvg_op_info *kvg_op_get(kvg_op op); /* NULL for a value outside the table */
kvg_status kvg_op_find(const char *name, kvg_op *out) KVG_CHECKED;

/* Number of tensors in a role list: twice the number of roles (K and V). */
size_t kvg_roles_tensors(const kvg_role roles[KVG_MAX_ROLES]);

/* Index of the tensor of (role, side) in a role list; -1 if the list lacks the role. */
int kvg_roles_index(const kvg_role roles[KVG_MAX_ROLES], kvg_role role, kvg_side side);

/* "k", "v", "k_codes", "v_codes", "k_scales", "v_scales", "k_tensor_scale", "v_tensor_scale". */
const char *kvg_tensor_name(kvg_role role, kvg_side side);

/* Checks sizes, types and formats (not the dialect's name: its table belongs to an implementation).
 * KVG_ERR_INVALID names the field. */
kvg_status kvg_problem_check(const kvg_problem *problem) KVG_CHECKED;

/* The dtype, shape and byte count of the tensor of (role, side); data is set to NULL. The problem must be checked. */
kvg_tensor kvg_problem_tensor(const kvg_problem *problem, kvg_role role, kvg_side side);

const char *kvg_layout_name(kvg_layout layout);
kvg_status kvg_layout_find(const char *name, kvg_layout *out) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
