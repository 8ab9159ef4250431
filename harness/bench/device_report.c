/* What `kvgold bench` says about cases on a device: a line of its table, and an object of its JSON. */
#include <string.h>

#include "harness/bench/device_bench.h"

/* In the order of kvg_bench_series. */
static const char *const series_names[KVG_BENCH_SERIES] = {"cold",  "cold_plain", "graph",      "dirty",
                                                           "dirty_plain", "warm", "warm_plain", "empty"};

/* NVML's reasons for a lower clock, by bit (NVML API reference, nvmlClocksEventReasons). */
static const char *const throttle_names[] = {"idle",  "applications_clocks", "power_cap",   "hardware_slowdown",
                                             "sync_boost", "thermal",        "hardware_thermal", "power_brake",
                                             "display"};

const char *kvg_device_outcome_name(const kvg_device_measurement *m)
{
    if (m->outcome == KVG_DEVICE_TIMED) return "TIMED";
    return m->outcome == KVG_DEVICE_DOES_NOT_FIT ? "DOES_NOT_FIT" : kvg_verdict_name(m->verdict);
}

double kvg_device_rate(const kvg_device_measurement *m, kvg_bench_series series)
{
    const kvg_device_times *t = &m->times[series];
    return t->runs && t->median > 0 ? (double)(m->reads + m->writes) / t->median / 1e3 : 0;
}

double kvg_device_share(const kvg_device_measurement *m, kvg_bench_series op, kvg_bench_series plain)
{
    const kvg_device_times *a = &m->times[op], *b = &m->times[plain];
    return a->runs && b->runs && a->median > 0 ? b->median / a->median : 0;
}

void kvg_device_doubt(const kvg_device_measurement *m, char out[KVG_DEVICE_DOUBT_SIZE])
{
    const kvg_device_times *t = &m->times[KVG_BENCH_COLD];
    out[0] = 0;
    if (!t->runs || !m->info.bytes_per_us || (double)m->reads <= t->median * m->info.bytes_per_us) return;
    snprintf(out, KVG_DEVICE_DOUBT_SIZE, "%llu bytes read in %g us: the memory moves at most %g bytes in a us",
             (unsigned long long)m->reads, t->median, m->info.bytes_per_us);
}

/* --- the table --- */

void kvg_device_print_header(FILE *f)
{
    fprintf(f, "%-96s %9s %6s %6s %6s %9s %9s %6s %5s  %s\n", "case", "cold us", "spread", "GB/s", "plain", "graph us",
            "warm us", "warm", "MHz", "checked");
}

static void print_untimed(const kvg_device_measurement *m, FILE *f)
{
    if (m->outcome == KVG_DEVICE_DOES_NOT_FIT) {
        fprintf(f, "  DOES_NOT_FIT: needs %.1f of %.1f GB; largest batch that fits: %u\n", (double)m->needs / 1e9,
                (double)m->room / 1e9, m->most_sequences);
    } else {
        fprintf(f, "  %s: %s\n", kvg_verdict_name(m->verdict), m->detail);
    }
}

/* Half of the runs lie within `spread` of each other: the distance of the quartiles over the median. */
static double spread(const kvg_device_times *t)
{
    return t->median > 0 ? (t->upper - t->lower) / t->median : 0;
}

void kvg_device_print(const kvg_case *c, const kvg_device_measurement *m, FILE *f)
{
    fprintf(f, "%-96s", c->id);
    if (m->outcome != KVG_DEVICE_TIMED) {
        print_untimed(m, f);
        return;
    }
    const kvg_device_times *t = m->times;
    fprintf(f, " %9.1f %5.1f%% %6.0f %5.1f%%", t[KVG_BENCH_COLD].median, 100 * spread(&t[KVG_BENCH_COLD]),
            kvg_device_rate(m, KVG_BENCH_COLD), 100 * kvg_device_share(m, KVG_BENCH_COLD, KVG_BENCH_COLD_PLAIN));
    if (t[KVG_BENCH_WARM].runs) {
        fprintf(f, " %9.1f %9.1f %5.1f%%", t[KVG_BENCH_GRAPH].median, t[KVG_BENCH_WARM].median,
                100 * kvg_device_share(m, KVG_BENCH_WARM, KVG_BENCH_WARM_PLAIN));
    } else {
        fprintf(f, " %9s %9s %6s", "-", "-", "-");
    }
    char doubt[KVG_DEVICE_DOUBT_SIZE];
    kvg_device_doubt(m, doubt);
    fprintf(f, " %5.0f  %llu B%s%s%s%s\n", m->clock.mhz, (unsigned long long)m->checked, m->profile ? " " : "",
            m->profile ? kvg_profile_get(m->profile)->name : "", doubt[0] ? "  SUSPECT: " : "", doubt);
}

/* --- JSON --- */

