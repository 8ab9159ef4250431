/* Every relation of harness/trial/judge/relations.def can fail: for each there is an implementation that is right about
 * the case itself and wrong when the relation asks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "harness/trial/judge/judge.h"
#include "harness/trial/judge/relations.h"
#include "harness/trial/judge/truth.h"
#include "harness/trial/question/fill.h"

enum { SEQUENCES = 4, RIGHT = 11 }; /* RIGHT: relations whose answers must be right */

/* What a call looks like, and the first call of a case. */
typedef struct call {
    uint32_t sequences, queries;
    int32_t lengths[2 * SEQUENCES], rows[2 * SEQUENCES], blocks[2 * SEQUENCES];
    double ones, zeros; /* shares of bytes of the data pool that are FF, and 0 */
} call;

typedef bool trigger(const call *first, const call *now);

static trigger *wrong_when;
static bool wrong_append;
static unsigned calls, calls_before_knowing;
static kvg_status last_words; /* of the last relation's call; KVG_OK: its answer */
static call first_call;

static call look(const kvg_problem *p, const kvg_tensor *in)
{
    const kvg_role *roles = kvg_op_get(KVG_OP_DECODE)->inputs;
    const kvg_tensor *table = &in[kvg_roles_index(roles, KVG_ROLE_BLOCK_TABLE, KVG_K)];
    const kvg_tensor *pool = &in[kvg_roles_index(roles, KVG_ROLE_DATA_POOL, KVG_K)];
    const int32_t *lengths = in[kvg_roles_index(roles, KVG_ROLE_LENGTHS, KVG_K)].data;
    const int32_t *rows = in[kvg_roles_index(roles, KVG_ROLE_QUERY_LENGTHS, KVG_K)].data;
    call c = {.sequences = p->paging.sequences, .queries = p->attention.queries};
    for (uint32_t i = 0; i < c.sequences && i < 2 * SEQUENCES; i++) {
        c.lengths[i] = lengths[i];
        c.rows[i] = rows[i];
        c.blocks[i] = ((const int32_t *)table->data)[(i + 1) * table->shape[1] - 1]; /* the last: not always garbage */
    }
    for (size_t i = 0; i < pool->bytes; i++) {
        c.ones += ((const uint8_t *)pool->data)[i] == 0xFF;
        c.zeros += ((const uint8_t *)pool->data)[i] == 0;
    }
    c.ones /= (double)pool->bytes;
    c.zeros /= (double)pool->bytes;
    return c;
}

/* Answers by row of q: whoever looks there first hides what is wrong with asking again. */
static bool remembers;
static size_t remembered;
static struct {
    uint64_t q;
    uint8_t out[6 * 64 * sizeof(float)], lse[6 * sizeof(float)];
} memory[1024];

static void remember(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *q = &in[kvg_roles_index(kvg_op_get(KVG_OP_DECODE)->inputs, KVG_ROLE_Q, KVG_K)];
    const size_t rows = p->attention.queries, bytes[] = {out[0].bytes / rows, out[1].bytes / rows};
    for (size_t i = 0; i < rows; i++) {
        uint8_t *at[] = {(uint8_t *)out[0].data + i * bytes[0], (uint8_t *)out[1].data + i * bytes[1]};
        const uint64_t key = kvg_hash64((const uint8_t *)q->data + i * (q->bytes / rows), q->bytes / rows);
        size_t found = 0;
        while (found < remembered && memory[found].q != key) found++;
        assert_true(found < sizeof memory / sizeof memory[0] && bytes[0] <= sizeof memory[0].out);
        if (found == remembered) {
            memory[remembered++].q = key;
            memcpy(memory[found].out, at[0], bytes[0]);
            memcpy(memory[found].lse, at[1], bytes[1]);
        }
        memcpy(at[0], memory[found].out, bytes[0]);
        memcpy(at[1], memory[found].lse, bytes[1]);
    }
}

static kvg_status run_decode(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    kvg_status s = kvg_reference_run(p, in, out);
    const call now = look(p, in);
    if (calls > 0 && last_words) return last_words;
    if (calls++ == 0) first_call = now;
    if (wrong_when && wrong_when(&first_call, &now)) memset(out[0].data, 0x7F, out[0].bytes);
    if (remembers) remember(p, in, out);
    return s;
}

