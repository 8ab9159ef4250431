/* The interface between kvgold and a block manager that it judges: a shared library that exports one function,
 * `kvg_manager_export`, which returns one struct of functions. This header is the manual; examples/manager has a
 * complete one.
 *
 *     cc -std=c11 -shared -fPIC -I PREFIX/include/kvgold manager.c -o libmanager.so
 *     kvgold pool check ./libmanager.so
 *
 * A plug-in includes this header alone (C11, C++17 or later) and links nothing of kvgold.
 *
 * What runs. kvgold plays an engine: sequences arrive with tokens, many of which others have too, grow, and end. It
 * writes down what the manager answers as events of docs/spec/paging.md section 7, and judges these by the rules
 * there. So whatever the contract leaves to a manager (which free block, which victim, when to evict, whether to
 * share) is its choice. The manager runs in a process of its own. One thread calls it.
 *
 * Words. A block holds block_tokens tokens. Block i of a sequence's table holds its tokens from i * block_tokens on. A
 * sequence holds the blocks of its table, until it is released. A block is available if no sequence holds it.
 *
 * Statuses. KVG_OK: done. KVG_ERR_EXHAUSTED, of the functions with a table: fewer blocks are available than the
 * sequence has not yet, and in `grow` one more in each group for a copy; of `swap_out`: fewer of the host's than its
 * table gets. Nothing has changed. Any other status is a failure, which ends the check, but for KVG_ERR_UNIMPLEMENTED
 * of `open` and KVG_ERR_MEMORY as below. So does a crash, and a call that takes longer than 10 s.
 *
 * Windows. If n tokens of a sequence are written, its next token sees those from n + 1 - window on, counted from 0. A
 * block whose tokens all stand before that one is passed. `grow` may give up blocks that are passed, by
 * KVG_MANAGER_NO_BLOCK as their entries, and `fork` those of the child; n is what `written` said last. `admit` may
 * leave out blocks that are passed where n is `cached`. An entry that is given up stays so. A manager that keeps all
 * blocks is right, too.
 *
 * Groups. The layers of a model can be of several kinds, such as layers with a window beside layers that see all
 * tokens. The layers of a kind are a group. Each group has all tokens of a sequence in blocks of its own, which hold
 * as many tokens as the group says. All groups take their blocks from the one pool. A call then answers with a table
 * for each group: `table` is that of group 0, and table->next that of the next one. A manager that claims no groups is
 * asked for pools of one group alone, and its tables have no next.
 *
 * Swapping. A pool may have blocks in the host's memory, too: ids blocks to blocks + host_blocks - 1. Of a manager
 * that claims KVG_MANAGER_SWAP `swap_out` moves a sequence's written tokens there, and `swap_in` moves them back, both
 * into blocks that no sequence holds. In between the sequence holds the host's blocks and no others, and is given to
 * `swap_in` and `release` alone. Of the other functions no table has a block of the host, and `available` does not
 * count them.
 *
 * Caching in the host. A manager that claims KVG_MANAGER_HOST_CACHE may keep blocks in the host's memory before it
 * gives them to others: a copy from a block of the pool, all of whose tokens are written, into one of the host, which
 * no sequence holds, may stand in any answer but that of `swap_out`. kvgold does these copies first. `admit` may then
 * find tokens in blocks of the host, too, also in full ones of `swap_out`: it counts them in `cached`, their entries
 * are new blocks, and `copies` of the group has the pairs. No answer has copies both into a block of the host and from
 * it.
 *
 * Order. What a manager gives away first is its choice, unless it promises more: rules B1 to B4 of docs/spec/paging.md.
 * Of free blocks KVG_MANAGER_LOWEST_FIRST gives those with the lowest ids; KVG_MANAGER_FREE_FIRST gives cached blocks
 * only if no block is free; KVG_MANAGER_OLDEST_FIRST those that were given up first; KVG_MANAGER_TAIL_FIRST, of those
 * that one call gave up of a table, the last ones of the table. A block is given up when its last holder lets it go. It
 * is cached then if all its tokens are written, else free. A call gives up the blocks of one group after another, in
 * the order of the groups, and takes blocks in this order; in each group first those for copies, as they stand in the
 * table, then those behind. The host's blocks may be given away in any order.
 *
 * Memory. A manager that claims KVG_MANAGER_MEMORY takes all its memory by pool->memory, which fails now and then. The
 * call may then answer KVG_ERR_MEMORY, and nothing has changed: kvgold asks the same again. After `close`, and after
 * an `open` that failed, all memory is given back.
 *
 * Growth. New members are added at the end of the structs. struct_size says how many a plug-in has. A member that is 0
 * means the same as one that is left out. Any other change needs a new KVG_MANAGER_ABI. */
#ifndef KVG_PAGING_PAGING_PLUGIN_H
#define KVG_PAGING_PAGING_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#include "core/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { KVG_MANAGER_ABI = 1 };

typedef struct kvg_manager_group {
    uint32_t block_tokens, window; /* as in kvg_manager_pool */
} kvg_manager_group;

/* As malloc and free: `take` gives NULL if there is no memory, and `give` of NULL does nothing. */
typedef struct kvg_manager_memory {
    void *(*take)(void *context, size_t bytes);
    void (*give)(void *context, void *memory);
    void *context; /* for both */
} kvg_manager_memory;

