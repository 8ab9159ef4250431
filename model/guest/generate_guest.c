#include "model/guest/generate_guest.h"

#include <stdio.h>
#include <string.h>

#include "harness/report/result_record.h"
#include "model/generate/generate_case.h"
#include "model/generate/quality_check.h"
#include "model/generate/quality_result.h"
#include "model/report/report_quality.h"

/* "heldout.txt:n2:s256:c64:b4:x1", then what is not as by default, ":g32", ":sliding", ":before_rope". */
static void write_id(const kvg_case *c, char *out, size_t size)
{
    const kvg_generate_case *g = kvg_generate_of(c);
    const char *slash = strrchr(g->text, '/');
    char greedy[16] = "";
    if (g->greedy) snprintf(greedy, sizeof greedy, ":g%u", g->greedy);
    snprintf(out, size, "%s:n%u:s%u:c%u:b%u:x%u%s%s%s%s", slash ? slash + 1 : g->text, g->windows, g->stride, g->chunk,
             g->batch, g->bit_windows, greedy, g->layers != KVG_LAYERS_ALL ? ":" : "",
             g->layers != KVG_LAYERS_ALL ? kvg_quantised_layers_names[g->layers] : "",
             g->before_rope ? ":before_rope" : "");
}

/* --- a session --- */

static kvg_status open_session(void **session)
{
    kvg_quality_session *opened;
    kvg_status s = kvg_quality_session_open(&opened);
    *session = opened;
    return s;
}

static void check(void *session, const kvg_case *c, kvg_candidate *candidate, kvg_result *out)
{
    kvg_quality_check_case(session, c, candidate, out);
}

static void close_session(void *session)
{
    kvg_quality_session_close(session);
}

/* --- lines --- */

static void write_asked(const kvg_case *c, cJSON *line)
{
    const kvg_generate_case *g = kvg_generate_of(c);
    const kvg_result_generate asked = {kvg_quantised_layers_names[g->layers], kvg_quantised_k_names[g->before_rope]};
    kvg_record_write(&kvg_quality_records[KVG_QUALITY_GENERATE], &asked, line);
}

static void write_quality(const kvg_result *r, cJSON *line)
{
    const kvg_quality_result *q = r->guest;
    if (!q || !q->measured) return;
    cJSON *object = cJSON_AddObjectToObject(line, "quality");
    kvg_record_write(&kvg_quality_records[KVG_QUALITY_QUALITY], q, object);
    cJSON *positions = cJSON_AddArrayToObject(object, "positions");
    for (unsigned b = 0; b < KVG_QUALITY_BUCKETS && !q->quality.unknown; b++) {
        if (q->quality.buckets[b].rows == 0) continue;
        cJSON *position = cJSON_CreateObject();
        kvg_record_write(&kvg_quality_records[KVG_QUALITY_POSITIONS], &q->quality.buckets[b], position);
        cJSON_AddItemToArray(positions, position);
    }
    cJSON *list = cJSON_AddArrayToObject(object, "planted");
    for (size_t i = 0; i < q->defect_count; i++) {
        cJSON *planted = cJSON_CreateObject();
        kvg_record_write(&kvg_quality_records[KVG_QUALITY_PLANTED], &q->defects[i], planted);
        cJSON_AddItemToArray(list, planted);
    }
}

const kvg_guest kvg_generate_guest = {
    .name = "generate",
    .add = kvg_generate_add,
    .schema = kvg_generate_schema,
    .page = kvg_generate_page,
    .id = write_id,
    .open = open_session,
    .check = check,
    .close = close_session,
    .records = kvg_quality_records,
    .record_count = KVG_QUALITY_RECORDS,
    .write_asked = write_asked,
    .write = write_quality,
    .read = kvg_report_quality_read,
    .about = kvg_report_quality_about,
    .print = kvg_report_quality_print,
};
