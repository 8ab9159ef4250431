#include "cli/arguments.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy/mode.h"
#include "core/name.h"
#include "core/problem.h"
#include "harness/bench/device_bench.h"
#include "harness/run/run.h"
#include "model/model_run.h"
#include "support/child.h"
#include "support/shipped.h"

/* The kinds of a row. */
#define FLAG .kind = KVG_ARGUMENT_NONE
#define TEXT .kind = KVG_ARGUMENT_TEXT
#define WHOLE(least, most) .kind = KVG_ARGUMENT_WHOLE, .min = (least), .max = (most)
#define NUMBER .kind = KVG_ARGUMENT_NUMBER
#define BYTES .kind = KVG_ARGUMENT_BYTES
#define SEED .kind = KVG_ARGUMENT_SEED
#define SHARD .kind = KVG_ARGUMENT_SHARD, .max = 10000
#define PADDING .kind = KVG_ARGUMENT_PADDING, .max = 1 << 20
#define REAL .kind = KVG_ARGUMENT_REAL
#define REAL_UP_TO(most) .kind = KVG_ARGUMENT_UP_TO, .max = (most)
#define SCALES .kind = KVG_ARGUMENT_SCALES
#define WORDS(first, second) .kind = KVG_ARGUMENT_WORDS, .words = {first, second}
#define FORMAT .kind = KVG_ARGUMENT_FORMAT
#define MODEL_TYPE .kind = KVG_ARGUMENT_MODEL_TYPE
#define LAYOUT .kind = KVG_ARGUMENT_LAYOUT
#define PROFILE .kind = KVG_ARGUMENT_PROFILE
#define MODEL .kind = KVG_ARGUMENT_MODEL
#define PRODUCTS .kind = KVG_ARGUMENT_PRODUCTS
#define DOMAIN .kind = KVG_ARGUMENT_DOMAIN
#define MANY(...) __VA_ARGS__, .repeats = true

static const kvg_option table[] = {
#define OPTION(command, id, letter, name, value, is, whom, says) \
    [KVG_OPTION_##id] = {#command, letter, name, value, is, .actions = whom, .help = says},
#include "cli/options.def"
#undef OPTION
};

const kvg_option *kvg_option_get(kvg_option_id id)
{
    return &table[id];
}

kvg_status kvg_fail_option(kvg_status status, kvg_option_id id)
{
    return status ? kvg_fail_in(status, "--%s", table[id].name) : status;
}

/* --- values: a reader of each kind --- */

/* A decimal number at the start of *text, which moves behind it. */
static bool take_number(const char **text, uint64_t max, uint64_t *out)
{
    const char *start = *text;
    for (*out = 0; **text >= '0' && **text <= '9'; ++*text) {
        const uint64_t digit = (uint64_t)(**text - '0');
        if (digit > max || *out > (max - digit) / 10) return false;
        *out = 10 * *out + digit;
    }
    return *text > start;
}

static kvg_status read_nothing(const kvg_option *o, const char *text, kvg_argument *out)
{
    (void)o;
    (void)text;
    (void)out;
    return KVG_OK;
}

static kvg_status read_whole(const kvg_option *o, const char *text, kvg_argument *out)
{
    const char *at = text;
    if (take_number(&at, o->max, &out->numbers[0]) && *at == 0 && out->numbers[0] >= o->min) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "'%s' is not a whole number from %u to %u", text, o->min, o->max);
}

static kvg_status read_number(const kvg_option *o, const char *text, kvg_argument *out)
{
    char *end;
    (void)o;
    errno = 0;
    out->numbers[0] = strtoull(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == 0 && !errno && out->numbers[0] <= UINT32_MAX) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "'%s' is not a number from 0 to 4294967295, decimal or 0x...", text);
}

static kvg_status read_bytes(const kvg_option *o, const char *text, kvg_argument *out)
{
    const char *at = text;
    (void)o;
    if (take_number(&at, UINT64_MAX, &out->numbers[0]) && *at == 0 && out->numbers[0] > 0) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "'%s' is not a number of bytes from 1 to 2^64 - 1", text);
}

static kvg_status read_seed(const kvg_option *o, const char *text, kvg_argument *out)
{
    char *end;
    (void)o;
    errno = 0;
    out->numbers[0] = strtoull(text, &end, 16);
    if (strncmp(text, "0x", 2) == 0 && text[2] != 0 && *end == 0 && !errno) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "seed '%s' is not 0x and 1 to 16 hex digits", text);
}

