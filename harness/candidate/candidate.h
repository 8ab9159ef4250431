/* Room candidate: the implementation under test, in a process of its own.
 *
 *   candidate              The judge's side: it asks a problem and gets an answer.
 *   candidate_server       The candidate's side, the only code of the harness that runs where a plug-in can reach it.
 *   candidate_call         What both sides know of the socket between them.
 *   arena                  Shared memory in which tensors go there and back.
 *
 * The room knows problems, not cases, and no room that computes a right answer stands above it. So no right answer can
 * get into the candidate's process. */
/* The implementation under test, as the check loop sees it: it is asked a problem and gives an answer. It runs in a
 * process of its own, which never holds a right answer: the judge's process never opens its library, and computes
 * what is expected in memory that the candidate's process was forked without. Tensors go there and back through
 * shared memory (harness/candidate/arena.h), in copies: guards, inputs and answers are compared on the judge's side.
 * kvgold's own functions may also run here, in the caller's process: tests hand them in so. */
#ifndef KVG_HARNESS_CANDIDATE_CANDIDATE_H
#define KVG_HARNESS_CANDIDATE_CANDIDATE_H

#include "core/backend.h"
#include "support/confine.h"

typedef struct kvg_candidate kvg_candidate;

enum { KVG_CANDIDATE_TEXT_SIZE = 512 };

/* What a backend says of itself once it is open. */
typedef struct kvg_candidate_facts {
    char name[KVG_IMPL_NAME_SIZE];
    uint32_t sm;        /* of its GPU; 0: none */
    bool device_memory; /* tensors lie in memory of its own */
    bool has_ready;     /* it can be asked whether its device answers */
    char reference_in[KVG_IMPL_NAME_SIZE]; /* a library of its process that exports kvgold's reference; "": none */
} kvg_candidate_facts;

/* What became of a call. */
typedef struct kvg_outcome {
    kvg_status status; /* the implementation's; KVG_ERR_DEVICE also where its process died: it cannot be asked again */
    char impl[KVG_IMPL_NAME_SIZE];      /* that was chosen; "": none */
    char text[KVG_CANDIDATE_TEXT_SIZE]; /* why status is not KVG_OK */
    char fault[KVG_CANDIDATE_TEXT_SIZE]; /* the first of: floating-point mode changed, written around a tensor, input
                                            written; "": none */
    double milliseconds; /* of the implementation alone */
} kvg_outcome;

/* Resolves the name of a backend: kvg_check_backend (harness/run/backends.h), or a test's own. */
typedef kvg_status kvg_backend_opener(const char *name, const kvg_backend **out);

/* A candidate in a new process, which must not be started once anything expected has been computed here. `opener`
 * runs there. The process is confined as `most` says, or by rights alone where the machine refuses namespaces; `hidden`
 * (NULL: none) is a file that it sees empty there. Unless `most` is KVG_CONFINE_NOT, this process keeps its memory to
 * itself from here on. */
kvg_status kvg_candidate_start(kvg_confinement most, const char *hidden, kvg_backend_opener *opener,
                               kvg_candidate **out) KVG_CHECKED;

/* The confinement that it has: a name of support/confine.h, with the reason where namespaces were refused. */
const char *kvg_candidate_confinement(const kvg_candidate *candidate);

/* A candidate in this process: functions of `backend`, without any isolation but the guards. */
kvg_status kvg_candidate_here(const kvg_backend *backend, kvg_candidate **out) KVG_CHECKED;

/* Ends it. Returns what its process left: 0, or the wait status of one that ended badly. NULL is allowed. */
int kvg_candidate_end(kvg_candidate *candidate);

/* Opens a backend by name in the candidate's process, which then serves it alone. The status and
 * kvg_error_text are those of the opening; KVG_ERR_DEVICE: the process died of it. */
kvg_status kvg_candidate_open(kvg_candidate *candidate, const char *name, kvg_candidate_facts *facts) KVG_CHECKED;

/* kvg_backend.ready. */
kvg_status kvg_candidate_ready(kvg_candidate *candidate) KVG_CHECKED;

/* `watch` is told (true) when a call has had no reply for a tenth of a second, and (false) when the reply comes. */
typedef void kvg_candidate_watch(const void *context, bool waiting);
void kvg_candidate_set_watch(kvg_candidate *candidate, kvg_candidate_watch *watch, const void *context);

/* Whether the candidate claims to do a problem. */
typedef bool kvg_candidate_claims(const void *context, const kvg_problem *problem);

/* From here on the candidate has only what it claims. Without this call it claims everything. */
void kvg_candidate_limit(kvg_candidate *candidate, kvg_candidate_claims *claims, const void *context);

/* It claims the problem, and has an implementation of it. */
bool kvg_candidate_has(kvg_candidate *candidate, const kvg_problem *problem);

/* Runs the problem: `in` and `out` are the caller's, of the op's roles, and `out` receives what the candidate made of
 * the bytes that it held. Not KVG_OK: the harness itself failed, with kvg_error_text. */
kvg_status kvg_candidate_run(kvg_candidate *candidate, const kvg_problem *problem, const kvg_tensor *in,
                             kvg_tensor *out, kvg_outcome *outcome) KVG_CHECKED;

/* The same in two steps, for tensors larger than memory. A tensor with bytes and without data is a hole: zeros that
 * take no memory until somebody touches them. kvg_candidate_put gives in `shared` the candidate's own tensors, inputs
 * and then outputs; the caller may write them until kvg_candidate_run_put, and read them until the next call. */
kvg_status kvg_candidate_put(kvg_candidate *candidate, const kvg_problem *problem, const kvg_tensor *in,
                             const kvg_tensor *out, kvg_tensor *shared) KVG_CHECKED;
kvg_status kvg_candidate_run_put(kvg_candidate *candidate, const kvg_tensor *in, kvg_tensor *out,
                                 kvg_outcome *outcome) KVG_CHECKED;

/* The offset of the first byte that is not 0 in tensor `index` of `shared`; its size if all are 0. */
uint64_t kvg_candidate_first_nonzero(const kvg_candidate *candidate, size_t index);

/* KVG_OK: the call gave an answer, and nothing else was done. Else kvg_error_text has the implementation's name. */
kvg_status kvg_outcome_status(const kvg_outcome *outcome) KVG_CHECKED;

/* kvg_candidate_run where any failure is one: the status of its outcome. */
kvg_status kvg_candidate_answer(kvg_candidate *candidate, const kvg_problem *problem, const kvg_tensor *in,
                                kvg_tensor *out) KVG_CHECKED;

/* Calls from here on are another case's: pointers into memory of those before are dead for the candidate. */
void kvg_candidate_next_case(kvg_candidate *candidate);

#endif
