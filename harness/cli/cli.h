/* Room cli: the program `kvgold`.
 *
 *   main                   Finds the command.
 *   cmd_<command>          One file per command: its help, its options, its exit code.
 *   cli                    What commands share: errors, options, seeds and numbers.
 *
 * A command reads options and calls one room below. Exit codes are in harness/support/exit_code.h. */
/* The commands of `kvgold`, one file each. argv[0] is the command's name. They print and return an exit code. */
#ifndef KVG_HARNESS_CLI_CLI_H
#define KVG_HARNESS_CLI_CLI_H

#include <cjson/cJSON.h>

#include "core/status.h"
#include "harness/support/exit_code.h"

int kvg_command_list(int argc, char **argv);
int kvg_command_check(int argc, char **argv);
int kvg_command_lint(int argc, char **argv);
int kvg_command_probe(int argc, char **argv);
int kvg_command_report(int argc, char **argv);
int kvg_command_bench(int argc, char **argv);
int kvg_command_compare(int argc, char **argv);
int kvg_command_golden(int argc, char **argv);
int kvg_command_generate(int argc, char **argv);
int kvg_command_memory(int argc, char **argv);
int kvg_command_matrix(int argc, char **argv);
int kvg_command_mode(int argc, char **argv);
int kvg_command_pool(int argc, char **argv);
int kvg_command_env(int argc, char **argv);

/* Prints "kvgold COMMAND: <error text>" on stderr and returns the exit code that fits the status. */
int kvg_command_fail(const char *command, kvg_status status);

/* Prints "kvgold COMMAND: <text>" and a hint at --help; returns KVG_EXIT_USAGE. */
int kvg_command_usage(const char *command, const char *format, ...) KVG_PRINTF(2, 3);

/* After getopt_long, whose letters begin with ':', has returned an error ('?' or ':'): the status and its text.
 * getopt_long itself prints nothing: main has set opterr to 0. */
kvg_status kvg_option_error(const char *command, int error, char **argv) KVG_CHECKED;

/* The end of a bench, of status `s`: writes what it has measured, whatever came after. A path of NULL, or nothing
 * measured: no file. Signals are ignored from here on. */
kvg_status kvg_keep_measured(const char *path, const cJSON *list, kvg_status s) KVG_CHECKED;

/* What taking the value of an option of getopt_long's table gave: an error begins with the option's long name. */
struct option;
kvg_status kvg_option_value(kvg_status status, const struct option *table, int option) KVG_CHECKED;

/* Parses "0x..." seeds, "i/n" shards, counts from 1 and whole numbers from 0. */
kvg_status kvg_parse_seed(const char *text, unsigned long long *out) KVG_CHECKED;
kvg_status kvg_parse_shard(const char *text, unsigned *shard, unsigned *shards) KVG_CHECKED;
kvg_status kvg_parse_count(const char *text, unsigned max, unsigned *out) KVG_CHECKED;
kvg_status kvg_parse_whole(const char *text, unsigned max, unsigned *out) KVG_CHECKED;

#endif
