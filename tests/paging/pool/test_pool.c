/* The judge of block-id managers, judged: every planted defect is caught, every rule can break, a failing trace is made
 * minimal and replays, faults are found, files that are wrong are refused with their place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "paging/pool/pool_campaign.h"
#include "paging/pool/pool_generate.h"

#define CI KVG_SOURCE_DIR "/configs/ci_pool.json"
#define OUT KVG_BINARY_DIR "/test_pool"

static kvg_pool_config config; /* configs/ci_pool.json */

static kvg_pool_trial trial_of(const char *defect)
{
    kvg_pool_trial trial = {.backend = kvg_pool_reference()};
    if (defect) assert_int_equal(kvg_pool_defect_find(defect, &trial.defect), KVG_OK);
    return trial;
}

static const kvg_pool_scenario *scenario_of(const char *name)
{
    for (size_t i = 0; i < config.scenario_count; i++) {
        if (strcmp(config.scenarios[i].name, name) == 0) return &config.scenarios[i];
    }
    fail_msg("no scenario %s", name);
    return NULL;
}

/* --- planted defects --- */

/* What is expected of some defects; of the others, that they are caught. */
static const struct {
    const char *id;
    kvg_pool_rule rule;
    bool blind; /* without the model's predictions */
} expected[] = {
    {"counter_drift", KVG_RULE_COUNTS, false},       {"fork_no_lock", KVG_RULE_HOLDERS, false},
    {"unique_id_wraps", KVG_RULE_LIVES, false},      {"evict_newest", KVG_RULE_AGES, false},
    {"touch_forward", KVG_RULE_AGES, true},          {"old_life_listed", KVG_RULE_DEAD, false},
    {"not_lowest", KVG_RULE_LOWEST, true},           {"match_all", KVG_RULE_MATCH, false},
    {"read_only_short", KVG_RULE_READ_ONLY, false},  {"shared_write", KVG_RULE_READ_ONLY, true},
    {"scale_evict_lost", KVG_RULE_LOCKSTEP, false},  {"scale_lock_lost", KVG_RULE_LOCKSTEP, true},
    {"hole_as_block_0", KVG_RULE_PLACES, false},     {"window_early", KVG_RULE_WINDOW, false},
    {"window_late", KVG_RULE_WINDOW, false},         {"publish_early", KVG_RULE_PUBLISHED, false},
    {"key_32_bits", KVG_RULE_PUBLISHED, false},      {"weak_hash", KVG_RULE_TAGS, false},
    {"copy_lost", KVG_RULE_TAGS, false},             {"match_memoised", KVG_RULE_STATUS, false},
    {"takes_then_fails", KVG_RULE_FAILURE, false},   {"short_unique_id", KVG_RULE_MODEL, false},
    {"unlock_lost", KVG_RULE_HOLDERS, true},         {"unique_ids_fall", KVG_RULE_LIVES, true},
    {"wrong_reason", KVG_RULE_FAILURE, false},       {"coarse_clock", KVG_RULE_AGES, false},
    {"stale_hash", KVG_RULE_PUBLISHED, false},       {"not_lowest", KVG_RULE_LOWEST, false},
    {"match_dead", KVG_RULE_TAGS, true},
};
enum { EXPECTED = sizeof expected / sizeof expected[0] };

static void test_every_defect_is_caught(void **state)
{
    (void)state;
    const kvg_pool_options options = {.backend = kvg_pool_reference(), .jobs = 1};
    size_t count;
    const kvg_pool_defect *defects = kvg_pool_defect_table(&count);
    assert_true(count >= 40);
    for (size_t i = 0; i < count; i++) {
        kvg_pool_catch found;
        assert_int_equal(kvg_pool_catch_defect(&config, &options, &defects[i], false, &found), KVG_OK);
        if (!found.caught) fail_msg("%s (%s) is not caught", defects[i].id, defects[i].summary);
        printf("%-18s %-10s after %llu operations\n", defects[i].id, kvg_pool_rules[found.rule].name,
               (unsigned long long)found.operations);
        assert_true(defects[i].summary[0] != 0);
    }
}

