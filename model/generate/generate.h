/* Room generate: a model that runs through a quantised cache.
 *
 *   generate, generate_*   Requests that join and leave a batch: schedule, drafts, one step, prompts, outputs.
 *   generate_memory        What one request holds of a cache.
 *   quality, quality_run   What a quantised cache costs, measured on the logits of texts.
 *   quality_hooks          Who answers ops append and decode inside a model.
 *   config_generate, generate_case
 *                          Groups of a config, and what a case of op generate has beside a problem.
 *   quality_result, quality_fields
 *                          What was measured, and its fields in a result file.
 *   defect_planted         A known-wrong answer of ops, under a whole model.
 *   quality_check          The judge of cases of op generate; quality_session keeps models from case to case.
 *
 * The arithmetic of the model is model/runner/, or that of a GPU. */
/* Generation: requests of different lengths join a running batch and leave it. It uses the block
 * and sequence managers of paging/paging.h and one model runner. docs/spec/generate.md sections 5
 * to 7 are the contract. */
#ifndef KVG_MODEL_GENERATE_GENERATE_H
#define KVG_MODEL_GENERATE_GENERATE_H

#include "core/transformer.h"
#include "model/model_math.h"

typedef struct kvg_generate_settings {
    const kvg_model_runner *runner;
    kvg_model_setup setup;  /* max_rows, max_sequences and max_wanted are set from the numbers below */
    uint32_t chunk;         /* most rows of one prompt in a step, at least 1 */
    uint32_t batch;         /* most sequences that run at once, at least 1 */
    uint32_t drafts;        /* most drafts of a request */
    bool share_prefixes;    /* full blocks of equal tokens come from the cache of earlier requests. If another request
                             * is still reading a prompt with which this prompt begins, this request waits for it. It
                             * then shares all of its blocks, the partial one too, until one of the two writes there */
} kvg_generate_settings;

typedef struct kvg_generate_request {
    uint64_t id;            /* no other request has this id, not even a finished one */
    const int32_t *prompt;  /* copied */
    uint32_t prompt_tokens; /* at least 1 */
    uint32_t new_tokens;    /* tokens to generate; 0: the prompt is only read, and its rows go to `see` */
    kvg_sampling sampling;
    uint64_t priority;      /* smaller goes first, and is preempted last */
    uint64_t joins;         /* no step before this one knows the request */
    uint32_t drafts;        /* further rows of a step, proposed and verified at once; 0: one row per step */
    const int32_t *draft;   /* drafts > 0: [new_tokens], the proposal for each new token; copied. NULL: the proposal is
                             * what followed the last earlier place of the request's last two tokens, if there is one */
} kvg_generate_request;

/* A computed row. A row that is computed again after a preemption is seen again. Rows that a shared
 * prefix spared and rows of rejected drafts are not seen. */
typedef struct kvg_generate_row {
    uint64_t request, step;
    uint32_t position;   /* position of the row's token */
    int32_t token;       /* the token that the row read */
    int32_t next;        /* the token after it; -1: the last of a prompt that is only read */
    bool drawn;          /* `next` was drawn from this row now: its logits are given */
    const float *logits; /* [vocab]; NULL: they were not wanted */
} kvg_generate_row;

typedef struct kvg_generate_observer {
    void *context;
    bool all_rows; /* true: also logits of all rows of prompts; false: only of rows from which a token is drawn */
    kvg_status (*see)(void *context, const kvg_generate_row *row); /* another status than KVG_OK ends the run with it */
} kvg_generate_observer;

typedef struct kvg_generate_counts {
    uint64_t steps, rows;        /* computed rows, those of rejected drafts included */
    uint64_t shared_tokens;      /* tokens of prompts that were taken from the cache */
    uint64_t copies, preemptions;
    uint64_t drafted, accepted;
    uint32_t blocks, peak_blocks; /* blocks in use now, and the most so far */
} kvg_generate_counts;

typedef struct kvg_generation kvg_generation;

/* Opens runner, pools and managers. Everything that the settings point to must outlive the
 * generation. setup.cos_sin may be NULL: the table of config.rope is then made here.
 * KVG_ERR_INVALID for numbers out of range. */
kvg_status kvg_generation_open(const kvg_generate_settings *settings, const kvg_generate_observer *observer,
                               kvg_generation **out) KVG_CHECKED;
void kvg_generation_close(kvg_generation *generation); /* NULL is allowed */

/* Submits a request. The token at a position is drawn with this position as counter.
 * KVG_ERR_INVALID: an id that exists, a token that is no id, more drafts than the settings allow, a
 * sampling that kvg_reference_sample refuses, more prompt and new tokens than setup.max_tokens, or
 * more blocks than the pool has. */
kvg_status kvg_generation_submit(kvg_generation *generation, const kvg_generate_request *request) KVG_CHECKED;

/* Runs one step of the batch. *busy: there is more to do. A step that fails leaves every request
 * with the tokens that it had before. It can be tried again, and then computes again what the
 * running requests had in the cache. */
kvg_status kvg_generation_step(kvg_generation *generation, bool *busy) KVG_CHECKED;

/* Takes the blocks of a running request away, between two steps. The manager resumes it in its own
 * order. A request without blocks stays as it is. KVG_ERR_NOT_FOUND. */
kvg_status kvg_generation_preempt(kvg_generation *generation, uint64_t request) KVG_CHECKED;

/* Copies the tokens of a request, its prompt first. *count is the room on entry, and the number of
 * tokens on return. */
kvg_status kvg_generation_tokens(const kvg_generation *generation, uint64_t request, int32_t *tokens,
                                 uint32_t *count) KVG_CHECKED;

kvg_generate_counts kvg_generation_counts(const kvg_generation *generation);

#endif
