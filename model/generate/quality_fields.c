#include "model/generate/quality_result.h"

static const kvg_field fields_GENERATE[] = {
#define GENERATE(...) KVG_FIELD_ROW(kvg_result_generate, __VA_ARGS__, )
#include "model/generate/quality_fields.def"
};

static const kvg_field fields_PARTS[] = {
#define PARTS(...) KVG_FIELD_ROW(, __VA_ARGS__, )
#include "model/generate/quality_fields.def"
};

static const kvg_field fields_QUALITY[] = {
#define QUALITY(...) KVG_FIELD_ROW(kvg_result_quality, __VA_ARGS__, )
#include "model/generate/quality_fields.def"
};

static const kvg_field fields_POSITIONS[] = {
#define POSITIONS(...) KVG_FIELD_ROW(kvg_quality_bucket, __VA_ARGS__, )
#include "model/generate/quality_fields.def"
};

static const kvg_field fields_PLANTED[] = {
#define PLANTED(...) KVG_FIELD_ROW(kvg_quality_defect, __VA_ARGS__, )
#include "model/generate/quality_fields.def"
};

const kvg_record kvg_quality_records[KVG_QUALITY_RECORDS] = {
#define RECORD(OBJECT, title, meaning) \
    {title, meaning, fields_##OBJECT, sizeof fields_##OBJECT / sizeof fields_##OBJECT[0]},
#include "model/generate/quality_fields.def"
};
