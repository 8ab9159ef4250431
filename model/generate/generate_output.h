/* The output of a run of `kvgold generate`: a record of every request's logits, and the texts and
 * files made of it. */
#ifndef KVG_MODEL_GENERATE_GENERATE_OUTPUT_H
#define KVG_MODEL_GENERATE_GENERATE_OUTPUT_H

#include <stdio.h>

#include "golden/golden.h"
#include "model/generate/generate.h"

typedef struct kvg_generate_record {
    uint32_t prompt_tokens, new_tokens;
    int32_t *tokens;   /* [prompt + new], complete at the end */
    float *logits;     /* [new][vocab]: rows from which tokens were drawn; NULL: not kept */
    uint32_t rows;     /* number of these rows */
    kvg_sha256 sum;    /* hash of their bytes, little-endian f32 */
    kvg_sha256_digest digest;
    uint64_t bytes;    /* bytes of the pools that it held at the end */
} kvg_generate_record;

typedef struct kvg_generate_records {
    kvg_generate_record *list; /* request i is entry i */
    size_t count;
    uint32_t vocab;
    uint64_t rows; /* tokens drawn so far */
} kvg_generate_records;

/* Facts about a run besides its records. */
typedef struct kvg_generate_about {
    const char *model, *backend;
    const kvg_generate_settings *settings;
    const kvg_sampling *sampling; /* of all requests, each with its own number */
    kvg_generate_counts counts;
    double seconds;
} kvg_generate_about;

/* A kvg_generate_observer.see whose context is a kvg_generate_records. */
kvg_status kvg_generate_record_row(void *records, const kvg_generate_row *row);

/* Call it after the last row. */
void kvg_generate_records_end(kvg_generate_records *records);
void kvg_generate_records_free(kvg_generate_records *records);

/* Prints prompt and continuation of each request: as bytes, where a byte that a terminal cannot
 * show is written as \xNN, or as ids. */
void kvg_generate_print(const kvg_generate_records *records, bool text, FILE *out);

/* JSON: settings, counts, tokens and hashes. Safetensors: the logits of request i as `request_i`.
 * Each file is written whole or not at all. */
kvg_status kvg_generate_write_json(const kvg_generate_records *records, const kvg_generate_about *about,
                                   const char *path) KVG_CHECKED;
kvg_status kvg_generate_write_logits(kvg_generate_records *records, const char *path) KVG_CHECKED;

#endif
