#include "model/generate/quality_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/run/backends.h"
#include "model/generate/defect_planted.h"
#include "model/generate/generate_memory.h"
#include "model/generate/quality_hooks.h"
#include "model/generate/quality_session.h"
#include "model/model_run.h"
#include "support/clock.h"

/* A case while it runs. */
typedef struct job {
    const kvg_case *c;
    kvg_candidate *candidate;
    kvg_result *r;
    kvg_quality_result *q; /* of r */
    kvg_quality_session *session;
    const kvg_quality_texts *texts;
    kvg_model_setup setup; /* of the case's storage */
    float (*scale)[2];     /* [layers] */
    bool quantised[KVG_MODEL_MAX_LAYERS];
    kvg_planted planted;   /* of backend defect:<id> */
    const kvg_model_runner *runner; /* of the case's backend */
    kvg_answerer answerer;          /* run NULL: the runner itself */
} job;

/* --- what the backend's name means --- */

static kvg_status choose_backend(job *j)
{
    const char *name = j->c->backend;
    j->runner = kvg_reference_model_runner();
    if (strcmp(name, "reference") == 0) return KVG_OK;
    if (strncmp(name, "defect:", 7) == 0) {
        j->answerer = (kvg_answerer){kvg_planted_run, &j->planted};
        return kvg_planted_find(name + 7, &j->planted);
    }
    if (strcmp(name, "cuda") == 0) return kvg_check_gpu_runner(false, &j->runner);
    j->answerer = (kvg_answerer){kvg_answer_candidate, j->candidate};
    return KVG_OK;
}

static kvg_status open_job(job *j)
{
    const kvg_generate_case *g = kvg_generate_of(j->c);
    const kvg_model_config *model;
    j->setup = (kvg_model_setup){
        .dtype = j->c->problem.dtype,
        .layout = j->c->problem.layout,
        .storage = {j->c->problem.storage[KVG_K], j->c->problem.storage[KVG_V]},
        .block_tokens = j->c->problem.paging.block_tokens,
        .profile = j->c->problem.profile,
        .products = KVG_PRODUCTS_FIXED,
    };
    kvg_status s = choose_backend(j);
    if (!s) s = kvg_quality_session_model(j->session, g->model, &j->setup);
    if (!s) s = kvg_quality_session_texts(j->session, g->text, g->windows, j->c->problem.tokens, g->stride, &j->texts);
    if (s) return s;
    if (g->bit_windows > j->texts->texts) {
        return kvg_fail(KVG_ERR_INVALID, "bit_windows %u: the text has %u", g->bit_windows, j->texts->texts);
    }
    model = j->setup.config;
    for (uint32_t l = 0; l < model->layers; l++) {
        j->quantised[l] = g->layers == KVG_LAYERS_ALL || model->sliding[l] == (g->layers == KVG_LAYERS_SLIDING);
    }
    j->scale = malloc(model->layers * sizeof *j->scale);
    if (!j->scale) return kvg_fail(KVG_ERR_MEMORY, "no memory for the scales of %u layers", model->layers);
    j->setup.tensor_scale = (const float (*)[2])j->scale;
    return kvg_quality_session_scales(j->session, j->c, &j->setup, j->scale);
}

/* --- runs --- */

/* One way to ask the case's question. */
typedef struct asking {
    const kvg_model_runner *runner;
    kvg_answerer answerer; /* run NULL: the runner's own */
    uint32_t windows, chunk, batch, greedy;
    bool halves;
} asking;

/* The case's ablations stand before whoever answers. */
static kvg_status run_asking(const job *j, const asking *how, kvg_quality_answer *out)
{
    const kvg_generate_case *g = kvg_generate_of(j->c);
    const kvg_answerer reference = {kvg_answer_reference, NULL};
    kvg_model_setup setup = j->setup;
    kvg_answerer answerer = how->answerer.run ? how->answerer : reference;
    bool hooked = how->answerer.run != NULL;
    kvg_shadow shadow = {.quantised = j->quantised, .dtype = setup.dtype};
    kvg_before_rope before = {.storage = setup.storage[KVG_K], .tensor_scale = setup.tensor_scale};
    if (g->before_rope) {
        before.next = answerer;
        answerer = (kvg_answerer){kvg_answer_before_rope, &before};
        setup.storage[KVG_K] = kvg_quality_plain_storage(setup.dtype);
    }
    if (g->layers != KVG_LAYERS_ALL) {
        shadow.next = answerer;
        shadow.plain = how->answerer.run ? how->answerer : reference;
        answerer = (kvg_answerer){kvg_answer_shadow, &shadow};
    }
    hooked |= g->before_rope || g->layers != KVG_LAYERS_ALL;
    setup.run = hooked ? answerer.run : NULL;
    setup.run_context = hooked ? answerer.context : NULL;
    const kvg_quality_plan plan = {.runner = how->runner,
                                   .setup = &setup,
                                   .chunk = how->chunk,
                                   .batch = how->batch,
                                   .texts = how->windows,
                                   .greedy = how->greedy,
                                   .halves = how->halves && g->layers == KVG_LAYERS_ALL}; /* no copies of blocks */
    kvg_status s = kvg_quality_run(&plan, j->texts, out);
    kvg_shadow_close(&shadow);
    return s;
}

