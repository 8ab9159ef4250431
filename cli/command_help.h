/* What the program says about its commands, from cli/commands.def and options.def. */
#ifndef KVG_CLI_COMMAND_HELP_H
#define KVG_CLI_COMMAND_HELP_H

#include <stddef.h>
#include <stdio.h>

#include "cli/arguments.h"

typedef struct kvg_command {
    const char *name, *summary, *usage, *about;
    int column; /* where the help of its options begins */
    int (*run)(const kvg_arguments *a);
} kvg_command;

kvg_status kvg_command_find(const char *name, const kvg_command **out) KVG_CHECKED; /* KVG_ERR_NOT_FOUND */

const kvg_command *kvg_command_table(size_t *count);

/* The option of `c` at or after `id`; KVG_OPTION_COUNT: there is no more. */
int kvg_command_next_option(const kvg_command *c, int id);

void kvg_command_print_all(FILE *out);                        /* `kvgold --help` */
void kvg_command_print_help(const kvg_command *c, FILE *out); /* its --help */
void kvg_command_print_page(FILE *out);                       /* docs/reference/commands.md */

/* What an installation has beside the program: the man page kvgold(1), and completion for shells. */
void kvg_command_print_man(FILE *out);
void kvg_command_print_bash(FILE *out);
void kvg_command_print_zsh(FILE *out);
void kvg_command_print_fish(FILE *out);

#endif
