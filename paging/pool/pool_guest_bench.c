#include <inttypes.h>

#include "paging/pool/pool_guest.h"
#include "support/interrupt.h"

enum { OPERATIONS = 200000, SEQUENCE_BLOCKS = 12 };

/* Sequences of 1 to SEQUENCE_BLOCKS blocks, in a full pool. */
static kvg_status measure(const kvg_guest_run *asked, const char *pool, kvg_guest_result *out)
{
    kvg_guest_run run = *asked;
    kvg_manager_pool size;
    kvg_manager_group groups[KVG_GUEST_GROUPS];
    kvg_status s = kvg_guest_pool_read(pool, &size, groups);
    if (s) return s;
    FILE *log = fopen("/dev/null", "w");
    if (!log) return kvg_fail(KVG_ERR_IO, "cannot open /dev/null");
    run.pool = pool;
    run.blocks = SEQUENCE_BLOCKS;
    run.live = size.blocks / 2 + 1; /* more than it holds */
    run.seconds = run.filling = KVG_GUEST_BENCH_SECONDS;
    run.spares_memory = true;
    if (!run.operations) run.operations = OPERATIONS;
    s = kvg_guest_play(&run, log, out);
    fclose(log);
    if (!s && out->status) s = kvg_fail(out->status, "%s", out->text);
    return s;
}

static void print(const char *pool, const kvg_guest_result *r, cJSON *list)
{
    const double count = (double)r->operations, manager = 1e9 * r->inside / count, all = 1e9 * r->seconds / count;
    cJSON *item = cJSON_CreateObject();
    if (cJSON_GetArraySize(list) == 0) {
        puts("nanoseconds per operation, in the manager and in kvgold, blocks held behind them, and memory of both\n");
        printf("%16s %10s %12s %12s %8s %8s\n", "pool", "operations", "manager", "kvgold", "held", "MiB");
    }
    cJSON_AddStringToObject(item, "pool", pool);
    cJSON_AddNumberToObject(item, "operations", count);
    cJSON_AddNumberToObject(item, "manager_ns", manager);
    cJSON_AddNumberToObject(item, "kvgold_ns", all - manager);
    cJSON_AddNumberToObject(item, "held", r->held);
    cJSON_AddNumberToObject(item, "bytes", (double)r->bytes);
    cJSON_AddItemToArray(list, item);
    printf("%16s %10" PRIu64 " %12.0f %12.0f %7.1f%% %8" PRIu64 "\n", pool, r->operations, manager, all - manager,
           100 * r->held, r->bytes >> 20);
    fflush(stdout);
}

kvg_status kvg_guest_bench(const kvg_guest_run *asked, cJSON *list)
{
    static const char *const pools[] = {"1000:16", "10000:16", "100000:16", "1000000:16"};
    const char *const *tried = asked->pool ? &asked->pool : pools;
    const size_t count = asked->pool ? 1 : sizeof pools / sizeof pools[0];
    for (size_t i = 0; i < count; i++) {
        kvg_guest_result result;
        kvg_status s = kvg_interrupt_check();
        if (!s) s = measure(asked, tried[i], &result);
        if (s) return s;
        if (result.is_skipped) printf("%16s the manager does not take this pool\n", tried[i]);
        else print(tried[i], &result, list);
    }
    if (cJSON_GetArraySize(list)) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "%s takes no pool that it is asked for: name one by --pool", asked->library);
}
