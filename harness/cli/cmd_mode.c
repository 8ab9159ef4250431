#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "core/mode.h"
#include "harness/cli/cli.h"
#include "harness/model/model.h"

static const char help_text[] =
    "usage: kvgold mode [options]\n\n"
    "The KV cache mode that a policy number means on a chip, and what a block weighs (docs/spec/modes.md). Without\n"
    "--policy: the whole selection table and every mode's block. Exit code 2 with the reason where the mode cannot\n"
    "be had.\n\n"
    "      --policy N           policy number, decimal or 0x...\n"
    "      --domain D           who wrote it: turbomind (bits, default) or lmdeploy_2026 (numbers)\n"
    "      --sm N               chip: 89, 90, 100, ... (default 0: unknown)\n"
    "      --no-fp4-build       the build has no FP4\n"
    "      --no-fp4-nv          fp4_nv is not rolled out\n"
    "      --on-unsupported A   fail (default) or fallback: an unquantised cache\n"
    "      --gating G           kvgold (default) or design: the source designs' bans\n"
    "      --partial-kv         speculative decoding on a flattened part of the cache is wanted\n"
    "      --no-flatten         the implementation cannot flatten the mode's format\n"
    "      --prefix-cache       a prefix cache is wanted\n"
    "      --engine-kernels     TurboMind's compiled kernels must be able to do it\n"
    "      --model NAME         layers, heads and head_dim of a model of `kvgold list models`, or of a .json file\n"
    "      --layers N, --kv-heads N, --head-dim N, --block-tokens N\n"
    "                           geometry (default 32, 8, 128, 64)\n"
    "      --kernel-block N     block_tokens must be a multiple of it\n"
    "      --dtype T            model type: bf16 (default) or f16\n"
    "      --json               print JSON\n";

static const char *const column_names[KVG_POLICY_COLUMNS] = {"fp4_mx_chip", "fp4_nv_chip", "fp4_nv_chip_held",
                                                             "other_chip", "no_fp4_build"};

static void policy_text(const kvg_policy *p, char *text, size_t size)
{
    snprintf(text, size, p->domain == KVG_POLICY_TURBOMIND ? "0x%02x" : "%u", p->number);
}

/* --- the tables --- */

static void print_chips(kvg_policy_column column)
{
    size_t count;
    const kvg_sm *sms = kvg_sm_table(&count);
    printf("  %-17s SM", column_names[column]);
    for (size_t i = 0; i < count; i++) {
        if (sms[i].column == column) printf(" %u", sms[i].sm);
    }
    printf("\n");
}

static void print_policies(void)
{
    size_t count;
    const kvg_policy *policies = kvg_policy_table(&count);
    printf("%-14s %-6s %-12s", "domain", "policy", "");
    for (int column = 0; column < KVG_POLICY_COLUMNS; column++) printf(" %-16s", column_names[column]);
    printf("\n");
    for (size_t i = 0; i < count; i++) {
        char number[16];
        policy_text(&policies[i], number, sizeof number);
        printf("%-14s %-6s %-12s", kvg_policy_domain_name(policies[i].domain), number, policies[i].name);
        for (int column = 0; column < KVG_POLICY_COLUMNS; column++) {
            printf(" %-16s", kvg_mode_name(policies[i].modes[column]));
        }
        printf("\n");
    }
    print_chips(KVG_POLICY_FP4_MX_CHIP);
    print_chips(KVG_POLICY_FP4_NV_CHIP);
    printf("  %-17s the same, fp4_nv not rolled out: reported as a fallback\n", column_names[KVG_POLICY_FP4_NV_HELD]);
    printf("  %-17s refused, or an unquantised cache with --on-unsupported fallback\n\n",
           kvg_mode_name(KVG_MODE_UNSUPPORTED));
}

