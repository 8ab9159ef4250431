#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "core/format.h"
#include "harness/commands.h"
#include "harness/model.h"

static const char help_text[] =
    "usage: kvgold memory MODEL [options]\n\n"
    "KV bytes per token and per context for every format, from the format table alone (codes, block scales and row\n"
    "parameters; the FP32 tensor scales, two per layer, are not counted), against f16 and e4m3. MODEL is a name of\n"
    "`kvgold list models` or a .json file.\n\n"
    "      --context N   context length in tokens; may be repeated (default 4096, 32768, 131072)\n"
    "      --json        print JSON instead of a table\n";

enum { MAX_CONTEXTS = 8 };

/* Bytes of all layers for one token, K and V. */
static uint64_t token_bytes(const kvg_model *m, kvg_format format)
{
    const uint64_t row = kvg_format_code_bytes(format, m->head_dim) + kvg_format_scale_bytes(format, m->head_dim);
    return row * m->layers * m->kv_heads * (m->shared_kv ? 1 : 2);
}

static void print_table(const kvg_model *m, const uint64_t *contexts, size_t context_count)
{
    const double f16 = (double)token_bytes(m, KVG_FORMAT_F16), e4m3 = (double)token_bytes(m, KVG_FORMAT_E4M3);
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    printf("%s: %u layers, %u KV heads, head_dim %u%s\nsource: %s\n\n", m->title, m->layers, m->kv_heads, m->head_dim,
           m->shared_kv ? ", K and V share one row" : "", m->source);
    printf("%-8s %12s %9s %9s", "format", "bytes/token", "f16 =", "e4m3 =");
    for (size_t c = 0; c < context_count; c++) printf("  %8llu tokens", (unsigned long long)contexts[c]);
    printf("\n");
    for (size_t i = 0; i < count; i++) {
        if (kvg_format_check_dim(formats[i].format, m->head_dim)) {
            printf("%-8s %s\n", formats[i].name, kvg_error_text());
            continue;
        }
        const uint64_t bytes = token_bytes(m, formats[i].format);
        printf("%-8s %12llu %8.3fx %8.3fx", formats[i].name, (unsigned long long)bytes, f16 / (double)bytes,
               e4m3 / (double)bytes);
        for (size_t c = 0; c < context_count; c++) {
            printf("  %11.3f GiB", (double)bytes * (double)contexts[c] / (1024.0 * 1024 * 1024));
        }
        printf("\n");
    }
}

static kvg_status print_json(const kvg_model *m, const uint64_t *contexts, size_t context_count)
{
    const double f16 = (double)token_bytes(m, KVG_FORMAT_F16), e4m3 = (double)token_bytes(m, KVG_FORMAT_E4M3);
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "model", m->name);
    cJSON_AddNumberToObject(root, "layers", m->layers);
    cJSON_AddNumberToObject(root, "kv_heads", m->kv_heads);
    cJSON_AddNumberToObject(root, "head_dim", m->head_dim);
    cJSON *list = cJSON_AddArrayToObject(root, "formats");
    for (size_t i = 0; i < count; i++) {
        if (kvg_format_check_dim(formats[i].format, m->head_dim)) continue;
        const uint64_t bytes = token_bytes(m, formats[i].format);
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "format", formats[i].name);
        cJSON_AddNumberToObject(item, "bytes_per_token", (double)bytes);
        cJSON_AddNumberToObject(item, "saving_against_f16", f16 / (double)bytes);
        cJSON_AddNumberToObject(item, "saving_against_e4m3", e4m3 / (double)bytes);
        cJSON *by_context = cJSON_AddObjectToObject(item, "bytes_per_context");
        for (size_t c = 0; c < context_count; c++) {
            char key[24];
            snprintf(key, sizeof key, "%llu", (unsigned long long)contexts[c]);
            cJSON_AddNumberToObject(by_context, key, (double)bytes * (double)contexts[c]);
        }
        cJSON_AddItemToArray(list, item);
    }
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    if (!text) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the table");
    puts(text);
    free(text);
    return KVG_OK;
}

int kvg_command_memory(int argc, char **argv)
{
    static const struct option options[] = {
        {"context", required_argument, NULL, 'c'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    uint64_t contexts[MAX_CONTEXTS] = {4096, 32768, 131072};
    size_t context_count = 0;
    bool json = false;
    kvg_status s = KVG_OK;
    for (int option; !s && (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        unsigned context;
        switch (option) {
        case 'c':
            s = kvg_parse_count(optarg, 1u << 30, &context);
            if (!s && context_count == MAX_CONTEXTS)
                return kvg_command_usage("memory", "at most %d contexts", MAX_CONTEXTS);
            if (!s) contexts[context_count++] = context;
            break;
        case 'j': json = true; break;
        case 'h': fputs(help_text, stdout); return KVG_EXIT_PASS;
        default: return kvg_command_usage("memory", "unknown option");
        }
    }
    if (s) return kvg_command_fail("memory", s);
    if (optind + 1 != argc) return kvg_command_usage("memory", "give one model");
    kvg_model model;
    s = kvg_model_load(NULL, argv[optind], &model);
    if (context_count == 0) context_count = 3;
    if (!s && json) s = print_json(&model, contexts, context_count);
    else if (!s) print_table(&model, contexts, context_count);
    return s ? kvg_command_fail("memory", s) : KVG_EXIT_PASS;
}
