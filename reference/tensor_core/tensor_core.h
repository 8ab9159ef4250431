/* Room tensor_core: the matrix instruction of GPUs, bit for bit on the CPU.
 *
 *   ref_mma                The fused sums of a tensor core over operands that are decoded once.
 *
 * The public header is reference/tensor_core.h. docs/spec/numerics.md section 5 is the contract, and a row of
 * core/profiles.def names the chip. */
#ifndef KVG_REFERENCE_TENSOR_CORE_TENSOR_CORE_H
#define KVG_REFERENCE_TENSOR_CORE_TENSOR_CORE_H
#endif
