#include "harness/trial/judge/fit_scales.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/question/describe.h"
#include "harness/trial/wrong/flash_rows.h"
#include "support/sort.h"

/* A side's rows, as they are right and as they were answered. */
typedef struct scene {
    const kvg_question *d;
    kvg_side side;
    const kvg_format_info *format;
    kvg_tensor codes[2], scales[2]; /* right, got */
    const kvg_tensor *before;       /* the scales that stood there; NULL: none did */
    uint32_t dim, span;             /* elements of a row, and of a scale */
    size_t rows, each;              /* bytes of a scale, or of a row's parameters */
    double loss;                    /* relative, of a decoded number */
} scene;

enum { RIGHT, GOT, BEFORE };

/* --- numbers --- */

static kvg_status decode(const scene *s, uint32_t count, const uint8_t *codes, const uint8_t *scales, float *to)
{
    return kvg_flash_dequantise(&s->d->rows, s->side, s->d->tensor_scale[s->side], count, codes, scales, to);
}

kvg_status judge_fit_decode_codes(const kvg_question *d, kvg_side side, const uint8_t *scales, float *to)
{
    const kvg_format_info *f = kvg_format_get(d->rows.storage[side].format);
    const uint32_t count = 1u << f->element_bits, dim = d->rows.head_dim;
    const size_t bytes = (size_t)dim * f->element_bits / 8;
    const size_t scale_bytes = f->row_param_bytes + (f->block ? dim / f->block * f->block_scale_bytes : 0);
    uint8_t *codes = malloc(count * bytes), *same = malloc(count * scale_bytes + 1);
    kvg_status status = codes && same ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "cannot hold %u rows", count);
    for (uint32_t c = 0; c < count && !status; c++) {
        memset(codes + c * bytes, f->element_bits == 4 ? (int)(c * 0x11) : (int)c, bytes);
        if (scale_bytes) memcpy(same + c * scale_bytes, scales, scale_bytes);
    }
    if (!status) status = kvg_flash_dequantise(&d->rows, side, d->tensor_scale[side], count, codes, same, to);
    free(codes);
    free(same);
    return status;
}

/* What stands for the size of a scale, of element i: the number of the code that is the largest beside the right scale.
 * Of affine rows, whose numbers have an offset, from the smallest number to the largest. NaN: there is none. */
static void measure_scale(const scene *s, const float *const table[2], uint32_t i, double size[2])
{
    const uint32_t count = 1u << s->format->element_bits;
    uint32_t low = 0, high = 0;
    for (uint32_t c = 0; c < count; c++) {
        const float x = table[RIGHT][(size_t)c * s->dim + i];
        if (x < table[RIGHT][(size_t)low * s->dim + i]) low = c;
        if (x > table[RIGHT][(size_t)high * s->dim + i]) high = c;
    }
    for (int k = RIGHT; k <= GOT; k++) {
        const double from = s->format->scales == KVG_SCALES_AFFINE ? table[k][(size_t)low * s->dim + i] : 0;
        size[k] = table[k][(size_t)high * s->dim + i] - from;
    }
}

/* --- what is found --- */

enum { ENOUGH = 32, MOST_SCALES = ENOUGH + KVG_MAX_HEAD_DIM };

typedef struct findings {
    size_t scales, elements; /* wrong scales; elements beside them */
    size_t near;             /* elements whose code is the nearest one */
    size_t usual;            /* those whose right code is the nearest one: not of all that saturate */
    size_t lost;             /* scales that are Inf or NaN, and were written */
    size_t sized, measured;             /* scales that are numbers; those that have a factor */
    double sizes[MOST_SCALES];
    double factors[MOST_SCALES];        /* what each is times the right one */
} findings;

static void see_scale(const double size[2], bool written, findings *f)
{
    f->scales++;
    if (isfinite(size[GOT])) f->sizes[f->sized++] = size[GOT];
    f->lost += written && !isfinite(size[GOT]);
    const double factor = size[GOT] / size[RIGHT];
    if (isfinite(factor)) f->factors[f->measured++] = factor;
}

