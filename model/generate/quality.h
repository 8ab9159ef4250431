/* How far the next-token distributions of one run lie from those of another: docs/spec/generate.md section 8 has the
 * formulas. All in double; the bits of libm matter to nobody here. */
#ifndef KVG_MODEL_GENERATE_QUALITY_H
#define KVG_MODEL_GENERATE_QUALITY_H

#include "core/status.h"
#include "model/generate/quality_result.h"

/* One row: the distribution after `position` of a text. NAN where either run has a logit that is NaN or +Inf, or all
 * of them are -Inf: nothing is known of such a row, and nothing passes with it. */
typedef struct kvg_quality_row {
    uint32_t text, position;
    double base_bits, bits; /* -log2 of the probability of the token that comes next, in both runs */
    double kl;              /* sum of p log2(p / q), p the base's distribution, q the other's */
    bool same_top;          /* both have their largest logit, of equal ones the first, at the same token */
} kvg_quality_row;

/* Fills in all but text and position. `next` is below `vocab`. */
void kvg_quality_compare(const float *base, const float *own, uint32_t vocab, uint32_t next, kvg_quality_row *out);

enum {
    KVG_QUALITY_BLOCK = 64,      /* neighbouring rows that the bootstrap draws together */
    KVG_QUALITY_REPLICATES = 1000
};

/* Rows in order of text, then of position. KVG_ERR_INVALID without rows; KVG_ERR_MEMORY. */
kvg_status kvg_quality_summarise(const kvg_quality_row *rows, size_t count, uint64_t seed,
                                 kvg_quality *out) KVG_CHECKED;

/* The first measure that is not within its limit, in words; false if all are. A NAN is not. */
bool kvg_quality_exceeds(const kvg_quality *quality, const kvg_quality_limits *limits, char *out, size_t size);

#endif
