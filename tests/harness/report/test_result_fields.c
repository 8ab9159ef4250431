/* The table of a result's fields: docs/reference/results.md follows from it, and each record comes back as it was
 * written. With --print the program prints the page. */
#define _POSIX_C_SOURCE 200809L
#include "model/guest/generate_guest.h"
#include "harness/report/result_record.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness/case/result.h"
#include "harness/config/config.h"
#include "harness/report/result_line.h"

static const char page_path[] = KVG_SOURCE_DIR "/docs/reference/results.md";

/* --- the page --- */

static const char *const type_words[KVG_FIELD_TYPES] = {
    [KVG_FIELD_COUNT] = "integer", [KVG_FIELD_NUMBER] = "number", [KVG_FIELD_FLAG] = "boolean",
    [KVG_FIELD_TEXT] = "text", [KVG_FIELD_WORDS] = "text", [KVG_FIELD_SET] = "set",
    [KVG_FIELD_NAMES] = "list of names", [KVG_FIELD_VERDICT] = "verdict", [KVG_FIELD_PART] = "part",
};

static const char introduction[] =
    "# The fields of a result\n"
    "\n"
    "`kvgold check` writes results.jsonl, one JSON object per line. The tables of\n"
    "`harness/case/result_fields.c` have a row for each field of a case, and those of\n"
    "`model/generate/quality_fields.c` for the fields that op generate has besides. The writer, the\n"
    "reader and this page follow from them; the test `unit.result_fields` compares them with this page,\n"
    "and `test_result_fields --print` prints it again.\n"
    "\n"
    "| type | in the file |\n"
    "| --- | --- |\n"
    "| integer | a number without a fraction, 0 or more |\n"
    "| number | a number, or the text \"inf\", \"-inf\" or \"nan\" |\n"
    "| boolean | `true` or `false` |\n"
    "| text | a string |\n"
    "| set | 64 hex digits, byte 0 first: bit i of byte j stands for code 8 j + i |\n"
    "| list of names | an array of strings |\n"
    "| verdict | the name of a verdict, as a string |\n"
    "| part | an object, or a list of objects, with fields of its own below |\n"
    "\n"
    "A field that is not written always is left out where there is none.\n"
    "\n"
    "A file begins with a line of type `run` and ends with one of type `end`:\n"
    "\n"
    "    {\"type\":\"run\",\"kvgold\":2,\"version\":\"0.1.0\",\"config\":\"configs/a.json\",\"name\":\"a\",\n"
    "     \"seed\":\"0x5eed\",\"public_seed\":true,\"shard\":\"1/2\",\"cases\":12,\"config_cases\":25,\n"
    "     \"origins\":[{...}]}\n"
    "    {\"type\":\"end\",\"interrupted\":false,\"seconds\":3.25,\"cells\":3,\"cells_judged\":3,\"PASS\":12}\n"
    "\n"
    "The number `kvgold` is the layout of the file. A reader refuses a layout that it does not know.\n"
    "A seed is public where the config has it: answers to its questions may have been prepared.\n";

/* The records of the judge, then those of its guest; NULL behind the last. */
static const kvg_record *record_at(size_t index)
{
    const kvg_guest *guest = &kvg_generate_guest;
    if (index < KVG_RECORDS) return kvg_record_get((kvg_record_id)index);
    return index - KVG_RECORDS < guest->record_count ? &guest->records[index - KVG_RECORDS] : NULL;
}

static void print_record(const kvg_record *r, FILE *out)
{
    fprintf(out, "\n## %s\n\n%s\n\n| field | type | unit | written | meaning |\n| --- | --- | --- | --- | --- |\n",
            r->title, r->meaning);
    for (size_t i = 0; i < r->count; i++) {
        const kvg_field *f = &r->fields[i];
        fprintf(out, "| `%s` | %s | %s | %s | %s |\n", f->key, type_words[f->type], f->unit,
                f->when == KVG_FIELD_ALWAYS ? "always" : "if there is one", f->meaning);
    }
}

