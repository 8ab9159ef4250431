/* What came of a case: the verdict, what was compared, and how far known-wrong answers are. The judge fills a result, a
 * line of results.jsonl holds it, and a report reads it back (harness/report/result_line.h). The fields of a line are
 * the tables of harness/case/result_fields.c, which say what each member means. */
#ifndef KVG_HARNESS_CASE_RESULT_H
#define KVG_HARNESS_CASE_RESULT_H

#include "core/backend.h"
#include "harness/case/result_fields.h"

enum { KVG_RESULT_TEXT = 640, KVG_UNCLAIMED_TEXT = 256, KVG_CONFINEMENT_TEXT = 256 };

/* What was compared of an answer. */
typedef struct kvg_result_compared {
    uint64_t compared, mismatched, steps;
} kvg_result_compared;

/* The parts of a result: each begins with whether it was measured. A line has those that were. */

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

/* Op decode: how far known-wrong answers are from right ones (harness/trial/judge/separation.h). */
typedef struct kvg_result_separation {
    bool measured;
    double least, bits; /* one of them is NAN: a case that is judged by bits has `bits` */
    const char *nearest;
    uint64_t reached;
    kvg_names unreached;
} kvg_result_separation;

/* What rows may meet in a codec besides codes. */
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

/* Where in a page the bytes of an answer are wrong: of the first tensor that has wrong bytes. */
typedef struct kvg_result_page {
    bool measured;
    const char *tensor;
    uint64_t bytes, wrong;
    kvg_code_set cells; /* bit i: in some page, a byte of cell i is wrong: kvg_result_cell */
} kvg_result_page;

/* The cell of a byte of a page: pages are cut into KVG_FIELD_CODES equal cells, smaller ones into one per byte. Byte 50
 * of 1,024 lies in cell 12, byte 50 of 64 in cell 50. */
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
    char detail[KVG_RESULT_TEXT];  /* empty if PASS; a FAIL that known defects explain names them */
    char unclaimed[KVG_UNCLAIMED_TEXT]; /* of a SKIP: what no claim of the implementation covers; else "" */
    bool cell_claimed; /* of such a SKIP: a claim covers its cell (harness/case/cells.h), but not the rest of it */
    char impl[KVG_IMPL_NAME_SIZE]; /* which implementation ran; "": none */
    char confinement[KVG_CONFINEMENT_TEXT]; /* of the candidate's process (support/confine.h), with the reason where it
                                             * is not the one that was asked for; "": nobody can say */
    char reference_in[KVG_IMPL_NAME_SIZE]; /* a library in that process that exports kvgold's reference; "": none */
    double milliseconds;           /* of the candidate's run */
    uint64_t redraws;              /* op: draws of the data before this one; none of them told right from wrong */
    bool slow;                     /* the case took longer than the config's slow_seconds */
    kvg_result_compared bytes;     /* as many are compared as the outputs have, or the case is an ERROR */
    kvg_round_trip round_trip[2];
    kvg_decode_accuracy decode;
    kvg_result_separation separation;
    kvg_names relations; /* op decode: the rows of harness/trial/judge/relations.def that were asked, and held */
    kvg_names explained; /* a FAIL: known-wrong answers that the answer is, as its op compares */
    kvg_result_page page;
    kvg_result_reach reach;
    kvg_result_controls controls;
    /* In no line: */
    bool verdict_only; /* of a known-wrong answer: nobody reads why it fails, nor where */
    const void *guest; /* what a guest measured; its session owns it */
    kvg_status lost;   /* KVG_ERR_DEVICE, KVG_ERR_DEVICE_LOST: nobody can be asked again, whatever the verdict */
} kvg_result;

/* What was asked: what a line holds of a case beside its result. Its texts are those of the case, or of the line. */
typedef struct kvg_result_asked {
    const char *type, *id, *repro, *op, *k_format, *k_dialect, *v_format, *v_dialect, *layout, *dtype;
    uint64_t tokens, kv_heads, head_dim;
    const char *fill, *capture_k, *capture_v, *scale, *backend;
} kvg_result_asked;

typedef struct kvg_result_mode {
    const char *requested, *effective;
    bool fell_back;
    const char *reason, *partial_kv, *prefix_cache;
} kvg_result_mode;

/* A FAIL with this text; the first reason stays. */
void kvg_result_fail(kvg_result *r, const char *format, ...) KVG_PRINTF(2, 3);

/* Adds "; TEXT" to the reason of a FAIL, as far as there is room. */
void kvg_result_add(kvg_result *r, const char *format, ...) KVG_PRINTF(2, 3);

/* An ERROR with the last error's text: "WHAT: TEXT". */
void kvg_result_give_up(kvg_result *r, const char *what);

/* An answer was judged: a line has what was compared, and parts. */
bool kvg_result_is_judged(const kvg_result *r);

#endif
