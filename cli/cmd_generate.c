#define _DEFAULT_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "policy/mode.h"
#include "harness/candidate/candidate.h"
#include "harness/config/model.h"
#include "harness/run/backends.h"
#include "model/checkpoint/model_weights.h"
#include "model/generate/generate_memory.h"
#include "model/generate/generate_output.h"
#include "model/generate/generate_prompts.h"
#include "model/model_run.h"
#include "support/clock.h"
#include "support/interrupt.h"
#include "support/progress.h"
#include "support/used_files.h"
#include "support/whole_file.h"

typedef struct generate_options {
    const char *model, *kv, *backend, *json, *logits;
    kvg_prompts prompts;
    kvg_generate_settings settings; /* 0: not given */
    kvg_sampling sampling;
    float scale[2];
    uint32_t sm, new_tokens;
    uint64_t budget;
    bool given_top_p, given_scale, given_budget, memory, print_text, print_ids;
} generate_options;

/* Everything that a run holds. */
typedef struct generate_job {
    char folder[4096];
    kvg_model_config config;
    kvg_model_weights *weights;
    kvg_candidate *candidate;
    char dialects[2][64];
    float (*scale)[2];
    kvg_generation *generation;
    kvg_generate_records records;
} generate_job;

/* --- options --- */

/* Prompts, in the order in which they are given. */
static kvg_status take_prompts(const kvg_arguments *a, kvg_prompts *prompts)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; !s && i < a->option_count; i++) {
        const kvg_option_id id = a->options[i].id;
        const char *text = a->options[i].text;
        if (id == KVG_OPTION_GENERATE_PROMPT) s = kvg_prompts_add_text(prompts, text, strlen(text));
        else if (id == KVG_OPTION_GENERATE_PROMPT_FILE) s = kvg_prompts_add_file(prompts, text);
        else if (id == KVG_OPTION_GENERATE_IDS) s = kvg_prompts_add_ids(prompts, text);
        s = kvg_fail_option(s, id);
    }
    return s;
}

static uint32_t number(const kvg_arguments *a, kvg_option_id id, uint32_t otherwise)
{
    return (uint32_t)kvg_given_number(a, id, otherwise);
}

static kvg_status take_options(const kvg_arguments *a, generate_options *o)
{
    const kvg_argument *print = kvg_given(a, KVG_OPTION_GENERATE_PRINT);
    const kvg_argument *scale = kvg_given(a, KVG_OPTION_GENERATE_TENSOR_SCALE);
    *o = (generate_options){
        .model = kvg_given_text(a, KVG_OPTION_GENERATE_MODEL, NULL),
        .kv = kvg_given_text(a, KVG_OPTION_GENERATE_KV, "none"),
        .backend = kvg_given_text(a, KVG_OPTION_GENERATE_BACKEND, "reference"),
        .json = kvg_given_text(a, KVG_OPTION_GENERATE_JSON, NULL),
        .logits = kvg_given_text(a, KVG_OPTION_GENERATE_LOGITS, NULL),
        .sm = number(a, KVG_OPTION_GENERATE_SM, 0),
        .new_tokens = number(a, KVG_OPTION_GENERATE_NEW, 64),
        .budget = kvg_given_number(a, KVG_OPTION_GENERATE_BUDGET, 1u << 30),
        .given_top_p = kvg_given(a, KVG_OPTION_GENERATE_TOP_P),
        .given_scale = scale,
        .given_budget = kvg_given(a, KVG_OPTION_GENERATE_BUDGET),
        .memory = kvg_given(a, KVG_OPTION_GENERATE_MEMORY),
        .print_text = print && !print->numbers[0],
        .print_ids = print && print->numbers[0],
        .sampling = {.temperature = (float)kvg_given_real(a, KVG_OPTION_GENERATE_TEMPERATURE, 0),
                     .top_p = (float)kvg_given_real(a, KVG_OPTION_GENERATE_TOP_P, 1),
                     .seed = kvg_given_number(a, KVG_OPTION_GENERATE_SEED, 0)},
        .settings = {
            .batch = number(a, KVG_OPTION_GENERATE_BATCH, 0),
            .chunk = number(a, KVG_OPTION_GENERATE_CHUNK, 64),
            .drafts = number(a, KVG_OPTION_GENERATE_DRAFTS, 0),
            .share_prefixes = kvg_given(a, KVG_OPTION_GENERATE_SHARE_PREFIXES),
            .setup = {
                .dtype = (kvg_dtype)number(a, KVG_OPTION_GENERATE_DTYPE, KVG_DTYPE_BF16),
                .layout = (kvg_layout)number(a, KVG_OPTION_GENERATE_LAYOUT, KVG_LAYOUT_HND),
                .block_tokens = number(a, KVG_OPTION_GENERATE_BLOCK_TOKENS, 16),
                .blocks = number(a, KVG_OPTION_GENERATE_BLOCKS, 0),
                .profile = (kvg_profile)number(a, KVG_OPTION_GENERATE_PROFILE, KVG_PROFILE_SIMT_FMA_V1),
                .products = (kvg_products)number(a, KVG_OPTION_GENERATE_PRODUCTS, KVG_PRODUCTS_FIXED),
            },
        },
    };
    for (int side = KVG_K; scale && side <= KVG_V; side++) o->scale[side] = (float)scale->reals[side];
    kvg_status s = kvg_fail_option(kvg_model_check_layout(o->settings.setup.layout), KVG_OPTION_GENERATE_LAYOUT);
    return s ? s : take_prompts(a, &o->prompts);
}

