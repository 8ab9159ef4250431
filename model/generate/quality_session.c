#include "model/generate/quality_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/checkpoint/model_weights.h"
#include "model/generate/quality_hooks.h"
#include "model/model_run.h"

enum { KEY_SIZE = 8400 }; /* room for two paths */

/* The last one of each: cases mostly follow each other with the same. Keys are "" where there is none. */
struct kvg_quality_session {
    kvg_quality_result result; /* of the last case */
    char model_key[KEY_SIZE], texts_key[KEY_SIZE], amax_key[KEY_SIZE], base_key[KEY_SIZE];
    kvg_model_config config;
    kvg_model_weights *weights;
    kvg_quality_texts texts;
    float (*amax)[2], *amax_before_rope;
    kvg_quality_answer base;
};

kvg_storage kvg_quality_plain_storage(kvg_dtype dtype)
{
    return (kvg_storage){kvg_format_of_dtype(dtype == KVG_DTYPE_F16 ? dtype : KVG_DTYPE_BF16), "canonical"};
}

kvg_status kvg_quality_session_open(kvg_quality_session **out)
{
    *out = calloc(1, sizeof **out);
    return *out ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "no memory for a model's cases");
}

kvg_quality_result *kvg_quality_session_result(kvg_quality_session *session)
{
    session->result = (kvg_quality_result){0};
    return &session->result;
}

static void drop_base(kvg_quality_session *session)
{
    kvg_quality_answer_free(&session->base);
    session->base_key[0] = 0;
}

static void drop_amax(kvg_quality_session *session)
{
    free(session->amax);
    free(session->amax_before_rope);
    session->amax = NULL;
    session->amax_before_rope = NULL;
    session->amax_key[0] = 0;
}

void kvg_quality_session_close(kvg_quality_session *session)
{
    if (!session) return;
    drop_base(session);
    drop_amax(session);
    kvg_quality_texts_free(&session->texts);
    kvg_model_weights_close(session->weights);
    free(session);
}

kvg_status kvg_quality_session_model(kvg_quality_session *session, const char *folder, kvg_model_setup *setup)
{
    kvg_status s = KVG_OK;
    if (strcmp(session->model_key, folder) != 0) {
        char path[KEY_SIZE];
        kvg_model_weights_close(session->weights);
        session->weights = NULL;
        session->model_key[0] = 0;
        if (snprintf(path, sizeof path, "%s/config.json", folder) >= (int)sizeof path) {
            return kvg_fail(KVG_ERR_INVALID, "%.80s...: the path is too long", folder);
        }
        s = kvg_model_config_open(path, &session->config);
        if (!s) s = kvg_model_weights_open(folder, &session->config, &session->weights);
        if (!s) s = kvg_model_weights_check(session->weights);
        if (!s) snprintf(session->model_key, KEY_SIZE, "%s", folder);
    }
    setup->config = &session->config;
    if (!s) setup->source = kvg_model_weights_source(session->weights);
    return s;
}

kvg_status kvg_quality_session_texts(kvg_quality_session *session, const char *path, uint32_t windows, uint32_t length,
                                     uint32_t stride, const kvg_quality_texts **out)
{
    char key[KEY_SIZE];
    kvg_status s = KVG_OK;
    snprintf(key, sizeof key, "%u %u %u %s", windows, length, stride, path);
    *out = &session->texts;
    if (strcmp(key, session->texts_key) == 0) return KVG_OK;
    kvg_quality_texts_free(&session->texts);
    session->texts_key[0] = 0;
    s = kvg_quality_texts_read(path, windows, length, stride, &session->texts);
    if (!s) memcpy(session->texts_key, key, sizeof key);
    return s;
}

/* --- tensor scales --- */

