/* What a run of `kvgold generate` leaves: a record of every request's logits, and the texts and files made of it. */
#ifndef KVG_MODEL_GENERATE_GENERATE_OUTPUT_H
#define KVG_MODEL_GENERATE_GENERATE_OUTPUT_H

#include <stdio.h>

#include "golden/golden.h"
#include "model/generate/generate.h"

typedef struct kvg_generate_record {
    uint32_t prompt_tokens, new_tokens;
    int32_t *tokens;   /* [prompt + new]: known at the end */
    float *logits;     /* [new][vocab]: rows that tokens were drawn from; NULL: not kept */
    uint32_t rows;     /* of them */
    kvg_sha256 sum;    /* of their bytes, little-endian f32 */
    kvg_sha256_digest digest;
    uint64_t bytes;    /* of the pools that it held in the end */
} kvg_generate_record;

typedef struct kvg_generate_records {
    kvg_generate_record *list; /* request i is entry i */
    size_t count;
    uint32_t vocab;
    uint64_t rows, wanted; /* tokens drawn, of how many */
    double start;          /* kvg_clock_seconds, for the line that says how far it is */
} kvg_generate_records;

/* What is said of a run beside its records. */
typedef struct kvg_generate_about {
    const char *model, *backend;
    const kvg_generate_settings *settings;
    const kvg_sampling *sampling; /* of all requests, each with its own number */
    kvg_generate_counts counts;
    double seconds;
} kvg_generate_about;

/* kvg_generate_observer.see over a kvg_generate_records. */
kvg_status kvg_generate_record_row(void *records, const kvg_generate_row *row);

/* After the last row. */
void kvg_generate_records_end(kvg_generate_records *records);
void kvg_generate_records_free(kvg_generate_records *records);

/* Prompt and continuation of each: bytes, those that no terminal shows as \xNN, or ids. */
void kvg_generate_print(const kvg_generate_records *records, bool text, FILE *out);

/* JSON: settings, counts, tokens and hashes. Safetensors: logits of request i as `request_i`. Whole or not there. */
kvg_status kvg_generate_write_json(const kvg_generate_records *records, const kvg_generate_about *about,
                                   const char *path) KVG_CHECKED;
kvg_status kvg_generate_write_logits(kvg_generate_records *records, const char *path) KVG_CHECKED;

#endif
