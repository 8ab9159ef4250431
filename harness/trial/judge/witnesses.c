#include "harness/trial/judge/witnesses.h"

#include <math.h>
#include <string.h>

/* --- which cases ask --- */

static bool always(const kvg_question *q)
{
    (void)q;
    return true;
}

static bool scale_is_own(const kvg_question *q)
{
    const kvg_problem *p = &q->c->problem;
    return p->attention.scale != (float)(1 / sqrt((double)p->head_dim));
}

static bool swizzled(const kvg_question *q)
{
    return q->c->problem.paging.v_scale_swizzle;
}

/* A tensor scale that a kernel could lose. */
static bool scale_counts_k(const kvg_question *q)
{
    return kvg_format_get(q->c->problem.storage[KVG_K].format)->tensor_scale && q->tensor_scale[KVG_K] != 1;
}

/* Where K and V share rows they have one scale, and attention alone uses it for V. */
static bool scale_counts_v(const kvg_question *q)
{
    const kvg_problem *p = &q->c->problem;
    if (kvg_problem_sides(p) == 1) return q->queries && scale_counts_k(q);
    return kvg_format_get(p->storage[KVG_V].format)->tensor_scale && q->tensor_scale[KVG_V] != 1;
}

static bool v_is_a_part(const kvg_question *q)
{
    return q->c->problem.paging.v_dim < q->c->problem.head_dim;
}

/* As harness/trial/question/paged_fill.c draws lengths of a shuffled case: one sequence is shorter than the longest,
 * and ends within a page if it can. */
static bool has_tails(const kvg_question *q)
{
    const kvg_problem *p = &q->c->problem;
    return q->c->shuffled && q->c->lengths != KVG_LENGTHS_EVEN && kvg_problem_blocks(p) == KVG_BLOCKS_TABLE &&
           p->paging.sequences > 1 && p->tokens > 1;
}

/* One of three sequences or more has lost its first block. A window may hide it. */
static bool has_holes(const kvg_question *q)
{
    const kvg_problem *p = &q->c->problem;
    const bool longer = p->tokens > p->paging.block_tokens + 1;
    return has_tails(q) && q->c->lengths == KVG_LENGTHS_ANY && p->paging.sequences > 2 && longer &&
           !p->attention.window;
}

/* Sequences have common blocks. A window may hide where they part. */
static bool shares_pages(const kvg_question *q)
{
    const kvg_problem *p = &q->c->problem;
    return q->c->shared_prefix >= p->paging.block_tokens && q->c->shared_prefix && !p->attention.window;
}

/* --- the table --- */

static const kvg_witness witnesses[] = {
#define WITNESS(axis, asked, remedy, ...) {#axis, asked, remedy, {__VA_ARGS__}},
#include "harness/trial/judge/witnesses.def"
#undef WITNESS
};

const kvg_witness *kvg_witness_table(size_t *count)
{
    *count = sizeof witnesses / sizeof witnesses[0];
    return witnesses;
}

bool kvg_witness_is(const kvg_witness *row, const kvg_defect *defect)
{
    for (size_t i = 0; i < KVG_WITNESSES_OF_ROW && row->defects[i]; i++) {
        if (strcmp(row->defects[i], defect->id) == 0) return true;
    }
    return false;
}

bool kvg_witness_asked(const kvg_witness *row, const kvg_question *q)
{
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (kvg_witness_is(row, &defects[i]) && kvg_defect_applies(&defects[i], &q->c->problem)) return row->asked(q);
    }
    return false;
}
