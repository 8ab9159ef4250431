#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/memory_config.h"
#include "policy/mode.h"
#include "support/json_out.h"
#include "support/shipped.h"

enum { MAX_CONTEXTS = 8 };

typedef struct memory_options {
    kvg_memory_plan plan;
    uint64_t contexts[MAX_CONTEXTS], budget;
    size_t context_count;
    bool json;
} memory_options;

/* The mode that stores K and V in a format, "" if there is none. */
static const char *mode_of(kvg_format format, kvg_dtype dtype)
{
    size_t count;
    const kvg_mode_info *modes = kvg_mode_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (kvg_mode_format(modes[i].mode, dtype) == format) return modes[i].name;
    }
    return "";
}

static kvg_status measure(const kvg_model *m, const memory_options *o, kvg_format format, uint64_t tokens,
                          kvg_memory_use *use)
{
    kvg_memory_plan plan = o->plan;
    plan.format = format;
    return kvg_memory_measure(m, &plan, tokens, use);
}

/* Whether a format fits the rows of every group. */
static kvg_status check_dims(const kvg_model *m, kvg_format format)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < m->group_count && !s; i++) s = kvg_format_check_dim(format, m->groups[i].head_dim);
    return s;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (1024.0 * 1024 * 1024);
}

static const char *layout_of(const kvg_memory_plan *plan)
{
    return plan->text.text ? plan->text.text : kvg_layout_get(plan->layout)->name;
}

static void print_head(const kvg_model *m, const memory_options *o)
{
    printf("%s\n", m->title);
    for (size_t i = 0; i < m->group_count; i++) {
        const kvg_model_group *g = &m->groups[i];
        printf("%u layer%s with KV: %u KV heads, head_dim %u%s", g->layers, g->layers == 1 ? "" : "s", g->kv_heads,
               g->head_dim, g->shared_kv ? ", K and V share one row" : "");
        if (g->window) printf(", a window of %u tokens", g->window);
        printf("\n");
    }
    if (m->other_layers) printf("not counted: the states of %u layers that hold no KV\n", m->other_layers);
    printf("source: %s\nlayout %s, blocks of %u tokens, model type %s\n", m->source,
           layout_of(&o->plan), o->plan.block_tokens, kvg_dtype_name(o->plan.dtype));
}

/* A line for each format. */
static kvg_status print_rows(const kvg_model *m, const memory_options *o, size_t first,
                             kvg_status (*print)(const kvg_model *m, const memory_options *o,
                                                 const kvg_format_info *format, size_t first))
{
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < count && !s; i++) {
        if (check_dims(m, formats[i].format)) {
            printf("%-16s%s\n", formats[i].name, kvg_error_text());
        } else {
            s = print(m, o, &formats[i], first);
        }
    }
    return s;
}

static kvg_status print_block(const kvg_model *m, const memory_options *o, const kvg_format_info *format, size_t first)
{
    (void)first;
    const double f16 = (double)kvg_memory_row_bytes(m, kvg_format_of_codes(KVG_CODES_F16), 1);
    const double e4m3 = (double)kvg_memory_row_bytes(m, kvg_format_of_codes(KVG_CODES_E4M3), 1);
    const uint64_t token = kvg_memory_row_bytes(m, format->format, 1);
    kvg_memory_use use;
    kvg_status s = measure(m, o, format->format, o->plan.block_tokens, &use);
    if (s) return s;
    printf("%-16s%-8s %10" PRIu64 " %8" PRIu64 " %8" PRIu64 " %9" PRIu64 " %6.3fx %6.3fx\n", format->name,
           mode_of(format->format, o->plan.dtype), use.data, use.scales, use.padding, token, f16 / (double)token,
           e4m3 / (double)token);
    return KVG_OK;
}

enum { BESIDE = 3 }; /* contexts */

static size_t end_of(const memory_options *o, size_t first)
{
    return first + BESIDE < o->context_count ? first + BESIDE : o->context_count;
}

