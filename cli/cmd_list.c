#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "core/name.h"
#include "harness/config/config.h"
#include "harness/config/model.h"
#include "harness/run/capabilities.h"
#include "harness/trial/judge/far_pools.h"
#include "harness/trial/judge/relations.h"
#include "harness/trial/judge/witnesses.h"
#include "harness/trial/wrong/defects.h"
#include "model/guest/generate_guest.h"
#include "paging/pool/pool_defects.h"
#include "support/shipped.h"

static kvg_status list_formats(void)
{
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    printf("%-8s %5s %6s %12s %11s %13s  %s\n", "format", "bits", "block", "block scale", "row params", "tensor scale",
           "");
    for (size_t i = 0; i < count; i++) {
        const kvg_format_info *f = &formats[i];
        printf("%-8s %5u %6u %10u B %9u B %13s  %s\n", f->name, f->element_bits, f->block, f->block_scale_bytes,
               f->row_param_bytes, f->tensor_scale ? "f32" : "-", f->summary);
    }
    return KVG_OK;
}

static kvg_status list_dialects(void)
{
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    printf("%-8s %-18s %-8s %s\n", "format", "dialect", "compare", "");
    for (size_t i = 0; i < count; i++) {
        for (size_t d = 0; d < kvg_reference_dialect_count(formats[i].format); d++) {
            const kvg_dialect *dialect = kvg_reference_dialect(formats[i].format, d);
            printf("%-8s %-18s %-8s %s\n", formats[i].name, dialect->name,
                   dialect->compare == KVG_DIALECT_BITS ? "bits" : "value", dialect->source);
        }
    }
    return KVG_OK;
}

static kvg_status list_ops(void)
{
    size_t count;
    const kvg_op_info *ops = kvg_op_table(&count);
    for (size_t i = 0; i < count; i++) printf("%-12s %s\n", ops[i].name, ops[i].summary);
    return KVG_OK;
}

static kvg_status list_layouts(void)
{
    size_t count;
    const kvg_layout_info *layouts = kvg_layout_table(&count);
    for (size_t i = 0; i < count; i++) printf("%-12s %s\n", layouts[i].name, layouts[i].summary);
    return KVG_OK;
}

static kvg_status list_profiles(void)
{
    size_t count;
    const kvg_profile_info *profiles = kvg_profile_table(&count);
    printf("%-28s the exact answer, rounded once (op decode)\n", "exact");
    for (size_t i = 0; i < count; i++) printf("%-28s %s\n", profiles[i].name, profiles[i].summary);
    return KVG_OK;
}

static kvg_status list_fills(void)
{
    for (int i = 0; kvg_fill_names[i]; i++) printf("%s\n", kvg_fill_names[i]);
    return KVG_OK;
}

static kvg_status list_defects(void)
{
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    printf("%-22s %-8s %s\n", "defect", "control", "what it does (where it was seen)");
    for (size_t i = 0; i < count; i++) {
        printf("%-22s %-8s %s%s%s%s\n", defects[i].id, defects[i].control ? "yes" : "", defects[i].summary,
               defects[i].seen_in[0] ? " (" : "", defects[i].seen_in, defects[i].seen_in[0] ? ")" : "");
    }
    const kvg_pool_defect *managers = kvg_pool_defect_table(&count);
    for (size_t i = 0; i < count; i++) {
        printf("%-22s %-8s %s%s%s%s\n", managers[i].id, "pool", managers[i].summary, managers[i].seen_in[0] ? " (" : "",
               managers[i].seen_in, managers[i].seen_in[0] ? ")" : "");
    }
    return KVG_OK;
}

static kvg_status list_witnesses(void)
{
    size_t count;
    const kvg_witness *rows = kvg_witness_table(&count);
    printf("%-16s %s\n", "axis", "one of these defects must be rejected");
    for (size_t row = 0; row < count; row++) {
        printf("%-16s ", rows[row].axis);
        for (size_t i = 0; i < KVG_WITNESSES_OF_ROW && rows[row].defects[i]; i++)
            printf("%s%s", i ? ", " : "", rows[row].defects[i]);
        printf("\n");
    }
    return KVG_OK;
}

static kvg_status list_relations(void)
{
    for (size_t i = 0; i < KVG_RELATIONS; i++) {
        printf("%-12s %s\n", kvg_relation_id(kvg_relation_get(i)), kvg_relation_summary(kvg_relation_get(i)));
    }
    printf("%-12s %s\n", KVG_FAR_ID, KVG_FAR_SUMMARY);
    return KVG_OK;
}

