/* Plug-ins that are wrong in their tables, while they are opened, and with the process they run in; memory that the
 * harness cannot reach; and that no right answer lies where a plug-in could look. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness/candidate/arena.h"
#include "harness/report/report.h"
#include "harness/run/backends.h"
#include "harness/run/capabilities.h"
#include "harness/run/run.h"
#include "harness/trial/judge/judge.h"
#include "harness/trial/judge/truth.h"
#include "tests/planted/attacks.h"
#include "tests/planted/planted_run.h"
#include "tests/planted/scan.h"

#define PLANTED KVG_SOURCE_DIR "/tests/planted/"
#define OUT KVG_BINARY_DIR "/test_plugin"

/* --- what a plug-in says of itself --- */

static kvg_status run_nothing(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)p, (void)in, (void)out, (void)stream;
    return KVG_OK;
}

static kvg_status alloc_nothing(size_t bytes, void **out)
{
    (void)bytes;
    *out = NULL;
    return KVG_ERR_MEMORY;
}

static const kvg_impl good_impl = {"good", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run_nothing};
static const kvg_impl twins[] = {{"twin", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run_nothing},
                                 {"twin", KVG_OP_DEQUANTISE, KVG_FORMAT_NONE, 0, run_nothing}};
static const kvg_impl nameless = {NULL, KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run_nothing};
static const kvg_impl without_run = {"idle", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, NULL};
static const kvg_impl unknown_op = {"new", (kvg_op)99, KVG_FORMAT_NONE, 0, run_nothing};
static const kvg_impl unknown_format = {"new", KVG_OP_QUANTISE, (kvg_format)99, 0, run_nothing};
static const kvg_device_memory half = {.struct_size = sizeof half, .alloc = alloc_nothing};
static const kvg_device_memory sizeless = {.alloc = alloc_nothing};

static kvg_backend good_backend(void)
{
    return (kvg_backend){.abi = KVG_BACKEND_ABI, .struct_size = sizeof(kvg_backend), .name = "b", .impls = &good_impl,
                         .impl_count = 1, .problem_size = sizeof(kvg_problem)};
}

static void expect_refused(const kvg_backend *given, const char *why)
{
    kvg_backend taken;
    assert_int_equal(kvg_backend_take("lib.so", given, &taken), KVG_ERR_INVALID);
    if (!strstr(kvg_error_text(), why) || strncmp(kvg_error_text(), "lib.so: ", 8) != 0) {
        fail_msg("'%s' is not in: %s", why, kvg_error_text());
    }
}

static void test_wrong_tables_are_refused_with_their_own_message(void **state)
{
    (void)state;
    char long_name[200] = {0};
    memset(long_name, 'x', sizeof long_name - 1);
    kvg_backend b = good_backend(), taken;
    assert_int_equal(kvg_backend_take("lib.so", &b, &taken), KVG_OK);
    expect_refused(NULL, "returned NULL");
#define REFUSED(member, value, why) b = good_backend(), b.member = (value), expect_refused(&b, why)
    REFUSED(abi, KVG_BACKEND_ABI - 1, "its ABI is 5, this kvgold speaks 6");
    REFUSED(struct_size, 0, "struct_size of its kvg_backend is 0");
    REFUSED(struct_size, offsetof(kvg_backend, ready), "struct_size of its kvg_backend is 48");
    REFUSED(struct_size, 1 << 20, "struct_size of its kvg_backend is 1048576");
    REFUSED(name, NULL, "it has no name");
    REFUSED(name, "", "it has no name");
    REFUSED(name, long_name, "more than 127 bytes");
    REFUSED(impls, NULL, "no table of implementations: impls is NULL");
    REFUSED(impl_count, 0, "no table of implementations: impls is given, impl_count 0");
    REFUSED(impl_count, SIZE_MAX, "no table of implementations");
    REFUSED(impls, &nameless, "impls[0] has no name");
    REFUSED(impls, &without_run, "impls[0] (idle): run is NULL");
    REFUSED(impls, &unknown_op, "impls[0] (new): op 99");
    REFUSED(impls, &unknown_format, "or format 99 does not exist");
    REFUSED(problem_size, 8, "problem_size is 8");
    REFUSED(memory, &half, "lacks alloc, release, upload or download");
    REFUSED(memory, &sizeless, "struct_size of its kvg_device_memory is 0");
#undef REFUSED
    b = good_backend();
    b.impls = twins;
    b.impl_count = 2;
    expect_refused(&b, "impls[0] and impls[1] are both named 'twin'");
}

