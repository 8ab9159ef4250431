#include "harness/trial/question/merge_fill.h"

#include <math.h>
#include <string.h>

#include "core/rng.h"
#include "reference/reference.h"

enum { EMPTY_A = 1, EMPTY_B = 2 };

/* What a row is: which parts have seen no key, and how far apart the LSEs of the others are. */
static const struct {
    int empty;
    float apart;
} kinds[] = {{0, 0.5F}, {EMPTY_A, 0}, {0, 3}, {EMPTY_B, 0}, {0, 0}, {EMPTY_A | EMPTY_B, 0}, {0, 60}};
enum { KINDS = sizeof kinds / sizeof kinds[0], DRAW_BASE = KVG_MAX_HEAD_DIM, DRAW_APART, DRAW_HARD };

/* Adversarial rows in turn: an LSE near which they lie, and a size of outputs that every model type has. */
static const struct {
    float lse, size;
} hard[] = {{0, 1}, {1e4F, 0x1p-20F}, {-300, 0x1p10F}, {90, 0x1p-14F}, {-1e4F, 0x1p13F}};
enum { HARD = sizeof hard / sizeof hard[0] };

void kvg_merge_fill(const kvg_case *c, uint64_t seed, kvg_tensor_set *in)
{
    const kvg_problem *p = &c->problem;
    const size_t rows = (size_t)p->tokens * p->kv_heads, bytes = p->head_dim * kvg_dtype_bytes(p->dtype);
    for (size_t i = 0; i < 2 * rows; i++) {
        const int side = (int)(i % 2);
        const size_t row = i / 2, turn = row + row / p->kv_heads, kind = turn % KINDS;
        const size_t how = c->fill == KVG_FILL_ADVERSARIAL ? turn / KINDS % HARD : 0;
        const uint64_t own = 2 * row + (uint64_t)side, shared = 2 * rows + row; /* streams */
        uint8_t *out = (uint8_t *)kvg_set_tensor(in, KVG_ROLE_PART, (kvg_side)side)->data + row * bytes;
        float *lse = (float *)kvg_set_tensor(in, KVG_ROLE_PART_LSE, (kvg_side)side)->data + row;
        if (kinds[kind].empty & (side ? EMPTY_B : EMPTY_A)) {
            *lse = -INFINITY;
            memset(out, kvg_case_unowned_bits(c), bytes);
            continue;
        }
        const double base = 8 * kvg_rng_normal(seed, shared, DRAW_BASE) + (double)hard[how].lse;
        const double apart = (double)kinds[kind].apart * kvg_rng_normal(seed, shared, DRAW_APART);
        const uint64_t of = how && kvg_rng_below(seed, shared, DRAW_HARD, 4) == 0 ? shared : own; /* they may cancel */
        float x[KVG_MAX_HEAD_DIM];
        *lse = (float)(base + (side ? apart : 0));
        for (uint32_t d = 0; d < p->head_dim; d++) {
            const double value = kvg_rng_normal(seed, of, d) * (double)hard[how].size;
            x[d] = c->fill == KVG_FILL_ZERO ? 0 : (float)(side ? -value : value);
        }
        kvg_reference_store(p->dtype, x, p->head_dim, out);
    }
}