static void test_rules_catch_what_they_are_for(void **state)
{
    (void)state;
    const kvg_pool_options options = {.backend = kvg_pool_reference(), .jobs = 1};
    for (size_t i = 0; i < EXPECTED; i++) {
        const kvg_pool_trial trial = trial_of(expected[i].id);
        kvg_pool_catch found;
        assert_int_equal(kvg_pool_catch_defect(&config, &options, trial.defect, expected[i].blind, &found), KVG_OK);
        if (!found.caught || found.rule != expected[i].rule) {
            fail_msg("%s: %s, expected %s: %s", expected[i].id,
                     found.caught ? kvg_pool_rules[found.rule].name : "not caught",
                     kvg_pool_rules[expected[i].rule].name, found.text);
        }
    }
}

/* --- rules that no planted defect reaches first --- */

static const kvg_pool_geometry small = {.capacity = 8, .chunk = -1, .block_tokens = 2, .cp_size = 1, .scale = 1,
                                        .prefix = 1, .hash_bits = 64, .vocabulary = 50};

/* Two sequences with a step of 3 tokens each. */
static kvg_pool_trace two_steps(void)
{
    kvg_pool_item items[] = {{.id = 1, .max_tokens = 9}, {.id = 2, .max_tokens = 9}};
    const kvg_pool_op ops[] = {
        {.verb = KVG_POOL_CREATE, .sequence = 1, .tail = 3, .seed = 1},
        {.verb = KVG_POOL_CREATE, .sequence = 2, .tail = 3, .seed = 2},
        {.verb = KVG_POOL_MATERIALISE, .items = items, .item_count = 2},
    };
    kvg_pool_trace trace = {.name = "two", .geometry = small};
    for (size_t i = 0; i < 3; i++) assert_int_equal(kvg_pool_trace_add(&trace, &ops[i]), KVG_OK);
    return trace;
}

/* Sequence 2's table becomes sequence 1's. */
static kvg_status table_of_the_first(void *self, uint64_t id, uint32_t first, uint32_t n, uint32_t *ids,
                                     uint64_t *unique_ids)
{
    kvg_sequence_gate *g = self;
    (void)id;
    return g->inner.ops->table(g->inner.self, 1, first, n, ids, unique_ids);
}

static void test_a_shared_write_is_seen(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        kvg_pool_runner r;
        kvg_pool_totals totals = {0};
        kvg_pool_verdict verdict;
        kvg_pool_trace trace = two_steps();
        assert_int_equal(kvg_pool_runner_start(&r, kvg_pool_reference(), &small, false, NULL, false, &totals, &verdict),
                         KVG_OK);
        for (size_t i = 0; i < trace.op_count; i++) assert_true(kvg_pool_runner_step(&r, &trace.ops[i]));
        if (shared) r.stack.sequence_gate.ops.table = table_of_the_first;
        assert_int_equal(kvg_pool_write(&r.checker, kvg_pool_model_find(&r.model, 1), 3), !shared);
        if (shared) assert_int_equal(r.checker.rule, KVG_RULE_SHARED_WRITE);
        kvg_pool_runner_stop(&r);
        kvg_pool_trace_free(&trace);
    }
}

static void *kept;

static kvg_status make_and_keep(const kvg_block_config *c, void **handle, kvg_block_pool *pool)
{
    free(kept);
    kept = c->memory->allocate(c->memory->context, 16);
    return kvg_pool_reference()->make_blocks(c, handle, pool);
}

static kvg_status materialise_and_die(void *self, const kvg_sequence_request *requests, uint32_t count,
                                      kvg_sequence_grant *grants)
{
    (void)self, (void)requests, (void)count, (void)grants;
    _exit(7);
}

