#include "paging/pool/pool_trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"

#define KEY(field) #field, offsetof(kvg_pool_geometry, field)
const kvg_pool_geometry_key kvg_pool_geometry_keys[KVG_POOL_GEOMETRY_KEYS] = {
    {KEY(capacity), 1, 1 << 20, 1, 32, false},
    {KEY(chunk), -1, 1 << 20, -1, 0, false},
    {KEY(block_tokens), 1, 256, 1, 4, false},
    {KEY(cp_size), 1, 16, 1, 1, false},
    {KEY(window), 0, 1 << 20, 0, 0, false},
    {KEY(scale), 0, 1, 0, 1, true},
    {KEY(prefix), 0, 1, 0, 1, true},
    {KEY(hash_bits), 0, 64, 64, 64, false},
    {KEY(vocabulary), 1, 1 << 30, 1 << 30, 50000, false},
};
#undef KEY

const char *const kvg_pool_fault_names[KVG_POOL_FAULT_KINDS] = {"none",  "memory", "grow",   "data",
                                                                "scale", "refuse", "publish"};

/* --- the fields of an operation --- */

enum { IS_U64, IS_U32, IS_I32, IS_HEX };

static const struct field {
    const char *name;
    size_t offset;
    int type;
    uint64_t max;  /* an I32 goes from -max to max */
    bool required; /* the others are 0 where they are left out */
} fields[] = {
    {"sequence", offsetof(kvg_pool_op, sequence), IS_U64, 1ull << 53, true},
    {"child", offsetof(kvg_pool_op, child), IS_U64, 1ull << 53, true},
    {"seed", offsetof(kvg_pool_op, seed), IS_HEX, 0, false},
    {"domain", offsetof(kvg_pool_op, domain), IS_U32, KVG_POOL_DOMAINS - 1, false},
    {"prompt", offsetof(kvg_pool_op, prompt), IS_U32, UINT32_MAX, false},
    {"shared", offsetof(kvg_pool_op, shared), IS_U32, KVG_POOL_MAX_TOKENS, false},
    {"tail", offsetof(kvg_pool_op, tail), IS_U32, KVG_POOL_MAX_TOKENS, false},
    {"count", offsetof(kvg_pool_op, count), IS_U32, UINT32_MAX, false},
    {"over", offsetof(kvg_pool_op, over), IS_I32, 1 << 20, false},
    {"first", offsetof(kvg_pool_op, first), IS_U32, UINT32_MAX, false},
    {"rank", offsetof(kvg_pool_op, rank), IS_U32, 64, false},
};
enum { SEQUENCE, CHILD, SEED, DOMAIN, PROMPT, SHARED, TAIL, COUNT, OVER, FIRST, RANK, FIELDS };

enum { NO_LIST, REQUESTS, IDS, REFERENCES };

#define BIT(field) (1u << (field))
enum { ON_SEQUENCES = 1, ON_BLOCKS = 2 };

static const struct verb {
    const char *name;
    int kinds;
    unsigned fields;
    int list;
} verbs[KVG_POOL_VERBS] = {
    {"create", ON_SEQUENCES, BIT(SEQUENCE) | BIT(DOMAIN) | BIT(PROMPT) | BIT(SHARED) | BIT(TAIL) | BIT(SEED), NO_LIST},
    {"append", ON_SEQUENCES, BIT(SEQUENCE) | BIT(COUNT) | BIT(SEED), NO_LIST},
    {"materialise", ON_SEQUENCES, 0, REQUESTS},
    {"written", ON_SEQUENCES, BIT(SEQUENCE) | BIT(OVER), NO_LIST},
    {"release", ON_SEQUENCES, BIT(SEQUENCE), NO_LIST},
    {"preempt", ON_SEQUENCES, BIT(SEQUENCE), NO_LIST},
    {"fork", ON_SEQUENCES, BIT(SEQUENCE) | BIT(CHILD), NO_LIST},
    {"erase", ON_SEQUENCES, BIT(SEQUENCE), NO_LIST},
    {"commit", ON_SEQUENCES, 0, NO_LIST},
    {"verify", ON_SEQUENCES, BIT(SEQUENCE), NO_LIST},
    {"read", ON_SEQUENCES, BIT(SEQUENCE) | BIT(FIRST) | BIT(COUNT) | BIT(RANK), NO_LIST},
    {"evict", ON_SEQUENCES | ON_BLOCKS, BIT(COUNT), NO_LIST},
    {"allocate", ON_BLOCKS, BIT(COUNT), NO_LIST},
    {"lock", ON_BLOCKS, 0, IDS},
    {"unlock", ON_BLOCKS, 0, IDS},
    {"free", ON_BLOCKS, 0, IDS},
    {"touch", ON_BLOCKS, 0, IDS},
    {"alive", ON_BLOCKS, 0, REFERENCES},
    {"begin", ON_BLOCKS, 0, NO_LIST},
    {"end", ON_BLOCKS, 0, NO_LIST},
    {"undo", ON_BLOCKS, 0, NO_LIST},
};

