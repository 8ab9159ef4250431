/* The result of a case of op generate: measures against the same run with a cache of the model
 * type, rows compared as bits, bytes of a request, planted defects (docs/spec/generate.md section
 * 8). */
#ifndef KVG_MODEL_GENERATE_QUALITY_RESULT_H
#define KVG_MODEL_GENERATE_QUALITY_RESULT_H

#include "model/generate/generate_case.h"
#include "harness/case/result_fields.h"

/* A mean over rows, and the interval that holds 95 % of the bootstrap's means. */
typedef struct kvg_quality_mean {
    double value, low, high;
} kvg_quality_mean;

enum {
    KVG_QUALITY_BUCKETS = 16,    /* positions 0 to 63, 64 to 127, 128 to 255, and so on; the last has all the rest */
    KVG_QUALITY_FIRST = 64
};

/* The first position of a bucket. */
static inline uint32_t kvg_quality_bucket_from(unsigned bucket)
{
    return bucket ? (uint32_t)KVG_QUALITY_FIRST << (bucket - 1) : 0;
}

typedef struct kvg_quality_bucket {
    uint64_t from, rows; /* from: its first position */
    double loss, kl, top1;
} kvg_quality_bucket;

typedef struct kvg_quality {
    uint64_t rows, unknown;      /* unknown: rows that are NAN; if there is one, all numbers below are NAN */
    double base_bits;            /* bits per token of the base */
    kvg_quality_mean bits, loss; /* bits per token; bits per token more than the base */
    kvg_quality_mean kl, top1;   /* top1: share of rows with the same top token */
    double kl_p99, kl_worst;
    kvg_quality_bucket buckets[KVG_QUALITY_BUCKETS];
} kvg_quality;

/* Rows of two runs, compared as bits. */
typedef struct kvg_quality_bits {
    uint64_t rows, differ;   /* rows compared; rows that differ */
    uint64_t compared_bytes, bytes;
    uint32_t text, row, token; /* place of the first difference */
    float expected, got;
} kvg_quality_bits;

/* Where generated text first differs from the base's. A text without a difference counts as
 * `tokens`. */
typedef struct kvg_quality_greedy {
    uint64_t texts, tokens;  /* tokens: number that is generated after each text */
    uint64_t same;           /* texts without a difference */
    uint64_t first;          /* the earliest difference; equal to `tokens` if there is none */
    double median;           /* median of the first differences */
} kvg_quality_greedy;

/* The memory that one request holds of a model's cache, counted from its pools. */
typedef struct kvg_generate_memory {
    uint64_t block_bytes;   /* bytes of a block of all layers: K and V, data and scales, padding */
    uint64_t blocks;        /* blocks of the request; the last one may be partly empty */
    uint64_t request_bytes; /* bytes of these blocks */
    uint64_t requests;      /* such requests that fit into a budget, if no two share a block */
    double token_bytes;     /* block_bytes / block_tokens */
} kvg_generate_memory;

/* What became of one planted defect. */
typedef struct kvg_quality_defect {
    const char *id;
    bool applies, by_bits, by_limits;
    uint64_t rows, differ;
    double loss, kl;
} kvg_quality_defect;

typedef struct kvg_quality_result {
    bool measured;
    kvg_quality quality;
    kvg_quality_limits limits;
    kvg_quality_bits bits;
    kvg_quality_greedy greedy;
    kvg_generate_memory memory; /* of a request of one window */
    uint64_t window, budget, shared_tokens;
    kvg_quality_defect defects[KVG_GENERATE_DEFECTS];
    size_t defect_count;
} kvg_quality_result;

/* The fields of lines of op generate, by record. The fields of the first two records stand in the
 * line itself. */
typedef enum kvg_quality_record {
    KVG_QUALITY_GENERATE, KVG_QUALITY_PARTS, KVG_QUALITY_QUALITY, KVG_QUALITY_POSITIONS, KVG_QUALITY_PLANTED,
    KVG_QUALITY_RECORDS
} kvg_quality_record;

extern const kvg_record kvg_quality_records[KVG_QUALITY_RECORDS];

typedef struct kvg_result_generate {
    const char *layers, *quantise_k;
} kvg_result_generate;

#endif
