/* kvgold's own block manager, audited by a log: an engine that works on the manager writes what it got, as any engine
 * would. The log of the manager holds, also to the promises B1 to B4; that of a manager with a planted defect breaks a
 * rule. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "paging/pool/pool_defects.h"
#include "paging/pool/pool_log.h"

enum { BLOCKS = 24, SEQUENCES = 12, MOST = 3, STEPS = 4000 };

typedef struct engine {
    kvg_pool_stack stack;
    uint32_t ids[SEQUENCES][MOST], counts[SEQUENCES]; /* what each sequence holds */
    uint64_t draws, seed;
    FILE *log;
} engine;

static uint32_t draw(engine *e, uint32_t below)
{
    return (uint32_t)kvg_rng_below(e->seed, 0, e->draws++, below);
}

static const kvg_block_pool *pool_of(const engine *e)
{
    return &e->stack.blocks[KVG_POOL_DATA];
}

static void log_list(engine *e, const char *event, uint32_t q, const uint32_t *ids, uint32_t n)
{
    fprintf(e->log, "{\"event\":\"%s\"", event);
    if (q < SEQUENCES) fprintf(e->log, ",\"sequence\":%" PRIu32, q);
    fprintf(e->log, ",\"blocks\":[");
    for (uint32_t i = 0; i < n; i++) fprintf(e->log, "%s%" PRIu32, i ? "," : "", ids[i]);
    fprintf(e->log, "]}\n");
}

/* Evicts what is too little, and allocates. A block's life is what it stores, so freed blocks are cached. */
static kvg_status step_allocate(engine *e, uint32_t q)
{
    const kvg_block_pool *p = pool_of(e);
    const uint32_t n = 1 + draw(e, MOST);
    uint32_t evicted[MOST];
    kvg_block_counts counts;
    p->ops->counts(p->self, &counts);
    if (counts.free + counts.cached < n) return KVG_OK;
    if (counts.free < n) {
        kvg_status s = p->ops->evict(p->self, n - counts.free, evicted);
        if (s) return s;
        log_list(e, "evict", SEQUENCES, evicted, n - counts.free);
    }
    kvg_status s = p->ops->allocate(p->self, n, e->ids[q]);
    if (s) return s;
    e->counts[q] = n;
    log_list(e, "allocate", q, e->ids[q], n);
    for (uint32_t i = 0; i < n && !s; i++) {
        kvg_block b;
        s = p->ops->get(p->self, e->ids[q][i], &b);
        fprintf(e->log, "{\"event\":\"store\",\"block\":%" PRIu32 ",\"hash\":%" PRIu64 "}\n", e->ids[q][i],
                b.unique_id);
    }
    return s;
}

/* Takes any block that is alive; a cached one is sometimes freed instead. */
static kvg_status step_hit(engine *e, uint32_t q)
{
    const kvg_block_pool *p = pool_of(e);
    const uint32_t id = draw(e, BLOCKS);
    kvg_block b;
    kvg_status s = p->ops->get(p->self, id, &b);
    if (s || b.unique_id == 0) return s;
    if (b.use_count == 0 && draw(e, 2)) {
        s = p->ops->free(p->self, &id, 1);
        if (!s) log_list(e, "forget", SEQUENCES, &id, 1); /* the engine has chosen the block, not the manager */
        return s;
    }
    s = p->ops->lock(p->self, &id, 1, NULL);
    if (s) return s;
    e->ids[q][0] = id;
    e->counts[q] = 1;
    log_list(e, "hit", q, &id, 1);
    return KVG_OK;
}

static kvg_status step_free(engine *e, uint32_t q)
{
    const kvg_block_pool *p = pool_of(e);
    log_list(e, "free", q, e->ids[q], e->counts[q]);
    const uint32_t n = e->counts[q];
    e->counts[q] = 0;
    const kvg_status s = p->ops->touch(p->self, e->ids[q], n);
    return s ? s : p->ops->unlock(p->self, e->ids[q], n, NULL);
}

