/* A wrong answer is named: every row of harness/trial/wrong/defects.def and every dialect is planted, alone and in
 * pairs, and diagnosed; then answers that the table did not make: loops of this file, the second reference gone wrong.
 *
 *   test_diagnosis          one case per defect, of op decode some; a few pairs
 *   test_diagnosis --each   one case per defect: the confusion matrix of docs/guide/compare.md
 *   test_diagnosis --all    every defect in every case, more pairs */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <omp.h>

#include "harness/trial/explain/diagnosis.h"
#include "harness/trial/question/decode_probes.h"
#ifdef KVG_SECOND
#include "second/slow_decode.h"
#endif

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static bool whole, each; /* --all, --each */

/* --- cases --- */

static const kvg_format formats[] = {KVG_FORMAT_NVFP4,   KVG_FORMAT_E4M3,  KVG_FORMAT_MXFP4,  KVG_FORMAT_INT4,
                                     KVG_FORMAT_ROWINT4, KVG_FORMAT_E5M2,  KVG_FORMAT_MX16,   KVG_FORMAT_INT8,
                                     KVG_FORMAT_ROWFP4,  KVG_FORMAT_BF16,  KVG_FORMAT_F16,   KVG_FORMAT_MLX4};
static const kvg_layout layouts[] = {KVG_LAYOUT_HND,  KVG_LAYOUT_TURBOMIND, KVG_LAYOUT_VLLM, KVG_LAYOUT_NHD,
                                     KVG_LAYOUT_RING, KVG_LAYOUT_TRTLLM,    KVG_LAYOUT_MLA,  KVG_LAYOUT_VLLM_HND,
                                     KVG_LAYOUT_SLOT, KVG_LAYOUT_CONTIGUOUS};
static const kvg_dtype dtypes[] = {KVG_DTYPE_BF16, KVG_DTYPE_F16, KVG_DTYPE_F32};

static kvg_case plain_case(size_t i)
{
    static const kvg_op ops[] = {KVG_OP_QUANTISE, KVG_OP_DEQUANTISE};
    static const kvg_fill fills[] = {KVG_FILL_RANDOM, KVG_FILL_ADVERSARIAL};
    const kvg_format format = formats[i / 4 % COUNT(formats)];
    const size_t dialect = i / (4 * COUNT(formats)) % kvg_reference_dialect_count(format);
    kvg_case c = {
        .problem = {.op = ops[i % 2], .layout = KVG_LAYOUT_ROWS, .dtype = dtypes[i / 4 % 2], .tokens = 12,
                    .kv_heads = 3, .head_dim = 64},
        .fill = fills[i / 2 % 2],
        .scale = {.given = true, .value = {0.3124f, 0.01318f}}, /* far from any bf16, not alike */
    };
    if (i % 4 == 2) c.scale.value[KVG_K] = c.scale.value[KVG_V] = 1; /* block scales can be ties */
    const char *name = kvg_reference_dialect(format, dialect)->name;
    c.problem.storage[KVG_K] = c.problem.storage[KVG_V] = (kvg_storage){format, name};
    if (format == KVG_FORMAT_INT8 && i % 2 == 0) c.problem.head_dim = 6; /* some rows of one sign */
    return c;
}

static kvg_case paged_case(size_t i)
{
    static const kvg_op ops[] = {KVG_OP_APPEND, KVG_OP_FLATTEN, KVG_OP_APPEND, KVG_OP_EXPAND, KVG_OP_PROBE};
    const kvg_layout layout = layouts[i % COUNT(layouts)];
    const kvg_layout_info *info = kvg_layout_get(layout);
    kvg_case c = plain_case(0);
    kvg_problem *p = &c.problem;
    c.shuffled = true;
    p->op = ops[(i / 2 + i / COUNT(layouts)) % COUNT(ops)];
    p->layout = layout;
    p->dtype = dtypes[i % 2];
    p->tokens = 30;
    p->kv_heads = layout == KVG_LAYOUT_MLA ? 1 : 2;
    p->paging = (kvg_paging){.layers = 3, .layer = 1, .blocks = 16, .block_tokens = 8, .sequences = 3};
    p->storage[KVG_K].format = p->storage[KVG_V].format = formats[i % COUNT(formats)];
    if (layout == KVG_LAYOUT_CONTIGUOUS) p->paging.block_tokens = 32;
    if (strstr(info->text, "+data")) p->paging.data_padding = 16;
    if (strstr(info->text, "+scale")) p->paging.scale_padding = 37;
    if (p->op == KVG_OP_APPEND && i % 4 < 2) {
        p->bias = true;
        p->rope = (kvg_rope){.dims = 32, .positions = 512, .pairing = KVG_PAIRING_ADJACENT};
        if (i % 3 == 1) {
            p->rope.scaling = (kvg_rope_scaling){.kind = KVG_ROPE_YARN, .theta = 150000, .factor = 32,
                                                 .original_positions = 4096, .beta_fast = 32, .beta_slow = 1};
        } else if (i % 3 == 2) {
            p->rope.scaling = (kvg_rope_scaling){.kind = KVG_ROPE_LLAMA3, .theta = 500000, .factor = 8,
                                                 .original_positions = 8192, .low_freq_factor = 1,
                                                 .high_freq_factor = 4};
        }
    }
    if (layout == KVG_LAYOUT_MLA) {
        p->paging.shared_kv = true;
        p->paging.v_first = 16;
        p->paging.v_dim = 48;
    }
    p->paging.v_scale_swizzle = info->groups && p->storage[KVG_V].format == KVG_FORMAT_NVFP4 && i % 4 == 0;
    if (i % 4 == 1 && kvg_op_reads_sequences(p->op) && kvg_problem_blocks(p) == KVG_BLOCKS_TABLE) c.shared_prefix = 12;
    return c;
}

