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

/* docs/guide/plugin.md. Its first three blocks of code are a plug-in, what it claims, and a config. */
static const char page[] = {
#include "cli/plugin_page.inc"
    0};

/* A file that is begun: a block of the page, with one word of it in the place of another. */
typedef struct start {
    int block;
    const char *old, *word;
} start;

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
    const size_t old = strlen(s->old);
    if (!at) return kvg_fail(KVG_ERR_INVALID, "docs/guide/plugin.md has no block %d", s->block);
    while (left) {
        const bool found = left >= old && memcmp(at, s->old, old) == 0;
        if (found) fputs(s->word, out);
        else putc(*at, out);
        at += found ? old : 1;
        left -= found ? old : 1;
    }
    return KVG_OK;
}

/* Nothing that is there is written over. */
static kvg_status begin(const char *path, int block, const char *old, const char *word)
{
    start s = {block, old, word};
    if (access(path, F_OK) == 0) return kvg_fail(KVG_ERR_INVALID, "%s is there: give another name, or move it", path);
    kvg_status status = kvg_whole_file_write(path, write_block, &s);
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
    if (access(path, F_OK) == 0) return kvg_fail(KVG_ERR_INVALID, "%s is there: give another name, or move it", path);
    kvg_status s = kvg_capabilities_open(from, &capabilities);
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

static kvg_status new_config(const char *name, const char *from)
{
    char path[64];
    snprintf(path, sizeof path, "%s.json", name);
    kvg_status s = from ? begin_from(path, name, from) : begin(path, 3, "mine", name);
    if (!s) printf("\nkvgold check %s --backend %s\n", path, from ? "NAME" : "reference");
    return s;
}

static kvg_status new_plugin(const char *name, const char *from)
{
    if (from) return kvg_fail(KVG_ERR_INVALID, "--from is for a config: kvgold new config %s --from %s", name, from);
    char found[PATH_MAX], headers[PATH_MAX], source[64], claims[64], config[64];
    snprintf(source, sizeof source, "%s.c", name);
    snprintf(claims, sizeof claims, "lib%s.json", name);
    snprintf(config, sizeof config, "%s.json", name);
    kvg_status s = kvg_shipped_path("core/plugin.h", found, sizeof found);
    if (!s && !realpath(found, headers)) s = kvg_fail(KVG_ERR_IO, "%s: %s", found, strerror(errno));
    if (!s) s = begin(source, 1, "engine", name);
    if (!s) s = begin(claims, 2, "example 1.0", name);
    if (!s) s = begin(config, 3, "mine", name);
    if (s) return s;
    headers[strlen(headers) - strlen("/core/plugin.h")] = 0;
    printf("\ncc -std=c11 -shared -fPIC -I '%s' %s -o lib%s.so\nkvgold check %s --backend ./lib%s.so\n", headers,
           source, name, config, name);
    return KVG_OK;
}

/* Descriptions of a format or a layout check each other, so each is written by hand. */
static kvg_status new_description(const char *name, const char *from)
{
    (void)from;
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s is added by hand, in the files that docs/guide/add.md lists", name);
}

static const struct {
    const char *name;
    kvg_status (*begin)(const char *name, const char *from);
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
    if (!s) s = kinds[i].begin(name, kvg_given_text(a, KVG_OPTION_NEW_FROM, NULL));
    return s ? kvg_command_fail("new", s) : KVG_EXIT_PASS;
}
