/* The decode contracts (docs/spec/decode-contract.md, docs/spec/simt-contract.md) read literally, a row at a time,
 * over the rows that the world decoded without a layout; and the same with one thing different. Shares the fused
 * sums, exp2 and log2 with the profile tier; the second opinion that shares nothing is in second/. */
#ifndef KVG_TESTS_REFERENCE_ATTENTION_DECODE_NAIVE_H
#define KVG_TESTS_REFERENCE_ATTENTION_DECODE_NAIVE_H

#include "tests/reference/attention/attention_world.h"

typedef enum decode_defect {
    DECODE_RIGHT,
#define DECODE_DEFECT(ENUM, contract, section, what) DECODE_##ENUM,
#include "tests/reference/attention/decode_defects.def"
#undef DECODE_DEFECT
    DECODE_DEFECTS
} decode_defect;

const char *decode_defect_name(decode_defect defect);

/* Whether the contract of a profile can be broken in this way. */
bool decode_defect_is_of(decode_defect defect, kvg_profile profile);

/* Numbers of T, widened, and lse. */
typedef struct decode_answer {
    float *out, *lse;
} decode_answer;

decode_answer decode_open(const world *w);
void decode_close(decode_answer *a);

/* The profile tier; fails the test on a status. */
void decode_profile(const world *w, decode_answer *out);

/* The profile's contract literally: dialects whose numbers follow from world_row by one rounding. */
void decode_naive(const world *w, decode_defect defect, decode_answer *out);

/* Outputs and LSE that differ; NaN of any bits is one number. */
size_t decode_differences(const world *w, const decode_answer *a, const decode_answer *b);

#endif
