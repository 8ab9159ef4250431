/* A plug-in whose tensors lie on the GPU, as an engine team would write one: core/plugin.h and the CUDA runtime, and
 * nothing else of kvgold. It stores K and V of bf16 models as they are. The number of KV heads chooses what it does
 * wrong, to prove that the harness notices on a real GPU, too; tests/gpu/plugin_device.json has a case for each. */
#include <cuda_runtime.h>

#include "core/plugin.h"

namespace {

enum planted {
    WRITES_PAST = 2,
    WRITES_BEFORE = 3,
    WRITES_INPUT = 4,
    ILLEGAL_ADDRESS = 5,
    WRITES_NOTHING = 7,
};

thread_local const char *why = "";

kvg_status status_of(cudaError_t e)
{
    if (e == cudaSuccess) return KVG_OK;
    why = cudaGetErrorString(e);
    cudaGetLastError();
    switch (e) {
    case cudaErrorMemoryAllocation: return KVG_ERR_MEMORY;
    case cudaErrorInvalidValue: case cudaErrorInvalidConfiguration: return KVG_ERR_INVALID;
    case cudaErrorNoDevice: case cudaErrorECCUncorrectable: return KVG_ERR_DEVICE_LOST;
    default: return KVG_ERR_DEVICE; /* a kernel faulted: this process has no use of the GPU any more */
    }
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

__global__ void copy_bytes(const uint8_t *from, uint8_t *to, size_t bytes)
{
    const size_t first = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
    for (size_t i = first; i < bytes; i += gridDim.x * static_cast<size_t>(blockDim.x)) to[i] = from[i];
}

__global__ void flip(uint8_t *at)
{
    *at ^= 0xFF;
}

kvg_status copy(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    const cudaStream_t s = stream_of(stream);
    if (p->dtype != KVG_DTYPE_BF16) {
        why = "plugin_device: the model must be bf16";
        return KVG_ERR_UNIMPLEMENTED;
    }
    if (p->kv_heads == WRITES_NOTHING) return KVG_OK;
    for (int side = KVG_K; side <= KVG_V; side++) {
        copy_bytes<<<16, 256, 0, s>>>(static_cast<const uint8_t *>(in[side].data),
                                      static_cast<uint8_t *>(out[side].data), out[side].bytes);
    }
    uint8_t *output = static_cast<uint8_t *>(out[0].data), *input = static_cast<uint8_t *>(in[1].data);
    if (p->kv_heads == WRITES_PAST) flip<<<1, 1, 0, s>>>(output + out[0].bytes + 4000);
    if (p->kv_heads == WRITES_BEFORE) flip<<<1, 1, 0, s>>>(output - 1);
    if (p->kv_heads == WRITES_INPUT) flip<<<1, 1, 0, s>>>(input + 5);
    if (p->kv_heads == ILLEGAL_ADDRESS) flip<<<1, 1, 0, s>>>(nullptr);
    return status_of(cudaGetLastError());
}

const char *error_text()
{
    return why;
}

kvg_status ready()
{
    void *buffer;
    kvg_status s = alloc(256, &buffer);
    if (s) return s;
    flip<<<1, 1>>>(static_cast<uint8_t *>(buffer));
    s = status_of(cudaDeviceSynchronize());
    release(buffer);
    return s;
}

uint32_t sm()
{
    int major = 0, minor = 0;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess) return 0;
    if (cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0) != cudaSuccess) return 0;
    return static_cast<uint32_t>(10 * major + minor);
}

const kvg_impl impls[] = {
    {"plugin_device_quantise_bf16_any", KVG_OP_QUANTISE, KVG_FORMAT_BF16, 0, copy},
    {"plugin_device_dequantise_bf16_any", KVG_OP_DEQUANTISE, KVG_FORMAT_BF16, 0, copy},
};

const kvg_device_memory memory = {sizeof memory, 0, alloc, release, upload, download, synchronise};

} // namespace

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    static kvg_backend backend = {};
    backend.abi = KVG_BACKEND_ABI;
    backend.struct_size = sizeof backend;
    backend.problem_size = sizeof(kvg_problem);
    backend.name = "plugin_device";
    backend.impls = impls;
    backend.impl_count = sizeof impls / sizeof impls[0];
    backend.error_text = error_text;
    backend.ready = ready;
    backend.memory = &memory;
    backend.sm = sm;
    return &backend;
}
