/* Golden packs: hashes, the writer's files, what a killed writer leaves, and every carried case computed again. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "golden/golden.h"
#include "golden/safetensors_write.h"
#include "harness/pack/golden_case.h"
#include "harness/pack/golden_make.h"
#include "harness/pack/golden_plan.h"
#include "harness/pack/golden_parts.h"
#include "tests/golden/failing_memory.h"

/* --- calls that change what is on the disk, counted by --wrap --- */

static long calls, fatal_call; /* the process dies in call `fatal_call`: before it, or after it if `after` */
static bool after;

static void die_if_now(bool is_after)
{
    if (fatal_call && calls == fatal_call && is_after == after) kill(getpid(), SIGKILL);
}

/* The wrapper of a call: counts it, dies before it, does it, dies after it. */
#define WRAP(type, name, parameters, arguments)       \
    type __real_##name parameters;                    \
    type __wrap_##name parameters;                    \
    type __wrap_##name parameters                     \
    {                                                 \
        calls++;                                      \
        die_if_now(false);                            \
        type const result = __real_##name arguments;  \
        die_if_now(true);                             \
        return result;                                \
    }
WRAP(size_t, fwrite, (const void *data, size_t size, size_t count, FILE *file), (data, size, count, file))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, fclose, (FILE *file), (file))
WRAP(int, renameat2, (int a, const char *from, int b, const char *to, unsigned flags), (a, from, b, to, flags))
WRAP(int, unlinkat, (int fd, const char *name, int flags), (fd, name, flags))
WRAP(int, rmdir, (const char *path), (path))
WRAP(char *, mkdtemp, (char *path), (path))

/* --- folders --- */

static char root[256];
static const char *program; /* this one */

static const char *in_root(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return path;
}

static void run_shell(const char *format, const char *path)
{
    char command[600];
    snprintf(command, sizeof command, format, path);
    assert_int_equal(system(command), 0);
}

static int set_up(void **state)
{
    (void)state;
    /* some thousand calls of fsync: a disk would take most of the time */
    snprintf(root, sizeof root, "%s/test_pack_write-XXXXXX", access("/dev/shm", W_OK) ? KVG_BINARY_DIR : "/dev/shm");
    return __real_mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    run_shell("rm -rf '%s'", root);
    return 0;
}

static const char *write_config(const char *name, unsigned seed)
{
    const char *path = in_root(name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file,
            "{\"kvgold_golden\": 1, \"name\": \"tiny\", \"version\": \"1.0.0\", \"licence\": \"Apache-2.0\", "
            "\"seed\": \"0x%x\", \"notes\": {\"a\": \"b\"}, \"groups\": [{\"flags\": [\"a\"], \"cases\": [{\"op\": "
            "\"append\", \"format\": \"nvfp4\", \"layout\": \"hnd\", \"kv_heads\": 2, \"head_dim\": 64, \"tokens\": 5, "
            "\"block_tokens\": 4, \"fill\": \"random\"}]}]}\n",
            seed);
    assert_int_equal(__real_fclose(file), 0);
    return path;
}

/* The digest of a pack's manifest; all zero where there is no folder. Anything else is a failure. */
static kvg_sha256_digest state_of(const char *path)
{
    kvg_sha256_digest digest = {{0}};
    struct stat st;
    kvg_pack *pack;
    if (stat(path, &st) != 0) return digest;
    if (kvg_pack_open(path, &pack)) fail_msg("half a pack: %s", kvg_error_text());
    digest = pack->manifest;
    kvg_pack_close(pack);
    return digest;
}

/* --- hashes: FIPS 180-4's examples --- */

