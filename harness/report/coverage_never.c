/* What the program supports and no implementation was judged for. */
#include <stdio.h>
#include <string.h>

#include "harness/report/coverage_data.h"
#include "reference/reference.h"

/* What a row is searched for; NULL: it may have any. */
typedef struct wanted {
    const char *op, *layout, *profile, *format, *dialect;
} wanted;

static bool is(const char *word, const char *name)
{
    return !word || strcmp(word, name) == 0;
}

/* An implementation was judged: the reference judged itself, and known-wrong answers are none. A dialect is that of K
 * or of V, a format alone that of both. */
static bool is_judged(const kvg_coverage *c, wanted w)
{
    for (size_t i = 0; i < c->row_count; i++) {
        const kvg_result_asked *a = &c->rows[i].first->asked;
        const bool k = is(w.format, a->k_format) && is(w.dialect, a->k_dialect);
        const bool v = is(w.format, a->v_format) && is(w.dialect, a->v_dialect);
        if (strcmp(a->backend, "reference") == 0 || strncmp(a->backend, "defect:", 7) == 0) continue;
        if (is(w.op, a->op) && is(w.layout, a->layout) && is(w.profile, a->profile) && (w.dialect ? k || v : k && v)) {
            return true;
        }
    }
    return false;
}

/* --- layouts --- */

typedef uint64_t layout_set; /* bit i: row i of core/layouts.def */

_Static_assert(KVG_LAYOUT_END <= 64, "a set of layouts has 64 bits");

/* Some problem with the op, this format for K and V, and the layout is one. Its sizes are multiples of what formats
 * and layouts come in; what stores nothing is as wide as the matrix instruction. */
static bool is_supported(const kvg_op_info *op, kvg_format format, const kvg_layout_info *layout)
{
    const bool shared = layout->shared == KVG_SHARED_ALWAYS, f16 = format == kvg_format_of_dtype(KVG_DTYPE_F16);
    kvg_problem p = {
        .op = op->op, .layout = layout->layout, .dtype = f16 ? KVG_DTYPE_F16 : KVG_DTYPE_BF16,
        .storage = {{format, "canonical"}, {format, "canonical"}}, .tokens = 16, .kv_heads = 1,
        .head_dim = kvg_op_stores(op->op) ? 128 : KVG_MMA_K,
    };
    if (layout->paged) {
        p.paging = (kvg_paging){.layers = 1, .blocks = 1, .block_tokens = 16, .sequences = 1, .shared_kv = shared,
                                .v_dim = shared ? 64 : 0};
    }
    if (kvg_roles_index(op->inputs, KVG_ROLE_Q, KVG_K) >= 0) {
        p.attention = (kvg_attention){.query_heads = 1, .queries = 1};
    }
    for (int profile = KVG_PROFILE_NONE; profile < KVG_PROFILE_END; profile++) {
        p.profile = (kvg_profile)profile;
        if (kvg_problem_check(&p) == KVG_OK) return true;
    }
    return false;
}

typedef struct missing {
    layout_set supported, never;
} missing;

static missing find_missing(const kvg_coverage *c, const kvg_op_info *op, const kvg_format_info *format)
{
    size_t count;
    const kvg_layout_info *layouts = kvg_layout_table(&count);
    missing m = {0};
    for (size_t i = 0; i < count; i++) {
        if (!is_supported(op, format->format, &layouts[i])) continue;
        m.supported |= UINT64_C(1) << i;
        const wanted cell = {.op = op->name, .format = format->name, .layout = layouts[i].name};
        if (!is_judged(c, cell)) m.never |= UINT64_C(1) << i;
    }
    return m;
}

static void add_name(cJSON *names, const char *name)
{
    cJSON_AddItemToArray(names, cJSON_CreateString(name));
}

static void add_layouts(layout_set set, cJSON *names)
{
    size_t count;
    const kvg_layout_info *layouts = kvg_layout_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (set >> i & 1) add_name(names, layouts[i].name);
    }
}

/* Adds the group, or its op to the one with the same formats and layouts. */
static void join_group(cJSON *group, cJSON *groups)
{
    static const char *const keys[] = {"formats", "layouts", "every"};
    cJSON *other;
    cJSON_ArrayForEach(other, groups) {
        bool same = true;
        for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
            same &= cJSON_Compare(cJSON_GetObjectItem(group, keys[i]), cJSON_GetObjectItem(other, keys[i]), true);
        }
        if (!same) continue;
        cJSON *op = cJSON_DetachItemFromArray(cJSON_GetObjectItem(group, "ops"), 0);
        cJSON_AddItemToArray(cJSON_GetObjectItem(other, "ops"), op);
        cJSON_Delete(group);
        return;
    }
    cJSON_AddItemToArray(groups, group);
}

