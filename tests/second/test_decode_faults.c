/* What the comparison of op decode sees: every planted defect of the second reference (decode_faults.def) where bits
 * are compared, small changes of a request where the exact answer is, and what both must refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/bits.h"
#include "reference/reference.h"
#include "tests/second/decode_compare.h"

enum { FAULT_STREAM = 6000000, SIMT_FAULT_STREAM = 6500000, FA3_FAULT_STREAM = 6700000,
       FI2_FAULT_STREAM = 6800000, FI3_FAULT_STREAM = 6900000, ONE_FAULT_STREAM = 6950000,
       CHANGE_STREAM = 3500000, FORMAT_STREAM = 7000000 };

/* --- planted defects --- */

/* Runs every defect that no problem has shown yet; returns how many are left. */
static unsigned try_faults(const kit *golden, uint64_t number, bool seen[SLOW_DECODE_FAULTS])
{
    unsigned left = 0;
    for (slow_decode_fault fault = SLOW_DECODE_RIGHT + 1; fault < SLOW_DECODE_FAULTS; fault++) {
        if (seen[fault]) continue;
        kit slow = decode_slow(golden, fault);
        seen[fault] = decode_differing(NULL, golden, &slow, 0) > 0;
        left += !seen[fault];
        if (seen[fault]) {
            print_message("  %-19s seen by problem %llu\n", slow_decode_fault_name(fault), (unsigned long long)number);
        }
        kit_close(&slow);
    }
    return left;
}

/* Problem `number` is of a format and dialect that depend on nothing else that its number decides. */
static decode_wish wish_at(decode_wish_fn *wish_of, uint64_t number)
{
    dice d = {FORMAT_STREAM + number, 0};
    size_t formats;
    const kvg_format_info *table = kvg_format_table(&formats);
    const kvg_format format = table[roll(&d, formats)].format;
    return wish_of(format, roll(&d, kvg_reference_dialect_count(format)), number);
}

/* Every `stride`-th defect of one of the contracts. */
static void find_faults(slow_contract contract, decode_wish_fn *wish_of, uint64_t stream, unsigned stride,
                        const char *test)
{
    enum { MOST = 3000, LONG_FROM = 128 }; /* long and large ones cost the most: for the few that are left */
    const bool tiles_are_long = contract >= SLOW_OF_FA3, steps_are_short = contract == SLOW_OF_ONE;
    bool seen[SLOW_DECODE_FAULTS] = {false};
    uint64_t number = 0;
    unsigned all = 0, count = 0, left = SLOW_DECODE_FAULTS;
    for (slow_decode_fault fault = SLOW_DECODE_RIGHT + 1; fault < SLOW_DECODE_FAULTS; fault++) {
        const bool due = slow_decode_fault_in(fault, contract) && all++ % stride == 0;
        seen[fault] = !due;
        count += due;
    }
    while (left > 0 && number < MOST) {
        const bool grid = number % (tiles_are_long ? 12 : 3) == 2;
        const bool many_outputs = !tiles_are_long && number % 8 == 2 && number >= LONG_FROM;
        decode_wish wish = grid           ? wish_of(KVG_FORMAT_F16, 0, number) /* exact */
                           : many_outputs ? wish_of(KVG_FORMAT_E4M3, 0, number)
                                          : wish_at(wish_of, number);
        dice d = {stream + number, 0};
        const bool whole_leaves = !tiles_are_long && number % 8 == 7 && number >= LONG_FROM;
        wish.longest = grid ? 80 : whole_leaves ? 1100 : tiles_are_long && number % 2 ? 400 : 40;
        if (steps_are_short) wish.longest = number % 2 ? 60 : 10;
        wish.grid = grid;
        wish.small = !many_outputs;
        if (many_outputs) wish.dtype = KVG_DTYPE_F16; /* whose roundings show the most */
        kit golden = decode_draw(&d, &wish);
        decode_golden(&golden, d.stream);
        left = try_faults(&golden, ++number, seen);
        kit_close(&golden);
    }
    for (slow_decode_fault fault = SLOW_DECODE_RIGHT + 1; fault < SLOW_DECODE_FAULTS; fault++) {
        if (seen[fault]) continue;
        print_error("  %s (%s): not seen by %llu problems\n", slow_decode_fault_name(fault),
                    slow_decode_fault_text(fault), (unsigned long long)number);
    }
    print_message("%s: %u of %u defects, %u not seen\n", test, count, all, left);
    assert_int_equal(left, 0);
}

