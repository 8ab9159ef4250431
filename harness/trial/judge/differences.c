#include "harness/trial/judge/differences.h"

#include <math.h>
#include <string.h>

#include "support/guard.h"

kvg_difference kvg_differ_bytes(const void *want, const void *got, size_t bytes)
{
    const uint8_t *a = want, *b = got;
    kvg_difference d = {0};
    for (size_t i = 0; i < bytes; i++) {
        if (a[i] != b[i] && d.wrong++ == 0) d.first = i;
    }
    d.bytes = d.wrong;
    return d;
}

bool kvg_differ_answered(const kvg_tensor *want, const kvg_tensor *got, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (want[i].bytes && !got[i].data) return false;
    }
    return true;
}

bool kvg_differ_untouched(const void *want, const void *got, size_t bytes, const uint8_t *wrong, size_t width,
                          const void *before)
{
    enum { FEWEST = 4 };
    const uint8_t *right = want, *given = got, *held = before;
    bool met[UINT8_MAX + 1] = {false};
    size_t seen = 0, values = 0, place = 0; /* in the pattern, of byte 0 */
    for (size_t i = 0; i < bytes; i++) {
        if (wrong ? !wrong[i / width] : right[i] == given[i]) continue;
        while (!held && seen == 0 && place < UINT8_MAX && kvg_guard_byte(place + i) != given[i]) place++;
        if (given[i] != (held ? held[i] : kvg_guard_byte(place + i))) return false;
        seen++;
        values += !met[given[i]];
        met[given[i]] = true;
    }
    return values >= FEWEST;
}

float kvg_number_at(kvg_dtype dtype, const void *data, size_t index)
{
    float x;
    kvg_reference_load(dtype, (const uint8_t *)data + index * kvg_dtype_bytes(dtype), 1, &x);
    return x;
}

kvg_difference kvg_differ_numbers(kvg_dtype dtype, const void *want, const void *got, size_t count)
{
    const size_t width = kvg_dtype_bytes(dtype);
    kvg_difference d = {0};
    for (size_t i = 0; i < count; i++) {
        const uint8_t *a = (const uint8_t *)want + i * width, *b = (const uint8_t *)got + i * width;
        if (memcmp(a, b, width) == 0) continue;
        if (isnan(kvg_number_at(dtype, want, i)) && isnan(kvg_number_at(dtype, got, i))) continue;
        d.bytes += kvg_differ_bytes(a, b, width).wrong;
        if (d.wrong++ == 0) d.first = i;
    }
    return d;
}

kvg_rule_difference kvg_differ_by_rule(const kvg_problem *p, kvg_side side, float tensor_scale, const void *values,
                                       const void *codes, const void *scales)
{
    const size_t code_bytes = kvg_format_code_bytes(p->storage[side].format, p->head_dim);
    const size_t scale_bytes = kvg_format_scale_bytes(p->storage[side].format, p->head_dim);
    const size_t value_bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    kvg_rule_difference d = {0};
    for (size_t row = 0; row < (size_t)p->tokens * p->kv_heads; row++) {
        float x[KVG_MAX_HEAD_DIM];
        uint32_t steps, bad;
        kvg_reference_load(p->dtype, (const uint8_t *)values + row * value_bytes, p->head_dim, x);
        const bool right = kvg_reference_row_accept(p, side, tensor_scale, x, (const uint8_t *)codes + row * code_bytes,
                                                    scale_bytes ? (const uint8_t *)scales + row * scale_bytes : NULL,
                                                    &steps, &bad);
        d.steps += steps;
        if (right || d.wrong++) continue;
        d.first = row;
        d.dim = bad;
        d.value = x[bad];
    }
    return d;
}

uint32_t kvg_loss_add(kvg_loss *loss, const float *x, const float *y, const double *bound, uint32_t count)
{
    uint32_t first = count;
    for (uint32_t i = 0; i < count; i++) {
        if (isinf(bound[i])) continue;
        const double error = fabs((double)y[i] - (double)x[i]);
        const bool outside = !(error <= bound[i]);
        loss->elements++;
        loss->outside += outside;
        loss->inexact += outside && bound[i] == 0;
        if (outside && first == count) first = i;
        const double ratio = bound[i] > 0 ? error / bound[i] : 0;
        if (!(ratio <= loss->worst_ratio) && !isnan(loss->worst_ratio)) loss->worst_ratio = ratio;
        loss->xx += (double)x[i] * x[i];
        loss->xy += (double)x[i] * y[i];
        loss->ee += error * error;
    }
    return first;
}

double kvg_loss_relative_l2(const kvg_loss *loss)
{
    return loss->xx > 0 ? sqrt(loss->ee / loss->xx) : 0;
}

void kvg_load_numbers(const kvg_tensor *t, size_t count, double *to)
{
    for (size_t i = 0; i < count; i++) to[i] = kvg_number_at(t->dtype, t->data, i);
}
