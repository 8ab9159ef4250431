/* Right at its first call, idle ever after: a timed run that is not checked would call it the fastest of all. */
#include "reference/reference.h"

static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    static int calls;
    const kvg_impl *right;
    if (calls++ > 0) return KVG_OK;
    kvg_status s = kvg_backend_choose(kvg_reference_backend(), p, &right);
    return s ? s : right->run(p, in, out, stream);
}

static const kvg_impl impl = {"lazy_quantise", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run};
static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof backend,
    .name = "lazy",
    .impls = &impl,
    .impl_count = 1,
};

const kvg_backend *kvg_backend_export(void);
const kvg_backend *kvg_backend_export(void)
{
    return &backend;
}