static kvg_case decode_case(size_t i)
{
    static const kvg_fill fills[] = {KVG_FILL_RANDOM, KVG_FILL_RANDOM, KVG_FILL_COLD, KVG_FILL_RANDOM,
                                     KVG_FILL_ADVERSARIAL};
    static const struct {
        uint32_t group, queries, window;
        float softcap, scale;
        bool sinks;
    } options[] = {{3, 4, 9, 3, 0.2f, true}, {2, 5, 0, 0, 0, false}, {4, 3, 0, 0, 0.2f, true}, {1, 1, 7, 0, 0, false}};
    const size_t option = (i + i / COUNT(layouts)) % COUNT(options);
    kvg_case c = paged_case(i);
    kvg_problem *p = &c.problem;
    p->op = KVG_OP_DECODE;
    p->tokens = i % 3 ? 40 : 72; /* several tiles of 16 per split */
    c.shared_prefix = i % 12 == 7 && kvg_problem_blocks(p) == KVG_BLOCKS_TABLE ? 20 : 0;
    p->paging.blocks = 40;
    p->bias = false;
    p->rope = (kvg_rope){0};
    if (p->layout == KVG_LAYOUT_CONTIGUOUS) p->paging.block_tokens = 80;
    if (p->layout == KVG_LAYOUT_RING) p->paging.block_tokens = 32;
    c.fill = fills[i % COUNT(fills)];
    c.queries = options[option].queries;
    p->attention = (kvg_attention){.query_heads = p->kv_heads * options[option].group, .window = options[option].window,
                                   .softcap = options[option].softcap, .scale = options[option].scale,
                                   .sinks = options[option].sinks};
    if (c.fill == KVG_FILL_COLD) {
        p->attention.sinks = false;
        p->attention.softcap = 0;
        c.scale.value[KVG_K] = c.scale.value[KVG_V] = 1;
    }
    if (i % 24 == 23) { /* outputs beyond f16, for which the bound promises nothing: judged by their bits */
        p->profile = KVG_PROFILE_SIMT_FMA_V1;
        p->dtype = KVG_DTYPE_F16;
        p->storage[KVG_K] = p->storage[KVG_V] = (kvg_storage){KVG_FORMAT_E4M3, "canonical"};
        c.fill = KVG_FILL_CODES;
        c.scale.value[KVG_V] = 1000;
    }
    for (uint32_t s = 0; s < p->paging.sequences; s++) p->attention.queries += kvg_case_queries(&c, s);
    return c;
}

static kvg_case mma_case(size_t i)
{
    kvg_case c = plain_case(0);
    kvg_problem *p = &c.problem;
    p->op = KVG_OP_MMA;
    p->profile = i % 2 ? KVG_PROFILE_SM89_MMA16816_V1 : KVG_PROFILE_SM90_MMA16816_V1;
    p->dtype = i / 2 % 2 ? KVG_DTYPE_F16 : KVG_DTYPE_BF16;
    p->storage[KVG_K] = p->storage[KVG_V] = (kvg_storage){i / 2 % 2 ? KVG_FORMAT_F16 : KVG_FORMAT_BF16, "canonical"};
    p->tokens = 26;
    p->kv_heads = 1;
    p->head_dim = KVG_MMA_K;
    c.fill = i / 4 % 2 ? KVG_FILL_ADVERSARIAL : KVG_FILL_RANDOM;
    return c;
}

static kvg_case merge_case(size_t i)
{
    kvg_case c = plain_case(0);
    kvg_problem *p = &c.problem;
    p->op = KVG_OP_MERGE;
    p->dtype = i % 2 ? KVG_DTYPE_F16 : KVG_DTYPE_BF16;
    p->storage[KVG_K] = p->storage[KVG_V] = (kvg_storage){KVG_FORMAT_BF16, "canonical"};
    p->tokens = 40;
    c.fill = i / 2 % 2 ? KVG_FILL_ADVERSARIAL : KVG_FILL_RANDOM;
    return c;
}