static kvg_status make_mortal(const kvg_sequence_config *c, void **handle, kvg_sequence_pool *pool)
{
    static kvg_sequence_ops ops;
    const kvg_status s = kvg_pool_reference()->make_sequences(c, handle, pool);
    if (s) return s;
    ops = *pool->ops;
    ops.materialise = materialise_and_die;
    pool->ops = &ops;
    return KVG_OK;
}

static void test_leaks_and_crashes_are_verdicts(void **state)
{
    (void)state;
    kvg_pool_backend leaky = *kvg_pool_reference(), mortal = *kvg_pool_reference();
    kvg_pool_trace trace = two_steps();
    kvg_pool_verdict verdict;
    leaky.make_blocks = make_and_keep;
    mortal.make_sequences = make_mortal;
    kvg_pool_trial trial = {.backend = &leaky};
    assert_int_equal(kvg_pool_try(&trial, &trace, NULL, &verdict), KVG_OK);
    assert_true(verdict.failed);
    assert_int_equal(verdict.rule, KVG_RULE_LEAK);
    free(kept);
    kept = NULL;
    trial = (kvg_pool_trial){.backend = &mortal, .apart = true};
    assert_int_equal(kvg_pool_try(&trial, &trace, NULL, &verdict), KVG_OK);
    assert_true(verdict.failed);
    assert_int_equal(verdict.rule, KVG_RULE_CRASH);
    kvg_pool_trace_free(&trace);

    const kvg_pool_options options = {.backend = &mortal, .scenario = "chat", .operations = 500, .jobs = 2};
    kvg_pool_result result;
    assert_int_equal(kvg_pool_campaign(&config, &options, &result), KVG_OK);
    assert_true(result.verdict.failed);
    assert_int_equal(result.verdict.rule, KVG_RULE_CRASH);
    assert_true(result.trace.op_count <= 2); /* create, materialise */
    kvg_pool_result_free(&result);
}

/* --- shrinking and replay --- */

static char *text_of(const kvg_pool_trace *trace)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    kvg_pool_trace_print(trace, f);
    fclose(f);
    return text;
}

/* The first trace of a scenario that a defect breaks. */
static kvg_pool_trace broken_trace(kvg_pool_trial *trial, const char *scenario, kvg_pool_verdict *verdict)
{
    for (uint64_t n = 0; n < 200; n++) {
        kvg_pool_trace trace;
        assert_int_equal(kvg_pool_generate(scenario_of(scenario), config.seed, n, &trace), KVG_OK);
        assert_int_equal(kvg_pool_try(trial, &trace, NULL, verdict), KVG_OK);
        if (verdict->failed) return trace;
        kvg_pool_trace_free(&trace);
    }
    fail_msg("no trace of %s breaks", scenario);
    return (kvg_pool_trace){0};
}

static bool breaks(kvg_pool_trial *trial, const kvg_pool_trace *trace, kvg_pool_rule rule)
{
    kvg_pool_verdict verdict;
    assert_int_equal(kvg_pool_try(trial, trace, NULL, &verdict), KVG_OK);
    return verdict.failed && verdict.rule == rule;
}

static void check_minimal(kvg_pool_trial *trial, const kvg_pool_trace *trace, kvg_pool_rule rule)
{
    assert_true(breaks(trial, trace, rule));
    for (size_t i = 0; i < trace->op_count; i++) {
        kvg_pool_trace without;
        assert_int_equal(kvg_pool_trace_copy(trace, &without), KVG_OK);
        kvg_pool_trace_remove(&without, i, 1);
        if (without.op_count && breaks(trial, &without, rule)) {
            fail_msg("%s: operation %zu of %zu can be left out", trace->defect, i, trace->op_count);
        }
        kvg_pool_trace_free(&without);
        for (uint32_t j = 0; j < trace->ops[i].item_count; j++) {
            assert_int_equal(kvg_pool_trace_copy(trace, &without), KVG_OK);
            kvg_pool_op *op = &without.ops[i];
            op->items[j] = op->items[--op->item_count];
            if (breaks(trial, &without, rule)) fail_msg("%s: entry %u of operation %zu is idle", trace->defect, j, i);
            kvg_pool_trace_free(&without);
        }
    }
}

