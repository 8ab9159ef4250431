/* The CUDA backend: implementations by what the GPU can do, on tensors of the host. Nothing here opens CUDA before the
 * first question about the machine, so a parent process may hold the backend and leave its use to a child. */
#include "gpu/gpu.h"
#include "gpu/inputs/gpu_inputs.h"
#include "gpu/ops.h"

/* --- the GPU that everything runs on: the first --- */

static kvg_status find_device(kvg_gpu_device *out)
{
    static kvg_gpu_device device;
    static size_t count;
    if (count == 0) {
        kvg_status s = kvg_gpu_devices(&device, 1, &count);
        if (s) return s;
    }
    *out = device;
    return count ? KVG_OK : kvg_fail(KVG_ERR_UNIMPLEMENTED, "backend cuda needs a GPU, and this machine has none");
}

uint32_t kvg_gpu_caps(uint32_t sm)
{
    static const struct {
        uint32_t least_sm, bit;
    } rows[] = {{80, KVG_GPU_SM80}, {90, KVG_GPU_SM90}, {100, KVG_GPU_FP4}};
    uint32_t caps = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) caps |= sm >= rows[i].least_sm ? rows[i].bit : 0;
    return caps;
}

/* What the GPU can do, and this build's code for it. */
static uint32_t machine_caps(void)
{
    static bool is_known, has_fp4;
    kvg_gpu_device device;
    if (find_device(&device)) return 0;
    const uint32_t caps = kvg_gpu_caps(device.sm);
    if (caps & KVG_GPU_FP4 && !is_known) is_known = kvg_gpu_hardware_fp4(&has_fp4) == KVG_OK;
    return has_fp4 ? caps : caps & ~(uint32_t)KVG_GPU_FP4;
}

/* --- tensors of the host on the device --- */

/* Queues an op on tensors whose data lie on the device. */
typedef kvg_status launch_fn(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream);

/* Allocates `count` tensors and uploads what the host's hold: of outputs too, as an op need not write all of them. */
static kvg_status upload(const kvg_tensor *host, size_t count, kvg_tensor *device, kvg_stream *stream)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < count && !s; i++) {
        device[i] = host[i];
        device[i].data = NULL;
        if (host[i].bytes == 0) continue;
        s = kvg_gpu_alloc(host[i].bytes, &device[i].data);
        if (!s) s = kvg_gpu_upload(device[i].data, host[i].data, host[i].bytes, stream);
    }
    return s;
}

static kvg_status run_on_device(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream,
                                launch_fn *launch)
{
    const kvg_op_info *op = kvg_op_get(problem->op);
    const size_t inputs = kvg_roles_tensors(op->inputs), outputs = kvg_roles_tensors(op->outputs);
    kvg_tensor device_in[KVG_MAX_TENSORS] = {0}, device_out[KVG_MAX_TENSORS] = {0};
    kvg_status s = upload(in, inputs, device_in, stream);
    if (!s) s = upload(out, outputs, device_out, stream);
    if (!s) s = launch(problem, device_in, device_out, stream);
    for (size_t i = 0; i < outputs && !s; i++) {
        if (out[i].bytes) s = kvg_gpu_download(out[i].data, device_out[i].data, out[i].bytes, stream);
    }
    for (size_t i = 0; i < KVG_MAX_TENSORS; i++) {
        kvg_gpu_free(device_in[i].data);
        kvg_gpu_free(device_out[i].data);
    }
    return s;
}

/* --- ops --- */

/* A chip gives the bits of its newest profile and of no other's. */
kvg_status kvg_gpu_check_profile(kvg_profile profile)
{
    kvg_gpu_device device;
    kvg_profile own;
    kvg_status s = find_device(&device);
    if (s) return s;
    if (kvg_profile_of_sm(device.sm, &own)) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s is an sm_%u: core/profiles.def has no row for it", device.name,
                        device.sm);
    }
    if (profile == own || profile == KVG_PROFILE_SIMT_FMA_V1) return KVG_OK;
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s gives the bits of %s, not of %s", device.name,
                    kvg_profile_get(own)->name, kvg_profile_get(profile)->name);
}

static kvg_status launch_mma(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    return kvg_gpu_mma(problem->dtype, problem->tokens, in[0].data, in[1].data, in[2].data, out[0].data, stream);
}

static kvg_status run_mma(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    const kvg_profile_info *profile = kvg_profile_get(problem->profile);
    kvg_gpu_device device;
    kvg_status s = kvg_problem_check(problem);
    if (!s) s = find_device(&device);
    if (!s && profile->chip->sm != device.sm) { /* all contracts of a chip have its sums */
        s = kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s is an sm_%u: it does not give the sums of %s", device.name, device.sm,
                     profile->name);
    }
    return s ? s : run_on_device(problem, in, out, stream, launch_mma);
}

