/* What `kvgold bench` says about steps of models: a line of its table, and an object of its JSON. */
#include "model/bench/generate_bench.h"

void kvg_generate_bench_id(const kvg_generate_bench_cell *cell, char *out, size_t size)
{
    snprintf(out, size, "%s %s %ux%u", cell->model->name, kvg_format_get(cell->format)->name, cell->batch,
             cell->context);
}

static const char *const part_names[KVG_BENCH_MODEL_PARTS] = {"step", "cache", "rest"};

static const char *outcome_name(const kvg_generate_bench_measurement *m)
{
    if (m->outcome == KVG_DEVICE_TIMED) return "TIMED";
    return m->outcome == KVG_DEVICE_DOES_NOT_FIT ? "DOES_NOT_FIT" : kvg_verdict_name(m->verdict);
}

/* --- figures --- */

static double tokens_per_second(const kvg_generate_bench_cell *cell, const kvg_generate_bench_measurement *m)
{
    return 1e6 * cell->batch / m->times[KVG_BENCH_STEP].median;
}

/* The part of append and decode, each taken alone. */
static double share_of_cache(const kvg_generate_bench_measurement *m)
{
    return m->times[KVG_BENCH_CACHE].median / m->times[KVG_BENCH_STEP].median;
}

/* How many times as fast as `plain`; 0: not known. */
static double gain_over(const kvg_generate_bench_measurement *m, const kvg_generate_bench_measurement *plain)
{
    return plain ? plain->times[KVG_BENCH_STEP].median / m->times[KVG_BENCH_STEP].median : 0;
}

/* Half of the runs lie within it: the distance of the quartiles over the median. */
static double spread_of(const kvg_device_times *t)
{
    return t->median > 0 ? (t->upper - t->lower) / t->median : 0;
}

/* --- the table --- */

void kvg_generate_bench_print_header(FILE *f)
{
    fprintf(f, "%-32s %10s %9s %6s %6s %9s %6s %5s  %s\n", "cell", "tokens/s", "ms/step", "spread", "cache", "KV GB",
            "gain", "MHz", "checked");
}

static void print_untimed(const kvg_generate_bench_measurement *m, FILE *f)
{
    if (m->outcome == KVG_DEVICE_DOES_NOT_FIT) {
        fprintf(f, "  DOES_NOT_FIT: needs %.1f of %.1f GB; largest batch that fits: %u\n", (double)m->needs / 1e9,
                (double)m->room / 1e9, m->most_batch);
    } else {
        fprintf(f, "  %s: %s\n", kvg_verdict_name(m->verdict), m->detail);
    }
}

static void print_distance(const kvg_generate_bench_distance *d, FILE *f)
{
    if (!d->known) return;
    fprintf(f, "%-32s logits of the library's products against those in fixed order: largest difference %.3g, "
               "root mean square %.3g of logits of %.3g; %u of %u rows give the same token\n",
            "", d->largest, d->rms, d->size, d->same, d->rows);
}

void kvg_generate_bench_print(const kvg_generate_bench_cell *cell, const kvg_generate_bench_measurement *m,
                              const kvg_generate_bench_measurement *plain, FILE *f)
{
    char id[128], gain[16] = "-";
    kvg_generate_bench_id(cell, id, sizeof id);
    fprintf(f, "%-32s", id);
    if (m->outcome != KVG_DEVICE_TIMED) {
        print_untimed(m, f);
        return;
    }
    if (plain) snprintf(gain, sizeof gain, "%.2f x", gain_over(m, plain));
    const kvg_device_times *t = &m->times[KVG_BENCH_STEP];
    fprintf(f, " %10.1f %9.3f %5.1f%% %5.1f%% %9.3f %6s %5.0f  %s", tokens_per_second(cell, m), t->median / 1e3,
            100 * spread_of(t), 100 * share_of_cache(m), (double)m->kv_bytes / 1e9, gain, m->clock.mhz,
            kvg_profile_get(m->profile)->name);
    if (m->checked) fprintf(f, " %llu B of the reference's", (unsigned long long)m->checked);
    fputc('\n', f);
    print_distance(&m->distance, f);
}

