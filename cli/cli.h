/* Room cli: the program `kvgold`.
 *
 *   commands.def           Every command: its summary, usage and description.
 *   options.def            Every option of every command.
 *   main                   Finds the command, reads its command line, runs it.
 *   arguments              Reads a command line by the table of options: values, limits, errors.
 *   command_help           --help, and docs/reference/commands.md.
 *   command_shells         The man page, and completion for shells.
 *   cmd_<command>          One file per command: what it does with its options, and its exit code.
 *   memory, memory_config  What the pools of a model weigh, and savings that must be reached.
 *   cli                    What commands share: errors, and what a bench has measured.
 *
 * A command takes its options from `arguments` and calls one room below. Exit codes are in
 * support/exit_code.h. */
/* The commands of `kvgold`, one file each. They print and return an exit code. */
#ifndef KVG_CLI_CLI_H
#define KVG_CLI_CLI_H

#include <cjson/cJSON.h>

#include "core/status.h"
#include "cli/arguments.h"
#include "support/exit_code.h"

#define COMMAND(name, column, summary, usage, about) int kvg_command_##name(const kvg_arguments *a);
#include "cli/commands.def"
#undef COMMAND

/* Prints "kvgold COMMAND: <error text>" on stderr and returns the exit code that fits the status. */
int kvg_command_fail(const char *command, kvg_status status);

/* Prints "kvgold COMMAND: <text>" and a hint at --help; returns KVG_EXIT_USAGE. */
int kvg_command_usage(const char *command, const char *format, ...) KVG_PRINTF(2, 3);

/* Prints a line on stderr where this machine cannot confine a candidate by namespaces: how it confines one, and why. To
 * be called before anything expected is computed. `kvgold check` has that in its report instead. */
void kvg_command_note_confinement(const char *command);

/* Runs the body of a command that prints text. On a terminal its lines are broken at the terminal's width. */
int kvg_command_lay_out(int (*body)(const kvg_arguments *a), const kvg_arguments *a);

/* Reads the command line of a command, argv[0], and runs it, or prints its help. An unknown command is named on
 * stderr, with the one that was most likely meant. */
int kvg_command_run(int argc, char **argv);

/* The end of a bench, of status `s`: writes what it has measured, whatever came after. A path of NULL, or nothing
 * measured: no file. Signals are ignored from here on. */
kvg_status kvg_keep_measured(const char *path, const cJSON *list, kvg_status s) KVG_CHECKED;

#endif
