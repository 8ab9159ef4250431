/* The man page, and completion for bash, zsh and fish: the tables of commands and options in other words. */
#include <stdbool.h>
#include <string.h>

#include "cli/command_help.h"
#include "support/exit_code.h"
#include "support/version.h"

/* Calls `print` for each option of a command. */
static void each_option(const kvg_command *c, void (*print)(const kvg_command *c, const kvg_option *o, FILE *out),
                        FILE *out)
{
    for (int id = kvg_command_next_option(c, 0); id < KVG_OPTION_COUNT; id = kvg_command_next_option(c, id + 1)) {
        print(c, kvg_option_get((kvg_option_id)id), out);
    }
}

static void each_command(void (*print)(const kvg_command *c, FILE *out), FILE *out)
{
    size_t count;
    const kvg_command *commands = kvg_command_table(&count);
    for (size_t i = 0; i < count; i++) print(&commands[i], out);
}

/* The first line of a text for a string in '': a backslash before each of `special`. */
static void quote(const char *text, const char *special, FILE *out)
{
    for (; *text && *text != '\n'; text++) {
        if (*text == '\'') fputs("'\\'", out);
        else if (strchr(special, *text)) putc('\\', out);
        putc(*text, out);
    }
}

/* `kvgold list` prints the names that the value of an option may be; NULL: it does not. */
static const char *list_of(const kvg_option *o)
{
    static const char *const lists[KVG_ARGUMENT_KINDS] = {
        [KVG_ARGUMENT_FORMAT] = "formats", [KVG_ARGUMENT_LAYOUT] = "layouts", [KVG_ARGUMENT_PROFILE] = "profiles",
        [KVG_ARGUMENT_MODEL] = "models",
    };
    return lists[o->kind];
}

/* Words of usage lines whose values `kvgold list` prints. */
static const struct {
    const char *word, *list;
} arguments[] = {{"CONFIG", "configs"}, {"PACK", "packs"}, {"MODEL", "models"}, {"LAYOUT", "layouts"}};
enum { ARGUMENTS = sizeof arguments / sizeof arguments[0] };

/* Whether a usage line has the word right behind the command's name, or behind its action: "golden verify PACK". */
static bool takes(const kvg_command *c, const char *word)
{
    for (const char *line = c->usage; *line; line = strchr(line, '\n') + 1) {
        char first[64] = "", second[64] = "";
        const char *at = strstr(line, c->name);
        if (at) sscanf(at + strlen(c->name), "%63s %63s", first, second);
        if (strcmp(first[0] >= 'a' && first[0] <= 'z' ? second : first, word) == 0) return true;
    }
    return false;
}

/* Prints the lists of the words that the command takes, with blanks before them, between two texts; whether it takes
 * any. */
static bool print_lists(const kvg_command *c, const char *before, const char *after, FILE *out)
{
    bool any = false;
    for (size_t i = 0; i < ARGUMENTS; i++) {
        if (!takes(c, arguments[i].word)) continue;
        fprintf(out, "%s %s", any ? "" : before, arguments[i].list);
        any = true;
    }
    if (any) fputs(after, out);
    return any;
}

/* --- man --- */

/* Lines of text: nothing in them is a request, and no hyphen is a minus. */
static void print_roff(const char *text, FILE *out)
{
    for (bool begins = true; *text; begins = *text++ == '\n') {
        if (begins && (*text == '.' || *text == '\'')) fputs("\\&", out);
        if (*text == '\\') fputs("\\e", out);
        else if (*text == '-') fputs("\\-", out);
        else putc(*text, out);
    }
}

static void man_option(const kvg_command *c, const kvg_option *o, FILE *out)
{
    (void)c;
    fputs(".TP\n", out);
    if (o->letter) fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", out);
    print_roff(o->name, out);
    fprintf(out, "\\fR%s\\fI%s\\fR\n", o->value ? " " : "", o->value ? o->value : "");
    print_roff(o->help, out);
    fputs(o->help[strlen(o->help) - 1] == '\n' ? "" : "\n", out);
}

static void man_command(const kvg_command *c, FILE *out)
{
    fprintf(out, ".SS kvgold %s\n.nf\n", c->name);
    print_roff(c->usage, out);
    fputs(".fi\n.PP\n", out);
    print_roff(c->about, out);
    each_option(c, man_option, out);
}

void kvg_command_print_man(FILE *out)
{
    fprintf(out, ".TH KVGOLD 1 \"\" \"kvgold %s\" \"\"\n.SH NAME\nkvgold \\- judges quantised KV caches\n"
                 ".SH SYNOPSIS\n\\fBkvgold\\fR \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]\n.SH COMMANDS\n", KVG_VERSION);
    each_command(man_command, out);
    size_t count;
    const kvg_exit_code *codes = kvg_exit_code_table(&count);
    fputs(".SH EXIT STATUS\n", out);
    for (size_t i = 0; i < count; i++) fprintf(out, ".TP\n%d\n%s\n", codes[i].number, codes[i].meaning);
    fputs(".SH ENVIRONMENT\n.TP\nNO_COLOR\nno colour, also on a terminal\n", out);
}

/* --- bash --- */

static void bash_name(const kvg_command *c, FILE *out)
{
    fprintf(out, " %s", c->name);
}