static kvg_status run_append(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    kvg_status s = kvg_reference_run(p, in, out);
    for (size_t i = 0; wrong_append && i < out[0].bytes; i++) ((uint8_t *)out[0].data)[i] ^= 8;
    return s;
}

static const kvg_impl impls[] = {
    {"fickle_decode", KVG_OP_DECODE, KVG_FORMAT_NONE, 0, run_decode},
    {"fickle_append", KVG_OP_APPEND, KVG_FORMAT_NONE, 0, run_append},
};
static const kvg_backend fickle = {.abi = KVG_BACKEND_ABI, .struct_size = sizeof(kvg_backend), .name = "fickle",
                                   .impls = impls, .impl_count = 2, .error_text = kvg_error_text};

/* --- what each implementation cannot bear --- */

static bool same_batch(const call *a, const call *b)
{
    return a->sequences == b->sequences && memcmp(a->lengths, b->lengths, sizeof a->lengths) == 0;
}

static bool second_call(const call *first, const call *now)
{
    (void)first, (void)now;
    return calls == 2;
}

static bool other_order(const call *first, const call *now)
{
    return first->sequences == now->sequences && first->queries == now->queries && !same_batch(first, now);
}

static bool batch_of_one(const call *first, const call *now)
{
    (void)first;
    return now->sequences == 1;
}

static bool same_pages_twice(const call *first, const call *now)
{
    return now->queries == 2 * first->queries;
}

static bool many_empty(const call *first, const call *now)
{
    return now->sequences == 2 * first->sequences && now->queries == first->queries && now->rows[0] == 0 &&
           now->rows[2] == 0 && now->rows[4] == 0 && now->rows[6] == 0;
}

static bool no_chunks(const call *first, const call *now)
{
    for (uint32_t i = 0; i < now->sequences && i < 2 * SEQUENCES; i++) {
        if (now->rows[i] > 1) return false;
    }
    return now->sequences > first->sequences && now->queries == first->queries;
}

/* A length that no sequence of the case has: one that was cut. */
static bool cut_alone(const call *first, const call *now)
{
    for (uint32_t i = 0; i < first->sequences; i++) {
        if (first->lengths[i] == now->lengths[0]) return false;
    }
    return now->sequences == 1;
}

static bool other_pages(const call *first, const call *now)
{
    return same_batch(first, now) && memcmp(first->blocks, now->blocks, sizeof first->blocks) != 0;
}

static bool poison(const call *first, const call *now)
{
    return same_batch(first, now) && now->ones > 0.2 && memcmp(first->blocks, now->blocks, sizeof first->blocks) == 0;
}

static bool zeros(const call *first, const call *now)
{
    return same_batch(first, now) && now->zeros > 0.2;
}

/* --- the test --- */

static const kvg_profile profiles[] = {KVG_PROFILE_NONE, KVG_PROFILE_SM90_MMA16816_V1, KVG_PROFILE_SIMT_FMA_V1};
enum { PROFILES = sizeof profiles / sizeof profiles[0] };

static kvg_case make_case(kvg_profile profile)
{
    kvg_case c = {
        .problem = {.op = KVG_OP_DECODE, .layout = KVG_LAYOUT_HND, .dtype = KVG_DTYPE_BF16, .tokens = 40, .kv_heads = 2,
                    .head_dim = 64,
                    .storage = {{KVG_FORMAT_NVFP4, "canonical"}, {KVG_FORMAT_NVFP4, "canonical"}},
                    .paging = {.layers = 2, .layer = 1, .blocks = 40, .block_tokens = 8, .sequences = SEQUENCES},
                    .profile = profile},
        .fill = KVG_FILL_RANDOM,
        .scale = {.given = true, .value = {0.3124f, 0.01318f}},
        .queries = 5,
        .relations = true,
        .backend = "reference",
        .seed = 5,
    };
    c.problem.attention.query_heads = 6;
    for (uint32_t i = 0; i < SEQUENCES; i++) c.problem.attention.queries += kvg_case_queries(&c, i);
    assert_int_equal(kvg_case_name(&c), KVG_OK);
    return c;
}

/* The judge's own calls come here (the linker's --wrap): when is the right answer known? */
kvg_status __real_kvg_know(const kvg_question *question, kvg_truth *out);
kvg_status __wrap_kvg_know(const kvg_question *question, kvg_truth *out);
kvg_status __wrap_kvg_know(const kvg_question *question, kvg_truth *out)
{
    calls_before_knowing = calls;
    return __real_kvg_know(question, out);
}

