/* Which rows the kernels of append, flatten and expand can do. */
#include <string.h>

#include "gpu/ops.h"

/* Dialects that decode as `canonical` does, so that one kernel reads them all; the rest is listed. */
static const struct {
    kvg_format format;
    const char *dialect;
} decode_otherwise[] = {
    {KVG_FORMAT_INT8, "turbomind-muladd"}, {KVG_FORMAT_INT8, "pytorch"},  {KVG_FORMAT_INT4, "turbomind-muladd"},
    {KVG_FORMAT_INT4, "pytorch"},          {KVG_FORMAT_ROWFP4, "marlin-linear"}, {KVG_FORMAT_NVFP4, "modelopt"},
};

static bool has_kernel(kvg_op op, const kvg_storage *storage)
{
    if (op == KVG_OP_APPEND) return strcmp(storage->dialect, "canonical") == 0;
    for (size_t i = 0; i < sizeof decode_otherwise / sizeof decode_otherwise[0]; i++) {
        const bool same_format = storage->format == decode_otherwise[i].format;
        if (same_format && strcmp(storage->dialect, decode_otherwise[i].dialect) == 0) return false;
    }
    return true;
}

kvg_status kvg_gpu_check_rows(const kvg_problem *p)
{
    kvg_status s = kvg_problem_check(p);
    if (s) return s;
    if (p->head_dim % 16) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "op %s on a GPU: head_dim %u is no multiple of 16",
                        kvg_op_get(p->op)->name, p->head_dim);
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        if (has_kernel(p->op, &p->storage[side])) continue;
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "op %s on a GPU: no kernel for %s.%s", kvg_op_get(p->op)->name,
                        kvg_format_get(p->storage[side].format)->name, p->storage[side].dialect);
    }
    return KVG_OK;
}
