/* The result of a case: the verdict, what was compared, and how far known-wrong answers are from
 * the right one. The judge fills a result, a line of results.jsonl holds it, and a report reads it
 * back (harness/report/result_line.h). The tables of harness/case/result_fields.c are the fields of
 * a line and say what each member means. */
#ifndef KVG_HARNESS_CASE_RESULT_H
#define KVG_HARNESS_CASE_RESULT_H

#include "core/backend.h"
#include "harness/case/invariance.h"
#include "harness/case/result_fields.h"

enum { KVG_RESULT_TEXT = 640, KVG_UNCLAIMED_TEXT = 256, KVG_CONFINEMENT_TEXT = 256 };

/* Bytes or numbers of an answer that were compared. */
typedef struct kvg_result_compared {
    uint64_t compared, mismatched, steps;
} kvg_result_compared;

/* Parts of a result. Each begins with a flag that says whether it was measured. A line has only the
 * measured parts. */

/* Round trip of one side. */
typedef struct kvg_round_trip {
    bool measured;
    uint64_t elements;
    double relative_l2, sqnr_db, gain, worst_ratio;
} kvg_round_trip;

/* Op decode: accuracy of the answer. */
typedef struct kvg_decode_accuracy {
    bool measured;
    uint64_t elements, unpromised;
    bool bits;
    double worst_ratio, median_ratio, lse_ratio, relative_l2;
    double codec_ratio, codec_l2, probe_ratio; /* NAN: none */
} kvg_decode_accuracy;

/* Op decode: the distance of known-wrong answers from right ones
 * (harness/trial/judge/separation.h). */
typedef struct kvg_result_separation {
    bool measured;
    double least, bits; /* one of the two is NAN: a case that is judged by bits has `bits`, another has `least` */
    const char *nearest;
    uint64_t reached;
    kvg_names unreached;
} kvg_result_separation;

/* Special cases that a row may meet in a codec. */
typedef enum kvg_met {
    KVG_MET_TIES, KVG_MET_SATURATIONS, KVG_MET_ZERO_BLOCKS, KVG_MET_NEGATIVE_ZEROS, KVG_MET_SUBNORMALS,
    KVG_MET_SPECIALS, KVG_MET_SCALE_UNDERFLOWS, KVG_MET_KINDS
} kvg_met;

typedef struct kvg_result_reach {
    bool measured;
    uint64_t codes, codes_of, scales;
    uint64_t met[KVG_MET_KINDS];
    kvg_code_set code_set, scale_set;
} kvg_result_reach;

/* Where in a page the wrong bytes of an answer lie. Only the first tensor with wrong bytes
 * counts. */
typedef struct kvg_result_page {
    bool measured;
    const char *tensor;
    uint64_t bytes, wrong;
    kvg_code_set cells; /* bit i: cell i (kvg_result_cell) has a wrong byte in some page */
} kvg_result_page;

/* The cell of a byte of a page. A page is cut into KVG_FIELD_CODES equal cells; a smaller page has
 * one cell per byte. Byte 50 of 1,024 lies in cell 12, byte 50 of 64 in cell 50. */
static inline unsigned kvg_result_cell(uint64_t byte, uint64_t page_bytes)
{
    return (unsigned)(page_bytes > KVG_FIELD_CODES ? byte * KVG_FIELD_CODES / page_bytes : byte);
}

/* Names of known-wrong answers: rows of harness/trial/wrong/defects.def that are controls, or those of a guest. */
typedef struct kvg_result_controls {
    bool measured;
    kvg_names rejected, unreached, accepted, within, by_bound;
} kvg_result_controls;

