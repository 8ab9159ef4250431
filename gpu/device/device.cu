#include "gpu/gpu.h"

#include <cstdio>

#include "gpu/numbers/convert_fp4.cuh"
#include "gpu/device/cuda_status.cuh"

namespace {

enum { ANSWER = 0x6B766764 };

__global__ void answer(uint32_t *out)
{
    *out = ANSWER;
}
__global__ void answer_fp4(uint32_t *out)
{
    *out = KVG_HARDWARE_FP4;
}

/* The number that a kernel of one thread gives. */
kvg_status ask(void (*kernel)(uint32_t *), uint32_t *out)
{
    uint32_t *device = nullptr;
    kvg_status s = kvg_cuda_status("cudaMalloc", cudaMalloc(&device, sizeof *device));
    if (s) return s;
    kernel<<<1, 1>>>(device);
    s = kvg_cuda_status("a kernel", cudaGetLastError());
    if (!s) s = kvg_gpu_download(out, device, sizeof *out, nullptr);
    kvg_gpu_free(device);
    return s;
}

/* After cudaErrorInsufficientDriver: there is none at all, which is no error, or an old one. */
kvg_status check_driver()
{
    int version = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) return KVG_OK;
    return kvg_fail(KVG_ERR_IO, "the GPU's driver is for CUDA %d.%d, this build for %d.%d: install a newer driver",
                    version / 1000, version % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

} // namespace

kvg_status kvg_gpu_devices(kvg_gpu_device *out, size_t max, size_t *count)
{
    int found = 0;
    *count = 0;
    cudaError_t error = cudaGetDeviceCount(&found);
    if (error == cudaErrorNoDevice) return KVG_OK;
    if (error == cudaErrorInsufficientDriver) return check_driver();
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

kvg_status kvg_gpu_ready(void)
{
    uint32_t got = 0;
    kvg_status s = ask(answer, &got);
    return s || got == ANSWER ? s : kvg_fail(KVG_ERR_DEVICE_LOST, "a kernel of one thread did not run");
}

kvg_status kvg_gpu_hardware_fp4(bool *out)
{
    uint32_t got = 0;
    kvg_status s = ask(answer_fp4, &got);
    *out = got != 0;
    return s;
}
