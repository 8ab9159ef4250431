/* The kernels of op decode for many query rows, in tables by head_dim: each file compiles on its
 * own. */
#ifndef KVG_GPU_PREFILL_H
#define KVG_GPU_PREFILL_H

#include "core/backend.h"
#include "gpu/prefill_plan.h"

struct prefill_args;

struct prefill_kernel {
    uint32_t dim;
    bool bf16, row_scales; /* operands; else f16. K and V have row scales */
    uint32_t groups;       /* of 64 rows */
    void (*run)(const prefill_args);
};

struct prefill_kernels {
    const prefill_kernel *rows;
    int count;
};

extern const prefill_kernels prefill_64, prefill_128, prefill_256;

/* Whether the current GPU has room for these kernels, for a problem that op decode's check has
 * passed. */
bool prefill_fits(const kvg_problem *problem);

/* As kvg_gpu_decode_workspace and kvg_gpu_decode (gpu/ops.h), for a problem that op decode's check
 * has passed. */
kvg_status prefill_workspace(const kvg_problem *problem, size_t *bytes) KVG_CHECKED;
kvg_status prefill_run(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, void *workspace,
                       kvg_stream *stream) KVG_CHECKED;

#endif
