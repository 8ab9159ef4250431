/* What the tests of the reference's model runner run: variants of small models with the logits that a second reading of
 * docs/spec/generate.md gives, steps of several sequences, whole runs by a plan. */
#ifndef KVG_TESTS_MODEL_RUNNER_MODEL_WORLD_H
#define KVG_TESTS_MODEL_RUNNER_MODEL_WORLD_H

#include "model/model_run.h"
#include "tests/model/runner/slow_runner.h"
#include "tests/model/runner/small_model.h"

enum {
    VARIANTS = 9,  /* the first four have every model once */
    GPT_OSS_BF16 = 3,
    SEQUENCES = 3,
    BLOCK = 4,
    WIDTH = SMALL_TOKENS / BLOCK,
    BLOCKS = 13,   /* a prime: every stride through them meets all */
    LOGITS = SMALL_TOKENS * SMALL_VOCAB
};

extern const uint32_t lengths[SEQUENCES]; /* tokens */

/* The test fails unless it is KVG_OK. */
void must(kvg_status s);

/* A model with its setup, tokens and what is expected. Not to be moved: parts of it point to others. */
typedef struct world {
    small_model model;
    kvg_model_setup setup;
    int32_t tokens[SEQUENCES][SMALL_TOKENS];
    float expected[SEQUENCES][LOGITS];
} world;

void open_world(int index, world *w);

/* A step and what it points to. */
typedef struct rows {
    kvg_model_step step;
    int32_t tokens[SEQUENCES * SMALL_TOKENS], positions[SEQUENCES * SMALL_TOKENS], table[SEQUENCES * WIDTH];
    int64_t slots[SEQUENCES * SMALL_TOKENS];
    int32_t lengths[SEQUENCES], counts[SEQUENCES];
    uint32_t of[SEQUENCES]; /* whose rows they are */
    uint32_t wanted[SEQUENCES * SMALL_TOKENS], copy[2][2];
    float logits[SEQUENCES * LOGITS];
} rows;

void begin_step(rows *r, uint32_t longest);

/* Rows first to first + count - 1 of one more sequence, whose blocks are in `table`. */
void add_sequence(rows *r, uint32_t sequence, const int32_t *tokens, uint32_t first, uint32_t count,
                  const int32_t table[WIDTH]);

void want(rows *r, uint32_t every); /* logits of every so many rows */

/* Logits of a step that differ from what is expected in any bit. */
uint32_t wrong_logits(const world *w, const rows *r);

/* Block tables of blocks that lie `stride` apart. */
void deal(uint32_t stride, int32_t table[SEQUENCES][WIDTH]);

/* Which rows a run's steps have. */
typedef struct plan {
    uint32_t chunk[SEQUENCES]; /* rows of a sequence in a step */
    uint32_t joins[SEQUENCES]; /* its first step */
    bool reversed;             /* the last sequence first */
    uint32_t stride;
    uint32_t wanted_of;
} plan;

/* All sequences in one step. */
extern const plan whole;

/* Runs all sequences by a plan; how many logits are wrong. run_alone: with a runner of its own. */
uint32_t run_plan(const world *w, void *runner, const plan *p);
uint32_t run_alone(const world *w, const plan *p);

#endif
