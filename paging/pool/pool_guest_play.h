/* One run of pool_guest.c: its state, the calls of the manager and the answers to them; private to pool_guest*.c. */
#ifndef KVG_PAGING_POOL_POOL_GUEST_PLAY_H
#define KVG_PAGING_POOL_POOL_GUEST_PLAY_H

#include "paging/pool/pool_guest.h"
#include "paging/pool/pool_guest_bytes.h"
#include "paging/pool/pool_guest_log.h"

typedef enum pool_guest_call {
    CALL_LOAD, CALL_OPEN, CALL_ADMIT, CALL_GROW, CALL_FORK, CALL_WRITTEN, CALL_RELEASE, CALL_AVAILABLE, CALL_CLOSE,
    CALL_SWAP_OUT, CALL_SWAP_IN,
    CALL_BYTES, /* of the backend */
    CALLS
} pool_guest_call;

/* The memory of a manager that takes it from kvgold. */
typedef struct pool_guest_memory {
    kvg_manager_memory functions;
    uint64_t taken;   /* how often, in this call */
    uint64_t failing; /* the take of this call that fails, counted from 1; 0: none does */
    int64_t pieces;   /* that were taken and not given back */
} pool_guest_memory;

/* What the child does, in memory that it shares with its parent. */
typedef struct pool_guest_play {
    const kvg_guest_run *run;
    kvg_manager_pool pool;
    kvg_manager_group groups[KVG_GUEST_GROUPS]; /* its */
    pool_guest_log log;
    kvg_guest_result result;
    kvg_manager manager; /* what this kvgold knows of the library's, the rest 0 */
    void *self;
    pool_guest_call call; /* the last one, */
    uint64_t whose;       /* of this sequence; 0: of none */
    bool is_running;  /* it has not answered yet */
    bool is_answered; /* and is not to be repeated */
    pool_guest_memory memory;
    double armed;    /* when the limit of time was set */
    double entered, inside; /* when the call began; what all calls have taken */
    pool_guest_sequence *live;
    uint32_t live_count, most_live;
    pool_guest_sequence *paused; /* swapped out; at most most_live */
    uint32_t paused_count;
    pool_guest_sequence preempted; /* the last one that is to come again; without tokens: there is none */
    uint64_t begun, drawn, asked; /* sequences; numbers for them; calls */
    int32_t *tokens; /* that sequences share as prefixes, below PREFIX_TOKENS; most_tokens for each */
    kvg_manager_table answer[KVG_GUEST_GROUPS];
    uint32_t *changed; /* entries of a table that an answer changes, for one event */
    pool_guest_bytes *bytes; /* NULL: ids alone are judged */
} pool_guest_play;

/* The pool gets functions that take memory. */
void pool_guest_memory_make(pool_guest_play *p);

/* A call of the manager, which is repeated as long as its memory is made to fail:
 *
 *     while (pool_guest_asks(p, CALL_GROW, id)) s = pool_guest_answered(p, p->manager.grow(...)); */
bool pool_guest_asks(pool_guest_play *p, pool_guest_call call, uint64_t whose);
kvg_status pool_guest_answered(pool_guest_play *p, kvg_status answer);

/* The last call, such as "grow of sequence 7". A library can have written over what says so. */
const char *pool_guest_last_call(const pool_guest_play *p, char text[static 64]);

/* The last call broke paging/paging_plugin.h: "CALL gives ...". */
kvg_status KVG_PRINTF(2, 3) pool_guest_broke(const pool_guest_play *p, const char *format, ...);
kvg_status pool_guest_failed(const pool_guest_play *p, kvg_status s);

/* An empty answer, of which a manager gets the first table. */
kvg_manager_table *pool_guest_empty_answer(pool_guest_play *p);

/* What a manager says of cached tokens in `grow` and `fork`, which do not ask. */
void pool_guest_ignore_cached(pool_guest_play *p);

/* Holds an answer for all groups against what the sequence had, then takes it over and writes it down. `parent`: of a
 * fork; else NULL. */
kvg_status pool_guest_take_answer(pool_guest_play *p, const pool_guest_sequence *parent, pool_guest_sequence *q);

/* The same of `swap_out` or `swap_in`, whichever was the last call. */
kvg_status pool_guest_take_swap(pool_guest_play *p, pool_guest_sequence *q);

#endif
