/* A paged attention problem with all its tensors, built from rows that the tests know: K and V before they were
 * quantised, and as exact numbers decoded without any layout. */
#ifndef KVG_TESTS_REFERENCE_ATTENTION_ATTENTION_WORLD_H
#define KVG_TESTS_REFERENCE_ATTENTION_ATTENTION_WORLD_H

#include "reference/attention_spec.h"
#include "reference/reference.h"

typedef struct world world;

/* A number of q (sequence: row of q, head: query head, position: 0), k or v. */
typedef float world_fill(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                         uint32_t position, uint32_t dim);

/* Nearly normal numbers that do not depend on a sequence's place in the batch. */
world_fill world_by_content;

enum { WORLD_SEQUENCES = 8 };

/* What is given to world_open; zeros mean what the comments say. */
typedef struct world_plan {
    kvg_layout layout;
    kvg_dtype dtype;         /* 0: f16 */
    kvg_storage storage[2];  /* dialect NULL: canonical */
    uint32_t kv_heads, group, head_dim, block_tokens; /* 0: 2, 1, 64, 16 */
    bool v_scale_swizzle, shared_kv; /* shared_kv: V is all but the last 64 elements */
    uint32_t window;
    float softcap, scale, sinks; /* sinks: size of random ones; 0: none */
    int32_t lengths[WORLD_SEQUENCES], queries[WORLD_SEQUENCES]; /* of sequences; up to the last with a query */
    float q_size, k_size, v_size; /* of random numbers; 0: 1 */
    float k_tensor_scale, v_tensor_scale; /* of formats that have one; 0: 0.0123, 0.0187 */
    world_fill *fill;        /* NULL: nearly normal numbers */
    uint64_t seed;
    uint8_t poison;          /* of every byte that nobody owns; 0: 0xFF, NaN in every format that has one */
    uint32_t pages_from;     /* another order of pages for another number */
    bool padded;             /* rows and pages, where the layout can be */
    uint32_t drop_block;     /* this column of every block table becomes -1; 0: none */
} world_plan;

struct world {
    world_plan plan;
    kvg_problem p;
    kvg_tensor in[KVG_MAX_TENSORS];
    kvg_tensor flat[2];  /* K and V before quantisation, [sequences, H, tokens, D] in T */
    double *exact[2];    /* the same decoded, without the factor of the row; V of a shared row: v_dim of K's */
    double *factors[2];  /* [sequences, H, tokens] */
    size_t outputs, rows; /* elements of out and of lse */
};

/* False: the layout is a page for other formats. */
bool world_can(const world_plan *plan);

void world_open(const world_plan *plan, world *out);
void world_close(world *w);

kvg_tensor *world_input(world *w, kvg_role role, kvg_side side);
uint32_t world_v_dim(const world *w);

/* Element 0 of the exact row of (side, sequence, head, position), and its factor. */
const double *world_row(const world *w, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position,
                        double *factor);

/* The position has a place in the cache, by docs/spec/attention.md. */
bool world_has_place(const world *w, uint32_t sequence, uint32_t position);

/* Sequence and position of a row of q. */
void world_query(const world *w, uint32_t row, uint32_t *sequence, int64_t *position);
float world_q(const world *w, uint32_t row, uint32_t head, uint32_t dim);

/* Answers with room for the world. */
kvg_attention_answer answer_open(const world *w);
void answer_close(kvg_attention_answer *a);

/* The spec tier; fails the test on a status. */
void world_spec(const world *w, const kvg_arithmetic *arithmetic, kvg_attention_answer *out);

#endif
