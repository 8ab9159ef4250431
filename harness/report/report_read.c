/* Result files, line by line. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mode.h"
#include "golden/golden.h"
#include "harness/report/report_data.h"
#include "harness/report/report_value.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

typedef struct reader {
    kvg_report *report;
    kvg_report_file *file;
    size_t file_index;
    bool has_run;
    const char *line;
    size_t line_size;
} reader;

static kvg_status no_memory(const char *path)
{
    return kvg_fail(KVG_ERR_MEMORY, "%s: no memory for its cases", path);
}

/* --- single values --- */

static kvg_status get_string(kvg_json object, const char *key, const char **out)
{
    kvg_json value;
    kvg_status s = kvg_json_get(object, key, &value);
    return s ? s : kvg_json_string(value, out);
}

static kvg_status get_u64(kvg_json object, const char *key, uint64_t *out)
{
    kvg_json value;
    kvg_status s = kvg_json_get(object, key, &value);
    return s ? s : kvg_json_u64(value, 0, UINT64_MAX, out);
}

static kvg_status get_optional_u64(kvg_json object, const char *key, uint64_t *out)
{
    return kvg_json_has(object, key) ? get_u64(object, key, out) : KVG_OK;
}

static kvg_status get_bool(kvg_json object, const char *key, bool *out)
{
    kvg_json value;
    kvg_status s = kvg_json_get(object, key, &value);
    return s ? s : kvg_json_bool(value, out);
}

kvg_status kvg_report_get_number(kvg_json object, const char *key, double *out)
{
    static const struct {
        const char *name;
        double value;
    } words[] = {{"inf", INFINITY}, {"-inf", -INFINITY}, {"nan", NAN}};
    kvg_json value;
    kvg_status s = kvg_json_get(object, key, &value);
    if (s || !kvg_json_is_string(value)) return s ? s : kvg_json_double(value, out);
    const char *text;
    s = kvg_json_string(value, &text);
    if (s) return s;
    for (size_t i = 0; i < COUNT(words); i++) {
        if (strcmp(words[i].name, text) != 0) continue;
        *out = words[i].value;
        return KVG_OK;
    }
    return kvg_json_fail(value, "expected a number, \"inf\", \"-inf\" or \"nan\"");
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static kvg_status get_set(kvg_json object, const char *key, uint8_t out[KVG_REPORT_CODES / 8])
{
    const char *text;
    kvg_json value;
    if (!kvg_json_has(object, key)) return KVG_OK;
    kvg_status s = kvg_json_get(object, key, &value);
    if (!s) s = kvg_json_string(value, &text);
    if (s) return s;
    if (strlen(text) != KVG_REPORT_CODES / 4) return kvg_json_fail(value, "expected %d hex digits",
                                                                   KVG_REPORT_CODES / 4);
    for (size_t i = 0; i < KVG_REPORT_CODES / 8; i++) {
        const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) return kvg_json_fail(value, "expected %d hex digits", KVG_REPORT_CODES / 4);
        out[i] = (uint8_t)(high << 4 | low);
    }
    return KVG_OK;
}

/* --- parts of a case --- */

static kvg_status read_trip(kvg_json line, const char *side, kvg_report_trip *t)
{
    static const char *const keys[] = {"elements", "relative_l2", "sqnr_db", "gain", "worst_ratio"};
    if (!kvg_json_has(line, side)) return KVG_OK;
    kvg_json object;
    kvg_status s = kvg_json_get(line, side, &object);
    if (!s) s = kvg_json_check_keys(object, keys, COUNT(keys));
    if (!s) s = get_u64(object, "elements", &t->elements);
    if (!s) s = kvg_report_get_number(object, "relative_l2", &t->relative_l2);
    if (!s) s = kvg_report_get_number(object, "sqnr_db", &t->sqnr_db);
    if (!s) s = kvg_report_get_number(object, "gain", &t->gain);
    if (!s) s = kvg_report_get_number(object, "worst_ratio", &t->worst_ratio);
    t->present = !s;
    return s;
}