typedef struct kvg_result {
    kvg_verdict verdict;
    char detail[KVG_RESULT_TEXT];  /* empty if PASS; a FAIL that known defects explain names these defects */
    char unclaimed[KVG_UNCLAIMED_TEXT]; /* for a SKIP: the part of the problem that no claim of the implementation
                                         * covers; else "" */
    char impl[KVG_IMPL_NAME_SIZE]; /* the implementation that ran; "": none */
    char engine[KVG_IMPL_NAME_SIZE]; /* the name that its library gives itself; "": none was opened */
    char confinement[KVG_CONFINEMENT_TEXT]; /* confinement of the candidate's process (support/confine.h), with the
                                             * reason if it is not the one that was asked for; "": unknown */
    char reference_in[KVG_IMPL_NAME_SIZE]; /* a library in this process that exports kvgold's reference, or is another
                                            * plug-in; "": none */
    kvg_names printed;             /* a case that cost the candidate's process: the last lines that it printed in it */
    double milliseconds;           /* duration of the candidate's run */
    char suspect[KVG_IMPL_NAME_SIZE]; /* the time that its process gave, if that cannot be; else "" */
    uint64_t redraws;              /* ops: earlier draws of the data; none of them could tell right from wrong */
    double seconds;                /* duration of the case: the candidate's runs, the reference's and the judge's */
    bool slow;                     /* it is above the config's slow_seconds */
    kvg_result_compared bytes;     /* a judged case compares all bytes of the outputs, or it is an ERROR */
    kvg_round_trip round_trip[2];
    kvg_decode_accuracy decode;
    kvg_result_separation separation;
    kvg_names relations; /* op decode: the rows of harness/trial/judge/relations.def that were asked and held */
    kvg_names broken;    /* the one of them that did not hold, of a right answer: no other is judged after it */
    kvg_names invariant, varies; /* op decode: axes of invariance.def that held, and that did not */
    kvg_names explained; /* a FAIL: known-wrong answers that equal this answer, by the comparison of its op */
    char fitted[384];    /* a FAIL that none of them explains: what its wrong rows, numbers or codes are; else "" */
    kvg_result_page page;
    kvg_result_reach reach;
    kvg_result_controls controls;
    kvg_variance along[KVG_INVARIANCE_AXES];
    /* The members below are in no line. */
    bool verdict_only; /* only the verdict is wanted, not why or where the answer fails: set for known-wrong answers */
    const void *guest; /* measurements of a guest; owned by its session */
    kvg_status lost;   /* KVG_ERR_DEVICE, KVG_ERR_DEVICE_LOST: the candidate cannot be asked again; else KVG_OK */
} kvg_result;

/* What was asked: the fields of a line that describe the case, not the result. Its texts belong to
 * the case, or to the line. */
typedef struct kvg_result_asked {
    const char *type, *id, *repro, *op, *k_format, *k_dialect, *v_format, *v_dialect, *layout, *dtype;
    uint64_t tokens, kv_heads, head_dim;
    const char *fill, *capture_k, *capture_v, *scale, *profile, *backend;
} kvg_result_asked;

typedef struct kvg_result_mode {
    const char *requested, *effective;
    bool fell_back;
    const char *reason, *partial_kv, *prefix_cache;
} kvg_result_mode;

/* Where the results of a run come from. */
typedef struct kvg_result_origin {
    const char *version, *commit, *date, *host, *cpu, *gpu;
    kvg_names libraries, capabilities; /* files: KVG_ORIGIN_HASH hex digits of SHA-256, two blanks, the path */
    kvg_names unasked; /* what capability files claim and no case of the config asks: "feature padding (claims[0])" */
} kvg_result_origin;

enum { KVG_ORIGIN_HASH = 64 };

/* A distance in units of the bound, with so many digits that it reads as 1 only if it is 1: a case
 * tells right from wrong above 1. */
enum { KVG_RESULT_NUMBER = 32 };
void kvg_result_write_separation(double least, char out[KVG_RESULT_NUMBER]);

/* Makes the result a FAIL with this text. If it is a FAIL already, the first text stays. */
void kvg_result_fail(kvg_result *r, const char *format, ...) KVG_PRINTF(2, 3);

/* Adds "; TEXT" to the reason of a FAIL, as far as there is room. */
void kvg_result_add(kvg_result *r, const char *format, ...) KVG_PRINTF(2, 3);

/* Makes the result an ERROR with the text "WHAT: TEXT", where TEXT is the last error's text. */
void kvg_result_give_up(kvg_result *r, const char *what);

/* True if an answer was judged. The line then has what was compared, and parts. */
bool kvg_result_is_judged(const kvg_result *r);

#endif
