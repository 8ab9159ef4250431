/* Traces: what `kvgold pool` does to the managers of block ids, as data. docs/guide/pool.md has the JSON. Every
 * sequence of operations is a trace: the model says of each whether it must be refused, so that parts of a trace are
 * traces too. */
#ifndef KVG_PAGING_POOL_POOL_TRACE_H
#define KVG_PAGING_POOL_POOL_TRACE_H

#include <stdio.h>

#include "golden/golden.h"
#include "paging/paging_prefix.h"

enum {
    KVG_POOL_MAX_OPS = 1 << 20,
    KVG_POOL_MAX_ITEMS = 4096,        /* of one operation's list */
    KVG_POOL_MAX_TOKENS = 1 << 16,    /* of one operation */
    KVG_POOL_MAX_SLOTS = 1 << 24,     /* capacity * block_tokens * cp_size */
    KVG_POOL_DOMAINS = 27,            /* key domains */
    KVG_POOL_GEOMETRY_KEYS = 9
};

/* The pools a trace runs on. All members are int64_t: they are read, listed and shrunk through one table. */
typedef struct kvg_pool_geometry {
    int64_t capacity, chunk, block_tokens, cp_size, window;
    int64_t scale, prefix;  /* 1: there is a scale pool, a prefix index */
    int64_t hash_bits;      /* bits of the prefix hash that are kept: few make tokens collide */
    int64_t vocabulary;     /* tokens are 0 to vocabulary - 1 */
} kvg_pool_geometry;

typedef struct kvg_pool_geometry_key {
    const char *name;
    size_t offset;
    int64_t min, max, simplest; /* `simplest`: what shrinking tries */
    int64_t standard;           /* where the key is left out */
    bool flag;                  /* true or false in JSON */
} kvg_pool_geometry_key;

extern const kvg_pool_geometry_key kvg_pool_geometry_keys[KVG_POOL_GEOMETRY_KEYS];

/* The operations, first those on sequences, then those on blocks alone. EVICT belongs to both kinds of trace. */
typedef enum kvg_pool_verb {
    KVG_POOL_CREATE, KVG_POOL_APPEND, KVG_POOL_MATERIALISE, KVG_POOL_WRITTEN, KVG_POOL_RELEASE, KVG_POOL_PREEMPT,
    KVG_POOL_FORK, KVG_POOL_ERASE, KVG_POOL_COMMIT, KVG_POOL_VERIFY, KVG_POOL_READ, KVG_POOL_EVICT, KVG_POOL_ALLOCATE,
    KVG_POOL_LOCK, KVG_POOL_UNLOCK, KVG_POOL_FREE, KVG_POOL_TOUCH, KVG_POOL_ALIVE, KVG_POOL_BEGIN, KVG_POOL_END,
    KVG_POOL_UNDO, KVG_POOL_VERBS
} kvg_pool_verb;

/* A request of a materialise (`id`: the sequence), or a block of a list (`id`: the block). */
typedef struct kvg_pool_item {
    uint64_t id;
    uint32_t priority;
    int32_t extra;       /* context = known tokens + extra: drafts; negative: less than is known */
    uint32_t max_tokens;
    uint32_t life;       /* a reference to the block `life` lives ago; 0: the present one */
} kvg_pool_item;

/* What is made to fail during an operation; it is then repeated without. */
typedef enum kvg_pool_fault_kind {
    KVG_POOL_FAULT_NONE,
    KVG_POOL_FAULT_MEMORY,  /* an allocation of host memory */
    KVG_POOL_FAULT_GROW,    /* a pool's grow callback */
    KVG_POOL_FAULT_DATA,    /* a call of the data pool returns KVG_ERR_MEMORY */
    KVG_POOL_FAULT_SCALE,   /* a call of the scale pool */
    KVG_POOL_FAULT_REFUSE,  /* the scale pool's allocate returns KVG_ERR_EXHAUSTED */
    KVG_POOL_FAULT_PUBLISH, /* a call of the prefix index */
    KVG_POOL_FAULT_KINDS
} kvg_pool_fault_kind;

extern const char *const kvg_pool_fault_names[KVG_POOL_FAULT_KINDS];

typedef struct kvg_pool_fault {
    kvg_pool_fault_kind kind;
    uint32_t at; /* which of the operation's calls of that kind, from 0 */
} kvg_pool_fault;

typedef struct kvg_pool_op {
    kvg_pool_verb verb;
    uint64_t sequence, child, seed;
    uint32_t domain, prompt, shared, tail; /* create: `shared` tokens of prompt `prompt`, then `tail` own ones */
    uint32_t count;                        /* tokens or blocks */
    int32_t over;                          /* written: tokens above (or below) what was granted */
    uint32_t first, rank;                  /* read */
    kvg_pool_item *items;
    uint32_t item_count;
    kvg_pool_fault fault;
} kvg_pool_op;

typedef struct kvg_pool_trace {
    char name[64];
    char defect[48];     /* planted defect, or empty */
    char violation[16];  /* what it is known to violate, or empty */
    bool blocks;         /* operations on blocks alone */
    kvg_pool_geometry geometry;
    kvg_pool_op *ops;    /* owned, their items too */
    size_t op_count, op_room;
} kvg_pool_trace;

const char *kvg_pool_verb_name(kvg_pool_verb verb);
bool kvg_pool_verb_fits(kvg_pool_verb verb, bool blocks); /* in a trace on blocks alone, or on sequences */

/* Appends a copy of `op`, its items copied too. */
kvg_status kvg_pool_trace_add(kvg_pool_trace *trace, const kvg_pool_op *op) KVG_CHECKED;
kvg_status kvg_pool_trace_copy(const kvg_pool_trace *from, kvg_pool_trace *to) KVG_CHECKED;
void kvg_pool_trace_remove(kvg_pool_trace *trace, size_t first, size_t count);
void kvg_pool_trace_free(kvg_pool_trace *trace);

/* KVG_ERR_INVALID unless every value is in its range and the slots are not too many. */
kvg_status kvg_pool_geometry_check(const kvg_pool_geometry *geometry) KVG_CHECKED;
int64_t kvg_pool_geometry_get(const kvg_pool_geometry *geometry, int key);
void kvg_pool_geometry_set(kvg_pool_geometry *geometry, int key, int64_t value);

/* One value of a geometry key, checked against its range. */
kvg_status kvg_pool_geometry_read(kvg_json value, int key, int64_t *out) KVG_CHECKED;

/* A whole trace, as `kvgold pool replay` reads and shrinking writes it: one operation per line. */
kvg_status kvg_pool_trace_read(kvg_json root, kvg_pool_trace *trace) KVG_CHECKED;
kvg_status kvg_pool_trace_open(const char *path, kvg_pool_trace *trace) KVG_CHECKED;
kvg_status kvg_pool_trace_save(const kvg_pool_trace *trace, const char *path) KVG_CHECKED;
void kvg_pool_trace_print(const kvg_pool_trace *trace, FILE *out);
void kvg_pool_op_print(const kvg_pool_op *op, FILE *out);

/* The key of a domain: each field is 0, 1 or 2^32 + 1, so that a field compared in 32 bits shows. */
kvg_prefix_key kvg_pool_domain_key(uint32_t domain);

/* Token i of a shared prompt, or of a text of one's own. */
int32_t kvg_pool_prompt_token(uint32_t prompt, uint32_t i, int64_t vocabulary);
int32_t kvg_pool_own_token(uint64_t seed, uint32_t i, int64_t vocabulary);

#endif
