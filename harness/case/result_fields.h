/* The fields of a result as data: harness/case/result_fields.def. Who writes or reads the fields of a record loops over
 * them, and knows none by name. */
#ifndef KVG_HARNESS_CASE_RESULT_FIELDS_H
#define KVG_HARNESS_CASE_RESULT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/verdict.h"

enum { KVG_FIELD_CODES = 256, KVG_FIELD_NAMES_MOST = 256 };

/* A list of words; whoever fills it owns them. */
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
    KVG_FIELD_SET,     /* a bit for each of 256 codes: 64 hex digits, byte 0 first; bit i of byte i/8 is code i */
    KVG_FIELD_NAMES,   /* kvg_names: an array of strings */
    KVG_FIELD_VERDICT, /* kvg_verdict: its name */
    KVG_FIELD_PART,    /* no member: an object, or an array of objects, with fields of its own */
    KVG_FIELD_TYPES
} kvg_field_type;

typedef enum kvg_field_when { KVG_FIELD_ALWAYS, KVG_FIELD_GIVEN } kvg_field_when;

/* A row of the table without its object. */
typedef struct kvg_field {
    const char *key;
    kvg_field_type type;
    kvg_field_when when;
    const char *unit, *meaning; /* unit "": none */
    size_t offset;              /* of the member; PART: 0 */
} kvg_field;

typedef enum kvg_record_id {
#define RECORD(OBJECT, type, title, meaning) KVG_RECORD_##OBJECT,
#include "harness/case/result_fields.def"
    KVG_RECORDS
} kvg_record_id;

/* An object of the table, or of a guest's, with its fields. */
typedef struct kvg_record {
    const char *title, *meaning;
    const kvg_field *fields;
    size_t count;
} kvg_record;

const kvg_record *kvg_record_get(kvg_record_id id);

/* Members of a record's type, from its rows: #define TRIP(...) KVG_FIELD_MEMBER(__VA_ARGS__). */
#define KVG_FIELD_MEMBER(type, name, ...) KVG_FIELD_MEMBER_##type(name)
#define KVG_FIELD_MEMBER_COUNT(name) uint64_t name;
#define KVG_FIELD_MEMBER_NUMBER(name) double name;
#define KVG_FIELD_MEMBER_FLAG(name) bool name;
#define KVG_FIELD_MEMBER_TEXT(name) const char *name;
#define KVG_FIELD_MEMBER_SET(name) uint8_t name[KVG_FIELD_CODES / 8];
#define KVG_FIELD_MEMBER_NAMES(name) kvg_names name;
#define KVG_FIELD_MEMBER_VERDICT(name) kvg_verdict name;
#define KVG_FIELD_MEMBER_PART(name)

/* The rows of a record as a table of kvg_field: #define TRIP(...) KVG_FIELD_ROW(kvg_round_trip, __VA_ARGS__, ). */
#define KVG_FIELD_OFFSET_COUNT(record, name) offsetof(record, name)
#define KVG_FIELD_OFFSET_NUMBER KVG_FIELD_OFFSET_COUNT
#define KVG_FIELD_OFFSET_FLAG KVG_FIELD_OFFSET_COUNT
#define KVG_FIELD_OFFSET_TEXT KVG_FIELD_OFFSET_COUNT
#define KVG_FIELD_OFFSET_SET KVG_FIELD_OFFSET_COUNT
#define KVG_FIELD_OFFSET_NAMES KVG_FIELD_OFFSET_COUNT
#define KVG_FIELD_OFFSET_VERDICT KVG_FIELD_OFFSET_COUNT
#define KVG_FIELD_OFFSET_PART(record, name) 0

#define KVG_FIELD_ROW(record, type, name, when, unit, meaning, ...) \
    {#name, KVG_FIELD_##type, KVG_FIELD_##when, unit, meaning, KVG_FIELD_OFFSET_##type(record, name)},

#endif
