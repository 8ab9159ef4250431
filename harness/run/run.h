/* Room run: all cases of a config, in child processes.
 *
 *   run                    The parent: it starts children, watches them and writes the result file.
 *   run_child              A child: it judges its share of the cases.
 *   run_file               The file of the results.
 *   run_log                What candidates print.
 *   run_origin             Where the results come from.
 *   backends               Which implementation a name means.
 *   capabilities           What an implementation claims to do, and which cases that covers.
 *   claims_config          A config that asks what an implementation claims.
 *
 * The parent runs no candidate and opens no CUDA. */
/* The process model: a parent that never runs a candidate, and child processes that do.
 *
 * Each child runs its share of the cases in order. Before a case it announces it, so that a crash, a hang or an exit
 * costs that case alone: the parent records CRASH or HANG with the repro line and starts a new child for the rest.
 * Results are written one line at a time and flushed; whatever happens, the lines of finished cases stay valid. The
 * parent keeps their SHA-256 in its own memory: whoever reads the file after the run, when all its processes have
 * ended, can tell whether one of them changed it.
 *
 * A kernel that faults leaves its process without a device: the implementation returns KVG_ERR_DEVICE, the case is a
 * CRASH, and the child ends in favour of a new one. After a CRASH, a HANG or a lost device the next child first asks
 * the backend whether its device answers (kvg_backend.ready). If not, the case and all that follow on that backend are
 * DEVICE_LOST; none of them runs.
 *
 * An answer may depend on what the process was asked before: scratch that is not cleared, a page that stayed. So the
 * first cases of an op that FAIL behind another case, or CRASH where no device is, are asked again: alone, in a new
 * process, one more than `jobs`, and if they pass there behind the one case that came before. What that shows stands in
 * their result, and the repro line follows from it. */
#ifndef KVG_HARNESS_RUN_RUN_H
#define KVG_HARNESS_RUN_RUN_H

#include "core/verdict.h"
#include "golden/golden.h"
#include "harness/config/config.h"
#include "support/confine.h"

enum { KVG_MAX_JOBS = 64 };

typedef struct kvg_run_options {
    const char *out_folder;  /* made if missing; receives results.jsonl and logs */
    const char *only_case;   /* run this id alone; NULL: all */
    const char *after;       /* ... behind this one, in one process; NULL: behind none */
    uint32_t shard, shards;  /* 0-based shard of `shards` */
    uint32_t jobs;           /* child processes at a time, 1 to KVG_MAX_JOBS; each uses its share of OpenMP's threads */
    kvg_confinement confinement; /* of candidates, where the machine allows */
    const char *capabilities; /* capability file of every backend; NULL: the one beside its library, if there is one */
} kvg_run_options;

typedef struct kvg_run_summary {
    size_t cases; /* selected; 0 of a shard without a case */
    uint64_t counts[KVG_VERDICT_COUNT];
    kvg_sha256_digest digest; /* of results.jsonl as this process wrote it */
    bool interrupted; /* SIGINT or SIGTERM arrived: the file holds what had finished */
} kvg_run_summary;

/* The options select the case: the ids that they name, their shard. */
bool kvg_run_selects(const kvg_run_options *options, const kvg_case *c);

/* Whether a file of that name in the run's folder is a log of a candidate. A run removes those of an earlier one. */
bool kvg_run_is_log(const char *name);

/* Runs the selected cases. KVG_ERR_INVALID if `only_case` is in another shard, KVG_ERR_IO if the folder or the file
 * cannot be written (lines already written stay), if another run writes there, or if a child ends badly after its last
 * case (a memory checker's verdict, say). */
kvg_status kvg_run(const kvg_config *config, const kvg_run_options *options, kvg_run_summary *summary) KVG_CHECKED;

#endif
