#include "harness/trial/explain/diagnosis_score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "harness/trial/judge/differences.h"
#include "support/clock.h"
#include "support/progress.h"

/* What a thread holds while it runs a hypothesis. */
typedef struct workspace {
    const kvg_scorer *c;
    kvg_tensor_set wrong;        /* what the hypothesis gives */
    kvg_attention_answer number; /* op decode by number: the same in binary64, and its bounds */
} workspace;

static void add(kvg_score *s, unsigned group, uint64_t explained, uint64_t introduced)
{
    s->e.explained += explained;
    s->e.introduced += introduced;
    s->gain[group] += explained;
    s->gain[group] -= introduced; /* wraps below 0; run_one settles it */
}

/* --- comparing as bits --- */

static unsigned different_bits(const uint8_t *a, const uint8_t *b, size_t width)
{
    unsigned n = 0;
    for (size_t k = 0; k < width; k++) {
        unsigned x = (unsigned)a[k] ^ b[k];
        x -= x >> 1 & 0x55;              /* counts of 2 bits each */
        x = (x & 0x33) + (x >> 2 & 0x33); /* of 4 */
        n += (x & 15) + (x >> 4);
    }
    return n;
}

enum { CHUNK = 64 };

/* The CHUNK bytes from `at` on are all there, and the same in three tensors. */
static bool all_alike(const kvg_tensor *a, const kvg_tensor *b, const kvg_tensor *c, size_t at)
{
    const uint8_t *x = a->data;
    return at + CHUNK <= a->bytes && memcmp(x + at, (const uint8_t *)b->data + at, CHUNK) == 0 &&
           memcmp(x + at, (const uint8_t *)c->data + at, CHUNK) == 0;
}

/* One output under a hypothesis, against the answer. */
static void score_bits(const workspace *scene, size_t index, kvg_score *s)
{
    const kvg_scorer *c = scene->c;
    const kvg_tensor *want = &c->q->expected[index], *have = &c->q->answer[index];
    const kvg_tensor *out = &scene->wrong.tensors[index];
    const size_t width = kvg_places_unit(c->places, index);
    if (!have->data) return;
    for (size_t i = 0; i < want->bytes; i += width) {
        if (i % CHUNK == 0 && all_alike(want, have, out, i)) { /* most of a tensor is */
            s->e.agreeing += 8 * CHUNK;
            i += CHUNK - width;
            continue;
        }
        const uint8_t *e = (const uint8_t *)want->data + i, *a = (const uint8_t *)have->data + i;
        const uint8_t *w = (const uint8_t *)out->data + i;
        const unsigned wrong = different_bits(e, a, width), off = different_bits(w, a, width);
        s->e.agreeing += 8 * width - off;
        s->e.exact = s->e.exact && off == 0;
        s->reached = s->reached || memcmp(e, w, width) != 0;
        if (wrong && off == 0) add(s, kvg_places_group(c->places, index, i / width), wrong, 0);
        if (!wrong && off) add(s, kvg_places_group(c->places, index, i / width), 0, off);
    }
}

/* --- comparing as numbers --- */

/* What a kernel's last steps in f32 may do to a number of its own: 16 of them. */
static const double KERNEL_ROUNDING = 0x1p-20;

/* |a - b| / limit; two NaNs are alike. */
static double ratio_of(double a, double b, double limit)
{
    return isnan(a) && isnan(b) ? 0 : kvg_attention_ratio(a, b, limit);
}

static double largest(const double *x, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        if (fabs(x[i]) > most && fabs(x[i]) < INFINITY) most = fabs(x[i]);
    }
    return most;
}

/* For the numbers of a row that a wrong kernel gave. */
static double kernel_limit(const kvg_scorer *c, size_t index, const double *row_numbers, size_t row)
{
    const kvg_kernel_bound *b = &c->kernel[row];
    if (index) return 2 * b->lse + KERNEL_ROUNDING * largest(row_numbers, 1);
    return 2 * fmax(b->out, b->relative * largest(row_numbers, c->q->truth->outputs / c->q->truth->rows));
}

/* How many times nearer than the exact number that of a hypothesis must be: a hypothesis that reads noise has limits
 * within which any answer lies. With 4 the best explanation of a constant answer has 31 %, over four constants and the
 * decode case of unit.diagnosis in every format; without it 82 %. No defect planted there loses its name. */
