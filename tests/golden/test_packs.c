/* Carried packs: good ones are read alike by kvgold and by the single-file reader, bad ones are refused by both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "golden/pack.h"
#include "harness/pack/golden_make.h"
#include "tests/golden/pack_files.h"

#define SCRATCH KVG_BINARY_DIR "/scratch_packs"

/* --- packs that must be refused --- */

/* The line of expect_packs.txt for a pack: who must refuse it, and with what. */
static bool is_listed(const char *name, char who[16], char text[256])
{
    char line[512];
    bool found = false;
    FILE *list = fopen(PACKS_BAD "/expect_packs.txt", "r");
    if (!list) fail_msg("cannot read %s/expect_packs.txt", PACKS_BAD);
    while (!found && fgets(line, sizeof line, list)) {
        char listed[128] = "";
        text[0] = '\0';
        found = sscanf(line, "%127[^\t]\t%15[^\t]\t%255[^\n]", listed, who, text) == 3 && strcmp(listed, name) == 0;
    }
    fclose(list);
    return found;
}

/* Hashes hold, the tensors do not: what `kvgold golden verify` does. */
static void check_regenerated(const char *path, const char *text)
{
    kvg_pack *pack = NULL;
    char *printed = NULL;
    size_t size = 0, computed = 0, failures = 0;
    assert_int_equal(kvg_pack_open(path, &pack), KVG_OK);
    FILE *out = open_memstream(&printed, &size);
    assert_non_null(out);
    const kvg_status s = kvg_golden_regenerate(pack, out, &computed, &failures);
    if (s) fprintf(out, "%s\n", kvg_error_text());
    fclose(out);
    if (!s && failures == 0) fail_msg("%s: is verified, though it is wrong", path);
    if (!strstr(printed, text)) fail_msg("%s: '%s' is not in what verify says:\n%s", path, text, printed);
    free(printed);
    kvg_pack_close(pack);
}

static void check_bad(const char *path, const char *name, void *context)
{
    size_t *refused = context;
    char who[16], text[256];
    if (strcmp(name, "good") == 0) return;
    if (!is_listed(name, who, text)) fail_msg("%s is not listed in expect_packs.txt: run make_bad_packs.py", path);
    const pack_verdict v = pack_files_judge(path);
    const bool open = strcmp(who, "open") == 0;
    if (v.kvgold == open) fail_msg("%s: kvgold says: %s", path, v.kvgold ? "good" : v.kvgold_text);
    if (v.reader == open) fail_msg("%s: the reader says: %s", path, v.reader ? "good" : v.reader_text);
    if (open && !strstr(v.kvgold_text, text)) fail_msg("%s: '%s' is not in '%s'", path, text, v.kvgold_text);
    if (!open) check_regenerated(path, text);
    ++*refused;
}

static void test_bad_packs(void **state)
{
    (void)state;
    size_t refused = 0, listed = 0;
    MADE_FILES_NEEDED();
    FILE *list = fopen(PACKS_BAD "/expect_packs.txt", "r");
    assert_non_null(list);
    for (int c = getc(list); c != EOF; c = getc(list)) listed += c == '\n';
    fclose(list);
    pack_files_each(PACKS_BAD, check_bad, &refused);
    assert_int_equal(refused, listed);
    assert_true(refused > 150);
    print_message("%zu bad packs refused\n", refused);
}

/* --- what no repository can hold, or only in many copies --- */

static void expect_refused(const char *what, const char *text)
{
    const pack_verdict v = pack_files_judge(SCRATCH);
    if (v.kvgold || v.reader) fail_msg("%s: taken by %s", what, v.kvgold ? "kvgold" : "the reader");
    if (!strstr(v.kvgold_text, text)) fail_msg("%s: '%s' is not in '%s'", what, text, v.kvgold_text);
}

static void test_spoilt_files(void **state)
{
    (void)state;
    char path[1024], aside[1024];
    for (int i = 0; i < KVGOLD_FILES; i++) {
        const char *name = pack_file_names[i];
        snprintf(path, sizeof path, "%s/%s", SCRATCH, name);
        snprintf(aside, sizeof aside, "%s/aside", SCRATCH);
        pack_files_copy_good(SCRATCH);
        assert_int_equal(rename(path, aside), 0);
        expect_refused("a missing file", "No such file");
        assert_int_equal(symlink("aside", path), 0);
        expect_refused("a link to the right bytes", "is a symbolic link");
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkdir(path, 0777), 0);
        expect_refused("a folder", name);
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(mkfifo(path, 0666), 0);
        expect_refused("a pipe", name);
        assert_int_equal(unlink(path), 0);
        pack_files_write(SCRATCH, name, "", 0);
        expect_refused("an empty file", "is empty");
        assert_int_equal(truncate(path, (off_t)100 << 30), 0); /* holes: takes no space */
        expect_refused("a huge file", name);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(unlink(aside), 0);
    }
}