static void check_replay(kvg_pool_trial *trial, const kvg_pool_trace *trace, const kvg_pool_verdict *verdict)
{
    kvg_pool_trace again;
    kvg_pool_verdict replayed;
    assert_int_equal(kvg_pool_trace_save(trace, OUT "/trace.json"), KVG_OK);
    if (kvg_pool_trace_open(OUT "/trace.json", &again)) fail_msg("%s", kvg_error_text());
    char *before = text_of(trace), *after = text_of(&again);
    assert_string_equal(before, after);
    assert_int_equal(kvg_pool_try(trial, &again, NULL, &replayed), KVG_OK);
    assert_true(replayed.failed && replayed.rule == verdict->rule && replayed.op == verdict->op);
    assert_string_equal(replayed.text, verdict->text);
    free(before);
    free(after);
    kvg_pool_trace_free(&again);
}

static void test_failing_traces_are_made_minimal(void **state)
{
    (void)state;
    static const struct {
        const char *defect, *scenario;
        size_t most;
    } rows[] = {{"copy_lost", "fork", 6},       {"publish_early", "chat", 3},  {"window_late", "window", 4},
                {"evict_newest", "blocks", 5},  {"key_untagged", "keys", 4},   {"scale_touch_lost", "pressure", 4},
                {"weak_hash", "pressure", 12},  {"free_twice", "blocks", 10},  {"hole_as_block_0", "window", 6}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kvg_pool_trial trial = trial_of(rows[i].defect);
        kvg_pool_verdict verdict;
        kvg_pool_trace trace = broken_trace(&trial, rows[i].scenario, &verdict);
        const kvg_pool_rule rule = verdict.rule;
        snprintf(trace.defect, sizeof trace.defect, "%s", rows[i].defect);
        const size_t before = trace.op_count;
        assert_int_equal(kvg_pool_shrink(&trial, &trace, &verdict), KVG_OK);
        assert_int_equal(verdict.rule, rule);
        assert_string_equal(trace.violation, kvg_pool_rules[rule].name);
        printf("%s: %zu operations, then %zu\n", rows[i].defect, before, trace.op_count);
        if (trace.op_count > rows[i].most) fail_msg("%s: %zu operations left", rows[i].defect, trace.op_count);
        check_minimal(&trial, &trace, rule);
        check_replay(&trial, &trace, &verdict);
        kvg_pool_trace_free(&trace);
    }
}

static void test_a_trace_that_passes_is_not_shrunk(void **state)
{
    (void)state;
    kvg_pool_trial trial = trial_of(NULL);
    kvg_pool_trace trace = two_steps();
    kvg_pool_verdict verdict;
    assert_int_equal(kvg_pool_shrink(&trial, &trace, &verdict), KVG_ERR_INVALID);
    kvg_pool_trace_free(&trace);
}

/* --- faults --- */

/* Adds up the places where faults of each kind could happen, as a run without any meets them. An eviction from outside
 * is the harness's own and is left out. */
static void count_places(const kvg_pool_trace *trace, uint64_t places[KVG_POOL_FAULT_KINDS])
{
    kvg_pool_runner r;
    kvg_pool_totals totals = {0};
    kvg_pool_verdict verdict;
    assert_int_equal(kvg_pool_runner_start(&r, kvg_pool_reference(), &trace->geometry, false, NULL, false, &totals,
                                           &verdict), KVG_OK);
    for (size_t i = 0; i < trace->op_count; i++) {
        assert_true(kvg_pool_runner_step(&r, &trace->ops[i]));
        for (int k = 1; k < KVG_POOL_FAULT_KINDS && trace->ops[i].verb != KVG_POOL_EVICT; k++) {
            places[k] += r.stack.calls[k];
        }
    }
    kvg_pool_runner_stop(&r);
}