/* What is written is no prompt and no part of the checkpoint. */
static kvg_status check_files(const generate_options *o)
{
    kvg_used_file files[] = {
        {.name = o->json, .written = true}, {.name = o->logits, .written = true},
        {.folder = o->model, .name = o->model ? "config.json" : NULL},
        {.folder = o->model, .name = o->model ? "model.safetensors" : NULL},
        {.folder = o->model, .name = o->model ? "model.safetensors.index.json" : NULL},
    };
    kvg_status s = kvg_used_files_check(files, sizeof files / sizeof files[0]);
    for (size_t i = 0; i < o->prompts.count && !s; i++) {
        files[2] = (kvg_used_file){.name = o->prompts.list[i].file};
        s = kvg_used_files_check(files, 3);
    }
    return s;
}

static kvg_status check_options(const generate_options *o)
{
    const kvg_sampling *s = &o->sampling;
    if (o->prompts.count == 0) return kvg_fail(KVG_ERR_INVALID, "give a --prompt, a --prompt-file or --ids");
    if (!(s->temperature >= 0)) return kvg_fail(KVG_ERR_INVALID, "--temperature must not be below 0");
    if (!(s->top_p > 0 && s->top_p <= 1)) return kvg_fail(KVG_ERR_INVALID, "--top-p must be above 0 and at most 1");
    if (o->given_top_p && s->temperature == 0) {
        return kvg_fail(KVG_ERR_INVALID, "--top-p goes with a --temperature above 0");
    }
    if (o->given_budget && !o->memory) return kvg_fail(KVG_ERR_INVALID, "--budget goes with --memory");
    if (o->memory && (o->json || o->logits)) {
        return kvg_fail(KVG_ERR_INVALID, "--memory generates nothing: it goes without --json and --logits");
    }
    if (o->logits && o->new_tokens == 0) return kvg_fail(KVG_ERR_INVALID, "--logits needs --new of at least 1");
    kvg_status status = check_files(o);
    if (!status && o->json) status = kvg_whole_file_check(o->json);
    return status || !o->logits ? status : kvg_whole_file_check(o->logits);
}

/* --- from options to settings --- */

static kvg_status open_model(const generate_options *o, generate_job *job)
{
    char path[sizeof job->folder + 16];
    kvg_status s = KVG_OK;
    if (!o->model) s = kvg_model_carried(job->folder, sizeof job->folder);
    else if ((size_t)snprintf(job->folder, sizeof job->folder, "%s", o->model) >= sizeof job->folder) {
        s = kvg_fail(KVG_ERR_INVALID, "--model: the path is too long");
    }
    if (s) return s;
    snprintf(path, sizeof path, "%s/config.json", job->folder);
    return kvg_model_config_open(path, &job->config);
}