const char *kvg_pool_verb_name(kvg_pool_verb verb)
{
    return verbs[verb].name;
}

bool kvg_pool_verb_fits(kvg_pool_verb verb, bool blocks)
{
    return (verbs[verb].kinds & (blocks ? ON_BLOCKS : ON_SEQUENCES)) != 0;
}

/* --- geometry --- */

int64_t kvg_pool_geometry_get(const kvg_pool_geometry *geometry, int key)
{
    return *(const int64_t *)((const char *)geometry + kvg_pool_geometry_keys[key].offset);
}

void kvg_pool_geometry_set(kvg_pool_geometry *geometry, int key, int64_t value)
{
    *(int64_t *)((char *)geometry + kvg_pool_geometry_keys[key].offset) = value;
}

kvg_status kvg_pool_geometry_check(const kvg_pool_geometry *geometry)
{
    for (int i = 0; i < KVG_POOL_GEOMETRY_KEYS; i++) {
        const kvg_pool_geometry_key *key = &kvg_pool_geometry_keys[i];
        const int64_t value = kvg_pool_geometry_get(geometry, i);
        if (value >= key->min && value <= key->max) continue;
        return kvg_fail(KVG_ERR_INVALID, "%s %" PRId64 ": %" PRId64 " to %" PRId64 " are possible", key->name, value,
                        key->min, key->max);
    }
    if (geometry->capacity * geometry->block_tokens * geometry->cp_size > KVG_POOL_MAX_SLOTS) {
        return kvg_fail(KVG_ERR_INVALID, "capacity * block_tokens * cp_size is above %d, the slots that are checked",
                        KVG_POOL_MAX_SLOTS);
    }
    return KVG_OK;
}

kvg_status kvg_pool_geometry_read(kvg_json value, int key, int64_t *out)
{
    const kvg_pool_geometry_key *k = &kvg_pool_geometry_keys[key];
    double number = 0;
    bool flag = false;
    kvg_status s = k->flag ? kvg_json_bool(value, &flag) : kvg_json_double(value, &number);
    if (s) return s;
    *out = k->flag ? flag : number >= (double)k->min && number <= (double)k->max ? (int64_t)number : k->min - 1;
    if (*out >= k->min && (k->flag || (double)*out == number)) return KVG_OK;
    return kvg_json_fail(value, "expected an integer from %" PRId64 " to %" PRId64, k->min, k->max);
}

/* --- traces --- */

kvg_status kvg_pool_trace_add(kvg_pool_trace *trace, const kvg_pool_op *op)
{
    if (trace->op_count == trace->op_room) {
        const size_t room = trace->op_room ? 2 * trace->op_room : 64;
        kvg_pool_op *grown = realloc(trace->ops, room * sizeof *grown);
        if (!grown) return kvg_fail(KVG_ERR_MEMORY, "cannot hold a trace of %zu operations", room);
        trace->ops = grown;
        trace->op_room = room;
    }
    kvg_pool_op copy = *op;
    copy.items = NULL;
    if (op->item_count) {
        copy.items = malloc(op->item_count * sizeof *copy.items);
        if (!copy.items) return kvg_fail(KVG_ERR_MEMORY, "cannot hold a trace");
        memcpy(copy.items, op->items, op->item_count * sizeof *copy.items);
    }
    trace->ops[trace->op_count++] = copy;
    return KVG_OK;
}

kvg_status kvg_pool_trace_copy(const kvg_pool_trace *from, kvg_pool_trace *to)
{
    *to = *from;
    to->ops = NULL;
    to->op_count = to->op_room = 0;
    kvg_status s = KVG_OK;
    for (size_t i = 0; !s && i < from->op_count; i++) s = kvg_pool_trace_add(to, &from->ops[i]);
    if (s) kvg_pool_trace_free(to);
    return s;
}