/* "i/n"; the index counts from 0. */
static kvg_status read_shard(const kvg_option *o, const char *text, kvg_argument *out)
{
    uint64_t *i = &out->numbers[0], *n = &out->numbers[1];
    const char *at = text;
    if (take_number(&at, o->max, i) && *at++ == '/' && take_number(&at, o->max, n) && *at == 0 && *i >= 1 && *i <= *n) {
        --*i;
        return KVG_OK;
    }
    return kvg_fail(KVG_ERR_INVALID, "shard '%s' is not i/n with 1 <= i <= n <= %u", text, o->max);
}

static kvg_status read_padding(const kvg_option *o, const char *text, kvg_argument *out)
{
    const char *at = text;
    bool good = true;
    for (int i = 0; i < 3 && good; i++) good = take_number(&at, o->max, &out->numbers[i]) && *at++ == (i < 2 ? ',' : 0);
    return good ? KVG_OK : kvg_fail(KVG_ERR_INVALID, "'%s' is not three numbers R,D,S up to %u", text, o->max);
}

static kvg_status take_real(const char *text, double *out, const char **end)
{
    char *after;
    errno = 0;
    const double value = strtod(text, &after);
    if (after == text || errno || !(value > -1e30 && value < 1e30)) {
        return kvg_fail(KVG_ERR_INVALID, "'%s' is not a number", text);
    }
    *out = value;
    *end = after;
    return KVG_OK;
}

static kvg_status read_real(const kvg_option *o, const char *text, kvg_argument *out)
{
    const char *end;
    (void)o;
    kvg_status s = take_real(text, &out->reals[0], &end);
    return s || *end == 0 ? s : kvg_fail(KVG_ERR_INVALID, "'%s' is not a number", text);
}

static kvg_status read_up_to(const kvg_option *o, const char *text, kvg_argument *out)
{
    char *end;
    out->reals[0] = strtod(text, &end);
    if (end != text && *end == 0 && out->reals[0] > 0 && out->reals[0] <= o->max) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "'%s' is not a number above 0 and at most %u", text, o->max);
}

static kvg_status read_scales(const kvg_option *o, const char *text, kvg_argument *out)
{
    const char *end;
    (void)o;
    kvg_status s = take_real(text, &out->reals[0], &end);
    out->reals[1] = out->reals[0];
    if (!s && *end == ',') s = take_real(end + 1, &out->reals[1], &end);
    if (!s && *end != 0) s = kvg_fail(KVG_ERR_INVALID, "'%s' is neither a number nor two with a comma", text);
    if (s || (out->reals[0] > 0 && out->reals[1] > 0)) return s;
    return kvg_fail(KVG_ERR_INVALID, "'%s': scales are above 0", text);
}

static kvg_status read_word(const kvg_option *o, const char *text, kvg_argument *out)
{
    out->numbers[0] = strcmp(text, o->words[1]) == 0;
    if (out->numbers[0] || strcmp(text, o->words[0]) == 0) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "'%s' is neither %s nor %s", text, o->words[0], o->words[1]);
}

/* A reader of the names of an enum. */
#define NAME_READER(function, type, find) \
    static kvg_status function(const kvg_option *o, const char *text, kvg_argument *out) \
    { \
        type value; \
        (void)o; \
        kvg_status s = find(text, &value); \
        if (!s) out->numbers[0] = (uint64_t)value; \
        return s; \
    }
NAME_READER(read_format, kvg_format, kvg_format_find)
NAME_READER(read_layout, kvg_layout, kvg_layout_find)
NAME_READER(read_profile, kvg_profile, kvg_profile_find)
NAME_READER(read_products, kvg_products, kvg_products_find)
NAME_READER(read_domain, kvg_policy_domain, kvg_policy_domain_find)
NAME_READER(read_dtype, kvg_dtype, kvg_dtype_find)

static kvg_status read_model_type(const kvg_option *o, const char *text, kvg_argument *out)
{
    kvg_status s = read_dtype(o, text, out);
    if (s || out->numbers[0] == KVG_DTYPE_F16 || out->numbers[0] == KVG_DTYPE_BF16) return s;
    return kvg_fail(KVG_ERR_INVALID, "model type %s: use f16 or bf16", text);
}

