#define _POSIX_C_SOURCE 200809L
#include "paging/pool/pool_log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/name.h"
#include "golden/golden.h"
#include "paging/pool/pool_log_reader.h"

typedef enum field_kind { NAMED, NAMED_OR_NULL, BLOCK, BLOCKS, NAMES, WHOLE, TOKENS, FLAG, ANYTHING } field_kind;

static const struct field {
    const char *key;
    field_kind kind;
} fields[KVG_AUDIT_FIELDS] = {
#define AUDIT_FIELD(name, key, kind) {key, kind},
#include "paging/pool/pool_audit_events.def"
#undef AUDIT_FIELD
};

#define HAS(name) (1u << KVG_AUDIT_FIELD_##name)

typedef struct shape {
    unsigned needed, others;
} shape;

static const shape shapes[KVG_AUDIT_EVENTS] = {
#define AUDIT_EVENT(name, word, needed, others) {HAS(EVENT) | (needed), HAS(AT) | (others)},
#include "paging/pool/pool_audit_events.def"
#undef AUDIT_EVENT
};

static const shape head_shape = {HAS(VERSION) | HAS(POOL_BLOCKS) | HAS(BLOCK_TOKENS),
                                 HAS(EVICTS) | HAS(WRITES) | HAS(PROMISES) | HAS(WINDOW) | HAS(ENGINE) | HAS(AT) |
                                 HAS(HOST_BLOCKS) | HAS(LOWEST_FIRST) | HAS(FREE_FIRST) | HAS(OLDEST_FIRST) |
                                 HAS(TAIL_FIRST)};

/* --- values --- */

static kvg_status read_whole(kvg_json value, int64_t *out)
{
    uint64_t number;
    kvg_status s = kvg_json_u64(value, 0, UINT32_MAX, &number);
    if (!s) *out = (int64_t)number;
    return s;
}

static kvg_status read_flag(kvg_json value, int64_t *out)
{
    bool flag;
    kvg_status s = kvg_json_bool(value, &flag);
    if (!s) *out = flag;
    return s;
}

static kvg_status read_value(pool_reader *r, kvg_json value, field_kind kind, kvg_audit_value *out)
{
    out->given = true;
    switch (kind) {
    case NAMED: return pool_read_name(r, value, &out->text);
    case NAMED_OR_NULL: return kvg_json_is_null(value) ? KVG_OK : pool_read_name(r, value, &out->text);
    case BLOCK: return pool_read_integer(value, &out->number);
    case BLOCKS: case TOKENS: return pool_read_list(r, value, false, out);
    case NAMES: return pool_read_list(r, value, true, out);
    case WHOLE: return read_whole(value, &out->number);
    case FLAG: return read_flag(value, &out->number);
    case ANYTHING: return KVG_OK;
    }
    return KVG_OK;
}

/* --- lines --- */

/* Fails: a key that the shape does not have. */
static kvg_status fail_key(kvg_json object, const shape *sh)
{
    const char *known[KVG_AUDIT_FIELDS];
    size_t count = 0;
    for (int f = 0; f < KVG_AUDIT_FIELDS; f++) {
        if ((sh->needed | sh->others) >> f & 1) known[count++] = fields[f].key;
    }
    return kvg_json_check_keys(object, known, count);
}

static kvg_status read_fields(pool_reader *r, kvg_json object, const shape *sh, kvg_audit_value *values)
{
    size_t found = 0;
    kvg_status s = KVG_OK;
    for (int f = 0; f < KVG_AUDIT_FIELDS && !s; f++) {
        kvg_json value;
        const bool needed = sh->needed >> f & 1;
        if (!needed && (!(sh->others >> f & 1) || !kvg_json_has(object, fields[f].key))) continue;
        s = kvg_json_get(object, fields[f].key, &value);
        if (!s) s = read_value(r, value, fields[f].kind, &values[f]);
        found++;
    }
    return s || found == kvg_json_count(object) ? s : fail_key(object, sh);
}

