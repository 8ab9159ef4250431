/* What a Hugging Face-style config.json says about a model: docs/generate.md sections 1 and 2. */
#ifndef KVG_HARNESS_MODEL_CONFIG_H
#define KVG_HARNESS_MODEL_CONFIG_H

#include "core/rope.h"

typedef enum kvg_model_family { KVG_MODEL_LLAMA, KVG_MODEL_QWEN3, KVG_MODEL_GPT_OSS } kvg_model_family;

enum { KVG_MODEL_MAX_LAYERS = 512 };

typedef struct kvg_model_config {
    kvg_model_family family;
    uint32_t vocab, hidden, intermediate, layers, query_heads, kv_heads, head_dim;
    uint32_t positions;    /* largest position + 1 */
    float rms_eps;
    bool tied;             /* the output embedding is the input's */
    bool attention_bias;   /* of q, k, v and o */
    bool mlp_bias;         /* of gate, up and down; experts have theirs always */
    bool qk_norm, sinks;
    kvg_rope rope;         /* all of head_dim, in halves */
    uint32_t window;       /* keys that a sliding layer sees; 0: there is none */
    bool sliding[KVG_MODEL_MAX_LAYERS];
    uint32_t experts, top_k; /* 0, 0: a dense MLP */
    float swiglu_limit;    /* GPT-OSS's clamp; 0: the plain SwiGLU */
    bool mxfp4;            /* the experts' weights are E2M1 in blocks of 32 */
} kvg_model_config;

/* KVG_ERR_IO if the file cannot be read; KVG_ERR_INVALID names file, path and what is wrong or not supported. */
kvg_status kvg_model_config_open(const char *path, kvg_model_config *out) KVG_CHECKED;

/* The same from text in memory; `name` is used in error texts. */
kvg_status kvg_model_config_parse(const char *name, const char *text, size_t size, kvg_model_config *out) KVG_CHECKED;

const char *kvg_model_family_name(kvg_model_family family); /* as in `model_type` */

#endif