static const struct kind {
    kvg_status (*read)(const kvg_option *o, const char *text, kvg_argument *out);
    const char *limits; /* of those without numbers and words of the row */
} kinds[] = {
    [KVG_ARGUMENT_NONE] = {read_nothing, ""},
    [KVG_ARGUMENT_TEXT] = {read_nothing, ""},
    [KVG_ARGUMENT_WHOLE] = {read_whole, NULL},
    [KVG_ARGUMENT_NUMBER] = {read_number, "a number from 0 to 4294967295, decimal or 0x..."},
    [KVG_ARGUMENT_BYTES] = {read_bytes, "a number of bytes from 1 to 2^64 - 1"},
    [KVG_ARGUMENT_SEED] = {read_seed, "0x and 1 to 16 hex digits"},
    [KVG_ARGUMENT_SHARD] = {read_shard, NULL},
    [KVG_ARGUMENT_PADDING] = {read_padding, NULL},
    [KVG_ARGUMENT_REAL] = {read_real, "a number"},
    [KVG_ARGUMENT_UP_TO] = {read_up_to, NULL},
    [KVG_ARGUMENT_SCALES] = {read_scales, "a number above 0, or two with a comma"},
    [KVG_ARGUMENT_WORDS] = {read_word, NULL},
    [KVG_ARGUMENT_FORMAT] = {read_format, "a name of `kvgold list formats`"},
    [KVG_ARGUMENT_MODEL_TYPE] = {read_model_type, "f16 or bf16"},
    [KVG_ARGUMENT_LAYOUT] = {read_layout, "a name of `kvgold list layouts`"},
    [KVG_ARGUMENT_PROFILE] = {read_profile, "a name of `kvgold list profiles`"},
    [KVG_ARGUMENT_MODEL] = {read_nothing, "a name of `kvgold list models`, or a .json file"},
    [KVG_ARGUMENT_PRODUCTS] = {read_products, "fixed or library"},
    [KVG_ARGUMENT_DOMAIN] = {read_domain, "turbomind or lmdeploy_2026"},
};
_Static_assert(sizeof kinds / sizeof kinds[0] == KVG_ARGUMENT_KINDS, "every kind has a reader");

void kvg_option_limits(const kvg_option *option, char *out, size_t size)
{
    const char *limits = kinds[option->kind].limits;
    if (limits) snprintf(out, size, "%s", limits);
    else if (option->kind == KVG_ARGUMENT_WHOLE)
        snprintf(out, size, "a whole number from %u to %u", option->min, option->max);
    else if (option->kind == KVG_ARGUMENT_SHARD) snprintf(out, size, "i/n with 1 <= i <= n <= %u", option->max);
    else if (option->kind == KVG_ARGUMENT_PADDING) snprintf(out, size, "three numbers up to %u", option->max);
    else if (option->kind == KVG_ARGUMENT_UP_TO) snprintf(out, size, "a number above 0 and at most %u", option->max);
    else snprintf(out, size, "%s or %s", option->words[0], option->words[1]);
}

/* --- the command line --- */

/* getopt_long knows an option of the table as FIRST + its id. */
enum { FIRST = 256, HELP = FIRST + KVG_OPTION_COUNT };

typedef struct known_options {
    struct option names[KVG_OPTION_COUNT + 2];
    char letters[3 * KVG_OPTION_COUNT + 4];
} known_options;

static void know_options(const char *command, known_options *k)
{
    size_t count = 0;
    *k = (known_options){.letters = ":h"};
    for (int id = 0; id < KVG_OPTION_COUNT; id++) {
        const kvg_option *o = &table[id];
        const char letter[] = {o->letter, o->value ? ':' : 0, 0};
        if (strcmp(o->command, command) != 0) continue;
        k->names[count++] = (struct option){o->name, o->value ? required_argument : no_argument, NULL, FIRST + id};
        if (o->letter) strcat(k->letters, letter);
    }
    k->names[count] = (struct option){"help", no_argument, NULL, HELP};
}

static int from_letter(const char *command, int found)
{
    for (int id = 0; id < KVG_OPTION_COUNT; id++) {
        if (table[id].letter == found && strcmp(table[id].command, command) == 0) return FIRST + id;
    }
    return found == 'h' ? HELP : found;
}

