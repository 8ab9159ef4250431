#include "harness/case/result_fields.h"

#include <assert.h>

#include "harness/case/result.h"

void kvg_names_add(kvg_names *names, const char *name)
{
    assert(names->count < KVG_FIELD_NAMES_MOST);
    names->name[names->count++] = name;
}

static const kvg_field fields_ASKED[] = {
#define ASKED(...) KVG_FIELD_ROW(kvg_result_asked, __VA_ARGS__, )
#include "harness/case/result_fields.def"
};

static const kvg_field fields_OUTCOME[] = {
#define OUTCOME(...) KVG_FIELD_ROW(kvg_result_outcome, __VA_ARGS__, )
#include "harness/case/result_fields.def"
};

static const kvg_field fields_PARTS[] = {
#define PARTS(...) KVG_FIELD_ROW(, __VA_ARGS__, )
#include "harness/case/result_fields.def"
};

static const kvg_field fields_COMPARED[] = {
#define COMPARED(...) KVG_FIELD_ROW(kvg_result_compared, __VA_ARGS__, )
#include "harness/case/result_fields.def"
};

static const kvg_field fields_LISTS[] = {
#define LISTS(...) KVG_FIELD_ROW(kvg_result_lists, __VA_ARGS__, )
#include "harness/case/result_fields.def"
};

static const kvg_field fields_MODE[] = {
#define MODE(...) KVG_FIELD_ROW(kvg_result_mode, __VA_ARGS__, )
#include "harness/case/result_fields.def"
};

static const kvg_field fields_TRIP[] = {
#define TRIP(...) KVG_FIELD_ROW(kvg_round_trip, __VA_ARGS__, )
#include "harness/case/result_fields.def"
};

static const kvg_field fields_DECODE[] = {
#define DECODE(...) KVG_FIELD_ROW(kvg_decode_accuracy, __VA_ARGS__, )
#include "harness/case/result_fields.def"
};

static const kvg_field fields_SEPARATION[] = {
#define SEPARATION(...) KVG_FIELD_ROW(kvg_result_separation, __VA_ARGS__, )
#include "harness/case/result_fields.def"
};

static const kvg_field fields_REACH[] = {
#define REACH(...) KVG_FIELD_ROW(kvg_result_reach, __VA_ARGS__, )
#include "harness/case/result_fields.def"
};

static const kvg_field fields_CONTROLS[] = {
#define CONTROLS(...) KVG_FIELD_ROW(kvg_result_controls, __VA_ARGS__, )
#include "harness/case/result_fields.def"
};

const kvg_record *kvg_record_get(kvg_record_id id)
{
    static const kvg_record records[KVG_RECORDS] = {
#define RECORD(OBJECT, type, title, meaning) \
    {title, meaning, fields_##OBJECT, sizeof fields_##OBJECT / sizeof fields_##OBJECT[0]},
#include "harness/case/result_fields.def"
    };
    return &records[id];
}
