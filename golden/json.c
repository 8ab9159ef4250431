#define _POSIX_C_SOURCE 200809L
#include "golden/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/name.h"
#include "golden/input.h"
#include "golden/json_scan.h"

typedef enum kind { FALSE_VALUE, TRUE_VALUE, NULL_VALUE, NUMBER, STRING, ARRAY, OBJECT } kind;

/* A value, and where it stands. The children of a container are neighbours in the document's array. */
typedef struct node {
    kind kind;
    const char *text;   /* where it begins; of a string what it says */
    const char *key;    /* of an object's member */
    double number;
    uint32_t parent;    /* indices into kvg_json_doc.nodes; the root is its own parent */
    uint32_t first;
    uint32_t count;
} node;

/* All memory is cJSON_malloc's, so that whoever sets cJSON's hooks sees all of it. */
struct kvg_json_doc {
    char *text; /* a copy, closed by a NUL; strings and keys are decoded in their places */
    node *nodes;
    size_t used;
    size_t capacity;
    kvg_input_text name;
};

static const node *node_of(kvg_json value)
{
    return value.item;
}

static kvg_json value_of(const kvg_json_doc *doc, const node *n)
{
    return (kvg_json){doc, n};
}

static bool is_a(kvg_json value, kind wanted)
{
    return value.item && node_of(value)->kind == wanted;
}

/* ---- errors ---- */

static bool is_plain_key(const char *key)
{
    return *key && strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(key);
}

/* "$.cases[2].fill", or its end behind "..." where it does not fit. */
static void write_path(kvg_json value, char *out, size_t size)
{
    const node *up[KVG_JSON_MAX_DEPTH + 1];
    size_t depth = 0;
    const node *nodes = value.doc->nodes;
    for (const node *n = node_of(value); n && n != nodes; n = &nodes[n->parent]) up[depth++] = n;
    snprintf(out, size, "$");
    while (depth-- > 0) {
        const node *n = up[depth];
        char step[80];
        if (!n->key) {
            snprintf(step, sizeof step, "[%zu]", (size_t)(n - nodes) - nodes[n->parent].first);
        } else {
            kvg_input_text key = kvg_input_quote(n->key);
            snprintf(step, sizeof step, is_plain_key(n->key) ? ".%.64s" : "[\"%.64s\"]", key.text);
        }
        size_t used = strlen(out);
        size_t added = strlen(step);
        if (used + added + 1 > size) {
            memcpy(out, "...", 4);
            used = 3;
        }
        memcpy(out + used, step, added + 1);
    }
}

kvg_status kvg_json_fail(kvg_json value, const char *format, ...)
{
    char message[400];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    char path[160];
    write_path(value, path, sizeof path);
    return kvg_fail(KVG_ERR_INVALID, "%s: %s: %s", value.doc->name.text, path, message);
}

kvg_status kvg_json_locate(kvg_json value, kvg_status s)
{
    char text[512];
    if (s == KVG_OK) return KVG_OK;
    snprintf(text, sizeof text, "%s", kvg_error_text());
    const kvg_status located = kvg_json_fail(value, "%s", text);
    return s == KVG_ERR_MEMORY ? s : located;
}

kvg_status kvg_json_fail_name(kvg_json value, const char *what, const char *name, const char *const *known,
                              size_t count)
{
    kvg_input_text shown = kvg_input_quote(name);
    const char *nearest = kvg_name_nearest(name, known, sizeof known[0], count);
    if (nearest) {
        return kvg_json_fail(value, "unknown %s '%s' (did you mean '%s'?)", what, shown.text,
                             kvg_input_quote(nearest).text);
    }
    char list[240] = "";
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", kvg_input_quote(known[i]).text);
    }
    return kvg_json_fail(value, "unknown %s '%s'; known: %s", what, shown.text, count ? list : "none");
}

static const char *kind_of(kvg_json value)
{
    static const char *const kinds[] = {[FALSE_VALUE] = "false", [TRUE_VALUE] = "true", [NULL_VALUE] = "null",
                                        [NUMBER] = "a number", [STRING] = "a string", [ARRAY] = "an array",
                                        [OBJECT] = "an object"};
    return value.item ? kinds[node_of(value)->kind] : "nothing";
}

/* ---- reading a document ---- */

