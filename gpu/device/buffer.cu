#include "gpu/gpu.h"

#include "gpu/device/cuda_status.cuh"

kvg_status kvg_gpu_alloc(size_t bytes, void **out)
{
    *out = nullptr;
    return kvg_cuda_status("cudaMalloc", cudaMalloc(out, bytes));
}

void kvg_gpu_free(void *buffer)
{
    if (buffer) (void)cudaFree(buffer);
}

kvg_status kvg_gpu_upload(void *device, const void *host, size_t bytes, kvg_stream *stream)
{
    const cudaError_t error = cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, (cudaStream_t)stream);
    return kvg_cuda_status("copy to the GPU", error);
}

kvg_status kvg_gpu_download(void *host, const void *device, size_t bytes, kvg_stream *stream)
{
    const cudaStream_t queue = (cudaStream_t)stream;
    cudaError_t error = cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, queue);
    if (error == cudaSuccess) error = cudaStreamSynchronize(queue);
    return kvg_cuda_status("copy from the GPU", error);
}