/* The candidate, as the config says: chunks, a batch, each window's second half over a first half from the cache. */
static kvg_status run_own(const job *j, kvg_quality_answer *out)
{
    const kvg_generate_case *g = kvg_generate_of(j->c);
    const double start = kvg_clock_seconds();
    const asking how = {j->runner, j->answerer, j->texts->texts, g->chunk, g->batch, g->greedy, true};
    kvg_status s = run_asking(j, &how, out);
    j->r->milliseconds = 1e3 * (kvg_clock_seconds() - start);
    return s;
}

/* The reference's runner, each window alone, in one chunk, nothing shared: the bits that any other way must give. */
static kvg_status run_cold(const job *j, kvg_quality_answer *out)
{
    const kvg_generate_case *g = kvg_generate_of(j->c);
    const uint32_t length = j->texts->length, chunk = g->chunk < length ? length : (length + 1) / 2;
    const asking how = {kvg_reference_model_runner(), {0}, g->bit_windows, chunk, 1, g->greedy, false};
    return run_asking(j, &how, out);
}

/* As the candidate is run, on the reference with one thing wrong. */
static kvg_status run_planted(const job *j, kvg_planted *planted, kvg_quality_answer *out)
{
    const kvg_generate_case *g = kvg_generate_of(j->c);
    const asking how = {kvg_reference_model_runner(), {kvg_planted_run, planted}, g->bit_windows, g->chunk, g->batch, 0,
                        true};
    return run_asking(j, &how, out);
}

/* --- judging --- */

static void judge_bits(const kvg_quality_bits *b, kvg_result *r)
{
    r->bytes.compared = b->compared_bytes;
    r->bytes.mismatched = b->bytes;
    if (b->differ == 0) return;
    kvg_result_fail(r, "logits of %" PRIu64 " of %" PRIu64 " rows differ, first of window %u, row %u, token %u: "
                    "%a, not %a", b->differ, b->rows, b->text, b->row, b->token, (double)b->got, (double)b->expected);
}

static void judge(const job *j, const kvg_quality_answer *base, const kvg_quality_answer *own,
                  const kvg_quality_answer *cold)
{
    kvg_quality_result *q = j->q;
    char text[KVG_RESULT_TEXT];
    q->bits = kvg_quality_compare_bits(cold, own);
    q->greedy = kvg_quality_compare_greedy(base, own);
    q->shared_tokens = own->shared_tokens;
    judge_bits(&q->bits, j->r);
    if (kvg_quality_exceeds(&q->quality, &q->limits, text, sizeof text)) kvg_result_fail(j->r, "%s", text);
}

/* Whether some layer's op is changed. */
static bool planted_applies(const job *j, const kvg_planted *planted)
{
    const kvg_model_step step = {.rows = 2, .sequences = 1, .longest = j->texts->length};
    kvg_model_setup setup = j->setup;
    setup.blocks = j->c->problem.paging.blocks;
    setup.max_tokens = j->texts->length + kvg_generate_of(j->c)->greedy;
    for (uint32_t l = 0; l < setup.config->layers; l++) {
        const kvg_problem append = kvg_model_append(&setup, l, 2), decode = kvg_model_decode(&setup, l, &step);
        if (j->quantised[l] && (kvg_planted_applies(planted, &append) || kvg_planted_applies(planted, &decode)))
            return true;
    }
    return false;
}

/* One planted defect: its rows against the right ones and against the base, by the checks that judge the candidate. */
static kvg_status try_planted(const job *j, const char *id, const kvg_quality_answer *base,
                              const kvg_quality_answer *cold, kvg_quality_defect *d)
{
    kvg_planted planted;
    kvg_quality_answer wrong;
    kvg_quality quality;
    char text[KVG_RESULT_TEXT];
    *d = (kvg_quality_defect){.id = id};
    kvg_status s = kvg_planted_find(id, &planted);
    if (s) return s;
    d->applies = planted_applies(j, &planted);
    if (!d->applies) return KVG_OK;
    s = run_planted(j, &planted, &wrong);
    if (s) return s;
    s = kvg_quality_measure(j->texts, base, &wrong, j->c->seed, &quality);
    const kvg_quality_bits bits = kvg_quality_compare_bits(cold, &wrong);
    kvg_quality_answer_free(&wrong);
    if (s) return s;
    d->rows = bits.rows;
    d->differ = bits.differ;
    d->loss = quality.loss.value;
    d->kl = quality.kl.value;
    d->by_bits = bits.differ > 0;
    d->by_limits = kvg_quality_exceeds(&quality, &j->q->limits, text, sizeof text);
    return KVG_OK;
}

