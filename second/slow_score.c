#include "second/slow_score.h"

#include "second/slow_exp2.h"
#include "second/slow_mma.h"
#include "second/slow_special.h"

static const uint32_t LOG2_E = 0x3FB8AA3B /* 0x1.715476p+0 */;

static bool wrong(const slow_head *h, slow_decode_fault fault)
{
    return slow_planted(h->fault == fault);
}

bool slow_is_lowest(slow_number x)
{
    return x.kind == SLOW_INF && x.negative;
}

slow_number slow_sum(const slow_head *h, const slow_layout *type, const uint16_t *a, const uint16_t *b, slow_number c)
{
    const uint32_t addend = (uint32_t)slow_encode(&slow_f32, c);
    if (type == &slow_e4m3) return slow_f32_of(slow_mma_sum_8(h->profile->chip, a, b, addend));
    return slow_f32_of(slow_mma_output(h->chip, type == &slow_f16 ? KVG_DTYPE_F16 : KVG_DTYPE_BF16, 0, a, b, addend));
}

size_t slow_sum_terms(const slow_head *h, const slow_layout *type)
{
    return type == &slow_e4m3 ? h->profile->chip->sum_terms_8 : KVG_MMA_K;
}

slow_number slow_multiply_add(const slow_head *h, slow_decode_fault unfused, slow_number a, slow_number b,
                              slow_number c)
{
    return wrong(h, unfused) ? slow_f32_add(slow_f32_multiply(a, b), c) : slow_f32_fma(a, b, c);
}

/* --- section 3 --- */

/* RN(sqrt(D)): the integer square root of D * 2^50, with a last bit for what is below it. */
static slow_number root_of(uint32_t dim)
{
    const uint64_t square = (uint64_t)dim << 50;
    uint64_t root = 0;
    for (uint64_t bit = (uint64_t)1 << 31; bit; bit >>= 1) {
        if ((root | bit) * (root | bit) <= square) root |= bit;
    }
    return slow_scaled((int64_t)(2 * root + (root * root != square)), -26);
}

/* 1 / sqrt(D): the integer square root of 2^120 / D, with a last bit for what is below it. */
static slow_number inverse_root_of(uint32_t dim)
{
    __extension__ typedef unsigned __int128 wide;
    const wide one = (wide)1 << 120;
    wide root = 0;
    for (wide bit = (wide)1 << 60; bit; bit >>= 1) {
        if ((root | bit) * (root | bit) <= one / dim) root |= bit;
    }
    return slow_scaled((int64_t)(2 * root + (root * root * dim != one)), -61);
}

static slow_number f32_at(const float *x)
{
    slow_number n;
    slow_load(KVG_DTYPE_F32, (const uint8_t *)x, 1, &n);
    return n;
}

static slow_number binary64(slow_number x)
{
    static const slow_layout layout = {11, 52, 0x7FEFFFFFFFFFFFFF, SLOW_IEEE_PAYLOAD};
    return slow_round(&layout, x);
}

/* The scale of docs/spec/other-kernels.md: section 1.1 has one in f32, section 2.1 one in binary64. */
static slow_number scale_of_kernel(const slow_head *h)
{
    const kvg_problem *p = slow_problem_of(h);
    const slow_number given = f32_at(&p->attention.scale);
    if (h->profile->contract->factor == KVG_FACTOR_WIDE) {
        const slow_number scale = slow_is_zero(given) ? binary64(inverse_root_of(p->head_dim)) : given;
        return binary64(slow_multiply(scale, h->operands[KVG_K].g));
    }
    if (!slow_is_zero(given)) return given;
    if (!wrong(h, SLOW_DECODE_SCALE_TWICE)) return slow_rn(inverse_root_of(p->head_dim));
    return slow_f32_divide(slow_scaled(1, 0), slow_rn(root_of(p->head_dim)));
}

/* c of docs/spec/other-kernels.md: section 1.1 has log2 e in binary64, section 2.1 in f32. */
static slow_number factor_of_kernel(const slow_head *h)
{
    const slow_number log2_e = slow_scaled(0x171547652B82FE, -52);
    const kvg_problem *p = slow_problem_of(h);
    const bool once = (h->profile->contract->factor == KVG_FACTOR_ONCE) != wrong(h, SLOW_DECODE_SCALE_OTHER);
    const slow_number factor = p->attention.softcap > 0 ? f32_at(&p->attention.softcap) : scale_of_kernel(h);
    const slow_number c = slow_rn(binary64(slow_multiply(factor, once ? log2_e : slow_f32_of(LOG2_E))));
    const bool g_is_inside = h->profile->contract->factor == KVG_FACTOR_WIDE;
    return g_is_inside ? c : slow_f32_multiply(c, h->operands[KVG_K].g);
}

