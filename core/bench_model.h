/* What `kvgold bench` needs, beside core/bench_device.h, to time steps of a model: a model whose weights and pools lie
 * on the device. gpu/gpu.h has one for CUDA. */
#ifndef KVG_CORE_BENCH_MODEL_H
#define KVG_CORE_BENCH_MODEL_H

#include "core/bench_device.h"
#include "core/transformer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What of a step is timed, each as a graph that was captured once, between two events. A step ends with a token of each
 * wanted row, drawn on the device. */
typedef enum kvg_bench_part {
    KVG_BENCH_STEP,
    KVG_BENCH_CACHE, /* ops append and decode of all layers alone */
    KVG_BENCH_REST,  /* all else alone */
    KVG_BENCH_MODEL_PARTS
} kvg_bench_part;

typedef struct kvg_bench_model_job {
    const kvg_model_step *step; /* with logits: those of the first run are written there */
    int32_t *tokens;            /* [wanted]: of the first run, drawn on the device: the lowest id of the largest */
    uint32_t runs;              /* of each part, in turn; at most KVG_BENCH_MOST_RUNS, 0: the first run alone */
} kvg_bench_model_job;

typedef struct kvg_bench_model_result {
    float ms[KVG_BENCH_MODEL_PARTS][KVG_BENCH_MOST_RUNS];
    uint64_t first;                     /* checksum of the first run's logits and tokens; that run is no graph */
    uint64_t timed[KVG_BENCH_MOST_RUNS]; /* of each timed step's */
    kvg_bench_clock clock;
} kvg_bench_model_result;

typedef struct kvg_bench_model {
    kvg_status (*bytes)(const kvg_model_setup *setup, uint64_t *out); /* that open takes; weights that are there: 0 */
    /* Views of weights may lie on the device: they are used where they are. */
    kvg_status (*open)(const kvg_model_setup *setup, void **model);
    void (*close)(void *model); /* NULL is allowed */
    void *(*pool)(void *model, kvg_role role, kvg_side side); /* on the device; NULL: the layout has none */
    /* Waits for all that was queued before. The step is checked (KVG_ERR_INVALID). It can be run again: each run writes
     * the same rows of the cache. */
    kvg_status (*time)(void *model, const kvg_bench_model_job *job, kvg_bench_model_result *result);
} kvg_bench_model;

#ifdef __cplusplus
}
#endif
#endif
