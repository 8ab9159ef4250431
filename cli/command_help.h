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

void kvg_command_print_all(FILE *out);                        /* `kvgold --help` */
void kvg_command_print_help(const kvg_command *c, FILE *out); /* its --help */
void kvg_command_print_page(FILE *out);                       /* docs/reference/commands.md */

#endif
