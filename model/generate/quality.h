/* The distance between the next-token distributions of two runs: docs/spec/generate.md section 8
 * has the formulas. All numbers are double, and their last bits may depend on libm. */
#ifndef KVG_MODEL_GENERATE_QUALITY_H
#define KVG_MODEL_GENERATE_QUALITY_H

#include "core/status.h"
#include "model/generate/quality_result.h"

/* One row: the distribution after `position` of a text. All numbers are NAN if a logit of either
 * run is NaN or +Inf, or if all logits of a run are -Inf. Nothing is known of such a row, and no
 * case passes with one. */
typedef struct kvg_quality_row {
    uint32_t text, position;
    double base_bits, bits; /* -log2 of the probability of the token that comes next, in both runs */
    double kl;              /* sum of p log2(p / q), p the base's distribution, q the other's */
    bool same_top;          /* both runs have their largest logit (of equal ones the first) at the same token */
} kvg_quality_row;

/* Fills in every member except text and position. `next` must be below `vocab`. */
void kvg_quality_compare(const float *base, const float *own, uint32_t vocab, uint32_t next, kvg_quality_row *out);

enum {
    KVG_QUALITY_BLOCK = 64,      /* neighbouring rows that the bootstrap draws together */
    KVG_QUALITY_REPLICATES = 1000
};

/* Summarises rows, which must be in order of text, then of position. KVG_ERR_INVALID without rows;
 * KVG_ERR_MEMORY. */
kvg_status kvg_quality_summarise(const kvg_quality_row *rows, size_t count, uint64_t seed,
                                 kvg_quality *out) KVG_CHECKED;

/* Writes the first measure that breaks its limit, in words. Returns false if none does. NAN breaks
 * a limit. */
bool kvg_quality_exceeds(const kvg_quality *quality, const kvg_quality_limits *limits, char *out, size_t size);

#endif
