#include "harness/trial/judge/separation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/judge/judge_decode.h"

static bool is_by_bits(const kvg_separation_scene *s)
{
    return s->truth->question->c->problem.profile != KVG_PROFILE_NONE;
}

/* Rows are those of a query and a query head. */
static size_t count_rows(const kvg_separation_scene *s)
{
    const kvg_problem *p = &s->truth->question->c->problem;
    return (size_t)p->attention.queries * p->attention.query_heads;
}

static kvg_status open_fine(kvg_separation_scene *s)
{
    const size_t outputs = s->truth->outputs, rows = s->truth->rows;
    double *numbers = malloc(2 * (outputs + rows) * sizeof *numbers);
    s->known = calloc(2 * count_rows(s), sizeof *s->known);
    s->asked = s->known + count_rows(s);
    s->fine = (kvg_attention_answer){.out = numbers, .lse = numbers + outputs, .out_bound = numbers + outputs + rows,
                                     .lse_bound = numbers + 2 * outputs + rows, .wanted = s->asked};
    return numbers && s->known ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu bounds", outputs + rows);
}

/* Makes the fine bounds of the rows of `wanted` known. */
static kvg_status know_fine(kvg_separation_scene *s, const bool *wanted)
{
    const kvg_question *data = s->truth->question;
    kvg_flash plain;
    kvg_flash_init(&data->c->problem, KVG_FLASH_RIGHT, &plain);
    plain.class.tile = plain.tile;
    for (size_t i = 0; i < count_rows(s); i++) {
        s->asked[i] = (!wanted || wanted[i]) && !s->known[i];
        s->known[i] |= s->asked[i];
    }
    return kvg_attention_spec(&data->c->problem, data->in.tensors, &plain.class, &s->fine);
}

kvg_status kvg_separation_open(const kvg_truth *truth, kvg_flash_kept *kept, kvg_separation_scene *s)
{
    const kvg_question *data = truth->question;
    const kvg_problem *p = &data->c->problem;
    kvg_flash right;
    kvg_flash_init(p, KVG_FLASH_RIGHT, &right);
    right.kept = kept;
    *s = (kvg_separation_scene){.truth = truth};
    kvg_status status = is_by_bits(s) ? KVG_OK : open_fine(s);
    if (!status) status = kvg_set_alloc(p, data->op->outputs, &s->plain);
    return status ? status : kvg_flash_run(p, data->in.tensors, &right, s->plain.tensors);
}

void kvg_separation_close(kvg_separation_scene *s)
{
    free(s->fine.out);
    free(s->known);
    kvg_set_free(&s->plain);
}

/* --- distances --- */

/* Bits that differ in the rows of `wanted`. */
static uint64_t changed_bits(const kvg_separation_scene *s, size_t tensors, const kvg_tensor_set *a,
                             const kvg_tensor_set *b, const bool *wanted)
{
    uint64_t bits = 0;
    for (size_t t = 0; t < tensors; t++) {
        const size_t rows = count_rows(s), bytes = rows ? a->tensors[t].bytes / rows : 0;
        for (size_t row = 0; row < rows; row++) {
            if (wanted && !wanted[row]) continue;
            const uint8_t *x = (const uint8_t *)a->tensors[t].data + row * bytes;
            const uint8_t *y = (const uint8_t *)b->tensors[t].data + row * bytes;
            if (memcmp(x, y, bytes) == 0) continue;
            for (size_t i = 0; i < bytes; i++) {
                for (unsigned left = x[i] ^ y[i]; left; left &= left - 1) bits++;
            }
        }
    }
    return bits;
}

/* Raises *distance to the largest |number - right| / bound of numbers at .. at + count - 1 of a tensor, of those that
 * lie further from the exact ones than the roundings of f32 may take them, which `fine` says. Above 1 the distance does
 * not depend on `fine`, which is not read for a distance that began there. Most numbers are right, and need no
 * division. */
