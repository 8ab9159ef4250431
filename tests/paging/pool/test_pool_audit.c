/* Logs of other block managers: what is right passes, every rule has a log that breaks it alone, the page has the rules
 * of the table, and lines that are no events are refused with their place. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "paging/pool/pool_log.h"

#define PAGE KVG_SOURCE_DIR "/docs/spec/paging.md"
#define HEAD "{\"kvgold_pool_log\":1,\"blocks\":4,\"block_tokens\":2}\n"
#define PLAIN "{\"kvgold_pool_log\":1,\"blocks\":4,\"block_tokens\":2,\"writes\":false}\n"
#define EARLY "{\"kvgold_pool_log\":1,\"blocks\":4,\"block_tokens\":2,\"stores_before_write\":true}\n"
#define HOST "{\"kvgold_pool_log\":1,\"blocks\":4,\"block_tokens\":2,\"host_blocks\":2}\n"
#define PROMISE(flags) "{\"kvgold_pool_log\":1,\"blocks\":4,\"block_tokens\":2,\"evicts_on_allocate\":true" flags "}\n"
#define EVENT(word, ...) "{\"event\":\"" word "\"" __VA_ARGS__ "}\n"
#define OF(sequence) ",\"sequence\":" #sequence
#define BLOCKS(list) ",\"blocks\":" list
#define ALLOCATE(sequence, list) EVENT("allocate", OF(sequence) BLOCKS(list))
#define HIT(sequence, list, more) EVENT("hit", OF(sequence) BLOCKS(list) more)
#define FREE(sequence, list) EVENT("free", OF(sequence) BLOCKS(list))
#define FREE_ALL(sequence) EVENT("free", OF(sequence))
#define EVICT(list) EVENT("evict", BLOCKS(list))
#define WRITE(sequence, block, first, count) \
    EVENT("write", OF(sequence) ",\"block\":" #block ",\"first\":" #first ",\"count\":" #count)
#define COPY(sequence, from, to) EVENT("copy", OF(sequence) ",\"from\":" #from ",\"to\":" #to)
#define OFFLOAD(from, to) EVENT("offload", ",\"from\":" #from ",\"to\":" #to)
#define READ(sequence, list) EVENT("read", OF(sequence) BLOCKS(list))
#define STORE(block, hash, more) EVENT("store", ",\"block\":" #block ",\"hash\":" #hash more)
#define FULL(sequence, block) ALLOCATE(sequence, "[" #block "]") WRITE(sequence, block, 0, 2)
#define END EVENT("end", "")
#define PAIR FULL("a", 0) STORE(0, 7, "") FULL("a", 1) STORE(1, 8, "")
#define STORED FULL("a", 0) STORE(0, 7, ",\"parent\":null,\"salt\":\"x\",\"tokens\":[1,2]")

/* --- helpers --- */

/* The last violation of a log. */
typedef struct seen {
    uint64_t count, line;
    int64_t block;
    char text[200];
} seen;

static void see(void *context, const kvg_audit_violation *v)
{
    seen *s = context;
    s->count++;
    s->line = v->line;
    s->block = v->block;
    snprintf(s->text, sizeof s->text, "%s", v->text);
}

static kvg_status judge_bytes(const char *log, size_t size, kvg_audit_totals *totals, seen *last)
{
    *last = (seen){0};
    FILE *in = fmemopen((void *)(uintptr_t)log, size, "r");
    assert_non_null(in);
    kvg_status s = kvg_audit_log(in, "log", (kvg_audit_report){see, last}, totals);
    fclose(in);
    assert_int_equal(last->count, totals->violations);
    return s;
}

static kvg_status judge(const char *log, kvg_audit_totals *totals, seen *last)
{
    return judge_bytes(log, strlen(log), totals, last);
}

static void expect_good(const char *log)
{
    kvg_audit_totals t;
    seen last;
    if (judge(log, &t, &last)) fail_msg("%s:\n%s", kvg_error_text(), log);
    if (t.violations) fail_msg("line %d: %s:\n%s", (int)last.line, last.text, log);
    assert_true(t.events > 0);
}

/* --- what is right --- */

