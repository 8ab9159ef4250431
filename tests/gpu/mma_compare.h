/* Sets answers of the matrix instruction beside expected ones, and names the broken rule that explains what differs. */
#ifndef KVG_TESTS_GPU_MMA_COMPARE_H
#define KVG_TESTS_GPU_MMA_COMPARE_H

#include "harness/trial/question/mma_inputs.h"
#include "second/slow_mma.h"

typedef struct mma_sample {
    uint16_t a[KVG_MMA_K], b[KVG_MMA_K]; /* the row and the column */
    uint32_t c, expected, got;
} mma_sample;

enum { MMA_SAMPLES = 4, MMA_EXAMINED = 4096 };

typedef struct mma_tally {
    uint64_t outputs, mismatches;
    uint64_t examined;                   /* mismatches that every fault was tried on: the first MMA_EXAMINED */
    uint64_t explained[SLOW_MMA_FAULTS]; /* how many of them a tensor core with only this fault would give */
    mma_sample sample[MMA_SAMPLES];      /* the first ones */
} mma_tally;

/* Compares `tiles` outputs bit for bit and adds to the tally. */
void mma_compare(mma_tally *t, const kvg_profile_info *profile, kvg_dtype dtype, size_t tiles, const uint16_t *a,
                 const uint16_t *b, const float *c, const float *expected, const float *got);

/* Whether the fault explains every mismatch that was examined; false without mismatches. */
bool mma_tally_explains(const mma_tally *t, slow_mma_fault fault);

/* Prints the samples and, of all faults, those that explain something. Nothing without mismatches. */
void mma_tally_print(const mma_tally *t);

#endif
