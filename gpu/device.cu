#include "gpu/gpu.h"

#include <cstdio>

#include "gpu/cuda_status.cuh"

kvg_status kvg_gpu_devices(kvg_gpu_device *out, size_t max, size_t *count)
{
    int found = 0;
    *count = 0;
    cudaError_t error = cudaGetDeviceCount(&found);
    if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver)
        return KVG_OK; /* no GPU, or no driver at all */
    if (error != cudaSuccess) return kvg_cuda_status("cudaGetDeviceCount", error);
    for (int i = 0; i < found && *count < max; i++) {
        cudaDeviceProp properties;
        error = cudaGetDeviceProperties(&properties, i);
        if (error != cudaSuccess) return kvg_cuda_status("cudaGetDeviceProperties", error);
        kvg_gpu_device *d = &out[(*count)++];
        snprintf(d->name, sizeof d->name, "%s", properties.name);
        d->sm = (uint32_t)(10 * properties.major + properties.minor);
        d->multiprocessors = (uint32_t)properties.multiProcessorCount;
        d->memory_bytes = properties.totalGlobalMem;
        d->l2_bytes = (uint64_t)properties.l2CacheSize;
    }
    return KVG_OK;
}
