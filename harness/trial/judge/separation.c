#include "harness/trial/judge/separation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness/trial/judge/differences.h"
#include "harness/trial/judge/judge_decode.h"

static kvg_status open_fine(kvg_separation_scene *s, const kvg_flash *plain)
{
    const size_t outputs = s->truth->outputs, rows = s->truth->rows;
    kvg_arithmetic class = plain->class;
    class.tile = plain->tile;
    double *numbers = malloc(2 * (outputs + rows) * sizeof *numbers);
    if (!numbers) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu bounds", outputs + rows);
    s->fine = (kvg_attention_answer){.out = numbers, .lse = numbers + outputs, .out_bound = numbers + outputs + rows,
                                     .lse_bound = numbers + 2 * outputs + rows};
    const kvg_question *data = s->truth->question;
    return kvg_attention_spec(&data->c->problem, data->in.tensors, &class, &s->fine);
}

kvg_status kvg_separation_open(const kvg_truth *truth, kvg_separation_scene *s)
{
    const kvg_question *data = truth->question;
    const kvg_problem *p = &data->c->problem;
    kvg_flash right;
    kvg_flash_init(p, KVG_FLASH_RIGHT, &right);
    *s = (kvg_separation_scene){.truth = truth};
    const bool by_bits = p->profile != KVG_PROFILE_NONE;
    kvg_status status = by_bits ? KVG_OK : open_fine(s, &right);
    if (!status) status = kvg_set_alloc(p, data->op->outputs, &s->plain);
    return status ? status : kvg_flash_run(p, data->in.tensors, &right, s->plain.tensors);
}

void kvg_separation_close(kvg_separation_scene *s)
{
    free(s->fine.out);
    kvg_set_free(&s->plain);
}

/* --- distances --- */

static uint64_t changed_bits(const kvg_case *c, const kvg_tensor_set *a, const kvg_tensor_set *b)
{
    uint64_t bits = 0;
    for (size_t t = 0; t < kvg_case_asked(c); t++) {
        const uint8_t *x = a->tensors[t].data, *y = b->tensors[t].data;
        for (size_t i = 0; i < a->tensors[t].bytes; i++) {
            for (unsigned left = x[i] ^ y[i]; left; left &= left - 1) bits++;
        }
    }
    return bits;
}

/* Raises *distance to the largest |number - right| / bound of a tensor, over the numbers that lie further from the
 * exact ones than the roundings of f32 may take them. Most numbers are right, and need no division. */
static void measure_numbers(const kvg_tensor *t, const double *exact, const double *fine, const double *right,
                            const double *bound, double *distance)
{
    enum { CHUNK = 256 };
    float numbers[CHUNK];
    const size_t width = kvg_dtype_bytes(t->dtype), count = t->bytes / width;
    for (size_t i = 0; i < count; i++) {
        if (i % CHUNK == 0) {
            const size_t left = count - i < CHUNK ? count - i : CHUNK;
            kvg_reference_load(t->dtype, (const uint8_t *)t->data + i * width, (uint32_t)left, numbers);
        }
        const double x = numbers[i % CHUNK], off = fabs(x - right[i]);
        if (off <= *distance * bound[i] || !(bound[i] < INFINITY)) continue; /* no further; nothing is promised */
        if (off <= bound[i] && fabs(x - exact[i]) <= fine[i]) continue;
        const double ratio = kvg_attention_ratio(x, right[i], bound[i]);
        if (!(ratio > 1) && !(kvg_attention_ratio(x, exact[i], fine[i]) > 1)) continue;
        if (ratio > *distance) *distance = ratio;
    }
}

static double distance_from(const kvg_separation_scene *s, const kvg_tensor_set *wrong,
                            const kvg_attention_answer *right)
{
    double distance = -1;
    measure_numbers(&wrong->tensors[0], s->fine.out, s->fine.out_bound, right->out, right->out_bound, &distance);
    measure_numbers(&wrong->tensors[1], s->fine.lse, s->fine.lse_bound, right->lse, right->lse_bound, &distance);
    return distance;
}

const kvg_tensor_set *kvg_separation_right(const kvg_separation_scene *s, const kvg_defect *defect)
{
    return defect->flash ? &s->plain : &s->truth->expected;
}

double kvg_separation_distance(const kvg_separation_scene *s, const kvg_defect *defect, const kvg_tensor_set *wrong,
                               bool by_bits)
{
    if (by_bits) {
        const uint64_t bits = changed_bits(s->truth->question->c, wrong, kvg_separation_right(s, defect));
        return bits ? (double)bits : -1;
    }
    double distance = distance_from(s, wrong, &s->truth->exact);
    const double probe = s->truth->probe.out ? distance_from(s, wrong, &s->truth->probe) : -1;
    if (probe > distance) distance = probe;
    return kvg_flash_only_rounds(defect->flash) && distance <= 1 ? -1 : distance; /* as its class may round */
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

double kvg_separation_join(double distance, double other, bool by_bits)
{
    return by_bits && distance > 0 && other > 0 ? distance + other : fmax(distance, other);
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
