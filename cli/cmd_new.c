#define _DEFAULT_SOURCE /* realpath */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/name.h"
#include "harness/run/claims_config.h"
#include "support/shipped.h"
#include "support/whole_file.h"

/* examples/plugin-pages/pages_engine.c. A section "--- OP ---" is there for an op alone. */
static const char pages[] = {
#include "cli/plugin_pages.inc"
    0};

/* docs/guide/plugin.md. Its first three blocks of code are a plug-in, what it claims, and a config. */
static const char page[] = {
#include "cli/plugin_page.inc"
    0};

/* A word of a template, and what stands in its place. */
typedef struct replacement {
    const char *old, *word;
} replacement;

/* A file that is begun: a block of the page. */
typedef struct start {
    int block;
    replacement name;
} start;

/* The first `length` characters of a text, with the replacements that come first winning. */
static void put_replaced(const char *text, size_t length, const replacement *replacements, size_t count, FILE *out)
{
    for (const char *at = text, *end = text + length; at < end;) {
        size_t i = 0;
        while (i < count && strncmp(at, replacements[i].old, strlen(replacements[i].old)) != 0) i++;
        if (i < count) fputs(replacements[i].word, out);
        else putc(*at, out);
        at += i < count ? strlen(replacements[i].old) : 1;
    }
}

/* The text of a block and its length. */
static const char *find_block(int block, size_t *length)
{
    const char *at = page;
    for (int fence = 1; (at = strstr(at, "\n```")) != NULL; fence++) {
        at += strcspn(at + 1, "\n") + 2;
        if (fence == 2 * block - 1) break;
    }
    *length = at ? (size_t)(strstr(at, "```\n") - at) : 0;
    return at;
}

static kvg_status write_block(void *context, FILE *out)
{
    const start *s = context;
    size_t left;
    const char *at = find_block(s->block, &left);
    if (!at) return kvg_fail(KVG_ERR_INVALID, "docs/guide/plugin.md has no block %d", s->block);
    put_replaced(at, left, &s->name, 1, out);
    return KVG_OK;
}

/* Nothing that is there is written over. */
static kvg_status refuse_present(const char *path)
{
    if (access(path, F_OK) != 0) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "%s is there: give another name, or move it", path);
}

static kvg_status begin(const char *path, int block, const char *old, const char *word)
{
    start s = {block, {old, word}};
    kvg_status status = refuse_present(path);
    if (!status) status = kvg_whole_file_write(path, write_block, &s);
    if (!status) printf("%s\n", path);
    return status;
}

static kvg_status write_text(void *text, FILE *out)
{
    fputs(((const kvg_json_text *)text)->text, out);
    return KVG_OK;
}

static kvg_status tell_unasked(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "kvgold new: no case can ask %s\n", text);
    return KVG_OK;
}

/* The config asks what the capability file claims. */
static kvg_status begin_from(const char *path, const char *name, const char *from)
{
    kvg_capabilities *capabilities;
    kvg_json_text text = {0};
    kvg_config config;
    kvg_status s = refuse_present(path);
    if (!s) s = kvg_capabilities_open(from, &capabilities);
    if (s) return s;
    s = kvg_claims_config(capabilities, name, &text);
    if (!s) s = kvg_whole_file_write(path, write_text, &text);
    if (!s) s = kvg_config_open(path, NULL, NULL, &config);
    if (!s) {
        printf("%s: %zu cases\n", path, config.case_count);
        s = kvg_capabilities_unasked(capabilities, &config, config.cases[0].backend, tell_unasked, NULL);
        kvg_config_close(&config);
    }
    kvg_json_text_free(&text);
    kvg_capabilities_close(capabilities);
    return s;
}

/* The word by which a shell finds this program: "kvgold", or its path. */
static const char *program_word(void)
{
    static char path[PATH_MAX + 8];
    char own[PATH_MAX], other[PATH_MAX], folder[PATH_MAX];
    kvg_shipped_program_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/kvgold", folder);
    if (!realpath(path, own)) return "kvgold";
    for (const char *at = getenv("PATH"); at && *at;) {
        const size_t length = strcspn(at, ":");
        char candidate[2 * PATH_MAX];
        snprintf(candidate, sizeof candidate, "%.*s/kvgold", (int)length, at);
        if (access(candidate, X_OK) == 0) {
            return realpath(candidate, other) && strcmp(own, other) == 0 ? "kvgold" : path;
        }
        at += length + (at[length] == ':');
    }
    return path;
}