static kvg_status list_models(void)
{
    char folder[PATH_MAX], names[64][64];
    size_t count = 0;
    kvg_status s = kvg_model_folder(folder, sizeof folder);
    if (!s) s = kvg_model_names(folder, names, 64, &count);
    for (size_t i = 0; !s && i < count; i++) {
        kvg_model m;
        s = kvg_model_load(folder, names[i], &m);
        if (s) break;
        kvg_model_group whole;
        const char *others = kvg_model_whole(&m, &whole) ? ", and others" : "";
        printf("%-18s %3u layers, %3u query heads, %2u KV heads, head_dim %3u%s  %s\n", m.name, whole.layers,
               m.query_heads, whole.kv_heads, whole.head_dim, others, m.title);
    }
    return s;
}

/* Every name that the word CONFIG may be: schemas are none. */
static void print_config_name(const char *name, void *context)
{
    (void)context;
    if (!strstr(name, "schema")) puts(name);
}

static void print_name(const char *name, void *context)
{
    (void)context;
    puts(name);
}

static kvg_status list_configs(void)
{
    return kvg_shipped_each("configs", ".json", print_config_name, NULL);
}

static kvg_status list_packs(void)
{
    return kvg_shipped_each("golden/data/packs", "", print_name, NULL);
}

/* Prints what was written, if it was, and frees it. */
static kvg_status print_text(kvg_status s, kvg_json_text *text)
{
    if (!s) fputs(text->text, stdout);
    kvg_json_text_free(text);
    return s;
}

static kvg_status list_axes(void)
{
    kvg_json_text text = {0};
    return print_text(kvg_config_page(&kvg_generate_guest, &text), &text);
}

static kvg_status list_schema(void)
{
    kvg_json_text text = {0};
    return print_text(kvg_config_schema(&kvg_generate_guest, &text), &text);
}

static kvg_status list_capabilities(void)
{
    kvg_json_text text = {0};
    return print_text(kvg_capabilities_schema(&text), &text);
}

static const struct {
    const char *name;
    kvg_status (*print)(void);
    bool asked; /* printed only where it is asked for */
} lists[] = {{"formats", list_formats, false},     {"dialects", list_dialects, false},
             {"ops", list_ops, false},             {"layouts", list_layouts, false},
             {"profiles", list_profiles, false},   {"fills", list_fills, false},
             {"relations", list_relations, false}, {"defects", list_defects, false},
             {"witnesses", list_witnesses, false}, {"models", list_models, false},
             {"configs", list_configs, true},      {"packs", list_packs, true},
             {"axes", list_axes, true},            {"schema", list_schema, true},
             {"capabilities", list_capabilities, true}};
enum { LIST_COUNT = sizeof lists / sizeof lists[0] };

static int list_config(const char *path)
{
    kvg_config config;
    char found[PATH_MAX];
    kvg_status s = kvg_shipped_find("configs", ".json", path, found, sizeof found);
    if (!s) s = kvg_config_open(found, NULL, &kvg_generate_guest, &config);
    else if (!strchr(path, '.') && !strstr(kvg_error_text(), "(did you mean")) {
        s = kvg_name_fail("list", path, &lists[0].name, sizeof lists[0], LIST_COUNT);
    }
    if (s) return kvg_command_fail("list", s);
    for (size_t i = 0; i < config.case_count; i++) printf("%s\n", config.cases[i].id);
    kvg_config_close(&config);
    return KVG_EXIT_PASS;
}

static int print_list(const kvg_arguments *a)
{
    const char *wanted = a->file_count ? a->files[0] : NULL;
    if (a->file_count > 1) return kvg_command_usage("list", "give at most one argument");
    for (size_t i = 0; i < LIST_COUNT; i++) {
        if (wanted && strcmp(wanted, lists[i].name) != 0) continue;
        if (!wanted && lists[i].asked) continue;
        if (!wanted) printf("%s%s:\n", i ? "\n" : "", lists[i].name);
        kvg_status s = lists[i].print();
        if (s) return kvg_command_fail("list", s);
        if (wanted) return KVG_EXIT_PASS;
    }
    return wanted ? list_config(wanted) : KVG_EXIT_PASS;
}

int kvg_command_list(const kvg_arguments *a)
{
    return kvg_command_lay_out(print_list, a);
}
