#include "harness/trial/judge/judge_decode.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/judge/judge_parts.h"
#include "harness/trial/question/decode_probes.h"
#include "harness/trial/question/fill.h"
#include "reference/attention_profile.h"
#include "support/sort.h"

enum { OUT, LSE }; /* the op's outputs */

/* A row of harness/case/classes.def. */
typedef struct class {
    kvg_operand operands; /* 0: as K and V are */
    enum { STORED, DECODED } kv;
    enum { KEPT, ROUNDED } products;
} class;

enum { KVG_OPERAND_FORMAT };

static const class classes[] = {
#define CLASS(ENUM, name, operands, kv, products, ...) {(kvg_operand)KVG_OPERAND_##operands, kv, products},
#include "harness/case/classes.def"
#undef CLASS
};

kvg_status kvg_decode_arithmetic(const kvg_case *c, kvg_arithmetic *out)
{
    const class *of = &classes[c->operands];
    if (c->problem.profile != KVG_PROFILE_NONE) return kvg_arithmetic_of_profile(&c->problem, out);
    kvg_arithmetic_init(&c->problem, out);
    if (of->operands) out->q = out->p = of->operands;
    if (of->kv == DECODED) {
        out->k = out->v = of->operands;
        out->folded = false;
    }
    out->rounded_products = of->products == ROUNDED;
    return KVG_OK;
}

/* --- what is right --- */

static const kvg_tensor *input(const kvg_question *d, kvg_role role)
{
    return kvg_set_tensor(&d->in, role, KVG_K);
}

static kvg_status open_answer(size_t outputs, size_t rows, kvg_attention_answer *a)
{
    a->out = malloc(2 * (outputs + rows) * sizeof *a->out);
    if (!a->out) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu answers and their bounds", outputs + rows);
    a->lse = a->out + outputs;
    a->out_bound = a->lse + rows;
    a->lse_bound = a->out_bound + outputs;
    return KVG_OK;
}

/* What the case does not ask for has no bound. */
static void promise_what_is_asked(const kvg_truth *t, kvg_attention_answer *a)
{
    if (t->question->c->answers == KVG_ANSWERS_ALL) return;
    for (size_t row = 0; row < t->rows; row++) a->lse_bound[row] = INFINITY;
}

static void close_answer(kvg_attention_answer *a)
{
    free(a->out);
    *a = (kvg_attention_answer){0};
}

/* Rows of the first sequences before they were quantised, as op flatten would give them. */
static kvg_status spread_rows(const kvg_question *d, uint32_t sequences, kvg_tensor flat[2])
{
    const kvg_problem *p = &d->c->problem;
    for (int side = KVG_K; side < kvg_problem_sides(p); side++) {
        const uint8_t *rows = kvg_set_tensor(&d->values, KVG_ROLE_VALUES, (kvg_side)side)->data;
        const size_t bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
        flat[side].data = calloc((size_t)p->paging.sequences * p->kv_heads * p->tokens, bytes);
        if (!flat[side].data) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the rows of %u tokens", p->tokens);
        for (size_t i = 0; i < (size_t)d->rows.tokens * p->kv_heads; i++) {
            const size_t source = d->source[i / p->kv_heads], head = i % p->kv_heads;
            if (source / p->tokens >= sequences) continue;
            const size_t row = (source / p->tokens * p->kv_heads + head) * p->tokens + source % p->tokens;
            memcpy((uint8_t *)flat[side].data + row * bytes, rows + i * bytes, bytes);
        }
    }
    return KVG_OK;
}

/* How many rows the codec's error is measured on: the first ones, until they are several (a row's q may be 0) and have
 * seen that many numbers of K. */
static size_t count_measured(const kvg_truth *t)
{
    enum { NUMBERS = 1 << 18, FEWEST = 8 };
    const kvg_problem *p = &t->question->c->problem;
    const size_t group = p->attention.query_heads / p->kv_heads;
    uint64_t seen = 0;
    size_t rows = 0;
    for (; rows < t->rows && (seen < NUMBERS || rows < FEWEST); rows += group)
        seen += (uint64_t)t->question->queries[rows / p->attention.query_heads].keys * p->head_dim;
    return rows;
}