static const struct {
    const char *name;
    kvg_case (*make)(size_t i);
    size_t few, all; /* cases: of a run in CI, and of all */
    size_t stride;   /* CI plants each so many-th row */
    size_t pairs;    /* most that a diagnosis runs */
    size_t apart;    /* rows of the table from one partner to the next, where all are planted */
} families[] = {{"rows", plain_case, 140, 528, 1, 1024, 19}, {"paged", paged_case, 60, 220, 1, 1024, 23},
                {"decode", decode_case, 12, 60, 5, 256, 29}, {"mma", mma_case, 8, 8, 1, 512, 7},
                {"merge", merge_case, 4, 4, 1, 512, 1}};

/* --- one case and its answers --- */

typedef struct bench {
    kvg_case c;
    kvg_question data;
    kvg_truth truth;
    kvg_tensor_set answer;
    kvg_places places;
} bench;

static void close_bench(bench *b)
{
    kvg_places_close(&b->places);
    kvg_set_free(&b->answer);
    kvg_truth_free(&b->truth);
    kvg_question_free(&b->data);
}

/* False where the combination makes no case. */
static bool open_bench(kvg_case c, bench *b)
{
    *b = (bench){.c = c};
    b->c.backend = "reference";
    b->c.seed = 11;
    if (kvg_case_name(&b->c) || kvg_problem_check(&b->c.problem) || kvg_probe_check(&b->c)) return false;
    if (kvg_question_make(&b->c, &b->data)) {
        close_bench(b);
        return false;
    }
    assert_int_equal(kvg_set_alloc(&b->c.problem, b->data.op->outputs, &b->answer), KVG_OK);
    if (kvg_know(&b->data, &b->truth)) fail_msg("%s", kvg_error_text());
    assert_int_equal(kvg_places_open(&b->data, &b->places), KVG_OK);
    return true;
}

/* Op decode without a profile. Everything else is judged by its bits. */
static bool by_number(const bench *b)
{
    return b->c.problem.op == KVG_OP_DECODE && b->c.problem.profile == KVG_PROFILE_NONE;
}

static kvg_evidence evidence_of(const bench *b, size_t pairs)
{
    return (kvg_evidence){
        .data = &b->data,
        .expected = b->truth.expected.tensors,
        .answer = b->answer.tensors,
        .truth = by_number(b) ? &b->truth : NULL,
        .pairs = pairs,
    };
}

/* The answer is wrong, as far as the check can tell. */
static bool is_wrong(const bench *b)
{
    kvg_result r = {.verdict = KVG_VERDICT_PASS};
    if (!by_number(b)) return !kvg_set_same_bytes(&b->truth.expected, &b->answer);
    kvg_decode_judge(&b->truth, b->answer.tensors, &r);
    return r.verdict == KVG_VERDICT_FAIL;
}

/* The answer of an engine with these defects. Where numbers judge it is a kernel's of another arithmetic than the
 * diagnosis knows: operands of 16 bits, other tiles and splits. */
static bool plant(bench *b, const kvg_wrong *wrongs, size_t count)
{
    const kvg_problem *p = &b->c.problem;
    const kvg_tensor *in = b->data.in.tensors;
    kvg_flash kernel = {.tile = 16, .splits = 2};
    kvg_arithmetic_init(p, &kernel.class);
    kvg_question_prefill(&b->data, &b->answer);
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1); /* where wrong places overlap, the last row written is there */
    const kvg_status s = by_number(b) ? kvg_wrong_run_on(&kernel, wrongs, count, p, in, b->answer.tensors)
                                      : kvg_wrong_run(wrongs, count, p, in, b->answer.tensors);
    omp_set_num_threads(threads);
    return s == KVG_OK;
}

/* --- the confusion matrix --- */

enum { MOST_ROWS = 256, MOST_NAMES = 32 };

/* What became of one planted defect. */
typedef struct row {
    const kvg_defect *defect;
    unsigned planted, within, first, tied, missed; /* within: a right answer, or a constant, which has no name */
    struct {
        const kvg_defect *defect; /* NULL: none, or a partial one */
        unsigned count;
    } named[MOST_NAMES]; /* first-named ones */
} row;

static row rows[MOST_ROWS];
static size_t row_count;

static void count_name(row *r, const kvg_defect *first)
{
    for (size_t i = 0; i < MOST_NAMES; i++) {
        if (r->named[i].count && r->named[i].defect != first) continue;
        r->named[i].defect = first;
        r->named[i].count++;
        return;
    }
}

static bool is_named(const kvg_explanation *e, const kvg_defect *defect)
{
    return e->exact && e->count == 1 && e->wrong[0].defect == defect;
}

