/* Messages between the judge and the candidate's process: one message there, one back. Private to
 * candidate*.c. */
#ifndef KVG_HARNESS_CANDIDATE_CANDIDATE_CALL_H
#define KVG_HARNESS_CANDIDATE_CANDIDATE_CALL_H

#include <limits.h>

#include "harness/candidate/arena.h"
#include "harness/candidate/candidate.h"

typedef enum kvg_call_kind {
    KVG_CALL_OPEN = 1, /* name: a backend */
    KVG_CALL_READY,
    KVG_CALL_HAS,
    KVG_CALL_RUN,
    KVG_CALL_FORGET    /* the arena is gone */
} kvg_call_kind;

enum { KVG_CALL_DIALECT_SIZE = 128 };

typedef struct kvg_call {
    uint32_t kind, number;
    bool new_arena; /* RUN: the arena's file comes with the message */
    kvg_problem problem; /* the names of its dialects are in the next member: */
    char dialects[2][KVG_CALL_DIALECT_SIZE];
    kvg_tensor tensors[KVG_ARENA_TENSORS]; /* inputs, then outputs; data NULL */
    kvg_arena_plan plan;
    char name[PATH_MAX];
} kvg_call;

typedef struct kvg_reply {
    uint32_t number;
    kvg_status status;
    uint32_t mode_changed; /* 1: the floating-point mode was changed */
    double milliseconds;
    kvg_candidate_facts facts;
    char reference_in[KVG_IMPL_NAME_SIZE];
    char impl[KVG_IMPL_NAME_SIZE], text[KVG_CANDIDATE_TEXT_SIZE];
} kvg_reply;

/* The candidate's side: a backend and its view of the tensors. */
typedef struct kvg_server {
    const kvg_backend *backend;
    kvg_backend_opener *opener;
    kvg_arena_view view;
    kvg_arena_plan plan;
    unsigned long long loads;              /* of libraries, when the next member was looked for */
    char reference_in[KVG_IMPL_NAME_SIZE]; /* once it is found it stays */
} kvg_server;

/* Answers one call. `fd` is the arena's file, if it came with the call. */
void kvg_server_answer(kvg_server *server, kvg_call *call, int fd, kvg_reply *reply);

/* The candidate's process: answers until the judge closes the socket, then exits. */
_Noreturn void kvg_server_main(int socket, kvg_backend_opener *opener);

#endif