static void print_modes(kvg_dtype dtype, const kvg_block_geometry *g)
{
    size_t count;
    const kvg_mode_info *modes = kvg_mode_table(&count);
    printf("block of %u layers, %u KV heads, head_dim %u, %u tokens%s, model type %s\n", g->layers, g->kv_heads,
           g->head_dim, g->block_tokens, g->shared_kv ? ", K and V share one row" : "", kvg_dtype_name(dtype));
    printf("%-9s %-6s %6s %6s %14s %14s\n", "mode", "format", "q_bits", "t_bits", "data bytes", "scale bytes");
    for (size_t i = 0; i < count; i++) {
        const kvg_mode mode = modes[i].mode;
        uint64_t data, scale;
        if (kvg_mode_block_bytes(mode, dtype, g, &data, &scale)) {
            printf("%-9s %s\n", modes[i].name, kvg_error_text());
            continue;
        }
        printf("%-9s %-6s %6u %6u %14" PRIu64 " %14" PRIu64 "\n", modes[i].name,
               kvg_format_get(kvg_mode_format(mode, dtype))->name, kvg_mode_q_bits(mode, dtype),
               kvg_mode_t_bits(mode, dtype), data, scale);
    }
}

/* Exact beyond 2^53, where a double is not. */
static void add_u64(cJSON *object, const char *key, uint64_t value)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value);
    cJSON_AddRawToObject(object, key, digits);
}

static cJSON *policies_json(void)
{
    size_t count, sm_count;
    const kvg_policy *policies = kvg_policy_table(&count);
    const kvg_sm *sms = kvg_sm_table(&sm_count);
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < count; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "domain", kvg_policy_domain_name(policies[i].domain));
        cJSON_AddNumberToObject(row, "policy", policies[i].number);
        cJSON_AddStringToObject(row, "name", policies[i].name);
        for (int column = 0; column < KVG_POLICY_COLUMNS; column++) {
            cJSON_AddStringToObject(row, column_names[column], kvg_mode_name(policies[i].modes[column]));
        }
        cJSON *chips = cJSON_AddObjectToObject(row, "sm");
        for (size_t k = 0; k < sm_count; k++) {
            char sm[16];
            snprintf(sm, sizeof sm, "%u", sms[k].sm);
            cJSON_AddStringToObject(chips, sm, kvg_mode_name(policies[i].modes[sms[k].column]));
        }
        cJSON_AddItemToArray(list, row);
    }
    return list;
}

static cJSON *modes_json(kvg_dtype dtype, const kvg_block_geometry *g)
{
    size_t count;
    const kvg_mode_info *modes = kvg_mode_table(&count);
    cJSON *list = cJSON_CreateArray();
    for (size_t i = 0; i < count; i++) {
        const kvg_mode mode = modes[i].mode;
        cJSON *row = cJSON_CreateObject();
        uint64_t data, scale;
        cJSON_AddStringToObject(row, "mode", modes[i].name);
        cJSON_AddNumberToObject(row, "id", mode);
        cJSON_AddStringToObject(row, "format", kvg_format_get(kvg_mode_format(mode, dtype))->name);
        cJSON_AddBoolToObject(row, "turbomind", modes[i].turbomind);
        cJSON_AddNumberToObject(row, "q_bits", kvg_mode_q_bits(mode, dtype));
        cJSON_AddNumberToObject(row, "t_bits", kvg_mode_t_bits(mode, dtype));
        cJSON_AddBoolToObject(row, "scale_pool", kvg_mode_scale_pool(mode));
        if (kvg_mode_block_bytes(mode, dtype, g, &data, &scale)) {
            cJSON_AddStringToObject(row, "refused", kvg_error_text());
        } else {
            add_u64(row, "data_block_bytes", data);
            add_u64(row, "scale_block_bytes", scale);
        }
        cJSON_AddItemToArray(list, row);
    }
    return list;
}

/* --- one choice --- */

static const char *on_off(bool wanted, bool on, const char *reason)
{
    return !wanted ? "not wanted" : on ? "on" : reason;
}