void test_faults_are_seen(void **state)
{
    find_faults(SLOW_OF_MMA, decode_wish_of, FAULT_STREAM, *(const unsigned *)*state, __func__);
}

void test_simt_faults_are_seen(void **state)
{
    find_faults(SLOW_OF_SIMT, decode_simt_wish_of, SIMT_FAULT_STREAM, *(const unsigned *)*state, __func__);
}

void test_fa3_faults_are_seen(void **state)
{
    find_faults(SLOW_OF_FA3, decode_fa3_wish_of, FA3_FAULT_STREAM, *(const unsigned *)*state, __func__);
}

void test_fi2_faults_are_seen(void **state)
{
    find_faults(SLOW_OF_FI2, decode_fi2_wish_of, FI2_FAULT_STREAM, *(const unsigned *)*state, __func__);
}

void test_fi3_faults_are_seen(void **state)
{
    find_faults(SLOW_OF_FI3, decode_fi3_wish_of, FI3_FAULT_STREAM, *(const unsigned *)*state, __func__);
}

void test_one_faults_are_seen(void **state)
{
    find_faults(SLOW_OF_ONE, decode_one_wish_of, ONE_FAULT_STREAM, *(const unsigned *)*state, __func__);
}

/* --- the exact tier sees small changes --- */

static void next_float(kvg_tensor *tensor)
{
    uint32_t bits;
    memcpy(&bits, tensor->data, sizeof bits);
    bits++;
    memcpy(tensor->data, &bits, sizeof bits);
}

/* One small change of a request; false: it has nothing to change. */
typedef bool change_fn(kit *k);

static bool change_scale(kit *k)
{
    float *scale = &k->problem.attention.scale;
    if (*scale > 0) *scale = kvg_f32_of_bits(kvg_bits_of_f32(*scale) + 1);
    return *scale > 0;
}

static bool change_cap(kit *k)
{
    float *cap = &k->problem.attention.softcap;
    if (*cap > 0) *cap = kvg_f32_of_bits(kvg_bits_of_f32(*cap) + 1);
    return *cap > 0;
}

static bool change_window(kit *k)
{
    k->problem.attention.window += k->problem.attention.window > 0;
    return k->problem.attention.window > 0;
}

static bool change_sink(kit *k)
{
    if (k->problem.attention.sinks) next_float(&k->tensor[KVG_ROLE_SINKS][KVG_K]);
    return k->problem.attention.sinks;
}

static bool change_tensor_scale(kit *k, kvg_side side)
{
    kvg_tensor *g = &k->tensor[KVG_ROLE_TENSOR_SCALE][side];
    if (g->bytes) next_float(g);
    return g->bytes > 0;
}

static bool change_k_scale(kit *k)
{
    return change_tensor_scale(k, KVG_K);
}

static bool change_v_scale(kit *k)
{
    return change_tensor_scale(k, KVG_V);
}

static bool change_q(kit *k)
{
    const kvg_tensor *q = &k->tensor[KVG_ROLE_Q][KVG_K];
    ((uint8_t *)q->data)[0] ^= 1;
    return true;
}

static bool change_query_order(kit *k)
{
    int32_t *lengths = k->tensor[KVG_ROLE_QUERY_LENGTHS][KVG_K].data;
    const int32_t first = lengths[0];
    if (k->problem.paging.sequences < 2 || first == lengths[1]) return false;
    lengths[0] = lengths[1];
    lengths[1] = first;
    return true;
}