static kvg_status read_decode(kvg_json line, kvg_report_decode *a)
{
    static const char *const keys[] = {"elements",    "unpromised",  "worst_ratio", "median_ratio", "lse_ratio",
                                       "relative_l2", "codec_ratio", "codec_l2",    "probe_ratio", "bits"};
    double *const numbers[] = {&a->worst_ratio, &a->median_ratio, &a->lse_ratio,  &a->relative_l2,
                               &a->codec_ratio, &a->codec_l2,     &a->probe_ratio};
    enum { INTEGERS = 2, REQUIRED = 6 };
    if (!kvg_json_has(line, "decode")) return KVG_OK;
    kvg_json object;
    kvg_status s = kvg_json_get(line, "decode", &object);
    if (!s) s = kvg_json_check_keys(object, keys, COUNT(keys));
    if (!s) s = get_u64(object, "elements", &a->elements);
    if (!s) s = get_u64(object, "unpromised", &a->unpromised);
    if (!s && kvg_json_has(object, "bits")) s = get_bool(object, "bits", &a->bits);
    for (size_t i = INTEGERS; !s && i < INTEGERS + COUNT(numbers); i++) {
        *numbers[i - INTEGERS] = NAN;
        if (i >= REQUIRED && !kvg_json_has(object, keys[i])) continue;
        s = kvg_report_get_number(object, keys[i], numbers[i - INTEGERS]);
    }
    return s;
}

static kvg_status read_reach(kvg_json line, kvg_report_reach *r)
{
    static const char *const keys[] = {
        "codes", "codes_of", "scales", "ties", "saturations", "zero_blocks", "negative_zeros", "subnormals",
        "specials", "scale_underflows", "code_set", "scale_set",
    };
    if (!kvg_json_has(line, "reach")) return KVG_OK;
    kvg_json object;
    kvg_status s = kvg_json_get(line, "reach", &object);
    if (!s) s = kvg_json_check_keys(object, keys, COUNT(keys));
    if (!s) s = get_u64(object, "codes_of", &r->codes_of);
    if (!s) s = get_optional_u64(object, "ties", &r->ties);
    if (!s) s = get_optional_u64(object, "saturations", &r->saturations);
    if (!s) s = get_optional_u64(object, "zero_blocks", &r->zero_blocks);
    if (!s) s = get_optional_u64(object, "negative_zeros", &r->negative_zeros);
    if (!s) s = get_optional_u64(object, "subnormals", &r->subnormals);
    if (!s) s = get_optional_u64(object, "specials", &r->specials);
    if (!s) s = get_optional_u64(object, "scale_underflows", &r->scale_underflows);
    if (!s) s = get_set(object, "code_set", r->code_set);
    return s ? s : get_set(object, "scale_set", r->scale_set);
}

static kvg_status find_control(kvg_report *report, kvg_json value, size_t *index)
{
    const char *name;
    kvg_status s = kvg_json_string(value, &name);
    if (s) return s;
    for (*index = 0; *index < report->control_count; (*index)++) {
        if (strcmp(report->controls[*index], name) == 0) return KVG_OK;
    }
    if (report->control_count == KVG_REPORT_MAX_CONTROLS) {
        return kvg_json_fail(value, "more than %d different controls", KVG_REPORT_MAX_CONTROLS);
    }
    report->controls[*index] = strdup(name);
    if (!report->controls[*index]) return kvg_fail(KVG_ERR_MEMORY, "no memory for a control's name");
    report->control_count++;
    return KVG_OK;
}