static int compare_keys(const void *a, const void *b)
{
    const node *x = *(const node *const *)a;
    const node *y = *(const node *const *)b;
    return strcmp(x->key, y->key);
}

/* `scratch` has room for every member. */
static kvg_status check_duplicates(const kvg_json_doc *doc, const node *object, const node **scratch)
{
    for (size_t i = 0; i < object->count; i++) scratch[i] = &doc->nodes[object->first + i];
    qsort(scratch, object->count, sizeof scratch[0], compare_keys);
    for (size_t i = 1; i < object->count; i++) {
        const char *key = scratch[i]->key;
        if (strcmp(scratch[i - 1]->key, key) == 0) {
            return kvg_json_fail(value_of(doc, object), "duplicate key '%s': keep one", kvg_input_quote(key).text);
        }
    }
    return KVG_OK;
}

/* The double nearest to a number's text. strtod reads the locale's point. */
static double read_double(const char *text, size_t length)
{
    char copy[64]; /* the scan refuses longer numbers */
    memcpy(copy, text, length);
    copy[length] = '\0';
    char *point = strchr(copy, '.');
    if (point) *point = localeconv()->decimal_point[0];
    return strtod(copy, NULL);
}

/* Whether a number is an integer of at most 15 digits, which a double holds. strtod is slower, and most are. */
static bool take_integer(node *n)
{
    uint64_t integer = 0;
    size_t digits = 0;
    for (; n->text[digits] >= '0' && n->text[digits] <= '9' && digits < 16; digits++)
        integer = integer * 10 + (uint64_t)(n->text[digits] - '0');
    if (digits == 0 || digits > 15 || strchr(".eE", n->text[digits])) return false;
    n->number = (double)integer;
    return true;
}

static kvg_status take_number(const kvg_json_doc *doc, node *n)
{
    if (take_integer(n)) return KVG_OK;
    const size_t length = kvg_json_scan_number_length(n->text);
    const char leading = n->text[strspn(n->text, "-0.")]; /* the first digit that counts, if there is one */
    n->number = read_double(n->text, length);
    if (!isfinite(n->number)) {
        return kvg_json_fail(value_of(doc, n), "%.*s is too large for a double", (int)length, n->text);
    }
    if (n->number == 0 && leading >= '1' && leading <= '9') {
        return kvg_json_fail(value_of(doc, n), "%.*s is too small for a double: write 0", (int)length, n->text);
    }
    return KVG_OK;
}

static kind kind_at(const char *text)
{
    switch (*text) {
    case 'f': return FALSE_VALUE;
    case 't': return TRUE_VALUE;
    case 'n': return NULL_VALUE;
    case '"': return STRING;
    case '[': return ARRAY;
    case '{': return OBJECT;
    default: return NUMBER;
    }
}

/* Gives the children of a container their nodes, in the order of the text; what they hold is passed over. */
static void take_children(kvg_json_doc *doc, size_t parent)
{
    node *up = &doc->nodes[parent];
    const char *at = kvg_json_scan_space(up->text + 1);
    up->first = (uint32_t)doc->used;
    while (*at != ']' && *at != '}') {
        node child = {.parent = (uint32_t)parent};
        if (up->kind == OBJECT) {
            child.key = at;
            at = kvg_json_scan_space(kvg_json_scan_end(at));
            at = kvg_json_scan_space(at + 1); /* after ':' */
        }
        child.text = at;
        child.kind = kind_at(at);
        doc->nodes[doc->used++] = child;
        up->count++;
        at = kvg_json_scan_space(kvg_json_scan_end(at));
        if (*at == ',') at = kvg_json_scan_space(at + 1);
    }
}

/* Reads what a value holds. Recursion is as deep as the text, which is KVG_JSON_MAX_DEPTH. `scratch` has room for every
 * value. */
static kvg_status take_value(kvg_json_doc *doc, size_t index, const node **scratch)
{
    node *n = &doc->nodes[index];
    kvg_status s = KVG_OK;
    if (n->kind == NUMBER) return take_number(doc, n);
    if (n->kind == STRING) n->text = kvg_json_scan_decode(doc->text + (n->text - doc->text));
    if (n->kind != ARRAY && n->kind != OBJECT) return KVG_OK;
    take_children(doc, index);
    for (size_t i = n->first; i < n->first + n->count && n->kind == OBJECT; i++) {
        doc->nodes[i].key = kvg_json_scan_decode(doc->text + (doc->nodes[i].key - doc->text));
    }
    for (size_t i = n->first; i < n->first + n->count && !s; i++) s = take_value(doc, i, scratch);
    return s || n->kind == ARRAY ? s : check_duplicates(doc, n, scratch);
}