static void judge_single(bench *b, row *r)
{
    const kvg_wrong wrong = {.defect = r->defect, .sides = KVG_BOTH_SIDES};
    kvg_diagnosis d;
    if (!plant(b, &wrong, 1)) return;
    const kvg_evidence q = evidence_of(b, 0);
    if (!is_wrong(b) || kvg_where_constant(&q, kvg_case_asked(&b->c))) {
        r->within++;
        return;
    }
    if (kvg_diagnose(&q, &b->places, &d)) fail_msg("%s: %s: %s", b->c.id, r->defect->id, kvg_error_text());
    bool named = false;
    for (size_t i = 0; i < d.count; i++) named = named || is_named(&d.explanations[i], r->defect);
    const bool any = d.count && d.explanations[0].exact;
    r->planted++;
    r->first += any && is_named(&d.explanations[0], r->defect);
    r->tied += named && !is_named(&d.explanations[0], r->defect);
    r->missed += !named;
    count_name(r, any ? d.explanations[0].wrong[0].defect : NULL);
}

/* A row of the table has a name of its own. */
static void judge_row(bench *b, row *r)
{
    const unsigned before = r->missed;
    judge_single(b, r);
    if (r->missed > before) printf("missed: %s in %s\n", r->defect->id, b->c.id);
}

static void make_rows(void)
{
    size_t defects, names;
    const kvg_defect *defect = kvg_defect_table(&defects), *named = kvg_defect_named(&names);
    assert_true(defects + names <= MOST_ROWS);
    for (size_t i = 0; i < defects; i++) rows[row_count++].defect = &defect[i];
    for (size_t i = 0; i < names; i++) {
        if (named[i].dialect) rows[row_count++].defect = &named[i];
    }
}

static void print_row(const row *r)
{
    printf("%-26s %7u %6u %6u %6u %6u ", r->defect->id, r->planted, r->first, r->tied, r->missed, r->within);
    for (size_t i = 0; i < MOST_NAMES && r->named[i].count; i++)
        printf(" %s:%u", r->named[i].defect ? r->named[i].defect->id : "-", r->named[i].count);
    printf("\n");
}

static void test_every_defect_is_named(void **state)
{
    (void)state;
    row total = {0};
    size_t silent = 0;
    make_rows();
    for (size_t f = 0; f < COUNT(families); f++) {
        for (size_t i = 0; i < (whole ? families[f].all : each ? 2 * families[f].few : families[f].few); i++) {
            bench b;
            if (!open_bench(families[f].make(i), &b)) continue;
            for (size_t r = 0; r < row_count; r++) {
                const bool due = whole || (rows[r].planted == 0 && (each || r % families[f].stride == 0));
                if (due && kvg_defect_applies(rows[r].defect, &b.c.problem)) judge_row(&b, &rows[r]);
            }
            close_bench(&b);
        }
    }
    printf("%-26s %7s %6s %6s %6s %6s  first named\n", "planted", "wrong", "first", "tied", "missed", "within");
    for (size_t r = 0; r < row_count; r++) {
        print_row(&rows[r]);
        total.planted += rows[r].planted;
        total.first += rows[r].first;
        total.tied += rows[r].tied;
        total.missed += rows[r].missed;
        silent += rows[r].planted == 0;
    }
    printf("%zu defects, %zu not planted; %u answers: %u named first, %u tied with another, %u missed\n", row_count,
           silent, total.planted, total.first, total.tied, total.missed);
    if (whole || each) assert_int_equal(silent, 0);
    if (whole || each) assert_true(100 * total.missed <= total.planted); /* docs/guide/compare.md section 4 says */
    else assert_int_equal(total.missed, 0);
}

/* Rows that lie as a text near the layout's says. Such a reader may take codes for scales, or read blocks that nobody
 * wrote. Of op decode it then meets NaN and Inf, and where these go depends on the order of a kernel's sums. */
static void test_near_texts_are_named(void **state)
{
    (void)state;
    row total = {0};
    const size_t step = whole ? 1 : each ? 4 : 24;
    for (size_t f = 0; f < COUNT(families); f++) {
        for (size_t i = 0; i < (whole ? families[f].all : families[f].few); i++) {
            const kvg_defect *near;
            size_t count;
            bench b;
            if (!open_bench(families[f].make(i), &b)) continue;
            assert_int_equal(kvg_defect_near(&b.c.problem, &near, &count), KVG_OK);
            for (size_t k = i % step; k < count; k += step) {
                row r = {.defect = &near[k]};
                if (kvg_defect_applies(&near[k], &b.c.problem)) judge_single(&b, &r);
                total.planted += r.planted;
                total.first += r.first;
                if (!r.planted || r.named[0].defect) continue; /* a row of the table may give the same answer */
                printf("missed: %s in %s\n", near[k].id, b.c.id);
                total.missed++;
                assert_int_equal(b.c.problem.op, KVG_OP_DECODE);
            }
            close_bench(&b);
        }
    }
    printf("texts near a layout's: %u answers, %u named first, %u by another name, %u missed\n", total.planted,
           total.first, total.planted - total.first - total.missed, total.missed);
    assert_true(total.planted > 0);
    assert_true(20 * total.missed <= total.planted);
}

/* --- two at once --- */

typedef struct pair_tally {
    unsigned planted, named, tied, single, missed;
} pair_tally;