static void test_sha256(void **state)
{
    static const struct {
        const char *text;
        size_t times;
        const char *digest;
    } known[] = {
        {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        kvg_sha256 sum;
        kvg_sha256_digest digest, parsed;
        char text[KVG_SHA256_TEXT];
        kvg_sha256_init(&sum);
        for (size_t n = 0; n < known[i].times; n++) kvg_sha256_add(&sum, known[i].text, strlen(known[i].text));
        kvg_sha256_end(&sum, &digest);
        kvg_sha256_text(&digest, text);
        assert_string_equal(text, known[i].digest);
        assert_true(kvg_sha256_parse(text, 64, &parsed) && kvg_sha256_same(&digest, &parsed));
        assert_false(kvg_sha256_parse(text, 63, &parsed));
        for (char *c = text; *c; c++) { /* 'A' is no digit, though it differs from 'a' by a bit */
            if (*c < 'a') continue;
            *c = (char)(*c - 'a' + 'A');
            assert_false(kvg_sha256_parse(text, 64, &parsed));
            break;
        }
    }
}

/* --- the writer of safetensors files --- */

static void test_safetensors_writer(void **state)
{
    static const uint64_t shapes[][2] = {{1, 1}, {3, 5}, {16, 16}, {1, 257}, {64, 64}};
    enum { COUNT = sizeof shapes / sizeof shapes[0] };
    kvg_safetensors_writer *w;
    kvg_safetensors *file;
    uint64_t bytes;
    kvg_sha256_digest digest;
    uint8_t data[64 * 64], header[8];
    (void)state;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i % 251 + 1);
    assert_int_equal(kvg_safetensors_writer_make(&w), KVG_OK);
    assert_int_equal(kvg_safetensors_writer_note(w, "key", "a \"text\"\n"), KVG_OK);
    for (size_t i = 0; i < COUNT; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%zu", i);
        assert_int_equal(kvg_safetensors_writer_declare(w, name, "U8", 2, shapes[i]), KVG_OK);
    }
    assert_int_equal(kvg_safetensors_writer_declare(w, "_x", "U8", 2, shapes[0]), KVG_ERR_INVALID);
    assert_int_equal(kvg_safetensors_writer_declare(w, "x", "U7", 2, shapes[0]), KVG_ERR_INVALID);
    assert_int_equal(kvg_safetensors_writer_declare(w, "x", "U8", 2, (uint64_t[]){0, 1}), KVG_ERR_INVALID);
    const char *path = in_root("a.safetensors");
    FILE *out = fopen(path, "wb");
    assert_int_equal(kvg_safetensors_writer_begin(w, out), KVG_OK);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(kvg_safetensors_writer_put(w, data, (size_t)(shapes[i][0] * shapes[i][1])), KVG_OK);
    }
    kvg_safetensors_writer_end(w, &bytes, &digest);
    kvg_safetensors_writer_free(w);
    assert_int_equal(__real_fclose(out), 0);
    assert_int_equal(kvg_safetensors_open(path, &file), KVG_OK);
    assert_string_equal(kvg_safetensors_metadata(file, "key"), "a \"text\"\n");
    out = fopen(path, "rb");
    assert_int_equal(fread(header, 1, 8, out), 8);
    assert_int_equal(__real_fclose(out), 0);
    const uint64_t start = 8 + (header[0] | (uint64_t)header[1] << 8);
    assert_int_equal(start % 256, 0);
    const uint8_t *first = kvg_safetensors_at(file, 0)->data;
    for (size_t i = 0, tensors = 0; i < kvg_safetensors_count(file); i++) {
        const kvg_safetensors_entry *e = kvg_safetensors_at(file, i);
        if (e->name[0] == '_') continue;
        assert_int_equal(((const uint8_t *)e->data - first) % 256, 0);
        assert_memory_equal(e->data, data, e->bytes);
        assert_int_equal(e->bytes, shapes[tensors][0] * shapes[tensors][1]);
        tensors++;
    }
    kvg_safetensors_close(file);
}

static kvg_status make(const char *config, const char *path)
{
    size_t refused;
    const kvg_status s = kvg_golden_make(config, path, true, stdout, &refused);
    assert_int_equal(refused, 0);
    return s;
}

/* --- a killed writer --- */

/* What a writer process does, whose arguments are DIE CALL AFTER CONFIG FOLDER. */
static int write_and_die(char **arguments)
{
    fatal_call = atol(arguments[0]);
    size_t refused;
    after = strcmp(arguments[1], "after") == 0;
    return kvg_golden_make(arguments[2], arguments[3], true, stdout, &refused) ? 1 : 0;
}

/* Runs a writer that dies at call `at`; true if it lived. A new program: libgomp's threads do not survive a fork. */
static bool survives(const char *config, const char *path, long at, bool dies_after)
{
    char number[24];
    int status;
    snprintf(number, sizeof number, "%ld", at);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl(program, program, "DIE", number, dies_after ? "after" : "before", config, path,
              (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return false;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return true;
}

/* Nothing but the pack and siblings whose names start with a dot. */
static void check_siblings(const char *folder)
{
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] != '.' && strcmp(e->d_name, "pack") != 0) fail_msg("left behind: %s", e->d_name);
    }
    closedir(d);
}

