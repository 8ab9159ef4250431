/* Problems whose tensors lie on the device, for tests that ask gpu/ops.h directly. Failures end the program. */
#ifndef KVG_TESTS_GPU_DEVICE_WORLD_CUH
#define KVG_TESTS_GPU_DEVICE_WORLD_CUH

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

#include "gpu/gpu.h"
#include "gpu/ops.h"

enum { DEVICE_POISON = 0xA5 };

static inline void device_check(kvg_status s)
{
    if (s == KVG_OK) return;
    fprintf(stderr, "FAILED: %s: %s\n", kvg_status_name(s), kvg_error_text());
    exit(1);
}

static inline void device_check(cudaError_t error)
{
    if (error == cudaSuccess) return;
    fprintf(stderr, "FAILED: %s\n", cudaGetErrorString(error));
    exit(1);
}

/* The first GPU; without one the program ends with the exit status of a skip. */
static inline kvg_gpu_device device_first()
{
    enum { SKIP = 77 };
    kvg_gpu_device device;
    size_t found;
    device_check(kvg_gpu_devices(&device, 1, &found));
    if (found > 0) return device;
    printf("skipped: there is no GPU\n");
    exit(SKIP);
}

/* Element i from i alone: f16 or bf16 of either sign, of a few binades below 2. */
static __global__ void device_fill_values(uint16_t *out, size_t count, uint32_t seed)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x) {
        uint64_t h = (i + 1) * 0x9E3779B97F4A7C15ull + seed;
        h = (h ^ h >> 29) * 0xBF58476D1CE4E5B9ull;
        out[i] = (uint16_t)((h >> 40 & 0x87FF) | 0x3800);
    }
}

/* Adds to *different how many bytes of a are not those of b; b null: not DEVICE_POISON. */
static __global__ void device_count(const uint8_t *a, const uint8_t *b, size_t bytes, unsigned long long *different)
{
    unsigned long long mine = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < bytes; i += (size_t)gridDim.x * blockDim.x) {
        mine += a[i] != (b ? b[i] : (uint8_t)DEVICE_POISON);
    }
    if (mine) atomicAdd(different, mine);
}

/* Counts differences of bytes on the device, queued like any work; read at the end. */
struct device_tally {
    unsigned long long *different;
    unsigned long long compared = 0;
    device_tally()
    {
        device_check(cudaMalloc(&different, sizeof *different));
        device_check(cudaMemset(different, 0, sizeof *different));
    }
    ~device_tally() { cudaFree(different); }
    void compare(const void *a, const void *b, size_t bytes, cudaStream_t stream = nullptr)
    {
        if (!bytes) return;
        device_count<<<(unsigned)(bytes / 4096 < 4096 ? bytes / 4096 + 1 : 4096), 256, 0, stream>>>(
            (const uint8_t *)a, (const uint8_t *)b, bytes, different);
        device_check(cudaGetLastError());
        compared += bytes;
    }
    unsigned long long read()
    {
        unsigned long long n;
        device_check(cudaDeviceSynchronize());
        device_check(cudaMemcpy(&n, different, sizeof n, cudaMemcpyDeviceToHost));
        return n;
    }
};

/* A problem, and a tensor on the device for each of its op's; some may belong to another world. */
struct device_world {
    kvg_problem p;
    const kvg_op_info *op;
    kvg_tensor in[KVG_MAX_TENSORS] = {}, out[KVG_MAX_TENSORS] = {};
    size_t inputs, outputs;
    void *workspace = nullptr; /* op decode */
    std::vector<void *> owned;

    explicit device_world(const kvg_problem &problem) : p(problem), op(kvg_op_get(problem.op))
    {
        device_check(kvg_problem_check(&p));
        inputs = kvg_roles_tensors(op->inputs), outputs = kvg_roles_tensors(op->outputs);
        for (size_t i = 0; i < inputs + outputs; i++) {
            kvg_role role;
            kvg_side side;
            const bool is_input = i < inputs;
            kvg_roles_at(is_input ? op->inputs : op->outputs, is_input ? i : i - inputs, &role, &side);
            (is_input ? in[i] : out[i - inputs]) = kvg_problem_tensor(&p, role, side);
        }
        size_t bytes;
        if (p.op != KVG_OP_DECODE) return;
        device_check(kvg_gpu_decode_workspace(&p, &bytes));
        workspace = alloc(bytes);
        device_check(cudaMemset(workspace, DEVICE_POISON, bytes));
    }
    device_world(const device_world &) = delete;
    ~device_world()
    {
        for (void *buffer : owned) cudaFree(buffer);
    }
    void *alloc(size_t bytes)
    {
        void *buffer = nullptr;
        device_check(cudaMalloc(&buffer, bytes ? bytes : 1));
        owned.push_back(buffer);
        return buffer;
    }
    kvg_tensor &input(kvg_role role, kvg_side side = KVG_K) { return in[kvg_roles_index(op->inputs, role, side)]; }
    kvg_tensor &output(kvg_role role, kvg_side side = KVG_K) { return out[kvg_roles_index(op->outputs, role, side)]; }
    void alloc_outputs()
    {
        for (size_t i = 0; i < outputs; i++) out[i].data = alloc(out[i].bytes);
    }
    /* The host's numbers as an input; nothing where the problem has no such tensor. */
    template <typename number> void put(kvg_role role, kvg_side side, const std::vector<number> &numbers)
    {
        kvg_tensor &t = input(role, side);
        if (t.bytes == 0) return;
        const size_t given = numbers.size() * sizeof(number);
        if (t.bytes != given) {
            device_check(kvg_fail(KVG_ERR_INVALID, "a tensor of %zu bytes, %zu given", t.bytes, given));
        }
        t.data = alloc(t.bytes);
        device_check(cudaMemcpy(t.data, numbers.data(), t.bytes, cudaMemcpyHostToDevice));
    }
    void put_scales()
    {
        put<float>(KVG_ROLE_TENSOR_SCALE, KVG_K, {0.0123f});
        put<float>(KVG_ROLE_TENSOR_SCALE, KVG_V, {0.0321f});
    }
    void fill_values(kvg_role role, kvg_side side, uint32_t seed)
    {
        kvg_tensor &t = input(role, side);
        t.data = alloc(t.bytes);
        device_fill_values<<<1024, 256>>>((uint16_t *)t.data, t.bytes / 2, seed);
        device_check(cudaGetLastError());
    }
    /* Another op's pools, as inputs here. */
    void take_pools(const device_world &cache)
    {
        for (const kvg_role role : {KVG_ROLE_DATA_POOL, KVG_ROLE_SCALE_POOL}) {
            for (const kvg_side side : {KVG_K, KVG_V}) {
                input(role, side).data = cache.out[kvg_roles_index(cache.op->outputs, role, side)].data;
            }
        }
    }
    void poison(cudaStream_t stream = nullptr)
    {
        for (size_t i = 0; i < outputs; i++) {
            if (out[i].bytes) device_check(cudaMemsetAsync(out[i].data, DEVICE_POISON, out[i].bytes, stream));
        }
    }
    void launch(cudaStream_t stream = nullptr)
    {
        kvg_stream *queue = (kvg_stream *)stream;
        if (p.op == KVG_OP_APPEND) device_check(kvg_gpu_append(&p, in, out, queue));
        else if (p.op == KVG_OP_DECODE) device_check(kvg_gpu_decode(&p, in, out, workspace, queue));
        else if (p.op == KVG_OP_PROBE) device_check(kvg_gpu_probe(&p, in, out, queue));
        else device_check(kvg_gpu_flatten(&p, in, out, queue));
    }
};

#endif
