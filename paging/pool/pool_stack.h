/* The managers under test, put together for one trace: data pool, scale pool, prefix index and sequences, with a gate
 * in front of each where faults are injected and planted defects sit. */
#ifndef KVG_PAGING_POOL_POOL_STACK_H
#define KVG_PAGING_POOL_POOL_STACK_H

#include "paging/pool/pool_trace.h"
#include "paging/paging.h"

/* An implementation of the three managers. Each make_* gives a handle for its destroy_* and the table to work with. */
typedef struct kvg_pool_backend {
    const char *name;
    kvg_status (*make_blocks)(const kvg_block_config *config, void **handle, kvg_block_pool *pool);
    kvg_status (*make_prefix)(const kvg_prefix_config *config, void **handle, kvg_prefix_pool *pool);
    kvg_status (*make_sequences)(const kvg_sequence_config *config, void **handle, kvg_sequence_pool *pool);
    void (*destroy_blocks)(void *handle); /* NULL handles: nothing */
    void (*destroy_prefix)(void *handle);
    void (*destroy_sequences)(void *handle);
} kvg_pool_backend;

const kvg_pool_backend *kvg_pool_reference(void);

enum { KVG_POOL_DATA, KVG_POOL_SCALE, KVG_POOL_SIDES };
enum { KVG_POOL_NOTES = 64 };

struct kvg_pool_stack;

/* Gates pass every call on to `inner`, after counting it. A defect replaces members of `ops` and may take notes. */
typedef struct kvg_block_gate {
    kvg_block_ops ops;
    kvg_block_pool inner;
    struct kvg_pool_stack *stack;
    int side;
} kvg_block_gate;

typedef struct kvg_prefix_gate {
    kvg_prefix_ops ops;
    kvg_prefix_pool inner;
    struct kvg_pool_stack *stack;
} kvg_prefix_gate;

typedef struct kvg_sequence_gate {
    kvg_sequence_ops ops;
    kvg_sequence_pool inner;
    struct kvg_pool_stack *stack;
} kvg_sequence_gate;

typedef struct kvg_pool_stack {
    const kvg_pool_backend *backend;
    kvg_pool_geometry geometry;
    kvg_memory memory;
    size_t live;                         /* allocations of host memory not given back */
    kvg_pool_fault fault;                /* armed; kind NONE: nothing fails */
    bool fired;                          /* the armed fault has happened */
    uint32_t calls[KVG_POOL_FAULT_KINDS]; /* places where a fault of each kind could happen, since kvg_pool_stack_arm */
    kvg_sequence_config config;          /* what the sequences are made with */
    void *block_handles[KVG_POOL_SIDES], *prefix_handle, *sequence_handle;
    kvg_block_gate block_gates[KVG_POOL_SIDES], views[KVG_POOL_SIDES];
    kvg_prefix_gate prefix_gate;
    kvg_sequence_gate sequence_gate;
    kvg_block_pool blocks[KVG_POOL_SIDES]; /* ops NULL: no such pool */
    kvg_block_pool view[KVG_POOL_SIDES];   /* where the checker looks */
    kvg_prefix_pool prefix;                /* where the checker looks; ops NULL: none */
    kvg_sequence_pool sequences;           /* ops NULL in a trace on blocks alone */
    uint64_t notes[KVG_POOL_NOTES];        /* a defect's memory; all 0 at first */
} kvg_pool_stack;

/* Puts a planted defect into the gates or the config: when pools and index are made, before the sequences are. */
typedef void (*kvg_pool_install)(kvg_pool_stack *stack);

/* `blocks`: pools alone. `install` may be NULL. An armed fault (of kind MEMORY or GROW) acts during the making too.
 * On failure nothing is left behind. */
kvg_status kvg_pool_stack_make(kvg_pool_stack *stack, const kvg_pool_backend *backend,
                               const kvg_pool_geometry *geometry, bool blocks, kvg_pool_install install) KVG_CHECKED;
void kvg_pool_stack_destroy(kvg_pool_stack *stack);

/* From here on counts the places of faults anew, and makes `fault` happen. */
void kvg_pool_stack_arm(kvg_pool_stack *stack, kvg_pool_fault fault);

#endif
