/* Room attention: the op decode, whatever kernels answer it.
 *
 *   decode.c           Chooses the family of kernels of gpu/decode/decode.h for a problem.
 *
 * Families differ in speed, and plain f32 differs from tensor cores in bits, because it has a
 * contract of its own. The choice depends on the problem alone. */
#ifndef KVG_GPU_ATTENTION_ATTENTION_H
#define KVG_GPU_ATTENTION_ATTENTION_H
#endif
