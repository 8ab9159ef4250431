#include "cli/command_help.h"

#include <string.h>

#include "cli/cli.h"
#include "core/name.h"
#include "support/exit_code.h"
#include "support/version.h"

static const kvg_command commands[] = {
#define COMMAND(name, column, summary, usage, about) {#name, summary, usage, about, column, kvg_command_##name},
#include "cli/commands.def"
#undef COMMAND
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

kvg_status kvg_command_find(const char *name, const kvg_command **out)
{
    size_t i;
    kvg_status s = kvg_name_find("command", name, &commands[0].name, sizeof commands[0], COMMAND_COUNT, &i);
    *out = s ? NULL : &commands[i];
    return s;
}

void kvg_command_print_all(FILE *out)
{
    fprintf(out, "kvgold %s: judges quantised KV caches\n\nusage: kvgold COMMAND [ARGUMENTS]\n\n", KVG_VERSION);
    for (int i = 0; i < COMMAND_COUNT; i++) fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fputs("\n`kvgold COMMAND --help` explains each; `kvgold help --man` is the man page, and --bash, --zsh and --fish\n"
          "print completion for these shells.\n\nExit codes:", out);
    size_t count;
    const kvg_exit_code *codes = kvg_exit_code_table(&count);
    for (size_t i = 0; i < count; i++) fprintf(out, "%s %d %s", i ? "," : "", codes[i].number, codes[i].in_short);
    fputs(".\n", out);
}

const kvg_command *kvg_command_table(size_t *count)
{
    *count = COMMAND_COUNT;
    return commands;
}

int kvg_command_next_option(const kvg_command *c, int id)
{
    while (id < KVG_OPTION_COUNT && strcmp(kvg_option_get((kvg_option_id)id)->command, c->name) != 0) id++;
    return id;
}

/* "--output DIR" */
static void name_option(const kvg_option *o, char *out, size_t size)
{
    snprintf(out, size, "--%s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
}

/* Lines after the first begin at the column. */
static void print_option(const kvg_option *o, int column, FILE *out)
{
    char name[96], letter[] = {'-', o->letter, ',', 0};
    name_option(o, name, sizeof name);
    const int used = fprintf(out, "  %-3s %s", o->letter ? letter : "", name);
    fprintf(out, "%*s", used < column ? column - used : 2, "");
    for (const char *at = o->help; *at; at++) {
        putc(*at, out);
        if (*at == '\n' && at[1]) fprintf(out, "%*s", column, "");
    }
    putc('\n', out);
}

void kvg_command_print_help(const kvg_command *c, FILE *out)
{
    fprintf(out, "%s\n%s", c->usage, c->about);
    int id = kvg_command_next_option(c, 0);
    if (id < KVG_OPTION_COUNT) putc('\n', out);
    for (; id < KVG_OPTION_COUNT; id = kvg_command_next_option(c, id + 1)) {
        print_option(kvg_option_get((kvg_option_id)id), c->column, out);
    }
}

/* --- the page --- */

/* A text in a cell of a table: lines become one, and nothing in it is markup. */
static void print_cell(const char *text, FILE *out)
{
    putc(' ', out);
    for (; *text; text++) {
        if (*text == '\n') fputs(text[1] ? " " : "", out);
        else if (*text == '|') fputs("\\|", out);
        else if (*text == '<') fputs("&lt;", out);
        else putc(*text, out);
    }
    fputs(" |", out);
}

static void print_row(const kvg_option *o, FILE *out)
{
    char name[96], shown[128], limits[96];
    const char letter[] = {'-', o->letter, '`', ',', ' ', '`', 0};
    name_option(o, name, sizeof name);
    snprintf(shown, sizeof shown, "`%s%s`", o->letter ? letter : "", name);
    kvg_option_limits(o, limits, sizeof limits);
    putc('|', out);
    print_cell(shown, out);
    print_cell(limits, out);
    print_cell(!o->value ? "" : o->repeats ? "each counts" : "the last counts", out);
    print_cell(o->actions, out);
    print_cell(o->help, out);
    putc('\n', out);
}

void kvg_command_print_page(FILE *out)
{
    fputs("# Commands\n\n"
          "`kvgold help --markdown` prints this page from cli/commands.def and\n"
          "cli/options.def, and the test `unit.printed_files` compares them. A long option may be\n"
          "shortened as long as it begins no other one. Every command has `-h`, `--help`.\n\n"
          "`kvgold help --man` prints the man page. `kvgold help --bash`, `--zsh` and `--fish` print\n"
          "completion for these shells, as in `source <(kvgold help --bash)`. `cmake --install` puts all\n"
          "four in place.\n"
          "\nA command that takes long says on stderr how far it is: what is done of all, what failed, how\n"
          "fast, and the case that is under way. On a terminal this is one line. Elsewhere a line comes every\n"
          "20 s, or every `KVGOLD_PROGRESS_SECONDS` of the environment.\n"
          "\n## Exit codes\n\n| exit code | means |\n| --- | --- |\n", out);
    size_t count;
    const kvg_exit_code *codes = kvg_exit_code_table(&count);
    for (size_t i = 0; i < count; i++) fprintf(out, "| %d | %s |\n", codes[i].number, codes[i].meaning);
    for (int i = 0; i < COMMAND_COUNT; i++) {
        const kvg_command *c = &commands[i];
        int id = kvg_command_next_option(c, 0);
        fprintf(out, "\n## kvgold %s\n\n%c%s.\n\n```\n%s```\n\n%s", c->name, c->summary[0] & ~0x20, c->summary + 1,
                c->usage, c->about);
        if (id == KVG_OPTION_COUNT) continue;
        fputs("\n| option | value | given twice | actions | meaning |\n| --- | --- | --- | --- | --- |\n", out);
        for (; id < KVG_OPTION_COUNT; id = kvg_command_next_option(c, id + 1)) {
            print_row(kvg_option_get((kvg_option_id)id), out);
        }
    }
}
