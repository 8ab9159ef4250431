// A plug-in for kvgold whose tensors lie on the GPU: it dequantises e4m3 rows of bf16 models.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include "core/plugin.h"
#include "core/plugin_tensors.h"

namespace {

const char *why = "";

kvg_status status_of(cudaError_t error)
{
    if (error == cudaSuccess) return KVG_OK;
    why = cudaGetErrorString(error);
    if (error == cudaErrorMemoryAllocation) return KVG_ERR_MEMORY;
    return error == cudaErrorNoDevice ? KVG_ERR_DEVICE_LOST : KVG_ERR_DEVICE;
}

cudaStream_t stream_of(kvg_stream *stream)
{
    return reinterpret_cast<cudaStream_t>(stream);
}

kvg_status alloc(size_t bytes, void **out)
{
    return status_of(cudaMalloc(out, bytes));
}

void release(void *buffer)
{
    cudaFree(buffer);
}

kvg_status upload(void *device, const void *host, size_t bytes, kvg_stream *stream)
{
    return status_of(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_of(stream)));
}

kvg_status download(void *host, const void *device, size_t bytes, kvg_stream *stream)
{
    return status_of(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_of(stream)));
}

kvg_status synchronise(kvg_stream *stream)
{
    return status_of(cudaStreamSynchronize(stream_of(stream)));
}

const kvg_device_memory memory = {sizeof memory, 0, alloc, release, upload, download, synchronise};

__device__ float widen(__nv_fp8_storage_t code)
{
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
}

__global__ void expand(const __nv_fp8_storage_t *codes, const float *tensor_scale, size_t count, __nv_bfloat16 *values)
{
    const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    if (i < count) values[i] = __float2bfloat16_rn(widen(codes[i]) * *tensor_scale);
}

kvg_status dequantise(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    if (p->dtype != KVG_DTYPE_BF16) {
        why = "engine: the model must be bf16";
        return KVG_ERR_UNIMPLEMENTED;
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor &codes = in[KVG_DEQUANTISE_IN_K_CODES + side];
        const kvg_tensor &tensor_scale = in[KVG_DEQUANTISE_IN_K_TENSOR_SCALE + side];
        const unsigned blocks = static_cast<unsigned>((codes.bytes + 255) / 256);
        expand<<<blocks, 256, 0, stream_of(stream)>>>(
            static_cast<const __nv_fp8_storage_t *>(codes.data), static_cast<const float *>(tensor_scale.data),
            codes.bytes, static_cast<__nv_bfloat16 *>(out[KVG_DEQUANTISE_OUT_K + side].data));
    }
    return status_of(cudaGetLastError());
}

const kvg_impl impls[] = {{"engine_dequantise_e4m3_cuda", KVG_OP_DEQUANTISE, KVG_FORMAT_E4M3, 0, dequantise}};

} // namespace

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    static kvg_backend backend;
    backend.abi = KVG_BACKEND_ABI;
    backend.struct_size = sizeof backend;
    backend.problem_size = sizeof(kvg_problem);
    backend.name = "engine";
    backend.impls = impls;
    backend.impl_count = sizeof impls / sizeof impls[0];
    backend.error_text = [] { return why; };
    backend.ready = [] { return status_of(cudaFree(nullptr)); }; // makes a context, for which the GPU must answer
    backend.memory = &memory;
    return &backend;
}