/* Ops that cannot be done, and numbers that must be refused, are told before anything is copied. */
static kvg_status run_rows(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream,
                           launch_fn *launch)
{
    kvg_status s = problem->op == KVG_OP_PROBE ? kvg_problem_check(problem) : kvg_gpu_check_rows(problem);
    if (!s) s = kvg_gpu_check_inputs(problem, in);
    return s ? s : run_on_device(problem, in, out, stream, launch);
}

static kvg_status run_append(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    return run_rows(problem, in, out, stream, kvg_gpu_append);
}

static kvg_status run_flatten(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    return run_rows(problem, in, out, stream, kvg_gpu_flatten);
}

static kvg_status run_probe(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    return run_rows(problem, in, out, stream, kvg_gpu_probe);
}

/* With a workspace of its own. */
static kvg_status launch_decode(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    size_t bytes;
    void *workspace = NULL;
    kvg_status s = kvg_gpu_decode_workspace(problem, &bytes);
    if (!s) s = kvg_gpu_alloc(bytes, &workspace);
    if (!s) s = kvg_gpu_decode(problem, in, out, workspace, stream);
    kvg_gpu_free(workspace); /* waits for the kernels */
    return s;
}

static kvg_status run_decode(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    size_t bytes;
    kvg_status s = kvg_gpu_decode_workspace(problem, &bytes); /* before anything is copied */
    if (!s && problem->profile != KVG_PROFILE_NONE) s = kvg_gpu_check_profile(problem->profile);
    if (!s) s = kvg_gpu_check_inputs(problem, in);
    return s ? s : run_on_device(problem, in, out, stream, launch_decode);
}

/* The last row of every op: no GPU, or one that lacks what the rows before it need. */
static kvg_status run_nowhere(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)in, (void)out, (void)stream;
    kvg_gpu_device device;
    kvg_status s = find_device(&device);
    if (s) return s;
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s is an sm_%u: op %s needs a newer GPU", device.name, device.sm,
                    kvg_op_get(problem->op)->name);
}

static const kvg_impl impls[] = {
    {"cuda_append_any_sm100", KVG_OP_APPEND, KVG_FORMAT_NONE, KVG_GPU_FP4, run_append},
    {"cuda_append_any_sm80", KVG_OP_APPEND, KVG_FORMAT_NONE, KVG_GPU_SM80, run_append},
    {"cuda_append_any_none", KVG_OP_APPEND, KVG_FORMAT_NONE, 0, run_nowhere},
    {"cuda_flatten_any_sm100", KVG_OP_FLATTEN, KVG_FORMAT_NONE, KVG_GPU_FP4, run_flatten},
    {"cuda_flatten_any_sm80", KVG_OP_FLATTEN, KVG_FORMAT_NONE, KVG_GPU_SM80, run_flatten},
    {"cuda_flatten_any_none", KVG_OP_FLATTEN, KVG_FORMAT_NONE, 0, run_nowhere},
    {"cuda_expand_any_sm100", KVG_OP_EXPAND, KVG_FORMAT_NONE, KVG_GPU_FP4, run_flatten},
    {"cuda_expand_any_sm80", KVG_OP_EXPAND, KVG_FORMAT_NONE, KVG_GPU_SM80, run_flatten},
    {"cuda_expand_any_none", KVG_OP_EXPAND, KVG_FORMAT_NONE, 0, run_nowhere},
    {"cuda_probe_any_sm80", KVG_OP_PROBE, KVG_FORMAT_NONE, KVG_GPU_SM80, run_probe},
    {"cuda_probe_any_none", KVG_OP_PROBE, KVG_FORMAT_NONE, 0, run_nowhere},
    {"cuda_decode_any_sm80", KVG_OP_DECODE, KVG_FORMAT_NONE, KVG_GPU_SM80, run_decode},
    {"cuda_decode_any_none", KVG_OP_DECODE, KVG_FORMAT_NONE, 0, run_nowhere},
    {"cuda_mma_any_sm80", KVG_OP_MMA, KVG_FORMAT_NONE, KVG_GPU_SM80, run_mma},
    {"cuda_mma_any_none", KVG_OP_MMA, KVG_FORMAT_NONE, 0, run_nowhere},
};

static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof backend,
    .problem_size = sizeof(kvg_problem),
    .name = "cuda",
    .impls = impls,
    .impl_count = sizeof impls / sizeof impls[0],
    .caps = machine_caps,
    .error_text = kvg_error_text,
    .ready = kvg_gpu_ready,
};

const kvg_backend *kvg_gpu_backend(void)
{
    return &backend;
}