void kvg_pool_trace_remove(kvg_pool_trace *trace, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) free(trace->ops[i].items);
    memmove(trace->ops + first, trace->ops + first + count,
            (trace->op_count - first - count) * sizeof *trace->ops);
    trace->op_count -= count;
}

void kvg_pool_trace_free(kvg_pool_trace *trace)
{
    for (size_t i = 0; i < trace->op_count; i++) free(trace->ops[i].items);
    free(trace->ops);
    trace->ops = NULL;
    trace->op_count = trace->op_room = 0;
}

/* --- reading --- */

static kvg_status read_field(kvg_json object, const struct field *f, char *base)
{
    kvg_json value;
    uint64_t number = 0;
    double signed_number = 0;
    if (!f->required && !kvg_json_has(object, f->name)) return KVG_OK;
    kvg_status s = kvg_json_get(object, f->name, &value);
    if (s) return s;
    switch (f->type) {
    case IS_HEX: s = kvg_json_hex64(value, &number); break;
    case IS_I32:
        s = kvg_json_double(value, &signed_number);
        if (!s && !(signed_number >= -(double)f->max && signed_number <= (double)f->max &&
                    (double)(int32_t)signed_number == signed_number)) {
            s = kvg_json_fail(value, "expected an integer from -%" PRIu64 " to %" PRIu64, f->max, f->max);
        }
        if (!s) *(int32_t *)(base + f->offset) = (int32_t)signed_number;
        return s;
    default: s = kvg_json_u64(value, 0, f->max, &number); break;
    }
    if (s) return s;
    if (f->type == IS_U32) *(uint32_t *)(base + f->offset) = (uint32_t)number;
    else *(uint64_t *)(base + f->offset) = number;
    return KVG_OK;
}

static const struct field request_fields[] = {
    {"sequence", offsetof(kvg_pool_item, id), IS_U64, 1ull << 53, true},
    {"priority", offsetof(kvg_pool_item, priority), IS_U32, UINT32_MAX, false},
    {"extra", offsetof(kvg_pool_item, extra), IS_I32, 1 << 20, false},
    {"max_tokens", offsetof(kvg_pool_item, max_tokens), IS_U32, UINT32_MAX, true},
};
enum { REQUEST_FIELDS = sizeof request_fields / sizeof request_fields[0] };

static kvg_status read_request(kvg_json value, kvg_pool_item *item)
{
    const char *known[REQUEST_FIELDS];
    for (int i = 0; i < REQUEST_FIELDS; i++) known[i] = request_fields[i].name;
    kvg_status s = kvg_json_check_keys(value, known, REQUEST_FIELDS);
    for (int i = 0; !s && i < REQUEST_FIELDS; i++) s = read_field(value, &request_fields[i], (char *)item);
    return s;
}

/* [block, lives ago] */
static kvg_status read_reference(kvg_json value, kvg_pool_item *item)
{
    uint64_t life;
    if (!kvg_json_is_array(value) || kvg_json_count(value) != 2) {
        return kvg_json_fail(value, "expected [block, lives ago]");
    }
    kvg_status s = kvg_json_u64(kvg_json_at(value, 0), 0, UINT32_MAX, &item->id);
    if (!s) s = kvg_json_u64(kvg_json_at(value, 1), 0, UINT32_MAX, &life);
    if (!s) item->life = (uint32_t)life;
    return s;
}

static const char *const list_names[] = {NULL, "requests", "ids", "refs"};

static kvg_status read_list(kvg_json object, int list, kvg_pool_op *op)
{
    kvg_json value;
    kvg_status s = kvg_json_get(object, list_names[list], &value);
    if (s) return s;
    const size_t count = kvg_json_count(value);
    if (!kvg_json_is_array(value)) return kvg_json_fail(value, "expected a list");
    if (count > KVG_POOL_MAX_ITEMS) return kvg_json_fail(value, "more than %d entries", KVG_POOL_MAX_ITEMS);
    op->items = calloc(count + 1, sizeof *op->items);
    if (!op->items) return kvg_fail(KVG_ERR_MEMORY, "cannot hold a trace");
    op->item_count = (uint32_t)count;
    for (size_t i = 0; !s && i < count; i++) {
        const kvg_json entry = kvg_json_at(value, i);
        kvg_pool_item *item = &op->items[i];
        if (list == REQUESTS) s = read_request(entry, item);
        else s = list == IDS ? kvg_json_u64(entry, 0, UINT32_MAX, &item->id) : read_reference(entry, item);
    }
    return s;
}