static kvg_status new_config(const char *name, const kvg_arguments *a)
{
    char path[64];
    const char *from = kvg_given_text(a, KVG_OPTION_NEW_FROM, NULL);
    snprintf(path, sizeof path, "%s.json", name);
    kvg_status s = from ? begin_from(path, name, from) : begin(path, 3, "mine", name);
    if (!s) printf("\n%s check %s --backend %s\n", program_word(), path, from ? "NAME" : "reference");
    return s;
}

/* --- a plug-in over pages --- */

typedef struct pages_plan {
    const char *name, *format, *layout, *ops; /* ops: "append,decode" */
    kvg_layout id;                            /* of the layout */
    kvg_layout_text text;                     /* of a layout that is a text */
} pages_plan;

/* The name is one of a list with commas. */
static bool has_word(const char *list, const char *word, size_t length)
{
    for (const char *at = list; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        if (strcspn(at, ",") == length && strncmp(at, word, length) == 0) return true;
    }
    return false;
}

static bool is_op(const char *word, size_t length)
{
    size_t count;
    const kvg_op_info *ops = kvg_op_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (strlen(ops[i].name) == length && strncmp(ops[i].name, word, length) == 0) return true;
    }
    return false;
}

/* Ends the word at a character that belongs to no name. */
static size_t name_length(const char *at)
{
    return strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_");
}

/* Whether a line of the template is left out: it belongs to an op that nobody wants. *wanted: so far. */
static bool is_left_out(const pages_plan *s, const char *line, bool *wanted)
{
    static const char heading[] = "/* --- ", implementation[] = "    {\"engine_";
    if (strncmp(line, heading, strlen(heading)) == 0) {
        const char *word = line + strlen(heading);
        *wanted = !is_op(word, name_length(word)) || has_word(s->ops, word, name_length(word));
    }
    if (strncmp(line, implementation, strlen(implementation)) == 0) {
        const char *word = line + strlen(implementation);
        return !has_word(s->ops, word, name_length(word));
    }
    return !*wanted;
}

/* "KVG_FORMAT_NVFP4" of "KVG_FORMAT_" and "nvfp4". */
static void write_constant(const char *prefix, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s%s", prefix, name);
    for (; *out; out++) {
        if (*out >= 'a' && *out <= 'z') *out = (char)(*out - 'a' + 'A');
    }
}

/* The template with the format, the layout and the name of the plug-in. */
static kvg_status write_pages(void *context, FILE *out)
{
    const pages_plan *s = context;
    char format[64], layout[64], in_words[64];
    write_constant("KVG_FORMAT_", s->format, format, sizeof format);
    write_constant("KVG_LAYOUT_", kvg_layout_get(s->id)->name, layout, sizeof layout);
    snprintf(in_words, sizeof in_words, "layout %s", kvg_layout_get(s->id)->name);
    const replacement replacements[] = {{"KVG_FORMAT_NVFP4", format}, {"KVG_LAYOUT_HND", layout}, {"nvfp4", s->format},
                                        {"layout hnd", in_words}, {"engine", s->name}};
    bool wanted = true;
    for (const char *line = pages; *line; line += strcspn(line, "\n") + 1) {
        if (is_left_out(s, line, &wanted)) continue;
        put_replaced(line, strcspn(line, "\n") + 1, replacements, sizeof replacements / sizeof replacements[0], out);
    }
    return KVG_OK;
}

