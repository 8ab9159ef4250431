/* Result files, line by line. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/mode.h"
#include "golden/golden.h"
#include "core/name.h"
#include "harness/report/report_data.h"
#include "harness/report/result_line.h"
#include "harness/report/result_record.h"

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

/* --- texts, kept until the report is closed --- */

enum { TEXT_BLOCK = 1 << 16 };

void *kvg_report_room(kvg_report *report, size_t wanted)
{
    const size_t size = (wanted + 7) / 8 * 8; /* whatever comes next is aligned */
    kvg_report_texts **texts = &report->texts, *block = *texts;
    if (!block || block->size - block->used < size) {
        const size_t room = size > TEXT_BLOCK ? size : TEXT_BLOCK;
        block = malloc(sizeof *block + room);
        if (!block) return NULL;
        *block = (kvg_report_texts){.next = *texts, .size = room};
        *texts = block;
    }
    block->used += size;
    return block->text + block->used - size;
}

const char *kvg_report_keep(void *report, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *room = kvg_report_room(report, size);
    return room ? memcpy(room, text, size) : NULL;
}

/* --- parts of a case --- */

static kvg_status find_control(kvg_report *report, kvg_json line, const char *name, size_t *index)
{
    for (*index = 0; *index < report->control_count; (*index)++) {
        if (strcmp(report->controls[*index], name) == 0) return KVG_OK;
    }
    if (report->control_count == KVG_REPORT_MAX_CONTROLS) {
        return kvg_json_fail(line, "more than %d different controls", KVG_REPORT_MAX_CONTROLS);
    }
    report->controls[*index] = kvg_report_keep(report, name);
    if (!report->controls[*index]) return kvg_fail(KVG_ERR_MEMORY, "no memory for a control's name");
    report->control_count++;
    return KVG_OK;
}

static kvg_status count_controls(kvg_report *report, kvg_json line, kvg_report_case *c)
{
    const kvg_result_controls *controls = &c->result.controls;
    const kvg_names *const lists[KVG_REPORT_CONTROLS] = {
        [KVG_REPORT_REJECTED] = &controls->rejected, [KVG_REPORT_UNREACHED] = &controls->unreached,
        [KVG_REPORT_ACCEPTED] = &controls->accepted, [KVG_REPORT_WITHIN] = &controls->within,
        [KVG_REPORT_BY_BOUND] = &controls->by_bound,
    };
    kvg_status s = KVG_OK;
    for (size_t k = 0; k < KVG_REPORT_CONTROLS; k++) {
        for (size_t i = 0; !s && i < lists[k]->count; i++) {
            size_t index;
            s = find_control(report, line, lists[k]->name[i], &index);
            if (!s) c->controls[k][index / 64] |= UINT64_C(1) << index % 64;
        }
    }
    return s;
}

enum { MODE_SIZE = 1024 };

/* "; partial KV on": what the mode made of a feature that was wanted. */
static void add_feature(const char *name, const char *state, char *text)
{
    const size_t used = strlen(text);
    if (!state[0]) return;
    snprintf(text + used, MODE_SIZE - used, "; %s %s%s", name, strcmp(state, "on") == 0 ? "" : "off: ", state);
}

/* "none (fell back from fp4_nv: REASON); partial KV on": the mode in one line. No mode at all is nothing to fall back
 * from. */
static kvg_status read_mode(kvg_report *report, kvg_json line, kvg_report_case *c)
{
    kvg_result_mode mode;
    char text[MODE_SIZE];
    bool given;
    c->mode = "";
    kvg_status s = kvg_record_read_part(kvg_record_get(KVG_RECORD_MODE), line, "mode", &mode, &given);
    if (s || !given) return s;
    const bool named = strcmp(mode.requested, kvg_mode_name(KVG_MODE_UNSUPPORTED)) != 0;
    const char *from[] = {named ? " from " : "", named ? mode.requested : ""};
    snprintf(text, sizeof text, "%s", mode.effective);
    if (mode.fell_back) {
        snprintf(text, sizeof text, "%s (fell back%s%s: %s)", mode.effective, from[0], from[1], mode.reason);
    }
    add_feature("partial KV", mode.partial_kv, text);
    add_feature("prefix cache", mode.prefix_cache, text);
    c->fell_back = mode.fell_back;
    c->mode = kvg_report_keep(report, text);
    return c->mode ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "no memory for the mode of a case");
}

