/* What a Hugging Face-style config.json says about a model: docs/spec/generate.md sections 1 and 2. */
#ifndef KVG_MODEL_CHECKPOINT_MODEL_CONFIG_H
#define KVG_MODEL_CHECKPOINT_MODEL_CONFIG_H

#include "core/transformer.h"

/* KVG_ERR_IO if the file cannot be read; KVG_ERR_INVALID names file, path and what is wrong or not supported. */
kvg_status kvg_model_config_open(const char *path, kvg_model_config *out) KVG_CHECKED;

/* The same from text in memory; `name` is used in error texts. */
kvg_status kvg_model_config_parse(const char *name, const char *text, size_t size, kvg_model_config *out) KVG_CHECKED;


#endif
