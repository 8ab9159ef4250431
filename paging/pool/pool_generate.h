/* Random traces: operations drawn one by one, looking at the model's state, so that most of them do something. */
#ifndef KVG_PAGING_POOL_POOL_GENERATE_H
#define KVG_PAGING_POOL_POOL_GENERATE_H

#include "paging/pool/pool_config.h"
#include "paging/pool/pool_model.h"

typedef struct kvg_pool_generator {
    const kvg_pool_scenario *scenario;
    uint64_t seed, stream, drawn; /* element `drawn` of (seed, stream) is next */
    unsigned mood;
    uint32_t mood_left;
    kvg_pool_item *items;         /* of the operation drawn last */
    uint32_t item_room;
} kvg_pool_generator;

/* The generator of trace `number` of a scenario, and the pools that the trace runs on. */
void kvg_pool_generator_start(kvg_pool_generator *g, const kvg_pool_scenario *scenario, uint64_t seed, uint64_t number,
                              kvg_pool_geometry *geometry);
void kvg_pool_generator_stop(kvg_pool_generator *g);

/* The next operation; its items are the generator's and valid until the next call. */
void kvg_pool_generator_next(kvg_pool_generator *g, const kvg_pool_model *model, kvg_pool_op *op);

/* A whole trace without any manager, by the model alone: the same one. */
kvg_status kvg_pool_generate(const kvg_pool_scenario *scenario, uint64_t seed, uint64_t number,
                             kvg_pool_trace *trace) KVG_CHECKED;

#endif
