/* What a model's setup and its steps are refused for before anything is queued: on the host, without CUDA. */
#ifndef KVG_GPU_MODEL_MODEL_CHECK_H
#define KVG_GPU_MODEL_MODEL_CHECK_H

#include "core/transformer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* KVG_ERR_INVALID: the setup is none; KVG_ERR_UNIMPLEMENTED: no kernels for it. What the machine's GPU can do is not
 * asked. */
kvg_status kvg_gpu_model_check_setup(const kvg_model_setup *setup) KVG_CHECKED;

/* KVG_ERR_INVALID names the number. */
kvg_status kvg_gpu_model_check_step(const kvg_model_setup *setup, const kvg_model_step *step) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