static void test_other_files_are_ignored(void **state)
{
    (void)state;
    pack_files_copy_good(SCRATCH);
    pack_files_write(SCRATCH, "notes.txt", "mine\n", 5);
    const pack_verdict v = pack_files_judge(SCRATCH);
    if (!v.kvgold || !v.reader) fail_msg("refused: %s%s", v.kvgold_text, v.reader_text);
    assert_int_equal(unlink(SCRATCH "/notes.txt"), 0);
    assert_int_equal(chmod(SCRATCH "/manifest.json", 0), 0);
    if (geteuid() != 0) expect_refused("a file without permission", "manifest.json: cannot open");
    assert_int_equal(chmod(SCRATCH "/manifest.json", 0644), 0);
}

/* Section 8: it is for people; readers check that it is a JSON object, no more. */
static void test_any_provenance(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "{\"separations\": 1}",
        "{\"separations\": []}",
        "{\"separations\": {\"0001\": {\"unit\": \"bits\"}}}",
        "{\"separations\": {\"0009\": {\"unit\": \"bits\", \"least\": 1, \"nearest\": \"x\"}}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        kvg_sha256_digest digest;
        char line[128];
        pack_files_copy_good(SCRATCH);
        kvg_sha256_of(texts[i], strlen(texts[i]), &digest);
        kvg_sha256_text(&digest, line);
        memcpy(line + 64, "  provenance.json\n", 19);
        pack_files_write(SCRATCH, "provenance.json", texts[i], strlen(texts[i]));
        pack_files_write(SCRATCH, "provenance.sha256", line, strlen(line));
        const pack_verdict v = pack_files_judge(SCRATCH);
        if (!v.kvgold || !v.reader) fail_msg("%s: %s%s", texts[i], v.kvgold_text, v.reader_text);
    }
}

static void test_links_to_the_folder(void **state)
{
    (void)state;
    char error[KVGOLD_ERROR_SIZE];
    kvg_pack *pack = NULL;
    const char *const links[] = {SCRATCH "-link", SCRATCH "-link/", SCRATCH "-link//"};
    pack_files_copy_good(SCRATCH);
    (void)unlink(SCRATCH "-link");
    assert_int_equal(symlink(SCRATCH, SCRATCH "-link"), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kvg_pack_open(links[i], &pack), KVG_ERR_IO);
        assert_non_null(strstr(kvg_error_text(), "is a symbolic link"));
        assert_null(kvgold_pack_open(links[i], error));
        assert_non_null(strstr(error, "a symbolic link"));
    }
    assert_int_equal(unlink(SCRATCH "-link"), 0);
    assert_null(kvgold_pack_open(SCRATCH "/manifest.json", error));
    assert_null(kvgold_pack_open("", error));
    kvgold_pack *slash = kvgold_pack_open(SCRATCH "/", error);
    if (!slash) fail_msg("%s", error);
    kvgold_pack_close(slash);
}

/* --- packs that must be taken --- */

static void same_list(const kvg_pack_tensor *a, const kvgold_tensor *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(a[i].name, b[i].name);
        assert_string_equal(a[i].short_name, b[i].short_name);
        assert_string_equal(a[i].dtype, b[i].dtype);
        assert_int_equal(a[i].rank, b[i].rank);
        assert_memory_equal(a[i].shape, b[i].shape, a[i].rank * sizeof a[i].shape[0]);
        assert_int_equal(a[i].bytes, b[i].bytes);
        assert_int_equal(!a[i].data, !b[i].data);
        if (a[i].data) assert_memory_equal(a[i].data, b[i].data, a[i].bytes);
        if (b[i].data) assert_int_equal((uintptr_t)b[i].data % 256, 0);
        for (int side = 0; side < 2; side++) {
            assert_int_equal(!a[i].packing.side[side], !b[i].packing[side]);
            if (b[i].packing[side]) assert_string_equal(a[i].packing.side[side], b[i].packing[side]);
        }
    }
}

