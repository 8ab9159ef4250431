/* A backend whose kernels misbehave on purpose, to prove that the harness notices and goes on, and that
 * compute-sanitizer sees what no answer shows. The number of KV heads chooses what goes wrong;
 * tests/planted/planted_cuda.json has a case for each. The answer itself is the reference's, copied by a kernel. */
#undef NDEBUG /* the assertion is the point */
#include <cassert>
#include <cstring>

#include "gpu/device/cuda_status.cuh"
#include "gpu/gpu.h"
#include "reference/reference.h"

namespace {

enum planted {
    ILLEGAL_ADDRESS = 2,
    MISALIGNED = 4,
    TRAPS = 6,
    ASSERTS = 8,
    ENDLESS = 10,
    STACK_OVERFLOW = 12,
    NO_LAUNCH = 14,    /* a launch that CUDA refuses: an error of this case, and the process is as good as before */
    /* right answers that only a sanitizer finds fault with; odd numbers up to here are right in every way */
    PAST_THE_END = 20, /* memcheck: a byte behind a buffer, within what the driver rounds an allocation up to */
    RACE = 21,         /* racecheck: a warp reads what another may not have written */
    UNWRITTEN = 22,    /* initcheck: reads a byte that nobody wrote */
    DIVERGENT = 23,    /* synccheck: half of a warp waits at a barrier that the other half never reaches */
};

__global__ void copy_bytes(const uint8_t *from, uint8_t *to, size_t bytes)
{
    for (size_t i = threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i];
}

__global__ void write_to(uint32_t *to)
{
    *to = 1;
}

__global__ void trap(void)
{
    __trap();
}

__global__ void fail_assertion(int zero)
{
    assert(zero != 0);
}

__global__ void spin(volatile uint32_t *flag)
{
    while (*flag == 0) {}
}

__device__ __noinline__ uint32_t dig(uint32_t depth, volatile uint32_t *data)
{
    uint32_t frame[64];
    for (int i = 0; i < 64; i++) frame[i] = data[0] + depth;
    const uint32_t below = depth == UINT32_MAX ? 0 : dig(depth + 1, data);
    return below + frame[below % 64];
}

__global__ void overflow_stack(volatile uint32_t *data)
{
    data[0] = dig(0, data);
}

__global__ void large_block(uint8_t *to)
{
    to[threadIdx.x] = 0;
}

__global__ void race(uint8_t *to)
{
    __shared__ volatile uint8_t bytes[64];
    bytes[threadIdx.x] = (uint8_t)threadIdx.x;
    to[threadIdx.x % 2] = bytes[63 - threadIdx.x]; /* no barrier between */
}

__global__ void copy_unwritten(const uint8_t *from, uint8_t *to)
{
    to[0] = from[0];
}

__global__ void wait_divergent(uint8_t *to)
{
    if (threadIdx.x < 16) __syncthreads();
    to[threadIdx.x % 2] = 0;
}

enum { SCRATCH = 64 };

struct device_bytes {
    uint8_t *from, *to; /* the answer, and where a kernel copies it */
    uint8_t *scratch;   /* SCRATCH bytes; nobody writes them before the planted kernel does */
};

kvg_status misbehave(uint32_t what, const device_bytes &d)
{
    switch (what) {
    case ILLEGAL_ADDRESS: write_to<<<1, 1>>>((uint32_t *)nullptr); break;
    case MISALIGNED: write_to<<<1, 1>>>((uint32_t *)(d.scratch + 1)); break;
    case TRAPS: trap<<<1, 1>>>(); break;
    case ASSERTS: fail_assertion<<<1, 1>>>(0); break;
    case ENDLESS:
        cudaMemset(d.scratch, 0, 4);
        spin<<<1, 1>>>((uint32_t *)d.scratch);
        break;
    case STACK_OVERFLOW: overflow_stack<<<1, 1>>>((uint32_t *)d.scratch); break;
    case NO_LAUNCH: large_block<<<1, 4096>>>(d.scratch); break;
    case PAST_THE_END: copy_bytes<<<1, 1>>>(d.from, d.scratch + SCRATCH, 1); break;
    case RACE: race<<<1, 64>>>(d.scratch); break;
    case UNWRITTEN: copy_unwritten<<<1, 1>>>(d.scratch + 8, d.scratch); break;
    case DIVERGENT: wait_divergent<<<1, 32>>>(d.scratch); break;
    default: break;
    }
    return kvg_cuda_status("a planted kernel", cudaGetLastError());
}

/* The reference's bytes, there and back through a kernel. */
kvg_status through_device(uint32_t what, uint8_t *bytes, size_t count)
{
    device_bytes d = {};
    kvg_status s = kvg_gpu_alloc(count, (void **)&d.from);
    if (!s) s = kvg_gpu_alloc(count, (void **)&d.to);
    if (!s) s = kvg_gpu_alloc(SCRATCH, (void **)&d.scratch);
    if (!s) s = kvg_gpu_upload(d.from, bytes, count, nullptr);
    if (!s) s = misbehave(what, d);
    if (!s) copy_bytes<<<1, 128>>>(d.from, d.to, count);
    if (!s) s = kvg_cuda_status("copy", cudaGetLastError());
    if (!s) memset(bytes, 0, count);
    if (!s) s = kvg_gpu_download(bytes, d.to, count, nullptr);
    kvg_gpu_free(d.from);
    kvg_gpu_free(d.to);
    kvg_gpu_free(d.scratch);
    return s;
}

kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *)
{
    kvg_status s = kvg_reference_run(p, in, out);
    return s ? s : through_device(p->kv_heads, (uint8_t *)out[0].data, out[0].bytes);
}

const kvg_impl impl = {"planted_cuda_quantise", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run};

} // namespace

extern "C" const kvg_backend *kvg_backend_export(void)
{
    static kvg_backend backend = {};
    backend.abi = KVG_BACKEND_ABI;
    backend.struct_size = sizeof backend;
    backend.name = "planted_cuda";
    backend.impls = &impl;
    backend.impl_count = 1;
    backend.error_text = kvg_error_text;
    backend.ready = kvg_gpu_ready;
    return &backend;
}
