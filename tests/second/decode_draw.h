/* Random problems of op decode with their inputs, for both references. */
#ifndef KVG_TESTS_SECOND_DECODE_DRAW_H
#define KVG_TESTS_SECOND_DECODE_DRAW_H

#include "tests/second/pair.h"

/* A source of random numbers; problems have streams of their own. */
typedef struct dice {
    uint64_t stream, next;
} dice;
uint64_t roll(dice *d, uint64_t n); /* below n */

/* What a problem must have; the rest is drawn. */
typedef struct decode_wish {
    kvg_layout layout;
    kvg_storage k; /* V is drawn: mostly another one */
    kvg_dtype dtype;
    kvg_profile profile;
    uint32_t longest; /* keys of a sequence */
    bool small;       /* few rows of few elements */
    bool grid;        /* contents GRID (below), else any */
} decode_wish;

/* How the stored rows come about. WRITTEN: every row that a query sees was quantised from ordinary numbers, the bytes
 * of all others are random. GRID: the same, but K and q are -1, 0 and 1, and scores in log2 units whole, so that they
 * differ by exactly 8. RANDOM: every byte is random, so NaN and Inf are seen; scales may be all tiny
 * or all huge. LOST: WRITTEN, but every score is -Inf. */
typedef enum decode_contents { DECODE_WRITTEN, DECODE_GRID, DECODE_RANDOM, DECODE_LOST } decode_contents;

/* A problem with all inputs. */
kit decode_draw(dice *d, const decode_wish *wish);

#endif