static kvg_status read_controls(kvg_report *report, kvg_json line, kvg_report_case *c)
{
    if (!kvg_json_has(line, "controls")) return KVG_OK;
    kvg_json object, list;
    kvg_status s = kvg_json_get(line, "controls", &object);
    if (!s) s = kvg_json_check_keys(object, kvg_report_control_names, KVG_REPORT_CONTROLS);
    for (size_t k = 0; !s && k < KVG_REPORT_CONTROLS; k++) {
        if (k >= KVG_REPORT_WITHIN && !kvg_json_has(object, kvg_report_control_names[k])) continue;
        s = kvg_json_get(object, kvg_report_control_names[k], &list);
        if (!s && !kvg_json_is_array(list)) s = kvg_json_fail(list, "expected an array of names");
        for (size_t i = 0; !s && i < kvg_json_count(list); i++) {
            size_t index;
            s = find_control(report, kvg_json_at(list, i), &index);
            if (!s) c->controls[k] |= UINT64_C(1) << index;
        }
    }
    return s;
}

enum { MODE_SIZE = 1024 };

/* "; partial KV on": what the mode made of a feature that was wanted. */
static kvg_status read_feature(kvg_json object, const char *key, const char *name, char *text)
{
    const char *state;
    const size_t used = strlen(text);
    if (!kvg_json_has(object, key)) return KVG_OK;
    kvg_status s = get_string(object, key, &state);
    if (!s) snprintf(text + used, MODE_SIZE - used, "; %s %s%s", name, strcmp(state, "on") == 0 ? "" : "off: ", state);
    return s;
}

/* "none (fell back from fp4_nv: REASON); partial KV on": the mode in one line. No mode at all is nothing to fall back
 * from. */
static kvg_status read_mode(kvg_json line, char text[MODE_SIZE], bool *fell_back)
{
    static const char *const keys[] = {"requested", "effective", "fell_back", "reason", "partial_kv", "prefix_cache"};
    const char *requested, *effective, *reason;
    kvg_json object;
    if (!kvg_json_has(line, "mode")) return KVG_OK;
    kvg_status s = kvg_json_get(line, "mode", &object);
    if (!s) s = kvg_json_check_keys(object, keys, COUNT(keys));
    if (!s) s = get_string(object, "requested", &requested);
    if (!s) s = get_string(object, "effective", &effective);
    if (!s) s = get_bool(object, "fell_back", fell_back);
    if (!s) s = get_string(object, "reason", &reason);
    if (s) return s;
    const bool named = strcmp(requested, kvg_mode_name(KVG_MODE_UNSUPPORTED)) != 0;
    const char *from[] = {named ? " from " : "", named ? requested : ""};
    if (*fell_back) snprintf(text, MODE_SIZE, "%s (fell back%s%s: %s)", effective, from[0], from[1], reason);
    else snprintf(text, MODE_SIZE, "%s", effective);
    s = read_feature(object, "partial_kv", "partial KV", text);
    return s ? s : read_feature(object, "prefix_cache", "prefix cache", text);
}

/* The words that reports go by: op/format.dialect/layout/dtype/TxHxD/fill/scale/backend. `copy` has room for all of
 * them. */
static bool split_id(kvg_report_case *c, char *copy)
{
    enum { SHAPE = 4, WORDS = 8 };
    const char **const kept[WORDS] = {&c->op, &c->storage, &c->layout, NULL, NULL, &c->fill, NULL, NULL};
    const char *word = c->id;
    for (int i = 0; i < WORDS; i++) {
        const char *end = i < WORDS - 1 ? strchr(word, '/') : NULL; /* a backend may be a path */
        const size_t length = end ? (size_t)(end - word) : strlen(word);
        if (length == 0 || (!end && i < WORDS - 1)) return false;
        if (kept[i]) {
            *kept[i] = memcpy(copy, word, length);
            copy[length] = '\0';
            if (kept[i] == &c->layout) copy[strcspn(copy, ":")] = '\0';
            copy += length + 1;
        } else if (i == SHAPE && sscanf(word, "%*9ux%*9ux%9u", &c->head_dim) != 1) {
            return false;
        }
        if (end) word = end + 1;
    }
    return true;
}

enum { STRINGS = 5 }; /* id, detail, repro, impl, mode */

