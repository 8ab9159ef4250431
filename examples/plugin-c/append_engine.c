/* A plug-in for kvgold: it appends bf16 rows to pages of any layout. */
#include <string.h>

#include "core/plugin.h"
#include "core/plugin_tensors.h"
#include "core/problem.h"

static const char *why = "";

static const char *error_text(void)
{
    return why;
}

/* A layout that joins K and V has the rows of both in K's pool: problem.map.codes[side].side says whose pool it is. */
static kvg_status append(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    if (p->dtype != KVG_DTYPE_BF16 || p->bias || p->rope.dims || p->paging.shared_kv) {
        why = "engine: only bf16 models, without bias and RoPE, with rows of K and of V";
        return KVG_ERR_UNIMPLEMENTED;
    }
    const int64_t *slots = in[KVG_APPEND_IN_SLOTS].data;
    const uint32_t block_tokens = p->paging.block_tokens;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_row_map *rows = &p->map.codes[side];
        const char *from = in[KVG_APPEND_IN_K + side].data;
        char *pool = out[KVG_APPEND_OUT_K_DATA + rows->side].data;
        for (uint32_t t = 0; t < p->tokens; t++) {
            if (slots[t] < 0) continue; /* the token is not stored */
            const uint32_t block = (uint32_t)(slots[t] / block_tokens), offset = (uint32_t)(slots[t] % block_tokens);
            for (uint32_t h = 0; h < p->kv_heads; h++) {
                memcpy(pool + kvg_rows_place(rows, p->paging.layer, block, h, offset, 0),
                       from + (size_t)(t * p->kv_heads + h) * rows->bytes, rows->bytes);
            }
        }
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
