/* What came of a case: the verdict, what was compared, and how far known-wrong answers are. */
#ifndef KVG_HARNESS_CASE_RESULT_H
#define KVG_HARNESS_CASE_RESULT_H

#include "core/verdict.h"
#include "harness/candidate/candidate.h"
#include "harness/case/result_fields.h"
#include "harness/wrong/defects.h"

/* Round trip of one side. */
typedef struct kvg_round_trip {
#define TRIP(...) KVG_FIELD_MEMBER(__VA_ARGS__)
#include "harness/case/result_fields.def"
} kvg_round_trip;

/* Op decode: accuracy of the answer; no elements: not judged. */
typedef struct kvg_decode_accuracy {
#define DECODE(...) KVG_FIELD_MEMBER(__VA_ARGS__)
#include "harness/case/result_fields.def"
} kvg_decode_accuracy;

/* What was compared of an answer. */
typedef struct kvg_result_compared {
#define COMPARED(...) KVG_FIELD_MEMBER(__VA_ARGS__)
#include "harness/case/result_fields.def"
} kvg_result_compared;

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
    kvg_result_compared bytes;    /* as many are compared as the outputs have, or the case is an ERROR */
    kvg_round_trip round_trip[2];
    kvg_decode_accuracy decode;
    kvg_separation separation; /* op decode */
    const void *guest;         /* what a guest measured; its session owns it */
    uint64_t relations;        /* op decode: bit i: row i of harness/judge/relations.def was asked, and held */
    kvg_reference_reach reach[2];
    kvg_control_outcome controls[KVG_MAX_CONTROLS]; /* in the order of the control rows of harness/wrong/defects.def */
    double milliseconds;          /* of the candidate's run */
    kvg_status lost; /* KVG_ERR_DEVICE, KVG_ERR_DEVICE_LOST: nobody can be asked again, whatever the verdict */
} kvg_result;

/* --- what a result file holds of a case beside the records above: harness/case/result_fields.def --- */

typedef struct kvg_result_asked {
#define ASKED(...) KVG_FIELD_MEMBER(__VA_ARGS__)
#include "harness/case/result_fields.def"
} kvg_result_asked;

typedef struct kvg_result_outcome {
#define OUTCOME(...) KVG_FIELD_MEMBER(__VA_ARGS__)
#include "harness/case/result_fields.def"
} kvg_result_outcome;

typedef struct kvg_result_lists {
#define LISTS(...) KVG_FIELD_MEMBER(__VA_ARGS__)
#include "harness/case/result_fields.def"
} kvg_result_lists;

typedef struct kvg_result_mode {
#define MODE(...) KVG_FIELD_MEMBER(__VA_ARGS__)
#include "harness/case/result_fields.def"
} kvg_result_mode;

typedef struct kvg_result_separation {
#define SEPARATION(...) KVG_FIELD_MEMBER(__VA_ARGS__)
#include "harness/case/result_fields.def"
} kvg_result_separation;

typedef struct kvg_result_reach {
#define REACH(...) KVG_FIELD_MEMBER(__VA_ARGS__)
#include "harness/case/result_fields.def"
} kvg_result_reach;

typedef struct kvg_result_controls {
#define CONTROLS(...) KVG_FIELD_MEMBER(__VA_ARGS__)
#include "harness/case/result_fields.def"
} kvg_result_controls;

/* The words that the detail of a SKIP starts with where no claim of the implementation covers the case. */
#define KVG_UNCLAIMED "unclaimed: "

/* A FAIL with this text; the first reason stays. */
void kvg_result_fail(kvg_result *r, const char *format, ...) KVG_PRINTF(2, 3);

#endif
