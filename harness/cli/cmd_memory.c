#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "core/mode.h"
#include "harness/cli/cli.h"
#include "harness/generate/memory.h"
#include "harness/generate/memory_config.h"

static const char help_text[] =
    "usage: kvgold memory MODEL [options]\n"
    "       kvgold memory --require CONFIG\n\n"
    "What the pools of a paged cache weigh, data and scales apart, for every mode and format, against f16 and e4m3:\n"
    "counted as block managers allocate them and checked against the formulas to the byte. The FP32 tensor scales,\n"
    "two per layer, are not counted. MODEL is a name of `kvgold list models` or a .json file.\n\n"
    "      --context N       tokens of a sequence; may be repeated (default 4096, 32768, 131072)\n"
    "      --layout NAME     where the bytes lie (default turbomind)\n"
    "      --block-tokens N  tokens of a block (default 64)\n"
    "      --padding R,D,S   bytes after each row, data page and scale page (layouts nhd, hnd, vllm)\n"
    "      --dtype T         model type, f16 or bf16 (default bf16)\n"
    "      --budget BYTES    also print how many sequences of each context fit\n"
    "      --json            print JSON instead of a table\n"
    "      --require CONFIG  check the savings that a config demands (docs/guide/config.md); exit code 1 on a\n"
    "                        shortfall\n";

enum { MAX_CONTEXTS = 8 };