static const double NEARER = 4;

/* One output. A number counts as explained if it is wrong, would be wrong under the hypothesis, is as near to that as a
 * right implementation of the wrong question would have to be, and is much nearer than to the exact number. */
static void score_numbers(const workspace *scene, size_t index, bool bounded, kvg_score *s)
{
    const kvg_scorer *c = scene->c;
    const kvg_truth *t = c->q->truth;
    const double *exact = index ? t->exact.lse : t->exact.out;
    const double *bound = index ? t->exact.lse_bound : t->exact.out_bound;
    const double *out = index ? scene->number.lse : scene->number.out;
    const double *own = index ? scene->number.lse_bound : scene->number.out_bound;
    const size_t count = index ? t->rows : t->outputs, dims = index ? 1 : t->outputs / t->rows;
    if (!c->got[index]) return;
    for (size_t i = 0; i < count; i++) {
        const double got = c->got[index][i];
        const double other = bounded ? own[i] : kernel_limit(c, index, out + i / dims * dims, i / dims);
        const double limit = other > bound[i] ? other : bound[i];
        const bool wrong = kvg_attention_ratio(got, exact[i], bound[i]) > 1;
        /* of numbers that are NaN or Inf nothing more is promised */
        const bool lost = index == 0 && !isfinite(out[i]) && isfinite(exact[i]);
        const bool moved = lost || kvg_attention_ratio(out[i], exact[i], bounded ? limit : bound[i]) > 1;
        const double off = lost ? (isfinite(got) ? INFINITY : 0) : ratio_of(got, out[i], limit);
        s->reached = s->reached || moved;
        s->e.agreeing += off <= 1;
        s->e.exact = s->e.exact && off <= 1;
        if (off > s->e.distance) s->e.distance = off;
        const bool nearer = lost || NEARER * off <= ratio_of(got, exact[i], limit);
        if (wrong && moved && nearer && off <= 1) add(s, (unsigned)index, 1, 0);
        if (!wrong && moved && off > 1) add(s, (unsigned)index, 0, 1);
    }
}

/* The outputs in binary64: of an exact answer to the wrong question, with the bounds of the case's class, or of what a
 * wrong kernel gave, without. */
static kvg_status run_numbers(workspace *scene, const kvg_explanation *e, bool *bounded)
{
    const kvg_scorer *c = scene->c;
    const kvg_tensor *in = c->q->data->in.tensors;
    kvg_status s;
    *bounded = !kvg_wrong_is_flash(e->wrong, e->count) &&
               !kvg_wrong_changes_outputs(e->wrong, e->count, c->problem->op);
    if (*bounded) {
        kvg_wrong_inputs wrong;
        s = kvg_wrong_apply(e->wrong, e->count, c->problem, in, &wrong);
        if (s) return s;
        wrong.problem.profile = KVG_PROFILE_NONE;
        s = kvg_attention_spec(&wrong.problem, wrong.in, &c->class, &scene->number);
        kvg_wrong_inputs_free(&wrong);
        return s;
    }
    kvg_problem exact = *c->problem;
    exact.profile = KVG_PROFILE_NONE;
    kvg_question_prefill(c->q->data, &scene->wrong);
    s = kvg_wrong_run(e->wrong, e->count, &exact, in, scene->wrong.tensors);
    if (s) return s;
    kvg_load_numbers(&scene->wrong.tensors[0], c->q->truth->outputs, scene->number.out);
    kvg_load_numbers(&scene->wrong.tensors[1], c->q->truth->rows, scene->number.lse);
    return KVG_OK;
}

/* --- one hypothesis --- */

static uint64_t hash_of(const workspace *scene)
{
    const kvg_evidence *q = scene->c->q;
    uint64_t all[KVG_MAX_TENSORS] = {0};
    size_t n = 0;
    if (q->truth) return kvg_hash64(scene->number.out, (q->truth->outputs + q->truth->rows) * sizeof(double));
    for (size_t i = 0; i < scene->wrong.count; i++) {
        const kvg_tensor *t = &scene->wrong.tensors[i];
        if (q->answer[i].data) all[n++] = kvg_hash64(t->data, t->bytes);
    }
    return kvg_hash64(all, n * sizeof *all);
}

