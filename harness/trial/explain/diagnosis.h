/* Room explain: what is wrong with an answer, and why.
 *
 *   diagnosis              The search, in parallel: single defects, sides, dialects, pairs.
 *   diagnosis_score        How well a hypothesis explains an answer.
 *   identify               Which layout an engine writes, by the rows of a known case.
 *
 * docs/guide/compare.md is the manual. */
/* Why an answer is wrong; harness/trial/judge/where.h says where. The reference is run again under the rows of
 * harness/trial/wrong/defects.def that apply to the case, alone, on one side, under other dialects, and two at a time;
 * what gives the answer explains it. */
#ifndef KVG_HARNESS_TRIAL_EXPLAIN_DIAGNOSIS_H
#define KVG_HARNESS_TRIAL_EXPLAIN_DIAGNOSIS_H

#include "harness/trial/judge/where.h"
#include "harness/trial/wrong/defect_run.h"

enum { KVG_MAX_EXPLANATIONS = 8, KVG_DIAGNOSIS_TEXT = 480, KVG_EXPLANATION_NAME = 1024 };
enum { KVG_DEFAULT_PAIRS = 4096, KVG_DEFAULT_WHY_SECONDS = 20 };

typedef struct kvg_explanation {
    kvg_wrong wrong[2];
    size_t count;        /* defects at once */
    bool exact;          /* gives the answer: every bit; of op decode every number within its bound */
    bool same_bits;      /* every bit, whatever is asked for */
    uint64_t explained;  /* wrong bits (of op decode numbers) in units that come out as in the answer */
    uint64_t introduced; /* bits that come out otherwise than in the answer, where the answer is right */
    uint64_t agreeing;   /* bits of the whole answer that come out as in it */
    double distance;     /* op decode: largest |answer - this| / bound */
    uint64_t hash;       /* of what comes out: equal for those that nobody could tell apart by this case */
} kvg_explanation;

typedef struct kvg_diagnosis {
    kvg_explanation explanations[KVG_MAX_EXPLANATIONS]; /* best first: exact ones, then single ones, then by share */
    size_t count;
    uint64_t wrong_bits, all_bits; /* op decode: numbers */
    size_t tried, reached;         /* hypotheses run; those that change this case's answer */
    size_t pairs, all_pairs;       /* pairs run, the most promising ones first, and all that would have been */
    double seconds;                /* that it took, where its limit of time ended it; else 0 */
} kvg_diagnosis;

kvg_status kvg_diagnose(const kvg_evidence *evidence, const kvg_places *places,
                        kvg_diagnosis *out) KVG_CHECKED;

/* "nibbles_swapped", "nibbles_swapped (V)", "nibbles_swapped (V) and tensor_scale_lost (K)". */
void kvg_explanation_name(const kvg_explanation *explanation, char *out, size_t size);

/* What it says for people: "low and high nibble exchanged (LMDeploy FP4 fork)". */
void kvg_explanation_text(const kvg_explanation *explanation, char *out, size_t size);

#endif