kvg_status __real_kvg_know_again(const kvg_question *question, kvg_truth *out);
kvg_status __wrap_kvg_know_again(const kvg_question *question, kvg_truth *out);
kvg_status __wrap_kvg_know_again(const kvg_question *question, kvg_truth *out)
{
    calls_before_knowing = calls;
    return __real_kvg_know_again(question, out);
}

static void check(kvg_profile profile, trigger *when, bool append, kvg_result *r)
{
    const kvg_case c = make_case(profile);
    wrong_when = when;
    wrong_append = append;
    calls = 0;
    remembered = 0;
    kvg_check_run(&c, &fickle, r);
}

static void test_a_right_implementation_holds_all_relations(void **state)
{
    (void)state;
    for (size_t i = 0; i < PROFILES; i++) {
        kvg_result r;
        check(profiles[i], NULL, false, &r);
        if (r.verdict != KVG_VERDICT_PASS) fail_msg("%s", r.detail);
        assert_int_equal(r.relations.count, RIGHT);
    }
}

static void test_each_relation_can_fail(void **state)
{
    (void)state;
    static const struct {
        const char *relation;
        trigger *when;
        bool append;
    } rows[] = {
        {"repeated", second_call, false},       {"reversed", other_order, false},
        {"alone", batch_of_one, false},         {"aliased", same_pages_twice, false},
        {"with_empty", many_empty, false},      {"one_by_one", no_chunks, false},
        {"in_chunks", cut_alone, false},        {"moved", other_pages, false},
        {"poisoned", poison, false},            {"zeroed", zeros, false},
        {"appended", NULL, true},
    };
    assert_int_equal(sizeof rows / sizeof rows[0], RIGHT);
    for (size_t i = 0; i < 4 * RIGHT; i++) {
        char begin[64];
        kvg_result r;
        const size_t row = i / 4; /* without a profile, and with each in turn */
        remembers = i / 2 % 2 && row > 0; /* the same q is asked by the first relation alone */
        check(profiles[i % 2 ? 1 + row % (PROFILES - 1) : 0], rows[row].when, rows[row].append, &r);
        snprintf(begin, sizeof begin, "relation %s (", rows[row].relation);
        if (r.verdict != KVG_VERDICT_FAIL || strncmp(r.detail, begin, strlen(begin)) != 0) {
            fail_msg("%s: %s: %s", rows[row].relation, kvg_verdict_name(r.verdict), r.detail);
        }
        assert_true(r.broken.count == 1 && strcmp(r.broken.name[0], rows[row].relation) == 0);
        assert_int_equal(r.explained.count, 0); /* the answer itself is right */
    }
    remembers = false;
}

static bool first_call_of_all(const call *first, const call *now)
{
    (void)first, (void)now;
    return calls == 1;
}

/* Every answer is copied out before anything right is computed, also where the first one is wrong. */
static void test_the_judge_asks_before_it_knows(void **state)
{
    (void)state;
    kvg_result r;
    check(KVG_PROFILE_NONE, NULL, false, &r);
    assert_int_equal(r.verdict, KVG_VERDICT_PASS);
    assert_true(calls > RIGHT);
    assert_int_equal(calls_before_knowing, calls);
    check(KVG_PROFILE_NONE, first_call_of_all, false, &r);
    assert_int_equal(r.verdict, KVG_VERDICT_FAIL);
    assert_true(calls > RIGHT);
    assert_int_equal(calls_before_knowing, calls);
}

/* Whoever dies when it is asked again leaves the verdict of the first answer, and says that nobody is there. */
static void test_a_death_in_a_relation(void **state)
{
    (void)state;
    kvg_result r;
    last_words = KVG_ERR_DEVICE;
    check(KVG_PROFILE_NONE, NULL, false, &r);
    assert_int_equal(r.verdict, KVG_VERDICT_CRASH);
    assert_true(r.lost == KVG_ERR_DEVICE && strncmp(r.detail, "relation repeated (", 19) == 0);
    check(KVG_PROFILE_NONE, first_call_of_all, false, &r);
    assert_int_equal(r.verdict, KVG_VERDICT_FAIL);
    assert_true(r.lost == KVG_ERR_DEVICE && strncmp(r.detail, "out: ", 5) == 0);
    assert_int_equal(calls, 1);
    last_words = KVG_OK;
}