/* The formats of an op, those with the same layouts together. */
static void add_op(const kvg_coverage *c, const kvg_op_info *op, cJSON *groups)
{
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    missing all[KVG_FORMAT_END];
    for (size_t i = 0; i < count; i++) all[i] = find_missing(c, op, &formats[i]);
    for (size_t i = 0; i < count; i++) {
        const missing m = all[i];
        if (!m.never) continue;
        cJSON *group = cJSON_CreateObject();
        add_name(cJSON_AddArrayToObject(group, "ops"), op->name);
        cJSON *names = cJSON_AddArrayToObject(group, "formats");
        for (size_t k = i; k < count; k++) {
            if (all[k].never != m.never || all[k].supported != m.supported) continue;
            add_name(names, formats[k].name);
            all[k].never = 0;
        }
        add_layouts(m.never, cJSON_AddArrayToObject(group, "layouts"));
        cJSON_AddBoolToObject(group, "every", m.never == m.supported);
        join_group(group, groups);
    }
}

/* --- dialects and profiles --- */

static void add_dialects(const kvg_coverage *c, const kvg_format_info *format, cJSON *to)
{
    cJSON *group = cJSON_CreateObject();
    cJSON_AddStringToObject(group, "format", format->name);
    cJSON *names = cJSON_AddArrayToObject(group, "dialects");
    for (size_t i = 0; i < kvg_reference_dialect_count(format->format); i++) {
        const char *dialect = kvg_reference_dialect(format->format, i)->name;
        if (!is_judged(c, (wanted){.format = format->name, .dialect = dialect})) add_name(names, dialect);
    }
    if (cJSON_GetArraySize(names)) cJSON_AddItemToArray(to, group);
    else cJSON_Delete(group);
}

cJSON *report_never_judged(const kvg_coverage *c)
{
    size_t count;
    cJSON *never = cJSON_CreateObject(), *layouts = cJSON_AddArrayToObject(never, "layouts");
    const kvg_op_info *ops = kvg_op_table(&count);
    for (size_t i = 0; i < count; i++) add_op(c, &ops[i], layouts);
    cJSON *dialects = cJSON_AddArrayToObject(never, "dialects"), *names = cJSON_AddArrayToObject(never, "profiles");
    const kvg_format_info *formats = kvg_format_table(&count);
    for (size_t i = 0; i < count; i++) add_dialects(c, &formats[i], dialects);
    const kvg_profile_info *profiles = kvg_profile_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (!is_judged(c, (wanted){.profile = profiles[i].name})) add_name(names, profiles[i].name);
    }
    return never;
}

/* --- text --- */

static void print_names(const char *before, const cJSON *names, FILE *out)
{
    const cJSON *name;
    const char *separator = before;
    cJSON_ArrayForEach(name, names) {
        fprintf(out, "%s%s", separator, name->valuestring);
        separator = ", ";
    }
}

void report_print_never_judged(const cJSON *never, FILE *out)
{
    const cJSON *group, *profiles = cJSON_GetObjectItem(never, "profiles");
    fputs("never judged (the reference by itself and known-wrong answers do not count):\n", out);
    cJSON_ArrayForEach(group, cJSON_GetObjectItem(never, "layouts")) {
        print_names("  ", cJSON_GetObjectItem(group, "ops"), out);
        print_names(" of ", cJSON_GetObjectItem(group, "formats"), out);
        if (cJSON_IsTrue(cJSON_GetObjectItem(group, "every"))) fputs(": every layout", out);
        else print_names(": layouts ", cJSON_GetObjectItem(group, "layouts"), out);
        putc('\n', out);
    }
    cJSON_ArrayForEach(group, cJSON_GetObjectItem(never, "dialects")) {
        fprintf(out, "  dialects of %s", cJSON_GetStringValue(cJSON_GetObjectItem(group, "format")));
        print_names(": ", cJSON_GetObjectItem(group, "dialects"), out);
        putc('\n', out);
    }
    print_names("  profiles: ", profiles, out);
    if (cJSON_GetArraySize(profiles)) putc('\n', out);
}