/* Sizes that follow from the requests where they are not given. */
static kvg_status settle_sizes(generate_options *o, const generate_job *job)
{
    kvg_generate_settings *g = &o->settings;
    kvg_model_setup *s = &g->setup;
    uint64_t all = 0, most = 0, longest = 0;
    for (size_t i = 0; i < o->prompts.count; i++) {
        const uint64_t tokens = (uint64_t)o->prompts.list[i].count + o->new_tokens;
        const uint64_t blocks = (tokens + s->block_tokens - 1) / s->block_tokens;
        if (o->prompts.list[i].text && job->config.vocab != 256) {
            return kvg_fail(KVG_ERR_INVALID, "this model has %u tokens: give its prompts as --ids", job->config.vocab);
        }
        if (tokens > job->config.positions) {
            return kvg_fail(KVG_ERR_INVALID,
                            "request %zu: %u tokens of prompt and %u new ones: the model has positions for %u", i,
                            o->prompts.list[i].count, o->new_tokens, job->config.positions);
        }
        if (tokens > longest) longest = tokens;
        if (blocks > most) most = blocks;
        all += blocks;
    }
    s->max_tokens = (uint32_t)longest;
    if (g->batch == 0) g->batch = o->prompts.count < 16 ? (uint32_t)o->prompts.count : 16;
    if (s->blocks == 0) {
        const uint64_t enough = most * g->batch < all ? most * g->batch : all;
        if (enough > 1u << 30) return kvg_fail(KVG_ERR_INVALID, "more than 2^30 blocks are needed: give --blocks");
        s->blocks = (uint32_t)enough;
    }
    if (g->chunk > s->max_tokens) g->chunk = s->max_tokens;
    if (g->drafts >= s->max_tokens) g->drafts = s->max_tokens - 1;
    return KVG_OK;
}

static kvg_status settle_scale(const generate_options *o, generate_job *job, kvg_model_setup *s)
{
    bool scaled = false;
    for (int side = KVG_K; side <= KVG_V; side++) scaled |= kvg_format_get(s->storage[side].format)->tensor_scale;
    if (!o->given_scale) return KVG_OK;
    if (!scaled) return kvg_fail(KVG_ERR_INVALID, "--tensor-scale: a cache of --kv %s has no tensor scale", o->kv);
    job->scale = malloc(job->config.layers * sizeof *job->scale);
    if (!job->scale) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the scales of %u layers", job->config.layers);
    for (uint32_t layer = 0; layer < job->config.layers; layer++) memcpy(job->scale[layer], o->scale, sizeof o->scale);
    s->tensor_scale = (const float(*)[2])job->scale;
    return KVG_OK;
}

/* --- who computes --- */

static kvg_status answer(void *candidate, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    return kvg_candidate_answer(candidate, problem, in, out);
}

/* A candidate's process begins before anything is computed in this one. */
static kvg_status choose_backend(const char *name, kvg_generate_settings *g, generate_job *job)
{
    kvg_candidate_facts facts;
    const bool graph = strcmp(name, "cuda-graph") == 0;
    if (graph || strcmp(name, "cuda") == 0) return kvg_check_gpu_runner(graph, &g->runner);
    g->runner = kvg_reference_model_runner();
    if (strcmp(name, "reference") == 0) return KVG_OK;
    kvg_command_note_confinement("generate");
    kvg_status s = kvg_candidate_start(KVG_CONFINE_NAMESPACES, NULL, kvg_check_backend, &job->candidate);
    if (!s) s = kvg_candidate_open(job->candidate, name, &facts);
    g->setup.run = answer;
    g->setup.run_context = job->candidate;
    return s;
}

/* --- memory --- */