static void measure_numbers(const kvg_tensor *t, size_t at, size_t count, const double *exact, const double *fine,
                            const double *right, const double *bound, double *distance)
{
    enum { CHUNK = 256 };
    float numbers[CHUNK];
    const size_t width = kvg_dtype_bytes(t->dtype), end = at + count;
    for (size_t i = at; i < end; i++) {
        if ((i - at) % CHUNK == 0) {
            const size_t left = end - i < CHUNK ? end - i : CHUNK;
            kvg_reference_load(t->dtype, (const uint8_t *)t->data + i * width, (uint32_t)left, numbers);
        }
        const double x = numbers[(i - at) % CHUNK], off = fabs(x - right[i]);
        if (!(bound[i] < INFINITY)) continue; /* nothing is promised */
        const bool within = off <= bound[i]; /* Inf * 0 is NaN */
        if (off <= *distance * bound[i] || (within && *distance >= 1)) continue; /* no further */
        if (within && fabs(x - exact[i]) <= fine[i]) continue;
        const double ratio = kvg_attention_ratio(x, right[i], bound[i]);
        if (!(ratio > *distance)) continue; /* as where both are the same Inf */
        if (!(ratio > 1) && !(kvg_attention_ratio(x, exact[i], fine[i]) > 1)) continue;
        *distance = ratio;
    }
}

/* The largest distance of the rows of `wanted`, or `least`. */
static double measure(const kvg_separation_scene *s, const kvg_tensor_set *wrong, const bool *wanted, double least)
{
    const kvg_truth *t = s->truth;
    const kvg_attention_answer *rights[] = {&t->exact, t->probe.out ? &t->probe : NULL};
    const size_t rows = count_rows(s), outputs = rows ? t->outputs / rows : 0, heads = rows ? t->rows / rows : 0;
    double distance = least;
    for (size_t row = 0; row < rows; row++) {
        if (wanted && !wanted[row]) continue;
        for (int i = 0; i < 2 && rights[i]; i++) {
            measure_numbers(&wrong->tensors[0], row * outputs, outputs, s->fine.out, s->fine.out_bound, rights[i]->out,
                            rights[i]->out_bound, &distance);
            measure_numbers(&wrong->tensors[1], row * heads, heads, s->fine.lse, s->fine.lse_bound, rights[i]->lse,
                            rights[i]->lse_bound, &distance);
        }
    }
    return distance;
}

const kvg_tensor_set *kvg_separation_right(const kvg_separation_scene *s, const kvg_defect *defect)
{
    return defect->flash ? &s->plain : &s->truth->expected;
}

kvg_status kvg_separation_measure(kvg_separation_scene *s, const kvg_defect *defect, const kvg_tensor_set *wrong,
                                  const bool *wanted, double *distance)
{
    const kvg_tensor_set *right = kvg_separation_right(s, defect);
    const bool by_bits = is_by_bits(s);
    const size_t tensors = by_bits ? kvg_case_asked(s->truth->question->c) : wrong->count;
    const uint64_t bits = changed_bits(s, tensors, wrong, right, wanted);
    if (bits && by_bits) *distance = fmax(*distance, 0) + (double)bits;
    if (bits == 0 || by_bits) return KVG_OK;
    const double beyond = measure(s, wrong, wanted, fmax(*distance, 1));
    if (beyond > 1) *distance = beyond;
    if (beyond > 1 || kvg_flash_only_rounds(defect->flash)) return KVG_OK; /* that may round as its class does */
    const kvg_status status = know_fine(s, wanted);
    if (!status) *distance = measure(s, wrong, wanted, *distance);
    return status;
}

void kvg_separation_add(kvg_separation *s, const kvg_defect *defect, double distance)
{
    const bool reached = distance >= 0;
    s->reached += reached;
    if (reached && distance < s->least) {
        s->least = distance;
        s->nearest = defect;
    }
}

bool kvg_separation_rejects(bool by_bits, double distance)
{
    return distance > (by_bits ? 0 : 1);
}

bool kvg_separation_suffices(const kvg_separation *s)
{
    return s->nearest && kvg_separation_rejects(s->by_bits, s->least);
}

void kvg_separation_text(const kvg_separation *s, char *out, size_t size)
{
    char number[KVG_RESULT_NUMBER];
    kvg_result_write_separation(s->least, number);
    if (!s->nearest) snprintf(out, size, "no defect changes the answer");
    else if (s->by_bits) snprintf(out, size, "%.0f bits, nearest %s", s->least, s->nearest->id);
    else snprintf(out, size, "%s, nearest %s", number, s->nearest->id);
}
