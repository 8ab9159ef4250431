#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "paging/pool/pool_guest.h"
#include "paging/pool/pool_guest_pool.h"
#include "paging/pool/pool_log.h"
#include "support/child.h"

enum { OPERATIONS = 20000, LARGE = 10000, LARGE_OPERATIONS = 2500, BYTES_SHARE = 20, OTHER_SEEDS = 8 };

/* A process died in some call, as the text says: after how many events, and how. */
static void describe_death(kvg_guest_verdict *v)
{
    char how[120], *text = v->result.text;
    const size_t used = strlen(text);
    if (kvg_child_timed_out(v->result.death))
        snprintf(how, sizeof how, "the call took longer than %d s", KVG_GUEST_CALL_SECONDS);
    else kvg_child_describe(v->result.death, how, sizeof how);
    snprintf(text + used, sizeof v->result.text - used, ", after %" PRIu64 " events: %s", v->totals.events, how);
}

/* Plays a run into `path` and judges its log: result, totals and fails of the verdict. */
static kvg_status judge(const kvg_guest_run *run, const char *path, kvg_audit_report report, kvg_guest_verdict *v)
{
    FILE *log = fopen(path, "w+");
    if (!log) return kvg_fail(KVG_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    kvg_status s = kvg_guest_play(run, log, &v->result);
    const int death = v->result.death;
    if (!s && !death && v->result.status && v->result.operations == 0)
        s = kvg_fail(v->result.status, "%s", v->result.text);
    if (!s && !v->result.is_skipped) {
        rewind(log);
        s = kvg_audit_log(log, path, report, &v->totals);
    }
    fclose(log);
    if (death) {
        describe_death(v);
        if (s == KVG_ERR_INVALID) s = KVG_OK; /* a log without a line, or a torn one */
    }
    v->fails = v->totals.violations || v->result.status;
    return s;
}

/* The fewest operations with which a run still fails, by halves. */
static kvg_status shorten(kvg_guest_run *run, const char *path)
{
    kvg_guest_verdict v;
    uint64_t right = 0;
    kvg_status s = KVG_OK;
    while (!s && right + 1 < run->operations) {
        kvg_guest_run half = *run;
        half.operations = right + (run->operations - right) / 2;
        s = judge(&half, path, (kvg_audit_report){0}, &v);
        if (!s && v.fails) run->operations = half.operations;
        else right = half.operations;
    }
    return s;
}

/* The shortest run that fails, under this seed and the next ones. */
static kvg_status find_shortest(kvg_guest_run *run, const char *path)
{
    kvg_guest_verdict v;
    const uint64_t first = run->seed;
    kvg_status s = shorten(run, path);
    for (uint64_t i = 1; i <= OTHER_SEEDS && !s && run->operations > 1; i++) {
        kvg_guest_run other = *run;
        other.seed = first + i;
        other.operations--;
        s = judge(&other, path, (kvg_audit_report){0}, &v);
        if (s || !v.fails) continue;
        s = shorten(&other, path);
        *run = other;
    }
    return s;
}

/* The operations on a pool: fewer on a large one, whose sequences are longer, and where bytes are written and read. */
static uint64_t count_operations(const char *text, const kvg_guest_bytes *bytes)
{
    kvg_manager_pool pool;
    kvg_manager_group groups[KVG_GUEST_GROUPS];
    const bool large = !kvg_guest_pool_read(text, &pool, groups) && pool.blocks >= LARGE;
    return (large ? LARGE_OPERATIONS : OPERATIONS) / (bytes ? BYTES_SHARE : 1);
}

kvg_status kvg_guest_check(const kvg_guest_run *asked, const char *path, kvg_audit_report report,
                           kvg_guest_verdict *out)
{
    static const char *const pools[] = {"4:1", "12:4", "64:16", "1024:16", "4:1w2", "12:4w9", "64:16w40", "24:4:4w9",
                                        "24:4:2", "96:16w40:8:32w70", "12+8:4", "24+16:4:4w9", "96+40:16w40:8:32w70",
                                        "10000:16", "10000:16w200"};
    const char *const *tried = asked->pool ? &asked->pool : pools;
    const size_t count = asked->pool ? 1 : sizeof pools / sizeof pools[0];
    kvg_status s = KVG_OK;
    *out = (kvg_guest_verdict){0};
    for (size_t i = 0; !s && !out->fails && i < count; i++) {
        out->run = *asked;
        out->run.pool = tried[i];
        if (asked->operations == 0) out->run.operations = count_operations(tried[i], asked->bytes);
        s = judge(&out->run, path, (kvg_audit_report){0}, out);
        out->pools += !out->result.is_skipped;
        out->operations += out->result.operations;
        out->tokens += out->result.tokens;
        out->found += out->result.found;
        out->read += out->result.read;
        out->failures += out->result.failures;
    }
    if (!s && out->pools == 0)
        return kvg_fail(KVG_ERR_INVALID, "%s takes no pool that it is asked for: name one by --pool%s%s",
                        asked->library, out->result.text[0] ? "; the last one: " : "", out->result.text);
    if (s || !out->fails) return s;
    out->first = out->result;
    if (out->result.status) out->run.operations = out->result.operations;
    if (kvg_child_timed_out(out->result.death)) return s; /* each shorter run would have to hang again */
    s = find_shortest(&out->run, path);
    if (!s) s = judge(&out->run, path, report, out);
    if (!s && !out->fails) {
        out->fails = true;
        out->result.status = KVG_ERR_INVALID;
        snprintf(out->result.text, sizeof out->result.text, "a run failed, and passed when it was asked again: the "
                 "manager's answers depend on more than its calls");
    }
    return s;
}