slow_number slow_score_scale(const slow_head *h)
{
    const kvg_problem *p = slow_problem_of(h);
    const slow_operands *k = &h->operands[KVG_K];
    slow_number scale = f32_at(&p->attention.scale);
    if (!h->own) return factor_of_kernel(h);
    if (slow_is_zero(scale)) {
        const slow_number root = root_of(p->head_dim);
        scale = slow_f32_divide(slow_scaled(1, 0), wrong(h, SLOW_DECODE_SCALE_ONCE) ? root : slow_rn(root));
    }
    if (wrong(h, SLOW_DECODE_SCALE_G_FIRST)) {
        scale = slow_f32_multiply(slow_f32_multiply(scale, k->g), slow_f32_of(LOG2_E));
    } else {
        scale = slow_f32_multiply(slow_f32_multiply(scale, slow_f32_of(LOG2_E)), k->g);
    }
    return slow_f32_multiply(scale, slow_scaled(1, k->base));
}

/* The exponent of the power of two that q of type bf16 is divided by to become f16. */
static int exponent_of_q(const slow_head *h, const slow_number *q)
{
    const size_t dim = slow_problem_of(h)->head_dim;
    for (size_t d = 0; d < dim; d++) {
        if (q[d].kind != SLOW_FINITE) return 0;
    }
    const slow_number amax = slow_amax(q, dim);
    if (slow_is_zero(amax) || wrong(h, SLOW_DECODE_Q_UNSCALED)) return 0;
    int e = amax.exponent + 63 - __builtin_clzll(amax.significand);
    if (e < -126 && !wrong(h, SLOW_DECODE_Q_SUBNORMAL_SCALED)) return 0;
    if (wrong(h, SLOW_DECODE_Q_EXPONENT_UP)) e++;
    return e > 126 ? 126 : e;
}

/* docs/spec/other-kernels.md section 2.1 */
static slow_number inverse_cap(const slow_head *h)
{
    const slow_number cap = f32_at(&slow_problem_of(h)->attention.softcap);
    return wrong(h, SLOW_DECODE_CAP_DIVIDED) ? slow_f32_divide(slow_scaled(1, 0), cap)
                                             : slow_rcp_approx(cap, true, SLOW_SPECIAL_FAULTS);
}

void slow_query_load(slow_query *r, size_t query)
{
    const slow_head *h = r->head;
    const kvg_problem *p = slow_problem_of(h);
    const slow_layout *type = h->operands[KVG_K].type;
    const slow_number two = slow_scaled(2, 0), cap = f32_at(&p->attention.softcap);
    slow_number q[KVG_MAX_HEAD_DIM];
    slow_load_q(h->stored->request, query, r->query_head, q);
    const int e = p->dtype == KVG_DTYPE_BF16 && type == &slow_f16 ? exponent_of_q(h, q) : 0;
    r->c = slow_f32_multiply(h->scale, slow_scaled(1, e));
    for (size_t d = 0; d < p->head_dim; d++) {
        slow_number x = e ? slow_f32_multiply(q[d], slow_scaled(1, -e)) : q[d];
        if (wrong(h, SLOW_DECODE_Q_IN_F16)) x = slow_round(&slow_f16, x);
        if (wrong(h, SLOW_DECODE_SCALE_ON_Q)) x = slow_multiply(x, r->c);
        r->q[d] = slow_operand_code(type, x);
    }
    if (wrong(h, SLOW_DECODE_SCALE_ON_Q)) r->c = slow_scaled(1, 0);
    if (!h->own) {
        r->capped_c = slow_f32_multiply(scale_of_kernel(h), inverse_cap(h));
        return;
    }
    r->capped_c = wrong(h, SLOW_DECODE_CAP_RATIO_FIRST) ? slow_f32_multiply(r->c, slow_f32_divide(two, cap))
                                                        : slow_f32_divide(slow_f32_multiply(two, r->c), cap);
}

/* --- sections 4 and 5; section 2 of docs/spec/simt-contract.md --- */

static slow_number dot_of_sums(const slow_query *r, const uint32_t *row)
{
    const slow_head *h = r->head;
    const slow_layout *type = h->operands[KVG_K].type;
    const size_t terms = slow_sum_terms(h, type);
    slow_number s = slow_zero(false);
    for (size_t first = 0; first < slow_problem_of(h)->head_dim; first += terms) {
        uint16_t a[SLOW_MOST_TERMS], b[SLOW_MOST_TERMS];
        for (size_t k = 0; k < terms; k++) {
            a[k] = (uint16_t)row[h->dims[first + k]];
            b[k] = (uint16_t)r->q[h->dims[first + k]];
        }
        s = slow_sum(h, type, a, b, s);
    }
    return s;
}

/* Products first, first + step, ... before `end`, one after another. */
static slow_number chain_of(const slow_query *r, const uint32_t *row, size_t first, size_t step, size_t end)
{
    const slow_head *h = r->head;
    const slow_layout *type = h->operands[KVG_K].type;
    slow_number s = slow_zero(false);
    for (size_t i = first; i < end; i += step) {
        const slow_number q = slow_decode(type, r->q[h->dims[i]]), k = slow_decode(type, row[h->dims[i]]);
        s = slow_multiply_add(h, SLOW_DECODE_DIMS_UNFUSED, q, k, s);
    }
    return s;
}