static void print_choice(const kvg_mode_request *r, const kvg_mode_choice *c)
{
    printf("requested      %s\n", kvg_mode_name(c->requested));
    printf("effective      %s\n", kvg_mode_name(c->effective));
    if (c->fell_back) printf("FELL BACK      %s\n", c->reason);
    printf("stored as      %s, q_bits %u, t_bits %u%s\n", kvg_format_get(c->format)->name, c->q_bits, c->t_bits,
           c->shared_kv ? ", K and V share one row" : "");
    printf("block          %" PRIu64 " bytes of data, %" PRIu64 " of scales\n", c->data_block_bytes,
           c->scale_block_bytes);
    printf("partial KV     %s\n", on_off(r->partial_kv, c->partial_kv, c->partial_kv_reason));
    printf("prefix cache   %s\n", on_off(r->prefix_cache, c->prefix_cache, c->prefix_cache_reason));
}

static cJSON *choice_json(const kvg_mode_choice *c)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "requested", kvg_mode_name(c->requested));
    cJSON_AddStringToObject(root, "effective", kvg_mode_name(c->effective));
    cJSON_AddNumberToObject(root, "effective_id", c->effective);
    cJSON_AddBoolToObject(root, "fell_back", c->fell_back);
    cJSON_AddStringToObject(root, "reason", c->reason);
    cJSON_AddStringToObject(root, "format", kvg_format_get(c->format)->name);
    cJSON_AddNumberToObject(root, "q_bits", c->q_bits);
    cJSON_AddNumberToObject(root, "t_bits", c->t_bits);
    cJSON_AddBoolToObject(root, "shared_kv", c->shared_kv);
    add_u64(root, "data_block_bytes", c->data_block_bytes);
    add_u64(root, "scale_block_bytes", c->scale_block_bytes);
    cJSON_AddBoolToObject(root, "partial_kv", c->partial_kv);
    cJSON_AddStringToObject(root, "partial_kv_reason", c->partial_kv_reason);
    cJSON_AddBoolToObject(root, "prefix_cache", c->prefix_cache);
    cJSON_AddStringToObject(root, "prefix_cache_reason", c->prefix_cache_reason);
    return root;
}

static kvg_status print_json(cJSON *root)
{
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    if (!text) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the output");
    puts(text);
    free(text);
    return KVG_OK;
}

/* --- the command line --- */

static kvg_status parse_number(const char *text, uint32_t *out)
{
    char *end;
    errno = 0;
    const unsigned long value = strtoul(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
    if (text[0] < '0' || text[0] > '9' || *end != 0 || errno || value > UINT32_MAX) {
        return kvg_fail(KVG_ERR_INVALID, "'%s' is not a number from 0 to 4294967295, decimal or 0x...", text);
    }
    *out = (uint32_t)value;
    return KVG_OK;
}

/* *out: whether `text` is the second of two words. */
static kvg_status parse_word(const char *text, const char *no, const char *yes, bool *out)
{
    *out = strcmp(text, yes) == 0;
    if (*out || strcmp(text, no) == 0) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "'%s' is neither %s nor %s", text, no, yes);
}

static kvg_status parse_model(const char *name, kvg_mode_request *r)
{
    kvg_model m;
    kvg_status s = kvg_model_load(NULL, name, &m);
    if (s) return s;
    r->layers = m.layers;
    r->kv_heads = m.kv_heads;
    r->head_dim = m.head_dim;
    r->shared_kv = m.shared_kv;
    return KVG_OK;
}

typedef struct options {
    kvg_mode_request request;
    bool one;      /* --policy is given */
    bool only_one; /* an option is given that means nothing without it */
    bool json;
} options;

static const struct option long_options[] = {
    {"policy", required_argument, NULL, 'p'},       {"domain", required_argument, NULL, 'd'},
    {"sm", required_argument, NULL, 's'},           {"no-fp4-build", no_argument, NULL, 'b'},
    {"no-fp4-nv", no_argument, NULL, 'n'},          {"on-unsupported", required_argument, NULL, 'u'},
    {"gating", required_argument, NULL, 'g'},       {"partial-kv", no_argument, NULL, 'P'},
    {"no-flatten", no_argument, NULL, 'f'},         {"prefix-cache", no_argument, NULL, 'c'},
    {"engine-kernels", no_argument, NULL, 'e'},     {"model", required_argument, NULL, 'm'},
    {"layers", required_argument, NULL, 'L'},       {"kv-heads", required_argument, NULL, 'H'},
    {"head-dim", required_argument, NULL, 'D'},     {"block-tokens", required_argument, NULL, 'B'},
    {"kernel-block", required_argument, NULL, 'k'}, {"dtype", required_argument, NULL, 't'},
    {"json", no_argument, NULL, 'j'},               {"help", no_argument, NULL, 'h'},
    {0},
};