/* A few wrong numbers fit one of thousands of pairs: the 6 of a decode that multiplied V's scale into rounded outputs
 * fitted two pairs of 2,981, and neither was the cause. */
static bool by_chance(const kvg_scorer *c, const kvg_explanation *e)
{
    enum { LEAST = 16 };
    return c->q->truth && e->count > 1 && e->explained < LEAST;
}

static kvg_status run_one(workspace *scene, kvg_score *s)
{
    const kvg_scorer *c = scene->c;
    kvg_status status;
    bool bounded;
    s->e.exact = true;
    if (c->q->truth) {
        status = run_numbers(scene, &s->e, &bounded);
        for (size_t i = 0; i < 2 && !status; i++) score_numbers(scene, i, bounded, s);
    } else {
        kvg_question_prefill(c->q->data, &scene->wrong);
        status = kvg_wrong_run(s->e.wrong, s->e.count, c->problem, c->q->data->in.tensors, scene->wrong.tensors);
        for (size_t i = 0; i < scene->wrong.count && !status; i++) score_bits(scene, i, s);
    }
    /* two defects may make no problem, or one that the reference refuses: that says nothing about this case */
    if (status == KVG_ERR_UNIMPLEMENTED || status == KVG_ERR_INVALID) return KVG_OK;
    if (status) return status;
    for (int i = 0; i < KVG_PLACE_GROUPS; i++) {
        if (s->gain[i] >> 63) s->gain[i] = 0; /* below 0 */
    }
    s->ran = !by_chance(c, &s->e);
    s->e.hash = hash_of(scene);
    s->e.exact = s->e.exact && 2 * s->e.explained > c->wrong_bits;
    s->e.same_bits = s->e.exact && !c->q->truth;
    return KVG_OK;
}

static kvg_status open_scene(const kvg_scorer *c, workspace *scene)
{
    const kvg_truth *t = c->q->truth;
    scene->c = c;
    kvg_status s = kvg_set_alloc(c->problem, c->q->data->op->outputs, &scene->wrong);
    if (s || !t) return s;
    double *numbers = malloc(2 * (t->outputs + t->rows) * sizeof *numbers);
    if (!numbers) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu numbers", t->outputs);
    scene->number = (kvg_attention_answer){
        .out = numbers,
        .lse = numbers + t->outputs,
        .out_bound = numbers + t->outputs + t->rows,
        .lse_bound = numbers + 2 * t->outputs + t->rows,
    };
    return KVG_OK;
}

static void close_scene(workspace *scene)
{
    free(scene->number.out);
    kvg_set_free(&scene->wrong);
}

kvg_status kvg_scorer_run(const kvg_scorer *c, kvg_score *scores, size_t count, const char *noun, double until)
{
    bool failed = false;
    size_t names, begun = 0;
    kvg_defect_named(&names); /* is made on first use, which must not be in several threads at once */
#pragma omp parallel reduction(|| : failed)
    {
        workspace scene = {0};
        failed = open_scene(c, &scene) != KVG_OK;
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < count; i++) {
            size_t before;
#pragma omp atomic capture
            before = begun++;
            kvg_progress_part(before, count, noun);
            scores[i].tried = !failed && kvg_clock_seconds() < until;
            if (scores[i].tried) failed = run_one(&scene, &scores[i]) != KVG_OK;
        }
        close_scene(&scene);
    }
    return failed ? kvg_fail(KVG_ERR_MEMORY, "a known-wrong answer could not be computed: no memory") : KVG_OK;
}

/* --- what is the same for all --- */

static void raise(kvg_kernel_bound *b, const kvg_kernel_bound *by)
{
    b->out = fmax(b->out, by->out);
    b->relative = fmax(b->relative, by->relative);
    b->lse = fmax(b->lse, by->lse);
}

/* The bounds of one row: those of the case's class and those of the harness's kernel. */
static kvg_kernel_bound bound_of_row(const kvg_truth *t, const kvg_attention_answer *fine, size_t row)
{
    const size_t dims = t->outputs / t->rows, at = row * dims;
    const double most = largest(t->exact.out + at, dims), lse = t->exact.lse_bound[row] + fine->lse_bound[row];
    kvg_kernel_bound b = {.out = largest(t->exact.out_bound + at, dims) + largest(fine->out_bound + at, dims)};
    if (most > 0) b.relative = b.out / most;
    if (lse < INFINITY) b.lse = lse;
    return b;
}