static kvg_status measure_codec(kvg_truth *t)
{
    const kvg_question *d = t->question;
    kvg_tensor flat[2] = {{0}};
    kvg_attention_answer before = {0};
    kvg_attention_error out, lse;
    if (d->c->fill == KVG_FILL_CODES || !kvg_op_stores(d->op->op)) return KVG_OK;
    const size_t rows = count_measured(t), outputs = t->rows ? rows * (t->outputs / t->rows) : 0;
    bool *wanted = calloc(t->rows, sizeof *wanted);
    kvg_status s = wanted ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "cannot mark %zu rows", t->rows);
    if (!s) s = open_answer(outputs, rows, &before);
    for (size_t row = 0; !s && row < rows; row++) wanted[row] = true;
    before.wanted = wanted;
    const uint32_t last = rows ? d->queries[(rows - 1) / d->c->problem.attention.query_heads].sequence : 0;
    if (!s) s = spread_rows(d, last + 1, flat);
    if (!s) s = kvg_attention_unquantised(&d->c->problem, d->in.tensors, flat, &before);
    if (!s) {
        kvg_attention_measure(t->exact.out, before.out, before.out_bound, outputs, &out);
        kvg_attention_measure(t->exact.lse, before.lse, before.lse_bound, rows, &lse);
        t->codec_ratio = out.worst > lse.worst ? out.worst : lse.worst;
        t->codec_l2 = out.relative_l2;
        if (t->codec_ratio > 1)
            s = kvg_fail(KVG_ERR_INVALID, "the codec's own error is %g times its bound", t->codec_ratio);
    }
    free(flat[KVG_K].data);
    free(flat[KVG_V].data);
    free(wanted);
    close_answer(&before);
    return s;
}

static bool is_power_of_two(double x)
{
    int e;
    return frexp(x, &e) == 0.5;
}

/* A probe's answers, each with the bound of the exact answer. Under a profile, whose sums of weights go through the
 * same roundings as those of V, V = 1 must give exactly 1 (docs/spec/decode-contract.md section 7). */
static kvg_status ask_probe(kvg_truth *t)
{
    const kvg_question *d = t->question;
    const kvg_problem *p = &d->c->problem;
    const size_t dims = t->outputs / t->rows;
    const bool all_ones = d->c->fill == KVG_FILL_ONES || d->c->fill == KVG_FILL_COLD;
    if (!kvg_fill_is_probe(d->c->fill)) return KVG_OK;
    kvg_status s = open_answer(t->outputs, t->rows, &t->probe);
    if (s) return s;
    memcpy(t->probe.out_bound, t->exact.out_bound, t->outputs * sizeof *t->probe.out_bound);
    memcpy(t->probe.lse_bound, t->exact.lse_bound, t->rows * sizeof *t->probe.lse_bound);
    for (size_t row = 0; row < t->rows; row++) {
        kvg_probe_answer(d, row / p->attention.query_heads, (uint32_t)(row % p->attention.query_heads),
                         t->probe.out + row * dims, &t->probe.lse[row]);
        for (size_t i = row * dims; all_ones && p->profile != KVG_PROFILE_NONE && i < (row + 1) * dims; i++) {
            if (is_power_of_two(t->probe.out[i])) t->probe.out_bound[i] = 0;
        }
    }
    return KVG_OK;
}

kvg_status judge_know_numbers(kvg_truth *t, bool codec)
{
    const kvg_question *d = t->question;
    kvg_arithmetic arithmetic;
    const kvg_tensor out = kvg_problem_tensor(&d->c->problem, KVG_ROLE_OUT, KVG_K);
    t->outputs = out.bytes / kvg_dtype_bytes(out.dtype);
    t->rows = (size_t)out.shape[0] * out.shape[1];
    kvg_status s = kvg_decode_arithmetic(d->c, &arithmetic);
    if (!s) s = open_answer(t->outputs, t->rows, &t->exact);
    if (!s) s = kvg_attention_spec(&d->c->problem, d->in.tensors, &arithmetic, &t->exact);
    t->codec_ratio = t->codec_l2 = NAN;
    if (!s && codec) s = measure_codec(t);
    if (!s) promise_what_is_asked(t, &t->exact);
    return s ? s : ask_probe(t);
}

/* --- where --- */

/* The inputs of a problem whose row n of q is query `row` again, at position `from` + n of its sequence, and sees that
 * key alone: its LSE is the score. */