static bool is_pair_of(const kvg_explanation *e, const kvg_defect *a, const kvg_defect *b)
{
    return e->count == 2 && ((e->wrong[0].defect == a && e->wrong[1].defect == b) ||
                             (e->wrong[0].defect == b && e->wrong[1].defect == a));
}

/* A diagnosis makes pairs of rows that change the answer alone, too. */
static bool is_wrong_alone(bench *b, const kvg_wrong *wrong)
{
    return plant(b, wrong, 1) && !kvg_set_same_bytes(&b->truth.expected, &b->answer);
}

static void judge_pair(bench *b, const kvg_wrong wrongs[2], size_t pairs, pair_tally *t)
{
    kvg_diagnosis d;
    if (!is_wrong_alone(b, &wrongs[0]) || !is_wrong_alone(b, &wrongs[1])) return;
    if (!plant(b, wrongs, 2) || !is_wrong(b)) return;
    const kvg_evidence q = evidence_of(b, pairs);
    if (kvg_diagnose(&q, &b->places, &d)) fail_msg("%s: %s", b->c.id, kvg_error_text());
    const bool exact = d.count && d.explanations[0].exact;
    t->planted++;
    if (!exact) t->missed++;
    else if (is_pair_of(&d.explanations[0], wrongs[0].defect, wrongs[1].defect)) t->named++;
    else if (d.explanations[0].count == 1) t->single++; /* one of the two hides the other, or a third is both */
    else t->tied++;
    if (exact) return;
    char name[256] = "nothing";
    if (d.count) kvg_explanation_name(&d.explanations[0], name, sizeof name);
    printf("missed: %s and %s in %s; first %s, %.1f %% of the wrong; all pairs: %s\n", wrongs[0].defect->id,
           wrongs[1].defect->id, b->c.id, name,
           d.count ? 100 * (double)d.explanations[0].explained / (double)d.wrong_bits : 0,
           d.pairs == d.all_pairs ? "yes" : "no");
}

/* Every `rare`-th row that applies to a case, with later ones `step` apart. */
static void judge_pairs(bench *b, size_t rare, size_t step, size_t pairs, pair_tally *t)
{
    for (size_t i = 0; i < row_count; i++) {
        if (i % rare || !kvg_defect_applies(rows[i].defect, &b->c.problem)) continue;
        for (size_t k = i + 1 + i % step; k < row_count; k += step) {
            if (!kvg_defect_applies(rows[k].defect, &b->c.problem)) continue;
            judge_pair(b, (const kvg_wrong[]){{.defect = rows[i].defect, .sides = KVG_BOTH_SIDES},
                                              {.defect = rows[k].defect, .sides = KVG_BOTH_SIDES}},
                       pairs, t);
        }
    }
}

static void test_pairs_are_named(void **state)
{
    (void)state;
    for (size_t f = 0; f < COUNT(families); f++) {
        pair_tally t = {0};
        for (size_t i = 0; i < (whole ? 12 : f == 2 ? 1 : 4); i++) {
            bench b;
            if (!open_bench(families[f].make(i * 5), &b)) continue;
            judge_pairs(&b, whole || each || f != 2 ? 1 : 6, families[f].apart * (whole ? 1 : 4),
                        (whole || each ? 16 : 1) * families[f].pairs, &t);
            close_bench(&b);
        }
        printf("pairs, %-7s %5u answers: %u named first, %u another pair first, %u one defect alone, %u missed\n",
               families[f].name, t.planted, t.named, t.tied, t.single, t.missed);
        assert_true(t.planted > 0 && (t.named > 0 || f == 3)); /* of op mma one of two always hides the other */
        if (f != 2) assert_int_equal(t.missed, 0); /* op decode: not all pairs, docs/guide/compare.md section 4 */
    }
}

/* --- answers that the table did not make --- */

static void expect_first(bench *b, const char *id, unsigned sides)
{
    kvg_diagnosis d;
    char name[256] = "nothing";
    const kvg_evidence q = evidence_of(b, 0);
    if (kvg_diagnose(&q, &b->places, &d)) fail_msg("%s", kvg_error_text());
    if (d.count) kvg_explanation_name(&d.explanations[0], name, sizeof name);
    const bool right = d.count && d.explanations[0].exact && d.explanations[0].count == 1 &&
                       strcmp(d.explanations[0].wrong[0].defect->id, id) == 0 &&
                       d.explanations[0].wrong[0].sides == sides;
    if (!right)
        fail_msg("%s: %s, not %s: %.2f %% of the wrong, distance %g", b->c.id, name, id,
                 d.count ? 100 * (double)d.explanations[0].explained / (double)d.wrong_bits : 0,
                 d.count ? d.explanations[0].distance : 0);
}

static void copy_expected(bench *b)
{
    for (size_t i = 0; i < b->truth.expected.count; i++)
        memcpy(b->answer.tensors[i].data, b->truth.expected.tensors[i].data, b->truth.expected.tensors[i].bytes);
}