typedef struct kvg_manager_pool {
    uint32_t struct_size;
    uint32_t blocks, block_tokens; /* ids are 0 to blocks - 1 */
    uint32_t window;               /* a token sees the last so many tokens, itself among them; 0: it sees all. For a
                                    * manager that claims KVG_MANAGER_WINDOWS */
    uint32_t group_count;          /* above 1 for a manager that claims KVG_MANAGER_GROUPS */
    const kvg_manager_group *groups; /* block_tokens and window of each; the first has those above */
    const kvg_manager_memory *memory; /* valid until `close` has ended, as `groups` is. A kvgold whose struct_size is
                                       * smaller lacks these two members */
    uint32_t host_blocks;             /* above 0 only for a manager that claims SWAP or HOST_CACHE */
} kvg_manager_pool;

/* All of block `from` is copied into block `to`. */
typedef struct kvg_manager_copy {
    uint32_t from, to;
} kvg_manager_copy;

/* The table of a sequence in a group, in memory of kvgold. */
typedef struct kvg_manager_table {
    uint32_t *blocks; /* ids, room for all blocks of the pool and the host */
    uint32_t count;   /* ceil(tokens of the sequence / block_tokens) */
    uint32_t cached;  /* `admit` alone: its leading tokens that stand in blocks already, from sequences before: a
                       * multiple of block_tokens, below the number of its tokens; the same in the tables of all
                       * groups. kvgold will not write them */
    kvg_manager_copy *copies; /* what kvgold copies in this group before it writes and before the next call: into
                               * entries of `blocks`, from what was there or in the host, and into the host's cache.
                               * Room for all blocks of the pool and the host */
    uint32_t copy_count;      /* 0 before the call */
    struct kvg_manager_table *next; /* of the next group; NULL: there is none */
} kvg_manager_table;

/* Entry of a table: the window has passed its tokens, and the sequence holds no block for them. */
#define KVG_MANAGER_NO_BLOCK UINT32_MAX

/* What a manager can do besides pools of one group whose tokens see all (groups with a window need both), and what it
 * promises besides the contract. */
enum { KVG_MANAGER_WINDOWS = 1, KVG_MANAGER_GROUPS = 2, KVG_MANAGER_MEMORY = 4, KVG_MANAGER_SWAP = 8,
       KVG_MANAGER_HOST_CACHE = 16, KVG_MANAGER_LOWEST_FIRST = 32, KVG_MANAGER_FREE_FIRST = 64,
       KVG_MANAGER_OLDEST_FIRST = 128, KVG_MANAGER_TAIL_FIRST = 256 };

typedef struct kvg_manager {
    uint32_t abi;         /* KVG_MANAGER_ABI */
    uint32_t struct_size; /* sizeof(kvg_manager) */
    const char *name;     /* for people */

    /* Makes a manager of an empty pool, and ends it. `open` answers KVG_ERR_UNIMPLEMENTED to a pool that the manager
     * cannot do, such as one of another block size than its own. */
    kvg_status (*open)(const kvg_manager_pool *pool, void **manager);
    void (*close)(void *manager);

    /* A sequence begins, with tokens[count], count > 0. Sequences of another salt must not share its blocks. */
    kvg_status (*admit)(void *manager, uint64_t sequence, uint64_t salt, const int32_t *tokens, uint32_t count,
                        kvg_manager_table *table);

    /* A sequence has tokens[count] now: more than before, of which those that it had are the first. The blocks that its
     * table had are the first of the new one. kvgold will write tokens behind those that are written: where they begin
     * in a block that another sequence holds too, that block is replaced by another, and `copies` has the pair. */
    kvg_status (*grow)(void *manager, uint64_t sequence, const int32_t *tokens, uint32_t count,
                       kvg_manager_table *table);

    /* The engine has written the sequence's first `count` tokens into its blocks, at least as many as before. */
    kvg_status (*written)(void *manager, uint64_t sequence, uint32_t count);

    /* A sequence ends, or is preempted: it comes again by `admit`, with all the tokens that it had. */
    kvg_status (*release)(void *manager, uint64_t sequence);

    /* How many blocks are available. NULL: the manager does not count them, and a leak is not seen. */
    kvg_status (*available)(void *manager, uint32_t *blocks);

    /* One line on the last call that failed; NULL: no text. */
    const char *(*error_text)(void);

    /* Sequence `child` begins with the tokens and the salt of `parent`, which are all written: in its blocks, or in
     * copies of them. NULL: the manager cannot do that. */
    kvg_status (*fork)(void *manager, uint64_t parent, uint64_t child, kvg_manager_table *table);

    uint32_t claims; /* KVG_MANAGER_* */

    /* A sequence pauses. Its table gets a block of the host in place of each block with written tokens that the window
     * still sees, and a copy of it; all other entries are KVG_MANAGER_NO_BLOCK. */
    kvg_status (*swap_out)(void *manager, uint64_t sequence, kvg_manager_table *table);

    /* It goes on. Its table gets a block in place of each of the host's, and a copy of it. Entries without written
     * tokens get blocks, too, and those that the window has passed stay KVG_MANAGER_NO_BLOCK. */
    kvg_status (*swap_in)(void *manager, uint64_t sequence, kvg_manager_table *table);
} kvg_manager;

/* The symbol that a plug-in exports. KVG_PLUGIN_EXPORT stands before its definition. */
#define KVG_MANAGER_SYMBOL "kvg_manager_export"
typedef const kvg_manager *kvg_manager_export_fn(void);
KVG_PLUGIN_VISIBLE const kvg_manager *kvg_manager_export(void);

#ifdef __cplusplus
}
#endif
#endif