static kvg_status print_memory(const generate_options *o)
{
    const kvg_model_setup *given = &o->settings.setup;
    size_t count, mode_count;
    const kvg_format_info *formats = kvg_format_table(&count);
    const kvg_mode_info *modes = kvg_mode_table(&mode_count);
    printf("a request of %u tokens, model type %s, layout %s, blocks of %u tokens; a budget of %llu bytes\n",
           given->max_tokens, kvg_dtype_name(given->dtype), kvg_layout_get(given->layout)->name, given->block_tokens,
           (unsigned long long)o->budget);
    kvg_status first = KVG_OK;
    char why[512] = ""; /* why the first row of the table does not fit: f16 asks for least */
    bool any = false;
    printf("%-8s %-9s %12s %12s %8s %14s %14s\n", "format", "mode", "bytes/token", "block bytes", "blocks",
           "request bytes", "requests fit");
    for (size_t i = 0; i < count; i++) {
        kvg_model_setup setup = *given;
        kvg_generate_memory m;
        const char *mode = "";
        for (size_t k = 0; k < mode_count; k++) {
            if (kvg_mode_format(modes[k].mode, given->dtype) == formats[i].format) mode = modes[k].name;
        }
        setup.storage[KVG_K].format = setup.storage[KVG_V].format = formats[i].format;
        kvg_status s = kvg_format_check_dim(formats[i].format, given->config->head_dim);
        if (!s) s = kvg_generate_memory_of(&setup, given->max_tokens, o->budget, &m);
        if (s) printf("%-8s %-9s %s\n", formats[i].name, mode, kvg_error_text());
        else printf("%-8s %-9s %12.1f %12llu %8llu %14llu %14llu\n", formats[i].name, mode, m.token_bytes,
                    (unsigned long long)m.block_bytes, (unsigned long long)m.blocks,
                    (unsigned long long)m.request_bytes, (unsigned long long)m.requests);
        any = any || !s;
        if (i == 0) {
            first = s;
            snprintf(why, sizeof why, "%s", kvg_error_text());
        }
    }
    return any ? KVG_OK : kvg_fail(first, "%s", why);
}

/* --- running --- */

static kvg_status make_records(const generate_options *o, generate_job *job)
{
    kvg_generate_records *all = &job->records;
    all->list = calloc(o->prompts.count, sizeof *all->list);
    if (!all->list) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu requests", o->prompts.count);
    all->count = o->prompts.count;
    all->vocab = job->config.vocab;
    for (size_t i = 0; i < all->count; i++) {
        kvg_generate_record *r = &all->list[i];
        kvg_sha256_init(&r->sum);
        r->prompt_tokens = o->prompts.list[i].count;
        r->new_tokens = o->new_tokens;
        r->tokens = malloc(((size_t)r->prompt_tokens + r->new_tokens) * sizeof *r->tokens);
        if (o->logits) r->logits = malloc((size_t)r->new_tokens * all->vocab * sizeof *r->logits);
        if (!r->tokens || (o->logits && !r->logits)) {
            return kvg_fail(KVG_ERR_MEMORY, "request %zu: cannot hold %u tokens and their logits", i, r->new_tokens);
        }
    }
    return KVG_OK;
}

static kvg_status submit(const generate_options *o, generate_job *job)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < o->prompts.count && !s; i++) {
        kvg_generate_request request = {.id = i,
                                        .prompt = o->prompts.list[i].tokens,
                                        .prompt_tokens = o->prompts.list[i].count,
                                        .new_tokens = o->new_tokens,
                                        .sampling = o->sampling,
                                        .drafts = o->settings.drafts};
        request.sampling.request = i;
        s = kvg_generation_submit(job->generation, &request);
    }
    return s;
}

static kvg_status collect(const generate_options *o, generate_job *job)
{
    kvg_generate_records *all = &job->records;
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < all->count && !s; i++) {
        kvg_generate_record *r = &all->list[i];
        kvg_generate_memory memory;
        uint32_t count = r->prompt_tokens + r->new_tokens;
        s = kvg_generation_tokens(job->generation, i, r->tokens, &count);
        const uint32_t held = count - (r->new_tokens > 0); /* the last new token is not in the cache */
        if (!s) s = kvg_generate_memory_of(&o->settings.setup, held, UINT64_MAX, &memory);
        if (!s) r->bytes = memory.request_bytes;
    }
    kvg_generate_records_end(all);
    return s;
}

