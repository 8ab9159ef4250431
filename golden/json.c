#define _POSIX_C_SOURCE 200809L
#include "golden/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "golden/input.h"
#include "golden/json_scan.h"

/* Where a value stands. cJSON has no way up, finds element i in i steps and keeps no number's text; this has all
 * three. The children of a container are neighbours in the document's array. */
typedef struct node {
    const cJSON *json;
    const char *number; /* its text, for numbers: a double does not tell 2^53 from 2^53 + 1 */
    uint32_t parent;    /* indices into kvg_json_doc.nodes; the root is its own parent */
    uint32_t first;
    uint32_t count;
} node;

/* All memory is cJSON_malloc's, so that whoever sets cJSON's hooks sees all of it. */
struct kvg_json_doc {
    char *text; /* a copy, closed by a NUL */
    cJSON *tree;
    node *nodes;
    size_t used;
    size_t capacity;
    kvg_input_text name;
};

/* cJSON_ParseWithLengthOpts writes a global. */
static pthread_mutex_t parse_lock = PTHREAD_MUTEX_INITIALIZER;

static const node *node_of(kvg_json value)
{
    return value.item;
}

static kvg_json value_of(const kvg_json_doc *doc, const node *n)
{
    return (kvg_json){doc, n};
}

static bool has_type(kvg_json value, int type)
{
    return value.item && (node_of(value)->json->type & 0xff) == type;
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
        if (!n->json->string) {
            snprintf(step, sizeof step, "[%zu]", (size_t)(n - nodes) - nodes[n->parent].first);
        } else {
            kvg_input_text key = kvg_input_quote(n->json->string);
            snprintf(step, sizeof step, is_plain_key(n->json->string) ? ".%.64s" : "[\"%.64s\"]", key.text);
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
    const char *nearest = kvg_input_nearest(name, known, count);
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
    if (!value.item) return "nothing";
    switch (node_of(value)->json->type & 0xff) {
    case cJSON_False: return "false";
    case cJSON_True: return "true";
    case cJSON_NULL: return "null";
    case cJSON_Number: return "a number";
    case cJSON_String: return "a string";
    case cJSON_Array: return "an array";
    case cJSON_Object: return "an object";
    default: return "an unknown value";
    }
}

/* ---- reading a document ---- */

static int compare_keys(const void *a, const void *b)
{
    const node *x = *(const node *const *)a;
    const node *y = *(const node *const *)b;
    return strcmp(x->json->string, y->json->string);
}

/* `scratch` has room for every member. */
static kvg_status check_duplicates(const kvg_json_doc *doc, const node *object, const node **scratch)
{
    for (size_t i = 0; i < object->count; i++) scratch[i] = &doc->nodes[object->first + i];
    qsort(scratch, object->count, sizeof scratch[0], compare_keys);
    for (size_t i = 1; i < object->count; i++) {
        const char *key = scratch[i]->json->string;
        if (strcmp(scratch[i - 1]->json->string, key) == 0) {
            return kvg_json_fail(value_of(doc, object), "duplicate key '%s': keep one", kvg_input_quote(key).text);
        }
    }
    return KVG_OK;
}

static kvg_status check_number(const kvg_json_doc *doc, const node *n)
{
    int length = (int)kvg_json_scan_number_length(n->number);
    char leading = n->number[strspn(n->number, "-0.")]; /* the first digit that counts, if there is one */
    if (!isfinite(n->json->valuedouble)) {
        return kvg_json_fail(value_of(doc, n), "%.*s is too large for a double", length, n->number);
    }
    if (n->json->valuedouble == 0 && leading >= '1' && leading <= '9') {
        return kvg_json_fail(value_of(doc, n), "%.*s is too small for a double: write 0", length, n->number);
    }
    return KVG_OK;
}

/* Gives the children of node `parent` their nodes, in the order of the text; *cursor is where in the text the next
 * number is. Recursion is as deep as the text, which is KVG_JSON_MAX_DEPTH. */
static kvg_status index_children(kvg_json_doc *doc, size_t parent, const char **cursor, const node **scratch)
{
    node *up = &doc->nodes[parent];
    up->first = (uint32_t)doc->used;
    for (const cJSON *child = up->json->child; child; child = child->next) {
        if (doc->used == doc->capacity) return kvg_json_fail(kvg_json_root(doc), "cJSON reads more than the scan saw");
        doc->nodes[doc->used++] = (node){.json = child, .parent = (uint32_t)parent};
        up->count++;
    }
    for (size_t i = up->first; i < up->first + up->count; i++) {
        node *n = &doc->nodes[i];
        kvg_status s = KVG_OK;
        if (cJSON_IsNumber(n->json)) {
            n->number = kvg_json_scan_number(*cursor);
            *cursor = n->number + kvg_json_scan_number_length(n->number);
            s = check_number(doc, n);
        } else {
            s = index_children(doc, i, cursor, scratch);
        }
        if (s != KVG_OK) return s;
    }
    return cJSON_IsObject(up->json) ? check_duplicates(doc, up, scratch) : KVG_OK;
}

static kvg_status index_tree(kvg_json_doc *doc, const node **scratch)
{
    const char *cursor = doc->text;
    node *root = &doc->nodes[doc->used++];
    *root = (node){.json = doc->tree};
    if (!cJSON_IsNumber(root->json)) return index_children(doc, 0, &cursor, scratch);
    root->number = kvg_json_scan_number(cursor);
    return check_number(doc, root);
}

/* Fills a document whose name, and whose text of `size` bytes and a NUL, are there. */
static kvg_status parse_text(kvg_json_doc *doc, size_t size)
{
    kvg_status s = kvg_json_scan(doc->name.text, doc->text, size, &doc->capacity);
    if (s != KVG_OK) return s;
    pthread_mutex_lock(&parse_lock);
    doc->tree = cJSON_ParseWithLengthOpts(doc->text, size, NULL, 0);
    pthread_mutex_unlock(&parse_lock);
    doc->nodes = cJSON_malloc(doc->capacity * sizeof doc->nodes[0]);
    const node **scratch = cJSON_malloc(doc->capacity * sizeof scratch[0]);
    if (doc->tree && doc->nodes && scratch) {
        s = index_tree(doc, scratch);
    } else { /* cJSON takes all that passes the scan: only memory is left as a reason */
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
    cJSON_Delete(doc->tree);
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
    return member.item ? node_of(member)->json->string : NULL;
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
    return has_type(value, cJSON_Array);
}

bool kvg_json_is_object(kvg_json value)
{
    return has_type(value, cJSON_Object);
}

bool kvg_json_is_string(kvg_json value)
{
    return has_type(value, cJSON_String);
}

bool kvg_json_is_number(kvg_json value)
{
    return has_type(value, cJSON_Number);
}

bool kvg_json_is_null(kvg_json value)
{
    return has_type(value, cJSON_NULL);
}

char *kvg_json_print(kvg_json value)
{
    return cJSON_PrintUnformatted(node_of(value)->json);
}

/* ---- typed reads ---- */

kvg_status kvg_json_string(kvg_json value, const char **out)
{
    if (!kvg_json_is_string(value)) return kvg_json_fail(value, "expected a string, got %s", kind_of(value));
    *out = node_of(value)->json->valuestring;
    return KVG_OK;
}

kvg_status kvg_json_bool(kvg_json value, bool *out)
{
    if (!has_type(value, cJSON_True) && !has_type(value, cJSON_False)) {
        return kvg_json_fail(value, "expected true or false, got %s", kind_of(value));
    }
    *out = has_type(value, cJSON_True);
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
    const char *text = node_of(value)->number;
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
    *out = node_of(value)->json->valuedouble;
    return KVG_OK;
}

kvg_status kvg_json_hex64(kvg_json value, uint64_t *out)
{
    const char *expected = "expected a string of \"0x\" and 1 to 16 hex digits";
    if (!kvg_json_is_string(value)) return kvg_json_fail(value, "%s, got %s", expected, kind_of(value));
    const char *text = node_of(value)->json->valuestring;
    size_t digits = strncmp(text, "0x", 2) == 0 ? strspn(text + 2, "0123456789abcdefABCDEF") : 0;
    if (digits < 1 || digits > 16 || text[2 + digits] != '\0') {
        return kvg_json_fail(value, "%s, got '%s'", expected, kvg_input_quote(text).text);
    }
    *out = strtoull(text + 2, NULL, 16);
    return KVG_OK;
}
