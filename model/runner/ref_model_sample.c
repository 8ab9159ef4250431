/* Sampling: docs/spec/generate.md section 6. */
#include <float.h>
#include <math.h> /* isnan */
#include <stdlib.h>

#include "core/rng.h"
#include "model/model_math.h"
#include "reference/numbers/ref_exp2.h"

static const float log2_e = 0x1.715476p+0f;

typedef struct weighted {
    float weight;
    uint32_t id;
} weighted;

/* Falling weights, rising ids: no two are equal. */
static int by_weight(const void *a, const void *b)
{
    const weighted *x = a, *y = b;
    if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static float limit_of(const weighted *w, uint32_t count, float share)
{
    float sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += w[i].weight;
    return share * sum;
}

/* From the weights in order: the shortest prefix with the wanted share, then the first sum above the drawn one. */
static uint32_t draw(const weighted *w, uint32_t count, float top_p, float u)
{
    const float enough = limit_of(w, count, top_p);
    uint32_t kept = 0;
    float sum = 0;
    do sum += w[kept++].weight;
    while (kept < count && !(sum >= enough));
    const float drawn = u * sum;
    sum = 0;
    for (uint32_t i = 0; i < kept; i++) {
        sum += w[i].weight;
        if (sum > drawn) return w[i].id;
    }
    return w[kept - 1].id;
}

kvg_status kvg_reference_sample(const float *logits, uint32_t count, const kvg_sampling *s, uint64_t position,
                                uint32_t *token)
{
    uint32_t best = 0;
    if (count == 0) return kvg_fail(KVG_ERR_INVALID, "no logits to sample from");
    for (uint32_t i = 0; i < count; i++) {
        if (isnan(logits[i])) return kvg_fail(KVG_ERR_INVALID, "the logit of token %u is NaN", i);
        if (logits[i] > logits[best]) best = i;
    }
    if (logits[best] < -FLT_MAX) return kvg_fail(KVG_ERR_INVALID, "every logit is -Inf");
    *token = best;
    if (s->temperature == 0) return KVG_OK;
    if (!(s->temperature > 0 && s->temperature <= FLT_MAX)) {
        return kvg_fail(KVG_ERR_INVALID, "temperature %g is not a number from 0 on", (double)s->temperature);
    }
    if (!(s->top_p > 0 && s->top_p <= 1)) {
        return kvg_fail(KVG_ERR_INVALID, "top-p %g is not above 0 and at most 1", (double)s->top_p);
    }
    if (logits[best] > FLT_MAX) return kvg_fail(KVG_ERR_INVALID, "the logit of token %u is Inf", best);
    weighted *w = malloc(count * sizeof *w);
    if (!w) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the weights of %u tokens", count);
    for (uint32_t i = 0; i < count; i++) {
        w[i] = (weighted){ref_exp2((logits[i] - logits[best]) / s->temperature * log2_e), i};
    }
    qsort(w, count, sizeof *w, by_weight);
    const float u = (float)(kvg_rng_u64(s->seed, s->request, position) >> 40) * 0x1p-24f;
    *token = draw(w, count, s->top_p, u);
    free(w);
    return KVG_OK;
}
