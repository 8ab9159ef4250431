/* Op decode: which family of kernels answers a problem. */
#include "gpu/decode.h"
#include "gpu/ops.h"

/* The problem's profile says it. Without one: tensor cores where they have a kernel, else plain f32. */
static kvg_status choose(const kvg_problem *p, const kvg_decode_family **out)
{
    size_t bytes;
    kvg_status s = kvg_problem_check(p);
    if (s) return s;
    *out = &kvg_decode_simt;
    if (p->profile != KVG_PROFILE_SIMT_FMA_V1 && p->profile != KVG_PROFILE_NONE) *out = &kvg_decode_mma;
    else if (p->profile == KVG_PROFILE_NONE && !kvg_decode_mma.workspace(p, &bytes)) *out = &kvg_decode_mma;
    return KVG_OK;
}

kvg_status kvg_gpu_decode_workspace(const kvg_problem *p, size_t *bytes)
{
    const kvg_decode_family *family;
    kvg_status s = choose(p, &family);
    return s ? s : family->workspace(p, bytes);
}

kvg_status kvg_gpu_decode(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, void *workspace,
                          kvg_stream *stream)
{
    const kvg_decode_family *family;
    kvg_status s = choose(p, &family);
    return s ? s : family->run(p, in, out, workspace, stream);
}