static void test_every_fault_is_injected(void **state)
{
    (void)state;
    kvg_pool_trial trial = trial_of(NULL);
    kvg_pool_totals totals = {0};
    kvg_pool_verdict verdict;
    kvg_pool_trace trace;
    uint64_t places[KVG_POOL_FAULT_KINDS] = {0}, sum = 0;
    for (uint64_t n = 0; n < 12; n++) {
        assert_int_equal(kvg_pool_generate(scenario_of("faults"), config.seed, n, &trace), KVG_OK);
        count_places(&trace, places);
        assert_int_equal(kvg_pool_try_faults(&trial, &trace, &totals, &verdict), KVG_OK);
        if (verdict.failed) fail_msg("%s", verdict.text);
        kvg_pool_trace_free(&trace);
    }
    for (int k = 1; k < KVG_POOL_FAULT_KINDS; k++) {
        if (places[k] == 0) fail_msg("no place for a %s fault", kvg_pool_fault_names[k]);
        sum += places[k];
    }
    assert_true(totals.faults > sum); /* more: those of the making */
    assert_true(totals.faults < sum + 12 * 50);
}

static void test_what_a_failure_leaves_behind_is_seen(void **state)
{
    (void)state;
    kvg_pool_trial trial = trial_of("undo_lost");
    kvg_pool_verdict verdict = {0};
    kvg_pool_totals totals = {0};
    kvg_pool_trace trace = {0};
    for (uint64_t n = 0; n < 10 && !verdict.failed; n++) {
        kvg_pool_trace_free(&trace);
        assert_int_equal(kvg_pool_generate(scenario_of("faults"), config.seed, n, &trace), KVG_OK);
        kvg_pool_trial plain = trial_of(NULL);
        assert_int_equal(kvg_pool_try(&plain, &trace, NULL, &verdict), KVG_OK);
        assert_false(verdict.failed);
        assert_int_equal(kvg_pool_try_faults(&trial, &trace, &totals, &verdict), KVG_OK);
    }
    assert_true(verdict.failed);
    const kvg_pool_rule rule = verdict.rule;
    assert_int_equal(kvg_pool_shrink(&trial, &trace, &verdict), KVG_OK);
    assert_int_equal(verdict.rule, rule);
    check_minimal(&trial, &trace, rule);
    check_replay(&trial, &trace, &verdict);
    kvg_pool_trace_free(&trace);
}

/* --- determinism --- */

static void test_traces_depend_on_the_seed_alone(void **state)
{
    (void)state;
    kvg_pool_trace a, b, other;
    for (size_t i = 0; i < config.scenario_count; i++) {
        if (config.scenarios[i].trace.hi > 500) continue;
        assert_int_equal(kvg_pool_generate(&config.scenarios[i], 7, 3, &a), KVG_OK);
        assert_int_equal(kvg_pool_generate(&config.scenarios[i], 7, 3, &b), KVG_OK);
        assert_int_equal(kvg_pool_generate(&config.scenarios[i], 8, 3, &other), KVG_OK);
        char *x = text_of(&a), *y = text_of(&b), *z = text_of(&other);
        assert_string_equal(x, y);
        assert_string_not_equal(x, z);
        free(x);
        free(y);
        free(z);
        kvg_pool_trace_free(&a);
        kvg_pool_trace_free(&b);
        kvg_pool_trace_free(&other);
    }
}

