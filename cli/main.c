/* kvgold: tells an engine team whether its quantised KV cache is right. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/command_help.h"
#include "core/name.h"
#include "support/version.h"

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

/* `kvgold help --man` and so on; `kvgold help check` is `kvgold check --help`. */
static int print_help(char *form)
{
    static const struct {
        const char *name;
        void (*print)(FILE *out);
    } forms[] = {
        {"--all", kvg_command_print_all}, {"--markdown", kvg_command_print_page}, {"--man", kvg_command_print_man},
        {"--bash", kvg_command_print_bash}, {"--zsh", kvg_command_print_zsh}, {"--fish", kvg_command_print_fish},
    };
    size_t i;
    char option[] = "--help", *command[] = {form, option, NULL};
    if (form[0] != '-') return kvg_command_run(2, command);
    if (kvg_name_find("form of help", form, &forms[0].name, sizeof forms[0], sizeof forms / sizeof forms[0], &i)) {
        fprintf(stderr, "kvgold: %s\n", kvg_error_text());
        return KVG_EXIT_USAGE;
    }
    forms[i].print(stdout);
    return KVG_EXIT_PASS;
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        kvg_command_print_all(stderr);
        return KVG_EXIT_USAGE;
    }
    if (is_help(argv[1])) {
        char all[] = "--all";
        return print_help(argc > 2 ? argv[2] : all);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("kvgold %s\n", KVG_VERSION);
        return KVG_EXIT_PASS;
    }
    return kvg_command_run(argc - 1, argv + 1);
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
    opterr = 0; /* kvg_arguments_read says it */
    signal(SIGXFSZ, SIG_IGN); /* a full quota is an error to report, not a death */
    hold_streams();
    const int code = run(argc, argv);
    if (!ferror(stdout) && fflush(stdout) == 0) return code; /* ferror: an earlier flush has failed */
    fprintf(stderr, "kvgold: cannot write the output: its disk or device is full, or it is closed\n");
    return KVG_EXIT_ENVIRONMENT;
}