static uint8_t *output(bench *b, kvg_role role, kvg_side side, size_t *bytes)
{
    kvg_tensor *t = kvg_set_tensor(&b->answer, role, side);
    *bytes = t->bytes;
    return t->data;
}

/* Loops over the bytes of a right answer. */
static void test_bytes_gone_wrong_are_named(void **state)
{
    (void)state;
    bench b;
    size_t bytes, other;
    kvg_case c = plain_case(0); /* quantise, nvfp4 */
    assert_int_equal(c.problem.op, KVG_OP_QUANTISE);
    assert_true(open_bench(c, &b));

    copy_expected(&b);
    for (int side = KVG_K; side <= KVG_V; side++) {
        uint8_t *x = output(&b, KVG_ROLE_CODES, (kvg_side)side, &bytes);
        for (size_t i = 0; i < bytes; i++) x[i] = (uint8_t)((x[i] >> 4) + 16 * (x[i] % 16));
    }
    expect_first(&b, "nibbles_swapped", KVG_BOTH_SIDES);

    copy_expected(&b);
    uint8_t *x = output(&b, KVG_ROLE_CODES, KVG_V, &bytes);
    for (size_t i = 0; i < bytes; i++) x[i] = (uint8_t)((x[i] >> 4) + 16 * (x[i] % 16));
    expect_first(&b, "nibbles_swapped", KVG_SIDE_V);

    copy_expected(&b);
    x = output(&b, KVG_ROLE_SCALES, KVG_K, &bytes);
    memmove(x + 1, x, bytes - 1);
    memcpy(x, (uint8_t *)kvg_set_tensor(&b.truth.expected, KVG_ROLE_SCALES, KVG_K)->data + bytes - 1, 1);
    expect_first(&b, "scales_shifted", KVG_SIDE_K);

    copy_expected(&b);
    x = output(&b, KVG_ROLE_SCALES, KVG_V, &bytes);
    for (size_t i = 0; i < bytes; i++) x[i] = 0x38;
    expect_first(&b, "scales_one", KVG_SIDE_V);
    close_bench(&b);

    c.problem.storage[KVG_K].format = c.problem.storage[KVG_V].format = KVG_FORMAT_MX16;
    assert_true(open_bench(c, &b));
    copy_expected(&b);
    x = output(&b, KVG_ROLE_SCALES, KVG_K, &bytes);
    for (size_t i = 0; i < bytes; i++) x[i] = (uint8_t)(x[i] + 255);
    expect_first(&b, "exponent_down", KVG_SIDE_K);

    copy_expected(&b);
    x = output(&b, KVG_ROLE_CODES, KVG_K, &bytes);
    uint8_t *y = output(&b, KVG_ROLE_CODES, KVG_V, &other);
    memcpy(x, kvg_set_tensor(&b.truth.expected, KVG_ROLE_CODES, KVG_V)->data, bytes);
    memcpy(y, kvg_set_tensor(&b.truth.expected, KVG_ROLE_CODES, KVG_K)->data, other);
    x = output(&b, KVG_ROLE_SCALES, KVG_K, &bytes);
    y = output(&b, KVG_ROLE_SCALES, KVG_V, &other);
    memcpy(x, kvg_set_tensor(&b.truth.expected, KVG_ROLE_SCALES, KVG_V)->data, bytes);
    memcpy(y, kvg_set_tensor(&b.truth.expected, KVG_ROLE_SCALES, KVG_K)->data, other);
    expect_first(&b, "k_v_swapped", KVG_BOTH_SIDES);
    close_bench(&b);
}

#ifdef KVG_SECOND
/* Named first, though it need not explain every number: where a broken rule lets keys in that nobody should see, each
 * implementation makes something else of the noise there. */
static void expect_partly(bench *b, const char *id)
{
    kvg_diagnosis d;
    const kvg_evidence q = evidence_of(b, 0);
    if (kvg_diagnose(&q, &b->places, &d)) fail_msg("%s", kvg_error_text());
    assert_true(d.count > 0);
    printf("%s explains %.1f %% of the wrong numbers\n", d.explanations[0].wrong[0].defect->id,
           100 * (double)d.explanations[0].explained / (double)d.wrong_bits);
    assert_string_equal(d.explanations[0].wrong[0].defect->id, id);
    assert_true(2 * d.explanations[0].explained > d.wrong_bits);
}

/* A case of op decode whose window, soft-cap, sinks and groups all matter. */
static kvg_case decoding(kvg_format format, kvg_profile profile)
{
    kvg_case c = decode_case(0);
    c.problem.tokens = 40;
    c.problem.storage[KVG_K].format = c.problem.storage[KVG_V].format = format;
    c.problem.paging.v_scale_swizzle = false;
    c.problem.profile = profile;
    return c;
}

