/* Records of a result (harness/case/result_fields.h) as objects of a result file: one loop writes all of them, one
 * reads them. */
#ifndef KVG_HARNESS_REPORT_RESULT_RECORD_H
#define KVG_HARNESS_REPORT_RESULT_RECORD_H

#include <cjson/cJSON.h>

#include "golden/golden.h"
#include "harness/case/result_fields.h"

/* A number in a file: "inf", "-inf" and "nan" are texts there. */
void kvg_result_add_number(cJSON *object, const char *key, double x);
kvg_status kvg_result_get_number(kvg_json object, const char *key, double *out) KVG_CHECKED;

/* Adds the fields of `record` to the object. WORDS and NAMES may be a candidate's: as text, each in one line
 * (kvg_report_plain). cJSON drops what it cannot allocate. */
void kvg_record_write(const kvg_record *kind, const void *record, cJSON *to);

/* KVG_ERR_INVALID if the object has a key that none of the records has. */
kvg_status kvg_record_check_keys(kvg_json object, const kvg_record *const *kinds, size_t count) KVG_CHECKED;

/* Reads the fields of the record from the object, which may have others. Fields that may be left out, and are, become
 * what "there is none" means: NAN, "", an empty list. Texts and names live as long as the document. */
kvg_status kvg_record_read(const kvg_record *kind, kvg_json object, void *record) KVG_CHECKED;

/* Reads the part `key`, a list of at most `most` records of `size` bytes each. */
kvg_status kvg_record_read_list(const kvg_record *kind, kvg_json object, const char *key, size_t most, size_t size,
                                void *records, size_t *count) KVG_CHECKED;

/* The same of the object's part `key`, which has this record's fields alone; *given: the part is there. */
kvg_status kvg_record_read_part(const kvg_record *kind, kvg_json object, const char *key, void *record,
                                bool *given) KVG_CHECKED;

/* Calls `keep` for each text and name of the record and puts what it gives in the text's place; NULL: no memory. */
kvg_status kvg_record_keep(const kvg_record *kind, void *record, const char *(*keep)(void *context, const char *text),
                           void *context) KVG_CHECKED;

#endif