static bool change_data(kit *k)
{
    const kvg_tensor *pool = &k->tensor[KVG_ROLE_DATA_POOL][KVG_K];
    for (size_t i = 0; i < pool->bytes; i += 97) ((uint8_t *)pool->data)[i] ^= 1;
    return true;
}

/* Answers that are not inside the reach of the exact answer, and those that may be anything not counted. */
static uint64_t outside(const kit *answers, const kit *low, const kit *high)
{
    uint64_t count = 0;
    for (size_t o = 0; o < DECODE_OUTPUTS; o++) {
        const kvg_tensor *a = &answers->tensor[decode_outputs[o]][KVG_K];
        for (size_t i = 0; i < decode_elements(a); i++) {
            const slow_number least = decode_element(&low->tensor[decode_outputs[o]][KVG_K], i);
            const slow_number most = decode_element(&high->tensor[decode_outputs[o]][KVG_K], i);
            if (least.kind == SLOW_NAN || most.kind == SLOW_NAN) continue;
            count += !decode_inside(least, decode_element(a, i), most);
        }
    }
    return count;
}

/* The golden answer to a slightly different request must be outside. */
void test_changes_are_seen(void **state)
{
    (void)state;
    enum { MOST = 100, CHANGES = 10 };
    static const struct {
        const char *name;
        change_fn *make;
    } changes[CHANGES] = {
        {"scale + 1 ulp", change_scale},     {"cap + 1 ulp", change_cap},
        {"window + 1", change_window},       {"sink + 1 ulp", change_sink},
        {"g of K + 1 ulp", change_k_scale},  {"g of V + 1 ulp", change_v_scale},
        {"a bit of q", change_q},            {"query lengths of others", change_query_order},
        {"bits of the pool", change_data},   {"nothing", NULL},
    };
    uint64_t seen_by[CHANGES] = {0};
    for (uint64_t number = 0; number < MOST; number++) {
        decode_wish wish = wish_at(decode_wish_of, number);
        wish.profile = KVG_PROFILE_NONE;
        wish.longest = 20;
        if (type_fits(wish.k.format, KVG_DTYPE_F32)) wish.dtype = KVG_DTYPE_F32;
        dice d = {CHANGE_STREAM + number, 0};
        kit right = decode_draw(&d, &wish);
        kit low = decode_end(&right, -1), high = decode_end(&right, 1);
        for (size_t i = 0; i < CHANGES; i++) {
            kit changed = kit_open_problem(&right.problem);
            kit_copy(&right, &changed);
            if (!seen_by[i] && (!changes[i].make || changes[i].make(&changed))) {
                decode_golden(&changed, d.stream);
                if (outside(&changed, &low, &high) > 0) seen_by[i] = number + 1;
            }
            kit_close(&changed);
        }
        kit_close(&high);
        kit_close(&low);
        kit_close(&right);
    }
    for (size_t i = 0; i < CHANGES; i++) {
        print_message("  %-24s seen by problem %llu\n", changes[i].name, (unsigned long long)seen_by[i]);
        assert_true((seen_by[i] > 0) == (changes[i].make != NULL));
    }
}

/* --- what both refuse --- */

/* All inputs are 0, but for the lengths and the tensor scales. */
static kit zero_kit(const kvg_problem *p)
{
    kit k = kit_open_problem(p);
    const float one = 1;
    const int32_t lengths[] = {8, 3}, queries[] = {1, 1};
    for (int role = KVG_ROLE_NONE + 1; role < KVG_ROLE_END; role++) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            const bool output = role == KVG_ROLE_OUT || role == KVG_ROLE_LSE;
            if (k.tensor[role][side].bytes && !output) memset(k.tensor[role][side].data, 0, k.tensor[role][side].bytes);
        }
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor *g = &k.tensor[KVG_ROLE_TENSOR_SCALE][side];
        if (g->bytes) memcpy(g->data, &one, sizeof one);
    }
    memcpy(k.tensor[KVG_ROLE_LENGTHS][KVG_K].data, lengths, sizeof lengths);
    memcpy(k.tensor[KVG_ROLE_QUERY_LENGTHS][KVG_K].data, queries, sizeof queries);
    return k;
}