static void print_context_head(const memory_options *o, size_t first)
{
    printf("\nGiB of data and of scales%s\n%-16s", o->budget ? ", and how many sequences fit" : "", "at");
    for (size_t c = first; c < end_of(o, first); c++) {
        char title[32];
        snprintf(title, sizeof title, "%" PRIu64 " tokens", o->contexts[c]);
        printf(" %*s", o->budget ? 20 : 15, title);
    }
    printf("\n");
}

static kvg_status print_contexts(const kvg_model *m, const memory_options *o, const kvg_format_info *format,
                                 size_t first)
{
    printf("%-16s", format->name);
    for (size_t c = first; c < end_of(o, first); c++) {
        kvg_memory_use use;
        kvg_status s = measure(m, o, format->format, o->contexts[c], &use);
        if (s) return s;
        printf(" %7.3f %7.4f", gib(use.data), gib(use.scales));
        if (o->budget) printf(" %4" PRIu64, o->budget / (use.data + use.scales));
    }
    printf("\n");
    return KVG_OK;
}

static kvg_status print_table(const kvg_model *m, const memory_options *o)
{
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    kvg_memory_use any;
    kvg_status s = KVG_OK; /* what no format can do is refused before anything is printed */
    for (size_t i = 0; i < count && !s; i++) {
        if (check_dims(m, formats[i].format)) continue;
        s = measure(m, o, formats[i].format, o->plan.block_tokens, &any);
    }
    if (s) return s;
    print_head(m, o);
    printf("\n%-24s bytes of a block, all layers   bytes per  saving over\n", "");
    printf("%-16s%-8s %10s %8s %8s %9s %7s %7s\n", "format", "mode", "data", "scales", "padding", "token", "f16",
           "e4m3");
    s = print_rows(m, o, 0, print_block);
    for (size_t first = 0; first < o->context_count && !s; first += BESIDE) {
        print_context_head(o, first);
        s = print_rows(m, o, first, print_contexts);
    }
    if (!s) printf("\nIn every line block managers allocate what the formulas say, to the byte.\n");
    return s;
}

static kvg_status add_json_format(const kvg_model *m, const memory_options *o, kvg_format format, cJSON *list)
{
    const uint64_t token = kvg_memory_row_bytes(m, format, 1);
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToArray(list, item);
    cJSON_AddStringToObject(item, "format", kvg_format_get(format)->name);
    cJSON_AddStringToObject(item, "mode", mode_of(format, o->plan.dtype));
    cJSON_AddNumberToObject(item, "bytes_per_token", (double)token);
    cJSON_AddNumberToObject(item, "saving_against_f16",
                            (double)kvg_memory_row_bytes(m, kvg_format_of_codes(KVG_CODES_F16), 1) / (double)token);
    cJSON_AddNumberToObject(item, "saving_against_e4m3",
                            (double)kvg_memory_row_bytes(m, kvg_format_of_codes(KVG_CODES_E4M3), 1) / (double)token);
    cJSON *contexts = cJSON_AddArrayToObject(item, "contexts");
    for (size_t c = 0; c < o->context_count; c++) {
        kvg_memory_use use;
        kvg_status s = measure(m, o, format, o->contexts[c], &use);
        if (s) return s;
        cJSON *one = cJSON_CreateObject();
        cJSON_AddNumberToObject(one, "tokens", (double)o->contexts[c]);
        cJSON_AddNumberToObject(one, "blocks", (double)use.blocks);
        cJSON_AddNumberToObject(one, "data_bytes", (double)use.data);
        cJSON_AddNumberToObject(one, "scale_bytes", (double)use.scales);
        cJSON_AddNumberToObject(one, "padding_bytes", (double)use.padding);
        cJSON_AddNumberToObject(one, "tail_bytes", (double)use.tail);
        if (o->budget) cJSON_AddNumberToObject(one, "fit", (double)(o->budget / (use.data + use.scales)));
        cJSON_AddItemToArray(contexts, one);
    }
    return KVG_OK;
}

