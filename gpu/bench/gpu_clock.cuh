/* The multiprocessors' mean clock between two places of a stream, by their own counters, and what the driver says of
 * it. */
#ifndef KVG_GPU_BENCH_GPU_CLOCK_CUH
#define KVG_GPU_BENCH_GPU_CLOCK_CUH

#include <cuda_runtime.h>

#include "core/bench_device.h"

struct kvg_gpu_clock {
    unsigned long long *tables; /* device: cycles and nanoseconds of each multiprocessor, at the start and at the end */
    int multiprocessors;
    char bus_id[32];
};

kvg_status kvg_gpu_clock_open(kvg_gpu_clock *clock) KVG_CHECKED; /* of the first GPU */
void kvg_gpu_clock_close(kvg_gpu_clock *clock);

kvg_status kvg_gpu_clock_start(const kvg_gpu_clock *clock, cudaStream_t stream) KVG_CHECKED;
void kvg_gpu_clock_ask(const kvg_gpu_clock *clock, kvg_bench_clock *out); /* the driver, now */
/* Waits for the stream. */
kvg_status kvg_gpu_clock_stop(const kvg_gpu_clock *clock, cudaStream_t stream, kvg_bench_clock *out) KVG_CHECKED;

#endif
