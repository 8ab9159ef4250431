/* Room model: the transformer of `kvgold generate` on a GPU (docs/spec/generate.md).
 *
 *   model_device.h             The runner: open, step, close.
 *   model_step, model_kernels  A step: embeddings, products, RoPE, attention, logits.
 *   model_product.cu           Products in fixed order; model_library has those of cuBLAS.
 *   model_memory, model_tensors, model_state.cuh     Memory of a model and of its cache.
 *   model_check.h              What a step is refused for, on the host.
 *   model_bench.cu             Times of whole models. */
/* A model on the first GPU, in the parts that its runner and the bench are made of. */
#ifndef KVG_GPU_MODEL_MODEL_DEVICE_H
#define KVG_GPU_MODEL_MODEL_DEVICE_H

#include "core/backend.h"
#include "core/transformer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvg_gpu_model kvg_gpu_model;

/* Takes all the device memory that steps will need, and uploads the weights: those whose view lies on the device
 * already are used where they are. Pools are 0. Errors as kvg_model_runner.open. */
kvg_status kvg_gpu_model_open(const kvg_model_setup *setup, kvg_gpu_model **out) KVG_CHECKED;
void kvg_gpu_model_close(kvg_gpu_model *model); /* NULL is allowed */

/* Device memory that open takes for good. */
kvg_status kvg_gpu_model_bytes(const kvg_model_setup *setup, uint64_t *out) KVG_CHECKED;

/* Copies the step's numbers into the model's own arrays, and queues their upload and the copies of blocks. The step has
 * been checked (gpu/model/model_check.h), and what was uploaded before has arrived. */
kvg_status kvg_gpu_model_upload(kvg_gpu_model *model, const kvg_model_step *step, kvg_stream *stream) KVG_CHECKED;

/* Queues the kernels of the step that was uploaded last. It depends on `shape` alone, allocates nothing and reads
 * nothing back: a CUDA graph of it does every step of that shape. */
typedef struct kvg_gpu_model_shape {
    uint32_t rows, sequences, wanted;
    uint32_t longest; /* rounded up, so that a sequence that grows keeps its shape for a while */
} kvg_gpu_model_shape;
enum { KVG_GPU_MODEL_CACHE = 1 /* ops append and decode */, KVG_GPU_MODEL_REST = 2, KVG_GPU_MODEL_ALL = 3 };

kvg_gpu_model_shape kvg_gpu_model_shape_of(const kvg_gpu_model *model, const kvg_model_step *step);
kvg_status kvg_gpu_model_queue(kvg_gpu_model *model, const kvg_gpu_model_shape *shape, unsigned parts,
                               kvg_stream *stream) KVG_CHECKED;

/* On the device: [wanted][vocab] of the last step; a pool, NULL where the layout has none. */
const float *kvg_gpu_model_logits(const kvg_gpu_model *model);
void *kvg_gpu_model_pool(const kvg_gpu_model *model, kvg_role role, kvg_side side, uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