static kvg_status read_head(pool_reader *r, kvg_json object, kvg_audit_head *head)
{
    kvg_audit_value v[KVG_AUDIT_FIELDS] = {{0}};
    if (!kvg_json_is_object(object) || !kvg_json_has(object, fields[KVG_AUDIT_FIELD_VERSION].key)) {
        return kvg_json_fail(object, "the first line must be the head: {\"kvgold_pool_log\": 1, \"blocks\": N, "
                                     "\"block_tokens\": B}");
    }
    kvg_status s = read_fields(r, object, &head_shape, v);
    if (s) return s;
    const int64_t version = v[KVG_AUDIT_FIELD_VERSION].number, blocks = v[KVG_AUDIT_FIELD_POOL_BLOCKS].number,
                  tokens = v[KVG_AUDIT_FIELD_BLOCK_TOKENS].number, host = v[KVG_AUDIT_FIELD_HOST_BLOCKS].number;
    if (version != 1) return kvg_json_fail(object, "version %" PRId64 " of the log: this kvgold reads 1", version);
    if (host && !blocks) return kvg_json_fail(object, "blocks of the host behind no blocks: leave `host_blocks` out");
    if (blocks + host > KVG_AUDIT_MAX_BLOCKS || tokens < 1 || tokens > KVG_AUDIT_MAX_BLOCK_TOKENS) {
        return kvg_json_fail(object, "%" PRId64 " blocks of %" PRId64 " tokens: 0 to %d blocks of 1 to %d are possible",
                             blocks + host, tokens, KVG_AUDIT_MAX_BLOCKS, KVG_AUDIT_MAX_BLOCK_TOKENS);
    }
    *head = (kvg_audit_head){.blocks = (uint32_t)blocks, .block_tokens = (uint32_t)tokens,
                             .host_blocks = (uint32_t)host,
                             .evicts_on_allocate = v[KVG_AUDIT_FIELD_EVICTS].number != 0,
                             .writes = !v[KVG_AUDIT_FIELD_WRITES].given || v[KVG_AUDIT_FIELD_WRITES].number != 0,
                             .stores_before_write = v[KVG_AUDIT_FIELD_PROMISES].number != 0,
                             .window = v[KVG_AUDIT_FIELD_WINDOW].number != 0,
                             .lowest_first = v[KVG_AUDIT_FIELD_LOWEST_FIRST].number != 0,
                             .free_first = v[KVG_AUDIT_FIELD_FREE_FIRST].number != 0,
                             .oldest_first = v[KVG_AUDIT_FIELD_OLDEST_FIRST].number != 0,
                             .tail_first = v[KVG_AUDIT_FIELD_TAIL_FIRST].number != 0};
    return KVG_OK;
}

static kvg_status read_event(pool_reader *r, kvg_json object, kvg_audit_event *event)
{
    kvg_json word;
    const char *text;
    size_t kind = 0;
    kvg_status s = kvg_json_get(object, fields[KVG_AUDIT_FIELD_EVENT].key, &word);
    if (!s) s = kvg_json_string(word, &text);
    if (s) return s;
    while (kind < KVG_AUDIT_EVENTS && strcmp(kvg_audit_event_words[kind], text) != 0) kind++;
    if (kind == KVG_AUDIT_EVENTS) {
        return kvg_json_fail_name(word, "event", text, kvg_audit_event_words, KVG_AUDIT_EVENTS);
    }
    *event = (kvg_audit_event){.kind = (kvg_audit_event_kind)kind, .line = r->number};
    return read_fields(r, object, &shapes[kind], event->values);
}

/* One line: of the head while there is no model, or of KV events if the first line is one. */
static kvg_status judge_line(pool_reader *r, size_t size, kvg_audit_report report, kvg_audit **a)
{
    char place[200];
    kvg_json_doc *doc;
    kvg_audit_event event;
    kvg_audit_head head;
    const bool torn = r->line[size - 1] != '\n';
    snprintf(place, sizeof place, "%.160s:%" PRIu64, r->name, r->number);
    if (size > KVG_JSON_MAX_BYTES) {
        return kvg_fail(KVG_ERR_INVALID, "%s: %zu bytes, a line has at most %d: split the event", place, size,
                        KVG_JSON_MAX_BYTES);
    }
    kvg_status s = kvg_json_parse(place, r->line, size, &doc);
    if (s && torn) return kvg_fail(s, "%s: the last line is torn: end every event by a newline, and flush", place);
    if (s) return s;
    const kvg_json root = kvg_json_root(doc);
    s = pool_reader_room(r, size);
    if (!s && !*a && pool_is_kv_events(root)) {
        s = kvg_audit_make(&pool_kv_events_head, report, a);
        r->kv_events = true;
    }
    if (!s && r->kv_events) {
        s = pool_kv_events(r, root, *a);
    } else if (!s && *a) {
        s = read_event(r, root, &event);
        if (!s) s = kvg_json_locate(root, kvg_audit_step(*a, &event));
    } else if (!s) {
        s = read_head(r, root, &head);
        if (!s) s = kvg_json_locate(root, kvg_audit_make(&head, report, a));
    }
    kvg_json_close(doc);
    return s;
}

static kvg_status judge_lines(pool_reader *r, kvg_audit_report report, kvg_audit **a)
{
    kvg_status s = KVG_OK;
    ssize_t size;
    while (!s && (size = getline(&r->line, &r->line_room, r->in)) > 0) {
        r->number++;
        if (r->line[strspn(r->line, " \t\r\n")] != '\0' || strlen(r->line) < (size_t)size) {
            s = judge_line(r, (size_t)size, report, a);
        }
    }
    if (s) return s;
    if (!feof(r->in)) return kvg_fail(KVG_ERR_IO, "%s: cannot read: %s", r->name, strerror(errno));
    return *a ? KVG_OK : kvg_fail(KVG_ERR_INVALID, "%s: the log is empty: its first line is the head", r->name);
}

kvg_status kvg_audit_log(FILE *in, const char *name, kvg_audit_report report, kvg_audit_totals *totals)
{
    pool_reader r = {.in = in, .name = name};
    kvg_audit *a = NULL;
    *totals = (kvg_audit_totals){0};
    kvg_status s = judge_lines(&r, report, &a);
    if (a) *totals = *kvg_audit_sum(a);
    kvg_audit_free(a);
    pool_reader_free(&r);
    return s;
}
