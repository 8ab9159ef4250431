#include "tests/reference/attention/attention_naive.h"

#include <math.h>
#include <string.h>

static void row_of(const world *w, bool unquantised, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position,
                   long double *x)
{
    const uint32_t D = w->p.head_dim;
    if (unquantised) {
        const kvg_side from = w->p.paging.shared_kv ? KVG_K : side;
        float flat[KVG_MAX_HEAD_DIM];
        const size_t row = ((size_t)sequence * w->p.kv_heads + head) * w->p.tokens + position;
        kvg_reference_load(w->p.dtype, (const uint8_t *)w->flat[from].data + row * D * kvg_dtype_bytes(w->p.dtype), D,
                           flat);
        const uint32_t first = side == KVG_V ? w->p.paging.v_first : 0;
        for (uint32_t i = first; i < D; i++) x[i - first] = flat[i];
        return;
    }
    double factor;
    const double *y = world_row(w, side, sequence, head, position, &factor);
    for (uint32_t i = 0; i < D; i++) x[i] = (long double)y[i] * factor;
}

void naive_attention(const world *w, bool unquantised, kvg_attention_answer *answer)
{
    const kvg_attention *a = &w->p.attention;
    const uint32_t D = w->p.head_dim, Dv = world_v_dim(w);
    const long double scale = a->scale > 0 ? a->scale : 1 / sqrtl(D);
    const int sinks_at = kvg_roles_index(kvg_op_get(KVG_OP_DECODE)->inputs, KVG_ROLE_SINKS, KVG_K);
    const float *sinks = a->sinks ? w->in[sinks_at].data : NULL;
    for (uint32_t row = 0; row < a->queries; row++) {
        uint32_t sequence;
        int64_t position;
        world_query(w, row, &sequence, &position);
        for (uint32_t head = 0; head < a->query_heads; head++) {
            const uint32_t kv_head = head / (a->query_heads / w->p.kv_heads);
            static long double scores[8192];
            long double M = sinks ? sinks[head] : -INFINITY, L = 0, x[KVG_MAX_HEAD_DIM], out[KVG_MAX_HEAD_DIM] = {0};
            bool any = false;
            for (int64_t k = 0; k <= position; k++) {
                scores[k] = -INFINITY;
                if ((a->window && position - k >= a->window) || !world_has_place(w, sequence, (uint32_t)k)) continue;
                row_of(w, unquantised, KVG_K, sequence, kv_head, (uint32_t)k, x);
                long double s = 0;
                for (uint32_t i = 0; i < D; i++) s += world_q(w, row, head, i) * x[i];
                s *= scale;
                scores[k] = a->softcap > 0 ? a->softcap * tanhl(s / a->softcap) : s;
                if (scores[k] > M) M = scores[k];
                any = true;
            }
            if (sinks) L += expl(sinks[head] - M);
            for (int64_t k = 0; k <= position; k++) {
                if (scores[k] == -INFINITY) continue;
                const long double p = expl(scores[k] - M);
                row_of(w, unquantised, KVG_V, sequence, kv_head, (uint32_t)k, x);
                for (uint32_t i = 0; i < Dv; i++) out[i] += p * x[i];
                L += p;
            }
            const size_t at = (size_t)row * a->query_heads + head;
            for (uint32_t i = 0; i < Dv; i++) answer->out[at * Dv + i] = any ? (double)(out[i] / L) : 0;
            answer->lse[at] = L > 0 ? (double)(M + logl(L)) : -INFINITY;
        }
    }
}
