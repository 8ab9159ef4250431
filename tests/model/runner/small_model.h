/* Models of a few random numbers, for tests of runners: every family, sizes that no tile divides. */
#ifndef KVG_TESTS_MODEL_RUNNER_SMALL_MODEL_H
#define KVG_TESTS_MODEL_RUNNER_SMALL_MODEL_H

#include "core/transformer.h"

typedef enum small_model_kind {
    SMALL_LLAMA,        /* tied, no biases */
    SMALL_LLAMA_BIASES, /* biases everywhere, an output embedding */
    SMALL_QWEN3,        /* QK-norm with biases, a window on layer 1 */
    SMALL_GPT_OSS,      /* sinks, experts, a window on layer 0 */
    SMALL_MODELS
} small_model_kind;

enum { SMALL_TOKENS = 12, SMALL_VOCAB = 19, SMALL_WINDOW = 5, SMALL_D = 16 };

typedef struct small_model {
    kvg_model_config config;
    float cos_sin[SMALL_TOKENS * SMALL_D];
    float tensor_scale[2][2]; /* [layers] */
} small_model;

void small_model_make(small_model_kind kind, small_model *out);

/* The weights have no bytes, only numbers: `view` gives none. */
kvg_model_source small_model_source(const small_model *model);

#endif
