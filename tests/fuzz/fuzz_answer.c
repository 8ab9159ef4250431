/* Any bytes as an answer to the good pack. What is read is judged: every case has a verdict, what passes passes by the
 * single-file reader's own judgement, too, and the other way round. What is refused leaves one line with the file's
 * name. Every 64th size asks for a diagnosis as well. */
#define KVGOLD_PACK_IMPLEMENTATION
#include "golden/reader/kvgold_pack.h"

#include "harness/pack/compare.h"
#include "tests/fuzz/fuzz_require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define GOOD KVG_SOURCE_DIR "/golden/bad/packs/good"

static kvg_pack *pack;     /* as kvgold reads it */
static kvgold_pack *alone; /* as the single-file reader does */
static char answer_path[] = "/tmp/kvgold-fuzz-answer-XXXXXX";
static int answer_file = -1;

static void end(void)
{
    kvg_pack_close(pack);
    kvgold_pack_close(alone);
    close(answer_file);
    unlink(answer_path);
}

static void start(void)
{
    char error[KVGOLD_ERROR_SIZE];
    if (pack) return;
    require(kvg_pack_open(GOOD, &pack) == KVG_OK);
    alone = kvgold_pack_open(GOOD, error);
    require(alone != NULL);
    answer_file = mkstemp(answer_path);
    require(answer_file >= 0);
    atexit(end);
}

static void check_text(const char *text, const char *contains)
{
    require(text[0] && strstr(text, contains) != NULL);
    require_line(text);
}

/* What the single-file reader says of one tensor of the file. */
static kvgold_result judged_alone(const kvgold_answer *a, const kvg_safetensors *file, bool bits)
{
    const kvg_safetensors_entry *e = NULL;
    kvgold_report report;
    require(kvg_safetensors_find(file, a->name, &e) == KVG_OK);
    const bool alike = strcmp(e->dtype, a->dtype) == 0 && e->rank == a->rank &&
                       memcmp(e->shape, a->shape, a->rank * sizeof a->shape[0]) == 0;
    return alike ? kvgold_compare(a, e->data, e->bytes, bits, &report) : KVGOLD_FAIL;
}

/* A wholly answered case: tensor by tensor. */
static void check_case(const kvg_compared_case *c, const kvgold_case *other, const kvg_safetensors *file, bool bits)
{
    bool right = true;
    require(c->tensor_count == other->answer_count);
    for (size_t i = 0; i < c->tensor_count; i++) {
        const kvg_compared_tensor *t = &c->tensors[i];
        const kvgold_result result = judged_alone(&other->answer[i], file, bits && other->answer[i].profile);
        if (t->verdict == KVG_VERDICT_PASS) require(result == KVGOLD_PASS && t->wrong == 0 && !t->reason[0]);
        else check_text(t->reason, "");
        if (result == KVGOLD_PASS) require(t->verdict == KVG_VERDICT_PASS);
        right = right && t->verdict == KVG_VERDICT_PASS;
    }
    require((c->verdict == KVG_VERDICT_PASS) == right);
}

static void check_comparison(const kvg_comparison *c, const kvg_safetensors *file)
{
    uint64_t counted = 0;
    require(c->case_count == pack->case_count);
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) counted += c->counts[i];
    require(counted == c->case_count);
    for (size_t i = 0; i < c->case_count; i++) {
        const kvgold_case *other = &alone->cases[i];
        size_t given = 0;
        for (size_t k = 0; k < other->answer_count; k++) {
            const kvg_safetensors_entry *e = NULL;
            given += kvg_safetensors_find(file, other->answer[k].name, &e) == KVG_OK;
        }
        if (given == 0) require(c->cases[i].verdict == KVG_VERDICT_SKIP);
        else if (given < other->answer_count) require(c->cases[i].verdict == KVG_VERDICT_FAIL);
        else if (other->stored) check_case(&c->cases[i], other, file, c->bits);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const kvg_compare_options options = {.bits = size & 1, .why = size % 64 == 0, .pairs = 2};
    kvg_comparison comparison;
    kvg_safetensors *file = NULL;
    start();
    require(ftruncate(answer_file, 0) == 0 && pwrite(answer_file, data, size, 0) == (ssize_t)size);
    const kvg_status s = kvg_compare(pack, answer_path, &options, NULL, NULL, &comparison);
    if (s == KVG_OK) {
        require(kvg_safetensors_parse("answer", data, size, &file) == KVG_OK);
        check_comparison(&comparison, file);
        kvg_safetensors_close(file);
    } else {
        require(s == KVG_ERR_INVALID || (s == KVG_ERR_IO && size == 0));
        check_text(kvg_error_text(), answer_path);
    }
    kvg_comparison_free(&comparison);
    return 0;
}
