/* Right at its first call, idle ever after: a timed run that is not checked would call it the fastest of all. */
#include "reference/reference.h"

static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    static int calls;
    return calls++ > 0 ? KVG_OK : kvg_reference_run(p, in, out);
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