/* A row of which `wrong` marks the scales that are. */
static kvg_status see_row(const scene *s, size_t row, const bool *wrong, findings *f)
{
    const size_t bytes = (size_t)s->codes[RIGHT].shape[2], of_scales = (size_t)s->scales[RIGHT].shape[2];
    const size_t all = (size_t)s->dim << s->format->element_bits;
    const kvg_problem *p = &s->d->rows;
    const uint8_t *values = kvg_set_tensor(&s->d->values, KVG_ROLE_VALUES, s->side)->data;
    const uint8_t *codes[2], *scales[2];
    float x[KVG_MAX_HEAD_DIM], right[KVG_MAX_HEAD_DIM], got[KVG_MAX_HEAD_DIM];
    float *table[2] = {malloc(all * sizeof(float)), malloc(all * sizeof(float))};
    kvg_status status = table[0] && table[1] ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu numbers", all);
    for (int i = RIGHT; i <= GOT; i++) {
        codes[i] = (const uint8_t *)s->codes[i].data + row * bytes;
        scales[i] = (const uint8_t *)s->scales[i].data + row * of_scales;
        if (!status) status = judge_fit_decode_codes(s->d, s->side, scales[i], table[i]);
    }
    if (!status) status = decode(s, 1, codes[GOT], scales[GOT], got);
    if (!status) status = decode(s, 1, codes[RIGHT], scales[RIGHT], right);
    if (!status) kvg_reference_load(p->dtype, values + row * s->dim * kvg_dtype_bytes(p->dtype), s->dim, x);
    for (uint32_t i = 0; i < s->dim && !status; i++) {
        double best[2] = {INFINITY, INFINITY};
        if (!wrong[i / s->span]) continue;
        if (i % s->span == 0) {
            double size[2];
            const size_t at = row * of_scales + i / s->span * s->each;
            const bool kept = s->before && memcmp((const uint8_t *)s->before->data + at,
                                                  (const uint8_t *)s->scales[GOT].data + at, s->each) == 0;
            measure_scale(s, (const float *const *)table, i, size);
            see_scale(size, !kept, f);
        }
        if (!isfinite(x[i])) continue;
        for (size_t c = 0; c < 1u << s->format->element_bits; c++) {
            for (int k = RIGHT; k <= GOT; k++) best[k] = fmin(best[k], fabs((double)table[k][c * s->dim + i] - x[i]));
        }
        f->elements++;
        f->near += fabs((double)got[i] - x[i]) <= best[GOT] + s->loss * fabs((double)x[i]);
        f->usual += fabs((double)right[i] - x[i]) <= best[RIGHT] + s->loss * fabs((double)x[i]);
    }
    free(table[0]);
    free(table[1]);
    return status;
}

static kvg_status see_rows(const scene *s, findings *f)
{
    const size_t bytes = (size_t)s->scales[RIGHT].shape[2];
    kvg_status status = KVG_OK;
    for (size_t row = 0; row < s->rows && f->scales < ENOUGH && !status; row++) {
        bool wrong[KVG_MAX_HEAD_DIM] = {false}, any = false;
        for (size_t i = 0; i < bytes; i++) {
            const size_t at = row * bytes + i;
            if (((const uint8_t *)s->scales[RIGHT].data)[at] == ((const uint8_t *)s->scales[GOT].data)[at]) continue;
            wrong[i / s->each] = any = true;
        }
        if (any) status = see_row(s, row, wrong, f);
    }
    return status;
}

/* --- words --- */

enum { SIDE_TEXT = 160 }; /* bytes of what is said of a side */

/* How far two roundings of a scale are apart, relative. */
static double rounding_of(kvg_scales scales)
{
    switch (scales) {
    case KVG_SCALES_E4M3: return 0x1p-3;
    case KVG_SCALES_F16: return 0x1p-10;
    case KVG_SCALES_AFFINE: return 0x1p-6; /* numbers of the model type, of which two are subtracted */
    case KVG_SCALES_F32: return 0x1p-20;
    case KVG_SCALES_E8M0:
    case KVG_SCALES_NONE: return 0;
    }
    return 0;
}

