/* Room tensor_core: one instruction of the tensor cores, for the op mma.
 *
 *   mma.cu             mma.sync m16n8k16 on tiles of inputs.
 *
 * tests/gpu/test_gpu_mma.c compares its sums with the model of docs/spec/numerics.md section 5.
 * Nothing else in gpu/ uses this room. */
#ifndef KVG_GPU_TENSOR_CORE_TENSOR_CORE_H
#define KVG_GPU_TENSOR_CORE_TENSOR_CORE_H
#endif