static void test_managers_that_keep_and_that_do_not_pass(void **state)
{
    (void)state;
    /* freed blocks stay findable; vLLM evicts when it allocates */
    expect_good(HEAD FULL("a", 0) STORE(0, 7, ",\"tokens\":[1,2]") FREE_ALL("a") HIT("b", "[0]", ",\"hashes\":[\"7\"]")
                FULL("b", 1) STORE(1, 8, ",\"parent\":7") READ("b", "[0,1]") FREE_ALL("b")
                HIT("c", "[0,1]", ",\"hashes\":[7,8],\"tokens\":[1,2,9]") FREE("c", "[1,0]") EVICT("[1]")
                ALLOCATE("d", "[1]") EVENT("counts", ",\"free\":2,\"cached\":1,\"held\":1,\"available\":3")
                FREE_ALL("d") END);
    expect_good("{\"kvgold_pool_log\":1,\"blocks\":4,\"block_tokens\":2,\"evicts_on_allocate\":true}\n" FULL("a", 0)
                STORE(0, 7, "") FREE_ALL("a") FULL("b", 0) STORE(0, 9, "") FREE_ALL("b") END);
    /* freed blocks are free */
    expect_good(PLAIN ALLOCATE(1, "[0,1]") FREE(1, "[0]") ALLOCATE(2, "[0]") FREE_ALL(2) FREE_ALL(1) FREE_ALL(3) END);
    /* a fork, and its copy on write */
    expect_good(HEAD ALLOCATE("a", "[0]") WRITE("a", 0, 0, 1) HIT("b", "[0]", "") ALLOCATE("b", "[1]") COPY("b", 0, 1)
                FREE("b", "[0]") WRITE("b", 1, 1, 1) WRITE("a", 0, 1, 1) READ("b", "[1]") FREE_ALL("a") FREE_ALL("b")
                END);
    /* a partial block that is stored, and written on after it is forgotten */
    expect_good(HEAD ALLOCATE("a", "[0]") WRITE("a", 0, 0, 1) STORE(0, 1, ",\"tokens\":[5]")
                EVENT("forget", BLOCKS("[0]")) WRITE("a", 0, 1, 1) STORE(0, 2, ",\"tokens\":[5,6]")
                EVENT("clear", "") FREE_ALL("a") EVENT("counts", ",\"free\":4"));
    /* a block that is stored, and hit, before the step writes it */
    expect_good(EARLY ALLOCATE("a", "[0]") WRITE("a", 0, 0, 1) STORE(0, 1, ",\"tokens\":[5,6]") HIT("b", "[0]", "")
                WRITE("a", 0, 1, 1) READ("a", "[0]") READ("b", "[0]") FREE_ALL("a") FREE("b", "[0]") EVICT("[0]")
                ALLOCATE("a", "[1]") STORE(1, 2, ",\"tokens\":[5]") HIT("b", "[1]", "") WRITE("a", 1, 0, 1)
                FREE_ALL("b") FREE_ALL("a") ALLOCATE("a", "[2]") STORE(2, 3, "") EVENT("forget", BLOCKS("[2]"))
                FREE_ALL("a") END);
    /* a window: the parent is gone */
    expect_good("{\"kvgold_pool_log\":1,\"blocks\":4,\"block_tokens\":2,\"window\":true}\n" FULL("a", 0) STORE(0, 1, "")
                FULL("a", 1) FREE("a", "[0]") EVICT("[0]") STORE(1, 2, ",\"parent\":1") FREE_ALL("a") END);
    /* out to the host and back, and a block that the host keeps and another sequence finds */
    expect_good(HOST STORED ALLOCATE("a", "[5]") COPY("a", 0, 5) OFFLOAD(0, 4) FREE("a", "[0]") EVICT("[0]")
                ALLOCATE("a", "[1]") COPY("a", 5, 1) FREE("a", "[5]") STORE(1, 7, "")
                HIT("b", "[4]", ",\"hashes\":[7],\"salt\":\"x\",\"tokens\":[1,2]") ALLOCATE("b", "[2]") COPY("b", 4, 2)
                FREE("b", "[4]") READ("b", "[2]") EVENT("counts", ",\"free\":2,\"cached\":0,\"held\":2") FREE_ALL("a")
                FREE_ALL("b") END);
    /* promised orders: a list takes its blocks as a set, a hit makes a block young, and nothing else is promised */
    expect_good(PROMISE(",\"lowest_first\":true") ALLOCATE("a", "[1,0]") ALLOCATE("b", "[2]") FREE("a", "[1]")
                ALLOCATE("b", "[1,3]"));
    expect_good(PROMISE(",\"lowest_first\":true,\"free_first\":true,\"oldest_first\":true,\"tail_first\":true")
                PAIR FREE("a", "[0,1]") HIT("b", "[1]", "") FULL("b", 2) STORE(2, 9, "") FREE("b", "[1,2]")
                ALLOCATE("c", "[2,3,0]") FREE("c", "[2]") EVICT("[1]") FREE_ALL("c") END);
    expect_good(PROMISE(",\"oldest_first\":true") PAIR FREE_ALL("a") EVICT("[0]") EVICT("[1]") ALLOCATE("b", "[3]"));
    expect_good(PROMISE(",\"tail_first\":true") PAIR FREE("a", "[0]") FREE("a", "[1]") EVICT("[1]") EVICT("[0]"));
    expect_good(PROMISE("") PAIR FREE("a", "[0]") FREE("a", "[1]") ALLOCATE("b", "[1]") ALLOCATE("b", "[3]"));
    /* two blocks of one content, and hashes alone */
    expect_good(HEAD FULL("a", 0) STORE(0, 1, ",\"salt\":\"x\"") FULL("b", 1) STORE(1, 1, ",\"salt\":\"x\"")
                FREE_ALL("a") EVICT("[0]") HIT("c", "[1]", ",\"salt\":\"x\"") FREE_ALL("c") FREE_ALL("b") END);
    expect_good("{\"kvgold_pool_log\":1,\"blocks\":0,\"block_tokens\":2}\n"
                EVENT("store", ",\"hash\":-1,\"parent\":null")
                EVENT("store", ",\"hash\":18446744073709551615,\"parent\":-1")
                EVENT("forget", ",\"hashes\":[18446744073709551615,-1]") EVENT("store", ",\"hash\":2")
                EVENT("clear", "") END);
}

