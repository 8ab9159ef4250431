/* Which rows the kernels of append, flatten and expand can do. */
#include "gpu/ops.h"
#include "gpu/rows/row_rules.h"

kvg_status kvg_gpu_check_rows(const kvg_problem *p)
{
    kvg_row_rule rule;
    kvg_status s = kvg_problem_check(p);
    if (!s && p->head_dim % 16) {
        s = kvg_fail(KVG_ERR_UNIMPLEMENTED, "op %s on a GPU: head_dim %u is no multiple of 16",
                     kvg_op_get(p->op)->name, p->head_dim);
    }
    for (int side = KVG_K; side <= KVG_V && !s; side++) s = kvg_row_rule_of(&p->storage[side], &rule);
    return s;
}