/* docs/spec/other-kernels.md section 4: each thread has neighbouring dims, and halves of the threads are added up. */
static slow_number dot_of_threads(const slow_query *r, const uint32_t *row)
{
    const slow_head *h = r->head;
    const size_t dim = slow_problem_of(h)->head_dim, right = dim / 32 > 8 ? dim / 32 : 8;
    const size_t own = wrong(h, SLOW_DECODE_THREAD_WIDER) ? 2 * right : right;
    const bool neighbours = wrong(h, SLOW_DECODE_THREADS_BY_PAIRS);
    slow_number sums[KVG_MAX_HEAD_DIM];
    for (size_t x = 0; x < dim / own; x++) sums[x] = chain_of(r, row, x * own, 1, (x + 1) * own);
    for (size_t half = dim / own / 2; half > 0; half /= 2) {
        for (size_t x = 0; x < half; x++) {
            sums[x] = slow_f32_add(sums[neighbours ? 2 * x : x], sums[neighbours ? 2 * x + 1 : x + half]);
        }
    }
    return sums[0];
}

static slow_number dot_of(const slow_query *r, size_t key)
{
    const slow_head *h = r->head;
    const size_t dim = slow_problem_of(h)->head_dim;
    const uint32_t *row = h->k + key * dim;
    if (!h->one_by_one && !wrong(h, SLOW_DECODE_DOT_BY_FMA)) return dot_of_sums(r, row);
    if (h->profile->contract->operands == KVG_OPERANDS_THREADS && !wrong(h, SLOW_DECODE_ONE_THREAD)) {
        return dot_of_threads(r, row);
    }
    if (!wrong(h, SLOW_DECODE_DIMS_IN_TWO_SUMS)) return chain_of(r, row, 0, 1, dim);
    return slow_f32_add(chain_of(r, row, 0, 2, dim), chain_of(r, row, 1, 2, dim));
}

static slow_number capped(const slow_query *r, slow_number s)
{
    const slow_number one = slow_scaled(1, 0);
    slow_number u = slow_f32_multiply(s, r->capped_c), cap = f32_at(&slow_problem_of(r->head)->attention.softcap);
    if (wrong(r->head, SLOW_DECODE_CAP_SCALE_FIRST)) {
        u = slow_f32_multiply(slow_f32_multiply(s, scale_of_kernel(r->head)), inverse_cap(r->head));
    }
    if (!r->head->own) return slow_tanh_approx(u, SLOW_SPECIAL_FAULTS);
    if (u.kind == SLOW_NAN) return u;
    const bool last = wrong(r->head, SLOW_DECODE_CAP_LOG2_LAST);
    const bool in_exp2 = wrong(r->head, SLOW_DECODE_CAP_EXP2_LAST_BIT);
    if (!last && !wrong(r->head, SLOW_DECODE_CAP_NO_LOG2)) cap = slow_f32_multiply(cap, slow_f32_of(LOG2_E));
    u.negative = true;
    const slow_number t = in_exp2 ? slow_exp2(u, SLOW_DECODE_EXP2_LAST_BIT) : slow_exp2_of(r->head, u);
    slow_number z = slow_f32_multiply(slow_f32_divide(slow_f32_subtract(one, t), slow_f32_add(one, t)), cap);
    if (last) z = slow_f32_multiply(z, slow_f32_of(LOG2_E));
    z.negative = s.negative;
    return z;
}

slow_number slow_scaled_dot(const slow_query *r, size_t key)
{
    const slow_operands *k = &r->head->operands[KVG_K];
    const slow_number s = dot_of(r, key);
    if (!k->has_row_scale) return s;
    return slow_f32_multiply(s, slow_row_scale(k, &r->head->stored->rows[KVG_K][key]));
}

bool slow_subtracts(const slow_head *h)
{
    return h->profile->contract->exponent == KVG_EXPONENT_SUBTRACTED_ALL;
}

slow_number slow_capped_score(const slow_query *r, slow_number s)
{
    const slow_number z = capped(r, s);
    return slow_subtracts(r->head) ? slow_f32_multiply(z, r->c) : z;
}

slow_number slow_score_of(const slow_query *r, size_t key)
{
    const slow_stored *stored = r->head->stored;
    const slow_operands *k = &r->head->operands[KVG_K];
    if (stored->request->problem->attention.softcap > 0) return slow_capped_score(r, slow_scaled_dot(r, key));
    if (!r->head->own && !slow_subtracts(r->head)) return slow_scaled_dot(r, key);
    if (wrong(r->head, SLOW_DECODE_ROW_SCALE_WITH_C) && k->has_row_scale) {
        const slow_number factor = slow_f32_multiply(slow_row_scale(k, &stored->rows[KVG_K][key]), r->c);
        return slow_f32_multiply(dot_of(r, key), factor);
    }
    return slow_f32_multiply(slow_scaled_dot(r, key), r->c);
}

/* --- section 6 --- */

slow_number slow_exp2_of(const slow_head *h, slow_number x)
{
    const bool approx = h->profile->contract->exp2 == KVG_EXP2_APPROX;
    if (approx != wrong(h, SLOW_DECODE_EXP2_OTHER)) return slow_ex2_approx(x, true, SLOW_SPECIAL_FAULTS); /* no fault */
    return slow_exp2(x, h->fault);
}
