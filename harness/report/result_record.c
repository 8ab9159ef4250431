#include "harness/report/result_record.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/report/report.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { SET_BYTES = KVG_FIELD_CODES / 8 };

/* How one type of field is written and read. `member` points to the member. */
typedef struct field_type {
    bool (*is_given)(const void *member); /* NULL: always */
    void (*write)(cJSON *object, const char *key, const void *member);
    kvg_status (*read)(kvg_json object, const kvg_field *f, void *member);
    void (*clear)(void *member); /* to what a field is that was left out; NULL: it never is */
} field_type;

/* --- numbers --- */

void kvg_result_add_number(cJSON *object, const char *key, double x)
{
    if (isfinite(x)) cJSON_AddNumberToObject(object, key, x);
    else cJSON_AddStringToObject(object, key, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
}

kvg_status kvg_result_get_number(kvg_json object, const char *key, double *out)
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

static bool is_number(const void *member) { return !isnan(*(const double *)member); }
static void clear_number(void *member) { *(double *)member = NAN; }

static void write_number(cJSON *object, const char *key, const void *member)
{
    kvg_result_add_number(object, key, *(const double *)member);
}

static kvg_status read_number(kvg_json object, const kvg_field *f, void *member)
{
    return kvg_result_get_number(object, f->key, member);
}

static bool is_count(const void *member) { return *(const uint64_t *)member != 0; }
static void clear_count(void *member) { *(uint64_t *)member = 0; }

static void write_count(cJSON *object, const char *key, const void *member)
{
    cJSON_AddNumberToObject(object, key, (double)*(const uint64_t *)member);
}

static kvg_status read_count(kvg_json object, const kvg_field *f, void *member)
{
    return kvg_json_get_u64(object, f->key, 0, UINT64_MAX, member);
}

/* --- words --- */

static bool is_flag(const void *member) { return *(const bool *)member; }
static void clear_flag(void *member) { *(bool *)member = false; }

static void write_flag(cJSON *object, const char *key, const void *member)
{
    cJSON_AddBoolToObject(object, key, *(const bool *)member);
}

static kvg_status read_flag(kvg_json object, const kvg_field *f, void *member)
{
    return kvg_json_get_bool(object, f->key, member);
}

static bool is_text(const void *member) { return **(const char *const *)member != 0; }
static void clear_text(void *member) { *(const char **)member = ""; }

static void write_text(cJSON *object, const char *key, const void *member)
{
    cJSON_AddStringToObject(object, key, *(const char *const *)member);
}

static kvg_status read_text(kvg_json object, const kvg_field *f, void *member)
{
    return kvg_json_get_string(object, f->key, member);
}

static bool has_words(const void *member) { return *(const char *)member != 0; }
static void clear_words(void *member) { *(char *)member = 0; }

/* What a candidate says may be no text, or be cut within a character. NULL without memory: cJSON drops that. */
static cJSON *plain_text(const char *said)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (out) kvg_report_plain(out, said);
    if (out) fclose(out);
    cJSON *value = cJSON_CreateString(text);
    free(text);
    return value;
}

static void write_words(cJSON *object, const char *key, const void *member)
{
    cJSON_AddItemToObject(object, key, plain_text(member));
}

static kvg_status read_words(kvg_json object, const kvg_field *f, void *member)
{
    const char *text;
    kvg_status s = kvg_json_get_string(object, f->key, &text);
    if (!s && strlen(text) >= f->size) s = kvg_json_fail(object, "'%s' has more than %zu bytes", f->key, f->size - 1);
    if (!s) memcpy(member, text, strlen(text) + 1);
    return s;
}

static void write_verdict(cJSON *object, const char *key, const void *member)
{
    cJSON_AddStringToObject(object, key, kvg_verdict_name(*(const kvg_verdict *)member));
}

static kvg_status read_verdict(kvg_json object, const kvg_field *f, void *member)
{
    const char *known[KVG_VERDICT_COUNT], *name;
    kvg_json value;
    kvg_status s = kvg_json_get(object, f->key, &value);
    if (!s) s = kvg_json_string(value, &name);
    if (s || kvg_verdict_find(name, member) == KVG_OK) return s;
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) known[i] = kvg_verdict_name((kvg_verdict)i);
    return kvg_json_fail_name(value, "verdict", name, known, COUNT(known));
}

/* --- sets and lists --- */