/* A claim of the ops that are on pages, or of the others. */
static void add_claim(const pages_plan *s, bool paged, kvg_json_text *out)
{
    size_t count;
    const kvg_op_info *ops = kvg_op_table(&count);
    const char *comma = "";
    bool decodes = false;
    kvg_json_text claim = {0};
    for (size_t i = 0; i < count; i++) {
        if (ops[i].paged != paged || !has_word(s->ops, ops[i].name, strlen(ops[i].name))) continue;
        kvg_json_add(&claim, "%s\"%s\"", comma, ops[i].name);
        decodes |= ops[i].op == KVG_OP_DECODE;
        comma = ", ";
    }
    if (claim.text) {
        const char *more = strstr(out->text, "{\"ops\"") ? ",\n" : "";
        const char *text = s->text.text ? s->text.text : kvg_layout_get(s->id)->text;
        kvg_json_add(out, "%s    {\"ops\": [%s], \"formats\": [\"%s.canonical\"], \"layouts\": [", more, claim.text,
                     s->format);
        if (paged && s->text.text) kvg_json_add(out, "{\"name\": \"%s\", \"text\": ", s->name);
        kvg_json_add_string(out, !paged ? "rows" : s->text.text ? text : s->layout);
        kvg_json_add(out, "%s],\n     \"features\": [", paged && s->text.text ? "}" : "");
        if (paged && strstr(text, "+data")) kvg_json_add(out, "\"padding\"%s", decodes ? ", " : "");
        if (decodes) {
            kvg_json_add(out, "\"lse\", \"gqa\", \"queries\", \"window\", \"sinks\", \"softcap\", "
                              "\"score_scale\"");
        }
        kvg_json_add(out, "]%s}", decodes ? ", \"profiles\": [\"exact\"]" : "");
    }
    kvg_json_text_free(&claim);
}

static kvg_status begin_text(const char *path, kvg_json_text *text)
{
    kvg_status s = kvg_json_text_check(text);
    if (!s) s = refuse_present(path);
    if (!s) s = kvg_whole_file_write(path, write_text, text);
    if (!s) printf("%s\n", path);
    return s;
}

/* What the template has. */
static kvg_status check_pages(pages_plan *s)
{
    const kvg_status status = kvg_layout_read(s->layout, &s->text, &s->id);
    if (status) return status;
    if (!kvg_layout_get(s->id)->paged || kvg_layout_get(s->id)->shared == KVG_SHARED_ALWAYS) {
        return kvg_fail(KVG_ERR_INVALID, "a start has no layout %s, which has no rows of K and of V in pages",
                        s->layout);
    }
    for (const char *at = s->ops; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        char heading[64];
        const int length = (int)strcspn(at, ",");
        snprintf(heading, sizeof heading, "/* --- %.*s --- */", length, at);
        if (length && is_op(at, (size_t)length) && strstr(pages, heading)) continue;
        return kvg_fail(KVG_ERR_INVALID, "a start has no op '%.*s': quantise, dequantise, append, flatten, decode",
                        length, at);
    }
    return KVG_OK;
}

/* The folder of libkvgold.so: beside the program, or beside its folder. */
static void find_library(char *out, size_t size)
{
    char program[PATH_MAX], path[PATH_MAX + 32];
    kvg_shipped_program_folder(program, sizeof program);
    snprintf(path, sizeof path, "%s/libkvgold.so", program);
    snprintf(out, size, "%s%s", program, access(path, F_OK) == 0 ? "" : "/../lib");
}

static kvg_status new_pages(const pages_plan *plan, const char *headers)
{
    char source[64], claims[64], config[64], library[PATH_MAX + 8];
    kvg_json_text text = {0}, cmake = {0};
    snprintf(source, sizeof source, "%s.c", plan->name);
    snprintf(claims, sizeof claims, "lib%s.json", plan->name);
    snprintf(config, sizeof config, "%s.json", plan->name);
    kvg_json_add(&text, "{\n  \"kvgold_capabilities\": 1,\n  \"engine\": \"%s\",\n  \"claims\": [\n", plan->name);
    add_claim(plan, false, &text);
    add_claim(plan, true, &text);
    kvg_json_add(&text, "\n  ]\n}\n");
    kvg_json_add(&cmake, "cmake_minimum_required(VERSION 3.25)\nproject(%s LANGUAGES C)\n"
                         "find_package(kvgold 0.1 REQUIRED COMPONENTS shared) # -DCMAKE_PREFIX_PATH=PREFIX\n"
                         "add_library(%s MODULE %s)\ntarget_link_libraries(%s PRIVATE kvgold::shared m)\n"
                         "configure_file(%s %s COPYONLY) # beside the library\n",
                 plan->name, plan->name, source, plan->name, claims, claims);
    kvg_status s = refuse_present(source);
    if (!s) s = begin_text(claims, &text);
    if (!s) s = begin_text("CMakeLists.txt", &cmake);
    if (!s) s = kvg_whole_file_write(source, write_pages, (void *)plan);
    if (!s) printf("%s\n", source);
    if (!s) s = begin_from(config, plan->name, claims);
    kvg_json_text_free(&text);
    kvg_json_text_free(&cmake);
    if (s) return s;
    find_library(library, sizeof library);
    printf("\ncc -std=c11 -O2 -shared -fPIC -I '%s' %s -o lib%s.so -L '%s' -lkvgold -Wl,-rpath,'%s' -lm\n"
           "%s check %s --backend ./lib%s.so\n", headers, source, plan->name, library, library, program_word(), config,
           plan->name);
    return KVG_OK;
}

