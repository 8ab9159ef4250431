/* A plug-in for kvgold: it appends bf16 rows to pages of layout nhd, [layer][block][offset][head][dim]. */
#include <string.h>

#include "core/plugin.h"
#include "core/plugin_tensors.h"

static const char *why = "";

static const char *error_text(void)
{
    return why;
}

static kvg_status append(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    const kvg_paging *g = &p->paging;
    if (p->layout != KVG_LAYOUT_NHD || p->dtype != KVG_DTYPE_BF16 || p->bias || p->rope.dims || g->row_padding ||
        g->data_padding) {
        why = "engine: only bf16 models on layout nhd, without bias, RoPE and padding";
        return KVG_ERR_UNIMPLEMENTED;
    }
    const int64_t *slots = in[KVG_APPEND_IN_SLOTS].data;
    const int64_t slots_of_layer = (int64_t)g->blocks * g->block_tokens;
    const size_t token_bytes = (size_t)p->kv_heads * p->head_dim * 2; /* the rows of all heads lie side by side */
    for (uint32_t t = 0; t < p->tokens; t++) {
        if (slots[t] < 0) continue; /* the token is not stored */
        const int64_t block = slots[t] / g->block_tokens, offset = slots[t] % g->block_tokens;
        const size_t at = (size_t)(g->layer * slots_of_layer + block * g->block_tokens + offset) * token_bytes;
        memcpy((char *)out[KVG_APPEND_OUT_K_DATA].data + at, (const char *)in[KVG_APPEND_IN_K].data + t * token_bytes,
               token_bytes);
        memcpy((char *)out[KVG_APPEND_OUT_V_DATA].data + at, (const char *)in[KVG_APPEND_IN_V].data + t * token_bytes,
               token_bytes);
    }
    return KVG_OK;
}

static const kvg_impl impls[] = {{"engine_append_bf16_any", KVG_OP_APPEND, KVG_FORMAT_BF16, 0, append}};

static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof backend,
    .problem_size = sizeof(kvg_problem),
    .name = "engine",
    .impls = impls,
    .impl_count = sizeof impls / sizeof impls[0],
    .error_text = error_text,
};

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    return &backend;
}