/* The first plug-ins of this ABI end with `ready`; those of the future have members that this version does not know. */
static void test_older_and_newer_plugins_are_opened(void **state)
{
    (void)state;
    struct {
        kvg_backend known;
        void *unknown;
    } newer = {.known = good_backend()};
    kvg_backend taken, older = good_backend();
    memset((char *)&older + offsetof(kvg_backend, problem_size), 0xEE,
           sizeof older - offsetof(kvg_backend, problem_size)); /* not the plug-in's: must not be read */
    older.struct_size = offsetof(kvg_backend, problem_size);
    assert_int_equal(kvg_backend_take("lib.so", &older, &taken), KVG_OK);
    assert_null(taken.memory);
    assert_null(taken.sm);
    assert_int_equal(taken.problem_size, 0);
    newer.known.struct_size = sizeof newer;
    assert_int_equal(kvg_backend_take("lib.so", &newer.known, &taken), KVG_OK);
    newer.unknown = &newer;
    expect_refused(&newer.known, "members that this kvgold does not know");
}

/* --- what it claims --- */

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void test_malformed_capability_files_are_refused_with_their_own_message(void **state)
{
    (void)state;
    static const char *const files[][2] = {
        {"", "is empty"},
        {"[]", "$: expected an object"},
        {"{\"claims\": []}", "kvgold_capabilities"},
        {"{\"kvgold_capabilities\": 2, \"claims\": []}", "$.kvgold_capabilities"},
        {"{\"kvgold_capabilities\": 1}", "claims"},
        {"{\"kvgold_capabilities\": 1, \"claims\": {}}", "$.claims: expected a list of claims"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [], \"claim\": 1}", "unknown key 'claim'"},
        {"{\"kvgold_capabilities\": 1, \"engine\": 7, \"claims\": []}", "$.engine"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [{\"ops\": [\"append\"]}]}", "formats"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [{\"formats\": [\"nvfp4\"]}]}", "ops"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [{\"ops\": [], \"formats\": [\"nvfp4\"]}]}", "an empty list"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [{\"ops\": \"append\", \"formats\": [\"nvfp4\"]}]}", "a list"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [{\"ops\": [\"apend\"], \"formats\": [\"nvfp4\"]}]}",
         "$.claims[0].ops[0]"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [{\"ops\": [\"append\"], \"formats\": [\"fp4\"]}]}",
         "$.claims[0].formats[0]"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [{\"ops\": [\"append\"], \"formats\": [\"nvfp4.sglong\"]}]}",
         "no nvfp4 dialect 'sglong'"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [{\"ops\": [\"append\"], \"formats\": [\"nvfp4\"],"
         "\"layouts\": [\"hnd \"]}]}", "$.claims[0].layouts[0]"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [{\"ops\": [\"append\"], \"formats\": [\"nvfp4\"],"
         "\"layouts\": [{\"name\": \"hnd\", \"text\": \"[L]\"}]}]}", "$.claims[0].layouts[0].name"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [{\"ops\": [\"append\"], \"formats\": [\"nvfp4\"],"
         "\"head_dims\": [128.5]}]}", "$.claims[0].head_dims[0]"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [{\"ops\": [\"append\"], \"formats\": [\"nvfp4\"],"
         "\"sms\": [\"90\"]}]}", "$.claims[0].sms[0]"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [{\"ops\": [\"append\"], \"formats\": [\"nvfp4\"],"
         "\"features\": [\"sink\"]}]}", "did you mean 'sinks'"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [{\"ops\": [\"decode\"], \"formats\": [\"nvfp4\"],"
         "\"profiles\": [\"sm90\"]}]}", "$.claims[0].profiles[0]"},
        {"{\"kvgold_capabilities\": 1, \"claims\": [], \"claims\": []}", "claims"},
    };
    kvg_capabilities *c;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        put_file(KVG_BINARY_DIR "/capabilities.json", files[i][0]);
        assert_int_not_equal(kvg_capabilities_open(KVG_BINARY_DIR "/capabilities.json", &c), KVG_OK);
        if (!strstr(kvg_error_text(), files[i][1])) fail_msg("'%s' is not in: %s", files[i][1], kvg_error_text());
    }
    assert_int_equal(kvg_capabilities_open("/no/such/file.json", &c), KVG_ERR_NOT_FOUND);
}

static void expect_cover(const char *claims, const kvg_case *c, uint32_t sm, const char *missing)
{
    char text[2048];
    kvg_result r = {.verdict = KVG_VERDICT_PASS};
    kvg_capabilities *capabilities;
    snprintf(text, sizeof text, "{\"kvgold_capabilities\": 1, \"claims\": [%s]}", claims);
    put_file(KVG_BINARY_DIR "/capabilities.json", text);
    if (kvg_capabilities_open(KVG_BINARY_DIR "/capabilities.json", &capabilities)) fail_msg("%s", kvg_error_text());
    const bool covers = kvg_capabilities_claim(capabilities, c, sm, &r);
    kvg_capabilities_close(capabilities);
    if (covers != !missing) fail_msg("%s: %s", claims, covers ? "covers" : "does not cover");
    if (strcmp(r.unclaimed, missing ? missing : "") != 0) fail_msg("%s: '%s'", claims, r.unclaimed);
}

/* By name and text: another text under the same name is another layout. */
static void test_a_claim_covers_a_layout_of_ones_own(void **state)
{
    (void)state;
#define OWN(name, axes) "{\"name\": \"" name "\", \"text\": \"[" axes "]{ K.codes V.codes }\"}"
#define CLAIM(layouts) "{\"ops\": [\"append\"], \"formats\": [\"f16\"]" layouts "}"
    static const char text[] = "{\"kvgold\": 1, \"name\": \"c\", \"seed\": \"0x1\", \"cases\": [{\"op\": \"append\", "
                               "\"format\": \"f16\", \"layout\": " OWN("mine", "L B N H") ", \"kv_heads\": 1, "
                               "\"head_dim\": 64, \"tokens\": 3, \"fill\": \"random\"}]}";
    static const char missing[] = "layout mine [L B N H]{ K.codes V.codes }";
    kvg_config config;
    assert_int_equal(kvg_config_parse("c", text, strlen(text), ".", NULL, &config), KVG_OK);
    const kvg_case *c = &config.cases[0];
    expect_cover(CLAIM(""), c, 0, NULL);
    expect_cover(CLAIM(", \"layouts\": [\"hnd\", " OWN("mine", "L B N H") "]"), c, 0, NULL);
    expect_cover(CLAIM(", \"layouts\": [\"hnd\", " OWN("mine", "L B H N") "]"), c, 0, missing);
    expect_cover(CLAIM(", \"layouts\": [" OWN("yours", "L B N H") "]"), c, 0, missing);
#undef CLAIM
#undef OWN
    kvg_config_close(&config);
}

static void test_a_claim_covers_a_case_whole_or_not_at_all(void **state)
{
    (void)state;
    kvg_config config;
    assert_int_equal(kvg_config_open(PLANTED "fake_device.json", NULL, NULL, &config), KVG_OK);
    const kvg_case *quantise = &config.cases[0], *decode = &config.cases[config.case_count - 1];
    assert_int_equal(quantise->problem.op, KVG_OP_QUANTISE);
    assert_int_equal(decode->problem.op, KVG_OP_DECODE);
#define RULES "\"ops\": [\"quantise\"], \"formats\": [\"nvfp4\"]"
    expect_cover("", quantise, 0, "there is no claim");
    expect_cover("{" RULES "}", quantise, 0, NULL);
    expect_cover("{" RULES "}", decode, 0, "op decode");
    expect_cover("{\"ops\": [\"quantise\"], \"formats\": [\"nvfp4.vllm\", \"mxfp4\"]}", quantise, 0,
                 "format nvfp4.canonical");
    expect_cover("{" RULES ", \"layouts\": [\"hnd\"]}", quantise, 0, "layout rows");
    expect_cover("{" RULES ", \"dtypes\": [\"f16\", \"f32\"]}", quantise, 0, "dtype bf16");
    expect_cover("{" RULES ", \"head_dims\": [128]}", quantise, 0, "head_dim 64");
    expect_cover("{" RULES ", \"head_dims\": [128, 64], \"profiles\": [\"exact\"]}", quantise, 0, NULL);
    expect_cover("{" RULES ", \"sms\": [90]}", quantise, 0, "sm 0");
    expect_cover("{" RULES ", \"sms\": [90]}", quantise, 77, "sm 77");
    expect_cover("{" RULES ", \"sms\": [90, 77]}", quantise, 77, NULL);
    /* not by two claims together, and the one that gets furthest says what is missing */
    expect_cover("{\"ops\": [\"decode\"], \"formats\": [\"nvfp4\"]}, {" RULES ", \"layouts\": [\"nhd\"]}", quantise,
                 0, "layout rows");
#undef RULES
#define RULES "\"ops\": [\"decode\"], \"formats\": [\"int8.canonical\"]"
    expect_cover("{" RULES "}", decode, 0, "feature queries");
    expect_cover("{" RULES ", \"features\": [\"queries\", \"lse\"]}", decode, 0, "feature gqa");
    expect_cover("{" RULES ", \"features\": [\"lse\", \"gqa\", \"queries\"]}", decode, 0, NULL);
    expect_cover("{" RULES ", \"profiles\": [\"sm90.mma16816.v1\"], \"features\": [\"lse\", \"gqa\", \"queries\"]}",
                 decode, 0, "profile exact");
#undef RULES
    kvg_config_close(&config);
}

/* --- while it is opened --- */

static void expect_unopened(const char *library, kvg_verdict verdict, const char *first, const char *second)
{
    static kvg_config config;
    kvg_run_summary summary;
    const kvg_run_options options = {.out_folder = OUT, .shards = 1, .jobs = 1, .confinement = KVG_CONFINE_NAMESPACES};
    char path[512], text[4096] = "";
    snprintf(path, sizeof path, "%s/bin/libkvgold_%s.so", KVG_BINARY_DIR, library);
    assert_int_equal(kvg_config_open(PLANTED "fake_device.json", NULL, NULL, &config), KVG_OK);
    assert_int_equal(kvg_config_use_backend(&config, path), KVG_OK);
    config.hang_seconds = 1;
    assert_int_equal(kvg_run(&config, &options, &summary), KVG_OK);
    assert_int_equal(summary.counts[verdict], config.case_count);
    kvg_config_close(&config);
    FILE *f = fopen(OUT "/results.jsonl", "r");
    bool found_first = false, found_second = false;
    while (fgets(text, sizeof text, f)) {
        found_first |= strstr(text, first) != NULL;
        found_second |= strstr(text, second) != NULL;
    }
    fclose(f);
    if (!found_first || !found_second) fail_msg("%s: no '%s' or no '%s'", library, first, second);
}

static void test_libraries_that_do_not_open_cost_their_cases_alone(void **state)
{
    (void)state;
    static const char *const not_run = "not run: its library could not be opened in 'quantise/";
    expect_unopened("no_symbol", KVG_VERDICT_ERROR, "exports no kvg_backend_export", "");
    expect_unopened("wrong_abi", KVG_VERDICT_ERROR, "its ABI is 7, this kvgold speaks 6", "");
    expect_unopened("not_there", KVG_VERDICT_ERROR, "cannot open backend", "");
    setenv("KVGOLD_PLANTED_OPEN", "null", 1);
    expect_unopened("planted_open", KVG_VERDICT_ERROR, "kvg_backend_export returned NULL", "");
    setenv("KVGOLD_PLANTED_OPEN", "aborts", 1);
    expect_unopened("planted_open", KVG_VERDICT_CRASH, "while its library was opened: killed by signal 6", not_run);
    setenv("KVGOLD_PLANTED_OPEN", "exits", 1);
    expect_unopened("planted_open", KVG_VERDICT_CRASH, "the process exited with status 0", not_run);
    setenv("KVGOLD_PLANTED_OPEN", "hangs", 1);
    expect_unopened("planted_open", KVG_VERDICT_HANG, "no result after 1 s", not_run);
}

/* --- with its process --- */

/* A process that left_behind.c started still runs: it holds a lock of its log. */
static bool is_left_behind(const char *path)
{
    const int log = open(path, O_WRONLY);
    assert_true(log >= 0);
    const bool locked = flock(log, LOCK_EX | LOCK_NB) != 0;
    close(log);
    return locked;
}

static void test_what_a_plugin_does_costs_its_case_alone(void **state)
{
    (void)state;
    static const planted_case expected[] = {
        {1, KVG_VERDICT_PASS, ""},
        {2, KVG_VERDICT_PASS, ""},
        {3, KVG_VERDICT_CRASH, "it depends on the case before"}, /* whose tensors are nowhere */
        {4, KVG_VERDICT_PASS, ""},
        {5, KVG_VERDICT_FAIL, "alone it passes: it depends on the case before"},
        {6, KVG_VERDICT_PASS, ""},
        {7, KVG_VERDICT_CRASH, "exited with status 0"},
        {8, KVG_VERDICT_PASS, ""},
        {9, KVG_VERDICT_CRASH, "signal 11"},
        {10, KVG_VERDICT_CRASH, "signal 9"},
        {11, KVG_VERDICT_CRASH, "signal 9"},
        {12, KVG_VERDICT_CRASH, "signal 9"},
        {13, KVG_VERDICT_CRASH, ""}, /* a sanitizer exits where others get a signal */
        {14, KVG_VERDICT_PASS, ""},
        {15, KVG_VERDICT_PASS, ""},
        {16, KVG_VERDICT_PASS, ""},
        {17, KVG_VERDICT_FAIL, "written before the start"}, /* one of them is the file of its tensors */
        {18, KVG_VERDICT_FAIL, "bytes were never written"},
        {19, KVG_VERDICT_PASS, ""},
    };
    planted_run(PLANTED "planted_plugin.json", OUT, 1, expected, sizeof expected / sizeof expected[0], NULL);
    assert_false(is_left_behind(OUT "/candidate.1.planted_plugin.log"));
}

static bool file_has(const char *path, const char *text)
{
    char line[1 << 16];
    bool found = false;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) found |= strstr(line, text) != NULL;
    fclose(f);
    return found;
}

/* Runs the attacks on a candidate with that confinement. *succeeded: a bit for each. */
static unsigned attack_with(kvg_confinement confinement)
{
    kvg_config config;
    kvg_run_summary summary;
    const kvg_run_options options = {.out_folder = OUT, .shards = 1, .jobs = 1, .confinement = confinement};
    unsigned succeeded = 0;
    char line[64];
    kvg_report *report;
    assert_int_equal(kvg_config_open(PLANTED "attacker.json", NULL, NULL, &config), KVG_OK);
    assert_int_equal(config.case_count, ATTACKS - 1);
    const int inherited = open("/dev/null", O_RDONLY); /* into the candidate, too */
    assert_int_equal(kvg_run(&config, &options, &summary), KVG_OK);
    close(inherited);
    const bool forged = file_has(OUT "/results.jsonl", "forged");
    const kvg_status as_written = kvg_report_open(&(const char *){OUT "/results.jsonl"}, &summary.digest, 1, NULL,
                                                  &report);
    if (forged) assert_int_equal(as_written, KVG_ERR_INVALID);
    if (forged) assert_non_null(strstr(kvg_error_text(), "not as its run wrote it"));
    if (!forged) assert_int_equal(as_written, KVG_OK);
    if (!forged) kvg_report_close(report);
    kvg_config_close(&config);
    assert_int_equal(summary.counts[KVG_VERDICT_PASS], ATTACKS - 1);
    assert_true(file_has(OUT "/results.jsonl", kvg_confinement_name(confinement)));
    for (attack a = ATTACK_NONE; a < ATTACKS; a++) {
        snprintf(line, sizeof line, "attack %d succeeds", (int)a);
        succeeded |= (unsigned)(planted_logged(OUT, line) > 0) << a;
    }
    succeeded |= (unsigned)is_left_behind(OUT "/candidate.1.attacker.log") << ATTACK_LEAVES_DAEMON;
    succeeded |= (unsigned)forged << ATTACK_FORGES;
    return succeeded;
}

/* What is not confined may do all that its user may. Only its daemons are ended: they come to the parent of the run. */
static void test_a_confined_plugin_does_not_get_hold_of_its_judge(void **state)
{
    (void)state;
    const unsigned all = (1u << ATTACKS) - (1u << ATTACK_READS), daemon = 1u << ATTACK_LEAVES_DAEMON;
    assert_int_equal(attack_with(KVG_CONFINE_NAMESPACES), 0);
    assert_int_equal(attack_with(KVG_CONFINE_RIGHTS), 1u << ATTACK_SIGNALS | 1u << ATTACK_FORGES);
    assert_int_equal(attack_with(KVG_CONFINE_NOT), all & ~daemon);
}

/* The search is good: it finds an answer that lies in its process. Without one it finds none, even where judge and
 * candidate share a process, because the judge asks before it knows. */
static void test_the_search_for_the_answer_finds_one(void **state)
{
    (void)state;
    kvg_config config;
    kvg_result r;
    const kvg_backend *backend;
    assert_int_equal(kvg_config_open(PLANTED "planted_plugin.json", NULL, NULL, &config), KVG_OK);
    assert_int_equal(kvg_check_backend("planted_plugin", &backend), KVG_OK);
    kvg_check_run(&config.cases[13], backend, &r);
    assert_int_equal(r.verdict, KVG_VERDICT_PASS);
    kvg_question question;
    kvg_truth planted;
    assert_int_equal(kvg_question_make(&config.cases[13], &question), KVG_OK);
    assert_int_equal(kvg_know(&question, &planted), KVG_OK);
    kvg_check_run(&config.cases[13], backend, &r);
    kvg_truth_free(&planted);
    kvg_question_free(&question);
    kvg_config_close(&config);
    assert_int_equal(r.verdict, KVG_VERDICT_FAIL);
    if (!strstr(r.detail, "found the answer at 0x")) fail_msg("%s", r.detail);
}

static void test_memory_that_the_host_cannot_reach(void **state)
{
    (void)state;
    static const planted_case expected[] = {
        {1, KVG_VERDICT_PASS, ""},
        {2, KVG_VERDICT_FAIL, "output k_codes: 1 bytes written past the end, first at +0"},
        {3, KVG_VERDICT_FAIL, "output k_codes: 1 bytes written before the start, first at -1"},
        {4, KVG_VERDICT_FAIL, "output k_codes: 1 bytes written past the end, first at +60000"},
        {5, KVG_VERDICT_FAIL, "input k was written"},
        {6, KVG_VERDICT_FAIL, "fake device: failed late"},
        {7, KVG_VERDICT_FAIL, "fake device: no workspace"},
        {8, KVG_VERDICT_CRASH, "fake device: broken"},
        {9, KVG_VERDICT_FAIL, "bytes were never written"},
        {10, KVG_VERDICT_PASS, ""},
        {1, KVG_VERDICT_PASS, ""},
        {1, KVG_VERDICT_PASS, ""},
        {11, KVG_VERDICT_PASS, ""},
        {11, KVG_VERDICT_PASS, ""},
        {12, KVG_VERDICT_PASS, ""},
    };
    planted_run(PLANTED "fake_device.json", OUT, 1, expected, sizeof expected / sizeof expected[0], NULL);
    assert_true(planted_logged(OUT, "fake device: all is released"));
}

/* A file with holes is not filled anew, nor is one made for tensors without bytes. */
static void test_shared_memory_of_holes_and_of_nothing(void **state)
{
    (void)state;
    uint8_t byte = 1;
    const kvg_tensor hole = {.bytes = 100000}, nothing = {.data = &byte}, one = {.data = &byte, .bytes = 1};
    const kvg_tensor *calls[] = {&one, &hole, &hole, &nothing, &nothing, &hole, &one, &nothing, &one};
    kvg_arena arena = {0};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        kvg_arena_plan plan;
        kvg_arena_plan_make(calls[i], 1, 0, &plan);
        assert_int_equal(kvg_arena_make(&plan, &arena), KVG_OK);
        assert_int_equal(kvg_arena_check(&arena, 0), KVG_OK);
        uint8_t *data = kvg_arena_data(&arena, 0);
        assert_int_equal(data != NULL, calls[i]->bytes > 0);
        if (calls[i] == &hole) assert_int_equal(kvg_arena_first_nonzero(&arena, 0), hole.bytes);
        if (data) data[0] = 1;
    }
    kvg_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_memory_of_holes_and_of_nothing),
        cmocka_unit_test(test_wrong_tables_are_refused_with_their_own_message),
        cmocka_unit_test(test_older_and_newer_plugins_are_opened),
        cmocka_unit_test(test_malformed_capability_files_are_refused_with_their_own_message),
        cmocka_unit_test(test_a_claim_covers_a_case_whole_or_not_at_all),
        cmocka_unit_test(test_a_claim_covers_a_layout_of_ones_own),
        cmocka_unit_test(test_libraries_that_do_not_open_cost_their_cases_alone),
        cmocka_unit_test(test_what_a_plugin_does_costs_its_case_alone),
        cmocka_unit_test(test_a_confined_plugin_does_not_get_hold_of_its_judge),
        cmocka_unit_test(test_memory_that_the_host_cannot_reach),
        /* the last: it starts threads, which no fork survives */
        cmocka_unit_test(test_the_search_for_the_answer_finds_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