/* "nvfp4.canonical"; "int8.canonical+nvfp4.p1" where K and V differ. */
static const char *storage_text(kvg_report *report, const kvg_result_asked *a)
{
    const size_t size = strlen(a->k_format) + strlen(a->k_dialect) + strlen(a->v_format) + strlen(a->v_dialect) + 4;
    char *text = kvg_report_room(report, size);
    if (!text) return NULL;
    const int n = snprintf(text, size, "%s.%s", a->k_format, a->k_dialect);
    if (kvg_report_is_mixed(a)) snprintf(text + n, size - (size_t)n, "+%s.%s", a->v_format, a->v_dialect);
    return text;
}

static kvg_status read_asked(kvg_report *report, kvg_json line, kvg_report_case *c)
{
    kvg_status s = kvg_record_read(kvg_record_get(KVG_RECORD_ASKED), line, &c->asked);
    if (!s) s = kvg_record_keep(kvg_record_get(KVG_RECORD_ASKED), &c->asked, kvg_report_keep, report);
    if (s) return s;
    c->storage = storage_text(report, &c->asked);
    return c->storage ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "no memory for the formats of a case");
}

/* --- lines --- */

static kvg_status parse_shard(kvg_json line, kvg_report_file *f)
{
    const char *text;
    char rest;
    unsigned shard, count;
    kvg_status s = kvg_json_get_string(line, "shard", &text);
    if (s) return s;
    if (strspn(text, "0123456789/") != strlen(text) || sscanf(text, "%9u/%9u%c", &shard, &count, &rest) != 2 ||
        shard < 1 || shard > count) {
        return kvg_json_fail(line, "the shard is not I/N with 1 <= I <= N");
    }
    f->shard = shard;
    f->shard_count = count;
    return KVG_OK;
}

static kvg_status read_origins(kvg_report *report, kvg_json line)
{
    const kvg_record *kind = kvg_record_get(KVG_RECORD_ORIGIN);
    kvg_json list;
    size_t count;
    kvg_status s = kvg_json_get(line, "origins", &list);
    if (s) return s;
    const size_t had = report->origin_count, most = kvg_json_count(list);
    kvg_result_origin *grown = realloc(report->origins, (had + most + 1) * sizeof *grown);
    if (!grown) return kvg_fail(KVG_ERR_MEMORY, "no memory for the origins of a run");
    report->origins = grown;
    s = kvg_record_read_list(kind, line, "origins", most, sizeof *grown, grown + had, &count);
    for (size_t i = had; !s && i < had + count; i++) s = kvg_record_keep(kind, &grown[i], kvg_report_keep, report);
    if (!s) report->origin_count += count;
    return s;
}

