#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "cli/cli.h"
#include "core/name.h"
#include "harness/matrix/matrix_files.h"
#include "harness/matrix/matrix_print.h"
#include "harness/run/backends.h"
#include "support/terminal.h"
#include "support/version.h"
#include "support/whole_file.h"

enum { MAX_FORMATS = KVG_FORMAT_END, MAX_BACKENDS = 8, NAME_SIZE = 1024 };

typedef struct matrix_options {
    kvg_matrix_shape shape;
    kvg_engine mine; /* of --layout; its name is NULL without it */
    kvg_layout_text text;
    bool formats[MAX_FORMATS], some_formats, markdown;
    char backends[MAX_BACKENDS][NAME_SIZE];
    const char *engines[MAX_BACKENDS]; /* NULL: all */
    size_t backend_count;
    const char *json, *prompt, *answers;
    unsigned seconds;
} matrix_options;

/* An engine's name has no '/': an '@' of a folder is none of ours. */
static kvg_status read_backend(const char *text, matrix_options *o)
{
    const char *at = strrchr(text, '@');
    if (at && strchr(at, '/')) at = NULL;
    const size_t length = at ? (size_t)(at - text) : strlen(text);
    if (o->backend_count == MAX_BACKENDS) return kvg_fail(KVG_ERR_INVALID, "more than %d backends", MAX_BACKENDS);
    if (length == 0 || length >= NAME_SIZE) return kvg_fail(KVG_ERR_INVALID, "'%.60s' is no name of a backend", text);
    char *name = o->backends[o->backend_count];
    memcpy(name, text, length);
    name[length] = 0;
    o->engines[o->backend_count++] = at ? at + 1 : NULL;
    size_t count, row;
    const kvg_engine *engines = kvg_engine_table(&count);
    const bool known = !at || (o->mine.name && strcmp(at + 1, o->mine.name) == 0);
    kvg_status s = !known ? kvg_name_find("engine", at + 1, &engines[0].name, sizeof engines[0], count, &row) : KVG_OK;
    return s ? s : kvg_check_backend_exists(name); /* a library is opened where it runs */
}

static kvg_status take_layout(const char *given, matrix_options *o)
{
    kvg_status s = kvg_layout_read(given, &o->text, &o->mine.layout);
    o->mine.name = "mine";
    o->mine.dialect = "canonical";
    o->mine.convention = KVG_SCALE_P2;
    o->mine.order = KVG_PAIRING_HALVES;
    o->mine.source = given;
    o->mine.text = o->mine.layout == KVG_LAYOUT_TEXT ? &o->text : NULL;
    return kvg_fail_option(s, KVG_OPTION_MATRIX_LAYOUT);
}

static kvg_status take_options(const kvg_arguments *a, matrix_options *o)
{
    const char *layout = kvg_given_text(a, KVG_OPTION_MATRIX_LAYOUT, NULL);
    kvg_status s = layout ? take_layout(layout, o) : KVG_OK;
    for (size_t i = 0; !s && i < a->option_count; i++) {
        const kvg_argument *given = &a->options[i];
        if (given->id == KVG_OPTION_MATRIX_FORMAT) o->formats[given->numbers[0]] = o->some_formats = true;
        if (given->id == KVG_OPTION_MATRIX_BACKEND) s = kvg_fail_option(read_backend(given->text, o), given->id);
    }
    if (!s && o->answers && access(o->answers, R_OK | X_OK) != 0) {
        return kvg_fail(KVG_ERR_IO, "--answers: cannot read the folder %s: %s", o->answers, strerror(errno));
    }
    if (!s && o->prompt && (o->backend_count || o->answers || o->markdown || o->json)) {
        return kvg_fail(KVG_ERR_INVALID, "--prompt prints no table: it goes without --backend, --answers, --markdown "
                        "and --json");
    }
    return s;
}

/* --- one format --- */