static kvg_status score_keys(const kvg_question *d, size_t row, int64_t from, uint32_t count, double *out, double *lse)
{
    kvg_problem p = d->c->problem;
    const bool ring = kvg_problem_blocks(&p) == KVG_BLOCKS_RING;
    const uint32_t sequence = d->queries[row].sequence;
    kvg_tensor in[KVG_MAX_TENSORS];
    int32_t *counts = calloc(2 * (size_t)p.paging.sequences, sizeof *counts);
    int32_t *lengths = counts + p.paging.sequences;
    const kvg_tensor *q = input(d, KVG_ROLE_Q);
    const size_t bytes = q->bytes / p.attention.queries;
    uint8_t *rows = malloc(count * bytes);
    kvg_status s = counts && rows ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "cannot hold %u scores", count);
    p.profile = KVG_PROFILE_NONE;
    p.attention.window = 1;
    p.attention.sinks = false;
    p.attention.queries = count;
    if (!s) memcpy(lengths, input(d, KVG_ROLE_LENGTHS)->data, input(d, KVG_ROLE_LENGTHS)->bytes);
    const kvg_source sources[] = {{.set = &d->in}, {.role = KVG_ROLE_Q, .data = {rows}},
                                  {.role = KVG_ROLE_LENGTHS, .data = {lengths}},
                                  {.role = KVG_ROLE_QUERY_LENGTHS, .data = {counts}}};
    kvg_gather(&p, d->op->inputs, sources, 4, in);
    for (uint32_t i = 0; !s && i < count; i++) memcpy(rows + i * bytes, (uint8_t *)q->data + row * bytes, bytes);
    if (!s) {
        counts[sequence] = (int32_t)count;
        if (!ring) lengths[sequence] = (int32_t)(from + count); /* a ring's says where keys lie */
        s = kvg_attention_spec(&p, in, NULL, &(kvg_attention_answer){.out = out, .lse = lse});
    }
    free(counts);
    free(rows);
    return s;
}

/* The position of the key that weighs most in a row; false where it sees none, or where finding it would take long. */
static bool find_heaviest(const kvg_truth *t, size_t row, uint32_t head, int64_t *position)
{
    enum { KEYS = 64 };
    const kvg_question *d = t->question;
    const kvg_query_row *q = &d->queries[row];
    const size_t heads = d->c->problem.attention.query_heads, dims = t->outputs / t->rows;
    const int32_t *lengths = input(d, KVG_ROLE_LENGTHS)->data;
    if (q->keys == 0 || (double)q->keys * (double)heads * d->c->problem.head_dim > 0x1p26) return false;
    const int64_t first = (int64_t)(d->source[q->first] % d->c->problem.tokens);
    const bool ring = kvg_problem_blocks(&d->c->problem) == KVG_BLOCKS_RING;
    const int64_t end = ring ? lengths[q->sequence] : first + q->keys;
    const uint32_t most = ring ? (uint32_t)(end - first) : KEYS;
    double *out = malloc(most * heads * (dims + 1) * sizeof *out), *lse = out + most * heads * dims, best = -INFINITY;
    bool found = false;
    for (int64_t from = first; out && from < first + q->keys; from += most) {
        const uint32_t count = end - from < most ? (uint32_t)(end - from) : most;
        if (score_keys(d, row, from, count, out, lse)) break;
        for (uint32_t i = 0; i < count && from + i < first + q->keys; i++) {
            if (found && !(lse[i * heads + head] > best)) continue;
            best = lse[i * heads + head];
            *position = from + i;
            found = true;
        }
    }
    free(out);
    return found;
}

/* "sequence 1, query 2 (position 40), head 5 (KV head 1)", then the key that weighs most and where it lies; of op merge
 * "token 3, head 5". */
static void describe_row(const kvg_truth *t, size_t index, char *out, size_t size)
{
    const kvg_question *d = t->question;
    const kvg_problem *p = &d->c->problem;
    if (!d->queries) {
        snprintf(out, size, "token %zu, head %zu", index / p->kv_heads, index % p->kv_heads);
        return;
    }
    const size_t row = index / p->attention.query_heads;
    const uint32_t head = (uint32_t)(index % p->attention.query_heads);
    const kvg_query_row *q = &d->queries[row];
    int64_t token;
    int n = snprintf(out, size, "sequence %u, query %u (position %lld), head %u (KV head %u)", q->sequence, q->number,
                     (long long)q->position, head, head / (p->attention.query_heads / p->kv_heads));
    if (n < 0 || (size_t)n >= size || !find_heaviest(t, row, head, &token)) return;
    const int32_t *table = input(d, KVG_ROLE_BLOCK_TABLE)->data;
    const uint32_t width = kvg_layout_table_width(p->layout, &p->paging, p->tokens);
    const int64_t column = kvg_problem_blocks(p) == KVG_BLOCKS_TABLE ? token / p->paging.block_tokens : 0;
    snprintf(out + n, size - (size_t)n, ", whose largest weight is token %lld (block %d, tile %lld, leaf %lld)",
             (long long)token, table[q->sequence * (size_t)width + (size_t)column],
             (long long)token / KVG_ATTENTION_TILE, (long long)token / kvg_profile_leaf(p->profile));
}