/* The second reference, which shares no arithmetic with the first, broken in its own way under its own profile. */
static void test_faults_of_the_second_reference_are_named(void **state)
{
    (void)state;
    static const struct {
        slow_decode_fault fault;
        const char *id;
    } faults[] = {{SLOW_DECODE_WINDOW_WIDER, "window_long"},
                  {SLOW_DECODE_HEADS_INTERLEAVED, "group_interleaved"}};
    bench b;
    assert_true(open_bench(decoding(KVG_FORMAT_E4M3, KVG_PROFILE_SIMT_FMA_V1), &b));
    for (size_t i = 0; i < COUNT(faults); i++) {
        if (slow_decode_faulty(&b.c.problem, b.data.in.tensors, b.answer.tensors, faults[i].fault))
            fail_msg("%s", kvg_error_text());
        assert_true(is_wrong(&b));
        expect_partly(&b, faults[i].id);
    }
    close_bench(&b);
}

static void shorten_window(kvg_problem *p) { p->attention.window--; }
static void drop_cap(kvg_problem *p) { p->attention.softcap = 0; }
static void drop_sinks(kvg_problem *p) { p->attention.sinks = false; }
static void read_nhd(kvg_problem *p) { p->layout = KVG_LAYOUT_NHD; }
static void swizzle(kvg_problem *p) { p->paging.v_scale_swizzle = true; }

/* The second reference asked the wrong question. */
static void test_wrong_questions_to_the_second_reference_are_named(void **state)
{
    (void)state;
    static const struct {
        void (*change)(kvg_problem *p);
        const char *id;
    } questions[] = {{shorten_window, "window_short"}, {drop_cap, "cap_ignored"}, {drop_sinks, "sink_lost"},
                     {read_nhd, "hnd_as_nhd"}, {swizzle, "v_scale_order"}};
    bench b;
    assert_true(open_bench(decoding(KVG_FORMAT_NVFP4, KVG_PROFILE_NONE), &b));
    for (size_t i = 0; i < COUNT(questions); i++) {
        kvg_problem wrong = b.c.problem;
        questions[i].change(&wrong);
        assert_int_equal(slow_decode_op(&wrong, b.data.in.tensors, b.answer.tensors, NULL), KVG_OK);
        expect_first(&b, questions[i].id, KVG_BOTH_SIDES);
    }
    close_bench(&b);
}

#else
static void test_faults_of_the_second_reference_are_named(void **state)
{
    (void)state;
    print_message("this build has no second reference\n");
    skip();
}

static void test_wrong_questions_to_the_second_reference_are_named(void **state)
{
    test_faults_of_the_second_reference_are_named(state);
}
#endif

/* The right answer is not diagnosed, and garbage has no name. */
static void test_what_has_no_name_gets_none(void **state)
{
    (void)state;
    static const size_t families_of[] = {0, 1, 2};
    for (size_t f = 0; f < COUNT(families_of); f++) {
        bench b;
        kvg_diagnosis d;
        assert_true(open_bench(families[families_of[f]].make(0), &b));
        copy_expected(&b);
        kvg_evidence q = evidence_of(&b, 16);
        assert_int_equal(kvg_diagnose(&q, &b.places, &d), KVG_OK);
        assert_int_equal(d.wrong_bits, 0);
        assert_int_equal(d.count, 0);
        for (size_t i = 0; i < b.answer.count; i++) {
            uint8_t *x = b.answer.tensors[i].data;
            const size_t bytes = b.answer.tensors[i].bytes;
            for (size_t k = 0; k < bytes; k++) x[k] = (uint8_t)(x[k] ^ (k * 37 + k / 256 * 11) % 61);
        }
        assert_int_equal(kvg_diagnose(&q, &b.places, &d), KVG_OK);
        assert_true(d.wrong_bits > 0);
        assert_true(d.tried > 0 && d.pairs > 0);
        if (d.count) assert_false(d.explanations[0].exact);
        close_bench(&b);
    }
}

/* What is right where no sequence has a key. Many defects give such an answer in part; `zeros` gives it whatever is
 * asked. */
static void test_an_answer_that_saw_nothing_is_zeros(void **state)
{
    (void)state;
    bench b;
    kvg_diagnosis d;
    assert_true(open_bench(decoding(KVG_FORMAT_BF16, KVG_PROFILE_NONE), &b));
    copy_expected(&b);
    float *lse = b.answer.tensors[1].data;
    memset(b.answer.tensors[0].data, 0, b.answer.tensors[0].bytes);
    for (size_t i = 0; i < b.answer.tensors[1].bytes / sizeof *lse; i++) lse[i] = -INFINITY;
    const kvg_evidence q = evidence_of(&b, 16);
    assert_int_equal(kvg_diagnose(&q, &b.places, &d), KVG_OK);
    assert_true(d.count > 0);
    for (size_t i = 0; i < d.count; i++) {
        const kvg_explanation *e = &d.explanations[i];
        if (!kvg_wrong_changes_outputs(e->wrong, e->count, b.c.problem.op)) fail_msg("%s", e->wrong[0].defect->id);
    }
    assert_string_equal(d.explanations[0].wrong[0].defect->id, "zeros");
    close_bench(&b);
}