/* Fills a document whose name, and whose text of `size` bytes and a NUL, are there. */
static kvg_status parse_text(kvg_json_doc *doc, size_t size)
{
    kvg_status s = kvg_json_scan(doc->name.text, doc->text, size, &doc->capacity);
    if (s != KVG_OK) return s;
    doc->nodes = cJSON_malloc(doc->capacity * sizeof doc->nodes[0]);
    const node **scratch = cJSON_malloc(doc->capacity * sizeof scratch[0]);
    if (doc->nodes && scratch) {
        const char *at = kvg_json_scan_space(doc->text);
        doc->nodes[doc->used++] = (node){.text = at, .kind = kind_at(at)};
        s = take_value(doc, 0, scratch);
    } else {
        s = kvg_fail(KVG_ERR_MEMORY, "%s: no memory for %zu JSON values", doc->name.text, doc->capacity);
    }
    cJSON_free(scratch);
    return s;
}

static kvg_json_doc *create_doc(const char *name, size_t size)
{
    kvg_json_doc *doc = cJSON_malloc(sizeof *doc);
    if (!doc) return NULL;
    *doc = (kvg_json_doc){.text = cJSON_malloc(size + 1), .name = kvg_input_name(name)};
    if (!doc->text) {
        cJSON_free(doc);
        return NULL;
    }
    doc->text[size] = '\0';
    return doc;
}

static kvg_status finish(kvg_json_doc *doc, kvg_status s, kvg_json_doc **out)
{
    if (s == KVG_OK) *out = doc;
    else kvg_json_close(doc);
    return s;
}

kvg_status kvg_json_parse(const char *name, const char *text, size_t size, kvg_json_doc **out)
{
    *out = NULL;
    /* The scan refuses what is over the limit: copy no more than it needs to see that. */
    size_t copied = size > KVG_JSON_MAX_BYTES ? 0 : size;
    kvg_json_doc *doc = create_doc(name, copied);
    if (!doc) return kvg_fail(KVG_ERR_MEMORY, "%s: no memory for %zu bytes of JSON", kvg_input_name(name).text, copied);
    if (copied > 0) memcpy(doc->text, text, copied);
    return finish(doc, parse_text(doc, size), out);
}

static kvg_status read_all(const kvg_json_doc *doc, int fd, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = read(fd, doc->text + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return kvg_fail(KVG_ERR_IO, "%s: cannot read: %s", doc->name.text, strerror(errno));
        if (n == 0) return kvg_fail(KVG_ERR_IO, "%s: became shorter while it was read: try again", doc->name.text);
        done += (size_t)n;
    }
    return KVG_OK;
}

static kvg_status read_doc(const char *path, int fd, size_t size, kvg_json_doc **out)
{
    if (size > KVG_JSON_MAX_BYTES) {
        return kvg_fail(KVG_ERR_IO, "%s: %zu bytes of JSON are over the limit of %d: split it",
                        kvg_input_name(path).text, size, KVG_JSON_MAX_BYTES);
    }
    kvg_json_doc *doc = create_doc(path, size);
    if (!doc) return kvg_fail(KVG_ERR_MEMORY, "%s: no memory for %zu bytes of JSON", kvg_input_name(path).text, size);
    kvg_status s = read_all(doc, fd, size);
    return finish(doc, s == KVG_OK ? parse_text(doc, size) : s, out);
}

kvg_status kvg_json_open(const char *path, kvg_json_doc **out)
{
    *out = NULL;
    int fd = -1;
    size_t size = 0;
    kvg_status s = kvg_input_open(path, &fd, &size);
    if (s != KVG_OK) return s;
    s = read_doc(path, fd, size, out);
    close(fd);
    return s;
}

void kvg_json_close(kvg_json_doc *doc)
{
    if (!doc) return;
    cJSON_free(doc->nodes);
    cJSON_free(doc->text);
    cJSON_free(doc);
}

/* ---- moving about ---- */

kvg_json kvg_json_root(const kvg_json_doc *doc)
{
    return value_of(doc, &doc->nodes[0]);
}