static kit refused_kit(void)
{
    const kvg_problem p = {
        .op = KVG_OP_DECODE, .layout = KVG_LAYOUT_NHD, .dtype = KVG_DTYPE_F16,
        .storage = {{KVG_FORMAT_E4M3, "canonical"}, {KVG_FORMAT_NVFP4, "canonical"}},
        .tokens = 8, .kv_heads = 1, .head_dim = 16,
        .paging = {.layers = 1, .blocks = 2, .block_tokens = 4, .sequences = 2},
        .attention = {.query_heads = 2, .queries = 2, .sinks = true},
    };
    return zero_kit(&p);
}

enum { FA3_PAGES = KVG_PROFILE_SM90_FA3_20260810_PAGES, FA3_CONTIGUOUS = KVG_PROFILE_SM90_FA3_20260810_CONTIGUOUS,
       FI2 = KVG_PROFILE_SM90_FLASHINFER_FA2_0_7_2, FI3 = KVG_PROFILE_SM90_FLASHINFER_FA3_0_7_2,
       ONE = KVG_PROFILE_SM90_FLASHINFER_ONE_0_7_2 };

/* What the kernels of docs/spec/other-kernels.md take, and what they do not. */
static const struct other_case {
    const char *what;
    int profile; /* kvg_profile */
    kvg_dtype dtype;
    kvg_format k, v;
    uint32_t head_dim;
    float softcap;
    bool shared;
    uint32_t sink;
    kvg_status want;
} others[] = {
    {"f16", FA3_PAGES, KVG_DTYPE_F16, KVG_FORMAT_F16, KVG_FORMAT_F16, 64, 0, false, 0, KVG_OK},
    {"bf16", FA3_CONTIGUOUS, KVG_DTYPE_BF16, KVG_FORMAT_BF16, KVG_FORMAT_BF16, 256, 0, false, 0x3FC00000, KVG_OK},
    {"a sink of -Inf", FA3_PAGES, KVG_DTYPE_BF16, KVG_FORMAT_BF16, KVG_FORMAT_BF16, 16, 0, false, 0xFF800000, KVG_OK},
    {"a softcap", FA3_PAGES, KVG_DTYPE_F16, KVG_FORMAT_F16, KVG_FORMAT_F16, 64, 30, false, 0, KVG_ERR_UNIMPLEMENTED},
    {"a shared row", FA3_PAGES, KVG_DTYPE_F16, KVG_FORMAT_F16, KVG_FORMAT_F16, 64, 0, true, 0, KVG_ERR_UNIMPLEMENTED},
    {"K of another type", FA3_CONTIGUOUS, KVG_DTYPE_BF16, KVG_FORMAT_F16, KVG_FORMAT_BF16, 64, 0, false, 0,
     KVG_ERR_UNIMPLEMENTED},
    {"V of another format", FA3_PAGES, KVG_DTYPE_F16, KVG_FORMAT_F16, KVG_FORMAT_E4M3, 64, 0, false, 0,
     KVG_ERR_UNIMPLEMENTED},
    {"f32", FA3_PAGES, KVG_DTYPE_F32, KVG_FORMAT_F16, KVG_FORMAT_F16, 64, 0, false, 0, KVG_ERR_UNIMPLEMENTED},
    {"a head_dim of 72", FA3_PAGES, KVG_DTYPE_F16, KVG_FORMAT_F16, KVG_FORMAT_F16, 72, 0, false, 0,
     KVG_ERR_UNIMPLEMENTED},
    {"a head_dim of 272", FA3_CONTIGUOUS, KVG_DTYPE_F16, KVG_FORMAT_F16, KVG_FORMAT_F16, 272, 0, false, 0,
     KVG_ERR_UNIMPLEMENTED},
    {"a sink of 1 + 2^-8", FA3_PAGES, KVG_DTYPE_BF16, KVG_FORMAT_BF16, KVG_FORMAT_BF16, 64, 0, false, 0x3F808000,
     KVG_ERR_INVALID},
    {"a sink of NaN", FA3_PAGES, KVG_DTYPE_BF16, KVG_FORMAT_BF16, KVG_FORMAT_BF16, 64, 0, false, 0x7FC00000,
     KVG_ERR_INVALID},
    {"fa2, a softcap", FI2, KVG_DTYPE_F16, KVG_FORMAT_F16, KVG_FORMAT_F16, 64, 30, false, 0, KVG_OK},
    {"fa2, a wide sink", FI2, KVG_DTYPE_BF16, KVG_FORMAT_BF16, KVG_FORMAT_BF16, 256, 0, false, 0x3F808000, KVG_OK},
    {"fa2, a shared row", FI2, KVG_DTYPE_F16, KVG_FORMAT_F16, KVG_FORMAT_F16, 64, 0, true, 0, KVG_ERR_UNIMPLEMENTED},
    {"fa2, e4m3", FI2, KVG_DTYPE_F16, KVG_FORMAT_E4M3, KVG_FORMAT_E4M3, 64, 0, false, 0, KVG_ERR_UNIMPLEMENTED},
    {"e4m3", FA3_PAGES, KVG_DTYPE_BF16, KVG_FORMAT_E4M3, KVG_FORMAT_E4M3, 96, 0, false, 0, KVG_OK},
    {"e4m3, f16", FA3_PAGES, KVG_DTYPE_F16, KVG_FORMAT_E4M3, KVG_FORMAT_E4M3, 96, 0, false, 0, KVG_ERR_UNIMPLEMENTED},
    {"e4m3, a head_dim of 80", FA3_CONTIGUOUS, KVG_DTYPE_BF16, KVG_FORMAT_E4M3, KVG_FORMAT_E4M3, 80, 0, false, 0,
     KVG_ERR_UNIMPLEMENTED},
    {"K of e4m3", FA3_PAGES, KVG_DTYPE_BF16, KVG_FORMAT_E4M3, KVG_FORMAT_BF16, 64, 0, false, 0, KVG_ERR_UNIMPLEMENTED},
    {"fa2, e4m3 and bf16", FI2, KVG_DTYPE_BF16, KVG_FORMAT_E4M3, KVG_FORMAT_E4M3, 128, 0, false, 0, KVG_OK},
    {"fa2, e4m3 of 64", FI2, KVG_DTYPE_BF16, KVG_FORMAT_E4M3, KVG_FORMAT_E4M3, 64, 0, false, 0, KVG_ERR_UNIMPLEMENTED},
    {"fa2, a head_dim of 192", FI2, KVG_DTYPE_F16, KVG_FORMAT_F16, KVG_FORMAT_F16, 192, 0, false, 0,
     KVG_ERR_UNIMPLEMENTED},
    {"fa3, sinks", FI3, KVG_DTYPE_F16, KVG_FORMAT_F16, KVG_FORMAT_F16, 64, 0, false, 0, KVG_ERR_UNIMPLEMENTED},
    {"one, sinks", ONE, KVG_DTYPE_F16, KVG_FORMAT_F16, KVG_FORMAT_F16, 64, 0, false, 0, KVG_ERR_UNIMPLEMENTED},
};
enum { OTHERS = sizeof others / sizeof others[0] };

