/* Models of random numbers, without files: every family, every type of weight, sizes that no tile divides. */
#ifndef KVG_TESTS_GPU_RANDOM_MODEL_H
#define KVG_TESTS_GPU_RANDOM_MODEL_H

#include "core/transformer.h"

enum { RANDOM_MODELS = 4 };

typedef struct random_model {
    const char *name;
    kvg_model_config config;
    kvg_weight_view *views; /* [layers][KVG_WEIGHT_COUNT] */
} random_model;

/* Model `index`. Ends the program where there is no memory for it. */
void random_model_make(uint32_t index, random_model *out);
void random_model_free(random_model *model);
kvg_model_source random_model_source(const random_model *model);

#endif
