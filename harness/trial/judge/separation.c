#include "harness/trial/judge/separation.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/judge/judge_decode.h"

/* What the defects of one case are measured against. */
typedef struct scene {
    const kvg_truth *truth;
    kvg_attention_answer fine; /* the exact answer once more, with the bounds of a kernel in f32 throughout */
    kvg_tensor_set plain;      /* such a kernel's right answer: where the defects of flash.h start */
    kvg_tensor_set wrong;
} scene;

static kvg_status open_fine(scene *s, const kvg_flash *plain)
{
    const size_t outputs = s->truth->outputs, rows = s->truth->rows;
    kvg_arithmetic class = plain->class;
    class.tile = plain->tile;
    double *numbers = malloc(2 * (outputs + rows) * sizeof *numbers);
    if (!numbers) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu bounds", outputs + rows);
    s->fine = (kvg_attention_answer){numbers, numbers + outputs, numbers + outputs + rows,
                                     numbers + 2 * outputs + rows};
    const kvg_question *data = s->truth->question;
    return kvg_attention_spec(&data->c->problem, data->in.tensors, &class, &s->fine);
}

static kvg_status open_scene(const kvg_truth *truth, scene *s)
{
    const kvg_question *data = truth->question;
    const kvg_problem *p = &data->c->problem;
    kvg_flash right;
    kvg_flash_init(p, KVG_FLASH_RIGHT, &right);
    *s = (scene){.truth = truth};
    kvg_status status = open_fine(s, &right);
    if (!status) status = kvg_set_alloc(p, data->op->outputs, &s->plain);
    if (!status) status = kvg_set_alloc(p, data->op->outputs, &s->wrong);
    return status ? status : kvg_flash_run(p, data->in.tensors, &right, s->plain.tensors);
}

static void close_scene(scene *s)
{
    free(s->fine.out);
    kvg_set_free(&s->plain);
    kvg_set_free(&s->wrong);
}

/* --- distances --- */

static uint64_t changed_bits(const kvg_tensor_set *a, const kvg_tensor_set *b)
{
    uint64_t bits = 0;
    for (size_t t = 0; t < a->count; t++) {
        const uint8_t *x = a->tensors[t].data, *y = b->tensors[t].data;
        for (size_t i = 0; i < a->tensors[t].bytes; i++) {
            for (unsigned left = x[i] ^ y[i]; left; left &= left - 1) bits++;
        }
    }
    return bits;
}

/* Raises *distance to the largest |number - right| / bound of a tensor, over the numbers that lie further from the
 * exact ones than the roundings of f32 may take them. */
static void measure_numbers(const kvg_tensor *t, const double *exact, const double *fine, const double *right,
                            const double *bound, double *distance)
{
    const size_t bytes = kvg_dtype_bytes(t->dtype);
    for (size_t i = 0; i < t->bytes / bytes; i++) {
        if (!(bound[i] < INFINITY)) continue; /* nothing is promised */
        const float x = kvg_number_at(t->dtype, t->data, i);
        const double ratio = kvg_attention_ratio(x, right[i], bound[i]);
        if (!(ratio > 1) && !(kvg_attention_ratio(x, exact[i], fine[i]) > 1)) continue;
        if (ratio > *distance) *distance = ratio;
    }
}

static double distance_from(const scene *s, const kvg_attention_answer *right)
{
    double distance = -1;
    measure_numbers(&s->wrong.tensors[0], s->fine.out, s->fine.out_bound, right->out, right->out_bound, &distance);
    measure_numbers(&s->wrong.tensors[1], s->fine.lse, s->fine.lse_bound, right->lse, right->lse_bound, &distance);
    return distance;
}

/* Below 0: the defect changes nothing. */
static kvg_status measure_defect(scene *s, const kvg_defect *defect, bool by_bits, double *distance)
{
    const kvg_question *data = s->truth->question;
    kvg_question_prefill(data, &s->wrong);
    kvg_status status = kvg_defect_run(defect, &data->c->problem, data->in.tensors, s->wrong.tensors);
    if (status) return status;
    if (by_bits) {
        const uint64_t bits = changed_bits(&s->wrong, defect->flash ? &s->plain : &s->truth->expected);
        *distance = bits ? (double)bits : -1;
        return KVG_OK;
    }
    *distance = distance_from(s, &s->truth->exact);
    const double probe = s->truth->probe.out ? distance_from(s, &s->truth->probe) : -1;
    if (probe > *distance) *distance = probe;
    if (kvg_flash_only_rounds(defect->flash) && *distance <= 1) *distance = -1; /* as its class may round */
    return KVG_OK;
}

kvg_status kvg_separation_measure(const kvg_truth *truth, kvg_separation *out)
{
    const kvg_problem *p = &truth->question->c->problem;
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    scene s;
    assert(count <= KVG_MAX_DEFECTS);
    *out = (kvg_separation){.by_bits = p->profile != KVG_PROFILE_NONE, .least = INFINITY};
    kvg_status status = open_scene(truth, &s);
    for (size_t i = 0; i < count && !status; i++) {
        out->distance[i] = NAN;
        if (!kvg_defect_applies(&defects[i], p)) continue;
        status = measure_defect(&s, &defects[i], out->by_bits, &out->distance[i]);
        if (status) break;
        const bool reached = out->distance[i] >= 0;
        out->reached += reached;
        out->unreached += !reached;
        if (!reached || (out->nearest && !(out->distance[i] < out->least))) continue;
        out->least = out->distance[i];
        out->nearest = &defects[i];
    }
    close_scene(&s);
    return status;
}

bool kvg_separation_rejects(const kvg_separation *s, double distance)
{
    return distance > (s->by_bits ? 0 : 1);
}

bool kvg_separation_suffices(const kvg_separation *s)
{
    return s->nearest && kvg_separation_rejects(s, s->least);
}

void kvg_separation_text(const kvg_separation *s, char *out, size_t size)
{
    if (!s->nearest) snprintf(out, size, "no defect changes the answer");
    else if (s->by_bits) snprintf(out, size, "%.0f bits, nearest %s", s->least, s->nearest->id);
    else snprintf(out, size, "%.2g, nearest %s", s->least, s->nearest->id);
}