/* Copies the case's strings into one block. */
static kvg_status keep_strings(kvg_report_case *c, kvg_json line, const char *const from[STRINGS])
{
    const char **to[STRINGS] = {&c->id, &c->detail, &c->repro, &c->impl, &c->mode};
    size_t size = strlen(from[0]) + 1; /* the words of the id, each with an end in place of its slash */
    for (size_t i = 0; i < STRINGS; i++) size += strlen(from[i]) + 1;
    char *at = c->strings = malloc(size);
    if (!at) return kvg_fail(KVG_ERR_MEMORY, "no memory for a case");
    for (size_t i = 0; i < STRINGS; i++) {
        *to[i] = strcpy(at, from[i]);
        at += strlen(at) + 1;
    }
    if (!split_id(c, at)) {
        return kvg_json_fail(line, "the id does not read op/format.dialect/layout/dtype/TxHxD/fill/scale/backend");
    }
    return KVG_OK;
}

/* --- lines --- */

static kvg_status parse_shard(kvg_json line, kvg_report_file *f)
{
    const char *text;
    char rest;
    unsigned shard, count;
    kvg_status s = get_string(line, "shard", &text);
    if (s) return s;
    if (strspn(text, "0123456789/") != strlen(text) || sscanf(text, "%9u/%9u%c", &shard, &count, &rest) != 2 ||
        shard < 1 || shard > count) {
        return kvg_json_fail(line, "the shard is not I/N with 1 <= I <= N");
    }
    f->shard = shard;
    f->shard_count = count;
    return KVG_OK;
}

static kvg_status read_run(reader *r, kvg_json line)
{
    static const char *const keys[] = {"type", "kvgold", "version", "config", "name", "seed", "shard", "cases"};
    kvg_report_file *f = r->file;
    uint64_t layout;
    kvg_json seed;
    const char *version, *config, *name;
    if (r->has_run) return kvg_json_fail(line, "a second run: give each run a file of its own");
    kvg_status s = kvg_json_check_keys(line, keys, COUNT(keys));
    if (!s) s = get_u64(line, "kvgold", &layout);
    if (!s && layout != 1) s = kvg_json_fail(line, "result files of layout %d are not known here", (int)layout);
    if (!s) s = get_string(line, "version", &version);
    if (!s) s = get_string(line, "config", &config);
    if (!s) s = get_string(line, "name", &name);
    if (!s) s = kvg_json_get(line, "seed", &seed);
    if (!s) s = kvg_json_hex64(seed, &f->seed);
    if (!s) s = parse_shard(line, f);
    if (!s) s = get_u64(line, "cases", &f->cases);
    if (s) return s;
    f->version = strdup(version);
    f->config = strdup(config);
    f->name = strdup(name);
    r->has_run = true;
    return f->version && f->config && f->name ? KVG_OK : no_memory(f->path);
}

static kvg_status add_case(reader *r, kvg_report_case **out)
{
    kvg_report *report = r->report;
    if (report->case_count == report->case_capacity) {
        const size_t capacity = report->case_capacity ? 2 * report->case_capacity : 256;
        kvg_report_case *grown = realloc(report->cases, capacity * sizeof *grown);
        if (!grown) return no_memory(r->file->path);
        report->cases = grown;
        report->case_capacity = capacity;
    }
    *out = &report->cases[report->case_count++];
    **out = (kvg_report_case){.file = r->file_index, .line = r->line, .line_size = r->line_size};
    return KVG_OK;
}

static kvg_status read_start(reader *r, kvg_json line)
{
    static const char *const keys[] = {"type", "id", "repro"};
    const char *strings[STRINGS] = {"", "", "", "", ""};
    kvg_report_case *c;
    kvg_status s = kvg_json_check_keys(line, keys, COUNT(keys));
    if (!s) s = get_string(line, "id", &strings[0]);
    if (!s) s = get_string(line, "repro", &strings[2]);
    if (!s) s = add_case(r, &c);
    if (s) return s;
    c->started = true;
    return keep_strings(c, line, strings);
}