static void log_counts(engine *e)
{
    const kvg_block_pool *p = &e->stack.view[KVG_POOL_DATA];
    kvg_block_counts c;
    p->ops->counts(p->self, &c);
    fprintf(e->log, "{\"event\":\"counts\",\"free\":%" PRIu32 ",\"cached\":%" PRIu32 ",\"held\":%" PRIu32 "}\n", c.free,
            c.cached, c.active);
}

static kvg_status step(engine *e)
{
    const uint32_t q = draw(e, SEQUENCES);
    log_counts(e);
    if (e->counts[q]) return step_free(e, q);
    return draw(e, 3) ? step_allocate(e, q) : step_hit(e, q);
}

/* The engine's work up to the first call that the manager refuses, audited. */
static kvg_audit_totals audit(const char *defect)
{
    static const kvg_pool_geometry geometry = {.capacity = BLOCKS, .chunk = -1, .block_tokens = 4, .cp_size = 1,
                                               .hash_bits = 64, .vocabulary = 50};
    engine e = {.seed = 64};
    const kvg_pool_defect *planted = NULL;
    kvg_audit_totals totals;
    char *text = NULL;
    size_t size = 0;
    if (defect) assert_int_equal(kvg_pool_defect_find(defect, &planted), KVG_OK);
    assert_int_equal(kvg_pool_stack_make(&e.stack, kvg_pool_reference(), &geometry, true,
                                         planted ? planted->install : NULL), KVG_OK);
    e.log = open_memstream(&text, &size);
    assert_non_null(e.log);
    fprintf(e.log, "{\"kvgold_pool_log\":1,\"blocks\":%d,\"block_tokens\":4,\"writes\":false,\"lowest_first\":true,"
            "\"free_first\":true,\"oldest_first\":true,\"tail_first\":true}\n", BLOCKS);
    kvg_status s = KVG_OK;
    for (int i = 0; i < STEPS && !s; i++) s = step(&e);
    for (uint32_t q = 0; q < SEQUENCES && !s; q++) {
        if (e.counts[q]) s = step_free(&e, q);
    }
    if (!defect) assert_int_equal(s, KVG_OK);
    log_counts(&e);
    if (!s) fprintf(e.log, "{\"event\":\"end\"}\n");
    fclose(e.log);
    kvg_pool_stack_destroy(&e.stack);
    FILE *in = fmemopen(text, size, "r");
    assert_non_null(in);
    if (kvg_audit_log(in, "log", (kvg_audit_report){0}, &totals)) fail_msg("%s", kvg_error_text());
    fclose(in);
    free(text);
    return totals;
}

static void test_own_manager_passes(void **state)
{
    (void)state;
    const kvg_audit_totals t = audit(NULL);
    assert_int_equal(t.violations, 0);
    assert_true(t.ended && t.events > STEPS);
}

static void test_planted_defects_break_rules(void **state)
{
    (void)state;
    static const struct {
        const char *defect;
        kvg_audit_rule rule;
    } rows[] = {
        {"unlock_twice", KVG_AUDIT_COUNTS},     {"unlock_lost", KVG_AUDIT_COUNTS},  {"counter_drift", KVG_AUDIT_COUNTS},
        {"free_twice", KVG_AUDIT_ALLOCATE_HELD}, {"shared_twice", KVG_AUDIT_COUNTS},
        {"not_lowest", KVG_AUDIT_LOWEST_FIRST},  {"evict_newest", KVG_AUDIT_OLDEST_FIRST},
        {"touch_forward", KVG_AUDIT_TAIL_FIRST},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const kvg_audit_totals t = audit(rows[i].defect);
        if (!t.broken[rows[i].rule]) {
            fail_msg("%s: %s is not broken; %d violations", rows[i].defect, kvg_audit_rules[rows[i].rule].id,
                     (int)t.violations);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_manager_passes),
        cmocka_unit_test(test_planted_defects_break_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
