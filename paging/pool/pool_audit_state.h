/* The state of the model of `kvgold pool audit`: blocks, who holds them, and what is stored in them; private to
 * pool_audit*.c. */
#ifndef KVG_PAGING_POOL_POOL_AUDIT_STATE_H
#define KVG_PAGING_POOL_POOL_AUDIT_STATE_H

#include "paging/pool/pool_audit.h"
#include "paging/pool/pool_table.h"

/* A block is held if it has holders, else cached if it is stored, else free. */
enum { POOL_FREE, POOL_CACHED, POOL_HELD, POOL_STATES };
extern const char *const pool_state_names[POOL_STATES];

typedef struct pool_block {
    uint32_t holders;
    uint32_t stored;  /* the number of its hash; 0: it is not stored */
    uint64_t line;    /* of the event that changed one of these last */
    uint64_t named;   /* the last event whose list names it */
    uint64_t copied;  /* the digest of the hash of the stored block that it is a copy of; 0: of none */
} pool_block;

static inline int pool_state(const pool_block *b)
{
    return b->holders ? POOL_HELD : b->stored ? POOL_CACHED : POOL_FREE;
}

/* Items of tables. What has a name begins with it. */
typedef struct pool_sequence {
    char *name;
    uint32_t first; /* the number of one of its holdings; 0: none */
} pool_sequence;

enum { POOL_ROOT = 1 }; /* the digest of a parent or a salt that is null */

typedef struct pool_content {
    char *name;                    /* the hash */
    uint64_t parent, tokens;       /* digests; 0: the log does not say */
    uint64_t salt;                 /* the same */
    uint64_t line;                 /* of the event that said so */
    uint32_t uses;                 /* blocks that are stored under it */
    uint32_t length;               /* how many tokens it stands for */
} pool_content;

typedef struct pool_holding {
    uint32_t sequence, block, before, after; /* before, after: the sequence's other holdings */
} pool_holding;

/* The place of a cached block in the order in which such blocks were given up. */
typedef struct pool_place {
    uint64_t event;           /* that gave it up */
    uint32_t before, after;   /* ids of its neighbours; of the first and the last one head.blocks is one */
    uint64_t taken;           /* the last event of `pool_order_begin` that names the block */
} pool_place;

/* What an event takes: the free block with the highest id, and the cached one that was given up last. -1: none. */
typedef struct pool_taken {
    int64_t highest, youngest;
} pool_taken;

struct kvg_audit {
    kvg_audit_head head;
    kvg_audit_report report;
    kvg_audit_totals totals;
    const kvg_audit_event *event;
    pool_block *blocks;
    uint64_t *written; /* a bit per token, `words` words per block */
    size_t words;
    uint64_t counts[POOL_STATES];
    uint32_t *free_of;   /* how many of each POOL_PART blocks of the pool are free */
    pool_place *places;  /* of the pool's blocks, and behind them the list's ends; NULL: no promise is about these */
    uint32_t last_given; /* the block that became cached last */
    pool_table sequences, contents, holdings;
};

enum { POOL_PART = 1024 };

uint32_t pool_all_blocks(const kvg_audit *a); /* with those of the host */

/* Digests, never 0 but of no text. */
uint64_t pool_digest_text(const char *text);
uint64_t pool_digest_tokens(const int64_t *tokens, size_t count);

/* Items that have names, by name: 0 if there is none. */
uint32_t pool_name_find(const pool_table *t, const char *name);
kvg_status pool_name_add(pool_table *t, const char *name, uint32_t *id) KVG_CHECKED;
void pool_name_drop(pool_table *t, uint32_t id);

pool_sequence *pool_sequence_at(const kvg_audit *a, uint32_t id);
pool_content *pool_content_at(const kvg_audit *a, uint32_t id);
pool_holding *pool_holding_at(const kvg_audit *a, uint32_t id);

/* Which tokens of a block are written; `leading`: how many from the first one on; `any`: whether
 * one of these is. */
uint64_t *pool_written(const kvg_audit *a, uint32_t id);
void pool_written_fill(kvg_audit *a, uint32_t id, bool all);
uint32_t pool_written_leading(const kvg_audit *a, uint32_t id);
bool pool_written_any(const kvg_audit *a, uint32_t id, int64_t first, int64_t count);
bool pool_is_empty(const kvg_audit *a, uint32_t id);

/* The block has so many holders now and is stored under this hash; nothing is written in a free one. */
void pool_become(kvg_audit *a, uint32_t id, uint32_t holders, uint32_t stored);

/* The order of free and cached blocks: pool_audit_order.c. `make` and `free`: of its memory. `change`: a block of the
 * pool was in this state before, and is in another now. */
bool pool_order_make(kvg_audit *a);
void pool_order_free(kvg_audit *a);
void pool_order_change(kvg_audit *a, uint32_t id, int before);

/* An event that takes blocks begins, or takes a block, which is still in its state; `tail`: a block of the same list
 * that should have been taken before, or -1. */
void pool_order_begin(kvg_audit *a, pool_taken *taken);
void pool_order_take(kvg_audit *a, uint32_t id, pool_taken *taken, int64_t *tail);

/* The free block with the lowest id and the cached one that was given up first; -1: there is none. */
int64_t pool_order_lowest(const kvg_audit *a);
int64_t pool_order_oldest(const kvg_audit *a);

void pool_content_release(kvg_audit *a, uint32_t id); /* one block less is stored under a hash */

/* The number of what says that a sequence holds a block; 0: it does not. */
uint32_t pool_holding_find(const kvg_audit *a, uint32_t owner, uint32_t id);

/* The event's sequence holds a block now. *owner is its number, or 0 as long as it holds nothing. */
kvg_status pool_hold(kvg_audit *a, uint32_t *owner, uint32_t id) KVG_CHECKED;
void pool_let_go(kvg_audit *a, uint32_t which);

#endif
