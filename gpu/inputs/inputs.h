/* Room inputs: what the backend refuses for what tensors hold, before a kernel sees it.
 *
 *   gpu_inputs.h       Slots, positions, block tables, lengths and scales of a problem.
 *
 * Kernels of gpu/ops.h do not depend on these checks for their memory: they touch no byte outside
 * of their tensors whatever the inputs hold (tests/gpu/test_gpu_hostile.cu). */
#ifndef KVG_GPU_INPUTS_INPUTS_H
#define KVG_GPU_INPUTS_INPUTS_H
#endif