static kvg_status print_json(const kvg_model *m, const memory_options *o)
{
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "model", m->name);
    cJSON_AddNumberToObject(root, "other_layers", m->other_layers);
    cJSON *groups = cJSON_AddArrayToObject(root, "groups");
    for (size_t i = 0; i < m->group_count; i++) {
        cJSON *group = cJSON_CreateObject();
        cJSON_AddItemToArray(groups, group);
        cJSON_AddNumberToObject(group, "layers", m->groups[i].layers);
        cJSON_AddNumberToObject(group, "window", m->groups[i].window);
        cJSON_AddNumberToObject(group, "kv_heads", m->groups[i].kv_heads);
        cJSON_AddNumberToObject(group, "head_dim", m->groups[i].head_dim);
    }
    cJSON_AddStringToObject(root, "layout", layout_of(&o->plan));
    cJSON_AddNumberToObject(root, "block_tokens", o->plan.block_tokens);
    cJSON *list = cJSON_AddArrayToObject(root, "formats");
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < count && !s; i++) {
        if (check_dims(m, formats[i].format) == KVG_OK)
            s = add_json_format(m, o, formats[i].format, list);
    }
    if (!s) s = kvg_json_put(root, stdout);
    cJSON_Delete(root);
    return s;
}

static int require(const char *config)
{
    size_t met, count;
    char found[PATH_MAX];
    kvg_status s = kvg_shipped_find("configs/memory", ".json", config, found, sizeof found);
    if (!s) s = kvg_memory_require(found, &met, &count);
    if (s) return kvg_command_fail("memory", s);
    printf("%zu met, %zu not\n", met, count - met);
    return met == count ? KVG_EXIT_PASS : KVG_EXIT_FAIL;
}

/* The contexts that are given, or three usual ones. */
static kvg_status take_contexts(const kvg_arguments *a, memory_options *o)
{
    static const uint64_t usual[] = {4096, 32768, 131072};
    for (size_t i = 0; i < a->option_count; i++) {
        if (a->options[i].id != KVG_OPTION_MEMORY_CONTEXT) continue;
        if (o->context_count == MAX_CONTEXTS) {
            return kvg_fail_option(kvg_fail(KVG_ERR_INVALID, "at most %d contexts", MAX_CONTEXTS),
                                   KVG_OPTION_MEMORY_CONTEXT);
        }
        o->contexts[o->context_count++] = a->options[i].numbers[0];
    }
    if (o->context_count) return KVG_OK;
    memcpy(o->contexts, usual, sizeof usual);
    o->context_count = sizeof usual / sizeof usual[0];
    return KVG_OK;
}

int kvg_command_memory(const kvg_arguments *a)
{
    static const kvg_argument none = {.text = NULL};
    const char *config = kvg_given_text(a, KVG_OPTION_MEMORY_REQUIRE, NULL);
    const kvg_argument *given = kvg_given(a, KVG_OPTION_MEMORY_PADDING), *padding = given ? given : &none;
    memory_options o = {
        .plan = {.dtype = (kvg_dtype)kvg_given_number(a, KVG_OPTION_MEMORY_DTYPE, KVG_DTYPE_BF16),
                 .block_tokens = (uint32_t)kvg_given_number(a, KVG_OPTION_MEMORY_BLOCK_TOKENS, 64),
                 .row_padding = (uint32_t)padding->numbers[0],
                 .data_padding = (uint32_t)padding->numbers[1],
                 .scale_padding = (uint32_t)padding->numbers[2]},
        .budget = kvg_given_number(a, KVG_OPTION_MEMORY_BUDGET, 0),
        .json = kvg_given(a, KVG_OPTION_MEMORY_JSON),
    };
    const char *const layout = kvg_given_text(a, KVG_OPTION_MEMORY_LAYOUT, "turbomind");
    kvg_status s = kvg_layout_read(layout, &o.plan.text, &o.plan.layout);
    if (!s) s = take_contexts(a, &o);
    if (s) return kvg_command_fail("memory", s);
    if (a->file_count != (config ? 0 : 1)) return kvg_command_usage("memory", "give one model, or --require CONFIG");
    if (config && a->option_count > 1) return kvg_command_usage("memory", "--require takes no other option");
    if (config) return require(config);
    kvg_model model;
    s = kvg_model_load(NULL, a->files[0], &model);
    if (!s) s = o.json ? print_json(&model, &o) : print_table(&model, &o);
    return s ? kvg_command_fail("memory", s) : KVG_EXIT_PASS;
}