/* {"kind": ..., "at": ...} */
static kvg_status read_fault(kvg_json object, kvg_pool_fault *fault)
{
    static const char *const keys[] = {"kind", "at"};
    kvg_json value;
    const char *name = NULL;
    uint64_t at = 0;
    if (!kvg_json_has(object, "fault")) return KVG_OK;
    kvg_json member;
    kvg_status s = kvg_json_get(object, "fault", &member);
    if (!s) s = kvg_json_check_keys(member, keys, 2);
    if (!s) s = kvg_json_get(member, "kind", &value);
    if (!s) s = kvg_json_string(value, &name);
    for (int i = 1; !s && i < KVG_POOL_FAULT_KINDS; i++) {
        if (strcmp(name, kvg_pool_fault_names[i]) == 0) fault->kind = (kvg_pool_fault_kind)i;
    }
    if (!s && fault->kind == KVG_POOL_FAULT_NONE) {
        s = kvg_json_fail_name(value, "fault", name, kvg_pool_fault_names + 1, KVG_POOL_FAULT_KINDS - 1);
    }
    if (!s && kvg_json_has(member, "at")) {
        s = kvg_json_get_u64(member, "at", 0, UINT32_MAX, &at);
    }
    fault->at = (uint32_t)at;
    return s;
}

static kvg_status find_verb(kvg_json object, bool blocks, kvg_pool_verb *out)
{
    const char *names[KVG_POOL_VERBS], *name = NULL;
    size_t count = 0;
    kvg_json value;
    kvg_status s = kvg_json_is_object(object) ? kvg_json_get(object, "op", &value)
                                              : kvg_json_fail(object, "expected an operation");
    if (!s) s = kvg_json_string(value, &name);
    if (s) return s;
    for (int i = 0; i < KVG_POOL_VERBS; i++) {
        if (!kvg_pool_verb_fits((kvg_pool_verb)i, blocks)) continue;
        *out = (kvg_pool_verb)i;
        if (strcmp(verbs[i].name, name) == 0) return KVG_OK;
        names[count++] = verbs[i].name;
    }
    return kvg_json_fail_name(value, blocks ? "operation on blocks" : "operation on sequences", name, names, count);
}

static kvg_status read_op(kvg_json object, bool blocks, kvg_pool_op *op)
{
    const char *known[FIELDS + 3] = {"op", "fault"};
    size_t count = 2;
    kvg_status s = find_verb(object, blocks, &op->verb);
    if (s) return s;
    const struct verb *verb = &verbs[op->verb];
    for (int i = 0; i < FIELDS; i++) {
        if (verb->fields & BIT(i)) known[count++] = fields[i].name;
    }
    if (verb->list) known[count++] = list_names[verb->list];
    s = kvg_json_check_keys(object, known, count);
    for (int i = 0; !s && i < FIELDS; i++) {
        if (verb->fields & BIT(i)) s = read_field(object, &fields[i], (char *)op);
    }
    if (!s && op->verb == KVG_POOL_APPEND && op->count > KVG_POOL_MAX_TOKENS) {
        s = kvg_json_fail(object, "more than %d tokens", KVG_POOL_MAX_TOKENS);
    }
    if (!s) s = read_fault(object, &op->fault);
    return s || !verb->list ? s : read_list(object, verb->list, op);
}

static kvg_status read_geometry(kvg_json object, kvg_pool_geometry *geometry)
{
    const char *known[KVG_POOL_GEOMETRY_KEYS];
    for (int i = 0; i < KVG_POOL_GEOMETRY_KEYS; i++) known[i] = kvg_pool_geometry_keys[i].name;
    kvg_status s = kvg_json_check_keys(object, known, KVG_POOL_GEOMETRY_KEYS);
    for (int i = 0; !s && i < KVG_POOL_GEOMETRY_KEYS; i++) {
        int64_t number = kvg_pool_geometry_keys[i].standard;
        if (kvg_json_has(object, known[i])) {
            kvg_json value;
            s = kvg_json_get(object, known[i], &value);
            if (!s) s = kvg_pool_geometry_read(value, i, &number);
        }
        kvg_pool_geometry_set(geometry, i, number);
    }
    if (!s && kvg_pool_geometry_check(geometry)) s = kvg_json_fail(object, "%s", kvg_error_text());
    return s;
}

