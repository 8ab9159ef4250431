/* The tensors of one call, in memory that the judge and the candidate's process share. The judge
 * sees the tensors one after the other, the candidate sees each between unmapped pages. Each tensor
 * lies between canary bytes, which the judge compares. */
#ifndef KVG_HARNESS_CANDIDATE_ARENA_H
#define KVG_HARNESS_CANDIDATE_ARENA_H

#include "core/problem.h"

enum { KVG_ARENA_TENSORS = 2 * KVG_MAX_TENSORS };

/* A tensor's piece of the file: whole pages, with the data somewhere inside. A tensor with 0 bytes
 * has no piece. */
typedef struct kvg_arena_place {
    uint64_t at, size;    /* place of the piece in the file */
    uint64_t data, bytes; /* place of the tensor in the piece */
    uint64_t hole;        /* 1: zeros that take no memory until they are touched */
} kvg_arena_place;

typedef struct kvg_arena_plan {
    uint64_t margin; /* least number of canary bytes on each side */
    uint64_t bytes;  /* size of the file */
    uint64_t count;
    kvg_arena_place places[KVG_ARENA_TENSORS];
} kvg_arena_plan;

/* Plans the file. A tensor without data is a hole. Margin 0: KVG_GUARD_CANARY canary bytes, and the
 * data near the end of its pages, followed by an unmapped page. Another margin: the data right
 * behind it, at a multiple of 256. */
void kvg_arena_plan_make(const kvg_tensor *tensors, size_t count, size_t margin, kvg_arena_plan *plan);

/* The judge's side. */
typedef struct kvg_arena {
    kvg_arena_plan plan;
    int fd;        /* an anonymous file that neither side can resize; 0: no arena */
    uint8_t *file; /* mapped */
    uint64_t room; /* size of the file */
} kvg_arena;

/* Lays the plan into the arena's file, or into a new file if that one is too small or either plan
 * has holes; a plan of 0 bytes needs no file. Every byte around the tensors holds the canary
 * pattern; holes are zeros, and the caller writes the other tensors. What of the candidate still
 * runs when its call has returned can change them until it maps the new plan. */
kvg_status kvg_arena_make(const kvg_arena_plan *plan, kvg_arena *arena) KVG_CHECKED;
void kvg_arena_free(kvg_arena *arena);

/* The data of tensor `index`; NULL if it has none. */
void *kvg_arena_data(const kvg_arena *arena, size_t index);

/* KVG_ERR_INVALID says what was written around the tensor, as kvg_guard_check does. */
kvg_status kvg_arena_check(const kvg_arena *arena, size_t index) KVG_CHECKED;

/* The offset of a tensor's first byte that is not 0; the tensor's size if all bytes are 0.
 * Untouched pages of a hole are not read. */
uint64_t kvg_arena_first_nonzero(const kvg_arena *arena, size_t index);

/* The candidate's side. */
typedef struct kvg_arena_view {
    uint8_t *mapping; /* NULL: none */
    size_t mapped;
    uint8_t *pieces[KVG_ARENA_TENSORS]; /* NULL where there is none */
} kvg_arena_view;

kvg_status kvg_arena_view_open(const kvg_arena_plan *plan, int fd, kvg_arena_view *out) KVG_CHECKED;

/* Closes the view: pointers into it are dead. Its addresses stay unmapped, and are used again only
 * after some more views have been closed. */
void kvg_arena_view_close(kvg_arena_view *view);

#endif
