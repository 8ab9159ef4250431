/* Command lines, read by the one table of options (cli/options.def). */
#ifndef KVG_CLI_ARGUMENTS_H
#define KVG_CLI_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef enum kvg_option_id {
#define OPTION(command, id, letter, name, value, kind, actions, help) KVG_OPTION_##id,
#include "cli/options.def"
#undef OPTION
    KVG_OPTION_COUNT
} kvg_option_id;

typedef enum kvg_argument_kind {
    KVG_ARGUMENT_NONE, /* the option takes no value */
    KVG_ARGUMENT_TEXT,
    KVG_ARGUMENT_WHOLE,  /* a whole number from `min` to `max` */
    KVG_ARGUMENT_NUMBER, /* of 32 bits, decimal or 0x... */
    KVG_ARGUMENT_BYTES,  /* from 1 to 2^64 - 1 */
    KVG_ARGUMENT_SEED,
    KVG_ARGUMENT_SHARD,
    KVG_ARGUMENT_PADDING, /* three whole numbers */
    KVG_ARGUMENT_REAL,
    KVG_ARGUMENT_UP_TO,  /* a number above 0 and at most `max` */
    KVG_ARGUMENT_SCALES, /* "G" or "K,V" */
    KVG_ARGUMENT_WORDS,  /* one of two */
    KVG_ARGUMENT_FORMAT,
    KVG_ARGUMENT_MODEL_TYPE,
    KVG_ARGUMENT_LAYOUT,
    KVG_ARGUMENT_PROFILE,
    KVG_ARGUMENT_MODEL,
    KVG_ARGUMENT_PRODUCTS,
    KVG_ARGUMENT_DOMAIN,
    KVG_ARGUMENT_KINDS
} kvg_argument_kind;

/* A row of the table. */
typedef struct kvg_option {
    const char *command;
    char letter; /* 0: none */
    const char *name, *value;
    kvg_argument_kind kind;
    uint32_t min, max;
    const char *words[2];
    bool repeats;
    const char *actions, *help;
} kvg_option;

const kvg_option *kvg_option_get(kvg_option_id id);

/* What a value may be, in words: "a whole number from 1 to 64". "" where there is nothing to say. */
void kvg_option_limits(const kvg_option *option, char *out, size_t size);

/* An option as it was given, and its value. */
typedef struct kvg_argument {
    kvg_option_id id;
    char *text;          /* the command line's own; NULL: there is no value */
    uint64_t numbers[3]; /* of kinds that are numbers; of names the enum's value; of words the word's index */
    double reals[2];     /* of REAL, UP_TO and SCALES */
} kvg_argument;

typedef struct kvg_arguments {
    const char *command;
    kvg_argument *options; /* in the order of the command line */
    size_t option_count;
    char **files; /* what is no option */
    int file_count;
    bool help; /* it was asked for: what stands after it was not read */
} kvg_arguments;

/* argv[0] is the command's name; argv is put in another order. On an error *out is freed. */
kvg_status kvg_arguments_read(int argc, char **argv, kvg_arguments *out) KVG_CHECKED;
void kvg_arguments_free(kvg_arguments *a);

/* Puts the shipped file of that name in the place of files[i], where no file of the user has that name:
 * kvg_shipped_find. The new name stays until the program ends. */
kvg_status kvg_arguments_find(const kvg_arguments *a, int i, const char *folder, const char *ending) KVG_CHECKED;

/* The option as it was given last; NULL: it was not. */
const kvg_argument *kvg_given(const kvg_arguments *a, kvg_option_id id);

/* Its value, or `otherwise`. */
const char *kvg_given_text(const kvg_arguments *a, kvg_option_id id, const char *otherwise);
uint64_t kvg_given_number(const kvg_arguments *a, kvg_option_id id, uint64_t otherwise);
double kvg_given_real(const kvg_arguments *a, kvg_option_id id, double otherwise);

/* As a number of child processes; not given: one per core, at most `most`. */
uint32_t kvg_given_jobs(const kvg_arguments *a, kvg_option_id id, uint32_t most);

/* KVG_ERR_INVALID if an option is for other actions: it would do nothing, and nobody would notice. */
kvg_status kvg_arguments_check_action(const kvg_arguments *a, const char *action) KVG_CHECKED;

/* A failure about an option's value: its text begins with the option's name. KVG_OK stays. */
kvg_status kvg_fail_option(kvg_status status, kvg_option_id id) KVG_CHECKED;

#endif
