/* Any bytes as one file of a golden pack: a manifest, a prompt, expected tensors or a provenance, told apart by what is
 * in them. The other files are those of the good pack, and the hashes are made to hold, so that the file itself is
 * judged. kvgold's reader and the single-file one must come to the same verdict; what they take keeps every promise of
 * their headers, what they refuse leaves one line. */
#define KVGOLD_PACK_IMPLEMENTATION
#define KVGOLDP_CHUNK ((size_t)0) /* every allocation its own: sanitizers see its end */
#include "golden/reader/kvgold_pack.h"

#include "golden/pack.h"
#include "tests/fuzz/fuzz_require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define GOOD KVG_SOURCE_DIR "/golden/bad/packs/good"

static const char *const names[KVGOLD_FILES] = {"manifest.json",        "manifest.sha256", "prompt.safetensors",
                                                "expected.safetensors", "provenance.json", "provenance.sha256"};
static kvgold_file good[KVGOLD_FILES];
static char folder[] = "/tmp/kvgold-fuzz-pack-XXXXXX";

static kvgold_file read_good(const char *name)
{
    char path[1024];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", GOOD, name);
    FILE *f = fopen(path, "rb");
    require(f && fstat(fileno(f), &about) == 0);
    char *bytes = malloc((size_t)about.st_size + 1);
    require(bytes && fread(bytes, 1, (size_t)about.st_size, f) == (size_t)about.st_size);
    bytes[about.st_size] = '\0';
    fclose(f);
    return (kvgold_file){bytes, (size_t)about.st_size};
}

static void remove_folder(void)
{
    char path[1024];
    for (int i = 0; i < KVGOLD_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

static void start(void)
{
    if (good[0].data) return;
    for (int i = 0; i < KVGOLD_FILES; i++) good[i] = read_good(names[i]);
    require(mkdtemp(folder) != NULL);
    atexit(remove_folder);
}

static bool contains(const uint8_t *data, size_t size, const char *text)
{
    const size_t length = strlen(text);
    for (size_t i = 0; i + length <= size; i++) {
        if (memcmp(data + i, text, length) == 0) return true;
    }
    return false;
}

static int which_file(const uint8_t *data, size_t size)
{
    if (size > 0 && (data[0] == '{' || data[0] == ' ')) {
        return contains(data, size, "kvgold_pack") ? KVGOLD_MANIFEST : KVGOLD_PROVENANCE;
    }
    return contains(data, size, "\"case.") ? KVGOLD_PROMPT : KVGOLD_EXPECTED;
}

/* The good manifest with another size and hash of one of its files, which are there once. NULL: no memory. */
static char *renew(int which, const uint8_t *data, size_t size, size_t *length)
{
    char old_sum[65], new_sum[65], old[160], new[160];
    kvgoldp_sha_text(good[which].data, good[which].size, old_sum);
    kvgoldp_sha_text(data, size, new_sum);
    snprintf(old, sizeof old, "\"bytes\": %zu, \"sha256\": \"%s\"", good[which].size, old_sum);
    snprintf(new, sizeof new, "\"bytes\": %zu, \"sha256\": \"%s\"", size, new_sum);
    const char *text = good[KVGOLD_MANIFEST].data, *at = strstr(text, old);
    require(at != NULL);
    char *renewed = malloc(good[KVGOLD_MANIFEST].size + sizeof new);
    if (renewed) *length = (size_t)sprintf(renewed, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    return renewed;
}

static void check_text(const char *text, const char *begin)
{
    require(strncmp(text, begin, strlen(begin)) == 0);
    require_line(text);
}

static unsigned sum_of(const void *data, uint64_t bytes)
{
    unsigned sum = 0;
    for (uint64_t i = 0; i < bytes; i++) sum += ((const uint8_t *)data)[i];
    return sum;
}

static void check_tensors(const kvgold_tensor *list, size_t count, bool stored)
{
    unsigned sum = 0;
    for (size_t i = 0; i < count; i++) {
        require((list[i].data != NULL) == stored && list[i].bytes > 0);
        require(kvgold_tensor_find(list, count, list[i].short_name) == &list[i]);
        if (stored) sum += sum_of(list[i].data, list[i].bytes);
    }
    require(sum < UINT32_MAX); /* every byte was read */
}

static void check_pack(const kvgold_pack *pack, const kvg_pack *ours)
{
    require(pack->case_count == ours->case_count && strcmp(pack->name, ours->name) == 0 && pack->seed == ours->seed);
    for (size_t i = 0; i < pack->case_count; i++) {
        const kvgold_case *c = &pack->cases[i];
        require(strcmp(c->id, ours->cases[i].id) == 0 && c->answer_count == ours->cases[i].answer_count);
        check_tensors(c->prompt, c->prompt_count, c->stored);
        check_tensors(c->expected, c->expected_count, c->stored);
        for (size_t k = 0; k < c->answer_count; k++) {
            const kvgold_answer *a = &c->answer[k];
            kvgold_report report;
            if (!a->expected || !a->expected->data) continue;
            const kvgold_result result = kvgold_compare(a, a->expected->data, a->bytes, true, &report);
            require(result == (a->rule == KVGOLD_BY_RULE ? KVGOLD_SKIP : KVGOLD_PASS));
        }
    }
}

/* Writes what differs from the good pack and from what was written before. */
static void put(const kvgold_file files[KVGOLD_FILES])
{
    static bool is_good[KVGOLD_FILES];
    char path[1024];
    for (int i = 0; i < KVGOLD_FILES; i++) {
        const bool same = files[i].size == good[i].size && memcmp(files[i].data, good[i].data, files[i].size) == 0;
        if (same && is_good[i]) continue;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *f = fopen(path, "wb");
        require(f && fwrite(files[i].data, 1, files[i].size, f) == files[i].size && fclose(f) == 0);
        is_good[i] = same;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kvgold_file files[KVGOLD_FILES];
    char sums[2][128], error[KVGOLD_ERROR_SIZE];
    char *renewed = NULL;
    start();
    const int which = which_file(data, size);
    memcpy(files, good, sizeof files);
    files[which] = (kvgold_file){data, size};
    if (which == KVGOLD_PROMPT || which == KVGOLD_EXPECTED) {
        renewed = renew(which, data, size, &files[KVGOLD_MANIFEST].size);
        if (!renewed) return 0;
        files[KVGOLD_MANIFEST].data = renewed;
    }
    for (int i = 0; i < 2; i++) {
        const int of = i ? KVGOLD_PROVENANCE : KVGOLD_MANIFEST;
        kvgoldp_sha_text(files[of].data, files[of].size, sums[i]);
        snprintf(sums[i] + 64, sizeof sums[i] - 64, "  %s\n", names[of]);
        files[of + 1] = (kvgold_file){sums[i], strlen(sums[i])};
    }
    put(files);
    kvgold_pack *theirs = kvgold_pack_parse(files, error);
    kvg_pack *ours = NULL;
    const kvg_status s = kvg_pack_open(folder, &ours);
    if ((theirs != NULL) != (s == KVG_OK)) {
        fprintf(stderr, "the reader says: %s\nkvgold says: %s\n", theirs ? "good" : error,
                s ? kvg_error_text() : "good");
        abort();
    }
    if (theirs) check_pack(theirs, ours);
    else check_text(error, "pack/");
    if (s) check_text(kvg_error_text(), folder);
    kvgold_pack_close(theirs);
    kvg_pack_close(ours);
    free(renewed);
    return 0;
}
