/* libkvgold_cuda.so: the CUDA ops as a plug-in (core/plugin.h) whose tensors lie on the first GPU. `kvgold check
 * --backend` judges it, and kvgold.torch runs its ops on the caller's own tensors and stream.
 *
 * One call at a time: all calls of op decode share one workspace, which grows and is never given back. A call on
 * another stream than the one before must wait for it. */
#include "gpu/gpu.h"

static kvg_status run_decode(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    static void *workspace;
    static size_t size;
    size_t bytes;
    kvg_status s = kvg_gpu_decode_workspace(problem, &bytes);
    if (!s && problem->profile != KVG_PROFILE_NONE) s = kvg_gpu_check_profile(problem->profile);
    if (!s && bytes > size) {
        kvg_gpu_free(workspace); /* waits for the kernels */
        workspace = NULL;
        size = 0;
        s = kvg_gpu_alloc(bytes, &workspace);
        if (!s) size = bytes;
    }
    return s ? s : kvg_gpu_decode(problem, in, out, workspace, stream);
}

/* What kernels there are is asked of the backend on tensors of the host, which knows the machine. */
static uint32_t caps(void)
{
    return kvg_gpu_backend()->caps();
}

static uint32_t sm(void)
{
    kvg_gpu_device device;
    size_t count;
    return kvg_gpu_devices(&device, 1, &count) == KVG_OK && count ? device.sm : 0;
}

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    static const kvg_impl impls[] = {
        {"cuda_device_append_any_sm80", KVG_OP_APPEND, KVG_FORMAT_NONE, KVG_GPU_SM80, kvg_gpu_append},
        {"cuda_device_flatten_any_sm80", KVG_OP_FLATTEN, KVG_FORMAT_NONE, KVG_GPU_SM80, kvg_gpu_flatten},
        {"cuda_device_expand_any_sm80", KVG_OP_EXPAND, KVG_FORMAT_NONE, KVG_GPU_SM80, kvg_gpu_flatten},
        {"cuda_device_probe_any_sm80", KVG_OP_PROBE, KVG_FORMAT_NONE, KVG_GPU_SM80, kvg_gpu_probe},
        {"cuda_device_decode_any_sm80", KVG_OP_DECODE, KVG_FORMAT_NONE, KVG_GPU_SM80, run_decode},
    };
    static const kvg_device_memory memory = {
        .struct_size = sizeof memory,
        .alloc = kvg_gpu_alloc,
        .release = kvg_gpu_free,
        .upload = kvg_gpu_upload,
        .download = kvg_gpu_download,
    };
    static const kvg_backend backend = {
        .abi = KVG_BACKEND_ABI,
        .struct_size = sizeof backend,
        .problem_size = sizeof(kvg_problem),
        .name = "cuda_device",
        .impls = impls,
        .impl_count = sizeof impls / sizeof impls[0],
        .caps = caps,
        .error_text = kvg_error_text,
        .ready = kvg_gpu_ready,
        .memory = &memory,
        .sm = sm,
    };
    return &backend;
}