static kvg_status try_defects(const job *j, const kvg_quality_answer *base, const kvg_quality_answer *cold)
{
    kvg_quality_result *q = j->q;
    const kvg_generate_case *g = kvg_generate_of(j->c);
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < g->defect_count && !s; i++) {
        kvg_quality_defect *d = &q->defects[q->defect_count];
        s = try_planted(j, g->defects[i], base, cold, d);
        if (s) break;
        q->defect_count++;
        if (!d->applies) continue;
        const bool rejected = d->by_bits || d->by_limits;
        kvg_names_add(rejected ? &j->r->controls.rejected : &j->r->controls.accepted, d->id);
        if (rejected || j->r->verdict != KVG_VERDICT_PASS) continue;
        j->r->verdict = KVG_VERDICT_MISTRUSTED;
        snprintf(j->r->detail, sizeof j->r->detail, "the planted defect '%s' passed this check", d->id);
    }
    return s;
}

/* What the case's backend cannot be asked. */
static bool is_left_out(const job *j)
{
    const kvg_generate_case *g = kvg_generate_of(j->c);
    kvg_result *r = j->r;
    if (strcmp(j->c->backend, "cuda") == 0 && (g->layers != KVG_LAYERS_ALL || g->before_rope)) {
        r->verdict = KVG_VERDICT_SKIP;
        snprintf(r->detail, sizeof r->detail, "the GPU's runner stores all layers alike, and K after RoPE");
        return true;
    }
    if (j->answerer.run != kvg_planted_run || planted_applies(j, &j->planted)) return false;
    r->verdict = KVG_VERDICT_UNIMPLEMENTED;
    snprintf(r->detail, sizeof r->detail, "%s changes nothing in this case", j->c->backend);
    return true;
}

/* What a request weighs. Where some layers keep the model type, each layer weighs what a pool of its own would. */
static kvg_status count_memory(const job *j, uint64_t tokens, kvg_generate_memory *out)
{
    kvg_model_config one_layer = *j->setup.config;
    kvg_model_setup setup = j->setup;
    kvg_generate_memory layer = {0};
    const uint64_t budget = kvg_generate_of(j->c)->budget;
    uint64_t block_bytes = 0;
    kvg_status s = KVG_OK;
    one_layer.layers = 1;
    setup.config = &one_layer;
    for (uint32_t l = 0; l < j->setup.config->layers && !s; l++) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            setup.storage[side] = j->quantised[l] ? j->setup.storage[side] : kvg_quality_plain_storage(setup.dtype);
        }
        s = kvg_generate_memory_of(&setup, tokens, budget, &layer);
        block_bytes += layer.block_bytes;
    }
    return s ? s : kvg_generate_memory_count(block_bytes, setup.block_tokens, tokens, budget, out);
}

static kvg_status run_job(job *j)
{
    const kvg_generate_case *g = kvg_generate_of(j->c);
    kvg_quality_result *q = j->q;
    kvg_quality_answer own = {0}, cold = {0};
    const kvg_quality_answer *base = NULL;
    const uint64_t most = (uint64_t)j->texts->length + g->greedy;
    if (is_left_out(j)) return KVG_OK;
    q->limits = g->limits;
    q->window = most;
    q->budget = g->budget;
    kvg_status s = count_memory(j, most, &q->memory);
    if (!s) s = kvg_quality_session_base(j->session, j->c, j->runner, &j->setup, j->texts, &base);
    if (!s) s = run_own(j, &own);
    if (!s) s = kvg_quality_measure(j->texts, base, &own, j->c->seed, &q->quality);
    if (!s && g->bit_windows) s = run_cold(j, &cold);
    if (!s) {
        j->r->verdict = KVG_VERDICT_PASS;
        q->measured = true;
        judge(j, base, &own, &cold);
        s = try_defects(j, base, &cold);
    }
    kvg_quality_answer_free(&own);
    kvg_quality_answer_free(&cold);
    return s;
}

/* A failure on the way: whose it is. */
static kvg_verdict verdict_of(const job *j, kvg_status s)
{
    switch (s) {
    case KVG_ERR_UNIMPLEMENTED: return KVG_VERDICT_UNIMPLEMENTED;
    case KVG_ERR_DEVICE: return KVG_VERDICT_CRASH;
    case KVG_ERR_DEVICE_LOST: return KVG_VERDICT_DEVICE_LOST;
    default: return j->answerer.run == kvg_answer_candidate ? KVG_VERDICT_FAIL : KVG_VERDICT_ERROR;
    }
}

void kvg_quality_check_case(kvg_quality_session *session, const kvg_case *c, kvg_candidate *candidate, kvg_result *out)
{
    job j = {.c = c, .candidate = candidate, .r = out, .session = session};
    j.q = kvg_quality_session_result(session);
    *out = (kvg_result){.verdict = KVG_VERDICT_ERROR, .controls = {.measured = true}, .guest = j.q};
    kvg_candidate_next_case(candidate);
    kvg_status s = open_job(&j);
    snprintf(out->impl, sizeof out->impl, "%s%s%s", j.runner ? j.runner->name : "", j.answerer.run ? " with " : "",
             j.answerer.run ? c->backend : "");
    if (!s) s = run_job(&j);
    if (s) {
        out->verdict = verdict_of(&j, s);
        snprintf(out->detail, sizeof out->detail, "%s", kvg_error_text());
    }
    free(j.scale);
}