static void test_shipped_logs(void **state)
{
    (void)state;
    static const char *const names[] = {"audit_double_free", "audit_good", "audit_kv_events"};
    for (int i = 0; i < 3; i++) {
        const bool good = i > 0;
        char path[512];
        kvg_audit_totals t;
        snprintf(path, sizeof path, "%s/configs/traces/%s.jsonl", KVG_SOURCE_DIR, names[i]);
        FILE *in = fopen(path, "r");
        assert_non_null(in);
        assert_int_equal(kvg_audit_log(in, "log", (kvg_audit_report){0}, &t), KVG_OK);
        fclose(in);
        assert_true(t.events > 0 && t.ended == (t.blocks > 0));
        assert_int_equal(t.violations == 0, good);
        assert_int_equal(t.broken[KVG_AUDIT_FREE_HELD], !good);
    }
}

/* --- rules --- */

/* Logs that break the rule alone, once each. */
static const char *const breaking[KVG_AUDIT_RULES][4] = {
    [KVG_AUDIT_POOL] = {
        PLAIN ALLOCATE("a", "[4]"),
        PLAIN ALLOCATE("a", "[-1]"),
        PLAIN READ("a", "[99999999999999999999]"),
        HOST ALLOCATE("a", "[6]"),
    },
    [KVG_AUDIT_ONCE] = {
        PLAIN ALLOCATE("a", "[0,0]"),
        PLAIN ALLOCATE("a", "[0]") ALLOCATE("a", "[0]"),
        HEAD STORED HIT("a", "[0]", ""),
        PLAIN ALLOCATE("a", "[0]") FREE("a", "[0,0]"),
    },
    [KVG_AUDIT_ALLOCATE_HELD] = {
        PLAIN ALLOCATE("a", "[0]") ALLOCATE("b", "[1,0]") FREE_ALL("a") FREE_ALL("b") END,
    },
    [KVG_AUDIT_ALLOCATE_CACHED] = {
        HEAD STORED FREE_ALL("a") ALLOCATE("b", "[0]"),
    },
    [KVG_AUDIT_HIT_FREE] = {
        HEAD HIT("a", "[0]", ""),
        HEAD FULL("a", 0) FREE_ALL("a") HIT("b", "[0]", ""),
    },
    [KVG_AUDIT_HIT_EMPTY] = {
        HEAD ALLOCATE("a", "[0]") HIT("b", "[0]", ""),
        EARLY ALLOCATE("a", "[0]") HIT("b", "[0]", ""),
    },
    [KVG_AUDIT_HIT_CONTENT] = {
        HEAD STORED HIT("b", "[0]", ",\"hashes\":[8]"),
        HEAD STORED HIT("b", "[0]",
                               ",\"salt\":null"),
        HEAD STORED HIT("b", "[0]", ",\"tokens\":[1,3]"),
        HEAD FULL("a", 0) HIT("b", "[0]", ",\"hashes\":[8]"),
    },
    [KVG_AUDIT_HIT_CHAIN] = {
        HEAD STORED FULL("a", 1) STORE(1, 8, ",\"parent\":null") HIT("b", "[0,1]", ""),
    },
    [KVG_AUDIT_FREE_HELD] = {
        PLAIN ALLOCATE("a", "[0]") FREE("a", "[0]") FREE("a", "[0]"),
        PLAIN ALLOCATE("a", "[0]") FREE("b", "[0]"),
    },
    [KVG_AUDIT_EVICT_HELD] = {
        HEAD STORED EVICT("[0]"),
    },
    [KVG_AUDIT_EVICT_FREE] = {
        HEAD EVICT("[0]"),
        HEAD STORED FREE_ALL("a") EVICT("[0]") EVICT("[0]"),
    },
    [KVG_AUDIT_FORGET_STORED] = {
        HEAD FULL("a", 0) EVENT("forget", BLOCKS("[0]")),
        "{\"kvgold_pool_log\":1,\"blocks\":0,\"block_tokens\":2}\n" EVENT("store", ",\"hash\":1")
        EVENT("forget", ",\"hashes\":[2]"),
    },
    [KVG_AUDIT_WRITE_HELD] = {
        HEAD ALLOCATE("a", "[0]") WRITE("b", 0, 0, 1),
        HEAD FULL("a", 0) COPY("a", 0, 1),
    },
    [KVG_AUDIT_WRITE_SHARED] = {
        HEAD ALLOCATE("a", "[0]") WRITE("a", 0, 0, 1) HIT("b", "[0]", "") WRITE("b", 0, 1, 1),
        EARLY ALLOCATE("a", "[0]") STORE(0, 1, "") HIT("b", "[0]", "") WRITE("a", 0, 0, 2) WRITE("b", 0, 1, 1),
    },
    [KVG_AUDIT_WRITE_STORED] = {
        HEAD STORED WRITE("a", 0, 1, 1),
        EARLY STORED WRITE("a", 0, 1, 1),
        HEAD STORED FULL("a", 1) COPY("a", 1, 0),
    },
    [KVG_AUDIT_WRITE_SLOTS] = {
        HEAD ALLOCATE("a", "[3]") WRITE("a", 3, 1, 2),
        HEAD ALLOCATE("a", "[3]") WRITE("a", 3, 4294967295, 1),
    },
    [KVG_AUDIT_COPY_SOURCE] = {
        HEAD FULL("a", 0) COPY("a", 0, 0),
        HEAD FULL("a", 0) COPY("a", 1, 0),
    },
    [KVG_AUDIT_READ_HELD] = {
        HEAD FULL("a", 0) FREE_ALL("a") READ("a", "[0]"),
        HEAD FULL("a", 0) READ("b", "[0]"),
    },
    [KVG_AUDIT_READ_EMPTY] = {
        HEAD ALLOCATE("a", "[0]") READ("a", "[0]"),
        EARLY ALLOCATE("a", "[0]") STORE(0, 1, "") HIT("b", "[0]", "") READ("b", "[0]"),
        HEAD STORED FREE_ALL("a") EVICT("[0]") ALLOCATE("b", "[0]") READ("b", "[0]"),
    },
    [KVG_AUDIT_STORE_HELD] = {
        HEAD FULL("a", 0) FREE_ALL("a") STORE(0, 1, ""),
    },
    [KVG_AUDIT_STORE_ONCE] = {
        HEAD STORED STORE(0, 8, ""),
    },
    [KVG_AUDIT_STORE_WRITTEN] = {
        HEAD ALLOCATE("a", "[0]") WRITE("a", 0, 0, 1) STORE(0, 1, ""),
        HEAD ALLOCATE("a", "[0]") WRITE("a", 0, 1, 1) STORE(0, 1, ",\"tokens\":[1]"),
        EARLY ALLOCATE("a", "[0]") WRITE("a", 0, 0, 1) STORE(0, 1, "") FREE_ALL("a"),
        EARLY ALLOCATE("a", "[0]") STORE(0, 1, ",\"tokens\":[5]") HIT("b", "[0]", "") FREE("a", "[0]") FREE("b", "[0]"),
    },
    [KVG_AUDIT_STORE_HASH] = {
        HEAD STORED FULL("a", 1) STORE(1, 7, ",\"salt\":\"x\",\"tokens\":[1,3]"),
        HEAD STORED FULL("a", 1) STORE(1, 7, ",\"salt\":\"y\",\"tokens\":[1,2]"),
        HEAD STORED FULL("a", 1) STORE(1, 7, ",\"parent\":7,\"salt\":\"x\""),
    },
    [KVG_AUDIT_STORE_PARENT] = {
        HEAD FULL("a", 0) STORE(0, 1, ",\"parent\":2"),
        HEAD STORED FREE_ALL("a") EVICT("[0]") FULL("b", 1) STORE(1, 8, ",\"parent\":7"),
    },
    [KVG_AUDIT_COUNTS] = {
        PLAIN EVENT("counts", ",\"free\":3,\"held\":0"),
        PLAIN ALLOCATE("a", "[0]") EVENT("counts", ",\"held\":2"),
        PLAIN EVENT("counts", ",\"cached\":1"),
        PLAIN EVENT("counts", ",\"available\":5"),
    },
    [KVG_AUDIT_LEAK] = {
        PLAIN ALLOCATE("a", "[0,1]") FREE("a", "[0]") END,
    },
    [KVG_AUDIT_HOST] = {
        HOST ALLOCATE("a", "[4]") WRITE("a", 4, 0, 1),
        HOST FULL("a", 0) ALLOCATE("a", "[5]") COPY("a", 0, 5) READ("a", "[0,5]"),
    },
    [KVG_AUDIT_COPY_CONTENT] = {
        HEAD STORED ALLOCATE("a", "[1]") COPY("a", 0, 1) STORE(1, 8, ""),
        HOST STORED ALLOCATE("a", "[4]") COPY("a", 0, 4) FREE("a", "[0]") ALLOCATE("a", "[1]") COPY("a", 4, 1)
            FREE("a", "[4]") STORE(1, 8, ""),
    },
    [KVG_AUDIT_OFFLOAD] = {
        HOST STORED OFFLOAD(0, 3),
        HOST FULL("a", 0) OFFLOAD(0, 4),
        HOST STORED ALLOCATE("b", "[4]") OFFLOAD(0, 4),
    },
    [KVG_AUDIT_LOWEST_FIRST] = {
        PROMISE(",\"lowest_first\":true") ALLOCATE("a", "[1]"),
        PROMISE(",\"lowest_first\":true") ALLOCATE("a", "[0,1,2,3]") FREE("a", "[2,1]") ALLOCATE("b", "[2]"),
    },
    [KVG_AUDIT_FREE_FIRST] = {
        PROMISE(",\"free_first\":true") STORED FREE_ALL("a") ALLOCATE("b", "[1,0]"),
    },
    [KVG_AUDIT_OLDEST_FIRST] = {
        PROMISE(",\"oldest_first\":true") PAIR FREE("a", "[0]") FREE("a", "[1]") EVICT("[1]"),
        PROMISE(",\"oldest_first\":true") PAIR FREE_ALL("a") HIT("b", "[0]", "") FREE_ALL("b") ALLOCATE("b", "[2,0]"),
    },
    [KVG_AUDIT_TAIL_FIRST] = {
        PROMISE(",\"tail_first\":true") PAIR FREE("a", "[0,1]") EVICT("[0]"),
        PROMISE(",\"tail_first\":true") PAIR FREE_ALL("a") ALLOCATE("b", "[0]"),
        PROMISE(",\"tail_first\":true") PAIR FULL("a", 2) STORE(2, 9, "") FREE("a", "[0,1,2]") ALLOCATE("b", "[0,1]"),
    },
};