static void bash_option(const kvg_command *c, const kvg_option *o, FILE *out)
{
    (void)c;
    fprintf(out, " --%s", o->name);
}

static void bash_options(const kvg_command *c, FILE *out)
{
    fprintf(out, "        %s) words='--help", c->name);
    each_option(c, bash_option, out);
    fputs("' ;;\n", out);
}

static void bash_value(const kvg_command *c, const kvg_option *o, FILE *out)
{
    if (list_of(o)) fprintf(out, "        '%s --%s') lists=%s ;;\n", c->name, o->name, list_of(o));
}

static void bash_values(const kvg_command *c, FILE *out)
{
    each_option(c, bash_value, out);
}

static void bash_arguments(const kvg_command *c, FILE *out)
{
    char before[64];
    snprintf(before, sizeof before, "        %s) lists='", c->name);
    print_lists(c, before, "' ;;\n", out);
}

void kvg_command_print_bash(FILE *out)
{
    fputs("# bash completion for kvgold: `kvgold help --bash`\n"
          "_kvgold() {\n"
          "    local now=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words='' lists='' list files=()\n"
          "    case \"$command ${COMP_WORDS[COMP_CWORD - 1]}\" in\n", out);
    each_command(bash_values, out);
    fputs("        *) ;;\n    esac\n"
          "    if ((COMP_CWORD == 1)); then\n        words='help", out);
    each_command(bash_name, out);
    fputs("'\n    elif [[ ! $lists && $now == -* ]]; then\n        case $command in\n", out);
    each_command(bash_options, out);
    fputs("        *) ;;\n        esac\n"
          "    elif [[ ! $lists ]]; then\n        files=(-f)\n        case $command in\n", out);
    each_command(bash_arguments, out);
    fputs("        *) ;;\n        esac\n    fi\n    for list in $lists; do\n"
          "        words+=\" $(kvgold list \"$list\" 2>/dev/null | grep -v '^format ' | cut -d' ' -f1)\"\n    done\n"
          "    mapfile -t COMPREPLY < <(compgen \"${files[@]}\" -W \"$words\" -- \"$now\")\n}\n"
          "complete -o filenames -F _kvgold kvgold\n", out);
}

/* --- zsh --- */

static void zsh_name(const kvg_command *c, FILE *out)
{
    fprintf(out, "        '%s:", c->name);
    quote(c->summary, ":", out);
    fputs("'\n", out);
}

static void zsh_option(const kvg_command *c, const kvg_option *o, FILE *out)
{
    (void)c;
    fprintf(out, " \\\n            '%s--%s%s[", o->repeats ? "*" : "", o->name, o->value ? "=" : "");
    quote(o->help, "[]:\\", out);
    putc(']', out);
    if (o->value) {
        putc(':', out);
        quote(o->value, ":\\", out);
        if (list_of(o)) fprintf(out, ":($(kvgold list %s | grep -v \"^format \" | cut -d\" \" -f1))", list_of(o));
        else fputs(":_files", out);
    }
    putc('\'', out);
}

static void zsh_options(const kvg_command *c, FILE *out)
{
    fprintf(out, "        %s) _arguments '--help[what it does]'", c->name);
    each_option(c, zsh_option, out);
    if (!print_lists(c, " \\\n            '*:file:{_files; for list in",
                     "; do compadd -- $(kvgold list $list | cut -d\" \" -f1); done}' ;;\n", out)) {
        fputs(" \\\n            '*:file:_files' ;;\n", out);
    }
}

void kvg_command_print_zsh(FILE *out)
{
    fputs("#compdef kvgold\n# zsh completion for kvgold: `kvgold help --zsh`\n"
          "_kvgold() {\n    local -a commands=(\n", out);
    each_command(zsh_name, out);
    fputs("    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n        return\n    fi\n"
          "    shift words\n    ((CURRENT--))\n    case $words[1] in\n", out);
    each_command(zsh_options, out);
    fputs("    esac\n}\n_kvgold \"$@\"\n", out);
}

/* --- fish --- */

static void fish_option(const kvg_command *c, const kvg_option *o, FILE *out)
{
    fprintf(out, "complete -c kvgold -n '__fish_seen_subcommand_from %s' -l %s ", c->name, o->name);
    if (o->letter) fprintf(out, "-s %c ", o->letter);
    if (o->value) fputs("-r ", out);
    if (list_of(o)) fprintf(out, "-f -a '(kvgold list %s | grep -v \"^format \" | cut -d\" \" -f1)' ", list_of(o));
    fputs("-d '", out);
    quote(o->help, "\\", out);
    fputs("'\n", out);
}

static void fish_command(const kvg_command *c, FILE *out)
{
    fprintf(out, "complete -c kvgold -n __fish_use_subcommand -f -a %s -d '", c->name);
    quote(c->summary, "\\", out);
    fputs("'\n", out);
    each_option(c, fish_option, out);
    char before[96];
    snprintf(before, sizeof before, "complete -c kvgold -n '__fish_seen_subcommand_from %s' -a '(for list in", c->name);
    print_lists(c, before, "; kvgold list $list | cut -d\" \" -f1; end)'\n", out);
}

void kvg_command_print_fish(FILE *out)
{
    fputs("# fish completion for kvgold: `kvgold help --fish`\n", out);
    each_command(fish_command, out);
}
