/* Planted defects of the managers: paging/pool/pool_defects.def. Each stands in a gate (paging/pool/pool_stack.h)
 * before the managers, which are never changed. */
#ifndef KVG_PAGING_POOL_POOL_DEFECTS_H
#define KVG_PAGING_POOL_POOL_DEFECTS_H

#include "paging/pool/pool_stack.h"

typedef struct kvg_pool_defect {
    const char *id;
    kvg_pool_install install;
    const char *summary, *seen_in;
} kvg_pool_defect;

const kvg_pool_defect *kvg_pool_defect_table(size_t *count);

/* KVG_ERR_NOT_FOUND for an unknown id. */
kvg_status kvg_pool_defect_find(const char *id, const kvg_pool_defect **out) KVG_CHECKED;

#endif
