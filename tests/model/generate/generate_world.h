/* A model that is nothing but a cache: what a row stores follows from its token, its position and everything that its
 * sequence has stored before, so that a wrong slot, table, length or copy shows in every later row. And requests with
 * what is right for them, found without any cache. */
#ifndef KVG_TESTS_MODEL_GENERATE_GENERATE_WORLD_H
#define KVG_TESTS_MODEL_GENERATE_GENERATE_WORLD_H

#include "model/generate/generate.h"

enum { WORLD_VOCAB = 24, WORLD_TOKENS = 96, WORLD_REQUESTS = 12 };

/* What is wrong with the runner, or with what the scheduler gave it. */
typedef enum world_defect {
    WORLD_SOUND,
    WORLD_STALE_SLOT,   /* a row goes where the one before it went */
    WORLD_LOST_COPY,    /* blocks are not copied before they are written */
    WORLD_COPY_SHORT,   /* a copy lacks the block's first token */
    WORLD_TABLE_SWAPPED, /* two entries of a table change places */
    WORLD_TABLE_LATE,   /* the table of the step before */
    WORLD_POSITION,     /* the first row of a step has the position before its own */
    WORLD_UNREAD_ROW,   /* resumed with a cache_len one too large: the first row of a longer part is not written */
    WORLD_WRONG_DRAFT,  /* the last row's draft is drawn whatever the logits say */
    WORLD_NEIGHBOUR,    /* a row sees what the sequence before it has in the step */
    WORLD_SHORT_WINDOW, /* ... one key less than the window */
    WORLD_LOGITS_SHIFTED, /* logits belong to the wanted row before */
    WORLD_DEFECTS
} world_defect;

typedef struct world {
    kvg_model_config config;
    kvg_generate_settings settings;
    kvg_generate_request requests[WORLD_REQUESTS];
    uint32_t count;
    int32_t prompts[WORLD_REQUESTS][WORLD_TOKENS], drafts[WORLD_REQUESTS][WORLD_TOKENS];
    int32_t right[WORLD_REQUESTS][WORLD_TOKENS];                  /* prompt and what is generated */
    float logits[WORLD_REQUESTS][WORLD_TOKENS][WORLD_VOCAB];      /* of every position */
    bool drawn[WORLD_REQUESTS][WORLD_TOKENS];                     /* tokens that were seen drawn */
    uint32_t seen[WORLD_REQUESTS][WORLD_TOKENS];                  /* how often a row was seen */
    bool begun[WORLD_REQUESTS];
    uint64_t first_step[WORLD_REQUESTS];                          /* in which one was seen first */
    uint64_t fail_at;      /* the runner's step of this number fails, once; 0: none */
    uint64_t see_fails_at; /* ... the row that the observer refuses */
    uint64_t steps, rows, failures; /* of this run */
    bool all_rows;         /* logits of prompts' rows, too */
    bool forgiving;        /* what fails for want of memory is tried again */
    world_defect defect;
    char wrong[256];       /* the first difference; "": none */
} world;

/* Random requests and settings from a seed; what is right for them is computed. */
void world_make(world *w, uint64_t seed);

/* Settings again, for the same requests. */
void world_settle(world *w, uint64_t seed);

/* `count` requests of one prompt, which all come at once; blocks of 4 tokens, and more of them than are needed. Drafts
 * are what is right. */
void world_make_equal(world *w, uint32_t count, uint32_t prompt_tokens, uint32_t new_tokens);

/* Finds anew what is right, and what is drafted, for prompts or layers that have changed. */
void world_right(world *w);

/* Runs all of them; wrong is set on any difference, `preempt_seed` not 0 takes requests out at random steps. */
kvg_status world_run(world *w, uint64_t preempt_seed, kvg_generate_counts *counts);

#endif