static void print_factor(const scene *s, double factor, double off, char *out, size_t size)
{
    const double g = s->format->tensor_scale ? (double)s->d->tensor_scale[s->side] : 1;
    const struct {
        const char *name;
        double value;
    } known[] = {{"the tensor scale", g}, {"1 / the tensor scale", 1 / g}, {"the tensor scale's square", g * g}};
    for (size_t i = 0; i < sizeof known / sizeof known[0] && g != 1; i++) {
        if (!(fabs(known[i].value - factor) <= off * fabs(factor))) continue;
        kvg_describe_add(out, size, ": most are %s times the right one", known[i].name);
        return;
    }
    kvg_describe_add(out, size, ": most are %.*g times the right one", off > 0x1p-8 ? 2 : 4, factor);
}

/* How scales differ from the right ones; nothing where that is less than two roundings, or where they are so few that
 * they are alike by chance. */
static void print_scales(const scene *s, findings *f, char *out, size_t size)
{
    enum { FEWEST = 8 };
    const double off = rounding_of(s->format->scales);
    const double middle = f->measured ? kvg_select_double(f->factors, f->measured, f->measured / 2) : 1;
    size_t equal = 0, alike = 0, smaller = 0, larger = 0;
    if (f->scales < FEWEST) return;
    const double usual = f->sized ? kvg_select_double(f->sizes, f->sized, f->sized / 2) : 0;
    for (size_t i = 0; i < f->sized; i++) equal += f->sizes[i] == usual;
    for (size_t i = 0; i < f->measured; i++) {
        alike += fabs(f->factors[i] - middle) <= off * fabs(middle);
        smaller += f->factors[i] < 1 && f->factors[i] >= 0;
        larger += f->factors[i] > 1;
    }
    if (10 * equal >= 9 * f->scales) kvg_describe_add(out, size, ": most are the same one");
    else if (10 * alike >= 9 * f->scales && fabs(middle - 1) > off) print_factor(s, middle, off, out, size);
    else if (smaller == f->scales) kvg_describe_add(out, size, ": each is smaller than the right one");
    else if (larger == f->scales) kvg_describe_add(out, size, ": each is larger than the right one");
}

/* `only`: every code of the case is the right one. Many scales that differ alike tell by themselves, whatever codes
 * are. */
static void print(const scene *s, bool only, findings *f, char *out, size_t size)
{
    enum { FEWEST = 4, MANY = 16 };
    char how[96] = "";
    if (f->scales >= FEWEST && 10 * f->lost >= 9 * f->scales) {
        kvg_describe_add(out, size, "scales are wrong: most are Inf or NaN");
        return;
    }
    const bool near = 4 * f->near >= 3 * f->elements && 20 * f->near + f->elements >= 20 * f->usual;
    if (f->scales < FEWEST || f->elements == 0) return;
    print_scales(s, f, how, sizeof how);
    if (only) kvg_describe_add(out, size, "only scales are wrong%s", how);
    else if (near) kvg_describe_add(out, size, "scales are wrong, codes are the nearest ones for them%s", how);
    else if (how[0] && f->scales >= MANY) kvg_describe_add(out, size, "scales are wrong%s", how);
}

/* --- the whole --- */

