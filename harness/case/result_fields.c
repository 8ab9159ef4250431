#include "harness/case/result_fields.h"

#include "harness/case/result.h"

#define OFFSET_COUNT(record, name) offsetof(record, name)
#define OFFSET_NUMBER OFFSET_COUNT
#define OFFSET_FLAG OFFSET_COUNT
#define OFFSET_TEXT OFFSET_COUNT
#define OFFSET_SET OFFSET_COUNT
#define OFFSET_NAMES OFFSET_COUNT
#define OFFSET_VERDICT OFFSET_COUNT
#define OFFSET_PART(record, name) 0

#define FIELD(object, record, type, name, when, unit, meaning, ...) \
    {KVG_RECORD_##object, {#name, KVG_FIELD_##type, KVG_FIELD_##when, unit, meaning, OFFSET_##type(record, name)}},

/* The rows of an object are neighbours. */
static const struct {
    kvg_record_id record;
    kvg_field field;
} fields[] = {
#define ASKED(...) FIELD(ASKED, kvg_result_asked, __VA_ARGS__, )
#define OUTCOME(...) FIELD(OUTCOME, kvg_result_outcome, __VA_ARGS__, )
#define PARTS(...) FIELD(PARTS, , __VA_ARGS__, )
#define COMPARED(...) FIELD(COMPARED, kvg_result_compared, __VA_ARGS__, )
#define LISTS(...) FIELD(LISTS, kvg_result_lists, __VA_ARGS__, )
#define MODE(...) FIELD(MODE, kvg_result_mode, __VA_ARGS__, )
#define TRIP(...) FIELD(TRIP, kvg_round_trip, __VA_ARGS__, )
#define DECODE(...) FIELD(DECODE, kvg_decode_accuracy, __VA_ARGS__, )
#define SEPARATION(...) FIELD(SEPARATION, kvg_result_separation, __VA_ARGS__, )
#define REACH(...) FIELD(REACH, kvg_result_reach, __VA_ARGS__, )
#define QUALITY(...) FIELD(QUALITY, kvg_result_quality, __VA_ARGS__, )
#define POSITIONS(...) FIELD(POSITIONS, kvg_quality_bucket, __VA_ARGS__, )
#define PLANTED(...) FIELD(PLANTED, kvg_quality_defect, __VA_ARGS__, )
#define CONTROLS(...) FIELD(CONTROLS, kvg_result_controls, __VA_ARGS__, )
#include "harness/case/result_fields.def"
};

static const struct {
    const char *title, *meaning;
} records[KVG_RECORDS] = {
#define RECORD(OBJECT, type, title, meaning) {title, meaning},
#include "harness/case/result_fields.def"
};

kvg_record kvg_record_get(kvg_record_id id)
{
    kvg_record record = {records[id].title, records[id].meaning, {0}, 0};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].record == id) record.fields[record.count++] = &fields[i].field;
    }
    return record;
}