static void print_page(FILE *out)
{
    fputs(introduction, out);
    for (size_t i = 0; record_at(i); i++) print_record(record_at(i), out);
}

static void page_is_the_table(void **state)
{
    (void)state;
    char *page = NULL, line[512];
    size_t size, at = 0;
    FILE *made = open_memstream(&page, &size), *tracked = fopen(page_path, "r");
    assert_non_null(made);
    print_page(made);
    assert_int_equal(fclose(made), 0);
    if (!tracked) fail_msg("%s is missing: make it with test_result_fields --print", page_path);
    for (int number = 1; fgets(line, sizeof line, tracked); number++) {
        const size_t length = strlen(line);
        if (at + length <= size && memcmp(page + at, line, length) == 0) at += length;
        else fail_msg("%s:%d is not what the table says: make it with test_result_fields --print", page_path, number);
    }
    if (at != size) fail_msg("%s ends early: make it with test_result_fields --print", page_path);
    fclose(tracked);
    free(page);
}

/* --- what a table must be --- */

static void expect_once(const char *key, const char *const *keys, size_t count, const char *title)
{
    size_t found = 0;
    for (size_t i = 0; i < count; i++) found += strcmp(keys[i], key) == 0;
    if (found > (size_t)1) fail_msg("field '%s' of '%s' has %zu rows", key, title, found);
}

static void a_key_has_one_row(void **state)
{
    (void)state;
    const kvg_record *const of_line[] = {
        kvg_record_get(KVG_RECORD_ASKED), kvg_record_get(KVG_RECORD_OUTCOME), kvg_record_get(KVG_RECORD_PARTS),
        kvg_record_get(KVG_RECORD_COMPARED), kvg_record_get(KVG_RECORD_LISTS), &kvg_generate_guest.records[0],
        &kvg_generate_guest.records[1],
    };
    const char *keys[256];
    size_t count = 0;
    for (size_t k = 0; k < sizeof of_line / sizeof of_line[0]; k++) {
        for (size_t i = 0; i < of_line[k]->count; i++) keys[count++] = of_line[k]->fields[i].key;
    }
    for (size_t i = 0; i < count; i++) expect_once(keys[i], keys, count, "the line");
    for (size_t k = 0; record_at(k); k++) {
        const kvg_record *r = record_at(k);
        assert_true(r->count > 0);
        for (count = 0; count < r->count; count++) keys[count] = r->fields[count].key;
        for (size_t i = 0; i < count; i++) {
            expect_once(keys[i], keys, count, r->title);
            assert_true(r->fields[i].meaning[0]);
        }
    }
}

/* --- a record comes back --- */

enum { RECORD_BYTES = 1 << 15 };

/* A value of its own for each field, or what is left out. */
static void fill_field(const kvg_field *f, size_t turn, bool given, void *record)
{
    static const char *const words[] = {"first", "a \"second\"", "third"};
    void *member = (char *)record + f->offset;
    kvg_names *names = member;
    switch (f->type) {
    case KVG_FIELD_COUNT: *(uint64_t *)member = given ? turn + 1 : 0; break;
    case KVG_FIELD_NUMBER: *(double *)member = !given ? NAN : turn % 2 ? INFINITY : 0.5 + (double)turn; break;
    case KVG_FIELD_FLAG: *(bool *)member = given; break;
    case KVG_FIELD_TEXT: *(const char **)member = given ? words[turn % 3] : ""; break;
    case KVG_FIELD_WORDS: snprintf(member, f->size, "%s", given ? words[turn % 3] : ""); break;
    case KVG_FIELD_SET: memset(member, given ? 0x80 | (int)turn : 0, KVG_FIELD_CODES / 8); break;
    case KVG_FIELD_NAMES:
        names->count = given ? turn % 3 + 1 : 0;
        for (size_t i = 0; i < names->count; i++) names->name[i] = words[i];
        break;
    case KVG_FIELD_VERDICT: *(kvg_verdict *)member = (kvg_verdict)(turn % KVG_VERDICT_COUNT); break;
    case KVG_FIELD_PART:
    case KVG_FIELD_TYPES: break;
    }
}

