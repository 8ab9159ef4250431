#define _DEFAULT_SOURCE /* strsep */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "core/name.h"
#include "harness/pack/golden_make.h"
#include "harness/pack/golden_show.h"
#include "support/used_files.h"

typedef struct golden_options {
    const char *output, *only_case, *superseded_by;
    kvg_pack_erratum erratum;
    char *cases; /* of the erratum, comma-separated: cut up in place */
    bool hashes_only, unmeasured;
    const char *const *paths;
} golden_options;

static void warn(void *context, const char *line)
{
    (void)context;
    fprintf(stderr, "kvgold golden: WARNING: %s\n", line);
}

/* --- actions --- */

static kvg_status summarise(const char *what, const char *path)
{
    kvg_pack *pack;
    char digest[KVG_SHA256_TEXT];
    kvg_status s = kvg_pack_open(path, &pack);
    if (s) return s;
    kvg_sha256_text(&pack->manifest, digest);
    printf("%s %s: %zu cases, %llu bytes, manifest %s\n", what, pack->name, pack->case_count,
           (unsigned long long)(pack->prompt_bytes + pack->expected_bytes), digest);
    kvg_pack_close(pack);
    return KVG_OK;
}

static kvg_status make(const golden_options *o, int *code)
{
    size_t refused;
    kvg_status s = kvg_golden_make(o->paths[0], o->output, !o->unmeasured, stderr, &refused);
    if (!s) s = summarise("made", o->output);
    if (s || !refused) return s;
    printf("%zu cases are refused: the pack has the others\n", refused);
    *code = KVG_EXIT_FAIL;
    return KVG_OK;
}

static kvg_status expand(const golden_options *o, int *code)
{
    const kvg_used_file folders[] = {{.name = o->paths[0]}, {.name = o->output, .written = true}};
    kvg_pack *pack;
    const kvg_pack_case *only = NULL;
    (void)code;
    kvg_status s = kvg_used_files_check(folders, 2);
    if (!s) s = kvg_pack_open(o->paths[0], &pack);
    if (s) return s;
    kvg_pack_warnings(pack, NULL, warn, NULL);
    if (o->only_case) s = kvg_pack_find(pack, o->only_case, &only);
    if (!s) s = kvg_golden_expand(pack, only, o->output);
    kvg_pack_close(pack);
    return s ? s : summarise("expanded", o->output);
}

static kvg_status verify(const golden_options *o, int *code)
{
    kvg_pack *pack;
    size_t computed = 0, failures = 0;
    kvg_status s = kvg_pack_open(o->paths[0], &pack);
    if (s) return s;
    kvg_pack_warnings(pack, NULL, warn, NULL);
    if (!o->hashes_only) s = kvg_golden_regenerate(pack, stdout, &computed, &failures);
    if (!s) {
        printf("%s %s: every hash holds; %zu of %zu cases computed again, %zu differences\n", pack->name, pack->version,
               computed, pack->case_count, failures);
    }
    if (failures) *code = KVG_EXIT_FAIL;
    kvg_pack_close(pack);
    return s;
}

static kvg_status inspect(const golden_options *o, int *code)
{
    kvg_pack *pack;
    const kvg_pack_case *c;
    (void)code;
    kvg_status s = kvg_pack_open(o->paths[0], &pack);
    if (s) return s;
    if (!o->only_case) kvg_golden_show(pack, stdout);
    else s = kvg_pack_find(pack, o->only_case, &c);
    if (!s && o->only_case) kvg_golden_show_case(pack, c, stdout);
    kvg_pack_close(pack);
    return s;
}

static kvg_status diff(const golden_options *o, int *code)
{
    kvg_pack *a, *b = NULL;
    kvg_status s = kvg_pack_open(o->paths[0], &a);
    if (!s) s = kvg_pack_open(o->paths[1], &b);
    if (!s && kvg_golden_diff(a, b, stdout)) *code = KVG_EXIT_FAIL;
    kvg_pack_close(b);
    kvg_pack_close(a);
    return s;
}