static kit other_kit(const struct other_case *c)
{
    const kvg_problem p = {
        .op = KVG_OP_DECODE, .layout = c->shared ? KVG_LAYOUT_MLA : KVG_LAYOUT_NHD, .dtype = c->dtype,
        .profile = (kvg_profile)c->profile,
        .storage = {{c->k, "canonical"}, {c->v, "canonical"}},
        .tokens = 8, .kv_heads = 1, .head_dim = c->head_dim,
        .paging = {.layers = 1, .blocks = 2, .block_tokens = 4, .sequences = 2, .shared_kv = c->shared,
                   .v_dim = c->shared ? c->head_dim : 0},
        .attention = {.query_heads = 2, .queries = 2, .sinks = true, .softcap = c->softcap},
    };
    kit k = zero_kit(&p);
    memcpy((uint8_t *)k.tensor[KVG_ROLE_SINKS][KVG_K].data + sizeof c->sink, &c->sink, sizeof c->sink);
    return k;
}

/* What FlashInfer's decode without tensor cores takes. */
static const struct one_case {
    const char *what;
    kvg_format format;
    uint32_t query_heads, head_dim;
    int32_t first_queries; /* tokens of the first of two sequences that have two */
    kvg_status want;
} ones[] = {
    {"one", KVG_FORMAT_F16, 8, 64, 1, KVG_OK},
    {"one, 3 query heads", KVG_FORMAT_F16, 3, 64, 1, KVG_ERR_UNIMPLEMENTED},
    {"one, 16 query heads", KVG_FORMAT_F16, 16, 64, 1, KVG_ERR_UNIMPLEMENTED},
    {"one, a head_dim of 192", KVG_FORMAT_F16, 1, 192, 1, KVG_ERR_UNIMPLEMENTED},
    {"one, e4m3", KVG_FORMAT_E4M3, 1, 128, 1, KVG_ERR_UNIMPLEMENTED},
    {"one, two tokens of a sequence", KVG_FORMAT_F16, 1, 64, 2, KVG_ERR_UNIMPLEMENTED},
};
enum { ONES = sizeof ones / sizeof ones[0] };

