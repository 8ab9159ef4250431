/* The table of axes: what follows from it for every row, and the names that "all" stands for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "harness/config/config_axes.h"
#include "tests/harness/config/config_of.h"

#define SHAPE "'kv_heads':2,'head_dim':64"
#define DECODE "'op':'decode','layout':'hnd','format':'nvfp4','fill':'random'," SHAPE
#define APPEND "'op':'append','layout':'hnd','format':'nvfp4','fill':'random'," SHAPE
#define QUANTISE "'op':'quantise','fill':'random'," SHAPE
#define ODD "'op':'quantise','fill':'random','kv_heads':1,'head_dim':72"
#define WINDOW "'op':'generate','model':'../golden/data/model','text':'../golden/data/model/heldout.txt'," \
    "'window':64,'windows':1,'bit_windows':1,'calibration':'../golden/data/model/README.md'"

/* The text of a list that holds one group: `group` is the text of its keys. */
static const char *list_of(const char *group)
{
    static char text[4096];
    assert_true(snprintf(text, sizeof text, "{%s}", group) < (int)sizeof text);
    return text;
}

/* Both groups give the same cases in the same order. */
static void expect_same(const char *left, const char *right)
{
    kvg_config a = config_from(list_of(left)), b = config_from(list_of(right));
    if (a.case_count != b.case_count) fail_msg("%s: %zu cases, not %zu", left, a.case_count, b.case_count);
    for (size_t i = 0; i < a.case_count; i++) assert_string_equal(a.cases[i].id, b.cases[i].id);
    kvg_config_close(&a);
    kvg_config_close(&b);
}

static void expect_refused(const char *group, const char *text)
{
    kvg_config config;
    if (config_of(list_of(group), &config) != KVG_ERR_INVALID) fail_msg("%s: not refused", group);
    if (!strstr(kvg_error_text(), text)) fail_msg("%s: '%s' is not in '%s'", group, text, kvg_error_text());
}

/* Names of an axis as a JSON list, but those that `keep` refuses. */
static void list_names(kvg_axis axis, bool (*keep)(const char *name), char *out, size_t size)
{
    const config_words *words = config_words_of(axis);
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; words->at(i); i++) {
        if (keep && !keep(words->at(i))) continue;
        used += (size_t)snprintf(out + used, size - used, "%s'%s'", used ? "," : "", words->at(i));
        assert_true(used < size);
    }
}

/* --- every row --- */

static bool is_plain(const char *fallback)
{
    const bool flag = strcmp(fallback, "true") == 0 || strcmp(fallback, "false") == 0;
    return flag || strspn(fallback, "0123456789.") == strlen(fallback);
}

static void test_a_fallback_is_what_holds_without_it(void **state)
{
    (void)state;
    size_t count = 0;
    for (int a = 0; a < KVG_AXIS_COUNT; a++) {
        const kvg_axis_info *axis = kvg_axis_get((kvg_axis)a);
        const char *base = axis->scope == KVG_SCOPE_APPEND ? APPEND : DECODE;
        char group[512];
        if (!*axis->fallback || strcmp(axis->fallback, "required") == 0) continue;
        if (a == KVG_AXIS_LAYOUT) base = QUANTISE ",'format':'nvfp4'";
        snprintf(group, sizeof group, is_plain(axis->fallback) ? "%s,'%s':%s" : "%s,'%s':'%s'", base, axis->name,
                 axis->fallback);
        kvg_config with = config_from(list_of(group)), without = config_from(list_of(base));
        assert_string_equal(with.cases[0].id, without.cases[0].id);
        assert_int_equal(with.cases[0].relations, without.cases[0].relations);
        kvg_config_close(&with);
        kvg_config_close(&without);
        count++;
    }
    assert_true(count > 0);
}

