#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command_help.h"
#include "harness/candidate/candidate.h"
#include "harness/run/backends.h"
#include "support/interrupt.h"
#include "support/terminal.h"
#include "support/whole_file.h"

int kvg_command_fail(const char *command, kvg_status status)
{
    fprintf(stderr, "kvgold %s: %s\n", command, kvg_error_text());
    switch (status) {
    case KVG_ERR_IO: case KVG_ERR_MEMORY: case KVG_ERR_DEVICE: case KVG_ERR_DEVICE_LOST: return KVG_EXIT_ENVIRONMENT;
    default: return KVG_EXIT_USAGE;
    }
}

int kvg_command_usage(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "kvgold %s: ", command);
    vfprintf(stderr, format, args);
    fprintf(stderr, " (see `kvgold %s --help`)\n", command);
    va_end(args);
    return KVG_EXIT_USAGE;
}

void kvg_command_note_confinement(const char *command)
{
    kvg_candidate *candidate;
    if (kvg_candidate_start(KVG_CONFINE_NAMESPACES, NULL, kvg_check_backend, &candidate)) return;
    const char *has = kvg_candidate_confinement(candidate);
    if (strcmp(has, kvg_confinement_name(KVG_CONFINE_NAMESPACES)) != 0) {
        fprintf(stderr, "kvgold %s: unconfined by namespaces: %s\n", command, has);
    }
    kvg_candidate_end(candidate);
}

kvg_status kvg_keep_measured(const char *path, const cJSON *list, kvg_status s)
{
    char why[1024];
    kvg_interrupt_end();
    if (!path || cJSON_GetArraySize(list) == 0) return s;
    snprintf(why, sizeof why, "%s", kvg_error_text());
    const kvg_status written = kvg_whole_file_write_json(path, list);
    if (!s) return written;
    return kvg_fail(s, "%s. What was measured %s %s", why, written ? "cannot be written to" : "is in", path);
}

int kvg_command_lay_out(int (*body)(const kvg_arguments *a), const kvg_arguments *a)
{
    const unsigned width = kvg_terminal_width(STDOUT_FILENO);
    char *text = NULL;
    size_t size;
    FILE *const terminal = stdout, *lines = width ? open_memstream(&text, &size) : NULL;
    if (!lines) return body(a);
    stdout = lines;
    const int code = body(a);
    stdout = terminal;
    fclose(lines);
    if (text) kvg_terminal_lay_out(stdout, text, width, kvg_terminal_has_colour(STDOUT_FILENO));
    free(text);
    return code;
}

static int print_help(const kvg_arguments *a)
{
    const kvg_command *c;
    kvg_status s = kvg_command_find(a->command, &c);
    if (!s) kvg_command_print_help(c, stdout);
    return s ? KVG_EXIT_USAGE : KVG_EXIT_PASS;
}

/* Of a line "usage: kvgold golden make CONFIG -o DIR" the words behind the command's name are those of a->files. Where
 * the line says CONFIG or PACK, an argument may be the name of a shipped one. */
static kvg_status find_shipped(const char *line, const kvg_arguments *a)
{
    static const struct {
        const char *word, *folder, *ending;
    } shipped[] = {{"CONFIG", "configs", ".json"}, {"PACK", "golden/data/packs", ""}};
    char word[64];
    int length;
    kvg_status s = KVG_OK;
    line = strstr(line, a->command);
    if (line) line += strlen(a->command);
    for (int i = 0; !s && line && i < a->file_count; i++, line += length) {
        if (sscanf(line, "%63s%n", word, &length) != 1) break;
        const bool action = i == 0 && word[0] >= 'a' && word[0] <= 'z';
        if (word[0] == '-' || word[0] == '[' || (action && strcmp(word, a->files[0]) != 0)) break;
        for (size_t k = 0; !s && k < sizeof shipped / sizeof shipped[0]; k++) {
            if (strcmp(word, shipped[k].word) == 0) s = kvg_arguments_find(a, i, shipped[k].folder, shipped[k].ending);
        }
    }
    return s;
}

int kvg_command_run(int argc, char **argv)
{
    const kvg_command *c;
    kvg_arguments a;
    int code = KVG_EXIT_PASS;
    if (kvg_command_find(argv[0], &c)) {
        fprintf(stderr, "kvgold: %s\n", kvg_error_text());
        return KVG_EXIT_USAGE;
    }
    kvg_status s = kvg_arguments_read(argc, argv, &a);
    for (const char *line = c->usage; !s && !a.help && *line; line = strchr(line, '\n') + 1) s = find_shipped(line, &a);
    if (s) code = kvg_command_fail(c->name, s);
    else if (a.help) code = kvg_command_lay_out(print_help, &a);
    else code = c->run(&a);
    kvg_arguments_free(&a);
    return code;
}