static void test_each_rule_breaks_alone(void **state)
{
    (void)state;
    for (int rule = 0; rule < KVG_AUDIT_RULES; rule++) {
        const size_t most = sizeof breaking[0] / sizeof breaking[0][0];
        if (!breaking[rule][0]) fail_msg("no log breaks %s", kvg_audit_rules[rule].id);
        for (size_t i = 0; i < most && breaking[rule][i]; i++) {
            const char *log = breaking[rule][i];
            kvg_audit_totals t;
            seen last;
            if (judge(log, &t, &last)) fail_msg("%s: %s:\n%s", kvg_audit_rules[rule].id, kvg_error_text(), log);
            if (t.violations != 1 || t.broken[rule] != 1) {
                fail_msg("%s: %d violations, the last at line %d: %s:\n%s", kvg_audit_rules[rule].id, (int)t.violations,
                         (int)last.line, last.text, log);
            }
            assert_true(last.text[0] != '\0');
        }
    }
}

static void test_page_has_the_rules_of_the_table(void **state)
{
    (void)state;
    char *page = NULL, row[400];
    size_t room = 0;
    FILE *in = fopen(PAGE, "r");
    assert_non_null(in);
    assert_true(getdelim(&page, &room, '\0', in) > 0);
    fclose(in);
    for (int rule = 0; rule < KVG_AUDIT_RULES; rule++) {
        snprintf(row, sizeof row, "\n| %s | %s |\n", kvg_audit_rules[rule].id, kvg_audit_rules[rule].sentence);
        if (!strstr(page, row)) fail_msg("%s has no row %s", PAGE, row);
    }
    for (int i = 0; i < KVG_AUDIT_EVENTS; i++) {
        snprintf(row, sizeof row, "\n| `%s` | ", kvg_audit_event_words[i]);
        if (!strstr(page, row)) fail_msg("%s has no row %s", PAGE, row);
    }
    free(page);
}

