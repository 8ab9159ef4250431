/* The inputs or the outputs of an op, in guarded buffers. */
#ifndef KVG_SUPPORT_TENSOR_SET_H
#define KVG_SUPPORT_TENSOR_SET_H

#include "core/problem.h"
#include "support/guard.h"

typedef struct kvg_tensor_set {
    kvg_tensor tensors[KVG_MAX_TENSORS];
    kvg_guard guards[KVG_MAX_TENSORS];
    const kvg_role *roles; /* of core/ops.def, or any list of KVG_MAX_ROLES */
    size_t count;
} kvg_tensor_set;

/* Allocates every tensor of the roles. On failure kvg_set_free frees what there is. */
kvg_status kvg_set_alloc(const kvg_problem *problem, const kvg_role *roles, kvg_tensor_set *set) KVG_CHECKED;
void kvg_set_free(kvg_tensor_set *set);

/* The tensor of (role, side); NULL if the roles lack it. */
kvg_tensor *kvg_set_tensor(const kvg_tensor_set *set, kvg_role role, kvg_side side);

/* The name of tensor `index`. */
const char *kvg_set_name(const kvg_tensor_set *set, size_t index);

/* Where tensors of a problem lie: in a set, or (set NULL) the two sides of one role. */
typedef struct kvg_source {
    const kvg_tensor_set *set;
    kvg_role role;
    const void *data[2]; /* of K, which roles without sides have, and of V */
} kvg_source;

/* Puts the problem's tensors into the order of `roles`. A tensor has the data of the last source that has it. Its data
 * are NULL where it is empty, or where no source has it. */
void kvg_gather(const kvg_problem *problem, const kvg_role *roles, const kvg_source *sources, size_t count,
                kvg_tensor *out);

bool kvg_set_same_bytes(const kvg_tensor_set *a, const kvg_tensor_set *b);

#endif
