/* What `kvgold bench` needs, besides core/bench_device.h, to time steps of a model whose weights
 * and pools lie on the device. gpu/gpu.h has such a struct for CUDA. */
#ifndef KVG_CORE_BENCH_MODEL_H
#define KVG_CORE_BENCH_MODEL_H

#include "core/bench_device.h"
#include "core/transformer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The parts of a step. Each is timed as a graph that was captured once, between two events. A whole
 * step ends with one token per wanted row, which the device draws. */
typedef enum kvg_bench_part {
    KVG_BENCH_STEP,
    KVG_BENCH_CACHE, /* only ops append and decode, of all layers */
    KVG_BENCH_REST,  /* only everything else */
    KVG_BENCH_MODEL_PARTS
} kvg_bench_part;

typedef struct kvg_bench_model_job {
    const kvg_model_step *step; /* `logits` must be given: the logits of the first run are written there */
    int32_t *tokens;            /* [wanted]: tokens of the first run, drawn on the device: the lowest id of the largest
                                 * logits */
    uint32_t runs;              /* runs of each part, in turn; at most KVG_BENCH_MOST_RUNS; 0: only the first run */
} kvg_bench_model_job;

typedef struct kvg_bench_model_result {
    float ms[KVG_BENCH_MODEL_PARTS][KVG_BENCH_MOST_RUNS];
    uint64_t first;                     /* checksum of logits and tokens of the first run, which is no graph */
    uint64_t timed[KVG_BENCH_MOST_RUNS]; /* the same checksum of each timed step */
    kvg_bench_clock clock;
} kvg_bench_model_result;

typedef struct kvg_bench_model {
    kvg_status (*bytes)(const kvg_model_setup *setup, uint64_t *out); /* bytes that `open` allocates on the device */
    /* Weights may lie on the device already: they are then used in place. */
    kvg_status (*open)(const kvg_model_setup *setup, void **model);
    void (*close)(void *model); /* NULL is allowed */
    void *(*pool)(void *model, kvg_role role, kvg_side side); /* device pointer; NULL: the layout has no such pool */
    /* Waits for all queued work first. KVG_ERR_INVALID if the step breaks its contract. A step may
     * run again: each run writes the same rows of the cache. */
    kvg_status (*time)(void *model, const kvg_bench_model_job *job, kvg_bench_model_result *result);
} kvg_bench_model;

#ifdef __cplusplus
}
#endif
#endif
