/* The reference's model runner: docs/spec/generate.md sections 4 and 5 on the CPU, bit for bit, every product in its
 * fixed order. Ops append and decode are the reference's own unless the setup names another implementation. */
#ifndef KVG_MODEL_MODEL_RUN_H
#define KVG_MODEL_MODEL_RUN_H

#include "core/transformer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Products are KVG_PRODUCTS_FIXED. Opening widens all weights to f32 in memory of its own. */
const kvg_model_runner *kvg_reference_model_runner(void);

#ifdef __cplusplus
}
#endif
#endif
