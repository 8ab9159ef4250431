#include "gpu/bench/gpu_clock.cuh"

#include <vector>

#include "gpu/device/cuda_status.cuh"
#include "gpu/gpu.h"
#include "gpu/device/nvml.h"

namespace {

enum { MOST_SMS = 1024, NUMBERS = 4 * MOST_SMS };

/* The cycle counter and the nanoseconds of each multiprocessor, at [2 * its number]. */
__global__ void read_clocks(unsigned long long *table)
{
    uint32_t where;
    unsigned long long time;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(where));
    if (threadIdx.x || where >= MOST_SMS) return;
    const unsigned long long cycles = (unsigned long long)clock64();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    table[2 * where] = cycles;
    table[2 * where + 1] = time;
}

/* CTAs of 1024 threads spread over all multiprocessors that are idle. */
kvg_status read(const kvg_gpu_clock *clock, int table, cudaStream_t stream)
{
    read_clocks<<<clock->multiprocessors, 1024, 0, stream>>>(clock->tables + 2 * table * MOST_SMS);
    return kvg_cuda_status("clocks", cudaGetLastError());
}

} // namespace

kvg_status kvg_gpu_clock_open(kvg_gpu_clock *clock)
{
    *clock = {};
    kvg_status s = kvg_cuda_status("its PCI address", cudaDeviceGetPCIBusId(clock->bus_id, sizeof clock->bus_id, 0));
    if (!s) {
        s = kvg_cuda_status("its size",
                            cudaDeviceGetAttribute(&clock->multiprocessors, cudaDevAttrMultiProcessorCount, 0));
    }
    return s ? s : kvg_gpu_alloc(NUMBERS * sizeof *clock->tables, (void **)&clock->tables);
}

void kvg_gpu_clock_close(kvg_gpu_clock *clock)
{
    kvg_gpu_free(clock->tables);
    *clock = {};
}

kvg_status kvg_gpu_clock_start(const kvg_gpu_clock *clock, cudaStream_t stream)
{
    const size_t bytes = NUMBERS * sizeof *clock->tables;
    kvg_status s = kvg_cuda_status("memset", cudaMemsetAsync(clock->tables, 0, bytes, stream));
    return s ? s : read(clock, 0, stream);
}

void kvg_gpu_clock_ask(const kvg_gpu_clock *clock, kvg_bench_clock *out)
{
    kvg_nvml_state driver;
    if (!kvg_nvml_read(clock->bus_id, &driver)) return;
    out->driver_knows = true;
    out->driver_mhz = driver.sm_mhz;
    out->power_mw = driver.power_mw;
    out->throttle = driver.throttle;
}

kvg_status kvg_gpu_clock_stop(const kvg_gpu_clock *clock, cudaStream_t stream, kvg_bench_clock *out)
{
    std::vector<unsigned long long> t(NUMBERS);
    double sum = 0;
    int count = 0;
    kvg_status s = read(clock, 1, stream);
    if (!s) s = kvg_gpu_download(t.data(), clock->tables, NUMBERS * sizeof t[0], (kvg_stream *)stream);
    for (int i = 0; i < MOST_SMS && !s; i++) {
        const unsigned long long *a = &t[2 * i], *b = &t[2 * (MOST_SMS + i)];
        if (a[1] == 0 || b[1] <= a[1] || b[0] <= a[0]) continue;
        sum += 1e3 * (double)(b[0] - a[0]) / (double)(b[1] - a[1]);
        count++;
    }
    out->mhz = count ? sum / count : 0;
    return s;
}