/* Answers of the folder for this format; their paths live in `paths`. */
static kvg_status add_answers(const matrix_options *o, char paths[][KVG_MATRIX_PATH], kvg_matrix_party *parties,
                              size_t engines, size_t *count)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0, n = 0; i < engines && !s; i++) {
        const kvg_engine *engine = parties[i].engine;
        s = kvg_matrix_file_path(o->answers, engine, KVG_MATRIX_FILE_ANSWER, paths[n]);
        if (!s && access(paths[n], F_OK) == 0) s = kvg_matrix_add_answer(engine, paths[n++], parties, count);
    }
    return s;
}

static kvg_status write_prompts(const kvg_matrix_shape *shape, const char *folder, const kvg_matrix_party *parties,
                                size_t count, size_t *written)
{
    kvg_matrix_world world;
    kvg_status s = kvg_matrix_world_make(shape, &world);
    if (!s) s = kvg_whole_file_folder(folder);
    for (size_t i = 0; i < count && !s; i++) {
        s = kvg_matrix_prompt(&world, parties[i].engine, folder);
        if (s) s = kvg_fail_in(s, "%s", parties[i].name);
        *written += !s;
    }
    kvg_matrix_world_free(&world);
    return s;
}

/* What has been done: prompts; or tables, their cells that say anything about whom the command asks for, and those of
 * them that should read and do not. */
typedef struct matrix_totals {
    size_t prompts, tables, cells, broken, answers;
} matrix_totals;

static bool is_asked(const kvg_matrix_party *party)
{
    return party->backend || party->answer;
}

static kvg_status print_table(const matrix_options *o, const kvg_matrix_shape *shape, const kvg_matrix_party *parties,
                              size_t count, cJSON *json, matrix_totals *totals)
{
    kvg_matrix m;
    const bool all = o->backend_count == 0 && !o->answers; /* the table is about the reference's engines alone */
    kvg_status s = kvg_matrix_make(shape, parties, count, o->seconds, &m);
    if (!s) {
        if (totals->tables++) putchar('\n');
        kvg_matrix_print(&m, o->markdown, kvg_terminal_width(STDOUT_FILENO), stdout);
        for (size_t i = 0; i < count * count; i++) {
            const bool asked = all || is_asked(&parties[i / count]) || is_asked(&parties[i % count]);
            totals->cells += asked && m.cells[i].verdict != KVG_MATRIX_ABSENT;
        }
        totals->broken += kvg_matrix_broken(&m);
        s = kvg_matrix_json(&m, json);
    }
    kvg_matrix_free(&m);
    return s;
}

/* Whether the engine of --layout can have pages of the shape. */
static kvg_status check_mine(const kvg_engine *mine, const kvg_matrix_shape *shape)
{
    kvg_matrix_world world;
    kvg_problem p;
    kvg_status s = kvg_matrix_world_make(shape, &world);
    if (!s) s = kvg_matrix_problem(&world, mine, KVG_OP_APPEND, &p);
    kvg_matrix_world_free(&world);
    return s;
}

/* A format without engines, or that the head_dim or the layout given does not fit, is left out unless it was asked for.
 */
static kvg_status take_format(const matrix_options *o, kvg_format format, cJSON *json, matrix_totals *totals)
{
    static char paths[KVG_MATRIX_PARTIES][KVG_MATRIX_PATH];
    kvg_matrix_party parties[KVG_MATRIX_PARTIES];
    kvg_matrix_shape shape = o->shape;
    size_t count = 0;
    shape.format = format;
    kvg_engine mine = o->mine;
    mine.format = format;
    const kvg_engine *own = mine.name ? &mine : NULL;
    kvg_status fits = kvg_format_check_dim(format, shape.head_dim);
    if (!fits && own) fits = kvg_fail_option(check_mine(own, &shape), KVG_OPTION_MATRIX_LAYOUT);
    if (fits) return o->some_formats ? fits : KVG_OK;
    kvg_status s = kvg_matrix_add(format, own, NULL, NULL, parties, &count);
    if (!s && count == (own != NULL)) {
        if (!o->some_formats) return KVG_OK;
        s = kvg_fail(KVG_ERR_INVALID, "no engine of the table has format %s", kvg_format_get(format)->name);
    }
    if (!s && o->prompt) return write_prompts(&shape, o->prompt, parties, count, &totals->prompts);
    const size_t engines = count;
    for (size_t i = 0; !s && i < o->backend_count; i++) {
        s = kvg_matrix_add(format, own, o->backends[i], o->engines[i], parties, &count);
        if (s == KVG_ERR_NOT_FOUND && !o->some_formats) s = KVG_OK; /* that engine has other formats */
    }
    const size_t with_backends = count;
    if (!s && o->answers) s = add_answers(o, paths, parties, engines, &count);
    totals->answers += count - with_backends;
    if (!s && o->answers && count == engines && !o->some_formats) return KVG_OK; /* nothing new about this one */
    return s ? s : print_table(o, &shape, parties, count, json, totals);
}