static void test_the_number_of_jobs_changes_nothing(void **state)
{
    (void)state;
    kvg_pool_totals sums[2] = {{0}};
    for (unsigned i = 0; i < 2; i++) {
        const kvg_pool_options options = {.backend = kvg_pool_reference(), .operations = 20000, .jobs = 1 + 2 * i};
        kvg_pool_result result;
        assert_int_equal(kvg_pool_campaign(&config, &options, &result), KVG_OK);
        assert_false(result.verdict.failed);
        for (size_t s = 0; s <= config.scenario_count; s++) kvg_pool_totals_add(&sums[i], &result.totals[s]);
        kvg_pool_result_free(&result);
    }
    assert_memory_equal(&sums[0], &sums[1], sizeof sums[0]);
    assert_true(sums[0].operations >= 20000);
    assert_true(sums[0].evictions && sums[0].preemptions && sums[0].matches && sums[0].forks && sums[0].copies);
    assert_true(sums[0].refused && sums[0].faults && sums[0].published && sums[0].windowed);
    for (int rule = 0; rule < KVG_RULE_CRASH; rule++) assert_true(sums[0].evaluated[rule] > 0);
}

/* --- files --- */

#define BLOCKS "'kvgold':1,'name':'t','kind':'blocks',"
#define HEAD "'kvgold':1,'name':'t','kind':'sequences','pool':{'capacity':4},"
static const struct {
    const char *json, *error;
} bad_traces[] = {
    {"[]", "$: expected an object"},
    {"{'kvgold':2}", "$.kvgold"},
    {"{'kvgold':1}", "$: missing key 'name'"},
    {"{'kvgold':1,'name':'a','scenarios':[]}", "kvgold pool run"},
    {"{'kvgold':1,'name':'a','kind':'block'}", "$.kind: unknown kind of trace 'block' (did you mean 'blocks'?)"},
    {"{'kvgold':1,'name':'a\\\\','kind':'blocks'}", "$.name: no quotes"},
    {"{" BLOCKS "'pool':{'capacty':4},'ops':[]}", "$.pool: unknown key 'capacty'"},
    {"{" BLOCKS "'pool':{'capacity':0},'ops':[]}", "$.pool.capacity: expected an integer"},
    {"{" BLOCKS "'pool':{'capacity':1.5},'ops':[]}", "$.pool.capacity: expected an integer"},
    {"{" BLOCKS "'pool':{'scale':1},'ops':[]}", "$.pool.scale"},
    {"{" BLOCKS "'pool':{'capacity':1048576,'block_tokens':256},'ops':[]}", "$.pool: capacity *"},
    {"{" HEAD "'ops':[]}", "$.ops: an empty trace checks nothing"},
    {"{" HEAD "'ops':{}}", "$.ops: expected a list"},
    {"{" HEAD "'ops':[7]}", "$.ops[0]: expected an operation"},
    {"{" HEAD "'ops':[{'op':'allocate','count':1}]}", "$.ops[0].op: unknown operation on sequences 'allocate'"},
    {"{" HEAD "'ops':[{'op':'commit'},{'op':'comit'}]}",
     "$.ops[1].op: unknown operation on sequences 'comit' (did you mean 'commit'?)"},
    {"{" HEAD "'ops':[{'op':'commit','sequence':1}]}", "$.ops[0]: unknown key 'sequence'"},
    {"{" HEAD "'ops':[{'op':'erase'}]}", "$.ops[0]: missing key 'sequence'"},
    {"{" HEAD "'ops':[{'op':'written','sequence':1,'over':0.5}]}", "$.ops[0].over: expected an integer"},
    {"{" HEAD "'ops':[{'op':'append','sequence':1,'count':100000}]}", "$.ops[0]: more than 65536 tokens"},
    {"{" HEAD "'ops':[{'op':'create','sequence':1,'domain':27}]}", "$.ops[0].domain"},
    {"{" HEAD "'ops':[{'op':'create','sequence':1,'seed':5}]}", "$.ops[0].seed"},
    {"{" HEAD "'ops':[{'op':'materialise'}]}", "$.ops[0]: missing key 'requests'"},
    {"{" HEAD "'ops':[{'op':'materialise','requests':[{'sequence':1}]}]}",
     "$.ops[0].requests[0]: missing key 'max_tokens'"},
    {"{" HEAD "'ops':[{'op':'commit','fault':{'kind':'memry'}}]}",
     "$.ops[0].fault.kind: unknown fault 'memry' (did you mean 'memory'?)"},
    {"{" BLOCKS "'pool':{},'ops':[{'op':'alive','refs':[[1]]}]}", "$.ops[0].refs[0]: expected [block, lives ago]"},
    {"{" BLOCKS "'pool':{},'ops':[{'op':'lock','ids':[-1]}]}", "$.ops[0].ids[0]"},
};