/* The record as it stands in a file, to be freed. */
static char *write_record(const kvg_record *kind, const void *record)
{
    cJSON *object = cJSON_CreateObject();
    kvg_record_write(kind, record, object);
    char *text = cJSON_PrintUnformatted(object);
    cJSON_Delete(object);
    assert_non_null(text);
    return text;
}

/* The record of `text`, written once more, to be freed. */
static char *read_and_write(const kvg_record *kind, const char *text)
{
    static char record[RECORD_BYTES];
    kvg_json_doc *doc;
    memset(record, 0xA5, sizeof record);
    assert_int_equal(kvg_json_parse("record", text, strlen(text), &doc), KVG_OK);
    assert_int_equal(kvg_record_check_keys(kvg_json_root(doc), &kind, 1), KVG_OK);
    if (kvg_record_read(kind, kvg_json_root(doc), record)) fail_msg("%s: %s", text, kvg_error_text());
    char *again = write_record(kind, record);
    kvg_json_close(doc);
    return again;
}

static void a_record_comes_back(void **state)
{
    (void)state;
    static char record[RECORD_BYTES];
    for (size_t k = 0; record_at(k); k++) {
        const kvg_record *r = record_at(k);
        for (int given = 0; given < 2; given++) {
            for (size_t i = 0; i < r->count; i++) {
                fill_field(&r->fields[i], i, given || r->fields[i].when == KVG_FIELD_ALWAYS, record);
            }
            char *text = write_record(r, record), *again = read_and_write(r, text);
            assert_string_equal(text, again);
            for (size_t i = 0; i < r->count; i++) {
                char key[64];
                snprintf(key, sizeof key, "\"%s\":", r->fields[i].key);
                const bool expected = r->fields[i].type != KVG_FIELD_PART &&
                                      (given || r->fields[i].when == KVG_FIELD_ALWAYS);
                assert_int_equal(strstr(text, key) != NULL, expected);
            }
            free(text);
            free(again);
        }
    }
}

static void what_is_always_written_is_required(void **state)
{
    (void)state;
    static char record[RECORD_BYTES];
    for (size_t k = 0; record_at(k); k++) {
        const kvg_record *r = record_at(k);
        for (size_t i = 0; i < r->count; i++) fill_field(&r->fields[i], i, true, record);
        for (size_t i = 0; i < r->count; i++) {
            char said[96];
            kvg_json_doc *doc;
            if (r->fields[i].type == KVG_FIELD_PART || r->fields[i].when != KVG_FIELD_ALWAYS) continue;
            char *text = write_record(r, record);
            cJSON *object = cJSON_Parse(text);
            free(text);
            cJSON_DeleteItemFromObject(object, r->fields[i].key);
            text = cJSON_PrintUnformatted(object);
            cJSON_Delete(object);
            assert_int_equal(kvg_json_parse("record", text, strlen(text), &doc), KVG_OK);
            assert_int_equal(kvg_record_read(r, kvg_json_root(doc), record), KVG_ERR_INVALID);
            snprintf(said, sizeof said, "missing key '%s'", r->fields[i].key);
            if (!strstr(kvg_error_text(), said)) fail_msg("'%s' is not in '%s'", said, kvg_error_text());
            kvg_json_close(doc);
            free(text);
            for (size_t j = 0; j < r->count; j++) fill_field(&r->fields[j], j, true, record);
        }
    }
}

/* --- a whole result: struct, line, struct --- */

typedef struct piece {
    kvg_record_id id;
    void *record;
    bool *measured; /* NULL: the piece is there wherever an answer was judged */
} piece;

enum { PIECES = 10 + KVG_INVARIANCE_AXES };

