#include "harness/cli/cli.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/support/interrupt.h"
#include "harness/support/whole_file.h"

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

kvg_status kvg_option_error(const char *command, int error, char **argv)
{
    const char letter[] = {'-', (char)optopt, '\0'};
    const char *option = argv[optind - 1], *wrong = "is unknown, or begins more than one";
    const bool is_long = strncmp(option, "--", 2) == 0;
    if (error == ':') wrong = "needs a value";
    else if (is_long && optopt) wrong = "takes no value";
    return kvg_fail(KVG_ERR_INVALID, "option %s %s (see `kvgold %s --help`)", is_long ? option : letter, wrong,
                    command);
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

kvg_status kvg_option_value(kvg_status status, const struct option *table, int option)
{
    while (table->name && table->val != option) table++;
    return status && table->name ? kvg_fail_in(status, "--%s", table->name) : status;
}

kvg_status kvg_parse_seed(const char *text, unsigned long long *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 16);
    if (strncmp(text, "0x", 2) != 0 || text[2] == 0 || *end != 0 || errno) {
        return kvg_fail(KVG_ERR_INVALID, "seed '%s' is not 0x and 1 to 16 hex digits", text);
    }
    return KVG_OK;
}

static kvg_status parse_number(const char *text, unsigned min, unsigned max, unsigned *out)
{
    char *end;
    errno = 0;
    const unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != 0 || errno || value < min || value > max) {
        return kvg_fail(KVG_ERR_INVALID, "'%s' is not a whole number from %u to %u", text, min, max);
    }
    *out = (unsigned)value;
    return KVG_OK;
}

kvg_status kvg_parse_count(const char *text, unsigned max, unsigned *out)
{
    return parse_number(text, 1, max, out);
}

kvg_status kvg_parse_whole(const char *text, unsigned max, unsigned *out)
{
    return parse_number(text, 0, max, out);
}

kvg_status kvg_parse_shard(const char *text, unsigned *shard, unsigned *shards)
{
    char first[16];
    const char *slash = strchr(text, '/');
    if (slash && slash > text && (size_t)(slash - text) < sizeof first) {
        snprintf(first, sizeof first, "%.*s", (int)(slash - text), text);
        if (kvg_parse_count(first, 10000, shard) == KVG_OK && kvg_parse_count(slash + 1, 10000, shards) == KVG_OK &&
            *shard <= *shards) {
            --*shard;
            return KVG_OK;
        }
    }
    return kvg_fail(KVG_ERR_INVALID, "shard '%s' is not i/n with 1 <= i <= n <= 10000", text);
}
