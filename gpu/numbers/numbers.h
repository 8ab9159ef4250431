/* Room numbers: values of one type as values of another, on the device.
 *
 *   convert.cuh        f16, bf16, e4m3, e5m2, integers: the roundings of docs/spec/numerics.md.
 *   convert_fp4.cuh    E2M1 and E8M0, by instructions where the chip has them, else in software.
 *
 * tests/gpu/test_gpu_convert.cu proves both ways equal. */
#ifndef KVG_GPU_NUMBERS_NUMBERS_H
#define KVG_GPU_NUMBERS_NUMBERS_H
#endif
