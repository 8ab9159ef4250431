/* Matrix products by cuBLAS (KVG_PRODUCTS_LIBRARY): docs/spec/generate.md section 4. The library is opened at run
 * time: who does not ask for it needs none. */
#ifndef KVG_GPU_MODEL_MODEL_LIBRARY_CUH
#define KVG_GPU_MODEL_MODEL_LIBRARY_CUH

#include "gpu/model/model_parts.cuh"

struct kvg_library;

/* For products with at most `most_x` = rows times inputs and, of those that round, `most_y` = rows times outputs; on
 * the current device, of which it takes kvg_library_bytes. KVG_ERR_UNIMPLEMENTED: this machine has no cuBLAS of this
 * build's CUDA version. */
kvg_status kvg_library_open(uint64_t most_x, uint64_t most_y, kvg_library **out) KVG_CHECKED;
void kvg_library_close(kvg_library *library); /* NULL is allowed */
uint64_t kvg_library_bytes(uint64_t most_x, uint64_t most_y);

/* Queues a product without experts, of weights in f16, bf16 or f32, to whose type x is rounded: sums in f32 in an order
 * of cuBLAS's own, then the bias and the product's end, each one rounding. Nothing is allocated: a graph can capture
 * it. The same shape gives the same bits each time on one chip; a row's bits may depend on the number of rows. */
kvg_status kvg_library_multiply(kvg_library *library, const kvg_model_product &product,
                                cudaStream_t stream) KVG_CHECKED;

#endif
