/* A child of a run: the judge of a share of its cases, and what it tells its parent; private to run*.c. */
#ifndef KVG_HARNESS_RUN_RUN_CHILD_H
#define KVG_HARNESS_RUN_RUN_CHILD_H

#include "harness/candidate/candidate.h"
#include "harness/run/capabilities.h"
#include "harness/run/run.h"

/* What a child writes into its pipe. */
typedef enum kvg_run_message {
    KVG_RUN_START = 'S',   /* before a case */
    KVG_RUN_OPEN = 'O',    /* its backend is open, or known not to open */
    KVG_RUN_WAIT = 'W',    /* the candidate has had a call for a while */
    KVG_RUN_JUDGE = 'J',   /* it has replied to that call, and the judge goes on */
    KVG_RUN_PROBE = 'P',   /* before it asks the device of the backend */
    KVG_RUN_ALIVE = 'A',   /* the device answered */
    KVG_RUN_RESULT = 'R',  /* and the case's line */
    KVG_RUN_BROKEN = 'E',  /* the same; it cannot go on after this case, and ends */
    KVG_RUN_LOST = 'L',    /* the same; its library does not open, or nobody can run it any more */
    KVG_RUN_LEAVE = 'B'    /* between cases: it ends, as another backend comes next, or a case that is lost */
} kvg_run_message;

/* It stands before each message. The line of a case is `length` bytes behind it; other messages have none. A case that
 * fails behind another one, and may be asked again, has a line for each kvg_run_again; a '\n' stands between them. */
typedef struct kvg_run_header {
    kvg_run_message kind;
    kvg_verdict verdict; /* of the case */
    uint64_t logged;     /* before a case: bytes of the child's log */
    size_t before;       /* behind a case with several lines: position of the case that was asked before */
    size_t length;
} kvg_run_header;

/* How a case ends that failed behind another one, when it is asked again. */
typedef enum kvg_run_again {
    KVG_RUN_FAILS_ALONE, KVG_RUN_FAILS_BEHIND, /* the case that came before */
    KVG_RUN_PASSES,
    KVG_RUN_AGAINS /* how many there are */
} kvg_run_again;

/* A copy of the line for that outcome, of the lines in a message of `size` bytes. */
char *kvg_run_child_line(const char *lines, size_t size, kvg_run_again outcome);

/* What a backend claims: read once, before any library is opened, which could write another file. */
typedef struct kvg_run_claims {
    const char *backend;
    kvg_capabilities *capabilities;    /* NULL: everything is claimed */
    char why[KVG_CANDIDATE_TEXT_SIZE]; /* why its file cannot be read; "": it was */
    unsigned openings; /* of its library, that may fail one after the other: of the last one it is lost */
} kvg_run_claims;

/* Of all backends of the config; *out is NULL before. Free it also on failure. */
kvg_status kvg_run_claims_read(const kvg_config *config, const char *capabilities, kvg_run_claims **out,
                               size_t *count) KVG_CHECKED;
void kvg_run_claims_free(kvg_run_claims *claims, size_t count);

/* Why a case is not run: what happened in another one. */
typedef struct kvg_run_loss {
    const kvg_case *in; /* NULL: it is run */
    kvg_verdict verdict;
    const char *why;
} kvg_run_loss;

/* Cases at `position`, `position` + jobs, ... of the selection, as long as they are of one backend and not lost. */
typedef struct kvg_run_share {
    const kvg_config *config;
    const kvg_run_options *options;
    const kvg_run_claims *claims; /* of their backend */
    const size_t *selection;      /* case indices */
    const kvg_run_loss *lost;     /* of each position */
    size_t count, position;
    bool suspect; /* the backend's device must be asked first */
    int fd;      /* write end of the pipe */
    const char *results; /* the file of the run, which no candidate sees */
} kvg_run_share;

/* The life of the child, and its exit status: it starts the candidate's process before it computes anything, and never
 * opens a library itself. */
int kvg_run_child(const kvg_run_share *share);

#endif
