/* Room attention/few: op decode on tensor cores for one or two query tokens of a CTA.
 *
 *   few_plan                   How rows and keys are cut into work.
 *   few.cu                     The host's side: kernels in a chain.
 *   few_16bit, _8bit, _int4, _fp4      The kernels of a group of formats.
 *   few_pieces, few_leaf       What a CTA does: a leaf or more for each warp; a leaf for all of them.
 *   few_part, few_shape        Which part of a piece a CTA takes; how it is cut, and where it is kept.
 *   few_run, few_run_tiles, few_run_sides      What a warp does: the loops over the tiles of a run.
 *   few_leaf_tile              A tile of a leaf that all warps of a CTA share.
 *   few_places, few_load       Where rows lie; their copies.
 *   few_query, few_scores, few_near_scales, few_values     q, scores and weights, scales, sums of V.
 *   few_lane, few_state        What a lane keeps in registers; nodes of a warp.
 *   few_merge                  The tree above the pieces, and the root.
 *
 * docs/dev/decode-kernels.md says how they work. This header has the kernels in tables by families of
 * formats: each file compiles on its own. */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_H
#define KVG_GPU_ATTENTION_FEW_FEW_H

#include "core/problem.h"

struct kvg_decode_args;

struct kvg_decode_fit {
    uint32_t shared;   /* bytes of shared memory */
    uint32_t resident; /* CTAs on a multiprocessor */
    uint32_t levels;   /* a warp has runs of up to 2^levels stretches */
};

struct kvg_leaf_fit {
    uint32_t leaf;   /* tokens of one */
    uint32_t shared; /* bytes of shared memory */
};

struct kvg_decode_kernel {
    kvg_format format[2]; /* of K, of V */
    bool any;             /* of the model types; else dtype alone */
    kvg_dtype dtype;
    uint32_t dim;          /* head_dim */
    uint32_t queries;      /* query tokens that a CTA takes together */
    kvg_decode_fit fit[2]; /* the second one on small chips (few_shape.cuh) */
    void (*run)(const kvg_decode_args);
    void (*leaf)(const kvg_decode_args); /* whose CTAs have a leaf each (few_leaf.cuh); null: there is none */
    kvg_leaf_fit leaves[2]; /* for it, by the leaves of the contract that its code is made for */
};

struct kvg_decode_kernels {
    const kvg_decode_kernel *rows;
    int count;
};

extern const kvg_decode_kernels kvg_decode_16bit, kvg_decode_8bit, kvg_decode_int4, kvg_decode_fp4;

/* KVG_ERR_UNIMPLEMENTED, with the reason, if no kernel that has K and V in rows of their own answers
 * the problem on any chip, but for its head_dim. */
kvg_status kvg_decode_check(const kvg_problem *problem);

#endif
