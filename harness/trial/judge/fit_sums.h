/* A row of op decode from sums over runs of its keys: of weights, and of weights times V. Each sum is of its own terms,
 * as differences of longer sums lose small rows beside large ones. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_FIT_SUMS_H
#define KVG_HARNESS_TRIAL_JUDGE_FIT_SUMS_H

#include "harness/trial/wrong/flash_rows.h"

/* A row of q, and what each key of a sequence adds to its sums. NaN: the key's score, or the number of V, is not
 * finite. */
typedef struct fit_query {
    const kvg_problem *p;
    size_t row, v_dim;
    uint32_t sequence, head;
    int64_t first, end, count; /* sees keys first to end - 1; the sequence has count */
    float q[KVG_MAX_HEAD_DIM];
    double most, sink;         /* largest score of all; the sink's weight */
    double largest;            /* |v| of all that it may see */
    double *weights, *values;  /* [count], [v_dim][count] */
    double *blocks;            /* their sums over blocks of keys, of weights and then of values */
} fit_query;

/* What the sums are made of, and with. */
typedef struct fit_making {
    const kvg_flash_rows *rows;
    double times, sink; /* factor of the scores; score of the sink, -Inf: none */
    int64_t tile;       /* of keys whose sums stay as they are where a later one has a larger score; 0: none */
    bool out, sum;      /* those of weights times V, of weights */
} fit_making;

/* Keys from to to - 1. */
typedef struct fit_run {
    int64_t from, to;
} fit_run;

typedef struct fit_answer {
    bool lost;  /* NaN */
    bool empty; /* of no key: any row that is zeros would be that */
    double out[KVG_MAX_HEAD_DIM], lse;
} fit_answer;

/* Room for sequences of `longest` keys; false without memory. At the end, judge_fit_query_close. */
bool judge_fit_query_open(const kvg_problem *problem, size_t v_dim, int64_t longest, fit_query *out);
void judge_fit_query_close(fit_query *query);

void judge_fit_sum_up(const fit_making *making, fit_query *query);

/* The LSE and the first `dims` numbers of the row over these keys; divided: by the sum of weights. */
void judge_fit_attend(const fit_query *query, const fit_run *runs, size_t count, bool divided, size_t dims,
                      fit_answer *out);

#endif