static char *json_text(const char *quoted)
{
    char *text = strdup(quoted);
    assert_non_null(text);
    for (char *c = text; *c; c++) *c = *c == '\'' ? '"' : *c;
    return text;
}

static void write_text(const char *path, const char *quoted)
{
    char *text = json_text(quoted);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    free(text);
}

static void test_bad_traces_are_refused_with_their_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_traces / sizeof bad_traces[0]; i++) {
        kvg_pool_trace trace;
        write_text(OUT "/bad.json", bad_traces[i].json);
        assert_int_equal(kvg_pool_trace_open(OUT "/bad.json", &trace), KVG_ERR_INVALID);
        if (!strstr(kvg_error_text(), bad_traces[i].error) || !strstr(kvg_error_text(), "bad.json")) {
            fail_msg("%s: %s, expected %s", bad_traces[i].json, kvg_error_text(), bad_traces[i].error);
        }
    }
}

#define TOP "'kvgold':1,'name':'t','seed':'0x1',"
#define A "'name':'a','operations':1,'pool':{}"
static const struct {
    const char *json, *error;
} bad_configs[] = {
    {"{" TOP "'cases':[]}", "this is a config of `kvgold check`"},
    {"{" TOP "'ops':[]}", "kvgold pool replay"},
    {"{'kvgold':1,'name':'t','seed':'0x1'}", "$: nothing to do"},
    {"{'kvgold':1,'name':'t','scenarios':[]}", "missing key 'seed'"},
    {"{" TOP "'scenarios':[]}", "$.scenarios: expected a list, not empty"},
    {"{" TOP "'scenarios':[{'name':'A','operations':1,'pool':{}}]}", "$.scenarios[0].name: a name is"},
    {"{" TOP "'scenarios':[{'name':'a','pool':{}}]}", "$.scenarios[0]: missing key 'operations'"},
    {"{" TOP "'scenarios':[{'name':'a','operations':1}]}", "$.scenarios[0]: missing key 'pool'"},
    {"{" TOP "'scenarios':[{'name':'a','operations':1,'pool':{'window':[]}}]}",
     "$.scenarios[0].pool.window: expected 1 to 16 values"},
    {"{" TOP "'scenarios':[{'name':'a','operations':1,'pool':{'window':[1,-1]}}]}", "$.scenarios[0].pool.window[1]"},
    {"{" TOP "'scenarios':[{" A ",'batch':[3,1]}]}", "$.scenarios[0].batch: the lowest is above"},
    {"{" TOP "'scenarios':[{" A ",'trace':[3,5]}]}", "$.scenarios[0].trace: expected an integer"},
    {"{" TOP "'scenarios':[{" A ",'weights':{'lock':1}}]}", "$.scenarios[0].weights: unknown key 'lock'"},
    {"{" TOP "'scenarios':[{" A "},{" A "}]}", "$.scenarios[1]: a scenario before"},
    {"{" TOP "'bench':{'blocks':[3]}}", "$.bench.blocks[0]"},
};

static void test_bad_configs_are_refused_with_their_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_configs / sizeof bad_configs[0]; i++) {
        kvg_pool_config bad;
        write_text(OUT "/bad.json", bad_configs[i].json);
        assert_int_equal(kvg_pool_config_open(OUT "/bad.json", &bad), KVG_ERR_INVALID);
        if (!strstr(kvg_error_text(), bad_configs[i].error)) {
            fail_msg("%s: %s, expected %s", bad_configs[i].json, kvg_error_text(), bad_configs[i].error);
        }
    }
}

