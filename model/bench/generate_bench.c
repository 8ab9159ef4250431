#include "model/bench/generate_bench.h"

#include <stdlib.h>
#include <string.h>

#include "harness/run/backends.h"
#include "support/apart.h"
#include "support/clock.h"
#include "support/exit_code.h"
#include "support/progress.h"

/* --- cells --- */

size_t kvg_generate_bench_cells(const kvg_generate_bench_config *config)
{
    return (size_t)config->models * config->batches * config->contexts * config->formats;
}

kvg_generate_bench_cell kvg_generate_bench_cell_at(const kvg_generate_bench_config *config, size_t index)
{
    const size_t format = index % config->formats, group = index / config->formats;
    const size_t context = group % config->contexts, rest = group / config->contexts;
    const size_t batch = rest % config->batches;
    const bool first_of_format = context == 0 && batch == 0;
    return (kvg_generate_bench_cell){
        .model = &config->model[rest / config->batches], .format = config->format[format],
        .batch = config->batch[batch], .context = config->context[context],
        .first_of_model = first_of_format && format == 0, .first_of_format = first_of_format};
}

/* --- all cells --- */

typedef struct bench {
    const kvg_generate_bench_config *config;
    const kvg_generate_bench_device *device;
    kvg_generate_bench_cell *cells;
    size_t count;
    uint32_t runs;
    cJSON *list;
    double start;
    kvg_generate_bench_work *work;        /* of a cells' process */
    kvg_generate_bench_cell plain_cell;   /* the last one in bf16 that was timed */
    kvg_generate_bench_measurement plain;
    unsigned counts[KVG_VERDICT_COUNT], timed, too_large;
} bench;

static kvg_status open_work(void *context)
{
    bench *b = context;
    return kvg_generate_bench_begin(b->config, b->device, &b->work);
}

static bool measure_cell(void *context, size_t item, void *answer)
{
    bench *b = context;
    kvg_generate_bench_measurement *m = answer;
    kvg_generate_bench_measure(b->work, &b->cells[item], b->runs, m);
    return m->outcome != KVG_DEVICE_NOT_TIMED || m->verdict == KVG_VERDICT_FAIL ||
           m->verdict == KVG_VERDICT_UNIMPLEMENTED;
}

/* What is under way, after `item` cells. */
static void show_progress(const bench *b, size_t item)
{
    char id[128];
    if (item >= b->count) return;
    kvg_generate_bench_id(&b->cells[item], id, sizeof id);
    kvg_progress_at(item, KVG_PROGRESS_NOT_JUDGED, id, kvg_clock_seconds());
}

/* The same cell in bf16, if it was timed. */
static const kvg_generate_bench_measurement *plain_of(const bench *b, const kvg_generate_bench_cell *cell)
{
    const kvg_generate_bench_cell *p = &b->plain_cell;
    return p->model == cell->model && p->batch == cell->batch && p->context == cell->context ? &b->plain : NULL;
}

static void report_cell(void *context, size_t item, const void *answer)
{
    bench *b = context;
    const kvg_generate_bench_cell *cell = &b->cells[item];
    const kvg_generate_bench_measurement *m = answer;
    if (m->outcome == KVG_DEVICE_TIMED) b->timed++;
    else if (m->outcome == KVG_DEVICE_DOES_NOT_FIT) b->too_large++;
    else b->counts[m->verdict]++;
    if (m->outcome == KVG_DEVICE_TIMED && cell->format == kvg_format_of_dtype(KVG_DTYPE_BF16)) {
        b->plain_cell = *cell;
        b->plain = *m;
    }
    kvg_progress_pause();
    if (item == 0) kvg_generate_bench_print_header(stdout);
    kvg_generate_bench_print(cell, m, plain_of(b, cell), stdout);
    fflush(stdout);
    cJSON_AddItemToArray(b->list, kvg_generate_bench_json(b->config, cell, m, plain_of(b, cell)));
    show_progress(b, item + 1);
}

static void report_lost(void *context, size_t item, kvg_verdict verdict, const char *why)
{
    kvg_generate_bench_measurement m = {.outcome = KVG_DEVICE_NOT_TIMED, .verdict = verdict};
    snprintf(m.detail, sizeof m.detail, "%s", why);
    report_cell(context, item, &m);
}

/* No GPU, or kernels for nothing of what was asked, is 77. */
static int sum_up(const bench *b)
{
    bool failed = false;
    printf("%u cells timed, %u too large for the device", b->timed, b->too_large);
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) {
        if (b->counts[i] == 0) continue;
        printf(", %u %s", b->counts[i], kvg_verdict_name((kvg_verdict)i));
        failed |= i != KVG_VERDICT_UNIMPLEMENTED;
    }
    printf("; %.0f s\n", kvg_clock_seconds() - b->start);
    return failed ? KVG_EXIT_FAIL : b->timed ? KVG_EXIT_PASS : KVG_EXIT_NOTHING;
}

static void choose_cells(bench *b, const char *filter)
{
    for (size_t i = 0; i < kvg_generate_bench_cells(b->config); i++) {
        char id[128];
        const kvg_generate_bench_cell cell = kvg_generate_bench_cell_at(b->config, i);
        kvg_generate_bench_id(&cell, id, sizeof id);
        if (!filter || strstr(id, filter)) b->cells[b->count++] = cell;
    }
}

kvg_status kvg_generate_bench_device_find(kvg_generate_bench_device *out)
{
    return kvg_bench_model_of_gpu(&out->device, &out->model, &out->runner);
}

kvg_status kvg_generate_bench(const kvg_generate_bench_config *config, const kvg_generate_bench_device *device,
                              const kvg_generate_bench_options *options, cJSON *list, int *exit_code)
{
    bench b = {.config = config, .device = device, .list = list, .start = kvg_clock_seconds(),
               .runs = options->runs ? options->runs : KVG_GENERATE_BENCH_RUNS};
    b.cells = malloc(kvg_generate_bench_cells(config) * sizeof *b.cells);
    if (!b.cells) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the cells of a bench");
    choose_cells(&b, options->filter);
    const kvg_apart job = {.context = &b, .count = b.count,
                           .answer_bytes = sizeof(kvg_generate_bench_measurement),
                           .patience = config->hang_seconds, .open = open_work, .work = measure_cell,
                           .report = report_cell, .lost = report_lost};
    kvg_status s = b.count ? KVG_OK : kvg_fail(KVG_ERR_INVALID, "no cell's id contains '%s'", options->filter);
    kvg_progress_begin("bench", b.count, "cells");
    if (!s) show_progress(&b, 0);
    if (!s) s = kvg_apart_run(&job);
    kvg_progress_end();
    if (!s) *exit_code = sum_up(&b);
    free(b.cells);
    return s;
}
