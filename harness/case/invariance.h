/* Invariance: whose bits a row of op decode has (docs/spec/invariance.md). */
#ifndef KVG_HARNESS_CASE_INVARIANCE_H
#define KVG_HARNESS_CASE_INVARIANCE_H

#include <stdbool.h>
#include <stdint.h>

/* The axes of company: bit i of a set stands for axis i. */
typedef enum kvg_invariance {
#define INVARIANCE(id, ...) KVG_INVARIANCE_##id,
#include "harness/case/invariance.def"
#undef INVARIANCE
    KVG_INVARIANCE_AXES
} kvg_invariance;

enum { KVG_INVARIANCE_ALL = (1 << KVG_INVARIANCE_AXES) - 1, KVG_VARIANCE_TEXT = 384 };

extern const char *const kvg_invariance_names[KVG_INVARIANCE_AXES + 1]; /* NULL-terminated */
extern const char *const kvg_invariance_summaries[KVG_INVARIANCE_AXES];

/* The axis of that name, or KVG_INVARIANCE_AXES. */
kvg_invariance kvg_invariance_find(const char *name);

/* What came of one axis: the part along_<axis> of a result line. */
typedef struct kvg_variance {
    bool measured;           /* the axis was asked */
    uint64_t rows, differ;   /* rows that were compared (0: not answered), and those with other bits */
    uint64_t from;           /* the fewest keys that a differing row sees */
    double agree;            /* the most keys, fewer than `from`, of a row that does not differ; NAN: there is none */
    double largest, ulps;    /* largest difference, and in units in the last place; NAN: of no two numbers */
    uint64_t nans;           /* pairs of a number and a NaN */
    const char *relation;    /* the first that did not hold, or was not answered; else "" */
    char text[KVG_VARIANCE_TEXT]; /* the same in words, or why there is no answer; "" if the axis held */
} kvg_variance;

#endif
