/* Configs of `kvgold pool`: scenarios that random traces are drawn from, files of scripted traces, sizes to measure.
 * docs/guide/pool.md is the manual, configs/pool_schema.json the published schema. */
#ifndef KVG_PAGING_POOL_POOL_CONFIG_H
#define KVG_PAGING_POOL_POOL_CONFIG_H

#include "paging/pool/pool_trace.h"

enum { KVG_POOL_MAX_CHOICES = 16 };

/* A number drawn anew each time, lo <= hi. */
typedef struct kvg_pool_range {
    int64_t lo, hi;
} kvg_pool_range;

/* What to draw random traces from. */
typedef struct kvg_pool_scenario {
    const char *name;
    bool blocks;                 /* operations on blocks alone */
    kvg_pool_range operations;   /* of the whole scenario */
    kvg_pool_range trace;        /* operations of one trace */
    kvg_pool_range sequences;    /* at most so many at a time */
    kvg_pool_range domains;      /* key domains in use */
    kvg_pool_range prompts;      /* different shared prompts */
    kvg_pool_range shared, tail; /* tokens of a prompt, shared and one's own; 1 own if both are 0 */
    kvg_pool_range append;       /* tokens generated at a time */
    kvg_pool_range drafts;       /* context beyond the known tokens */
    kvg_pool_range max_tokens;   /* of a step */
    kvg_pool_range batch;        /* requests of a materialise; blocks of a list */
    kvg_pool_range priorities;   /* of a request */
    kvg_pool_range burst;        /* operations that a change of mood lasts */
    kvg_pool_range illegal;      /* per mille of operations that should be refused */
    bool faults;                 /* every possible fault of every trace */
    unsigned weights[KVG_POOL_VERBS];
    int64_t geometry[KVG_POOL_GEOMETRY_KEYS][KVG_POOL_MAX_CHOICES];
    uint32_t choices[KVG_POOL_GEOMETRY_KEYS];
} kvg_pool_scenario;

typedef struct kvg_pool_config {
    const char *path, *name;
    uint64_t seed;
    kvg_pool_scenario *scenarios;
    size_t scenario_count;
    char **traces; /* paths, relative to the working directory */
    size_t trace_count;
    uint32_t bench_blocks[KVG_POOL_MAX_CHOICES];
    size_t bench_count;
    double bench_seconds; /* per operation and size */
    kvg_json_doc *doc;
} kvg_pool_config;

/* Everything is checked before anything runs; KVG_ERR_INVALID names file, JSON path and remedy. Close it. */
kvg_status kvg_pool_config_open(const char *path, kvg_pool_config *out) KVG_CHECKED;
void kvg_pool_config_close(kvg_pool_config *config);

#endif