/* Every call that a writer makes is its last one, once before it acts and once after. */
static void kill_everywhere(bool with_old)
{
    const char *old_config = write_config("old.json", 1), *new_config = write_config("new.json", 2);
    const char *folder = in_root("kill"), *path = in_root("kill/pack"), *reference = in_root("reference");
    kvg_sha256_digest was = {{0}}, is;
    bool lived = false;
    size_t points = 0, kept = 0;
    assert_int_equal(make(new_config, reference), KVG_OK);
    const kvg_sha256_digest wanted = state_of(reference);
    for (long at = 1; !lived; at++) {
        for (int dies_after = 0; dies_after < 2; dies_after++) {
            run_shell("rm -rf '%s'", folder);
            assert_int_equal(mkdir(folder, 0755), 0);
            if (with_old) assert_int_equal(make(old_config, path), KVG_OK);
            was = state_of(path);
            lived = survives(new_config, path, at, dies_after != 0);
            is = state_of(path);
            if (!kvg_sha256_same(&is, &was) && !kvg_sha256_same(&is, &wanted)) {
                fail_msg("call %ld: neither old nor new", at);
            }
            if (lived) assert_true(kvg_sha256_same(&is, &wanted));
            check_siblings(folder);
            kept += kvg_sha256_same(&is, &was);
            points += !lived;
        }
    }
    assert_false(kvg_sha256_same(&was, &wanted));
    assert_true(kept > 10 && kept < points); /* some died before, some after the one moment that counts */
    print_message("killed at %zu points, %zu of them left the old state\n", points, kept);
}

static void test_killed_first(void **state)
{
    (void)state;
    kill_everywhere(false);
}

static void test_killed_again(void **state)
{
    (void)state;
    kill_everywhere(true);
}

/* --- what a pack replaces --- */

static void test_replaces_packs_only(void **state)
{
    const char *config = write_config("one.json", 3), *folder = in_root("mine");
    (void)state;
    assert_int_equal(mkdir(folder, 0755), 0);
    run_shell("echo x > '%s/notes.txt'", folder);
    assert_int_equal(make(config, folder), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "notes.txt"));
    run_shell("test \"$(cat '%s/notes.txt')\" = x", folder);
    assert_int_equal(make(config, in_root("one.json")), KVG_ERR_INVALID); /* a file */
    assert_int_equal(make(config, in_root("none/pack")), KVG_ERR_IO);
    run_shell("rm '%s/notes.txt'", folder);
    assert_int_equal(make(config, folder), KVG_OK); /* an empty folder */
    run_shell("test $(ls -A '%s' | grep -c tmp-) = 0", root);
}

/* --- a case's line gives the case back: every case of these configs, whatever it is made of --- */

static size_t check_lines(const char *path)
{
    kvg_config config;
    size_t checked = 0;
    if (kvg_config_open(path, NULL, NULL, &config)) fail_msg("%s", kvg_error_text());
    assert_int_equal(kvg_config_use_backend(&config, "reference"), KVG_OK);
    for (size_t i = 0; i < config.case_count; i++) {
        kvg_json_text line = {0}, whole = {0};
        kvg_config again;
        const kvg_case *c = &config.cases[i];
        if (c->fill == KVG_FILL_CAPTURE || c->far_blocks) {
            assert_int_equal(kvg_config_line(c, &line), KVG_ERR_INVALID);
            kvg_json_text_free(&line);
            continue;
        }
        assert_int_equal(kvg_config_line(c, &line), KVG_OK);
        kvg_json_add(&whole, "{\"kvgold\": 1, \"name\": \"a\", \"seed\": \"0x1\", \"cases\": [%s]}",
                     line.text);
        if (kvg_config_parse("line", whole.text, whole.size, ".", NULL, &again)) {
            fail_msg("%s: %s", c->id, kvg_error_text());
        }
        assert_int_equal(again.case_count, 1);
        assert_string_equal(again.cases[0].id, c->id);
        const kvg_paging *g = &again.cases[0].problem.paging; /* its layer is the one of docs/spec/golden-pack.md */
        const bool paged = kvg_layout_get(c->problem.layout)->paged;
        assert_int_equal(g->layer, paged ? (c->problem.tokens + g->block_tokens) % g->layers : 0);
        kvg_config_close(&again);
        kvg_json_text_free(&whole);
        kvg_json_text_free(&line);
        checked++;
    }
    kvg_config_close(&config);
    return checked;
}

static void test_lines(void **state)
{
    static const char *const names[] = {"formats", "layouts", "attention", "rope", "relations", "mma"};
    size_t checked = 0;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/configs/ci_%s.json", KVG_SOURCE_DIR, names[i]);
        checked += check_lines(path);
    }
    assert_true(checked > 2000);
    print_message("%zu lines\n", checked);
}