static kvg_status read_run(reader *r, kvg_json line)
{
    static const char *const keys[] = {"type", "kvgold", "version", "config", "name", "seed", "public_seed", "shard",
                                       "cases", "config_cases", "origins"};
    kvg_report_file *f = r->file;
    uint64_t layout;
    const char *version, *config, *name;
    if (r->has_run) return kvg_json_fail(line, "a second run: give each run a file of its own");
    kvg_status s = kvg_json_check_keys(line, keys, COUNT(keys));
    if (!s) s = kvg_json_get_u64(line, "kvgold", 0, UINT64_MAX, &layout);
    if (!s && layout != KVG_RESULT_LAYOUT) {
        s = kvg_json_fail(line, "result files of layout %d are not known here", (int)layout);
    }
    if (!s) s = kvg_json_get_string(line, "version", &version);
    if (!s) s = kvg_json_get_string(line, "config", &config);
    if (!s) s = kvg_json_get_string(line, "name", &name);
    if (!s) s = kvg_json_get_hex64(line, "seed", &f->seed);
    if (!s && kvg_json_has(line, "public_seed")) s = kvg_json_get_bool(line, "public_seed", &f->public_seed);
    if (!s) s = parse_shard(line, f);
    if (!s) s = kvg_json_get_u64(line, "cases", 0, UINT64_MAX, &f->cases);
    if (!s && kvg_json_has(line, "config_cases")) {
        s = kvg_json_get_u64(line, "config_cases", f->cases, UINT64_MAX, &f->config_cases);
    }
    if (!s && kvg_json_has(line, "origins")) s = read_origins(r->report, line);
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

/* The line has no fields but those of the records, and of the guest's first ones. */
static kvg_status check_line(const kvg_report *report, kvg_json line, const kvg_record_id *ids, size_t count)
{
    enum { MOST = KVG_RECORDS + KVG_GUEST_LINE_RECORDS };
    const kvg_record *kinds[MOST];
    size_t n = 0;
    for (; n < count; n++) kinds[n] = kvg_record_get(ids[n]);
    for (size_t i = 0; report->guest && i < KVG_GUEST_LINE_RECORDS; i++) kinds[n++] = &report->guest->records[i];
    return kvg_record_check_keys(line, kinds, n);
}

/* What a line has of the report's guest, if it is the guest's. */
static kvg_status read_guest(kvg_report *report, kvg_json line, kvg_report_case *c)
{
    const kvg_guest *guest = report->guest;
    if (!guest || strcmp(c->asked.op, guest->name) != 0) return KVG_OK;
    return guest->read(report, line, &c->guest);
}

static kvg_status read_start(reader *r, kvg_json line)
{
    static const kvg_record_id records[] = {KVG_RECORD_ASKED};
    kvg_report_case *c;
    kvg_status s = check_line(r->report, line, records, COUNT(records));
    if (!s) s = add_case(r, &c);
    if (s) return s;
    c->started = true;
    c->mode = "";
    s = read_asked(r->report, line, c);
    return s ? s : read_guest(r->report, line, c);
}

static kvg_status read_case(reader *r, kvg_json line)
{
    static const kvg_record_id records[] = {KVG_RECORD_ASKED, KVG_RECORD_OUTCOME, KVG_RECORD_PARTS,
                                            KVG_RECORD_COMPARED, KVG_RECORD_LISTS};
    kvg_report *report = r->report;
    kvg_report_case *c;
    kvg_status s = check_line(report, line, records, COUNT(records));
    if (!s) s = add_case(r, &c);
    if (!s) s = read_asked(report, line, c);
    if (!s) s = read_mode(report, line, c);
    if (!s) s = kvg_result_read(line, &c->result);
    if (!s) s = count_controls(report, line, c);
    if (!s) s = kvg_result_keep(&c->result, kvg_report_keep, report);
    if (s) return s;
    c->finished = true;
    return read_guest(report, line, c);
}

static kvg_status read_end(reader *r, kvg_json line)
{
    const char *keys[5 + KVG_VERDICT_COUNT] = {"type", "interrupted", "seconds", "cells", "cells_judged"};
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) keys[5 + i] = kvg_verdict_name((kvg_verdict)i);
    kvg_status s = kvg_json_check_keys(line, keys, COUNT(keys));
    if (!s) s = kvg_json_get_bool(line, "interrupted", &r->file->interrupted);
    if (!s) s = kvg_result_get_number(line, "seconds", &r->file->seconds);
    r->file->ended = !s;
    return s;
}

static kvg_status read_line(reader *r, kvg_json line)
{
    static const char *const types[] = {"run", "start", "case", "end"};
    static kvg_status (*const readers[])(reader *r, kvg_json line) = {read_run, read_start, read_case, read_end};
    const char *type;
    kvg_status s = kvg_json_get_string(line, "type", &type);
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
    if (!in && errno == ENOENT) return kvg_name_fail_file(f->path, NULL);
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

static kvg_status check_digest(const kvg_report_file *f, const kvg_sha256_digest *wanted)
{
    char texts[2][KVG_SHA256_TEXT];
    kvg_sha256_digest own;
    kvg_sha256_of(f->text, f->size, &own);
    if (kvg_sha256_same(&own, wanted)) return KVG_OK;
    kvg_sha256_text(&own, texts[0]);
    kvg_sha256_text(wanted, texts[1]);
    return kvg_fail(KVG_ERR_INVALID, "%s is not as its run wrote it: its SHA-256 is %s, not %s", f->path,
                    texts[0], texts[1]);
}

kvg_status kvg_report_read(kvg_report *report, const char *path, const kvg_sha256_digest *digest)
{
    kvg_report_file *grown = realloc(report->files, (report->file_count + 1) * sizeof *grown);
    if (!grown) return no_memory(path);
    report->files = grown;
    kvg_report_file *f = &grown[report->file_count];
    *f = (kvg_report_file){.path = strdup(path)};
    reader r = {.report = report, .file = f, .file_index = report->file_count++};
    if (!f->path) return no_memory(path);
    kvg_status s = load(f);
    if (!s && digest) s = check_digest(f, digest);
    return s ? s : read_lines(&r);
}