static kvg_status measure_amax(kvg_quality_session *session, const kvg_case *c, const kvg_model_setup *setup)
{
    const uint32_t tokens = kvg_generate_of(c)->calibration_tokens, layers = setup->config->layers;
    kvg_quality_texts texts;
    kvg_quality_answer answer;
    session->amax = calloc(layers, sizeof *session->amax);
    session->amax_before_rope = calloc(layers, sizeof *session->amax_before_rope);
    if (!session->amax || !session->amax_before_rope) {
        return kvg_fail(KVG_ERR_MEMORY, "no memory for the magnitudes of %u layers", layers);
    }
    kvg_amax amax = {.next = {kvg_answer_reference, NULL},
                     .stored = session->amax,
                     .before_rope = session->amax_before_rope};
    kvg_model_setup plain = *setup;
    plain.storage[KVG_K] = plain.storage[KVG_V] = kvg_quality_plain_storage(setup->dtype);
    plain.tensor_scale = NULL;
    plain.run = kvg_answer_amax;
    plain.run_context = &amax;
    kvg_status s = kvg_quality_texts_read(kvg_generate_of(c)->calibration, 1, tokens, tokens, &texts);
    if (s) return s;
    const kvg_quality_plan plan = {.runner = kvg_reference_model_runner(), .setup = &plain, .chunk = tokens, .batch = 1,
                                   .texts = 1};
    s = kvg_quality_run(&plan, &texts, &answer);
    if (!s) kvg_quality_answer_free(&answer);
    kvg_quality_texts_free(&texts);
    return s;
}

kvg_status kvg_quality_session_scales(kvg_quality_session *session, const kvg_case *c, const kvg_model_setup *setup,
                                      float (*out)[2])
{
    char key[KEY_SIZE];
    bool scaled[2];
    kvg_status s = KVG_OK;
    for (int side = KVG_K; side <= KVG_V; side++) {
        scaled[side] = kvg_format_get(setup->storage[side].format)->tensor_scale &&
                       c->scale.convention != KVG_SCALE_P4;
    }
    for (uint32_t l = 0; l < setup->config->layers; l++) out[l][KVG_K] = out[l][KVG_V] = 1;
    if (!scaled[KVG_K] && !scaled[KVG_V]) return KVG_OK;
    snprintf(key, sizeof key, "%s %u %s %s", kvg_dtype_name(setup->dtype), kvg_generate_of(c)->calibration_tokens,
             kvg_generate_of(c)->model, kvg_generate_of(c)->calibration);
    if (strcmp(key, session->amax_key) != 0) {
        drop_amax(session);
        s = measure_amax(session, c, setup);
        if (s) drop_amax(session);
        else memcpy(session->amax_key, key, sizeof key);
    }
    for (uint32_t l = 0; l < setup->config->layers && !s; l++) {
        for (int side = KVG_K; side <= KVG_V && !s; side++) {
            const bool before = side == KVG_K && kvg_generate_of(c)->before_rope;
            if (!scaled[side]) continue;
            s = kvg_scale_from_amax(c->scale.convention,
                                    before ? session->amax_before_rope[l] : session->amax[l][side], &out[l][side]);
        }
    }
    return s;
}

/* --- the base --- */

kvg_status kvg_quality_session_base(kvg_quality_session *session, const kvg_case *c, const kvg_model_runner *runner,
                                    const kvg_model_setup *setup, const kvg_quality_texts *texts,
                                    const kvg_quality_answer **out)
{
    const kvg_generate_case *g = kvg_generate_of(c);
    char key[KEY_SIZE];
    snprintf(key, sizeof key, "%s %s %u %u %u %u %s %s", runner->name, kvg_dtype_name(setup->dtype), texts->texts,
             texts->length, texts->stride, g->greedy, g->model, g->text);
    *out = &session->base;
    if (strcmp(key, session->base_key) == 0) return KVG_OK;
    drop_base(session);
    kvg_model_setup plain = *setup;
    plain.storage[KVG_K] = plain.storage[KVG_V] = kvg_quality_plain_storage(setup->dtype);
    plain.tensor_scale = NULL;
    const kvg_quality_plan plan = {.runner = runner, .setup = &plain, .chunk = g->chunk, .batch = g->batch,
                                   .texts = texts->texts, .greedy = g->greedy};
    kvg_status s = kvg_quality_run(&plan, texts, &session->base);
    if (!s) memcpy(session->base_key, key, sizeof key);
    return s;
}
