#define _DEFAULT_SOURCE /* strsep */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "harness/cli/cli.h"
#include "harness/pack/golden_make.h"
#include "harness/pack/golden_show.h"
#include "harness/support/used_files.h"

static const char help_text[] =
    "usage: kvgold golden make CONFIG -o DIR           compute a golden pack, in the place of the one that is there\n"
    "       kvgold golden verify PACK                  check every hash, then compute every case again\n"
    "       kvgold golden inspect PACK                 what is in it\n"
    "       kvgold golden diff A B                     cases and tensors that differ\n"
    "       kvgold golden expand PACK -o DIR           the same pack with the tensors of its recipes\n"
    "       kvgold golden erratum PACK --id ID --date YYYY-MM-DD --cases KEY,KEY,... --text TEXT\n"
    "                                                  mark cases that have been found wrong\n\n"
    "A golden pack is a folder of inputs and right answers: docs/spec/golden-pack.md. `kvgold compare` judges an\n"
    "engine's answer to one. Exit code of verify: 1 if something computed differs; of diff: 1 if the packs differ.\n\n"
    "  -o, --output DIR         the new pack: appears at once, or not at all\n"
    "      --no-regenerate      verify: hashes and structure only\n"
    "      --no-separation      make: do not measure how far known-wrong answers are (docs/guide/config.md section\n"
    "                           15), nor refuse a case that one of them passes: for comparing bytes\n"
    "      --case KEY           inspect: this case in detail (KEY or id)\n"
    "      --superseded-by NAME erratum: the pack to use instead\n";

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
    (void)code;
    kvg_status s = kvg_golden_make(o->paths[0], o->output, !o->unmeasured);
    return s ? s : summarise("made", o->output);
}

static kvg_status expand(const golden_options *o, int *code)
{
    const kvg_used_file folders[] = {{.name = o->paths[0]}, {.name = o->output, .written = true}};
    kvg_pack *pack;
    (void)code;
    kvg_status s = kvg_used_files_check(folders, 2);
    if (!s) s = kvg_pack_open(o->paths[0], &pack);
    if (s) return s;
    kvg_pack_warnings(pack, NULL, warn, NULL);
    s = kvg_golden_expand(pack, o->output);
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

/* --- options --- */

static kvg_status read_options(int argc, char **argv, golden_options *o, bool *help_wanted)
{
    enum { HASHES = 256, UNMEASURED, CASE, SUPERSEDED, ID, DATE, TEXT, CASES };
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'},      {"no-regenerate", no_argument, NULL, HASHES},
        {"no-separation", no_argument, NULL, UNMEASURED},
        {"case", required_argument, NULL, CASE},       {"superseded-by", required_argument, NULL, SUPERSEDED},
        {"id", required_argument, NULL, ID},           {"date", required_argument, NULL, DATE},
        {"text", required_argument, NULL, TEXT},       {"cases", required_argument, NULL, CASES},
        {"help", no_argument, NULL, 'h'},              {0},
    };
    for (int option; (option = getopt_long(argc, argv, ":o:h", options, NULL)) != -1;) {
        switch (option) {
        case 'o': o->output = optarg; break;
        case HASHES: o->hashes_only = true; break;
        case UNMEASURED: o->unmeasured = true; break;
        case CASE: o->only_case = optarg; break;
        case SUPERSEDED: o->superseded_by = optarg; break;
        case ID: o->erratum.id = optarg; break;
        case DATE: o->erratum.date = optarg; break;
        case TEXT: o->erratum.text = optarg; break;
        case CASES: o->cases = optarg; break;
        case 'h': *help_wanted = true; return KVG_OK;
        default: return kvg_option_error("golden", option, argv);
        }
    }
    return KVG_OK;
}

/* An option of another action would do nothing, and nobody would notice. */
static kvg_status check_options(const struct action *a, const golden_options *o)
{
    const bool erratum = a->run == add_erratum;
    const bool any = o->erratum.id || o->erratum.date || o->erratum.text || o->cases;
    const bool all = o->erratum.id && o->erratum.date && o->erratum.text && o->cases;
    if (a->output && !o->output) return kvg_fail(KVG_ERR_INVALID, "%s needs a folder: -o DIR", a->name);
    if (erratum && !all) return kvg_fail(KVG_ERR_INVALID, "erratum needs --id, --date, --cases and --text");
    if ((o->output && !a->output) || (o->hashes_only && a->run != verify) ||
        (o->unmeasured && a->run != make) || (o->only_case && a->run != inspect) ||
        ((any || o->superseded_by) && !erratum)) {
        return kvg_fail(KVG_ERR_INVALID, "an option is not for %s (see `kvgold golden --help`)", a->name);
    }
    return KVG_OK;
}

int kvg_command_golden(int argc, char **argv)
{
    golden_options o = {0};
    bool help_wanted = false;
    kvg_status s = read_options(argc, argv, &o, &help_wanted);
    if (help_wanted) {
        fputs(help_text, stdout);
        return KVG_EXIT_PASS;
    }
    if (s) return kvg_command_fail("golden", s);
    const char *name = optind < argc ? argv[optind] : "";
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        const struct action *a = &actions[i];
        int code = KVG_EXIT_PASS;
        if (strcmp(a->name, name) != 0) continue;
        if (argc - optind - 1 != a->paths) {
            return kvg_command_usage("golden", "%s takes %d path%s", name, a->paths, a->paths > 1 ? "s" : "");
        }
        o.paths = (const char *const *)&argv[optind + 1];
        s = check_options(a, &o);
        if (!s) s = a->run(&o, &code);
        return s ? kvg_command_fail("golden", s) : code;
    }
    return kvg_command_usage("golden", "give make, verify, inspect, diff, expand or erratum");
}
