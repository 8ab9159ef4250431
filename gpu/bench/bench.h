/* Room bench: times on the device for `kvgold bench` (docs/results/performance.md).
 *
 *   gpu_bench.cu               Times of ops, of a plain read, and of an empty kernel.
 *   gpu_bench_kernels.cuh      The plain read and the empty kernel.
 *   gpu_clock.cuh              What clock the GPU had while it was timed.
 *
 * core/bench_device.h is the interface that the harness sees. */
#ifndef KVG_GPU_BENCH_BENCH_H
#define KVG_GPU_BENCH_BENCH_H
#endif
