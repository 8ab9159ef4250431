/* Room model: the transformer of `kvgold generate` on a GPU (docs/spec/generate.md).
 *
 *   model_device.h             The runner: open, step, close.
 *   model_step, model_kernels  A step: embeddings, products, RoPE, attention, logits.
 *   model_product.cu           Products in fixed order; model_library has those of cuBLAS.
 *   model_memory, model_tensors, model_state.cuh     Memory of a model and of its cache.
 *   model_check.h              What a step is refused for, on the host.
 *   model_bench.cu             Times of whole models. */
#ifndef KVG_GPU_MODEL_MODEL_H
#define KVG_GPU_MODEL_MODEL_H
#endif
