#include "harness/report/result_line_quality.h"

#include <math.h>

void kvg_result_add_number(cJSON *object, const char *key, double x)
{
    if (isfinite(x)) cJSON_AddNumberToObject(object, key, x);
    else cJSON_AddStringToObject(object, key, isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
}

static void add_buckets(cJSON *object, const kvg_quality *q)
{
    cJSON *list = cJSON_AddArrayToObject(object, "positions");
    for (unsigned b = 0; b < KVG_QUALITY_BUCKETS && !q->unknown; b++) {
        if (q->buckets[b].rows == 0) continue;
        cJSON *bucket = cJSON_CreateObject();
        kvg_result_add_number(bucket, "from", kvg_quality_bucket_from(b));
        kvg_result_add_number(bucket, "rows", (double)q->buckets[b].rows);
        kvg_result_add_number(bucket, "loss", q->buckets[b].loss);
        kvg_result_add_number(bucket, "kl", q->buckets[b].kl);
        kvg_result_add_number(bucket, "top1", q->buckets[b].top1);
        cJSON_AddItemToArray(list, bucket);
    }
}

static void add_defects(cJSON *object, const kvg_quality_result *q)
{
    cJSON *list = cJSON_AddArrayToObject(object, "planted");
    for (size_t i = 0; i < q->defect_count; i++) {
        const kvg_quality_defect *d = &q->defects[i];
        cJSON *planted = cJSON_CreateObject();
        cJSON_AddStringToObject(planted, "id", d->id);
        cJSON_AddBoolToObject(planted, "applies", d->applies);
        cJSON_AddBoolToObject(planted, "by_bits", d->by_bits);
        cJSON_AddBoolToObject(planted, "by_limits", d->by_limits);
        kvg_result_add_number(planted, "rows", (double)d->rows);
        kvg_result_add_number(planted, "differ", (double)d->differ);
        kvg_result_add_number(planted, "loss", d->loss);
        kvg_result_add_number(planted, "kl", d->kl);
        cJSON_AddItemToArray(list, planted);
    }
}

void kvg_result_add_quality(cJSON *line, const kvg_quality_result *q)
{
    cJSON *object = cJSON_AddObjectToObject(line, "quality");
#define QUALITY(name, value) kvg_result_add_number(object, #name, (double)(value));
#include "harness/case/quality_fields.def"
#undef QUALITY
    add_buckets(object, &q->quality);
    add_defects(object, q);
}