/* A text of the trace's head, that prints as it is, into room of `size` bytes. */
static kvg_status read_text(kvg_json root, const char *key, bool required, char *out, size_t size)
{
    kvg_json value;
    const char *text = NULL;
    out[0] = 0;
    if (!required && !kvg_json_has(root, key)) return KVG_OK;
    kvg_status s = kvg_json_get(root, key, &value);
    if (!s) s = kvg_json_string(value, &text);
    if (!s && strlen(text) >= size) s = kvg_json_fail(value, "longer than %zu bytes", size - 1);
    if (!s && strpbrk(text, "\"\\\n\t")) s = kvg_json_fail(value, "no quotes, backslashes or control bytes here");
    if (!s) snprintf(out, size, "%s", text);
    return s;
}

static kvg_status read_head(kvg_json root, kvg_pool_trace *trace)
{
    static const char *const known[] = {"kvgold", "name", "comment", "kind", "defect", "violation", "pool", "ops"};
    static const char *const kinds[] = {"sequences", "blocks"};
    char kind[16], comment[1024];
    kvg_json value;
    uint64_t version;
    if (kvg_json_has(root, "scenarios")) return kvg_json_fail(root, "this is a config: run it by `kvgold pool run`");
    kvg_status s = kvg_json_check_keys(root, known, sizeof known / sizeof known[0]);
    if (!s) s = kvg_json_get_u64(root, "kvgold", 1, 1, &version);
    if (!s) s = read_text(root, "name", true, trace->name, sizeof trace->name);
    if (!s) s = read_text(root, "comment", false, comment, sizeof comment);
    if (!s) s = read_text(root, "defect", false, trace->defect, sizeof trace->defect);
    if (!s) s = read_text(root, "violation", false, trace->violation, sizeof trace->violation);
    if (!s) s = read_text(root, "kind", true, kind, sizeof kind);
    if (!s) {
        trace->blocks = strcmp(kind, kinds[1]) == 0;
        if (!trace->blocks && strcmp(kind, kinds[0]) != 0) {
            s = kvg_json_get(root, "kind", &value);
            if (!s) s = kvg_json_fail_name(value, "kind of trace", kind, kinds, 2);
        }
    }
    if (!s) s = kvg_json_get(root, "pool", &value);
    return s ? s : read_geometry(value, &trace->geometry);
}

kvg_status kvg_pool_trace_read(kvg_json root, kvg_pool_trace *trace)
{
    kvg_json ops;
    *trace = (kvg_pool_trace){0};
    kvg_status s = read_head(root, trace);
    if (!s) s = kvg_json_get(root, "ops", &ops);
    if (!s && !kvg_json_is_array(ops)) s = kvg_json_fail(ops, "expected a list of operations");
    if (!s && kvg_json_count(ops) == 0) s = kvg_json_fail(ops, "an empty trace checks nothing");
    if (!s && kvg_json_count(ops) > KVG_POOL_MAX_OPS) {
        s = kvg_json_fail(ops, "more than %d operations", KVG_POOL_MAX_OPS);
    }
    for (size_t i = 0; !s && i < kvg_json_count(ops); i++) {
        kvg_pool_op op = {0};
        s = read_op(kvg_json_at(ops, i), trace->blocks, &op);
        if (!s) s = kvg_pool_trace_add(trace, &op);
        free(op.items);
    }
    if (s) kvg_pool_trace_free(trace);
    return s;
}

kvg_status kvg_pool_trace_open(const char *path, kvg_pool_trace *trace)
{
    kvg_json_doc *doc;
    *trace = (kvg_pool_trace){0};
    kvg_status s = kvg_json_open(path, &doc);
    if (s) return s;
    s = kvg_pool_trace_read(kvg_json_root(doc), trace);
    kvg_json_close(doc);
    return s;
}

/* --- writing --- */

