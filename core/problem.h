/* A problem: everything that defines one computation. A config line, a CLI argument, an entry of a
 * golden pack and a kernel launch all become this struct. Its tensors follow from it alone
 * (kvg_problem_tensor). */
#ifndef KVG_CORE_PROBLEM_H
#define KVG_CORE_PROBLEM_H

#include "core/attention.h"
#include "core/format.h"
#include "core/layout.h"
#include "core/layout_map.h"
#include "core/profile.h"
#include "core/rope.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvg_op {
#define OP(ENUM, id, name, paged, inputs, outputs, summary) KVG_OP_##ENUM = id,
#include "core/ops.def"
#undef OP
    KVG_OP_END
} kvg_op;

/* How one side (K or V) is stored. */
typedef struct kvg_storage {
    kvg_format format;
    const char *dialect; /* a name of the format's dialect table; "canonical" unless an engine is named */
} kvg_storage;

/* What defines one computation. */
typedef struct kvg_problem {
    kvg_op op;
    kvg_layout layout;
    kvg_dtype dtype;         /* model type T of K and V rows: f16, bf16 or f32 */
    kvg_storage storage[2];  /* indexed by kvg_side */
    uint32_t tokens;         /* rows of K and V per head; flatten, expand, decode: tokens of the longest sequence;
                              * merge: rows of queries */
    uint32_t kv_heads;       /* Hkv; merge: Hq */
    uint32_t head_dim;       /* D */
    kvg_paging paging;       /* ops on paged layouts; else zero */
    kvg_rope rope;           /* op append */
    bool bias;               /* op append */
    kvg_attention attention; /* op decode; else zero */
    kvg_profile profile;     /* ops decode and mma: the arithmetic whose bits are wanted; NONE (decode): the exact
                              * answer */
    const kvg_layout_text *text; /* layout TEXT; else NULL */
    kvg_layout_map map;          /* where rows lie, if laid_out is not 0: a plug-in is given it */
    uint64_t pool_bytes[2][2];   /* with it: by kvg_side, of the data pool and the scale pool */
    uint64_t laid_out;           /* of kvg_problem_lay_out: what its map and pool_bytes were made from */
} kvg_problem;

/* A dense row-major tensor. `bytes` is the size of `data`, which the caller owns. A tensor that the
 * problem does not have (the scales of f16) has 0 bytes, and its data may be NULL. */
typedef struct kvg_tensor {
    kvg_dtype dtype;
    uint32_t rank;
    uint64_t shape[4];
    void *data;
    size_t bytes;
} kvg_tensor;

enum { KVG_MAX_ROLES = 8, KVG_MAX_TENSORS = 2 * KVG_MAX_ROLES };

typedef struct kvg_op_info {
    kvg_op op;
    const char *name;
    bool paged; /* works on pools and updates its outputs in place: bytes that it does not address stay as they were */
    kvg_role inputs[KVG_MAX_ROLES]; /* ended by KVG_ROLE_NONE unless full */
    kvg_role outputs[KVG_MAX_ROLES];
    const char *summary;
} kvg_op_info;

const kvg_op_info *kvg_op_table(size_t *count);
const kvg_op_info *kvg_op_get(kvg_op op); /* NULL for a value outside the table */
kvg_status kvg_op_find(const char *name, kvg_op *out) KVG_CHECKED;

/* Of op decode with such lengths, one for each sequence. */
kvg_call_shape kvg_problem_call_shape(const kvg_problem *problem, const int32_t *query_lengths);

/* kvg_profile_tiling of op decode under the problem's profile. */
kvg_tiling kvg_problem_tiling(const kvg_problem *problem, const kvg_call_shape *call);

/* Whether the op reads whole sequences, by block table and lengths: flatten, expand, decode. */
bool kvg_op_reads_sequences(kvg_op op);

/* Whether the op has K and V in a storage format: all but mma and merge. */
bool kvg_op_stores(kvg_op op);

/* Whether the op gives outputs of attention and their LSE: decode, merge. */
bool kvg_op_attends(kvg_op op);

/* Number of tensors of a role list: one per shared role, two (K and V) per other role. */
size_t kvg_roles_tensors(const kvg_role roles[KVG_MAX_ROLES]);

/* Index of the tensor (role, side) in a role list; -1 if the list lacks it. `side` does not matter
 * for a shared role. */
int kvg_roles_index(const kvg_role roles[KVG_MAX_ROLES], kvg_role role, kvg_side side);

/* The inverse: role and side of tensor `index`, which is below kvg_roles_tensors(roles). The side
 * of a shared role is KVG_K. */
void kvg_roles_at(const kvg_role roles[KVG_MAX_ROLES], size_t index, kvg_role *role, kvg_side *side);

bool kvg_role_is_shared(kvg_role role); /* one tensor for K and V */

/* "k", "v_codes", "slots", ...: names as in core/roles.def. */
const char *kvg_tensor_name(kvg_role role, kvg_side side);

/* The text that says where rows lie (docs/spec/layouts.md section 8): of the table, or its own. */
const char *kvg_problem_layout_text(const kvg_problem *problem);

/* Puts the map and the sizes of the pools into a problem on a paged layout, so that who is given the problem need not
 * read the layout's text. They follow from text, formats and geometry: kvgold's functions notice when one of these has
 * changed, and read the text again. KVG_ERR_INVALID names the column of a text of one's own. */
kvg_status kvg_problem_lay_out(kvg_problem *problem) KVG_CHECKED;

/* Where the rows of a checked problem lie, whether it is laid out or not; of layout rows all is 0. */
void kvg_rows_map(const kvg_problem *problem, kvg_layout_map *out);

/* By which rule a position of a sequence of a paged problem becomes block and slot. */
kvg_blocks kvg_problem_blocks(const kvg_problem *problem);

/* The highest length that a sequence of it may have. */
uint32_t kvg_problem_longest(const kvg_problem *problem);

/* K's pools hold rows of both sides of a checked problem. */
bool kvg_problem_joins_sides(const kvg_problem *problem);

/* The name of the layout: of its table, or its own. */
const char *kvg_problem_layout_name(const kvg_problem *problem);

/* Checks sizes, types, formats, geometry and options. KVG_ERR_INVALID names the field. The
 * dialect's name is not checked here, because its table belongs to an implementation. */
kvg_status kvg_problem_check(const kvg_problem *problem) KVG_CHECKED;

/* The part of kvg_problem_check that asks whether both formats can hold rows of this head_dim and
 * model type. */
kvg_status kvg_problem_check_rows(const kvg_problem *problem) KVG_CHECKED;

/* The dtype, shape and byte count of the tensor (role, side), with data NULL. The problem must have
 * passed kvg_problem_check. */
kvg_tensor kvg_problem_tensor(const kvg_problem *problem, kvg_role role, kvg_side side);

/* Bytes of a pool of a paged problem (docs/spec/layouts.md section 6), padding included. 0 if the layout keeps the side
 * in K's pool, or if the format has no scales. KVG_ERR_INVALID if the size exceeds 2^63 - 1. */
kvg_status kvg_problem_pool_bytes(const kvg_problem *problem, kvg_role pool, kvg_side side, uint64_t *out) KVG_CHECKED;

/* Number of sides with rows of their own: 2, or 1 if K and V share a row. */
int kvg_problem_sides(const kvg_problem *problem);

#ifdef __cplusplus
}
#endif
#endif