static bool claims_decode(const void *context, const kvg_problem *problem)
{
    (void)context;
    return problem->op == KVG_OP_DECODE;
}

/* An append that nobody claims is not asked for, however wrong it would be. */
static void test_an_unclaimed_append_is_not_asked(void **state)
{
    (void)state;
    const kvg_case c = make_case(KVG_PROFILE_NONE);
    kvg_candidate *candidate;
    kvg_result r;
    wrong_when = NULL;
    wrong_append = true;
    assert_int_equal(kvg_candidate_here(&fickle, &candidate), KVG_OK);
    kvg_candidate_limit(candidate, claims_decode, NULL);
    kvg_check_case(&c, candidate, &r);
    kvg_candidate_end(candidate);
    assert_int_equal(r.verdict, KVG_VERDICT_PASS);
    assert_int_equal(r.relations.count, RIGHT - 1);
}

/* Whoever dies in other company, where nothing need hold, has died, too. */
static void test_a_death_in_other_company(void **state)
{
    (void)state;
    kvg_case c = make_case(KVG_PROFILE_NONE);
    kvg_result r;
    c.relations = false;
    c.invariant = c.findings = KVG_INVARIANCE_ALL;
    wrong_when = NULL;
    calls = 0;
    last_words = KVG_ERR_DEVICE;
    kvg_check_run(&c, &fickle, &r);
    last_words = KVG_OK;
    assert_int_equal(r.verdict, KVG_VERDICT_CRASH);
    assert_int_equal(r.lost, KVG_ERR_DEVICE);
}

/* Whoever answers a question answers it in every form. */
static void test_a_refusal_in_a_relation(void **state)
{
    (void)state;
    kvg_result r;
    last_words = KVG_ERR_UNIMPLEMENTED;
    check(KVG_PROFILE_NONE, NULL, false, &r);
    assert_int_equal(r.verdict, KVG_VERDICT_UNIMPLEMENTED);
    assert_true(!r.lost && strncmp(r.detail, "relation repeated (", 19) == 0);
    last_words = KVG_OK;
}

/* Of one query head and few tokens some seed gives data that tell nothing. The redraw tells, and it is an answer like
 * the first: an implementation that is wrong about the redraw alone fails. */
static void test_data_that_tell_nothing_are_drawn_again(void **state)
{
    (void)state;
    kvg_result r = {0};
    kvg_case c = make_case(KVG_PROFILE_NONE);
    c.problem.kv_heads = c.problem.attention.query_heads = 1;
    c.problem.attention.sinks = true;
    c.relations = false;
    wrong_when = NULL;
    for (c.seed = 1; c.seed <= 64 && (r.redraws == 0 || r.verdict != KVG_VERDICT_PASS); c.seed++) {
        calls = 0;
        kvg_fill_shuffle(&c);
        kvg_check_run(&c, &fickle, &r);
        assert_int_equal(calls, r.redraws + 1);
    }
    assert_int_not_equal(r.redraws, 0);
    c.seed--;
    kvg_fill_shuffle(&c);
    wrong_when = second_call;
    calls = 0;
    kvg_check_run(&c, &fickle, &r);
    assert_int_equal(r.verdict, KVG_VERDICT_FAIL);
    assert_int_equal(r.redraws, 1);
    wrong_when = NULL;
    kvg_check_run(&c, &fickle, &r);
    c = kvg_fill_draw(&c, r.redraws); /* as the repro line has it */
    kvg_check_run(&c, &fickle, &r);
    assert_true(r.verdict == KVG_VERDICT_PASS && r.redraws == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_right_implementation_holds_all_relations),
        cmocka_unit_test(test_each_relation_can_fail),
        cmocka_unit_test(test_the_judge_asks_before_it_knows),
        cmocka_unit_test(test_a_death_in_a_relation),
        cmocka_unit_test(test_a_death_in_other_company),
        cmocka_unit_test(test_a_refusal_in_a_relation),
        cmocka_unit_test(test_an_unclaimed_append_is_not_asked),
        cmocka_unit_test(test_data_that_tell_nothing_are_drawn_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
