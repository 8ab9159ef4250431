/* Any bytes as a model's config.json. What is read keeps the promises of model/checkpoint/model_config.h: sizes that
 * fit each other, a rope that has a table. What is refused leaves one line with the file's name. */
#include <string.h>

#include "model/checkpoint/model_config.h"
#include "reference/rope_table.h"
#include "tests/fuzz/fuzz_require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_config(const kvg_model_config *c)
{
    bool any = false;
    kvg_rope_numbers numbers;
    require(c->vocab && c->hidden && c->intermediate && c->layers && c->layers <= KVG_MODEL_MAX_LAYERS);
    require(c->query_heads && c->kv_heads && c->query_heads % c->kv_heads == 0);
    require(c->head_dim && c->head_dim % 2 == 0 && c->head_dim <= KVG_MAX_HEAD_DIM && c->positions);
    require(c->rms_eps > 0 && c->top_k <= c->experts && (c->experts > 0) == (c->family == KVG_MODEL_GPT_OSS));
    require(c->rope.dims == c->head_dim && c->rope.scaling.kind != KVG_ROPE_DYNAMIC);
    require(kvg_reference_rope_numbers(&c->rope, &numbers) == KVG_OK);
    for (uint32_t i = 0; i < c->layers; i++) any = any || c->sliding[i];
    require(any == (c->window > 0));
    require(!c->mxfp4 || (c->hidden % 32 == 0 && c->intermediate % 32 == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kvg_model_config config;
    const kvg_status s = kvg_model_config_parse("fuzz.json", (const char *)data, size, &config);
    if (s == KVG_OK) {
        check_config(&config);
        return 0;
    }
    require(s == KVG_ERR_INVALID);
    const char *text = kvg_error_text();
    require(strncmp(text, "fuzz.json: ", 11) == 0);
    require_line(text);
    return 0;
}