static void pieces_of(kvg_result *r, piece out[PIECES])
{
    const piece pieces[PIECES] = {
        {KVG_RECORD_OUTCOME, r, NULL}, {KVG_RECORD_COMPARED, &r->bytes, NULL}, {KVG_RECORD_LISTS, r, NULL},
        {KVG_RECORD_TRIP, &r->round_trip[KVG_K], &r->round_trip[KVG_K].measured},
        {KVG_RECORD_TRIP, &r->round_trip[KVG_V], &r->round_trip[KVG_V].measured},
        {KVG_RECORD_DECODE, &r->decode, &r->decode.measured},
        {KVG_RECORD_SEPARATION, &r->separation, &r->separation.measured},
        {KVG_RECORD_PAGE, &r->page, &r->page.measured},
        {KVG_RECORD_REACH, &r->reach, &r->reach.measured},
        {KVG_RECORD_CONTROLS, &r->controls, &r->controls.measured},
#define INVARIANCE(id, ...) \
        {KVG_RECORD_ALONG, &r->along[KVG_INVARIANCE_##id], &r->along[KVG_INVARIANCE_##id].measured},
#include "harness/case/invariance.def"
#undef INVARIANCE
    };
    memcpy(out, pieces, sizeof pieces);
}

/* Fills all fields, writes and reads; of the pieces but the first three `only` alone is measured, PIECES: all are. */
static void send_result(size_t only, bool judged)
{
    kvg_result sent = {0}, came;
    piece mine[PIECES], theirs[PIECES];
    kvg_config config;
    kvg_json_doc *doc;
    pieces_of(&sent, mine);
    pieces_of(&came, theirs);
    for (size_t i = 0; i < PIECES; i++) {
        const kvg_record *kind = kvg_record_get(mine[i].id);
        for (size_t k = 0; k < kind->count; k++) fill_field(&kind->fields[k], 7 * i + k, true, mine[i].record);
        if (mine[i].measured) *mine[i].measured = only == PIECES || only == i;
    }
    sent.verdict = judged ? KVG_VERDICT_FAIL : KVG_VERDICT_ERROR;
    assert_int_equal(kvg_config_open(KVG_SOURCE_DIR "/configs/ci_smoke.json", NULL, NULL, &config), KVG_OK);
    char *line = kvg_result_line(&config.cases[0], &sent, "repro");
    assert_int_equal(kvg_json_parse("line", line, strlen(line), &doc), KVG_OK);
    if (kvg_result_read(kvg_json_root(doc), &came)) fail_msg("%s", kvg_error_text());
    for (size_t i = 0; i < PIECES; i++) {
        const bool expected = i == 0 || (judged && (!mine[i].measured || *mine[i].measured));
        if (theirs[i].measured) assert_int_equal(*theirs[i].measured, expected);
        if (!expected) continue;
        char *given = write_record(kvg_record_get(mine[i].id), mine[i].record);
        char *taken = write_record(kvg_record_get(theirs[i].id), theirs[i].record);
        assert_string_equal(given, taken);
        free(given);
        free(taken);
    }
    kvg_json_close(doc);
    free(line);
    kvg_config_close(&config);
}

static void a_result_comes_back(void **state)
{
    (void)state;
    for (size_t only = 3; only <= PIECES; only++) send_result(only, true);
    send_result(PIECES, false);
}

/* Bytes that are no UTF-8, a control character, a character that was cut: the line can be read. */
static void what_a_candidate_says_becomes_text(void **state)
{
    (void)state;
    kvg_result sent = {.verdict = KVG_VERDICT_CRASH, .detail = "\xff and\n\x1b[31m, \xc3\xa9, cut \xc3"}, came;
    kvg_config config;
    kvg_json_doc *doc;
    kvg_names_add(&sent.printed, "\xe2\x82");
    assert_int_equal(kvg_config_open(KVG_SOURCE_DIR "/configs/ci_smoke.json", NULL, NULL, &config), KVG_OK);
    char *line = kvg_result_line(&config.cases[0], &sent, "repro");
    if (kvg_json_parse("line", line, strlen(line), &doc)) fail_msg("%s", kvg_error_text());
    assert_int_equal(kvg_result_read(kvg_json_root(doc), &came), KVG_OK);
    assert_string_equal(came.detail, "? and ?[31m, \xc3\xa9, cut ?");
    assert_string_equal(came.printed.name[0], "??");
    kvg_json_close(doc);
    free(line);
    kvg_config_close(&config);
}

/* --- what was asked is the case --- */

/* The fields of a line, put together as an id puts them: a field that is another case's shows here. */
static void expect_asked(const kvg_case *c)
{
    char *line = kvg_result_start_line(c, "repro"), shape[64], first[KVG_CASE_ID_SIZE], last[KVG_CASE_ID_SIZE];
    const kvg_record *kind = kvg_record_get(KVG_RECORD_ASKED);
    kvg_result_asked a;
    kvg_json_doc *doc;
    assert_non_null(line);
    assert_int_equal(kvg_json_parse(c->id, line, strlen(line), &doc), KVG_OK);
    assert_int_equal(kvg_record_check_keys(kvg_json_root(doc), &kind, 1), KVG_OK);
    assert_int_equal(kvg_record_read(kind, kvg_json_root(doc), &a), KVG_OK);
    const bool same = strcmp(a.k_format, a.v_format) == 0 && strcmp(a.k_dialect, a.v_dialect) == 0;
    snprintf(first, sizeof first, "%s/%s.%s%s%s%s%s/%s", a.op, a.k_format, a.k_dialect, same ? "" : "+",
             same ? "" : a.v_format, same ? "" : ".", same ? "" : a.v_dialect, a.layout);
    snprintf(shape, sizeof shape, "/%s/%ux%ux%u/%s", a.dtype, (unsigned)a.tokens, (unsigned)a.kv_heads,
             (unsigned)a.head_dim, a.fill);
    snprintf(last, sizeof last, "%s%s%s%s/%s/%s", a.capture_k[0] ? ":" : "", a.capture_k, a.capture_v[0] ? "," : "",
             a.capture_v, a.scale[0] ? a.scale : "-", a.backend);
    const size_t tail = strlen(last);
    const bool held = strcmp(a.id, c->id) == 0 && strncmp(c->id, first, strlen(first)) == 0 &&
                      strstr(c->id, shape) && strlen(c->id) > tail && strcmp(c->id + strlen(c->id) - tail, last) == 0;
    if (!held) fail_msg("%s, but its line says %s ... %s ... %s", c->id, first, shape, last);
    kvg_json_close(doc);
    free(line);
}

static void a_line_says_what_was_asked(void **state)
{
    (void)state;
    static const char *const configs[] = {"ci_smoke", "ci_layouts", "ci_attention"};
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) {
        char path[256];
        kvg_config config;
        snprintf(path, sizeof path, KVG_SOURCE_DIR "/configs/%s.json", configs[i]);
        if (kvg_config_open(path, NULL, NULL, &config)) fail_msg("%s", kvg_error_text());
        for (size_t k = 0; k < config.case_count; k++) expect_asked(&config.cases[k]);
        kvg_case mixed = config.cases[0]; /* no config has two dialects in a case */
        mixed.problem.storage[KVG_K] = (kvg_storage){KVG_FORMAT_INT4, "canonical"};
        mixed.problem.storage[KVG_V] = (kvg_storage){KVG_FORMAT_INT4, "pytorch"};
        assert_int_equal(kvg_case_name(&mixed), KVG_OK);
        expect_asked(&mixed);
        kvg_config_close(&config);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_is_the_table),
        cmocka_unit_test(a_key_has_one_row),
        cmocka_unit_test(a_record_comes_back),
        cmocka_unit_test(a_result_comes_back),
        cmocka_unit_test(what_a_candidate_says_becomes_text),
        cmocka_unit_test(what_is_always_written_is_required),
        cmocka_unit_test(a_line_says_what_was_asked),
    };
    if (argc == 2 && strcmp(argv[1], "--print") == 0) {
        print_page(stdout);
        return 0;
    }
    return cmocka_run_group_tests_name("result_fields", tests, NULL, NULL);
}
