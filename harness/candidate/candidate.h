/* Room candidate: the implementation under test, in a process of its own.
 *
 *   candidate              The judge's side: it asks a problem and gets an answer.
 *   candidate_server       The candidate's side, the only code of the harness that runs where a plug-in can reach it.
 *   candidate_call         What both sides know of the socket between them.
 *   arena                  Shared memory in which tensors go there and back.
 *
 * The room knows problems, not cases, and no room that computes a right answer stands above it. So no right answer can
 * get into the candidate's process. */
/* The implementation under test, as the check loop sees it: it is asked a problem and gives an
 * answer. It runs in a process of its own, which never holds a right answer. The judge's process
 * never opens the candidate's library, and computes right answers in memory that did not exist when
 * the candidate's process was forked. Tensors go there and back through shared memory
 * (harness/candidate/arena.h), in copies: the judge's side compares guards, inputs and answers.
 * Tests may also run kvgold's own functions in the caller's process. */
#ifndef KVG_HARNESS_CANDIDATE_CANDIDATE_H
#define KVG_HARNESS_CANDIDATE_CANDIDATE_H

#include "core/backend.h"
#include "support/confine.h"

typedef struct kvg_candidate kvg_candidate;

enum { KVG_CANDIDATE_TEXT_SIZE = 512 };

/* What an open backend says about itself. */
typedef struct kvg_candidate_facts {
    char name[KVG_IMPL_NAME_SIZE];
    uint32_t sm;        /* compute capability of its GPU; 0: none */
    bool device_memory; /* tensors lie in the backend's own memory */
    bool has_ready;     /* it has a function that tells whether its device answers */
} kvg_candidate_facts;

/* What became of a call. */
typedef struct kvg_outcome {
    kvg_status status; /* the implementation's; KVG_ERR_DEVICE also if its process died: it cannot be asked again */
    char impl[KVG_IMPL_NAME_SIZE];      /* the chosen implementation; "": none */
    char text[KVG_CANDIDATE_TEXT_SIZE]; /* why status is not KVG_OK */
    char fault[KVG_CANDIDATE_TEXT_SIZE]; /* the first fault of these: the floating-point mode was changed, bytes around
                                          * a tensor were written, an input was written; "": none */
    double milliseconds; /* duration of the implementation alone, as its process says */
    double waited;       /* milliseconds of the whole call, by the clock of this process */
} kvg_outcome;

/* Resolves the name of a backend: kvg_check_backend (harness/run/backends.h), or a test's own. */
typedef kvg_status kvg_backend_opener(const char *name, const kvg_backend **out);

/* Starts a candidate in a new process. Call it before anything expected is computed in this
 * process. `opener` runs in the new process. That process is confined as `most` says, or only by
 * rights if the machine refuses namespaces. `hidden` is a file that it sees as empty (NULL: none).
 * Unless `most` is KVG_CONFINE_NOT, other processes can no longer read this process's memory. */
kvg_status kvg_candidate_start(kvg_confinement most, const char *hidden, kvg_backend_opener *opener,
                               kvg_candidate **out) KVG_CHECKED;

/* The candidate's confinement: a name of support/confine.h, with the reason if namespaces were
 * refused. */
const char *kvg_candidate_confinement(const kvg_candidate *candidate);

/* A candidate in this process: functions of `backend`, isolated only by guards. */
kvg_status kvg_candidate_here(const kvg_backend *backend, kvg_candidate **out) KVG_CHECKED;

/* Ends the candidate. Returns 0, or the wait status of a process that ended badly. NULL is
 * allowed. */
int kvg_candidate_end(kvg_candidate *candidate);

/* Opens a backend by name in the candidate's process, which then serves only this backend. The
 * status and kvg_error_text are those of the opening. KVG_ERR_DEVICE: the process died of it. */
kvg_status kvg_candidate_open(kvg_candidate *candidate, const char *name, kvg_candidate_facts *facts) KVG_CHECKED;

/* A library in its process that exports kvgold's reference, or is another plug-in, behind a call; "": none. */
const char *kvg_candidate_reference_in(const kvg_candidate *candidate);

/* Asks kvg_backend.ready. */
kvg_status kvg_candidate_ready(kvg_candidate *candidate) KVG_CHECKED;

/* `watch` is called with true if a call has had no reply for a tenth of a second, and with false
 * when the reply comes. */
typedef void kvg_candidate_watch(const void *context, bool waiting);
void kvg_candidate_set_watch(kvg_candidate *candidate, kvg_candidate_watch *watch, const void *context);

/* Whether the candidate claims to do a problem. */
typedef bool kvg_candidate_claims(const void *context, const kvg_problem *problem);

/* From here on the candidate is asked only for problems that it claims. Without this call it claims
 * everything. */
void kvg_candidate_limit(kvg_candidate *candidate, kvg_candidate_claims *claims, const void *context);

/* True if the candidate claims the problem and has an implementation of it. */
bool kvg_candidate_has(kvg_candidate *candidate, const kvg_problem *problem);

/* Runs the problem. `in` and `out` are the caller's tensors of the op's roles. The candidate gets a
 * copy of the bytes in `out`, and `out` receives the candidate's answer. Another status than KVG_OK
 * means that the harness itself failed, with kvg_error_text. */
kvg_status kvg_candidate_run(kvg_candidate *candidate, const kvg_problem *problem, const kvg_tensor *in,
                             kvg_tensor *out, kvg_outcome *outcome) KVG_CHECKED;

/* kvg_candidate_run in two steps, for tensors larger than memory. A tensor with bytes and without
 * data is a hole: zeros that take no memory until they are touched. kvg_candidate_put returns in
 * `shared` the candidate's own tensors, first inputs, then outputs. The caller may write them until
 * kvg_candidate_run_put, and read them until the next call. */
kvg_status kvg_candidate_put(kvg_candidate *candidate, const kvg_problem *problem, const kvg_tensor *in,
                             const kvg_tensor *out, kvg_tensor *shared) KVG_CHECKED;
kvg_status kvg_candidate_run_put(kvg_candidate *candidate, const kvg_tensor *in, kvg_tensor *out,
                                 kvg_outcome *outcome) KVG_CHECKED;

/* The offset of the first byte that is not 0 in tensor `index` of `shared`; its size if all are 0. */
uint64_t kvg_candidate_first_nonzero(const kvg_candidate *candidate, size_t index);

/* KVG_OK if the call gave an answer and had no fault. Else kvg_error_text begins with the
 * implementation's name. */
kvg_status kvg_outcome_status(const kvg_outcome *outcome) KVG_CHECKED;

/* As kvg_candidate_run, and returns every failure as one status: the harness's, or that of
 * kvg_outcome_status. */
kvg_status kvg_candidate_answer(kvg_candidate *candidate, const kvg_problem *problem, const kvg_tensor *in,
                                kvg_tensor *out) KVG_CHECKED;

/* Begins another case: the candidate's pointers into memory of earlier calls are dead. */
void kvg_candidate_next_case(kvg_candidate *candidate);

#endif