static void test_violation_says_where(void **state)
{
    (void)state;
    kvg_audit_totals t;
    seen last;
    assert_int_equal(judge(PLAIN ALLOCATE("a", "[2]") ALLOCATE("b", "[1,2]"), &t, &last), KVG_OK);
    assert_int_equal(last.line, 3);
    assert_int_equal(last.block, 2);
    assert_string_equal(last.text, "held by 1 since line 2");
    assert_false(t.ended);
    assert_int_equal(t.events, 2);
    assert_int_equal(t.sequences, 2);
    assert_int_equal(t.blocks, 4);
}

/* --- KV events --- */

#define KV_STORED(hashes, parent, tokens, more) "[\"BlockStored\"," hashes "," parent "," tokens ",2,null" more "]"
#define KV_REMOVED(hashes) "[\"BlockRemoved\"," hashes "]"
#define FORTY "0123456789012345678901234567890123456789"
#define LONG FORTY FORTY FORTY FORTY "0"
#define BATCH(events) "[0.5,[" events "]]\n"

/* What each log breaks: a rule, or none. */
static const struct {
    const char *log;
    int rule;
} kv_logs[] = {
    {BATCH(KV_STORED("[-1,18446744073709551615]", "null", "[1,2,3,4]", "")
           "," KV_STORED("[3]", "18446744073709551615", "[5,6]", ""))
     BATCH(KV_REMOVED("[3,-1]")) BATCH("[\"AllBlocksCleared\"]"), -1},
    {"{\"ts\":1,\"events\":[{\"type\":\"BlockStored\",\"block_hashes\":[\"a\",\"b\"],\"parent_block_hash\":null,"
     "\"token_ids\":[1,2,3,4],\"block_size\":2,\"lora_id\":null,\"medium\":\"GPU\",\"lora_name\":\"l\","
     "\"extra_keys\":[[\"s\"],null],\"group_idx\":0}],\"data_parallel_rank\":0}\n"
     "{\"type\":\"BlockRemoved\",\"block_hashes\":[\"b\",\"a\"],\"medium\":\"GPU\",\"group_idx\":0}\n", -1},
    {BATCH(KV_STORED("[1]", "null", "[1,2]", "")) BATCH(KV_STORED("[1]", "null", "[1,2]", ""))
     BATCH(KV_REMOVED("[1]")) BATCH(KV_REMOVED("[1]")), -1}, /* two blocks of one content */
    {BATCH(KV_STORED("[1]", "null", "[]", ",\"CPU\"") ",[\"BlockRemoved\",[2],\"CPU\"]"), -1},
    {BATCH(KV_STORED("[2]", "7", "[1,2,3,4]", "")), -1}, /* blocks of a window are left out */
    {BATCH(KV_STORED("[1]", "null", "[1,2]", "") "," KV_REMOVED("[1]") "," KV_REMOVED("[1]")), KVG_AUDIT_FORGET_STORED},
    {BATCH(KV_STORED("[1]", "null", "[1,2]", ",\"GPU\",null,null,0") ",[\"BlockRemoved\",[1],\"GPU\",1]"),
     KVG_AUDIT_FORGET_STORED},
    {BATCH(KV_STORED("[1]", "null", "[1,2]", "") "," KV_STORED("[1]", "null", "[1,3]", "")), KVG_AUDIT_STORE_HASH},
    {BATCH(KV_STORED("[1]", "null", "[1,2]", "") "," KV_STORED("[1]", "null", "[1,2]", ",null,null,[[\"t\"]]")),
     KVG_AUDIT_STORE_HASH},
    {BATCH(KV_STORED("[1]", "null", "[1,2]", ",\"GPU\",\"a\"") "," KV_STORED("[1]", "null", "[1,2]", ",\"GPU\",\"b\"")),
     KVG_AUDIT_STORE_HASH},
    {BATCH(KV_STORED("[1]", "null", "[1,2]", ",null,null,[[\"s\"]]") ","
           KV_STORED("[1]", "null", "[1,2]", ",null,null,[[\"t\"]]")), KVG_AUDIT_STORE_HASH},
    {BATCH(KV_STORED("[1]", "null", "[1,2]", "") "," KV_REMOVED("[1]") "," KV_STORED("[2]", "1", "[3,4]", "")),
     KVG_AUDIT_STORE_PARENT},
    {BATCH(KV_STORED("[1]", "null", "[1,2]", "") ",[\"AllBlocksCleared\"]," KV_REMOVED("[1]")),
     KVG_AUDIT_FORGET_STORED},
    {BATCH(KV_STORED("[2]", "1", "[3,4]", ",null,null,null,0,\"sliding_window\",512")), -1},
    {BATCH(KV_STORED("[2]", "1", "[3,4]", ",null,null,null,0,\"mamba\"")), -1},
    {BATCH(KV_STORED("[2]", "1", "[3,4]", ",null,null,null,0,\"full_attention\"")), KVG_AUDIT_STORE_PARENT},
};