/* --- JSON --- */

static void add_number(cJSON *to, const char *name, double value)
{
    cJSON_AddNumberToObject(to, name, value);
}

static void add_distance(cJSON *to, const kvg_generate_bench_distance *d)
{
    if (!d->known) return;
    cJSON *item = cJSON_AddObjectToObject(to, "library_against_fixed");
    add_number(item, "largest", d->largest);
    add_number(item, "rms", d->rms);
    add_number(item, "logits_rms", d->size);
    add_number(item, "rows", d->rows);
    add_number(item, "rows_with_same_token", d->same);
}

static void add_shape(cJSON *to, const kvg_generate_bench_config *config, const kvg_generate_bench_cell *cell)
{
    const kvg_model_config *c = &cell->model->config;
    cJSON_AddStringToObject(to, "op", "generate");
    cJSON_AddStringToObject(to, "model", cell->model->name);
    cJSON_AddStringToObject(to, "weights", cell->model->folder[0] ? "checkpoint" : "random");
    cJSON_AddStringToObject(to, "products", kvg_products_name(cell->model->products));
    cJSON_AddStringToObject(to, "format", kvg_format_get(cell->format)->name);
    add_number(to, "batch", cell->batch);
    add_number(to, "context", cell->context);
    cJSON_AddStringToObject(to, "layout", kvg_layout_get(config->layout)->name);
    add_number(to, "block_tokens", config->block_tokens);
    cJSON_AddStringToObject(to, "dtype", kvg_dtype_name(config->dtype));
    add_number(to, "layers", c->layers);
    add_number(to, "query_heads", c->query_heads);
    add_number(to, "kv_heads", c->kv_heads);
    add_number(to, "head_dim", c->head_dim);
}

cJSON *kvg_generate_bench_json(const kvg_generate_bench_config *config, const kvg_generate_bench_cell *cell,
                               const kvg_generate_bench_measurement *m, const kvg_generate_bench_measurement *plain)
{
    cJSON *item = cJSON_CreateObject();
    char id[128];
    kvg_generate_bench_id(cell, id, sizeof id);
    cJSON_AddStringToObject(item, "id", id);
    cJSON_AddStringToObject(item, "gpu", m->info.name);
    add_number(item, "sm", m->info.sm);
    cJSON_AddStringToObject(item, "status", outcome_name(m));
    add_shape(item, config, cell);
    add_number(item, "seconds", m->seconds);
    if (m->detail[0]) cJSON_AddStringToObject(item, "detail", m->detail);
    if (m->outcome == KVG_DEVICE_DOES_NOT_FIT) {
        add_number(item, "needs_bytes", (double)m->needs);
        add_number(item, "room_bytes", (double)m->room);
        add_number(item, "largest_batch", m->most_batch);
    }
    if (m->outcome != KVG_DEVICE_TIMED) return item;
    cJSON_AddStringToObject(item, "profile", kvg_profile_get(m->profile)->name);
    add_number(item, "tokens_per_second", tokens_per_second(cell, m));
    for (int i = 0; i < KVG_BENCH_MODEL_PARTS; i++) kvg_device_add_times(item, &m->times[i], part_names[i]);
    add_number(item, "share_of_cache", share_of_cache(m));
    add_number(item, "kv_bytes_read", (double)m->kv_bytes);
    add_number(item, "pool_bytes", (double)m->pool_bytes);
    if (plain) add_number(item, "gain_over_bf16", gain_over(m, plain));
    add_number(item, "checked_bytes", (double)m->checked);
    add_distance(item, &m->distance);
    kvg_device_add_clock(item, &m->clock);
    return item;
}
