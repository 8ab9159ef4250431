/* Another program's block manager (paging/paging_plugin.h), asked as an engine would ask it. What it answers becomes a
 * log of docs/spec/paging.md section 7, which kvg_audit_log judges. */
#ifndef KVG_PAGING_POOL_POOL_GUEST_H
#define KVG_PAGING_POOL_POOL_GUEST_H

#include <stdio.h>

#include <cjson/cJSON.h>

#include "core/backend.h"
#include "paging/paging_plugin.h"
#include "paging/pool/pool_audit.h"
#include "paging/pool/pool_guest_pool.h"

/* What writes and reads the blocks: pool_guest_bytes.h. */
typedef struct kvg_guest_bytes {
    kvg_status (*open)(const char *backend, const kvg_backend **out);
    const char *backend, *format, *layout;
} kvg_guest_bytes;

typedef struct kvg_guest_run {
    const char *library, *pool; /* pool: the text of pool_guest_pool.h */
    uint64_t seed, operations;
    const kvg_guest_bytes *bytes; /* NULL: ids alone are judged */
    uint32_t live, blocks; /* sequences at a time, and the most blocks of one; 0: 48, so long that they fill the pool */
    double seconds;        /* no operation begins later; 0: no limit */
    double filling;        /* first sequences begin until the pool is full, at most so many seconds */
    bool spares_memory;    /* a manager that takes its memory from kvgold always gets it */
} kvg_guest_run;

typedef struct kvg_guest_result {
    uint64_t operations;    /* that were asked */
    uint64_t tokens, found; /* that sequences began with; of these found in the cache */
    uint64_t read;          /* tokens that were read from the blocks, and compared */
    uint64_t failures;      /* takes of memory that were made to fail */
    double seconds, inside; /* that the operations took; of these in the manager's functions */
    double held;            /* of the pool's blocks, the share that sequences hold behind the last operation */
    uint64_t bytes;         /* the largest memory of the process so far */
    kvg_status status;      /* of the library, or of the call that broke paging/paging_plugin.h, or of the operation
                             * that read other bytes; KVG_OK: none did */
    char text[240];         /* what it was; of a process that died, in which call */
    bool is_skipped;        /* the manager does not claim that it can do the pool, or says so in `open`, or the backend
                             * cannot do it, as `text` says */
    int death;              /* the wait status of a process that died; 0: it did not */
} kvg_guest_result;

/* Runs a manager in a process of its own, which a call that takes longer than this ends. The log is whole up to the
 * manager's last answer, also if the process died. KVG_ERR_IO: there was no process, or no room for the log;
 * KVG_ERR_MEMORY. */
enum { KVG_GUEST_CALL_SECONDS = 10 };
kvg_status kvg_guest_play(const kvg_guest_run *run, FILE *log, kvg_guest_result *out) KVG_CHECKED;

typedef struct kvg_guest_verdict {
    bool fails;                         /* a rule is broken, or paging_plugin.h is, or the process died */
    uint64_t operations, tokens, found, read, failures; /* of all runs, as in kvg_guest_result */
    size_t pools;                       /* that were tried */
    kvg_guest_run run;                  /* if it fails: the shortest run that was found, */
    kvg_guest_result result;            /* and what came of it; */
    kvg_guest_result first;             /* what came of the run that failed first, which that one shortens */
    kvg_audit_totals totals;
} kvg_guest_verdict;

/* Plays a manager on pools of several sizes, until it fails; `asked` has the library, the seed, the operations on each
 * pool (0: a number that takes a second), and the only pool that is asked for, or NULL. The last run's log is the file
 * `path`; of a failure that is the shortest one, whose violations are reported. KVG_ERR_NOT_FOUND, KVG_ERR_INVALID: the
 * library has no manager, or one that takes no pool; KVG_ERR_IO. */
kvg_status kvg_guest_check(const kvg_guest_run *asked, const char *path, kvg_audit_report report,
                           kvg_guest_verdict *out) KVG_CHECKED;

/* Measures what an operation costs in the manager and in kvgold, in pools of 10^3 to 10^6 blocks, or in asked->pool
 * alone, which are filled before; without a verdict. Prints a table and adds each line to `list`. asked->operations: on
 * each pool; 0: 200,000. Filling ends after this time, and after as much again no operation begins. Errors are those of
 * kvg_guest_play and of the manager, KVG_ERR_INVALID if it takes no pool, and KVG_ERR_IO after a signal. */
enum { KVG_GUEST_BENCH_SECONDS = 10 };
kvg_status kvg_guest_bench(const kvg_guest_run *asked, cJSON *list) KVG_CHECKED;

#endif