size_t kvg_json_count(kvg_json value)
{
    return value.item ? node_of(value)->count : 0;
}

kvg_json kvg_json_at(kvg_json value, size_t index)
{
    if (index >= kvg_json_count(value)) return value_of(value.doc, NULL);
    return value_of(value.doc, &value.doc->nodes[node_of(value)->first + index]);
}

const char *kvg_json_key(kvg_json member)
{
    return member.item ? node_of(member)->key : NULL;
}

static kvg_json find_member(kvg_json object, const char *key)
{
    if (kvg_json_is_object(object)) {
        for (size_t i = 0; i < kvg_json_count(object); i++) {
            kvg_json member = kvg_json_at(object, i);
            if (strcmp(kvg_json_key(member), key) == 0) return member;
        }
    }
    return value_of(object.doc, NULL);
}

kvg_status kvg_json_check_keys(kvg_json object, const char *const *known, size_t count)
{
    if (!kvg_json_is_object(object)) return kvg_json_fail(object, "expected an object, got %s", kind_of(object));
    for (size_t i = 0; i < kvg_json_count(object); i++) {
        const char *key = kvg_json_key(kvg_json_at(object, i));
        size_t k = 0;
        while (k < count && strcmp(known[k], key) != 0) k++;
        if (k == count) return kvg_json_fail_name(object, "key", key, known, count);
    }
    return KVG_OK;
}

bool kvg_json_has(kvg_json object, const char *key)
{
    return find_member(object, key).item != NULL;
}

kvg_status kvg_json_get(kvg_json object, const char *key, kvg_json *out)
{
    if (!kvg_json_is_object(object)) return kvg_json_fail(object, "expected an object, got %s", kind_of(object));
    kvg_json member = find_member(object, key);
    if (!member.item) return kvg_json_fail(object, "missing key '%s'", key);
    *out = member;
    return KVG_OK;
}

bool kvg_json_is_array(kvg_json value)
{
    return is_a(value, ARRAY);
}

bool kvg_json_is_object(kvg_json value)
{
    return is_a(value, OBJECT);
}

bool kvg_json_is_string(kvg_json value)
{
    return is_a(value, STRING);
}

bool kvg_json_is_number(kvg_json value)
{
    return is_a(value, NUMBER);
}

bool kvg_json_is_null(kvg_json value)
{
    return is_a(value, NULL_VALUE);
}

/* A copy for cJSON, whose text of numbers and strings it is; NULL without memory. */
static cJSON *copy_of(kvg_json value)
{
    const node *n = node_of(value);
    switch (n->kind) {
    case FALSE_VALUE: return cJSON_CreateFalse();
    case TRUE_VALUE: return cJSON_CreateTrue();
    case NULL_VALUE: return cJSON_CreateNull();
    case NUMBER: return cJSON_CreateNumber(n->number);
    case STRING: return cJSON_CreateString(n->text);
    case ARRAY: case OBJECT: break;
    }
    cJSON *copy = n->kind == ARRAY ? cJSON_CreateArray() : cJSON_CreateObject();
    for (size_t i = 0; copy && i < n->count; i++) {
        const kvg_json child = kvg_json_at(value, i);
        cJSON *item = copy_of(child);
        const bool added = item && (n->kind == ARRAY ? cJSON_AddItemToArray(copy, item)
                                                     : cJSON_AddItemToObject(copy, kvg_json_key(child), item));
        if (added) continue;
        cJSON_Delete(item);
        cJSON_Delete(copy);
        copy = NULL;
    }
    return copy;
}

char *kvg_json_print(kvg_json value)
{
    cJSON *copy = copy_of(value);
    char *text = copy ? cJSON_PrintUnformatted(copy) : NULL;
    cJSON_Delete(copy);
    return text;
}

/* ---- typed reads ---- */

kvg_status kvg_json_string(kvg_json value, const char **out)
{
    if (!kvg_json_is_string(value)) return kvg_json_fail(value, "expected a string, got %s", kind_of(value));
    *out = node_of(value)->text;
    return KVG_OK;
}

kvg_status kvg_json_bool(kvg_json value, bool *out)
{
    if (!is_a(value, TRUE_VALUE) && !is_a(value, FALSE_VALUE)) {
        return kvg_json_fail(value, "expected true or false, got %s", kind_of(value));
    }
    *out = is_a(value, TRUE_VALUE);
    return KVG_OK;
}

