/* kvgold: tells an engine team whether its quantised KV cache is right. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness/cli/cli.h"
#include "harness/support/version.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"check", kvg_command_check, "run the cases of a config and judge every byte"},
    {"lint", kvg_command_lint, "cases of op decode that could not tell a right kernel from a wrong one"},
    {"list", kvg_command_list, "formats, dialects, ops, layouts, fills, defects, models; or the cases of a config"},
    {"probe", kvg_command_probe, "codes and scales of a row of a paged cache, and where they lie"},
    {"report", kvg_command_report, "table, HTML and JUnit from result files; merges shards"},
    {"bench", kvg_command_bench, "throughput of an implementation, checked before it is timed"},
    {"compare", kvg_command_compare, "judge an engine's answer to a golden pack, and say what is wrong with it"},
    {"golden", kvg_command_golden, "golden packs: make, verify, inspect, diff, expand, erratum"},
    {"generate", kvg_command_generate, "text of a trained model over a quantised cache, on the CPU or the GPU"},
    {"matrix", kvg_command_matrix, "whose pages can whom read: every engine as writer and as reader"},
    {"memory", kvg_command_memory, "KV bytes per token and per context of a model, for every format"},
    {"mode", kvg_command_mode, "the cache mode that a policy number means on a chip, and what its blocks weigh"},
    {"pool", kvg_command_pool, "check managers of block ids: pools, sequences, prefix cache"},
    {"env", kvg_command_env, "what this program and this machine are"},
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static int help(FILE *out)
{
    fprintf(out, "kvgold %s: judges quantised KV caches\n\nusage: kvgold COMMAND [ARGUMENTS]\n\n", KVG_VERSION);
    for (int i = 0; i < COMMAND_COUNT; i++) fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fprintf(
        out,
        "\n`kvgold COMMAND --help` explains each. Exit codes: 0 all passed, 1 a case failed, 2 bad usage or config,\n"
        "3 environment, 77 nothing could run.\n");
    return out == stdout ? KVG_EXIT_PASS : KVG_EXIT_USAGE;
}

static int run(int argc, char **argv)
{
    if (argc < 2) return help(stderr);
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
        return help(stdout);
    if (strcmp(argv[1], "--version") == 0) {
        printf("kvgold %s\n", KVG_VERSION);
        return KVG_EXIT_PASS;
    }
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
    }
    fprintf(stderr, "kvgold: no command '%s'\n\n", argv[1]);
    return help(stderr);
}

/* A closed standard stream becomes one that fails: else the next file to be opened takes its number and its text. */
static void hold_streams(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDONLY)) >= 0 && fd <= STDERR_FILENO) {}
    if (fd >= 0) close(fd);
}

int main(int argc, char **argv)
{
    opterr = 0; /* kvg_option_error says it */
    signal(SIGXFSZ, SIG_IGN); /* a full quota is an error to report, not a death */
    hold_streams();
    const int code = run(argc, argv);
    if (!ferror(stdout) && fflush(stdout) == 0) return code; /* ferror: an earlier flush has failed */
    fprintf(stderr, "kvgold: cannot write the output: its disk or device is full, or it is closed\n");
    return KVG_EXIT_ENVIRONMENT;
}
