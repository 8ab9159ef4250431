/* `kvgold bench` of op generate: times a decode step of whole models by storage format, batch and context, one token
 * per sequence, over caches that are filled synthetically. docs/results/performance.md section 5. */
#ifndef KVG_MODEL_BENCH_GENERATE_BENCH_H
#define KVG_MODEL_BENCH_GENERATE_BENCH_H

#include <stdio.h>

#include <cjson/cJSON.h>

#include "core/bench_model.h"
#include "harness/bench/device_bench.h"

enum { KVG_GENERATE_BENCH_MOST = 16, KVG_GENERATE_BENCH_RUNS = 10 };

/* --- the config: an object "generate" beside kvgold, name and seed --- */

typedef struct kvg_generate_bench_model {
    char name[64], folder[1024]; /* folder "": weights by a recipe, on the device */
    kvg_model_config config;
    kvg_products products;
} kvg_generate_bench_model;

typedef struct kvg_generate_bench_config {
    uint64_t seed;
    double hang_seconds; /* for one cell */
    kvg_dtype dtype;
    kvg_layout layout;
    uint32_t block_tokens;
    uint32_t models, formats, batches, contexts;
    kvg_generate_bench_model model[KVG_GENERATE_BENCH_MOST];
    kvg_format format[KVG_GENERATE_BENCH_MOST];
    uint32_t batch[KVG_GENERATE_BENCH_MOST], context[KVG_GENERATE_BENCH_MOST];
} kvg_generate_bench_config;

/* Whether a file is such a config; one that cannot be read is none. */
bool kvg_generate_bench_is(const char *path);

/* KVG_ERR_INVALID names what is wrong, KVG_ERR_IO a file that cannot be read. */
kvg_status kvg_generate_bench_open(const char *path, kvg_generate_bench_config *out) KVG_CHECKED;

/* --- cells: by model, batch, context and format, the last one fastest --- */

typedef struct kvg_generate_bench_cell {
    const kvg_generate_bench_model *model;
    kvg_format format;
    uint32_t batch, context;
    bool first_of_model, first_of_format; /* where what is compared once is compared */
} kvg_generate_bench_cell;

size_t kvg_generate_bench_cells(const kvg_generate_bench_config *config);
kvg_generate_bench_cell kvg_generate_bench_cell_at(const kvg_generate_bench_config *config, size_t index);
void kvg_generate_bench_id(const kvg_generate_bench_cell *cell, char *out, size_t size);

/* --- one cell --- */

/* What times it: `runner` gives the logits that are compared with the reference's. */
typedef struct kvg_generate_bench_device {
    const kvg_bench_device *device;
    const kvg_bench_model *model;
    const kvg_model_runner *runner;
} kvg_generate_bench_device;

/* KVG_ERR_UNIMPLEMENTED: this build has none. Opens nothing. */
kvg_status kvg_generate_bench_device_find(kvg_generate_bench_device *out) KVG_CHECKED;

/* Logits of products by the library against those in fixed order, of one step. */
typedef struct kvg_generate_bench_distance {
    bool known;
    double largest, rms; /* of the differences */
    double size;         /* root of the mean square of the logits */
    uint32_t rows, same; /* rows, and those with the same token */
} kvg_generate_bench_distance;

typedef struct kvg_generate_bench_measurement {
    kvg_device_outcome outcome;
    kvg_verdict verdict;            /* NOT_TIMED: why */
    char detail[KVG_RESULT_TEXT];
    kvg_bench_info info;
    kvg_profile profile;
    uint64_t needs, room;           /* bytes; DOES_NOT_FIT: with the largest batch that does */
    uint32_t most_batch;
    uint64_t kv_bytes;              /* of K and V and their scales that a step reads */
    uint64_t pool_bytes;
    uint64_t checked;               /* bytes of logits compared with the reference: once for each format */
    kvg_device_times times[KVG_BENCH_MODEL_PARTS];
    kvg_bench_clock clock;
    kvg_generate_bench_distance distance; /* once for each model */
    double seconds;
} kvg_generate_bench_measurement;

/* A model at work in this process: its weights and its table of RoPE. */
typedef struct kvg_generate_bench_work kvg_generate_bench_work;
kvg_status kvg_generate_bench_begin(const kvg_generate_bench_config *config, const kvg_generate_bench_device *device,
                                    kvg_generate_bench_work **out) KVG_CHECKED; /* opens the device */
void kvg_generate_bench_end(kvg_generate_bench_work *work); /* NULL is allowed */

/* Never fails: what goes wrong is in *out. */
void kvg_generate_bench_measure(kvg_generate_bench_work *work, const kvg_generate_bench_cell *cell, uint32_t runs,
                                kvg_generate_bench_measurement *out);

/* Logits of a few short requests, by `runner` and by the reference, which are bits. KVG_OK: *wrong is "" or says which
 * are not the same; *bytes were compared. */
kvg_status kvg_generate_bench_compare(const kvg_model_setup *setup, const kvg_model_runner *runner, uint64_t seed,
                                      uint64_t *bytes, char *wrong, size_t size) KVG_CHECKED;

/* --- reports --- */

void kvg_generate_bench_print_header(FILE *f);

/* `plain`: the same cell in bf16, NULL if it was not timed. */
void kvg_generate_bench_print(const kvg_generate_bench_cell *cell, const kvg_generate_bench_measurement *m,
                              const kvg_generate_bench_measurement *plain, FILE *f);
cJSON *kvg_generate_bench_json(const kvg_generate_bench_config *config, const kvg_generate_bench_cell *cell,
                               const kvg_generate_bench_measurement *m, const kvg_generate_bench_measurement *plain);

/* --- all of it --- */

typedef struct kvg_generate_bench_options {
    uint32_t runs;      /* of each cell */
    const char *filter; /* only cells whose id contains this; NULL: all */
} kvg_generate_bench_options;

/* Cells in processes of their own (support/apart.h), a line of each on stdout, progress on stderr, an object
 * of each into `list`. *exit_code as of the command. KVG_ERR_UNIMPLEMENTED: there is no such device here. */
kvg_status kvg_generate_bench(const kvg_generate_bench_config *config, const kvg_generate_bench_device *device,
                              const kvg_generate_bench_options *options, cJSON *list, int *exit_code) KVG_CHECKED;

#endif
