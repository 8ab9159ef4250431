/* The fields of a result as data: one loop writes all of them and one reads them (harness/report/result_record.h), and
 * docs/reference/results.md lists them. */
#ifndef KVG_HARNESS_CASE_RESULT_FIELDS_H
#define KVG_HARNESS_CASE_RESULT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/verdict.h"

enum { KVG_FIELD_CODES = 256, KVG_FIELD_NAMES_MOST = 96 };

/* A bit for each of 256 codes: bit i of byte i/8 is code i. */
typedef uint8_t kvg_code_set[KVG_FIELD_CODES / 8];

/* A list of words. The words belong to whoever fills the list. */
typedef struct kvg_names {
    size_t count;
    const char *name[KVG_FIELD_NAMES_MOST];
} kvg_names;

void kvg_names_add(kvg_names *names, const char *name);

typedef enum kvg_field_type {
    KVG_FIELD_COUNT,   /* uint64_t: an integer */
    KVG_FIELD_NUMBER,  /* double: a number, or "inf", "-inf", "nan" */
    KVG_FIELD_FLAG,    /* bool */
    KVG_FIELD_TEXT,    /* const char *: a string */
    KVG_FIELD_WORDS,   /* char[]: a string */
    KVG_FIELD_SET,     /* kvg_code_set: 64 hex digits, byte 0 first */
    KVG_FIELD_NAMES,   /* kvg_names: an array of strings */
    KVG_FIELD_VERDICT, /* kvg_verdict: its name */
    KVG_FIELD_PART,    /* no member: an object, or an array of objects, with fields of its own */
    KVG_FIELD_TYPES
} kvg_field_type;

typedef enum kvg_field_when {
    KVG_FIELD_ALWAYS,
    KVG_FIELD_GIVEN /* left out if it has no value: an empty text or list, a count of 0, false, a number that is NAN */
} kvg_field_when;

typedef struct kvg_field {
    const char *key;
    kvg_field_type type;
    kvg_field_when when;
    const char *unit, *meaning; /* unit "": none */
    size_t offset, size;        /* of the member; PART: 0 */
} kvg_field;

/* KVG_FIELD(kvg_round_trip, COUNT, "elements", elements, ALWAYS, ...) makes a field from a struct's
 * member. If the member has another type than the field, the comparison of two pointers does not
 * compile. */
#define KVG_FIELD(record, type, key, member, when, unit, meaning) \
    {key, KVG_FIELD_##type, KVG_FIELD_##when, unit, meaning, \
     offsetof(record, member) + 0 * sizeof((KVG_FIELD_C_##type *)0 == &((record *)0)->member), \
     sizeof((record *)0)->member}
#define KVG_FIELD_C_COUNT uint64_t
#define KVG_FIELD_C_NUMBER double
#define KVG_FIELD_C_FLAG bool
#define KVG_FIELD_C_TEXT const char *
#define KVG_FIELD_C_SET kvg_code_set
#define KVG_FIELD_C_NAMES kvg_names
#define KVG_FIELD_C_VERDICT kvg_verdict

/* A field of type WORDS: a member that is an array of characters. */
#define KVG_FIELD_TEXT_IN(record, key, member, when, meaning) \
    {key, KVG_FIELD_WORDS, KVG_FIELD_##when, "", meaning, offsetof(record, member), sizeof((record *)0)->member}

/* A field of type PART. */
#define KVG_FIELD_OBJECT(key, when, meaning) {key, KVG_FIELD_PART, KVG_FIELD_##when, "", meaning, 0, 0}

/* An object, or fields that stand together in one object, in the order of the file. */
typedef struct kvg_record {
    const char *title, *meaning;
    const kvg_field *fields;
    size_t count;
} kvg_record;

typedef enum kvg_record_id {
    KVG_RECORD_ORIGIN,   /* kvg_result_origin */
    KVG_RECORD_ASKED,    /* kvg_result_asked */
    KVG_RECORD_OUTCOME,  /* kvg_result */
    KVG_RECORD_PARTS,
    KVG_RECORD_COMPARED, /* kvg_result_compared */
    KVG_RECORD_LISTS,    /* kvg_result */
    KVG_RECORD_MODE,     /* and so on: harness/case/result.h */
    KVG_RECORD_TRIP,
    KVG_RECORD_DECODE,
    KVG_RECORD_SEPARATION,
    KVG_RECORD_PAGE,
    KVG_RECORD_REACH,
    KVG_RECORD_CONTROLS,
    KVG_RECORD_ALONG,
    KVG_RECORDS
} kvg_record_id;

const kvg_record *kvg_record_get(kvg_record_id id);

#endif
