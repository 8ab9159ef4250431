/* The one check loop: runs one case and judges what came back. Nothing here knows a format by name. */
#ifndef KVG_HARNESS_CHECK_H
#define KVG_HARNESS_CHECK_H

#include "core/verdict.h"
#include "harness/candidate.h"
#include "harness/case.h"
#include "harness/defects.h"
#include "harness/quality_check.h"
#include "harness/separation.h"

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

enum { KVG_MAX_CONTROLS = 48, KVG_RESULT_TEXT = 640 };

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
    char detail[KVG_RESULT_TEXT]; /* empty if PASS; a FAIL that a row of harness/defects.def explains names it */
    char impl[KVG_IMPL_NAME_SIZE]; /* which implementation ran; "": none */
    uint64_t compared_bytes;      /* output bytes compared; equals the bytes defined, or the case is an ERROR */
    uint64_t mismatched_bytes;
    uint64_t value_steps;         /* KVG_DIALECT_VALUE: bytes that differ within the rule */
    kvg_round_trip round_trip[2];
    kvg_decode_accuracy decode;
    kvg_separation separation; /* op decode */
    kvg_quality_result quality; /* op generate */
    uint64_t relations;        /* op decode: bit i: row i of harness/relations.def was asked, and held */
    kvg_reference_reach reach[2];
    kvg_control_outcome controls[KVG_MAX_CONTROLS]; /* in the order of the control rows of harness/defects.def */
    double milliseconds;          /* of the candidate's run */
} kvg_result;

/* A FAIL with this text; the first reason stays. */
void kvg_result_fail(kvg_result *r, const char *format, ...) KVG_PRINTF(2, 3);

/* Runs a case on a candidate whose backend is open. Never fails: what goes wrong is a verdict with a detail. */
void kvg_check_case(const kvg_case *c, kvg_candidate *candidate, kvg_result *out);

/* The same on functions of this process. */
void kvg_check_run(const kvg_case *c, const kvg_backend *backend, kvg_result *out);

/* Times of a case's op on one implementation, inputs and outputs warm. */
typedef struct kvg_timing {
    uint64_t runs;
    double median_ms, fastest_ms, slowest_ms;
} kvg_timing;

/* Judges the case, without its controls, and only if it passes runs the op again for at least `seconds` (3 runs or
 * more) and judges the last answer once more. *timing is all zero where nothing was timed. */
void kvg_check_time(const kvg_case *c, kvg_candidate *candidate, double seconds, kvg_result *out, kvg_timing *timing);

/* The library of a plug-in, without opening it. KVG_ERR_NOT_FOUND: the name is none, or there is no such file. */
enum { KVG_BACKEND_PATH_SIZE = 8192 };
kvg_status kvg_check_backend_path(const char *name, char path[KVG_BACKEND_PATH_SIZE]) KVG_CHECKED;

/* Resolves a backend's name: "reference", "defect:<id>", "cuda" where it is built in, a path with a '/', or the name of
 * a plug-in libkvgold_<name>.so beside the program or in its library folder. Plug-ins are opened at most once, and in
 * this process: the judge leaves it to the candidate's (kvg_candidate_open). */
kvg_status kvg_check_backend(const char *name, const kvg_backend **out) KVG_CHECKED;

/* The model runner of backend cuda, step by step or from CUDA graphs. KVG_ERR_NOT_FOUND: it is not in this build. */
kvg_status kvg_check_gpu_runner(bool graph, const kvg_model_runner **out) KVG_CHECKED;

#endif