/* --- numbers --- */

/* The numbers of one output, to be freed; NULL without memory. */
static double *numbers_of(const kvg_tensor *t, size_t count)
{
    double *numbers = malloc(count * sizeof *numbers);
    if (numbers) kvg_load_numbers(t, count, numbers);
    return numbers;
}

/* One of the two outputs against what is right; `what` says what that is. */
static void judge_numbers(const kvg_truth *t, int which, const double *got, const kvg_attention_answer *right,
                          const char *what, kvg_attention_error *error, kvg_result *r)
{
    const size_t width = which == OUT ? kvg_dtype_bytes(t->question->c->problem.dtype) : sizeof(float);
    const double *want = which == OUT ? right->out : right->lse;
    const double *bound = which == OUT ? right->out_bound : right->lse_bound;
    const size_t count = which == OUT ? t->outputs : t->rows, dims = t->outputs / t->rows;
    kvg_attention_measure(got, want, bound, count, error);
    if (t->question->c->problem.profile == KVG_PROFILE_NONE) r->bytes.mismatched += error->outside * width;
    if (error->outside == 0) return;
    const size_t at = error->worst_at;
    char row[320], dim[32] = "";
    if (which == OUT) snprintf(dim, sizeof dim, "dim %zu of ", at % dims);
    if (r->verdict != KVG_VERDICT_FAIL) describe_row(t, which == OUT ? at / dims : at, row, sizeof row);
    kvg_result_fail(r, "%s: %zu of %zu outside %s, worst %g times its bound, %s%s: %.9g, not %.9g within %.3g",
                    which == OUT ? "out" : "lse", error->outside, count, what, error->worst, dim, row, got[at],
                    want[at], bound[at]);
}

/* The median ratio of the elements of out that have a bound; 0 if there are none. */
static double median_ratio(const kvg_truth *t, const double *got)
{
    double *ratios = malloc(t->outputs * sizeof *ratios), median = 0;
    size_t n = 0;
    for (size_t i = 0; ratios && i < t->outputs; i++) {
        if (t->exact.out_bound[i] < INFINITY)
            ratios[n++] = kvg_attention_ratio(got[i], t->exact.out[i], t->exact.out_bound[i]);
    }
    if (n) median = kvg_select_double(ratios, n, n / 2);
    free(ratios);
    return median;
}

void kvg_decode_judge(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r)
{
    double *got[2] = {numbers_of(&answer[OUT], t->outputs), numbers_of(&answer[LSE], t->rows)};
    kvg_decode_accuracy *a = &r->decode;
    kvg_attention_error out, lse;
    if (!got[OUT] || !got[LSE]) {
        r->verdict = KVG_VERDICT_ERROR;
        snprintf(r->detail, sizeof r->detail, "no memory for %zu numbers", t->outputs);
    } else {
        judge_numbers(t, OUT, got[OUT], &t->exact, "the exact answer", &out, r);
        judge_numbers(t, LSE, got[LSE], &t->exact, "the exact answer", &lse, r);
        const bool by_bits = t->question->c->problem.profile != KVG_PROFILE_NONE;
        for (size_t i = 0; !by_bits && i < kvg_case_asked(t->question->c); i++) r->bytes.compared += answer[i].bytes;
        *a = (kvg_decode_accuracy){
            .measured = t->outputs + t->rows > 0,
            .elements = t->outputs + t->rows,
            .unpromised = out.unpromised + lse.unpromised,
            .bits = by_bits,
            .worst_ratio = out.worst,
            .median_ratio = median_ratio(t, got[OUT]),
            .lse_ratio = lse.worst,
            .relative_l2 = out.relative_l2,
            .codec_ratio = t->codec_ratio,
            .codec_l2 = t->codec_l2,
            .probe_ratio = NAN,
        };
    }
    if (got[OUT] && got[LSE] && t->probe.out) {
        const char *what = "what the probe must give";
        judge_numbers(t, OUT, got[OUT], &t->probe, what, &out, r);
        judge_numbers(t, LSE, got[LSE], &t->probe, what, &lse, r);
        a->probe_ratio = out.worst > lse.worst ? out.worst : lse.worst;
    }
    free(got[OUT]);
    free(got[LSE]);
}

