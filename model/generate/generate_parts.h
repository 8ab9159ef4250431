/* Shared by the files model/generate/generate*.c: the requests of a generation, and the arrays of
 * one step. */
#ifndef KVG_MODEL_GENERATE_GENERATE_PARTS_H
#define KVG_MODEL_GENERATE_GENERATE_PARTS_H

#include "model/generate/generate.h"
#include "paging/paging.h"

typedef enum kvg_generate_phase {
    KVG_GENERATE_WAITS, /* no place in the batch */
    KVG_GENERATE_FORKS, /* in the batch, without a sequence yet: waits until its parent has read the shared part */
    KVG_GENERATE_RUNS,  /* in the batch, with a sequence of the manager */
    KVG_GENERATE_DONE
} kvg_generate_phase;

typedef struct kvg_generate_entry {
    kvg_generate_request ask; /* its arrays are owned by the entry */
    int32_t *tokens;          /* [prompt + new]: the first `known` of them are known */
    int32_t *draft;           /* [new], or NULL */
    uint32_t known;
    kvg_generate_phase phase;
    struct kvg_generate_entry *parent; /* the parent of a request that forks */
    bool begun;                        /* it has been granted a step */
} kvg_generate_entry;

/* The share of a request in the running step. */
typedef struct kvg_generate_share {
    kvg_generate_entry *entry;
    const int32_t *draft;      /* [drafts]: proposed for this step */
    uint32_t drafts;
    bool held;                 /* it held blocks before the step */
    uint32_t row, rows, first; /* its rows are row to row + rows - 1; `first` is the position of the first one */
    uint32_t kept, drawn;      /* kept: leading rows that count; drawn: tokens that were drawn from them */
} kvg_generate_share;

struct kvg_generation {
    kvg_generate_settings settings;
    kvg_generate_observer observer;
    float *cos_sin; /* its own table, or NULL */
    void *runner;
    kvg_prefix_key key;
    kvg_block_manager *blocks[2]; /* managers of data and of scales */
    kvg_prefix_index *index;
    kvg_sequence_manager *manager;
    kvg_sequence_pool sequences;
    kvg_generate_entry **entries; /* all requests, in order of submission */
    size_t entry_count, entry_room;
    kvg_generate_entry **batch; /* [settings.batch], in order of admission */
    uint32_t batch_count;
    uint64_t now; /* number of the next step */
    kvg_generate_counts counts;
    bool broken; /* a failure could not be undone */
    /* One step. */
    kvg_sequence_request *asked;   /* [settings.batch] */
    kvg_sequence_grant *grants;    /* [settings.batch] */
    kvg_generate_share *shares;    /* [settings.batch] */
    uint32_t share_count;
    int32_t *drafts; /* [settings.batch][settings.drafts] */
    kvg_model_step step;
    uint32_t (*copy)[2];
    int32_t *tokens, *positions, *table, *lengths, *query_lengths; /* the step's arrays, writable */
    int64_t *slots;
    uint32_t *wanted_rows, *table_ids;
    int32_t *drawn;      /* [rows]: the token drawn from each */
    uint32_t *logits_of; /* [rows]: index of the row's logits in the step's; UINT32_MAX: not wanted */
};

/* Writes proposals for the next new tokens to `draft`: at most `room`, and at most the request's
 * drafts. Returns their number. */
uint32_t kvg_generate_propose(const kvg_generate_entry *entry, uint32_t room, int32_t *draft);

/* Admits requests to the batch, and forks those whose parent is ready. */
kvg_status kvg_generate_admit(kvg_generation *g) KVG_CHECKED;

/* Asks the managers and fills in the step: its rows, slots and tables. The shares hold what was
 * granted, also on failure. */
kvg_status kvg_generate_plan(kvg_generation *g) KVG_CHECKED;

/* The request with this id, or NULL. */
kvg_generate_entry *kvg_generate_find(const kvg_generation *g, uint64_t id);

#endif