static void write_set(cJSON *object, const char *key, const void *member)
{
    const uint8_t *set = member;
    char hex[2 * SET_BYTES + 1];
    for (size_t i = 0; i < SET_BYTES; i++) snprintf(hex + 2 * i, 3, "%02x", set[i]);
    cJSON_AddStringToObject(object, key, hex);
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

static kvg_status read_set(kvg_json object, const kvg_field *f, void *member)
{
    uint8_t *set = member;
    const char *text;
    kvg_json value;
    kvg_status s = kvg_json_get(object, f->key, &value);
    if (!s) s = kvg_json_string(value, &text);
    if (s) return s;
    if (strlen(text) != 2 * SET_BYTES) return kvg_json_fail(value, "expected %d hex digits", 2 * SET_BYTES);
    for (size_t i = 0; i < SET_BYTES; i++) {
        const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
        if (high < 0 || low < 0) return kvg_json_fail(value, "expected %d hex digits", 2 * SET_BYTES);
        set[i] = (uint8_t)(high << 4 | low);
    }
    return KVG_OK;
}

static bool has_names(const void *member) { return ((const kvg_names *)member)->count > 0; }
static void clear_names(void *member) { ((kvg_names *)member)->count = 0; }

static void write_names(cJSON *object, const char *key, const void *member)
{
    const kvg_names *names = member;
    cJSON *list = cJSON_AddArrayToObject(object, key);
    for (size_t i = 0; i < names->count; i++) cJSON_AddItemToArray(list, plain_text(names->name[i]));
}

static kvg_status read_names(kvg_json object, const kvg_field *f, void *member)
{
    kvg_names *names = member;
    kvg_json list;
    names->count = 0;
    kvg_status s = kvg_json_get(object, f->key, &list);
    if (!s && !kvg_json_is_array(list)) s = kvg_json_fail(list, "expected an array of names");
    if (!s && kvg_json_count(list) > KVG_FIELD_NAMES_MOST) {
        s = kvg_json_fail(list, "more than %d names", KVG_FIELD_NAMES_MOST);
    }
    for (; !s && names->count < kvg_json_count(list); names->count++) {
        s = kvg_json_string(kvg_json_at(list, names->count), &names->name[names->count]);
    }
    return s;
}

/* --- records --- */

static const field_type types[KVG_FIELD_TYPES] = {
    [KVG_FIELD_COUNT] = {is_count, write_count, read_count, clear_count},
    [KVG_FIELD_NUMBER] = {is_number, write_number, read_number, clear_number},
    [KVG_FIELD_FLAG] = {is_flag, write_flag, read_flag, clear_flag},
    [KVG_FIELD_TEXT] = {is_text, write_text, read_text, clear_text},
    [KVG_FIELD_WORDS] = {has_words, write_words, read_words, clear_words},
    [KVG_FIELD_SET] = {NULL, write_set, read_set, NULL},
    [KVG_FIELD_NAMES] = {has_names, write_names, read_names, clear_names},
    [KVG_FIELD_VERDICT] = {NULL, write_verdict, read_verdict, NULL},
    [KVG_FIELD_PART] = {0}, /* whoever has the part writes and reads it */
};

void kvg_record_write(const kvg_record *kind, const void *record, cJSON *to)
{
    for (size_t i = 0; i < kind->count; i++) {
        const kvg_field *f = &kind->fields[i];
        const void *member = (const char *)record + f->offset;
        if (f->type == KVG_FIELD_PART || (f->when == KVG_FIELD_GIVEN && !types[f->type].is_given(member))) continue;
        types[f->type].write(to, f->key, member);
    }
}

kvg_status kvg_record_check_keys(kvg_json object, const kvg_record *const *kinds, size_t count)
{
    const char *keys[256];
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < kinds[i]->count; k++) {
            assert(n < COUNT(keys));
            keys[n++] = kinds[i]->fields[k].key;
        }
    }
    return kvg_json_check_keys(object, keys, n);
}

kvg_status kvg_record_read(const kvg_record *kind, kvg_json object, void *record)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < kind->count && !s; i++) {
        const kvg_field *f = &kind->fields[i];
        void *member = (char *)record + f->offset;
        if (f->type == KVG_FIELD_PART) continue;
        if (f->when == KVG_FIELD_GIVEN && !kvg_json_has(object, f->key)) types[f->type].clear(member);
        else s = types[f->type].read(object, f, member);
    }
    return s;
}

kvg_status kvg_record_read_part(const kvg_record *kind, kvg_json object, const char *key, void *record, bool *given)
{
    kvg_json part;
    *given = kvg_json_has(object, key);
    if (!*given) return KVG_OK;
    kvg_status s = kvg_json_get(object, key, &part);
    if (!s) s = kvg_record_check_keys(part, &kind, 1);
    return s ? s : kvg_record_read(kind, part, record);
}

kvg_status kvg_record_read_list(const kvg_record *kind, kvg_json object, const char *key, size_t most, size_t size,
                                void *records, size_t *count)
{
    kvg_json list;
    kvg_status s = kvg_json_get(object, key, &list);
    if (!s && !kvg_json_is_array(list)) s = kvg_json_fail(list, "expected a list");
    if (!s && kvg_json_count(list) > most) s = kvg_json_fail(list, "more than %zu entries", most);
    for (*count = 0; !s && *count < kvg_json_count(list); ++*count) {
        const kvg_json entry = kvg_json_at(list, *count);
        s = kvg_record_check_keys(entry, &kind, 1);
        if (!s) s = kvg_record_read(kind, entry, (char *)records + *count * size);
    }
    return s;
}

kvg_status kvg_record_keep(const kvg_record *kind, void *record, const char *(*keep)(void *context, const char *text),
                           void *context)
{
    bool kept = true;
    for (size_t i = 0; i < kind->count; i++) {
        void *member = (char *)record + kind->fields[i].offset;
        const bool one = kind->fields[i].type == KVG_FIELD_TEXT;
        kvg_names *names = kind->fields[i].type == KVG_FIELD_NAMES ? member : NULL;
        const char **texts = names ? names->name : member;
        for (size_t k = 0; kept && k < (names ? names->count : one); k++) {
            texts[k] = keep(context, texts[k]);
            kept = texts[k] != NULL;
        }
    }
    return kept ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "no memory for the texts of a result");
}