static kvg_status new_plugin(const char *name, const kvg_arguments *a)
{
    char found[PATH_MAX], headers[PATH_MAX], source[64], claims[64], config[64];
    pages_plan plan = {.name = name, .format = kvg_given_text(a, KVG_OPTION_NEW_FORMAT, NULL),
                       .layout = kvg_given_text(a, KVG_OPTION_NEW_LAYOUT, NULL),
                       .ops = kvg_given_text(a, KVG_OPTION_NEW_OPS, NULL)};
    const int given = (plan.format != NULL) + (plan.layout != NULL) + (plan.ops != NULL);
    snprintf(source, sizeof source, "%s.c", name);
    snprintf(claims, sizeof claims, "lib%s.json", name);
    snprintf(config, sizeof config, "%s.json", name);
    if (name[0] >= '0' && name[0] <= '9') {
        return kvg_fail(KVG_ERR_INVALID, "'%s': functions in C have the name of a plug-in: give one that begins with a "
                        "letter or _", name);
    }
    kvg_status s = kvg_shipped_path("core/plugin.h", found, sizeof found);
    if (!s && !realpath(found, headers)) s = kvg_fail(KVG_ERR_IO, "%s: %s", found, strerror(errno));
    if (s) return s;
    headers[strlen(headers) - strlen("/core/plugin.h")] = 0;
    if (given == 3) s = check_pages(&plan);
    if (s) return s;
    if (given == 3) return new_pages(&plan, headers);
    if (given) return kvg_fail(KVG_ERR_INVALID, "give --ops, --format and --layout together");
    s = begin(source, 1, "engine", name);
    if (!s) s = begin(claims, 2, "example 1.0", name);
    if (!s) s = begin(config, 3, "mine", name);
    if (s) return s;
    printf("\ncc -std=c11 -shared -fPIC -I '%s' %s -o lib%s.so\n%s check %s --backend ./lib%s.so\n", headers, source,
           name, program_word(), config, name);
    return KVG_OK;
}

/* Descriptions of a format or a layout check each other, so each is written by hand. */
static kvg_status new_description(const char *name, const kvg_arguments *a)
{
    (void)a;
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s is added by hand, in the files that docs/guide/add.md lists", name);
}

static const struct {
    const char *name;
    kvg_status (*begin)(const char *name, const kvg_arguments *a);
} kinds[] = {{"plugin", new_plugin},       {"config", new_config},       {"format", new_description},
             {"dialect", new_description}, {"layout", new_description}};

int kvg_command_new(const kvg_arguments *a)
{
    size_t i;
    if (a->file_count != 2) return kvg_command_usage("new", "give plugin or config, and a name");
    const char *name = a->files[1];
    kvg_status s = kvg_name_find("kind of start", a->files[0], &kinds[0].name, sizeof kinds[0],
                                 sizeof kinds / sizeof kinds[0], &i);
    const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (!s && (name[length] || length < 1 || length > 40)) {
        s = kvg_fail(KVG_ERR_INVALID, "'%s': a name has lower-case letters, digits and _, at most 40", name);
    }
    if (!s) s = kvg_arguments_check_action(a, kinds[i].name);
    if (!s) s = kinds[i].begin(name, a);
    return s ? kvg_command_fail("new", s) : KVG_EXIT_PASS;
}
