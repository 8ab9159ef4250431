/* Where an answer is wrong: the numbers that differ, along the axes of their tensor, and what they have in common. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_WHERE_H
#define KVG_HARNESS_TRIAL_JUDGE_WHERE_H

#include "harness/trial/judge/judge_decode.h"
#include "harness/trial/question/places.h"
#include "harness/trial/wrong/defect_run.h"

enum { KVG_WHERE_TEXT = 480 };

typedef struct kvg_evidence {
    const kvg_question *data;
    const kvg_tensor *expected;    /* the op's outputs, right */
    const kvg_tensor *answer;      /* the same; data NULL where there is no answer */
    const kvg_truth *truth;        /* ops decode and merge, judged by number; NULL: every bit counts */
    const kvg_truth *numbers;      /* ops decode and merge: what is exact, and the bounds; else NULL */
    size_t pairs;                  /* for the search for a cause: most pairs of defects to run */
    double seconds;                /* for it: after which no pair begins; 0: no limit. Single defects are all run */
} kvg_evidence;

/* The values that an axis takes among the units that are wrong. */
typedef struct kvg_extent {
    kvg_axis axis;
    uint32_t first, last, count, step; /* step: 0 where they are not evenly spaced */
    uint32_t asked;                    /* values among the units that are wrong or that the op writes */
} kvg_extent;

typedef struct kvg_where {
    size_t index;        /* of the op's outputs */
    uint64_t wrong, all; /* units: bytes, or numbers */
    uint64_t first;      /* unit */
    uint64_t placeless;  /* wrong units in padding */
    kvg_extent extents[KVG_MAX_AXES];
    size_t extent_count;
    bool tail_pages;                  /* all in the last page of a sequence that has several */
    char at[384];                     /* the first one: place, expected, got */
    char extent[KVG_WHERE_TEXT];  /* "only V codes; heads 4 to 7 of 8; only in the last page"; "": everywhere */
    char pattern[384];                /* "each is 0.5 times the right one"; "" if none is known */
    bool fitted;                      /* the pattern says what the wrong units are, not only what they look like */
    bool alike;                       /* fitted, but of many causes: 16 or more are one number, NaN or one row */
} kvg_where;

/* What is wrong with output `index`, if anything (out->wrong = 0: nothing, or there is no answer): numbers outside
 * their bound with `truth`, units whose bits differ without. */
kvg_status kvg_where_find(const kvg_evidence *evidence, const kvg_places *places, size_t index,
                          kvg_where *out) KVG_CHECKED;

/* Of an op that reads pools: in each of the first `count` tensors every number of op decode whose
 * row sees a key or a sink is the same one, or NaN. Of another op all wrong rows are one and the
 * same, where the right ones differ; it is no right row, and not 0, which is what scales of 0 give.
 * Such an answer has lost what it was asked: many known-wrong answers give it by chance. False for
 * other ops. */
bool kvg_where_constant(const kvg_evidence *evidence, size_t count);

/* Whether some of the defects changes what comes out, whatever went in: only these explain such an answer. */
bool kvg_where_explains(bool constant, const kvg_wrong *wrongs, size_t count, kvg_op op);

#endif