static void test_kv_events_of_engines(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kv_logs / sizeof kv_logs[0]; i++) {
        const int rule = kv_logs[i].rule;
        kvg_audit_totals t;
        seen last;
        if (judge(kv_logs[i].log, &t, &last)) fail_msg("%s:\n%s", kvg_error_text(), kv_logs[i].log);
        if (t.violations != (rule >= 0) || (rule >= 0 && t.broken[rule] != 1)) {
            fail_msg("%d violations, the last at line %d: %s:\n%s", (int)t.violations, (int)last.line, last.text,
                     kv_logs[i].log);
        }
    }
}

/* --- lines that are no events --- */

static const struct {
    const char *log, *text;
} refused[] = {
    {"\n", "log: the log is empty"},
    {EVENT("end", ""), "log:1: $: the first line must be the head"},
    {"7\n", "log:1: $: the first line must be the head"},
    {"[1]\n", "log:1: $: expected [time, [events...], rank]"},
    {"{\"events\":3}\n", "log:1: $.events: expected a list of events"},
    {"{\"events\":[3]}\n", "log:1: $.events[0]: expected an object"},
    {"[1,[[]]]\n", "log:1: $[1][0]: expected a string"},
    {"[1,[[\"BlockStored\"]]]\n", "log:1: $[1][0]: missing `block_hashes`"},
    {"[1,[[\"BlockSored\"]]]\n", "no event 'BlockSored' (did you mean 'BlockStored'?)"},
    {"{\"type\":\"BlockRemoved\",\"block_hashes\":7}\n", "log:1: $.block_hashes: expected a list"},
    {"[1,[[\"BlockStored\",[1],\"" LONG "\",[],0]]]\n", "log:1: $[1][0]: a hash has more than 160 bytes"},
    {"[1,[],0]\n[2,[],1]\n", "log:2: $[2]: a second data parallel rank, 1"},
    {"{\"kvgold_pool_log\":2,\"blocks\":4,\"block_tokens\":2}\n", "version 2 of the log: this kvgold reads 1"},
    {"{\"kvgold_pool_log\":1,\"blocks\":4}\n", "log:1: $: missing key 'block_tokens'"},
    {"{\"kvgold_pool_log\":1,\"blocks\":4,\"block_tokens\":0}\n", "0 to 16777216 blocks of 1 to 65536 are possible"},
    {"{\"kvgold_pool_log\":1,\"blocks\":4294967295,\"block_tokens\":2}\n", "are possible"},
    {"{\"kvgold_pool_log\":1,\"blocks\":-4,\"block_tokens\":2}\n", "log:1: $.blocks: expected an integer"},
    {"{\"kvgold_pool_log\":1,\"blocks\":4,\"block_tokens\":2,\"writes\":0}\n", "$.writes: expected true or false"},
    {HEAD EVENT("alocate", ""), "log:2: $.event: unknown event 'alocate' (did you mean 'allocate'?)"},
    {HEAD "{\"event\":7}\n", "log:2: $.event: expected a string"},
    {HEAD "{}\n", "log:2: $: missing key 'event'"},
    {HEAD "3\n", "log:2: $: expected an object"},
    {HEAD HEAD, "log:2: $: missing key 'event'"},
    {HEAD EVENT("allocate", OF(1)), "log:2: $: missing key 'blocks'"},
    {HEAD EVENT("allocate", OF(1) ",\"block\":1" BLOCKS("[1]")), "unknown key 'block' (did you mean 'blocks'?)"},
    {HEAD EVENT("allocate", OF(1) OF(1) BLOCKS("[1]")), "duplicate key 'sequence'"},
    {HEAD ALLOCATE(null, "[1]"), "$.sequence: expected a string or an integer"},
    {HEAD ALLOCATE(1.5, "[1]"), "$.sequence: expected an integer, got 1.5"},
    {HEAD ALLOCATE(1, "1"), "$.blocks: expected a list"},
    {HEAD ALLOCATE(1, "[0,1.5]"), "log:2: $.blocks[1]: expected an integer, got 1.5"},
    {HEAD ALLOCATE(1, "[1e3]"), "$.blocks[0]: expected an integer, got 1e3"},
    {HEAD ALLOCATE(1, "[\"1\"]"), "$.blocks[0]: expected an integer, got a string"},
    {HEAD WRITE(1, 1, -1, 1), "$.first: expected an integer from 0"},
    {HEAD WRITE(1, 1, 1, 4294967296), "$.count: expected an integer from 0"},
    {HEAD HIT(1, "[1]", ",\"hashes\":[]"), "log:2: $: 0 hashes for 1 blocks: give one for each"},
    {HEAD HIT(1, "[1]", ",\"hashes\":[[]]"), "$.hashes[0]: expected a string or an integer"},
    {HEAD EVENT("forget", ""), "log:2: $: give `blocks`"},
    {HEAD EVENT("forget", ",\"hashes\":[1]"), "log:2: $: give `blocks`"},
    {HEAD EVENT("store", ",\"hash\":1"), "log:2: $: missing key 'block'"},
    {HEAD STORE(1, 1, ",\"tokens\":[1,2,3]"), "3 tokens: a block has 1 to 2"},
    {HEAD STORE(1, 1, ",\"tokens\":[]"), "0 tokens: a block has 1 to 2"},
    {HEAD END END, "log:3: $: an event behind `end`"},
    {HEAD "{\"event\":\"end\"", "log:2: the last line is torn"},
    {HEAD "allocate 3\n", "log:2: line 1, column 1"},
    {HEAD EVENT("end", "") "{\"event\":\n", "log:3: line 2"},
};

