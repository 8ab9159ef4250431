#include "core/transformer.h"

#include <string.h>

const char *kvg_products_name(kvg_products products)
{
    return products == KVG_PRODUCTS_LIBRARY ? "library" : "fixed";
}

kvg_status kvg_products_find(const char *name, kvg_products *out)
{
    *out = strcmp(name, "library") == 0 ? KVG_PRODUCTS_LIBRARY : KVG_PRODUCTS_FIXED;
    if (strcmp(name, kvg_products_name(*out)) == 0) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "'%s' is neither fixed nor library", name);
}

kvg_status kvg_model_check_layout(kvg_layout layout)
{
    const kvg_layout_info *info = kvg_layout_get(layout);
    if (info && info->paged && info->blocks == KVG_BLOCKS_TABLE && info->shared != KVG_SHARED_ALWAYS) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "layout %s has no block table for K and V: use hnd, nhd, turbomind, trtllm, vllm, "
                    "vllm_hnd or slot", info ? info->name : "?");
}

/* What the two have in common. It is laid out, because an op asks often where rows lie; a layout that cannot be read is
 * refused by kvg_problem_check. */
static kvg_problem layer_problem(const kvg_model_setup *setup, uint32_t layer)
{
    const kvg_model_config *c = setup->config;
    kvg_problem p = {
        .layout = setup->layout,
        .dtype = setup->dtype,
        .storage = {setup->storage[KVG_K], setup->storage[KVG_V]},
        .kv_heads = c->kv_heads,
        .head_dim = c->head_dim,
        .paging = {.layers = c->layers,
                   .layer = layer,
                   .blocks = setup->blocks,
                   .block_tokens = setup->block_tokens},
    };
    if (!kvg_layout_get(p.layout) || kvg_problem_lay_out(&p)) p.laid_out = 0;
    return p;
}

kvg_problem kvg_model_append(const kvg_model_setup *setup, uint32_t layer, uint32_t rows)
{
    kvg_problem p = layer_problem(setup, layer);
    p.op = KVG_OP_APPEND;
    p.tokens = rows;
    p.rope = setup->config->rope;
    p.rope.positions = setup->max_tokens;
    p.bias = setup->config->attention_bias;
    return p;
}

kvg_problem kvg_model_decode(const kvg_model_setup *setup, uint32_t layer, const kvg_model_step *step)
{
    const kvg_model_config *c = setup->config;
    kvg_problem p = layer_problem(setup, layer);
    p.op = KVG_OP_DECODE;
    p.tokens = step->longest;
    p.paging.sequences = step->sequences;
    p.profile = setup->profile;
    p.attention = (kvg_attention){.query_heads = c->query_heads,
                                  .queries = step->rows,
                                  .window = c->sliding[layer] ? c->window : 0,
                                  .sinks = c->sinks};
    return p;
}