/* Every out is the same number. A hypothesis that reads noise has limits within which it lies, and explains little. */
static void test_a_constant_has_no_name(void **state)
{
    (void)state;
    static const float x = 100;
    bench b;
    kvg_diagnosis d;
    assert_true(open_bench(decoding(KVG_FORMAT_BF16, KVG_PROFILE_NONE), &b));
    copy_expected(&b);
    const kvg_tensor *out = &b.answer.tensors[0];
    for (size_t at = 0; at < out->bytes; at += kvg_dtype_bytes(out->dtype))
        kvg_reference_store(out->dtype, &x, 1, (uint8_t *)out->data + at);
    const kvg_evidence q = evidence_of(&b, 16);
    assert_int_equal(kvg_diagnose(&q, &b.places, &d), KVG_OK);
    const kvg_explanation *e = &d.explanations[0];
    if (d.count && 2 * (e->explained - e->introduced) > d.wrong_bits)
        fail_msg("%s explains %llu of %llu", e->wrong[0].defect->id, (unsigned long long)e->explained,
                 (unsigned long long)d.wrong_bits);
    close_bench(&b);
}

/* One row of 8 outputs and its LSE: two defects give it, and so few numbers fit one of thousands of pairs by chance. */
static void test_few_numbers_name_no_pair(void **state)
{
    (void)state;
    bench b;
    kvg_diagnosis d;
    kvg_wrong wrongs[2] = {{.sides = KVG_BOTH_SIDES}, {.sides = KVG_BOTH_SIDES}};
    kvg_case c = decoding(KVG_FORMAT_BF16, KVG_PROFILE_NONE);
    c.problem.kv_heads = c.problem.paging.sequences = c.queries = 1;
    c.problem.head_dim = 8;
    c.problem.attention = (kvg_attention){.query_heads = 1, .queries = 1, .softcap = 3};
    assert_int_equal(kvg_defect_find("lse_base_2", &wrongs[0].defect), KVG_OK);
    assert_int_equal(kvg_defect_find("cap_ignored", &wrongs[1].defect), KVG_OK);
    assert_true(open_bench(c, &b) && plant(&b, wrongs, 2) && is_wrong(&b));
    const kvg_evidence q = evidence_of(&b, 4096);
    assert_int_equal(kvg_diagnose(&q, &b.places, &d), KVG_OK);
    assert_true(d.wrong_bits > 1 && d.pairs > 0);
    for (size_t i = 0; i < d.count; i++) assert_true(d.explanations[i].count == 1 && !d.explanations[i].exact);
    close_bench(&b);
}

/* Time that is over at once leaves the pairs out, and nothing of what single defects say. */
static void test_a_limit_of_time_ends_the_search(void **state)
{
    bench b;
    kvg_diagnosis all, limited;
    (void)state;
    assert_true(open_bench(families[0].make(0), &b));
    copy_expected(&b);
    uint8_t *x = b.answer.tensors[0].data;
    for (size_t k = 0; k < b.answer.tensors[0].bytes; k++) x[k] = (uint8_t)(x[k] ^ (k * 37 + k / 256 * 11) % 61);
    kvg_evidence q = evidence_of(&b, 16);
    assert_int_equal(kvg_diagnose(&q, &b.places, &all), KVG_OK);
    assert_true(all.pairs == 16 && all.pairs < all.all_pairs);
    assert_true(!(all.seconds > 0)); /* a count ended it */
    q.seconds = 1e-9;
    assert_int_equal(kvg_diagnose(&q, &b.places, &limited), KVG_OK);
    assert_int_equal(limited.tried, all.tried);
    assert_int_equal(limited.reached, all.reached);
    assert_int_equal(limited.pairs, 0);
    assert_int_equal(limited.all_pairs, all.all_pairs);
    assert_true(limited.seconds > 0);
    q.seconds = 1e9;
    assert_int_equal(kvg_diagnose(&q, &b.places, &limited), KVG_OK);
    assert_int_equal(limited.pairs, 16);
    assert_true(!(limited.seconds > 0));
    close_bench(&b);
}

int main(int argc, char **argv)
{
    whole = argc > 1 && strcmp(argv[1], "--all") == 0;
    each = argc > 1 && strcmp(argv[1], "--each") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_defect_is_named),
        cmocka_unit_test(test_near_texts_are_named),
        cmocka_unit_test(test_pairs_are_named),
        cmocka_unit_test(test_bytes_gone_wrong_are_named),
        cmocka_unit_test(test_a_limit_of_time_ends_the_search),
        cmocka_unit_test(test_faults_of_the_second_reference_are_named),
        cmocka_unit_test(test_wrong_questions_to_the_second_reference_are_named),
        cmocka_unit_test(test_what_has_no_name_gets_none),
        cmocka_unit_test(test_a_constant_has_no_name),
        cmocka_unit_test(test_an_answer_that_saw_nothing_is_zeros),
        cmocka_unit_test(test_few_numbers_name_no_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