/* Which rows of q read the same keys: those of a sequence and KV head. A row of op merge is alone. */
static size_t group_of(const kvg_scorer *c, size_t row)
{
    const kvg_query_row *queries = c->q->data->queries;
    const size_t heads = c->problem->attention.query_heads, kv_heads = c->problem->kv_heads;
    return queries ? queries[row / heads].sequence * kv_heads + row % heads / (heads / kv_heads) : row;
}

/* What a wrong kernel gives has no bound of its own, as nobody knows the exact answer to its question. It is taken to
 * be twice the largest of the rows of q that read the same keys; where those have none, of all. */
static kvg_status bound_kernels(kvg_scorer *c, const kvg_attention_answer *fine)
{
    const kvg_truth *t = c->q->truth;
    const size_t pairs = (size_t)c->problem->paging.sequences * c->problem->kv_heads;
    const size_t groups = c->q->data->queries ? pairs : t->rows;
    kvg_kernel_bound all = {0}, *most = calloc(groups, sizeof *most);
    c->kernel = calloc(t->rows, sizeof *c->kernel);
    if (!most || !c->kernel) {
        free(most);
        return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu bounds", t->rows);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (size_t row = 0; row < t->rows; row++) {
            kvg_kernel_bound *of = &most[group_of(c, row)];
            if (pass == 1) {
                c->kernel[row] = of->out > 0 ? *of : all;
                continue;
            }
            const kvg_kernel_bound b = bound_of_row(t, fine, row);
            raise(of, &b);
            raise(&all, &b);
        }
    }
    free(most);
    return KVG_OK;
}

static kvg_status open_kernel(kvg_scorer *c)
{
    workspace scene = {0};
    kvg_flash plain;
    kvg_problem exact = *c->problem;
    kvg_flash_init(c->problem, KVG_FLASH_RIGHT, &plain);
    plain.class.tile = plain.tile;
    exact.profile = KVG_PROFILE_NONE;
    kvg_status s = open_scene(c, &scene);
    if (!s) s = kvg_attention_spec(&exact, c->q->data->in.tensors, &plain.class, &scene.number);
    if (!s) s = bound_kernels(c, &scene.number);
    close_scene(&scene);
    return s;
}

static kvg_status open_numbers(kvg_scorer *c)
{
    const kvg_truth *t = c->q->truth;
    kvg_status s = kvg_decode_arithmetic(c->q->data->c, &c->class);
    if (!s) s = open_kernel(c);
    for (size_t i = 0; i < 2 && !s; i++) {
        const size_t count = i ? t->rows : t->outputs;
        if (!c->q->answer[i].data) continue;
        c->got[i] = malloc(count * sizeof *c->got[i]);
        if (!c->got[i]) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu numbers", count);
        kvg_load_numbers(&c->q->answer[i], count, c->got[i]);
        for (size_t k = 0; k < count; k++) {
            const double exact = (i ? t->exact.lse : t->exact.out)[k];
            const double bound = (i ? t->exact.lse_bound : t->exact.out_bound)[k];
            c->wrong_bits += kvg_attention_ratio(c->got[i][k], exact, bound) > 1;
        }
        c->all_bits += count;
    }
    return s;
}

kvg_status kvg_scorer_open(const kvg_evidence *q, const kvg_places *places, kvg_scorer *out)
{
    *out = (kvg_scorer){.q = q, .places = places, .problem = &q->data->c->problem};
    if (q->truth) return open_numbers(out);
    for (size_t i = 0; i < places->outputs; i++) {
        const kvg_tensor *want = &q->expected[i], *have = &q->answer[i];
        if (!have->data) continue;
        out->wrong_bits += different_bits(want->data, have->data, want->bytes);
        out->all_bits += 8 * want->bytes;
    }
    return KVG_OK;
}

void kvg_scorer_close(kvg_scorer *c)
{
    free(c->kernel);
    free(c->got[0]);
    free(c->got[1]);
}
