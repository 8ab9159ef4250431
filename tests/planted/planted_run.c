#include "tests/planted/planted_run.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "harness/run/run.h"

const char *planted_text(kvg_json object, const char *key)
{
    kvg_json value;
    const char *string;
    assert_int_equal(kvg_json_get(object, key, &value), KVG_OK);
    assert_int_equal(kvg_json_string(value, &string), KVG_OK);
    return string;
}

/* The case that the line is about: the HEADS of its ".../TxHEADSxD/...". */
static const planted_case *case_of(kvg_json line, const planted_case *expected, size_t count)
{
    unsigned tokens, heads, dim;
    const planted_case *e = expected;
    assert_int_equal(sscanf(strstr(planted_text(line, "id"), "bf16/"), "bf16/%ux%ux%u", &tokens, &heads, &dim), 3);
    while (e < expected + count && e->kv_heads != heads) e++;
    assert_true(e < expected + count);
    return e;
}

static void check_case(kvg_json line, const planted_case *e)
{
    const char *status = planted_text(line, "status"), *detail = planted_text(line, "detail");
    const char *repro = planted_text(line, "repro");
    if (strcmp(status, kvg_verdict_name(e->verdict)) != 0 || !strstr(detail, e->detail)) {
        fail_msg("%u heads: %s: %s", e->kv_heads, status, detail);
    }
    assert_non_null(strstr(repro, "kvgold check "));
    assert_non_null(strstr(repro, planted_text(line, "id")));
}

size_t planted_run(const char *path, const char *folder, unsigned jobs, const planted_case *expected, size_t count,
                   planted_check *check)
{
    static char line[1 << 16];
    kvg_config config;
    kvg_run_summary summary;
    const kvg_run_options options = {.out_folder = folder, .shards = 1, .jobs = jobs,
                                     .confinement = KVG_CONFINE_NAMESPACES};
    size_t cases = 0, starts = 0, counts[KVG_VERDICT_COUNT] = {0};
    assert_int_equal(kvg_config_open(path, NULL, NULL, &config), KVG_OK);
    assert_int_equal(config.case_count, count);
    assert_int_equal(kvg_run(&config, &options, &summary), KVG_OK);
    kvg_config_close(&config);
    snprintf(line, sizeof line, "%s/results.jsonl", folder);
    FILE *f = fopen(line, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        kvg_json_doc *doc;
        assert_int_equal(line[strlen(line) - 1], '\n');
        assert_int_equal(kvg_json_parse("result line", line, strlen(line) - 1, &doc), KVG_OK);
        const kvg_json root = kvg_json_root(doc);
        starts += strcmp(planted_text(root, "type"), "start") == 0;
        if (strcmp(planted_text(root, "type"), "case") == 0) {
            const planted_case *e = case_of(root, expected, count);
            check_case(root, e);
            if (check) check(root, e);
            cases++;
        }
        kvg_json_close(doc);
    }
    fclose(f);
    assert_int_equal(cases, count);
    for (size_t i = 0; i < count; i++) counts[expected[i].verdict]++;
    assert_memory_equal(summary.counts, counts, sizeof counts);
    return starts;
}

size_t planted_logged(const char *folder, const char *wanted)
{
    char path[512];
    size_t found = 0;
    glob_t logs;
    snprintf(path, sizeof path, "%s/candidate.*.log", folder);
    assert_int_equal(glob(path, 0, NULL, &logs), 0);
    for (size_t i = 0; i < logs.gl_pathc; i++) {
        char line[512];
        FILE *f = fopen(logs.gl_pathv[i], "r");
        assert_non_null(f);
        while (fgets(line, sizeof line, f)) {
            line[strcspn(line, "\n")] = 0;
            found += strcmp(line, wanted) == 0;
        }
        fclose(f);
    }
    globfree(&logs);
    return found;
}