bool kvg_decode_is_near(const kvg_truth *t, const kvg_tensor *answer, const kvg_tensor *other)
{
    bool near = true;
    for (size_t i = OUT; i < kvg_case_asked(t->question->c) && near; i++) {
        const size_t count = i == OUT ? t->outputs : t->rows;
        double *a = numbers_of(&answer[i], count), *b = numbers_of(&other[i], count);
        kvg_attention_error error = {.outside = 1};
        for (size_t k = 0; a && b && k < count; k++) {
            if (isnan(a[k]) && isnan(b[k])) a[k] = b[k] = 0; /* alike, as where both saw a key that is NaN */
        }
        if (a && b) kvg_attention_measure(a, b, i == OUT ? t->exact.out_bound : t->exact.lse_bound, count, &error);
        near = error.outside == 0 && error.unpromised < count;
        free(a);
        free(b);
    }
    return near;
}

/* --- bits --- */

void kvg_decode_judge_bits(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r)
{
    const kvg_profile_info *profile = kvg_profile_get(t->question->c->problem.profile); /* NULL: the exact answer */
    for (size_t i = OUT; i < kvg_case_asked(t->question->c); i++) {
        const kvg_tensor *want = &t->expected.tensors[i], *have = &answer[i];
        const size_t width = kvg_dtype_bytes(want->dtype), count = want->bytes / width, dims = t->outputs / t->rows;
        const kvg_difference d = kvg_differ_numbers(want->dtype, want->data, have->data, count);
        r->bytes.compared += want->bytes;
        r->bytes.mismatched += d.bytes;
        if (d.wrong == 0) continue;
        char row[320], dim[32] = "";
        uint32_t codes[2] = {0};
        memcpy(&codes[0], (const uint8_t *)want->data + d.first * width, width);
        memcpy(&codes[1], (const uint8_t *)have->data + d.first * width, width);
        if (i == OUT) snprintf(dim, sizeof dim, "dim %zu of ", d.first % dims);
        if (r->verdict != KVG_VERDICT_FAIL) describe_row(t, i == OUT ? d.first / dims : d.first, row, sizeof row);
        const char *whose = profile ? profile->name : "the exact answer";
        kvg_result_fail(r, "%s: %zu of %zu numbers have other bits than %s, first at %s%s: expected 0x%0*X, got 0x%0*X",
                        i == OUT ? "out" : "lse", d.wrong, count, whose, dim, row, (int)(2 * width), codes[0],
                        (int)(2 * width), codes[1]);
    }
}

/* --- the rows of judges.def --- */

/* Bit by bit, but that NaNs have no bits. */
bool judge_same_numbers(const kvg_truth *t, const kvg_tensor_set *answer)
{
    kvg_result r = {.verdict = KVG_VERDICT_FAIL}; /* without words */
    kvg_decode_judge_bits(t, answer->tensors, &r);
    return r.bytes.mismatched == 0;
}

bool judge_near_numbers(const kvg_truth *t, const kvg_tensor_set *answer, const kvg_tensor_set *wrong)
{
    return kvg_decode_is_near(t, answer->tensors, wrong->tensors);
}

static bool has_bits_of(const kvg_problem *p, const kvg_truth *t, const kvg_tensor *answer, kvg_tensor *other)
{
    if (!kvg_problem_has_operands(p) || kvg_attention_profile(p, t->question->in.tensors, other)) return false;
    bool same = true;
    const size_t asked = kvg_profile_gives_lse(kvg_profile_get(p->profile)) ? kvg_case_asked(t->question->c) : LSE;
    for (size_t i = OUT; i < asked && same; i++) {
        const size_t count = other[i].bytes / kvg_dtype_bytes(other[i].dtype);
        same = kvg_differ_numbers(other[i].dtype, other[i].data, answer[i].data, count).wrong == 0;
    }
    return same;
}

void kvg_decode_name_profiles(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r)
{
    const kvg_problem *asked = &t->question->c->problem;
    kvg_tensor_set other = {0};
    size_t count;
    const kvg_profile_info *table = kvg_profile_table(&count);
    const char *before = "; the bits are those of ";
    char names[512] = "";
    if (kvg_set_alloc(asked, t->question->op->outputs, &other) == KVG_OK) {
        for (size_t i = 0; i < count; i++) {
            kvg_problem p = *asked;
            p.profile = table[i].profile;
            if (p.profile == asked->profile || !has_bits_of(&p, t, answer, other.tensors)) continue;
            const size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%s%s", before, table[i].name);
            before = ", ";
        }
    }
    if (names[0]) kvg_result_add(r, "%s", names + strlen("; "));
    kvg_set_free(&other);
}
