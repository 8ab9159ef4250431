#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli/cli.h"
#include "policy/mode.h"
#include "harness/config/model.h"
#include "support/json_out.h"

/* The columns: their keys in JSON, their headings on two lines. */
static const struct {
    const char *key, *first, *second;
} columns[KVG_POLICY_COLUMNS] = {
    {"fp4_mx_chip", "fp4_mx", "chip"},
    {"fp4_nv_chip", "fp4_nv", "chip"},
    {"fp4_nv_chip_held", "fp4_nv", "chip, held"},
    {"other_chip", "other", "chip"},
    {"no_fp4_build", "no FP4", "build"},
};

/* --- the tables --- */

static void print_chips(kvg_policy_column column)
{
    size_t count;
    const kvg_sm *sms = kvg_sm_table(&count);
    printf("%s %s: SM", columns[column].first, columns[column].second);
    for (size_t i = 0; i < count; i++) {
        if (sms[i].column == column) printf(" %u", sms[i].sm);
    }
    printf("\n");
}

static void print_policies(void)
{
    size_t count;
    const kvg_policy *policies = kvg_policy_table(&count);
    for (size_t i = 0; i < count; i++) {
        const kvg_policy *p = &policies[i];
        char number[16];
        if (i == 0 || p->domain != p[-1].domain) {
            printf("%-19s", "policies of");
            for (int column = 0; column < KVG_POLICY_COLUMNS; column++) printf(" %-11s", columns[column].first);
            printf("\n%-19s", kvg_policy_domain_name(p->domain));
            for (int column = 0; column < KVG_POLICY_COLUMNS; column++) printf(" %-11s", columns[column].second);
            printf("\n");
        }
        snprintf(number, sizeof number, p->domain == KVG_POLICY_TURBOMIND ? "0x%02x" : "%u", p->number);
        printf("  %-5s%-12s", number, p->name);
        for (int column = 0; column < KVG_POLICY_COLUMNS; column++) printf(" %-11s", kvg_mode_name(p->modes[column]));
        printf("\n");
    }
    printf("\n");
    print_chips(KVG_POLICY_FP4_MX_CHIP);
    print_chips(KVG_POLICY_FP4_NV_CHIP);
    printf("chip, held: the same chips, but fp4_nv is not rolled out: a fallback is reported\n"
           "%s: refused, or an unquantised cache with --on-unsupported fallback\n\n",
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
            cJSON_AddStringToObject(row, columns[column].key, kvg_mode_name(policies[i].modes[column]));
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
    const kvg_status s = kvg_json_put(root, stdout);
    cJSON_Delete(root);
    return s;
}

/* --- the command line --- */

static kvg_status parse_model(const char *name, kvg_mode_request *r)
{
    kvg_model m;
    kvg_model_group whole;
    kvg_status s = kvg_model_load(NULL, name, &m);
    if (!s) s = kvg_model_whole(&m, &whole);
    if (s) return s;
    r->layers = whole.layers;
    r->kv_heads = whole.kv_heads;
    r->head_dim = whole.head_dim;
    r->shared_kv = whole.shared_kv;
    return KVG_OK;
}

typedef struct options {
    kvg_mode_request request;
    bool one; /* --policy is given */
    bool json;
} options;

/* Options that mean something without --policy. */
static bool is_of_tables(kvg_option_id id)
{
    static const kvg_option_id ids[] = {
        KVG_OPTION_MODE_POLICY, KVG_OPTION_MODE_MODEL, KVG_OPTION_MODE_LAYERS, KVG_OPTION_MODE_KV_HEADS,
        KVG_OPTION_MODE_HEAD_DIM, KVG_OPTION_MODE_BLOCK_TOKENS, KVG_OPTION_MODE_DTYPE, KVG_OPTION_MODE_JSON,
    };
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (ids[i] == id) return true;
    }
    return false;
}

/* The geometry: of a model and of single sizes, in the order in which they are given. */
static kvg_status take_geometry(const kvg_arguments *a, kvg_mode_request *r)
{
    const struct size {
        kvg_option_id id;
        uint32_t *size;
    } sizes[] = {
        {KVG_OPTION_MODE_LAYERS, &r->layers}, {KVG_OPTION_MODE_KV_HEADS, &r->kv_heads},
        {KVG_OPTION_MODE_HEAD_DIM, &r->head_dim}, {KVG_OPTION_MODE_BLOCK_TOKENS, &r->block_tokens},
    };
    kvg_status s = KVG_OK;
    for (size_t i = 0; !s && i < a->option_count; i++) {
        const kvg_argument *given = &a->options[i];
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            if (sizes[k].id == given->id) *sizes[k].size = (uint32_t)given->numbers[0];
        }
        if (given->id == KVG_OPTION_MODE_MODEL) s = kvg_fail_option(parse_model(given->text, r), given->id);
    }
    return s;
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

int kvg_command_mode(const kvg_arguments *a)
{
    options o = {
        .request = {.policy = (uint32_t)kvg_given_number(a, KVG_OPTION_MODE_POLICY, 0),
                    .domain = (kvg_policy_domain)kvg_given_number(a, KVG_OPTION_MODE_DOMAIN, KVG_POLICY_TURBOMIND),
                    .sm = (uint32_t)kvg_given_number(a, KVG_OPTION_MODE_SM, 0),
                    .fp4_build = !kvg_given(a, KVG_OPTION_MODE_NO_FP4_BUILD),
                    .fp4_nv_enabled = !kvg_given(a, KVG_OPTION_MODE_NO_FP4_NV),
                    .fall_back = kvg_given_number(a, KVG_OPTION_MODE_ON_UNSUPPORTED, 0),
                    .design_gating = kvg_given_number(a, KVG_OPTION_MODE_GATING, 0),
                    .partial_kv = kvg_given(a, KVG_OPTION_MODE_PARTIAL_KV),
                    .has_flatten = !kvg_given(a, KVG_OPTION_MODE_NO_FLATTEN),
                    .prefix_cache = kvg_given(a, KVG_OPTION_MODE_PREFIX_CACHE),
                    .engine_kernels = kvg_given(a, KVG_OPTION_MODE_ENGINE_KERNELS),
                    .kernel_block = (uint32_t)kvg_given_number(a, KVG_OPTION_MODE_KERNEL_BLOCK, 0),
                    .dtype = (kvg_dtype)kvg_given_number(a, KVG_OPTION_MODE_DTYPE, KVG_DTYPE_BF16),
                    .layers = 32, .kv_heads = 8, .head_dim = 128, .block_tokens = 64},
        .one = kvg_given(a, KVG_OPTION_MODE_POLICY),
        .json = kvg_given(a, KVG_OPTION_MODE_JSON),
    };
    bool only_one = false;
    kvg_status s = take_geometry(a, &o.request);
    if (s) return kvg_command_fail("mode", s);
    if (a->file_count) return kvg_command_usage("mode", "'%s' is not an option", a->files[0]);
    for (size_t i = 0; i < a->option_count; i++) only_one |= !is_of_tables(a->options[i].id);
    if (only_one && !o.one) return kvg_command_usage("mode", "these options need --policy");
    s = run(&o);
    return s ? kvg_command_fail("mode", s) : KVG_EXIT_PASS;
}
