/* Strict reading of JSON, the only one of the project. Errors are what other readers let pass: duplicate keys, keys in
 * the wrong case, unknown keys, trailing text, NUL bytes, too deep nesting, numbers that are not what was asked for.
 * Every error names the file and the JSON path ("configs/a.json: $.cases[2].fill: ..."), and an unknown key suggests
 * the nearest known one. Integers are numbers from -(2^53) to 2^53; seeds and hashes are hex strings. */
#ifndef KVG_GOLDEN_JSON_H
#define KVG_GOLDEN_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { KVG_JSON_MAX_BYTES = 16 << 20, KVG_JSON_MAX_DEPTH = 32 };

typedef struct kvg_json_doc kvg_json_doc;

/* A value inside a document; valid until the document is closed. */
typedef struct kvg_json {
    const kvg_json_doc *doc;
    const void *item;
} kvg_json;

/* Parses `size` bytes of text; `name` is used in error texts. KVG_ERR_INVALID on anything that is not one strict JSON
 * value. On success *out must be closed. */
kvg_status kvg_json_parse(const char *name, const char *text, size_t size, kvg_json_doc **out) KVG_CHECKED;

/* Reads and parses a file. KVG_ERR_IO if it cannot be read (a folder, a missing file, larger than the limit). */
kvg_status kvg_json_open(const char *path, kvg_json_doc **out) KVG_CHECKED;
void kvg_json_close(kvg_json_doc *doc); /* NULL is allowed */

kvg_json kvg_json_root(const kvg_json_doc *doc);

/* KVG_ERR_INVALID unless the value is an object all of whose keys are among the `count` known ones. */
kvg_status kvg_json_check_keys(kvg_json object, const char *const *known, size_t count) KVG_CHECKED;

/* Members of an object. kvg_json_get: KVG_ERR_INVALID if the key is missing. kvg_json_has: false also for
 * non-objects. */
bool kvg_json_has(kvg_json object, const char *key);
kvg_status kvg_json_get(kvg_json object, const char *key, kvg_json *out) KVG_CHECKED;

/* Elements of an array, members of an object in file order. kvg_json_count is 0 for other values. */
size_t kvg_json_count(kvg_json value);
kvg_json kvg_json_at(kvg_json value, size_t index);
const char *kvg_json_key(kvg_json member); /* the key of an object's member; NULL for array elements and the root */

bool kvg_json_is_array(kvg_json value);
bool kvg_json_is_object(kvg_json value);
bool kvg_json_is_string(kvg_json value);
bool kvg_json_is_number(kvg_json value);
bool kvg_json_is_null(kvg_json value);

/* A value's JSON text without white space, to be freed with cJSON_free; NULL without memory. */
char *kvg_json_print(kvg_json value);

/* Typed reads; KVG_ERR_INVALID names the expected type or range. Strings live as long as the document. */
kvg_status kvg_json_string(kvg_json value, const char **out) KVG_CHECKED;
kvg_status kvg_json_bool(kvg_json value, bool *out) KVG_CHECKED;
kvg_status kvg_json_u64(kvg_json value, uint64_t min, uint64_t max, uint64_t *out) KVG_CHECKED;
kvg_status kvg_json_double(kvg_json value, double *out) KVG_CHECKED; /* finite */
/* An integer of any size as it is written: its sign and digits, without a NUL behind them. For names that other
 * programs gave, such as hashes of 64 bits. */
kvg_status kvg_json_digits(kvg_json value, const char **out, size_t *length) KVG_CHECKED;
kvg_status kvg_json_hex64(kvg_json value, uint64_t *out) KVG_CHECKED; /* "0x" and 1 to 16 hex digits */

/* The same of an object's member, which must be there. */
kvg_status kvg_json_get_string(kvg_json object, const char *key, const char **out) KVG_CHECKED;
kvg_status kvg_json_get_bool(kvg_json object, const char *key, bool *out) KVG_CHECKED;
kvg_status kvg_json_get_u64(kvg_json object, const char *key, uint64_t min, uint64_t max, uint64_t *out) KVG_CHECKED;
kvg_status kvg_json_get_double(kvg_json object, const char *key, double *out) KVG_CHECKED;
kvg_status kvg_json_get_hex64(kvg_json object, const char *key, uint64_t *out) KVG_CHECKED;

/* Accepts an optional "comment" of an object, which is for people, and "$schema", which is for
 * editors. KVG_ERR_INVALID if one is no text. */
kvg_status kvg_json_check_notes(kvg_json object) KVG_CHECKED;

/* "FILE: $.path" of a value, for errors of the caller's own: kvg_json_fail(v, "expected %s", ...). */
kvg_status kvg_json_fail(kvg_json value, const char *format, ...) KVG_PRINTF(2, 3);

/* Puts "FILE: $.path" of `value` before the text of a lower layer's failure; KVG_OK and KVG_ERR_MEMORY stay. */
kvg_status kvg_json_locate(kvg_json value, kvg_status s) KVG_CHECKED;

/* Like kvg_json_fail for a name that is not among `known`: adds "did you mean 'x'?" where one is near. */
kvg_status kvg_json_fail_name(kvg_json value, const char *what, const char *name, const char *const *known,
                              size_t count);

#endif
