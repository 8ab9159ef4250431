/* What came of a case: the verdict, what was compared, and how far known-wrong answers are. */
#ifndef KVG_HARNESS_CASE_RESULT_H
#define KVG_HARNESS_CASE_RESULT_H

#include "core/verdict.h"
#include "harness/candidate/candidate.h"
#include "harness/case/quality_result.h"
#include "harness/wrong/defects.h"

/* Round trip of one side: decoded values y against the inputs x, finite elements only. */
typedef struct kvg_round_trip {
    uint64_t elements;    /* judged: finite, and the bound promises something */
    double relative_l2;   /* |y - x| / |x| */
    double sqnr_db;       /* 10 log10(|x|^2 / |y - x|^2); +Inf if exact */
    double gain;          /* least-squares alpha of y = alpha * x: 1 but for codec noise */
    double worst_ratio;   /* largest |y - x| / bound */
} kvg_round_trip;

/* Op decode: the answer against the exact one, in units of the bound of the case's class; then what quantisation itself
 * did, which is nobody's fault. */
typedef struct kvg_decode_accuracy {
    uint64_t elements;                /* numbers of out and lse; 0: not judged */
    uint64_t unpromised;              /* of these, without a bound */
    double worst_ratio, median_ratio; /* of out */
    double lse_ratio;                 /* worst of lse */
    double relative_l2;               /* |out - exact| / |exact| */
    double codec_ratio, codec_l2;     /* exact answer over the cache against that over K and V before; NAN: none */
    double probe_ratio;               /* worst of out and lse against what a probe must give; NAN: no probe */
} kvg_decode_accuracy;

enum { KVG_MAX_CONTROLS = 48, KVG_MAX_DEFECTS = 256, KVG_RESULT_TEXT = 640 };

/* Op decode: how far known-wrong answers are from right ones (harness/judge/separation.h). Over the rows of
 * harness/wrong/defects.def that apply to the case and are reached: they change its answer by more than the
 * roundings of a kernel in f32 throughout may (its bits, where it is judged by bits). */
typedef struct kvg_separation {
    bool measured;
    bool by_bits;              /* the case is judged by bits (a profile): distances count changed bits */
    double least;              /* the smallest distance; +Inf where no row is reached */
    const kvg_defect *nearest; /* its row; NULL where none is reached */
    uint32_t reached, unreached;
    double distance[KVG_MAX_DEFECTS]; /* by row of the table: the largest |wrong - exact| / bound over out and lse, or
                                       * changed bits; NAN: does not apply; below 0: changes nothing here */
} kvg_separation;

typedef enum kvg_control_outcome {
    KVG_CONTROL_ABSENT,    /* does not apply to this problem */
    KVG_CONTROL_UNREACHED, /* does not change the exact answer of this case */
    KVG_CONTROL_REJECTED,  /* changed it, and the check said FAIL: by bytes or by value */
    KVG_CONTROL_REJECTED_BY_BOUND, /* the round-trip bound alone rejects it too */
    KVG_CONTROL_WITHIN,    /* op decode without a profile: changed it by less than a right answer may be off */
    KVG_CONTROL_ACCEPTED   /* changed it, and the check passed it: the case is MISTRUSTED */
} kvg_control_outcome;

typedef struct kvg_result {
    kvg_verdict verdict;
    char detail[KVG_RESULT_TEXT]; /* empty if PASS; a FAIL that a row of harness/wrong/defects.def explains names it */
    char impl[KVG_IMPL_NAME_SIZE]; /* which implementation ran; "": none */
    uint64_t compared_bytes;      /* output bytes compared; equals the bytes defined, or the case is an ERROR */
    uint64_t mismatched_bytes;
    uint64_t value_steps;         /* KVG_DIALECT_VALUE: bytes that differ within the rule */
    kvg_round_trip round_trip[2];
    kvg_decode_accuracy decode;
    kvg_separation separation; /* op decode */
    kvg_quality_result quality; /* op generate */
    uint64_t relations;        /* op decode: bit i: row i of harness/judge/relations.def was asked, and held */
    kvg_reference_reach reach[2];
    kvg_control_outcome controls[KVG_MAX_CONTROLS]; /* in the order of the control rows of harness/wrong/defects.def */
    double milliseconds;          /* of the candidate's run */
} kvg_result;

/* The words that the detail of a SKIP starts with where no claim of the implementation covers the case. */
#define KVG_UNCLAIMED "unclaimed: "

/* A FAIL with this text; the first reason stays. */
void kvg_result_fail(kvg_result *r, const char *format, ...) KVG_PRINTF(2, 3);

#endif