/* --- carried packs --- */

static kvg_pack *open_carried(const char *path)
{
    kvg_pack *pack;
    if (kvg_pack_open(path, &pack)) fail_msg("%s", kvg_error_text());
    return pack;
}

/* Memory that runs out anywhere is an error of that name, and nothing stays behind. Calls are many: every twentieth,
 * and all of the first hundred. */
static void test_no_memory(void **state)
{
    kvg_pack *pack = NULL;
    kvg_status s = KVG_ERR_MEMORY;
    size_t tried = 0;
    (void)state;
    failing_memory_start();
    for (int n = 0; s; n += n < 100 ? 1 : 20, tried++) {
        allocations_left = n;
        s = kvg_pack_open(KVG_SOURCE_DIR "/golden/data/packs/vllm_hnd", &pack);
        if (s && s != KVG_ERR_MEMORY) fail_msg("call %d: %s", n, kvg_error_text());
        if (s) assert_null(pack);
        if (s) assert_int_equal(allocations_live, 0);
    }
    kvg_pack_close(pack);
    assert_int_equal(allocations_live, 0);
    assert_true(tried > 100); /* some of the later calls, too */
    cJSON_InitHooks(NULL);
}

/* A carried pack has the cases that its config gives: a list that follows a table would grow with it. */
static void expect_cases_of_config(const kvg_pack *pack)
{
    char path[512];
    kvg_golden_plan plan;
    snprintf(path, sizeof path, KVG_SOURCE_DIR "/configs/pack_%s.json", pack->name);
    if (kvg_golden_plan_read(path, &plan)) fail_msg("%s", kvg_error_text());
    assert_int_equal(plan.pack->case_count, pack->case_count);
    for (size_t n = 0; n < pack->case_count; n++) assert_string_equal(plan.pack->cases[n].id, pack->cases[n].id);
    kvg_golden_plan_free(&plan);
}

/* Every case, from its line; and the smallest change of a digest is noticed, in a recipe as in a stored case. */
static void test_cases(void **state)
{
    glob_t packs;
    size_t cases = 0, bytes = 0;
    (void)state;
    assert_int_equal(glob(KVG_SOURCE_DIR "/golden/data/packs/*/manifest.json", 0, NULL, &packs), 0);
    for (size_t i = 0; i < packs.gl_pathc; i++) {
        const char *manifest = packs.gl_pathv[i];
        char folder[512];
        struct stat st;
        snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(manifest, '/') - manifest), manifest);
        kvg_pack *pack = open_carried(folder);
        assert_int_equal(stat(manifest, &st), 0);
        bytes += pack->prompt_bytes + pack->expected_bytes + (size_t)st.st_size;
        expect_cases_of_config(pack);
        for (size_t n = 0; n < pack->case_count; n++, cases++) {
            kvg_pack_case *c = &pack->cases[n];
            kvg_golden_case computed;
            if (kvg_golden_case_open(pack, c, &computed)) fail_msg("%s", kvg_error_text());
            for (size_t a = 0; a < c->answer_count; a++) {
                const kvg_pack_tensor *expected = c->answer[a].expected;
                const int output = kvg_golden_case_output(&computed, c->answer[a].short_name);
                assert_in_range(output, 0, computed.truth.expected.count - 1);
                if (!expected || !expected->data) continue;
                assert_memory_equal(expected->data, computed.truth.expected.tensors[output].data, expected->bytes);
            }
            kvg_golden_case_free(&computed);
        }
        kvg_pack_case *last = &pack->cases[pack->case_count - 1];
        kvg_golden_case computed;
        last->expected[last->expected_count - 1].sha256.bytes[31] ^= 1;
        assert_int_equal(kvg_golden_case_open(pack, last, &computed), KVG_ERR_INVALID);
        kvg_golden_case_free(&computed);
        kvg_pack_close(pack);
    }
    globfree(&packs);
    assert_true(cases > 100);
    assert_true(bytes <= 5 << 19); /* what the repository carries */
    print_message("%zu cases, %zu bytes\n", cases, bytes);
}

int main(int argc, char **argv)
{
    program = argv[0];
    if (argc == 6 && strcmp(argv[1], "DIE") == 0) return write_and_die(argv + 2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha256),
        cmocka_unit_test(test_safetensors_writer),
        cmocka_unit_test(test_killed_first),
        cmocka_unit_test(test_killed_again),
        cmocka_unit_test(test_replaces_packs_only),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_cases),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