static int run_matrix(const kvg_arguments *a)
{
    matrix_options o = {
        .shape = {.dtype = (kvg_dtype)kvg_given_number(a, KVG_OPTION_MATRIX_DTYPE, KVG_DTYPE_BF16),
                  .kv_heads = (uint32_t)kvg_given_number(a, KVG_OPTION_MATRIX_KV_HEADS, 4),
                  .head_dim = (uint32_t)kvg_given_number(a, KVG_OPTION_MATRIX_HEAD_DIM, 128),
                  .block_tokens = (uint32_t)kvg_given_number(a, KVG_OPTION_MATRIX_BLOCK_TOKENS, 16),
                  .tokens = (uint32_t)kvg_given_number(a, KVG_OPTION_MATRIX_TOKENS, 40),
                  .seed = kvg_given_number(a, KVG_OPTION_MATRIX_SEED, 0x6b76676f6c64)},
        .markdown = kvg_given(a, KVG_OPTION_MATRIX_MARKDOWN),
        .json = kvg_given_text(a, KVG_OPTION_MATRIX_JSON, NULL),
        .prompt = kvg_given_text(a, KVG_OPTION_MATRIX_PROMPT, NULL),
        .answers = kvg_given_text(a, KVG_OPTION_MATRIX_ANSWERS, NULL),
        .seconds = (unsigned)kvg_given_number(a, KVG_OPTION_MATRIX_TIMEOUT, 60),
    };
    matrix_totals totals = {0};
    kvg_status s = take_options(a, &o);
    if (s) return kvg_command_fail("matrix", s);
    if (a->file_count) return kvg_command_usage("matrix", "'%s': it takes no arguments", a->files[0]);
    if (o.backend_count) kvg_command_note_confinement("matrix");
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "kvgold", KVG_VERSION);
    cJSON *list = cJSON_AddArrayToObject(root, "matrices");
    for (int format = 1; !s && format < KVG_FORMAT_END; format++) {
        if (o.some_formats && !o.formats[format]) continue;
        s = take_format(&o, (kvg_format)format, list, &totals);
    }
    if (!s && o.mine.name && !totals.tables && !totals.prompts) {
        o.mine.format = o.shape.format = kvg_format_of_dtype(o.shape.dtype);
        s = kvg_fail_option(check_mine(&o.mine, &o.shape), KVG_OPTION_MATRIX_LAYOUT);
    }
    if (!s && o.answers && !totals.answers) {
        s = kvg_fail(KVG_ERR_NOT_FOUND, "%s has no file FORMAT.ENGINE.answer.safetensors of an engine in the table",
                     o.answers);
    }
    if (!s && o.json) s = kvg_whole_file_write_json(o.json, root);
    cJSON_Delete(root);
    if (s) return kvg_command_fail("matrix", s);
    if (o.prompt) printf("%zu engines: %s\n", totals.prompts, o.prompt);
    if (totals.broken) {
        fprintf(stderr, "kvgold matrix: %zu cells of one engine do not read as they are\n", totals.broken);
    }
    return totals.broken ? KVG_EXIT_FAIL : totals.cells || o.prompt ? KVG_EXIT_PASS : KVG_EXIT_NOTHING;
}

int kvg_command_matrix(const kvg_arguments *a)
{
    return kvg_command_lay_out(run_matrix, a);
}