/* What "exclude" compares is what a config may write there. */
static void test_every_axis_can_be_excluded(void **state)
{
    static const char *const groups[] = {
        APPEND ",'padding':{'row':3},'rope':{'dims':8},'bias':true,'v_scale_swizzle':true",
        "'op':'flatten','layout':'mla','format':'bf16','kv_heads':1,'head_dim':64,'shared_kv':{'v_dim':8},"
        "'fill':'random'",
        DECODE ",'group':3,'queries':'4 each','window':9,'softcap':30,'score_scale':0.5,'sinks':true,'operands':'f16',"
        "'shared_prefix':20",
        "'op':'quantise','policy':{'number':16,'sm':90},'model':'llama-3-8b','scale':0.5,'fill':'random'",
        "'op':'mma','profile':'sm90.mma16816.v1','fill':'random'",
    };
    (void)state;
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        kvg_config config = config_from(list_of(groups[g]));
        for (int a = 0; a < KVG_AXIS_COUNT; a++) {
            char text[KVG_POLICY_TEXT_SIZE], group[1024];
            if (!kvg_scope_holds(kvg_axis_get((kvg_axis)a)->scope, &config.cases[0].problem)) continue;
            config_axis_text(&config.cases[0], (kvg_axis)a, text, sizeof text);
            snprintf(group, sizeof group, "'%s':", kvg_axis_get((kvg_axis)a)->name);
            if (strstr(groups[g], group) && strcmp(text, "false") == 0) fail_msg("%s false: %s", group, groups[g]);
            const bool said = is_plain(text) && *text;
            snprintf(group, sizeof group, said ? "%s,'exclude':[{'%s':%s}]" : "%s,'exclude':[{'%s':'%s'}]", groups[g],
                     kvg_axis_get((kvg_axis)a)->name, text);
            expect_refused(group, "selects no case");
        }
        kvg_config_close(&config);
    }
}

/* The config line of a case gives the case back. */
static void test_a_line_gives_its_case_back(void **state)
{
    static const char *const groups[] = {
        APPEND ",'padding':{'row':3},'rope':{'dims':8,'pairing':'halves','scaling':{'kind':'linear','theta':1e4,"
        "'factor':2}},'bias':true,'v_scale_swizzle':true",
        "'op':'flatten','layout':'mla','format':'bf16','kv_heads':1,'head_dim':64,'shared_kv':{'v_dim':8,'v_first':3},"
        "'fill':'codes'",
        DECODE ",'group':3,'queries':4,'window':9,'softcap':30,'score_scale':0.5,'sinks':true,'operands':'f16'",
        DECODE ",'profile':'sm90.mma16816.v1','blocks':40,'layers':3,'sequences':5,'block_tokens':8,'dtype':'f16',"
        "'shared_prefix':20",
        "'op':'quantise','policy':{'number':16,'sm':90},'model':'llama-3-8b','scale':{'k':0.5,'v':2},'fill':'random'",
        "'op':'mma','profile':'sm90.mma16816.v1','fill':'random','tokens':9,'dtype':'f16'",
        QUANTISE ",'format':{'k':'e4m3','v':'nvfp4'},'dialect':{'k':'trtllm','v':'vllm'},'scale':'P3'",
    };
    (void)state;
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        kvg_config config = config_from(list_of(groups[g]));
        kvg_json_text line = {0};
        char keys[1024];
        assert_int_equal(kvg_config_line(&config.cases[0], &line), KVG_OK);
        snprintf(keys, sizeof keys, "%.*s", (int)line.size - 2, line.text + 1); /* without the brackets */
        expect_same(keys, groups[g]);
        kvg_json_text_free(&line);
        kvg_config_close(&config);
    }
}

/* --- "all" --- */

static bool is_paged(const char *layout)
{
    kvg_layout found;
    assert_int_equal(kvg_layout_find(layout, &found), KVG_OK);
    return kvg_layout_get(found)->paged && kvg_layout_get(found)->shared != KVG_SHARED_ALWAYS;
}

static bool fits(const char *name, kvg_dtype dtype, uint32_t dim)
{
    kvg_problem p = {.op = KVG_OP_QUANTISE, .layout = KVG_LAYOUT_ROWS, .dtype = dtype, .head_dim = dim};
    assert_int_equal(kvg_format_find(name, &p.storage[KVG_K].format), KVG_OK);
    p.storage[KVG_V] = p.storage[KVG_K];
    return kvg_problem_check_rows(&p) == KVG_OK;
}