static kit one_kit(const struct one_case *c)
{
    const kvg_problem p = {
        .op = KVG_OP_DECODE, .layout = KVG_LAYOUT_NHD, .dtype = KVG_DTYPE_F16, .profile = (kvg_profile)ONE,
        .storage = {{c->format, "canonical"}, {c->format, "canonical"}},
        .tokens = 8, .kv_heads = 1, .head_dim = c->head_dim,
        .paging = {.layers = 1, .blocks = 2, .block_tokens = 4, .sequences = 2},
        .attention = {.query_heads = c->query_heads, .queries = 2},
    };
    kit k = zero_kit(&p);
    const int32_t queries[] = {c->first_queries, 2 - c->first_queries};
    memcpy(k.tensor[KVG_ROLE_QUERY_LENGTHS][KVG_K].data, queries, sizeof queries);
    return k;
}

/* The status of each, and whether outputs kept their bytes. */
static void compare_refusal(tally *t, const kit *k, const char *what, kvg_status want)
{
    const kvg_backend *backends[] = {golden_backend(), slow_backend()};
    for (size_t b = 0; b < 2; b++) {
        kit copy = kit_open_problem(&k->problem);
        kit_copy(k, &copy);
        const kvg_status got = kit_run(&copy, backends[b], KVG_OP_DECODE);
        bool written = false;
        for (size_t o = 0; o < DECODE_OUTPUTS; o++) {
            const kvg_role role = decode_outputs[o];
            const kvg_tensor *before = &k->tensor[role][KVG_K], *after = &copy.tensor[role][KVG_K];
            written |= memcmp(before->data, after->data, before->bytes) != 0;
        }
        t->compared++;
        if (got != want || written != (want == KVG_OK)) {
            t->differing++;
            print_error("  %s, %s: %s%s\n", backends[b]->name, what, kvg_status_name(got), written ? ", written" : "");
        }
        kit_close(&copy);
    }
}