static void test_lines_that_are_no_events_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        kvg_audit_totals t;
        seen last;
        assert_int_equal(judge(refused[i].log, &t, &last), KVG_ERR_INVALID);
        if (!strstr(kvg_error_text(), refused[i].text)) fail_msg("'%s' has no '%s'", kvg_error_text(), refused[i].text);
        assert_null(strchr(kvg_error_text(), '\n'));
    }
}

/* A log that ends anywhere, or has any byte changed, is judged or refused; it never breaks the program. */
static void test_damaged_logs_are_judged_or_refused(void **state)
{
    (void)state;
    static const char log[] = HEAD STORED HIT("b", "[0]", ",\"hashes\":[7],\"tokens\":[1,2]") FREE_ALL("a") FREE("b",
    "[0]")
                              EVICT("[0]") END;
    char copy[sizeof log];
    kvg_audit_totals t;
    seen last;
    for (size_t size = 1; size < sizeof log; size++) {
        kvg_status s = judge_bytes(log, size, &t, &last);
        assert_true(s == KVG_OK || s == KVG_ERR_INVALID);
        assert_int_equal(t.violations, 0);
    }
    for (size_t at = 0; at < sizeof log - 1; at++) {
        for (const char *byte = "\n9-]\"\x80"; *byte; byte++) {
            memcpy(copy, log, sizeof log);
            copy[at] = *byte;
            kvg_status s = judge_bytes(copy, sizeof log - 1, &t, &last);
            assert_true(s == KVG_OK || s == KVG_ERR_INVALID);
        }
    }
    memcpy(copy, log, sizeof log);
    copy[sizeof HEAD + 3] = '\0';
    assert_int_equal(judge_bytes(copy, sizeof log - 1, &t, &last), KVG_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_managers_that_keep_and_that_do_not_pass),
        cmocka_unit_test(test_shipped_logs),
        cmocka_unit_test(test_each_rule_breaks_alone),
        cmocka_unit_test(test_page_has_the_rules_of_the_table),
        cmocka_unit_test(test_violation_says_where),
        cmocka_unit_test(test_kv_events_of_engines),
        cmocka_unit_test(test_lines_that_are_no_events_are_refused),
        cmocka_unit_test(test_damaged_logs_are_judged_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