static kvg_status read_verdict(kvg_json line, kvg_verdict *out)
{
    const char *known[KVG_VERDICT_COUNT], *name;
    kvg_json value;
    kvg_status s = kvg_json_get(line, "status", &value);
    if (!s) s = kvg_json_string(value, &name);
    if (s || kvg_verdict_find(name, out) == KVG_OK) return s;
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) known[i] = kvg_verdict_name((kvg_verdict)i);
    return kvg_json_fail_name(value, "verdict", name, known, COUNT(known));
}

static kvg_status read_separation(kvg_json line, kvg_report_separation *s)
{
    static const char *const keys[] = {"least", "bits", "nearest", "reached", "unreached"};
    const char *nearest = "";
    kvg_json object;
    if (!kvg_json_has(line, "separation")) return KVG_OK;
    kvg_status status = kvg_json_get(line, "separation", &object);
    if (!status) status = kvg_json_check_keys(object, keys, COUNT(keys));
    if (status) return status;
    s->measured = true;
    s->by_bits = kvg_json_has(object, "bits");
    status = kvg_report_get_number(object, s->by_bits ? "bits" : "least", &s->least);
    if (!status && kvg_json_has(object, "nearest")) status = get_string(object, "nearest", &nearest);
    snprintf(s->nearest, sizeof s->nearest, "%s", nearest);
    return status ? status : get_u64(object, "reached", &s->reached);
}

static kvg_status read_relations(kvg_json line, size_t *held)
{
    kvg_json list = line;
    kvg_status s = kvg_json_get(line, "relations", &list);
    if (!s && !kvg_json_is_array(list)) s = kvg_json_fail(list, "expected a list of relations");
    *held = s ? 0 : kvg_json_count(list);
    return s;
}

static kvg_status read_quality(kvg_json line, kvg_report_quality *q)
{
    kvg_json object;
    if (!kvg_json_has(line, "quality")) return KVG_OK;
    kvg_status s = kvg_json_get(line, "quality", &object);
    return s ? s : kvg_report_quality_read(object, q);
}

static kvg_status read_case(reader *r, kvg_json line)
{
    static const char *const keys[] = {
        "type", "id", "status", "detail", "repro", "impl", "ms", "slow", "compared", "mismatched", "steps", "k", "v",
        "decode", "separation", "relations", "reach", "controls", "mode", "quality",
    };
    const char *strings[STRINGS];
    char mode[MODE_SIZE] = "";
    bool fell_back = false;
    kvg_report_case *c;
    kvg_status s = kvg_json_check_keys(line, keys, COUNT(keys));
    if (!s) s = get_string(line, "id", &strings[0]);
    if (!s) s = get_string(line, "detail", &strings[1]);
    if (!s) s = get_string(line, "repro", &strings[2]);
    if (!s) s = get_string(line, "impl", &strings[3]);
    if (!s) s = read_mode(line, mode, &fell_back);
    strings[4] = mode;
    if (!s) s = add_case(r, &c);
    if (!s) s = keep_strings(c, line, strings);
    if (s) return s;
    c->finished = true;
    c->fell_back = fell_back;
    s = read_verdict(line, &c->verdict);
    if (!s) s = kvg_report_get_number(line, "ms", &c->milliseconds);
    if (!s) s = get_bool(line, "slow", &c->slow);
    if (!s) s = get_optional_u64(line, "compared", &c->compared);
    if (!s) s = get_optional_u64(line, "mismatched", &c->mismatched);
    if (!s) s = get_optional_u64(line, "steps", &c->steps);
    if (!s) s = read_trip(line, "k", &c->trip[KVG_K]);
    if (!s) s = read_trip(line, "v", &c->trip[KVG_V]);
    if (!s) s = read_decode(line, &c->decode);
    if (!s) s = read_separation(line, &c->separation);
    if (!s && kvg_json_has(line, "relations")) s = read_relations(line, &c->relations);
    if (!s) s = read_reach(line, &c->reach);
    if (!s) s = read_quality(line, &c->quality);
    return s ? s : read_controls(r->report, line, c);
}

