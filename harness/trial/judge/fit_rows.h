/* The rows of an answer beside those that are right, each with its coordinates. Part of harness/trial/judge/fit.c. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_FIT_ROWS_H
#define KVG_HARNESS_TRIAL_JUDGE_FIT_ROWS_H

#include "harness/trial/judge/where.h"

/* The axes of a row in a pool. The token is the case's that owns the slot; it follows from block and offset. Of a row
 * of out the KV head follows from the head. */
enum { FIT_PART, FIT_LAYER, FIT_BLOCK, FIT_OFFSET, FIT_TOKEN, FIT_HEAD, FIT_POOL_AXES };
enum { FIT_KV_HEAD = 4 };
enum { FIT_PARTS = 4, FIT_OTHER_SIDE = 2 }; /* part = 2 * side + (1 if scales), as kvg_places_part */

typedef struct fit_hash {
    uint64_t hash;
    size_t row;
} fit_hash;

typedef struct fit_rows {
    const kvg_evidence *q;
    const kvg_places *places;
    bool pools;                  /* the axes are those of a pool; else part and those of the outputs without the last */
    bool attends;                /* rows of out: right within the bounds of the numbers, not by their bytes */
    size_t follows;              /* the axis that follows from the others; KVG_MAX_AXES: none does */
    kvg_axis axes[KVG_MAX_AXES];
    size_t axis_count, count, width; /* width: bytes from a row to the next */
    uint8_t *right, *got;
    uint32_t *bytes;             /* of each row; 0: there is none */
    uint32_t *at;                /* coordinates of each row, axis_count of them */
    size_t *unit;                /* the first unit of each row in its output */
    size_t output[FIT_PARTS];    /* the output that a part is of */
    int64_t *slots;              /* pools: the slot of each token; -1: it has none */
    fit_hash *index;             /* of the right rows, in the order of judge_fit_by_hash */
    size_t indexed;
    size_t *wrong, wrong_count, wrong_bytes; /* rows of the output in question */
    size_t apart; /* slots: wrong answers that no row has, as their token has no slot, or shares it with another */
} fit_rows;

/* The rows of the outputs; with `slots`, of an op that reads pools: what it is to read in each slot of each layer,
 * and the answers at the slots that it was asked for. None if the right ones would take more than 64 MiB. At the end,
 * and on failure, judge_fit_rows_close. */
kvg_status judge_fit_rows_open(const kvg_evidence *evidence, const kvg_places *places, size_t index, bool slots,
                         fit_rows *out) KVG_CHECKED;
void judge_fit_rows_close(fit_rows *rows);

/* The row at these coordinates, of which the one that follows from the others does not matter. */
size_t judge_fit_row_at(const fit_rows *rows, const uint32_t *at);

/* What was answered at row `row` is what is right at row `source`. */
bool judge_fit_is_row(const fit_rows *rows, size_t row, size_t source);

const uint8_t *judge_fit_right_row(const fit_rows *rows, size_t row);
const uint8_t *judge_fit_got_row(const fit_rows *rows, size_t row);
kvg_role judge_fit_role_of(const fit_rows *rows, size_t output, kvg_side *side);
int judge_fit_by_hash(const void *a, const void *b);

#endif