/* --- the command --- */

/* Runs `kvgold pool ...` with stdout and stderr thrown away. */
static int command(const char *line)
{
    char text[1024], *argv[16] = {NULL};
    int argc = 0;
    snprintf(text, sizeof text, "pool %s", line);
    for (char *word = strtok(text, " "); word && argc < 15; word = strtok(NULL, " ")) argv[argc++] = word;
    fflush(NULL);
    const int out = dup(1), err = dup(2), none = open("/dev/null", O_WRONLY);
    dup2(none, 1);
    dup2(none, 2);
    const int code = kvg_command_run(argc, argv);
    fflush(NULL);
    dup2(out, 1);
    dup2(err, 2);
    close(out);
    close(err);
    close(none);
    return code;
}

static void test_exit_codes(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int code;
    } rows[] = {
        {"--help", 0},
        {"run " CI " --ops 5000 -j 2 -o " OUT, 0},
        {"run " CI " --ops 5000 --scenario chat --seed 0x77 -j 1 -o " OUT, 0},
        {"run " CI " --ops 20000 --defect publish_early -j 2 -o " OUT, 1},
        {"replay " OUT "/pool_failure.json", 1},
        {"replay " KVG_SOURCE_DIR "/configs/traces/pool_window.json", 0},
        {"replay " KVG_SOURCE_DIR "/configs/traces/pool_control_scale.json", 1},
        {"replay " KVG_SOURCE_DIR "/configs/traces/pool_window.json --defect window_late", 1},
        {"run " CI " --ops 200 --defects --scenario chat -o " OUT, 1}, /* too few to catch all */
        {"run " CI " --defect nosuch", 2},
        {"run " CI " --scenario nosuch -o " OUT, 2},
        {"run " CI " --seed 12", 2},
        {"run " CI " --ops 0", 2},
        {"run", 2},
        {"walk " CI, 2},
        {"run " KVG_SOURCE_DIR "/configs/ci_formats.json", 2},
        {"run " KVG_SOURCE_DIR "/configs/bench_pool.json", 2},
        {"bench " CI, 2},
        {"replay " CI, 2},
        {"run " OUT "/nosuch.json", 2},
        {"run " CI " --ops 200 -o " OUT "/pool.json/such", 3}, /* no folder lies in a file */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const int code = command(rows[i].line);
        if (code == rows[i].code) continue;
        fail_msg("kvgold pool %s: exit code %d, expected %d", rows[i].line, code, rows[i].code);
    }
}

static int setup(void **state)
{
    (void)state;
    mkdir(OUT, 0777);
    if (kvg_pool_config_open(CI, &config) == KVG_OK) return 0;
    fprintf(stderr, "%s\n", kvg_error_text());
    return 1;
}

static int teardown(void **state)
{
    (void)state;
    kvg_pool_config_close(&config);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_defect_is_caught),
        cmocka_unit_test(test_rules_catch_what_they_are_for),
        cmocka_unit_test(test_a_shared_write_is_seen),
        cmocka_unit_test(test_leaks_and_crashes_are_verdicts),
        cmocka_unit_test(test_failing_traces_are_made_minimal),
        cmocka_unit_test(test_a_trace_that_passes_is_not_shrunk),
        cmocka_unit_test(test_every_fault_is_injected),
        cmocka_unit_test(test_what_a_failure_leaves_behind_is_seen),
        cmocka_unit_test(test_traces_depend_on_the_seed_alone),
        cmocka_unit_test(test_the_number_of_jobs_changes_nothing),
        cmocka_unit_test(test_bad_traces_are_refused_with_their_place),
        cmocka_unit_test(test_bad_configs_are_refused_with_their_place),
        cmocka_unit_test(test_exit_codes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
