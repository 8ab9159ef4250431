/* Room prefill: op decode on tensor cores for many query rows at once.
 *
 *   prefill_plan       How rows and keys are cut into work; what host and device both compute.
 *   prefill.cu         The host's side: kernels in a chain.
 *   prefill_list       On the device: bands of rows, by the lengths of the sequences.
 *   prefill_kernel     What a CTA does: fillers (prefill_fill, _tokens, _source, _convert, _padded) and
 *                      row warps (prefill_rows, _query, _multiply, _order, _weights, _tree).
 *   prefill_merge      The tree above several pieces.
 *   wgmma.cuh          Hopper's instructions for groups of four warps.
 *
 * docs/dev/prefill-kernels.md says how they work. This header has the kernels in tables by head_dim:
 * each file compiles on its own. */
#ifndef KVG_GPU_PREFILL_PREFILL_H
#define KVG_GPU_PREFILL_PREFILL_H

#include "gpu/prefill/prefill_plan.h"

struct prefill_args;

struct prefill_kernel {
    uint32_t dim;
    bool bf16, row_scales; /* operands; else f16. K and V have row scales */
    uint32_t groups;       /* of four warps (prefill_shape) */
    void (*run)(const prefill_args);
};

struct prefill_kernels {
    const prefill_kernel *rows;
    int count;
    bool padded; /* rows of any head_dim up to `dim` */
};

extern const prefill_kernels prefill_64, prefill_128, prefill_256, prefill_shared;
extern const prefill_kernels prefill_padded_128, prefill_padded_256, prefill_padded_320;

#endif