/* Reads the text, not the double: 9007199254740993 as a double is 2^53, and 0.99999999999999999 is 1. */
kvg_status kvg_json_u64(kvg_json value, uint64_t min, uint64_t max, uint64_t *out)
{
    const uint64_t exact = UINT64_C(1) << 53;
    if (max > exact) max = exact;
    unsigned long long low = min;
    unsigned long long high = max;
    if (!kvg_json_is_number(value)) {
        return kvg_json_fail(value, "expected an integer from %llu to %llu, got %s", low, high, kind_of(value));
    }
    const char *text = node_of(value)->text;
    size_t length = kvg_json_scan_number_length(text);
    size_t digits = strspn(text, "0123456789");
    uint64_t integer = 0;
    for (size_t i = 0; i < digits && integer <= exact; i++) integer = integer * 10 + (uint64_t)(text[i] - '0');
    if (digits < length || integer < min || integer > max) {
        return kvg_json_fail(value, "expected an integer from %llu to %llu, got %.*s%s", low, high, (int)length, text,
                             digits < length && *text != '-' ? " (write it without fraction or exponent)" : "");
    }
    *out = integer;
    return KVG_OK;
}

kvg_status kvg_json_double(kvg_json value, double *out)
{
    if (!kvg_json_is_number(value)) return kvg_json_fail(value, "expected a number, got %s", kind_of(value));
    *out = node_of(value)->number;
    return KVG_OK;
}

kvg_status kvg_json_digits(kvg_json value, const char **out, size_t *length)
{
    if (!kvg_json_is_number(value)) return kvg_json_fail(value, "expected an integer, got %s", kind_of(value));
    *out = node_of(value)->text;
    *length = kvg_json_scan_number_length(*out);
    const size_t sign = **out == '-';
    if (sign + strspn(*out + sign, "0123456789") == *length) return KVG_OK;
    return kvg_json_fail(value, "expected an integer, got %.*s: write it without fraction or exponent", (int)*length,
                         *out);
}

kvg_status kvg_json_hex64(kvg_json value, uint64_t *out)
{
    const char *expected = "expected a string of \"0x\" and 1 to 16 hex digits";
    if (!kvg_json_is_string(value)) return kvg_json_fail(value, "%s, got %s", expected, kind_of(value));
    const char *text = node_of(value)->text;
    size_t digits = strncmp(text, "0x", 2) == 0 ? strspn(text + 2, "0123456789abcdefABCDEF") : 0;
    if (digits < 1 || digits > 16 || text[2 + digits] != '\0') {
        return kvg_json_fail(value, "%s, got '%s'", expected, kvg_input_quote(text).text);
    }
    *out = strtoull(text + 2, NULL, 16);
    return KVG_OK;
}

kvg_status kvg_json_get_string(kvg_json object, const char *key, const char **out)
{
    kvg_json value;
    kvg_status s = kvg_json_get(object, key, &value);
    return s ? s : kvg_json_string(value, out);
}

kvg_status kvg_json_check_notes(kvg_json object)
{
    static const char *const keys[] = {"comment", "$schema"};
    const char *text;
    kvg_status s = KVG_OK;
    for (size_t i = 0; !s && i < sizeof keys / sizeof keys[0]; i++) {
        if (kvg_json_has(object, keys[i])) s = kvg_json_get_string(object, keys[i], &text);
    }
    return s;
}

kvg_status kvg_json_get_bool(kvg_json object, const char *key, bool *out)
{
    kvg_json value;
    kvg_status s = kvg_json_get(object, key, &value);
    return s ? s : kvg_json_bool(value, out);
}

kvg_status kvg_json_get_u64(kvg_json object, const char *key, uint64_t min, uint64_t max, uint64_t *out)
{
    kvg_json value;
    kvg_status s = kvg_json_get(object, key, &value);
    return s ? s : kvg_json_u64(value, min, max, out);
}

kvg_status kvg_json_get_double(kvg_json object, const char *key, double *out)
{
    kvg_json value;
    kvg_status s = kvg_json_get(object, key, &value);
    return s ? s : kvg_json_double(value, out);
}

kvg_status kvg_json_get_hex64(kvg_json object, const char *key, uint64_t *out)
{
    kvg_json value;
    kvg_status s = kvg_json_get(object, key, &value);
    return s ? s : kvg_json_hex64(value, out);
}
