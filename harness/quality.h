/* How far the next-token distributions of one run lie from those of another: docs/generate.md section 8 has the
 * formulas. All in double; the bits of libm matter to nobody here. */
#ifndef KVG_HARNESS_QUALITY_H
#define KVG_HARNESS_QUALITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

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

/* A mean over rows, and where 95% of the bootstrap's means lie. */
typedef struct kvg_quality_mean {
    double value, low, high;
} kvg_quality_mean;

enum {
    KVG_QUALITY_BUCKETS = 16,    /* positions 0 to 63, 64 to 127, 128 to 255, and so on; the last has all the rest */
    KVG_QUALITY_FIRST = 64,
    KVG_QUALITY_BLOCK = 64,      /* neighbouring rows that the bootstrap draws together */
    KVG_QUALITY_REPLICATES = 1000
};

typedef struct kvg_quality_bucket {
    uint64_t rows;
    double loss, kl, top1;
} kvg_quality_bucket;

typedef struct kvg_quality {
    uint64_t rows, unknown;      /* rows, and those of them that are NAN: then so is every number below */
    double base_bits;            /* bits per token of the base */
    kvg_quality_mean bits, loss; /* bits per token; how many more than the base's */
    kvg_quality_mean kl, top1;   /* top1: share of rows with the same top token */
    double kl_p99, kl_worst;
    kvg_quality_bucket buckets[KVG_QUALITY_BUCKETS];
} kvg_quality;

/* Rows in order of text, then of position. KVG_ERR_INVALID without rows; KVG_ERR_MEMORY. */
kvg_status kvg_quality_summarise(const kvg_quality_row *rows, size_t count, uint64_t seed,
                                 kvg_quality *out) KVG_CHECKED;

/* The first position of a bucket. */
uint32_t kvg_quality_bucket_from(unsigned bucket);

/* What a run may lose at most; +Inf (top1: 0) where nobody says. */
typedef struct kvg_quality_limits {
    double loss, kl; /* bits: of the means */
    double top1;     /* at least */
} kvg_quality_limits;

/* The first measure that is not within its limit, in words; false if all are. A NAN is not. */
bool kvg_quality_exceeds(const kvg_quality *quality, const kvg_quality_limits *limits, char *out, size_t size);

#endif