static void print_field(const struct field *f, const char *base, FILE *out)
{
    const char *at = base + f->offset;
    int64_t number;
    switch (f->type) {
    case IS_U32: number = *(const uint32_t *)at; break;
    case IS_I32: number = *(const int32_t *)at; break;
    default: number = (int64_t) * (const uint64_t *)at; break;
    }
    if (number == 0 && !f->required) return;
    if (f->type == IS_HEX) fprintf(out, ", \"%s\": \"0x%" PRIx64 "\"", f->name, (uint64_t)number);
    else fprintf(out, ", \"%s\": %" PRId64, f->name, number);
}

static void print_item(const kvg_pool_item *item, int list, FILE *out)
{
    if (list == IDS) {
        fprintf(out, "%" PRIu64, item->id);
    } else if (list == REFERENCES) {
        fprintf(out, "[%" PRIu64 ", %u]", item->id, item->life);
    } else {
        fprintf(out, "{\"sequence\": %" PRIu64, item->id);
        for (int i = 1; i < REQUEST_FIELDS; i++) print_field(&request_fields[i], (const char *)item, out);
        fputc('}', out);
    }
}

void kvg_pool_op_print(const kvg_pool_op *op, FILE *out)
{
    const struct verb *verb = &verbs[op->verb];
    fprintf(out, "{\"op\": \"%s\"", verb->name);
    for (int i = 0; i < FIELDS; i++) {
        if (verb->fields & BIT(i)) print_field(&fields[i], (const char *)op, out);
    }
    if (verb->list) {
        fprintf(out, ", \"%s\": [", list_names[verb->list]);
        for (uint32_t i = 0; i < op->item_count; i++) {
            if (i) fputs(", ", out);
            print_item(&op->items[i], verb->list, out);
        }
        fputc(']', out);
    }
    if (op->fault.kind) {
        fprintf(out, ", \"fault\": {\"kind\": \"%s\", \"at\": %u}", kvg_pool_fault_names[op->fault.kind], op->fault.at);
    }
    fputc('}', out);
}

void kvg_pool_trace_print(const kvg_pool_trace *trace, FILE *out)
{
    fprintf(out, "{\n  \"kvgold\": 1,\n  \"name\": \"%s\",\n  \"kind\": \"%s\",\n", trace->name,
            trace->blocks ? "blocks" : "sequences");
    if (trace->defect[0]) fprintf(out, "  \"defect\": \"%s\",\n", trace->defect);
    if (trace->violation[0]) fprintf(out, "  \"violation\": \"%s\",\n", trace->violation);
    fputs("  \"pool\": {", out);
    for (int i = 0; i < KVG_POOL_GEOMETRY_KEYS; i++) {
        const kvg_pool_geometry_key *key = &kvg_pool_geometry_keys[i];
        const int64_t value = kvg_pool_geometry_get(&trace->geometry, i);
        fprintf(out, "%s\"%s\": ", i ? ", " : "", key->name);
        if (key->flag) fputs(value ? "true" : "false", out);
        else fprintf(out, "%" PRId64, value);
    }
    fputs("},\n  \"ops\": [\n", out);
    for (size_t i = 0; i < trace->op_count; i++) {
        fputs("    ", out);
        kvg_pool_op_print(&trace->ops[i], out);
        fputs(i + 1 < trace->op_count ? ",\n" : "\n", out);
    }
    fputs("  ]\n}\n", out);
}

kvg_status kvg_pool_trace_save(const kvg_pool_trace *trace, const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f) return kvg_fail(KVG_ERR_IO, "cannot write %s", path);
    kvg_pool_trace_print(trace, f);
    const bool bad = ferror(f) != 0;
    if (fclose(f) != 0 || bad) return kvg_fail(KVG_ERR_IO, "cannot write %s", path);
    return KVG_OK;
}

/* --- what an operation's numbers stand for --- */

kvg_prefix_key kvg_pool_domain_key(uint32_t domain)
{
    static const uint64_t values[] = {0, 1, (1ull << 32) + 1};
    return (kvg_prefix_key){values[domain % 3], values[domain / 3 % 3], values[domain / 9 % 3]};
}

int32_t kvg_pool_prompt_token(uint32_t prompt, uint32_t i, int64_t vocabulary)
{
    return (int32_t)kvg_rng_below(0x70726F6D7074ull, prompt, i, (uint64_t)vocabulary); /* "prompt" */
}

int32_t kvg_pool_own_token(uint64_t seed, uint32_t i, int64_t vocabulary)
{
    return (int32_t)kvg_rng_below(seed, 0x6F776Eull, i, (uint64_t)vocabulary); /* "own" */
}