/* getopt_long itself prints nothing: main has set opterr to 0. */
static kvg_status wrong_option(const char *command, int error, const known_options *known, char **argv)
{
    const char letter[] = {'-', (char)optopt, '\0'};
    const char *option = argv[optind - 1], *wrong = "is unknown";
    const bool is_long = strncmp(option, "--", 2) == 0;
    char name[64];
    size_t count = 0, begun = 0;
    snprintf(name, sizeof name, "%.*s", is_long ? (int)strcspn(option + 2, "=") : 0, option + 2);
    while (known->names[count].name) begun += strncmp(known->names[count++].name, name, strlen(name)) == 0;
    const char *nearest = kvg_name_nearest(name, &known->names[0].name, sizeof known->names[0], count);
    if (error == ':') wrong = "needs a value";
    else if (is_long && optopt) wrong = "takes no value";
    else if (is_long && begun > 1) wrong = "begins more than one";
    else if (is_long && nearest)
        return kvg_fail(KVG_ERR_INVALID, "no option --%s (did you mean --%s?)", name, nearest);
    return kvg_fail(KVG_ERR_INVALID, "option %s %s (see `kvgold %s --help`)", is_long ? option : letter, wrong,
                    command);
}

static kvg_status take_option(kvg_arguments *a, kvg_option_id id)
{
    kvg_argument *given = &a->options[a->option_count++];
    *given = (kvg_argument){.id = id, .text = optarg};
    return kvg_fail_option(kinds[table[id].kind].read(&table[id], optarg, given), id);
}

kvg_status kvg_arguments_read(int argc, char **argv, kvg_arguments *out)
{
    known_options known;
    know_options(argv[0], &known);
    *out = (kvg_arguments){.command = argv[0]};
    size_t most = 1;
    for (int i = 1; i < argc; i++) most += strlen(argv[i]); /* "-vvv" is three */
    out->options = calloc(most, sizeof *out->options);
    kvg_status s = out->options ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "cannot hold the options");
    optind = 0; /* getopt_long starts again */
    for (int found; !s && !out->help && (found = getopt_long(argc, argv, known.letters, known.names, NULL)) != -1;) {
        found = from_letter(out->command, found);
        if (found < FIRST) s = wrong_option(out->command, found, &known, argv);
        else if (found == HELP) out->help = true;
        else s = take_option(out, (kvg_option_id)(found - FIRST));
    }
    out->files = argv + optind;
    out->file_count = argc - optind;
    if (s) kvg_arguments_free(out);
    return s;
}

void kvg_arguments_free(kvg_arguments *a)
{
    free(a->options);
    *a = (kvg_arguments){0};
}

kvg_status kvg_arguments_find(const kvg_arguments *a, int i, const char *folder, const char *ending)
{
    char found[PATH_MAX];
    kvg_status s = kvg_shipped_find(folder, ending, a->files[i], found, sizeof found);
    if (s || strcmp(found, a->files[i]) == 0) return s;
    char *kept = strdup(found);
    if (!kept) return kvg_fail(KVG_ERR_MEMORY, "no memory for %s", found);
    a->files[i] = kept;
    return KVG_OK;
}

const kvg_argument *kvg_given(const kvg_arguments *a, kvg_option_id id)
{
    for (size_t i = a->option_count; i-- > 0;) {
        if (a->options[i].id == id) return &a->options[i];
    }
    return NULL;
}

const char *kvg_given_text(const kvg_arguments *a, kvg_option_id id, const char *otherwise)
{
    const kvg_argument *given = kvg_given(a, id);
    return given ? given->text : otherwise;
}

uint64_t kvg_given_number(const kvg_arguments *a, kvg_option_id id, uint64_t otherwise)
{
    const kvg_argument *given = kvg_given(a, id);
    return given ? given->numbers[0] : otherwise;
}

uint32_t kvg_given_jobs(const kvg_arguments *a, kvg_option_id id, uint32_t most)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return (uint32_t)kvg_given_number(a, id, cores < 1 ? 1 : cores > (long)most ? most : (uint64_t)cores);
}

double kvg_given_real(const kvg_arguments *a, kvg_option_id id, double otherwise)
{
    const kvg_argument *given = kvg_given(a, id);
    return given ? given->reals[0] : otherwise;
}

static bool is_for(const kvg_option *o, const char *action)
{
    const size_t length = strlen(action);
    for (const char *at = strstr(o->actions, action); at; at = strstr(at + 1, action)) {
        const bool starts = at == o->actions || at[-1] == ' ', ends = at[length] == 0 || at[length] == ' ';
        if (starts && ends) return true;
    }
    return o->actions[0] == 0;
}

kvg_status kvg_arguments_check_action(const kvg_arguments *a, const char *action)
{
    for (size_t i = 0; i < a->option_count; i++) {
        const kvg_option_id id = a->options[i].id;
        if (is_for(&table[id], action)) continue;
        return kvg_fail(KVG_ERR_INVALID, "--%s is not for %s: see `kvgold %s --help`", table[id].name, action,
                        a->command);
    }
    return KVG_OK;
}