/* What is expected is right by its own rule; with one byte changed bits are not. */
static void check_answer(const kvg_pack_answer *ours, const kvgold_answer *a, size_t *judged)
{
    kvgold_report report;
    assert_string_equal(ours->name, a->name);
    assert_string_equal(ours->dtype, a->dtype);
    assert_int_equal(ours->bytes, a->bytes);
    static const kvg_pack_compare rules[] = {
        [KVGOLD_BITS] = KVG_PACK_BITS, [KVGOLD_BY_RULE] = KVG_PACK_RULE, [KVGOLD_BOUND] = KVG_PACK_BOUND};
    assert_int_equal(ours->compare, rules[a->rule]);
    assert_int_equal(!ours->profile, !a->profile);
    const kvgold_tensor *expected = a->expected;
    if (!expected || !expected->data || a->rule == KVGOLD_BY_RULE) return;
    if (a->rule == KVGOLD_BOUND) { /* a profile's answer keeps its own bound */
        if (kvgold_compare(a, expected->data, a->bytes, false, &report) == KVGOLD_FAIL) fail_msg("%s", report.text);
    }
    assert_int_equal(kvgold_compare(a, expected->data, a->bytes, true, &report), KVGOLD_PASS);
    uint8_t *wrong = malloc(a->bytes);
    assert_non_null(wrong);
    memcpy(wrong, expected->data, a->bytes);
    wrong[a->bytes - 1] ^= 0x80; /* the sign of the last number: a NaN stays one */
    const bool nan = a->rule == KVGOLD_BOUND && kvgold_compare(a, wrong, a->bytes, true, &report) == KVGOLD_PASS;
    if (!nan) {
        assert_int_equal(kvgold_compare(a, wrong, a->bytes, true, &report), KVGOLD_FAIL);
        assert_int_equal(report.wrong, 1);
        assert_int_equal(report.first, a->bytes - 1);
    }
    assert_int_equal(kvgold_compare(a, wrong, a->bytes - 1, true, &report), KVGOLD_FAIL);
    free(wrong);
    ++*judged;
}

static void check_good(const char *path, const char *name, void *context)
{
    size_t *judged = context;
    kvg_pack *ours = NULL;
    char error[KVGOLD_ERROR_SIZE];
    print_message("%s\n", name);
    if (kvg_pack_open(path, &ours) != KVG_OK) fail_msg("%s", kvg_error_text());
    kvgold_pack *theirs = kvgold_pack_open(path, error);
    if (!theirs) fail_msg("%s", error);
    assert_string_equal(ours->name, theirs->name);
    assert_string_equal(ours->version, theirs->version);
    assert_string_equal(ours->licence, theirs->licence);
    assert_int_equal(ours->seed, theirs->seed);
    assert_int_equal(ours->case_count, theirs->case_count);
    for (size_t i = 0; i < ours->case_count; i++) {
        const kvg_pack_case *a = &ours->cases[i];
        const kvgold_case *b = &theirs->cases[i];
        assert_string_equal(a->key, b->key);
        assert_string_equal(a->id, b->id);
        assert_int_equal(a->layer, b->layer);
        assert_int_equal(a->stored, b->stored);
        assert_int_equal(a->flag_count, b->flag_count);
        assert_int_equal(a->has_erratum, b->erratum != NULL);
        assert_int_equal(a->prompt_count, b->prompt_count);
        assert_int_equal(a->expected_count, b->expected_count);
        assert_int_equal(a->answer_count, b->answer_count);
        same_list(a->prompt, b->prompt, a->prompt_count);
        same_list(a->expected, b->expected, a->expected_count);
        for (size_t k = 0; k < a->answer_count; k++) check_answer(&a->answer[k], &b->answer[k], judged);
    }
    kvgold_pack_close(theirs);
    kvg_pack_close(ours);
}

static void test_good_packs(void **state)
{
    (void)state;
    size_t judged = 0;
    check_good(PACK_GOOD, "good", &judged);
    assert_int_equal(judged, 6);
    if (access(PACKS_CARRIED, R_OK) == 0) pack_files_each(PACKS_CARRIED, check_good, &judged);
    print_message("%zu answers judged\n", judged);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_packs),
        cmocka_unit_test(test_spoilt_files),
        cmocka_unit_test(test_other_files_are_ignored),
        cmocka_unit_test(test_any_provenance),
        cmocka_unit_test(test_links_to_the_folder),
        cmocka_unit_test(test_good_packs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
