/* What the files of model/generate/generate*.c share: the requests of a generation, and the arrays of one step. */
#ifndef KVG_MODEL_GENERATE_GENERATE_PARTS_H
#define KVG_MODEL_GENERATE_GENERATE_PARTS_H

#include "model/generate/generate.h"
#include "paging/paging.h"

typedef enum kvg_generate_phase {
    KVG_GENERATE_WAITS, /* no place in the batch */
    KVG_GENERATE_FORKS, /* in the batch: waits until its parent has read what they share; no sequence yet */
    KVG_GENERATE_RUNS,  /* in the batch, with a sequence of the manager */
    KVG_GENERATE_DONE
} kvg_generate_phase;

typedef struct kvg_generate_entry {
    kvg_generate_request ask; /* its arrays are the entry's own */
    int32_t *tokens;          /* [prompt + new]: the first `known` of them are known */
    int32_t *draft;           /* [new], or NULL */
    uint32_t known;
    kvg_generate_phase phase;
    struct kvg_generate_entry *parent; /* of one that forks */
    bool begun;                        /* it has been granted a step */
} kvg_generate_entry;

/* What a request has in the running step. */
typedef struct kvg_generate_share {
    kvg_generate_entry *entry;
    const int32_t *draft;      /* [drafts]: proposed for this step */
    uint32_t drafts;
    bool held;                 /* it held blocks before the step */
    uint32_t row, rows, first; /* its rows of the step; `first` is the position of the first one */
    uint32_t kept, drawn;      /* leading rows that count, and tokens that were drawn from them */
} kvg_generate_share;

struct kvg_generation {
    kvg_generate_settings settings;
    kvg_generate_observer observer;
    float *cos_sin; /* its own table, or NULL */
    void *runner;
    kvg_prefix_key key;
    kvg_block_manager *blocks[2]; /* of data, of scales */
    kvg_prefix_index *index;
    kvg_sequence_manager *manager;
    kvg_sequence_pool sequences;
    kvg_generate_entry **entries; /* all requests, in the order of submission */
    size_t entry_count, entry_room;
    kvg_generate_entry **batch; /* [settings.batch], in the order in which they came in */
    uint32_t batch_count;
    uint64_t now; /* number of the next step */
    kvg_generate_counts counts;
    bool broken; /* a failure could not be taken back */
    /* One step. */
    kvg_sequence_request *asked;   /* [settings.batch] */
    kvg_sequence_grant *grants;    /* [settings.batch] */
    kvg_generate_share *shares;    /* [settings.batch] */
    uint32_t share_count;
    int32_t *drafts; /* [settings.batch][settings.drafts] */
    kvg_model_step step;
    uint32_t (*copy)[2];
    int32_t *tokens, *positions, *table, *lengths, *query_lengths; /* the step's arrays, before they are its own */
    int64_t *slots;
    uint32_t *wanted_rows, *table_ids;
    int32_t *drawn;      /* [rows]: the token that was drawn from each */
    uint32_t *logits_of; /* [rows]: place of its logits in the step's; UINT32_MAX: nobody wanted them */
};

/* Puts what is proposed for the next new tokens, at most `room` and the request's drafts, into `draft`; returns how
 * many there are. */
uint32_t kvg_generate_propose(const kvg_generate_entry *entry, uint32_t room, int32_t *draft);

/* Lets requests into the batch, and shares what forks. */
kvg_status kvg_generate_admit(kvg_generation *g) KVG_CHECKED;

/* Asks the managers and fills in the step: its rows, slots and tables. What was granted is in the shares also where it
 * fails. */
kvg_status kvg_generate_plan(kvg_generation *g) KVG_CHECKED;

/* A request of this id, or NULL. */
kvg_generate_entry *kvg_generate_find(const kvg_generation *g, uint64_t id);

#endif
