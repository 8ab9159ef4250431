/* How much of what is wrong in an answer another wrong answer has. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/judge/judge_parts.h"

/* --- bytes --- */

judge_share judge_share_bytes(const kvg_truth *t, const kvg_tensor_set *answer, const kvg_tensor_set *other)
{
    judge_share share = {0};
    for (size_t index = 0; index < kvg_case_asked(t->question->c); index++) {
        const uint8_t *want = t->expected.tensors[index].data, *have = answer->tensors[index].data;
        const uint8_t *wrong = other->tensors[index].data;
        for (size_t i = 0; i < t->expected.tensors[index].bytes; i++) {
            share.wrong += have[i] != want[i];
            share.given += have[i] != want[i] && have[i] == wrong[i];
            share.changed += wrong[i] != want[i];
        }
    }
    share.telling = share.given;
    return share;
}

/* Of op decode: a row is that of a query and a query head. */
static size_t rows_of(const kvg_truth *t)
{
    const kvg_problem *p = &t->question->c->problem;
    return (size_t)p->attention.queries * p->attention.query_heads;
}

void judge_mark_bytes(const kvg_truth *t, const kvg_tensor_set *answer, bool *rows)
{
    for (size_t index = 0; index < kvg_case_asked(t->question->c); index++) {
        const uint8_t *want = t->expected.tensors[index].data, *have = answer->tensors[index].data;
        const size_t bytes = t->expected.tensors[index].bytes / rows_of(t);
        for (size_t row = 0; row < rows_of(t); row++)
            rows[row] = rows[row] || memcmp(want + row * bytes, have + row * bytes, bytes) != 0;
    }
}

/* --- numbers --- */

/* The numbers of one output of op decode or merge: out, then lse. */
typedef struct numbers {
    size_t count;
    kvg_dtype dtype;
    const double *exact, *bound;
    double *got;
} numbers;

static numbers numbers_of(const kvg_truth *t, const kvg_tensor_set *answer, size_t index)
{
    numbers n = {.count = t->outputs, .exact = t->exact.out, .bound = t->exact.out_bound};
    if (index) n = (numbers){.count = t->rows, .exact = t->exact.lse, .bound = t->exact.lse_bound};
    n.dtype = answer->tensors[index].dtype;
    n.got = malloc(n.count * sizeof *n.got);
    if (n.got) kvg_load_numbers(&answer->tensors[index], n.count, n.got);
    else n.count = 0;
    return n;
}

static bool is_wrong(const numbers *n, size_t i)
{
    return kvg_attention_ratio(n->got[i], n->exact[i], n->bound[i]) > 1;
}

/* Bounds are those of right rows. Wrong rows have others: they are taken to be at most twice as large, and a step of
 * the outputs' type more, or 16 roundings of f32. */
static double limit_of(const numbers *n, size_t i, double to)
{
    static const double steps[] = {[KVG_DTYPE_F32] = 0x1p-20, [KVG_DTYPE_BF16] = 0x1p-7, [KVG_DTYPE_F16] = 0x1p-10};
    return 2 * n->bound[i] + steps[n->dtype] * fabs(to);
}

static void add_number(const numbers *have, const numbers *other, size_t i, judge_share *share)
{
    enum { NEARER = 4 };
    const double got = have->got[i], to = other->got[i], limit = limit_of(have, i, to);
    const bool nans = isnan(got) && isnan(to); /* many ways lead there */
    const double off = nans || got == to ? 0 : isfinite(to) ? kvg_attention_ratio(got, to, limit) : INFINITY;
    const bool wrong = is_wrong(have, i), near = off <= 1;
    share->wrong += wrong;
    share->given += wrong && near;
    share->changed += near ? wrong : is_wrong(other, i);
    /* a bound may be so wide that any number lies within it */
    share->telling += wrong && near && !nans && NEARER * off <= kvg_attention_ratio(got, have->exact[i], limit);
}

judge_share judge_share_numbers(const kvg_truth *t, const kvg_tensor_set *answer, const kvg_tensor_set *other)
{
    judge_share share = {0};
    for (size_t index = 0; index < kvg_case_asked(t->question->c); index++) {
        const numbers have = numbers_of(t, answer, index), wrong = numbers_of(t, other, index);
        for (size_t i = 0; i < have.count && i < wrong.count; i++) add_number(&have, &wrong, i, &share);
        free(have.got);
        free(wrong.got);
    }
    return share;
}

void judge_mark_numbers(const kvg_truth *t, const kvg_tensor_set *answer, bool *rows)
{
    for (size_t index = 0; index < kvg_case_asked(t->question->c); index++) {
        const numbers have = numbers_of(t, answer, index);
        for (size_t i = 0; i < have.count; i++) rows[i / (have.count / rows_of(t))] |= is_wrong(&have, i);
        free(have.got);
    }
}
