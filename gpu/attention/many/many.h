/* Room attention/many: op decode on tensor cores for many query rows at once, for padded rows, and for
 * rows that K and V share.
 *
 *   many_plan       How rows and keys are cut into work; what host and device both compute.
 *   many.cu         The host's side: kernels in a chain.
 *   many_64, _128, _256, many_shared, many_padded_*    The kernels of a head_dim.
 *   many_args       Arguments, bands, items.
 *   many_list       On the device: bands of rows, by the lengths of the sequences.
 *   many_kernel     What a CTA does: fillers (many_fill, _tokens, _source, _convert, _padded,
 *                   _padded_convert) and row warps (many_rows, _query, _multiply, _order, _weights,
 *                   _tree).
 *   many_merge      The tree above several pieces.
 *   wgmma           Hopper's instructions for groups of four warps.
 *
 * docs/dev/prefill-kernels.md says how they work. This header has the kernels in tables by head_dim:
 * each file compiles on its own. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_H
#define KVG_GPU_ATTENTION_MANY_MANY_H

#include "gpu/attention/many/many_plan.h"

struct many_args;

struct many_kernel {
    uint32_t dim;
    bool bf16, row_scales; /* operands; else f16. K and V have row scales */
    uint32_t groups;       /* of four warps (many_shape) */
    void (*run)(const many_args);
};

struct many_kernels {
    const many_kernel *rows;
    int count;
    bool padded; /* rows of any head_dim up to `dim` */
};

extern const many_kernels many_64, many_128, many_256, many_shared;
extern const many_kernels many_padded_128, many_padded_256, many_padded_320;

#endif
