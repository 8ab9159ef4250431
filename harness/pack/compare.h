/* Judges an answer file against a golden pack (docs/guide/compare.md): per case and per tensor,
 * with the reason. */
#ifndef KVG_HARNESS_PACK_COMPARE_H
#define KVG_HARNESS_PACK_COMPARE_H

#include "core/verdict.h"
#include "golden/golden.h"
#include "harness/trial/explain/diagnosis.h"

enum { KVG_COMPARE_TEXT = 320 };

typedef struct kvg_compare_options {
    bool bits;        /* judge answers with a profile by their bits */
    bool why;         /* diagnose wrong answers */
    size_t pairs;     /* most pairs of defects to try for a wrong case */
    double seconds;   /* after which no pair is begun; 0: no limit */
    const char *only; /* a case's key or id; NULL: all */
} kvg_compare_options;

/* One tensor of an answer. */
typedef struct kvg_compared_tensor {
    const kvg_pack_answer *asked;
    kvg_verdict verdict;
    char reason[KVG_COMPARE_TEXT]; /* "" if it passes */
    uint64_t all, wrong;           /* bytes, or numbers if a bound judges */
    uint64_t unpromised;           /* numbers without a bound */
    uint64_t steps;                /* bytes that differ within a value rule */
    double worst_ratio;            /* largest |answer - exact| / bound; NAN: no bound judges the tensor */
    kvg_where where;               /* where.wrong is 0: nothing can be said */
} kvg_compared_tensor;

typedef struct kvg_compared_case {
    const kvg_pack_case *from;
    kvg_verdict verdict;
    char reason[KVG_COMPARE_TEXT]; /* reason of a SKIP, an ERROR or an incomplete answer */
    kvg_compared_tensor tensors[KVG_PACK_MAX_TENSORS];
    size_t tensor_count;
    bool diagnosed;
    char no_diagnosis[KVG_COMPARE_TEXT]; /* why there is no diagnosis, although it was wanted */
    kvg_diagnosis diagnosis;
} kvg_compared_case;

/* The strings belong to the pack. */
typedef struct kvg_comparison {
    const kvg_pack *pack;
    const char *answer;
    bool bits;
    kvg_compared_case *cases;
    size_t case_count;
    uint64_t counts[KVG_VERDICT_COUNT];
    uint64_t unanswered;
} kvg_comparison;

/* Called for each case once it is judged. */
typedef void kvg_compare_report(void *context, const kvg_compared_case *c);

/* Compares. KVG_ERR_IO or KVG_ERR_INVALID: the answer file cannot be read, or holds a tensor that
 * no case asks for. Errors in answers are verdicts. Call kvg_comparison_free at the end, whatever
 * the status. */
kvg_status kvg_compare(const kvg_pack *pack, const char *answer_path, const kvg_compare_options *options,
                       kvg_compare_report *report, void *context, kvg_comparison *out) KVG_CHECKED;
void kvg_comparison_free(kvg_comparison *c);

#endif