static bool fits_the_shape(const char *name)
{
    return fits(name, KVG_DTYPE_BF16, 64);
}

static bool fits_and_is_not_int4(const char *name)
{
    return fits_the_shape(name) && strcmp(name, "int4") != 0;
}

static bool fits_72_in_f32(const char *name)
{
    return fits(name, KVG_DTYPE_F32, 72);
}

static void test_all_is_every_name_that_fits(void **state)
{
    char names[1024], group[2048];
    (void)state;
    list_names(KVG_AXIS_FORMAT, fits_the_shape, names, sizeof names);
    snprintf(group, sizeof group, QUANTISE ",'tokens':[3,4],'format':[%s]", names);
    expect_same(QUANTISE ",'tokens':[3,4],'format':'all'", group);
    snprintf(group, sizeof group, QUANTISE ",'format':[{'k':'e4m3','v':'nvfp4'},%s]", names);
    expect_same(QUANTISE ",'format':[{'k':'e4m3','v':'nvfp4'},'all']", group);
    snprintf(group, sizeof group, QUANTISE ",'format':'f16','include':[{'format':[%s],'tokens':3}]", names);
    expect_same(QUANTISE ",'format':'f16','include':[{'format':'all','tokens':3}]", group);
    expect_same(QUANTISE ",'format':'nvfp4','dtype':'all'", QUANTISE ",'format':'nvfp4','dtype':['f16','bf16','f32']");
}

static void test_all_but_is_every_other_name(void **state)
{
    char names[1024], group[2048];
    (void)state;
    list_names(KVG_AXIS_FORMAT, fits_and_is_not_int4, names, sizeof names);
    snprintf(group, sizeof group, QUANTISE ",'format':[%s]", names);
    expect_same(QUANTISE ",'format':{'all_but':['int4']}", group);
    list_names(KVG_AXIS_LAYOUT, is_paged, names, sizeof names);
    snprintf(group, sizeof group, "'op':'flatten','format':'f16','fill':'random','layout':[%s]," SHAPE, names);
    expect_same("'op':'flatten','format':'f16','fill':'random','layout':{'all_but':['rows','mla']}," SHAPE, group);
    expect_same(QUANTISE ",'format':'all','dialect':{'all_but':['seed']}",
                QUANTISE ",'format':'all','dialect':'all','exclude':[{'dialect':'seed'}]");
}

/* "all" names no format that the rows cannot have; one that is named by itself is refused. */
static void test_all_leaves_out_what_does_not_fit(void **state)
{
    char names[1024], group[2048];
    (void)state;
    list_names(KVG_AXIS_FORMAT, fits_72_in_f32, names, sizeof names);
    snprintf(group, sizeof group, ODD ",'dtype':'f32','format':[%s]", names);
    expect_same(ODD ",'dtype':'f32','format':'all'", group);
    expect_refused(ODD ",'format':['nvfp4']", "does not fit");
}

static void test_all_in_a_group_of_op_generate(void **state)
{
    char names[1024], group[2048];
    (void)state;
    list_names(KVG_AXIS_FORMAT, fits_and_is_not_int4, names, sizeof names);
    snprintf(group, sizeof group, WINDOW ",'format':[%s]", names);
    expect_same(WINDOW ",'format':{'all_but':['int4']}", group);
    expect_refused(WINDOW ",'format':['all','all']", "stands in this list already");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fallback_is_what_holds_without_it),
        cmocka_unit_test(test_every_axis_can_be_excluded),
        cmocka_unit_test(test_a_line_gives_its_case_back),
        cmocka_unit_test(test_all_is_every_name_that_fits),
        cmocka_unit_test(test_all_but_is_every_other_name),
        cmocka_unit_test(test_all_leaves_out_what_does_not_fit),
        cmocka_unit_test(test_all_in_a_group_of_op_generate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