static kvg_status take_option(int option, const char *text, options *o)
{
    kvg_mode_request *r = &o->request;
    if (!strchr("pmLHDBtj", option)) o->only_one = true;
    switch (option) {
    case 'p': o->one = true; return parse_number(text, &r->policy);
    case 'd': return kvg_policy_domain_find(text, &r->domain);
    case 's': return parse_number(text, &r->sm);
    case 'b': r->fp4_build = false; return KVG_OK;
    case 'n': r->fp4_nv_enabled = false; return KVG_OK;
    case 'u': return parse_word(text, "fail", "fallback", &r->fall_back);
    case 'g': return parse_word(text, "kvgold", "design", &r->design_gating);
    case 'P': r->partial_kv = true; return KVG_OK;
    case 'f': r->has_flatten = false; return KVG_OK;
    case 'c': r->prefix_cache = true; return KVG_OK;
    case 'e': r->engine_kernels = true; return KVG_OK;
    case 'm': return parse_model(text, r);
    case 'L': return parse_number(text, &r->layers);
    case 'H': return parse_number(text, &r->kv_heads);
    case 'D': return parse_number(text, &r->head_dim);
    case 'B': return parse_number(text, &r->block_tokens);
    case 'k': return parse_number(text, &r->kernel_block);
    case 't': return kvg_dtype_find(text, &r->dtype);
    default: o->json = true; return KVG_OK;
    }
}

static kvg_status run(const options *o)
{
    const kvg_mode_request *r = &o->request;
    if (o->one) {
        kvg_mode_choice choice;
        kvg_status s = kvg_mode_select(r, &choice);
        if (s) return s;
        if (choice.fell_back) {
            fprintf(stderr, "kvgold mode: FELL BACK to %s: %s\n", kvg_mode_name(choice.effective), choice.reason);
        }
        if (o->json) return print_json(choice_json(&choice));
        print_choice(r, &choice);
        return KVG_OK;
    }
    const bool shared_kv = r->shared_kv || r->head_dim == KVG_MLA_HEAD_DIM;
    const kvg_block_geometry g = {r->layers, r->kv_heads, r->head_dim, r->block_tokens, shared_kv};
    uint64_t data, scale;
    kvg_status s = kvg_mode_block_bytes(KVG_MODE_NONE, r->dtype, &g, &data, &scale);
    if (s) return s;
    if (o->json) {
        cJSON *root = cJSON_CreateObject();
        cJSON_AddItemToObject(root, "policies", policies_json());
        cJSON_AddItemToObject(root, "modes", modes_json(r->dtype, &g));
        return print_json(root);
    }
    print_policies();
    print_modes(r->dtype, &g);
    return KVG_OK;
}

int kvg_command_mode(int argc, char **argv)
{
    options o = {.request = {.domain = KVG_POLICY_TURBOMIND, .fp4_build = true, .fp4_nv_enabled = true,
                             .has_flatten = true, .dtype = KVG_DTYPE_BF16, .layers = 32, .kv_heads = 8, .head_dim = 128,
                             .block_tokens = 64}};
    for (int option; (option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1;) {
        if (option == 'h') {
            fputs(help_text, stdout);
            return KVG_EXIT_PASS;
        }
        if (option == '?' || option == ':') return kvg_command_fail("mode", kvg_option_error("mode", option, argv));
        const kvg_status s = kvg_option_value(take_option(option, optarg, &o), long_options, option);
        if (s) return kvg_command_fail("mode", s);
    }
    if (optind != argc) return kvg_command_usage("mode", "'%s' is not an option", argv[optind]);
    if (o.only_one && !o.one) return kvg_command_usage("mode", "these options need --policy");
    const kvg_status s = run(&o);
    return s ? kvg_command_fail("mode", s) : KVG_EXIT_PASS;
}
