/* Any bytes as a log of a block manager. What is judged has counts that fit each other, the same as when nobody looks
 * at the violations. What is refused leaves one line with the log's name. */
#include <string.h>

#include "paging/pool/pool_log.h"
#include "tests/fuzz/fuzz_require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void see(void *context, const kvg_audit_violation *v)
{
    uint64_t *seen = context;
    require(v->rule < KVG_AUDIT_RULES && v->line > 0 && v->event && strlen(v->text) < sizeof v->text);
    ++*seen;
}

static kvg_status judge(const uint8_t *data, size_t size, kvg_audit_report report, kvg_audit_totals *totals)
{
    FILE *log = fmemopen((void *)data, size, "r");
    require(log != NULL);
    const kvg_status s = kvg_audit_log(log, "fuzz.jsonl", report, totals);
    fclose(log);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kvg_audit_totals totals, again;
    uint64_t seen = 0, broken = 0;
    if (size == 0) return 0; /* fmemopen wants a byte */
    const kvg_status s = judge(data, size, (kvg_audit_report){see, &seen}, &totals);
    require(s == KVG_OK || s == KVG_ERR_INVALID);
    for (int i = 0; i < KVG_AUDIT_RULES; i++) broken += totals.broken[i];
    require(seen == totals.violations && broken == seen);
    if (s) {
        const char *text = kvg_error_text();
        require(strncmp(text, "fuzz.jsonl:", 11) == 0);
        require_line(text);
    }
    require(judge(data, size, (kvg_audit_report){NULL, NULL}, &again) == s);
    require(again.events == totals.events && again.violations == totals.violations);
    return 0;
}
