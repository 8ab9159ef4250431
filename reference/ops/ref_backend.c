/* The reference as a backend: its table of implementations. */
#include "reference/ops/ref_ops.h"
#include "reference/reference.h"

static const kvg_impl impls[] = {
    {"reference_quantise_any_c", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, ref_quantise},
    {"reference_dequantise_any_c", KVG_OP_DEQUANTISE, KVG_FORMAT_NONE, 0, ref_dequantise},
    {"reference_append_any_c", KVG_OP_APPEND, KVG_FORMAT_NONE, 0, ref_paged},
    {"reference_flatten_any_c", KVG_OP_FLATTEN, KVG_FORMAT_NONE, 0, ref_paged},
    {"reference_expand_any_c", KVG_OP_EXPAND, KVG_FORMAT_NONE, 0, ref_paged},
    {"reference_probe_any_c", KVG_OP_PROBE, KVG_FORMAT_NONE, 0, ref_paged},
    {"reference_decode_any_c", KVG_OP_DECODE, KVG_FORMAT_NONE, 0, ref_decode},
    {"reference_merge_any_c", KVG_OP_MERGE, KVG_FORMAT_NONE, 0, ref_decode},
    {"reference_mma_any_c", KVG_OP_MMA, KVG_FORMAT_NONE, 0, ref_mma},
};

static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof backend,
    .name = "reference",
    .impls = impls,
    .impl_count = sizeof impls / sizeof impls[0],
    .error_text = kvg_error_text,
    .problem_size = sizeof(kvg_problem),
};

const kvg_backend *kvg_reference_backend(void)
{
    return &backend;
}

kvg_status kvg_reference_run(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_impl *impl;
    kvg_status s = kvg_backend_choose(&backend, problem, &impl);
    return s ? s : impl->run(problem, in, out, NULL);
}