static void add_number(cJSON *to, const char *name, double value)
{
    cJSON_AddNumberToObject(to, name, value);
}

void kvg_device_add_times(cJSON *to, const kvg_device_times *t, const char *name)
{
    if (t->runs == 0) return;
    cJSON *item = cJSON_AddObjectToObject(to, name);
    add_number(item, "runs", t->runs);
    add_number(item, "median_us", t->median);
    add_number(item, "lower_quartile_us", t->lower);
    add_number(item, "upper_quartile_us", t->upper);
    add_number(item, "fastest_us", t->least);
    add_number(item, "slowest_us", t->most);
}

void kvg_device_add_clock(cJSON *to, const kvg_bench_clock *clock)
{
    if (clock->mhz > 0) add_number(to, "sm_mhz", clock->mhz);
    else cJSON_AddStringToObject(to, "sm_mhz", "unknown");
    if (!clock->driver_knows) {
        cJSON_AddStringToObject(to, "throttle", "unknown");
        return;
    }
    add_number(to, "driver_sm_mhz", clock->driver_mhz);
    add_number(to, "power_w", clock->power_mw / 1e3);
    cJSON *reasons = cJSON_AddArrayToObject(to, "throttle");
    for (size_t i = 0; i < sizeof throttle_names / sizeof throttle_names[0]; i++) {
        if (clock->throttle >> i & 1) cJSON_AddItemToArray(reasons, cJSON_CreateString(throttle_names[i]));
    }
}

static void add_shape(cJSON *to, const kvg_case *c)
{
    const kvg_problem *p = &c->problem;
    const kvg_format k = p->storage[KVG_K].format, v = p->storage[KVG_V].format;
    char format[64];
    if (k == v) snprintf(format, sizeof format, "%s", kvg_format_get(k)->name);
    else snprintf(format, sizeof format, "%s+%s", kvg_format_get(k)->name, kvg_format_get(v)->name);
    cJSON_AddStringToObject(to, "op", kvg_op_get(p->op)->name);
    cJSON_AddStringToObject(to, "format", format);
    cJSON_AddStringToObject(to, "layout", kvg_problem_layout_name(p));
    cJSON_AddStringToObject(to, "dtype", kvg_dtype_name(p->dtype));
    add_number(to, "batch", p->paging.sequences);
    add_number(to, "tokens", p->tokens);
    add_number(to, "block_tokens", p->paging.block_tokens);
    add_number(to, "kv_heads", p->kv_heads);
    add_number(to, "head_dim", p->head_dim);
    if (p->op != KVG_OP_DECODE) return;
    add_number(to, "query_heads", p->attention.query_heads);
    add_number(to, "queries", c->queries);
    add_number(to, "window", p->attention.window);
    cJSON_AddBoolToObject(to, "sinks", p->attention.sinks);
}

cJSON *kvg_device_json(const kvg_case *c, const kvg_device_measurement *m)
{
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "id", c->id);
    cJSON_AddStringToObject(item, "backend", c->backend);
    cJSON_AddStringToObject(item, "gpu", m->info.name);
    add_number(item, "sm", m->info.sm);
    cJSON_AddStringToObject(item, "status", kvg_device_outcome_name(m));
    add_shape(item, c);
    add_number(item, "seconds", m->seconds);
    if (m->detail[0]) cJSON_AddStringToObject(item, "detail", m->detail);
    if (m->outcome == KVG_DEVICE_DOES_NOT_FIT) {
        add_number(item, "needs_bytes", (double)m->needs);
        add_number(item, "room_bytes", (double)m->room);
        add_number(item, "largest_batch", m->most_sequences);
    }
    if (m->outcome != KVG_DEVICE_TIMED) return item;
    char doubt[KVG_DEVICE_DOUBT_SIZE];
    kvg_device_doubt(m, doubt);
    if (doubt[0]) cJSON_AddStringToObject(item, "suspect", doubt);
    if (m->profile) cJSON_AddStringToObject(item, "profile", kvg_profile_get(m->profile)->name);
    add_number(item, "bytes_read", (double)m->reads);
    add_number(item, "bytes_written", (double)m->writes);
    add_number(item, "checked_bytes", (double)m->checked);
    add_number(item, "output_bytes", (double)m->outputs);
    for (int i = 0; i < KVG_BENCH_SERIES; i++) kvg_device_add_times(item, &m->times[i], series_names[i]);
    cJSON_AddStringToObject(item, "plain_kernel", m->plain);
    add_number(item, "gb_per_s", kvg_device_rate(m, KVG_BENCH_COLD));
    add_number(item, "plain_gb_per_s", kvg_device_rate(m, KVG_BENCH_COLD_PLAIN));
    add_number(item, "share_of_plain", kvg_device_share(m, KVG_BENCH_COLD, KVG_BENCH_COLD_PLAIN));
    kvg_device_add_clock(item, &m->clock);
    return item;
}
