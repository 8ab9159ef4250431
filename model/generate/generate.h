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
/* Generation: requests of different lengths that join a running batch and leave it, over the block and sequence
 * managers of paging/paging.h and one model runner. docs/spec/generate.md sections 5 to 7 are the contract. */
#ifndef KVG_MODEL_GENERATE_GENERATE_H
#define KVG_MODEL_GENERATE_GENERATE_H

#include "core/transformer.h"
#include "model/model_math.h"

typedef struct kvg_generate_settings {
    const kvg_model_runner *runner;
    kvg_model_setup setup;  /* max_rows, max_sequences and max_wanted are set from the numbers below */
    uint32_t chunk;         /* rows of one prompt in a step, at least 1 */
    uint32_t batch;         /* sequences that run at once, at least 1 */
    uint32_t drafts;        /* the most that a request may have */
    bool share_prefixes;    /* full blocks of equal tokens are taken from the cache of earlier requests; a request whose
                               prompt starts with the whole prompt that another one is still reading waits for it,
                               then shares all of its blocks, the partial one, too, until one of them writes there */
} kvg_generate_settings;

typedef struct kvg_generate_request {
    uint64_t id;            /* of no other request, finished ones included */
    const int32_t *prompt;  /* copied */
    uint32_t prompt_tokens; /* at least 1 */
    uint32_t new_tokens;    /* tokens to generate; 0: the prompt is only read (its rows go to `see`) */
    kvg_sampling sampling;
    uint64_t priority;      /* smaller goes first, and is preempted last */
    uint64_t joins;         /* the step before which the request is not known */
    uint32_t drafts;        /* rows of a step beside the first, proposed and verified at once; 0: one by one */
    const int32_t *draft;   /* drafts > 0: [new_tokens], what is proposed for each new token; copied. NULL: what
                               followed the last earlier place of the request's last two tokens, if there is one */
} kvg_generate_request;

/* A row that was computed. A row that is computed again after a preemption is seen again; rows that a shared prefix
 * spared are not seen; rows of rejected drafts are not seen. */
typedef struct kvg_generate_row {
    uint64_t request, step;
    uint32_t position;   /* of the row's token */
    int32_t token;       /* that the row read */
    int32_t next;        /* the token after it; -1: the last of a prompt that is only read */
    bool drawn;          /* from this row, now: its logits are there */
    const float *logits; /* [vocab]; NULL: nobody wanted them */
} kvg_generate_row;

typedef struct kvg_generate_observer {
    void *context;
    bool all_rows; /* logits of rows of prompts, too, not only of those that a token is drawn from */
    kvg_status (*see)(void *context, const kvg_generate_row *row); /* anything but KVG_OK ends the run with it */
} kvg_generate_observer;

typedef struct kvg_generate_counts {
    uint64_t steps, rows;        /* rows computed, those of rejected drafts included */
    uint64_t shared_tokens;      /* tokens of prompts that were taken from the cache */
    uint64_t copies, preemptions;
    uint64_t drafted, accepted;
    uint32_t blocks, peak_blocks; /* in use now, and most */
} kvg_generate_counts;

typedef struct kvg_generation kvg_generation;

/* Opens runner, pools and managers. What the settings point to outlives the generation, but for setup.cos_sin: NULL is
 * the table of config.rope, made here. KVG_ERR_INVALID for numbers out of range. */
kvg_status kvg_generation_open(const kvg_generate_settings *settings, const kvg_generate_observer *observer,
                               kvg_generation **out) KVG_CHECKED;
void kvg_generation_close(kvg_generation *generation); /* NULL is allowed */

/* The token at `position` of a request is drawn with this position. KVG_ERR_INVALID: an id twice, a token that is no
 * id, drafts beyond the settings', a sampling that kvg_reference_sample refuses, prompt and new tokens beyond
 * setup.max_tokens, or more blocks than the pool has. */
kvg_status kvg_generation_submit(kvg_generation *generation, const kvg_generate_request *request) KVG_CHECKED;

/* One step of the batch; *busy: there is more to do. One that fails leaves every request with the tokens that it had
 * before: it can be tried again, and computes again what the running requests had in the cache. */
kvg_status kvg_generation_step(kvg_generation *generation, bool *busy) KVG_CHECKED;

/* Takes a running request's blocks away between two steps; it is resumed by the manager's own order. One that holds
 * none stays as it is. KVG_ERR_NOT_FOUND. */
kvg_status kvg_generation_preempt(kvg_generation *generation, uint64_t request) KVG_CHECKED;

/* Tokens of a request, its prompt first; *count is in: room, out: how many there are. */
kvg_status kvg_generation_tokens(const kvg_generation *generation, uint64_t request, int32_t *tokens,
                                 uint32_t *count) KVG_CHECKED;

kvg_generate_counts kvg_generation_counts(const kvg_generation *generation);

#endif