static kvg_status read_end(reader *r, kvg_json line)
{
    const char *keys[3 + KVG_VERDICT_COUNT] = {"type", "interrupted", "seconds"};
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) keys[3 + i] = kvg_verdict_name((kvg_verdict)i);
    kvg_status s = kvg_json_check_keys(line, keys, COUNT(keys));
    if (!s) s = get_bool(line, "interrupted", &r->file->interrupted);
    if (!s) s = kvg_report_get_number(line, "seconds", &r->file->seconds);
    r->file->ended = !s;
    return s;
}

static kvg_status read_line(reader *r, kvg_json line)
{
    static const char *const types[] = {"run", "start", "case", "end"};
    static kvg_status (*const readers[])(reader *r, kvg_json line) = {read_run, read_start, read_case, read_end};
    const char *type;
    kvg_status s = get_string(line, "type", &type);
    if (s) return s;
    if (!r->has_run && strcmp(type, "run") != 0) return kvg_json_fail(line, "the first line must be the run's");
    if (r->file->ended) return kvg_json_fail(line, "a line after the end of the run");
    for (size_t i = 0; i < COUNT(types); i++) {
        if (strcmp(types[i], type) == 0) return readers[i](r, line);
    }
    return kvg_json_fail_name(line, "line type", type, types, COUNT(types));
}

/* --- files --- */

static kvg_status load(kvg_report_file *f)
{
    FILE *in = fopen(f->path, "r");
    if (!in) return kvg_fail(KVG_ERR_IO, "%s: cannot open: %s", f->path, strerror(errno));
    kvg_status s = KVG_OK;
    size_t capacity = 0;
    errno = 0;
    do {
        if (f->size == capacity) {
            capacity = capacity ? 2 * capacity : 1 << 16;
            char *grown = realloc(f->text, capacity);
            if (!grown) s = no_memory(f->path);
            else f->text = grown;
        }
        if (!s) f->size += fread(f->text + f->size, 1, capacity - f->size, in);
    } while (!s && !feof(in) && !ferror(in));
    if (ferror(in)) s = kvg_fail(KVG_ERR_IO, "%s: cannot read: %s", f->path, strerror(errno));
    fclose(in);
    return s;
}

static kvg_status read_lines(reader *r)
{
    kvg_report_file *f = r->file;
    const char *at = f->text, *end = f->text + f->size;
    kvg_status s = KVG_OK;
    for (size_t number = 1; !s && at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        char name[256];
        snprintf(name, sizeof name, "%.200s:%zu", f->path, number);
        r->line = at;
        r->line_size = (size_t)((newline ? newline : end) - at);
        kvg_json_doc *doc;
        s = kvg_json_parse(name, at, r->line_size, &doc);
        if (s == KVG_ERR_INVALID && !newline && r->has_run) { /* the crash that cut it short lost no more than this */
            f->truncated = true;
            return KVG_OK;
        }
        if (!s) {
            s = read_line(r, kvg_json_root(doc));
            kvg_json_close(doc);
        }
        at = newline ? newline + 1 : end;
    }
    if (!s && !r->has_run) s = kvg_fail(KVG_ERR_INVALID, "%s: is empty: not a result file", f->path);
    return s;
}

kvg_status kvg_report_read(kvg_report *report, const char *path)
{
    kvg_report_file *grown = realloc(report->files, (report->file_count + 1) * sizeof *grown);
    if (!grown) return no_memory(path);
    report->files = grown;
    kvg_report_file *f = &grown[report->file_count];
    *f = (kvg_report_file){.path = strdup(path)};
    reader r = {.report = report, .file = f, .file_index = report->file_count++};
    if (!f->path) return no_memory(path);
    kvg_status s = load(f);
    return s ? s : read_lines(&r);
}