typedef struct memory_options {
    kvg_memory_plan plan;
    uint64_t contexts[MAX_CONTEXTS], budget;
    size_t context_count;
    bool json;
    const char *require;
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

static double gib(uint64_t bytes)
{
    return (double)bytes / (1024.0 * 1024 * 1024);
}

static void print_head(const kvg_model *m, const memory_options *o)
{
    printf("%s: %u layers with KV, %u KV heads, head_dim %u%s\n", m->title, m->layers, m->kv_heads, m->head_dim,
           m->shared_kv ? ", K and V share one row" : "");
    if (m->other_layers) printf("%u layers hold no KV\n", m->other_layers);
    printf("source: %s\nlayout %s, blocks of %u tokens, model type %s\n\n", m->source,
           kvg_layout_get(o->plan.layout)->name, o->plan.block_tokens, kvg_dtype_name(o->plan.dtype));
    printf("%-8s %-9s | bytes of a block, all layers: %-8s | %11s %7s %7s |", "", "", "", "bytes/token", "saving", "");
    printf(" %s\n", o->budget ? "GiB of data, of scales; sequences that fit, at" : "GiB of data, of scales, at");
    printf("%-8s %-9s | %11s %11s %15s | %11s %7s %7s |", "format", "mode", "data", "scales", "padding of both", "",
           "f16", "e4m3");
    for (size_t c = 0; c < o->context_count; c++) {
        char title[32];
        snprintf(title, sizeof title, "%llu", (unsigned long long)o->contexts[c]);
        printf("  %*s tokens", o->budget ? 14 : 9, title);
    }
    printf("\n");
}

static kvg_status print_format(const kvg_model *m, const memory_options *o, const kvg_format_info *format)
{
    const double f16 = (double)kvg_memory_token_bytes(m, kvg_format_of_codes(KVG_CODES_F16));
    const double e4m3 = (double)kvg_memory_token_bytes(m, kvg_format_of_codes(KVG_CODES_E4M3));
    const uint64_t token = kvg_memory_token_bytes(m, format->format);
    kvg_memory_use use[1 + MAX_CONTEXTS];
    kvg_status s = measure(m, o, format->format, o->plan.block_tokens, &use[0]);
    for (size_t c = 0; c < o->context_count && !s; c++) s = measure(m, o, format->format, o->contexts[c], &use[1 + c]);
    if (s) return s;
    printf("%-8s %-9s | %11llu %11llu %15llu | %11llu %6.3fx %6.3fx |", format->name,
           mode_of(format->format, o->plan.dtype), (unsigned long long)use[0].data, (unsigned long long)use[0].scales,
           (unsigned long long)use[0].padding, (unsigned long long)token, f16 / (double)token, e4m3 / (double)token);
    for (size_t c = 1; c <= o->context_count; c++) {
        printf("  %7.3f %8.4f", gib(use[c].data), gib(use[c].scales));
        if (o->budget) printf(" %4llu", (unsigned long long)(o->budget / (use[c].data + use[c].scales)));
    }
    printf("\n");
    return KVG_OK;
}

static kvg_status print_table(const kvg_model *m, const memory_options *o)
{
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    kvg_memory_use any;
    kvg_status first = KVG_OK; /* what no format can do is refused before anything is printed */
    for (size_t i = 0; i < count && !first; i++) {
        if (kvg_format_check_dim(formats[i].format, m->head_dim)) continue;
        first = measure(m, o, formats[i].format, o->plan.block_tokens, &any);
    }
    if (first) return first;
    print_head(m, o);
    for (size_t i = 0; i < count; i++) {
        if (kvg_format_check_dim(formats[i].format, m->head_dim)) {
            printf("%-8s %s\n", formats[i].name, kvg_error_text());
            continue;
        }
        kvg_status s = print_format(m, o, &formats[i]);
        if (s) return s;
    }
    printf("\nIn every line what block managers allocate equals the pools' sizes and the formulas, to the byte.\n");
    return KVG_OK;
}

static kvg_status add_json_format(const kvg_model *m, const memory_options *o, kvg_format format, cJSON *list)
{
    const uint64_t token = kvg_memory_token_bytes(m, format);
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToArray(list, item);
    cJSON_AddStringToObject(item, "format", kvg_format_get(format)->name);
    cJSON_AddStringToObject(item, "mode", mode_of(format, o->plan.dtype));
    cJSON_AddNumberToObject(item, "bytes_per_token", (double)token);
    cJSON_AddNumberToObject(item, "saving_against_f16",
                            (double)kvg_memory_token_bytes(m, kvg_format_of_codes(KVG_CODES_F16)) / (double)token);
    cJSON_AddNumberToObject(item, "saving_against_e4m3",
                            (double)kvg_memory_token_bytes(m, kvg_format_of_codes(KVG_CODES_E4M3)) / (double)token);
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
    cJSON_AddNumberToObject(root, "layers", m->layers);
    cJSON_AddNumberToObject(root, "other_layers", m->other_layers);
    cJSON_AddNumberToObject(root, "kv_heads", m->kv_heads);
    cJSON_AddNumberToObject(root, "head_dim", m->head_dim);
    cJSON_AddStringToObject(root, "layout", kvg_layout_get(o->plan.layout)->name);
    cJSON_AddNumberToObject(root, "block_tokens", o->plan.block_tokens);
    cJSON *list = cJSON_AddArrayToObject(root, "formats");
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < count && !s; i++) {
        if (kvg_format_check_dim(formats[i].format, m->head_dim) == KVG_OK)
            s = add_json_format(m, o, formats[i].format, list);
    }
    char *text = s ? NULL : cJSON_Print(root);
    cJSON_Delete(root);
    if (s) return s;
    if (!text) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the table");
    puts(text);
    free(text);
    return KVG_OK;
}

/* A decimal number up to `max` at the start of *text; *text moves behind it. */
static bool take_number(const char **text, uint64_t max, uint64_t *out)
{
    const char *start = *text;
    for (*out = 0; **text >= '0' && **text <= '9'; ++*text) {
        const uint64_t digit = (uint64_t)(**text - '0');
        if (*out > (max - digit) / 10) return false;
        *out = 10 * *out + digit;
    }
    return *text > start;
}

static kvg_status read_padding(const char *text, kvg_memory_plan *plan)
{
    uint32_t *const numbers[3] = {&plan->row_padding, &plan->data_padding, &plan->scale_padding};
    const char *at = text;
    for (int i = 0; i < 3; i++) {
        uint64_t number;
        if (!take_number(&at, 1 << 20, &number) || *at != (i < 2 ? ',' : '\0')) {
            return kvg_fail(KVG_ERR_INVALID, "'%s' is not three numbers R,D,S up to %d", text, 1 << 20);
        }
        *numbers[i] = (uint32_t)number;
        at += i < 2;
    }
    return KVG_OK;
}

