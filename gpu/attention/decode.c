/* Op decode: which family of kernels answers a problem (gpu/attention/shared/family.h). */
#include "gpu/attention/many/many_plan.h"
#include "gpu/attention/shared/family.h"
#include "gpu/ops.h"

static bool takes(const kvg_decode_family *family, const kvg_problem *p)
{
    size_t bytes;
    return family->workspace(p, &bytes) == KVG_OK;
}

/* The problem's profile says it. Of the two that give the bits of the tensor cores the faster one, where it has room.
 * Without a profile: tensor cores where they have a kernel, else plain f32. */
static kvg_status choose(const kvg_problem *p, const kvg_decode_family **out)
{
    kvg_status s = kvg_problem_check(p);
    if (s) return s;
    if (p->profile == KVG_PROFILE_SIMT_FMA_V1) *out = &kvg_decode_simt;
    else if (many_is_worth_it(p) && takes(&kvg_decode_mma_many, p)) *out = &kvg_decode_mma_many;
    else if (takes(&kvg_decode_mma_few, p)) *out = &kvg_decode_mma_few;
    else if (p->profile == KVG_PROFILE_NONE) *out = &kvg_decode_simt;
    else *out = many_is_alone(p) ? &kvg_decode_mma_many : &kvg_decode_mma_few; /* which says why not */
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