void test_decode_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        kvg_role role; /* of which element `at` gets these bits */
        kvg_side side;
        size_t at;
        uint32_t bits;
        kvg_status want;
    } cases[] = {
        {"nothing wrong", KVG_ROLE_LENGTHS, KVG_K, 0, 8, KVG_OK},
        {"no key", KVG_ROLE_LENGTHS, KVG_K, 0, 0, KVG_OK},
        {"sink -Inf", KVG_ROLE_SINKS, KVG_K, 1, 0xFF800000, KVG_OK},
        {"block beyond the pool", KVG_ROLE_BLOCK_TABLE, KVG_K, 0, 2, KVG_OK},
        {"length above T", KVG_ROLE_LENGTHS, KVG_K, 1, 9, KVG_ERR_INVALID},
        {"negative length", KVG_ROLE_LENGTHS, KVG_K, 0, 0xFFFFFFFF, KVG_ERR_INVALID},
        {"too few queries", KVG_ROLE_QUERY_LENGTHS, KVG_K, 0, 0, KVG_ERR_INVALID},
        {"too many queries", KVG_ROLE_QUERY_LENGTHS, KVG_K, 1, 2, KVG_ERR_INVALID},
        {"negative query length", KVG_ROLE_QUERY_LENGTHS, KVG_K, 1, 0xFFFFFFFF, KVG_ERR_INVALID},
        {"sink NaN", KVG_ROLE_SINKS, KVG_K, 0, 0x7FC00000, KVG_ERR_INVALID},
        {"sink +Inf", KVG_ROLE_SINKS, KVG_K, 1, 0x7F800000, KVG_ERR_INVALID},
        {"g of K is 0", KVG_ROLE_TENSOR_SCALE, KVG_K, 0, 0, KVG_ERR_INVALID},
        {"g of V is Inf", KVG_ROLE_TENSOR_SCALE, KVG_V, 0, 0x7F800000, KVG_ERR_INVALID},
    };
    tally t = {0};
    static const kvg_profile profiles[] = {KVG_PROFILE_NONE, KVG_PROFILE_SM90_MMA16816_V1, KVG_PROFILE_SM90_MMA16816_V2,
                                           KVG_PROFILE_SIMT_FMA_V1};
    enum { PROFILES = sizeof profiles / sizeof profiles[0] };
    for (size_t i = 0; i < PROFILES * sizeof cases / sizeof cases[0]; i++) {
        const size_t n = i / PROFILES;
        kit k = refused_kit();
        k.problem.profile = profiles[i % PROFILES];
        memcpy((uint8_t *)k.tensor[cases[n].role][cases[n].side].data + 4 * cases[n].at, &cases[n].bits,
               sizeof cases[n].bits);
        compare_refusal(&t, &k, cases[n].what, cases[n].want);
        kit_close(&k);
    }
    for (size_t i = 0; i < 2 * PROFILES; i++) {
        kit k = refused_kit();
        k.problem.profile = profiles[i % PROFILES];
        k.problem.storage[i / PROFILES].dialect = "no-such-dialect";
        compare_refusal(&t, &k, "dialect", KVG_ERR_UNIMPLEMENTED);
        kit_close(&k);
    }
    for (size_t i = 0; i < OTHERS; i++) {
        kit k = other_kit(&others[i]);
        compare_refusal(&t, &k, others[i].what, others[i].want);
        kit_close(&k);
    }
    for (size_t i = 0; i < ONES; i++) {
        kit k = one_kit(&ones[i]);
        compare_refusal(&t, &k, ones[i].what, ones[i].want);
        kit_close(&k);
    }
    kit wide = refused_kit();
    wide.problem.profile = KVG_PROFILE_SM90_MMA16816_V1;
    wide.problem.dtype = KVG_DTYPE_F32;
    kit wide_tensors = kit_open_problem(&wide.problem);
    compare_refusal(&t, &wide_tensors, "a tensor core and f32", KVG_ERR_UNIMPLEMENTED);
    kit_close(&wide_tensors);
    kit_close(&wide);
    tally_close(&t, __func__);
}