static kvg_status read_budget(const char *text, uint64_t *out)
{
    const char *at = text;
    if (take_number(&at, UINT64_MAX, out) && *at == 0 && *out > 0) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "'%s' is not a number of bytes from 1 to 2^64 - 1", text);
}

static kvg_status read_dtype(const char *text, kvg_dtype *out)
{
    kvg_status s = kvg_dtype_find(text, out);
    if (s || *out == KVG_DTYPE_F16 || *out == KVG_DTYPE_BF16) return s;
    return kvg_fail(KVG_ERR_INVALID, "model type %s: use f16 or bf16", text);
}

static kvg_status add_context(const char *text, memory_options *o)
{
    unsigned context;
    if (o->context_count == MAX_CONTEXTS) return kvg_fail(KVG_ERR_INVALID, "at most %d contexts", MAX_CONTEXTS);
    kvg_status s = kvg_parse_count(text, 1u << 30, &context);
    if (!s) o->contexts[o->context_count++] = context;
    return s;
}

static kvg_status read_option(int option, memory_options *o)
{
    switch (option) {
    case 'c': return add_context(optarg, o);
    case 'l': return kvg_layout_find(optarg, &o->plan.layout);
    case 'b': return kvg_parse_count(optarg, 1u << 20, &o->plan.block_tokens);
    case 'p': return read_padding(optarg, &o->plan);
    case 't': return read_dtype(optarg, &o->plan.dtype);
    case 'B': return read_budget(optarg, &o->budget);
    case 'r': o->require = optarg; return KVG_OK;
    default: o->json = true; return KVG_OK;
    }
}

static int require(const char *config)
{
    size_t met, count;
    const kvg_status s = kvg_memory_require(config, &met, &count);
    if (s) return kvg_command_fail("memory", s);
    printf("%zu met, %zu not\n", met, count - met);
    return met == count ? KVG_EXIT_PASS : KVG_EXIT_FAIL;
}

int kvg_command_memory(int argc, char **argv)
{
    static const struct option options[] = {
        {"context", required_argument, NULL, 'c'}, {"layout", required_argument, NULL, 'l'},
        {"block-tokens", required_argument, NULL, 'b'}, {"padding", required_argument, NULL, 'p'},
        {"dtype", required_argument, NULL, 't'},   {"budget", required_argument, NULL, 'B'},
        {"require", required_argument, NULL, 'r'}, {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},          {0},
    };
    static const uint64_t default_contexts[] = {4096, 32768, 131072};
    memory_options o = {.plan = {.layout = KVG_LAYOUT_TURBOMIND, .dtype = KVG_DTYPE_BF16, .block_tokens = 64}};
    kvg_status s = KVG_OK;
    for (int option; !s && (option = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
        if (option == '?' || option == ':') return kvg_command_fail("memory", kvg_option_error("memory", option, argv));
        if (option == 'h') {
            fputs(help_text, stdout);
            return KVG_EXIT_PASS;
        }
        s = kvg_option_value(read_option(option, &o), options, option);
    }
    if (s) return kvg_command_fail("memory", s);
    if (optind + (o.require ? 0 : 1) != argc) return kvg_command_usage("memory", "give one model, or --require CONFIG");
    if (o.require && argc > 3) return kvg_command_usage("memory", "--require takes no other option");
    if (o.require) return require(o.require);
    if (o.context_count == 0) {
        memcpy(o.contexts, default_contexts, sizeof default_contexts);
        o.context_count = sizeof default_contexts / sizeof default_contexts[0];
    }
    kvg_model model;
    s = kvg_model_load(NULL, argv[optind], &model);
    if (!s) s = o.json ? print_json(&model, &o) : print_table(&model, &o);
    return s ? kvg_command_fail("memory", s) : KVG_EXIT_PASS;
}