static kvg_status add_erratum(const golden_options *o, int *code)
{
    enum { MOST = 1000 };
    const char *keys[MOST];
    kvg_pack_erratum e = o->erratum;
    kvg_pack *pack;
    (void)code;
    e.cases = keys;
    for (char *rest = o->cases, *key; (key = strsep(&rest, ",")) != NULL;) {
        if (!*key) return kvg_fail(KVG_ERR_INVALID, "--cases: a key is empty: give them as 0003,0004");
        if (e.case_count == MOST) return kvg_fail(KVG_ERR_INVALID, "more than %d cases in an erratum", MOST);
        keys[e.case_count++] = key;
    }
    kvg_status s = kvg_pack_open(o->paths[0], &pack);
    if (s) return s;
    s = kvg_golden_add_erratum(pack, &e, o->superseded_by);
    kvg_pack_close(pack);
    return s ? s : summarise("marked", o->paths[0]);
}

static const struct action {
    const char *name;
    int paths;
    bool output;
    kvg_status (*run)(const golden_options *o, int *code);
} actions[] = {
    {"make", 1, true, make}, {"verify", 1, false, verify}, {"inspect", 1, false, inspect},
    {"diff", 2, false, diff}, {"expand", 1, true, expand}, {"erratum", 1, false, add_erratum},
};
enum { ACTION_COUNT = sizeof actions / sizeof actions[0] };

static kvg_status check_options(const struct action *a, const golden_options *o)
{
    const bool erratum = a->run == add_erratum;
    const bool all = o->erratum.id && o->erratum.date && o->erratum.text && o->cases;
    if (a->output && !o->output) return kvg_fail(KVG_ERR_INVALID, "%s needs a folder: -o DIR", a->name);
    if (erratum && !all) return kvg_fail(KVG_ERR_INVALID, "erratum needs --id, --date, --cases and --text");
    return KVG_OK;
}

int kvg_command_golden(const kvg_arguments *a)
{
    const kvg_argument *cases = kvg_given(a, KVG_OPTION_GOLDEN_CASES);
    const golden_options o = {
        .output = kvg_given_text(a, KVG_OPTION_GOLDEN_OUTPUT, NULL),
        .only_case = kvg_given_text(a, KVG_OPTION_GOLDEN_CASE, NULL),
        .superseded_by = kvg_given_text(a, KVG_OPTION_GOLDEN_SUPERSEDED_BY, NULL),
        .erratum = {.id = kvg_given_text(a, KVG_OPTION_GOLDEN_ID, NULL),
                    .date = kvg_given_text(a, KVG_OPTION_GOLDEN_DATE, NULL),
                    .text = kvg_given_text(a, KVG_OPTION_GOLDEN_TEXT, NULL)},
        .cases = cases ? cases->text : NULL,
        .hashes_only = kvg_given(a, KVG_OPTION_GOLDEN_NO_REGENERATE),
        .unmeasured = kvg_given(a, KVG_OPTION_GOLDEN_NO_SEPARATION),
        .paths = (const char *const *)a->files + 1,
    };
    const char *name = a->file_count ? a->files[0] : "";
    size_t i;
    int code = KVG_EXIT_PASS;
    kvg_status s = kvg_name_find("action", name, &actions[0].name, sizeof actions[0], ACTION_COUNT, &i);
    if (!s && a->file_count - 1 != actions[i].paths) {
        return kvg_command_usage("golden", "%s takes %d path%s", name, actions[i].paths,
                                 actions[i].paths > 1 ? "s" : "");
    }
    if (!s) s = check_options(&actions[i], &o);
    if (!s) s = kvg_arguments_check_action(a, name);
    if (!s) s = actions[i].run(&o, &code);
    return s ? kvg_command_fail("golden", s) : code;
}