/* *wrong: how many scales are. */
static kvg_status find(scene *s, const kvg_tensor_set rows[3], bool only, size_t *wrong, char *out, size_t size)
{
    findings f = {0};
    const kvg_problem *p = &s->d->rows;
    s->format = kvg_format_get(p->storage[s->side].format);
    if (s->format->scales == KVG_SCALES_NONE || s->format->element_bits > 8) return KVG_OK;
    for (int i = RIGHT; i <= GOT; i++) {
        s->codes[i] = *kvg_set_tensor(&rows[i], KVG_ROLE_CODES, s->side);
        s->scales[i] = *kvg_set_tensor(&rows[i], KVG_ROLE_SCALES, s->side);
    }
    if (rows[BEFORE].count) s->before = kvg_set_tensor(&rows[BEFORE], KVG_ROLE_SCALES, s->side);
    s->dim = p->head_dim;
    s->span = s->format->block ? s->format->block : s->dim;
    s->each = s->format->block ? s->format->block_scale_bytes : s->format->row_param_bytes;
    s->rows = (size_t)p->tokens * p->kv_heads;
    const bool rounded = s->format->scales == KVG_SCALES_AFFINE && p->dtype != KVG_DTYPE_F32;
    s->loss = !rounded ? 0x1p-20 : p->dtype == KVG_DTYPE_BF16 ? 0x1p-8 : 0x1p-11;
    const kvg_status status = see_rows(s, &f);
    if (!status) print(s, only, &f, out, size);
    *wrong = f.scales;
    return status;
}

/* What both sides share comes first: "scales are wrong; K: most are 2 times the right one". */
static void print_sides(char of[2][SIDE_TEXT], const size_t wrong[2], char *out, size_t size)
{
    const size_t shared = strcspn(of[KVG_K], ":");
    const bool alike = shared == strcspn(of[KVG_V], ":") && memcmp(of[KVG_K], of[KVG_V], shared) == 0;
    const bool same = strcmp(of[KVG_K], of[KVG_V]) == 0;
    if (alike) kvg_describe_add(out, size, "%.*s", same ? SIDE_TEXT : (int)shared, of[KVG_K]);
    for (int side = KVG_K; side <= KVG_V && !same; side++) {
        const char *own = of[side] + (alike ? shared : 0);
        const bool few = !of[1 - side][0] && wrong[1 - side]; /* of the other side: they say nothing */
        if (!own[0]) continue;
        if (few) kvg_describe_add(out, size, "%s", own);
        else kvg_describe_add(out, size, "%s%c%s%s", out[0] ? "; " : "", "KV"[side], alike ? "" : ": ", own);
    }
}

bool judge_fit_same_tensor(const kvg_tensor_set rows[2], kvg_role role, kvg_side side)
{
    const kvg_tensor *a = kvg_set_tensor(&rows[RIGHT], role, side), *b = kvg_set_tensor(&rows[GOT], role, side);
    return a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0;
}

kvg_status judge_fit_scales(const kvg_evidence *q, char *out, size_t size)
{
    const kvg_question *d = q->data;
    const kvg_problem *p = &d->c->problem;
    kvg_tensor_set rows[3] = {{.count = 0}, {.count = 0}, {.count = 0}};
    out[0] = 0;
    const bool encodes = kvg_roles_index(d->op->inputs, KVG_ROLE_VALUES, KVG_K) >= 0;
    if (!encodes || !kvg_differ_answered(q->expected, q->answer, kvg_roles_tensors(d->op->outputs))) return KVG_OK;
    kvg_status status = kvg_question_codes(d, q->expected, &rows[RIGHT]);
    if (!status) status = kvg_question_codes(d, q->answer, &rows[GOT]);
    if (!status && d->before.count) status = kvg_question_codes(d, d->before.tensors, &rows[BEFORE]);
    bool only = !status;
    for (int side = KVG_K; side < kvg_problem_sides(p) && only; side++)
        only = judge_fit_same_tensor(rows, KVG_ROLE_CODES, (kvg_side)side);
    char of[2][SIDE_TEXT] = {"", ""};
    size_t wrong[2] = {0, 0};
    for (int side = KVG_K; side < kvg_problem_sides(p) && !status; side++)
        status = find(&(scene){.d = d, .side = (kvg_side)side}, rows, only, &wrong[side], of[side], sizeof of[side]);
    if (!status) print_sides(of, wrong, out, size);
    for (int i = RIGHT; i <= BEFORE; i++) kvg_set_free(&rows[i]);
    return status;
}
