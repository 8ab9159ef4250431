/* The kernels of op decode on tensor cores, in tables by families of formats: each file compiles on its own. */
#ifndef KVG_GPU_DECODE_DECODE_MMA_H
#define KVG_GPU_DECODE_DECODE_MMA_H

#include "core/format.h"

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
    kvg_decode_fit fit[2]; /* the second one on small chips (decode_shape.cuh) */
    void (*run)(const kvg_decode_args);
    void (*leaf)(const kvg_decode_args); /* whose CTAs have a leaf each (decode_leaf.cuh); null: there is none */
    kvg_leaf_fit leaves[2]; /* for it, by the leaves of the contract that its code is made for */
};

struct kvg_decode_kernels {
    const kvg_decode_kernel *rows;
    int count;
};

extern const kvg_decode_kernels kvg_decode_16bit, kvg_decode_8bit, kvg_decode_int4, kvg_decode_fp4;

#endif