/* Until all is done, or a signal has come: a second one ends the program at once. No file is begun before the end. */
static kvg_status run(const generate_options *o, generate_job *job)
{
    kvg_interrupt_catch();
    bool busy = true;
    kvg_progress_begin("generate", o->prompts.count * o->new_tokens, "tokens");
    kvg_status s = submit(o, job);
    while (busy && !s && !kvg_interrupted()) s = kvg_generation_step(job->generation, &busy);
    kvg_interrupt_end();
    kvg_progress_end();
    if (!s && kvg_interrupted()) s = kvg_fail(KVG_ERR_IO, "interrupted by a signal: nothing is written");
    return s ? s : collect(o, job);
}

static void print_summary(const kvg_generate_about *a, const kvg_generate_records *r)
{
    const kvg_generate_counts *c = &a->counts;
    fprintf(stderr, "%zu request%s, %llu new tokens, %llu rows in %llu steps, %.2f s", r->count,
            r->count > 1 ? "s" : "",
            (unsigned long long)r->rows, (unsigned long long)c->rows, (unsigned long long)c->steps, a->seconds);
    if (c->shared_tokens) fprintf(stderr, "; %llu tokens shared", (unsigned long long)c->shared_tokens);
    if (c->preemptions) fprintf(stderr, "; %llu preemptions", (unsigned long long)c->preemptions);
    if (c->drafted) {
        fprintf(stderr, "; %llu of %llu drafts accepted", (unsigned long long)c->accepted,
                (unsigned long long)c->drafted);
    }
    fprintf(stderr, "; at most %u of %u blocks\n", c->peak_blocks, a->settings->setup.blocks);
}

static kvg_status generate(generate_options *o, generate_job *job)
{
    kvg_generate_settings *g = &o->settings;
    const kvg_generate_observer observer = {.context = &job->records, .see = kvg_generate_record_row};
    kvg_status s = make_records(o, job);
    if (!s) s = kvg_model_weights_open(job->folder, &job->config, &job->weights);
    if (!s) s = kvg_model_weights_check(job->weights);
    if (s) return s;
    g->setup.source = kvg_model_weights_source(job->weights);
    s = kvg_generation_open(g, &observer, &job->generation);
    if (s) return s;
    const double start = kvg_clock_seconds();
    s = run(o, job);
    if (s) return s;
    kvg_generate_about about = {job->folder, o->backend, g, &o->sampling, kvg_generation_counts(job->generation),
                                kvg_clock_seconds() - start};
    bool text = job->config.vocab == 256 && !o->print_ids;
    for (size_t i = 0; i < o->prompts.count && !o->print_text; i++) text &= o->prompts.list[i].text;
    kvg_generate_print(&job->records, text, stdout);
    const bool printed = fflush(stdout) == 0; /* else main says so; the files are written all the same */
    if (o->logits) s = kvg_generate_write_logits(&job->records, o->logits);
    if (!s && o->json) s = kvg_generate_write_json(&job->records, &about, o->json); /* last: it vouches for the rest */
    if (!s && printed) print_summary(&about, &job->records);
    return s;
}

static kvg_status run_options(generate_options *o, generate_job *job)
{
    kvg_model_setup *setup = &o->settings.setup;
    kvg_status s = check_options(o);
    if (!s && !o->memory) s = choose_backend(o->backend, &o->settings, job);
    if (!s) s = open_model(o, job);
    setup->config = &job->config;
    if (!s) s = kvg_storage_parse(o->kv, setup, o->sm, setup->storage, job->dialects);
    if (!s) s = settle_sizes(o, job);
    if (!s) s = settle_scale(o, job, setup);
    if (s) return s;
    return o->memory ? print_memory(o) : generate(o, job);
}

int kvg_command_generate(const kvg_arguments *a)
{
    generate_options o;
    generate_job job = {.weights = NULL};
    int code = KVG_EXIT_PASS;
    kvg_status s = take_options(a, &o);
    if (!s && a->file_count) code = kvg_command_usage("generate", "'%s' is no option", a->files[0]);
    else if (!s) s = run_options(&o, &job);
    if (s) code = kvg_command_fail("generate", s);
    if (s == KVG_ERR_UNIMPLEMENTED) code = KVG_EXIT_NOTHING;
    kvg_generation_close(job.generation);
    kvg_candidate_end(job.candidate);
    kvg_model_weights_close(job.weights);
    kvg_generate_records_free(&job.records);
    kvg_prompts_free(&o.prompts);
    free(job.scale);
    return code;
}
