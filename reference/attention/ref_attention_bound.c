/* docs/spec/numerics.md section 6, term by term. Every sum here is of magnitudes; the last step adds 2^-30 of the
 * result for its own roundings. */
#include <float.h>
#include <math.h>

#include "core/bits.h"
#include "reference/attention/ref_attention.h"
#include "reference/numbers/ref_elementary.h"
#include "reference/numbers/ref_round.h"

static const double U = 0x1p-24; /* half an ulp of f32, relative */

static const ref_operand operands[] = {
    [KVG_OPERAND_F16] = {0x1p-11, 0x1p-25, 0x1p-14, 65504},
    [KVG_OPERAND_BF16] = {0x1p-8, 0x1p-134, 0x1p-126, 0x1.FEp127},
    [KVG_OPERAND_E4M3] = {0x1p-4, 0x1p-10, 0x1p-6, 448},
    [KVG_OPERAND_F32] = {0x1p-24, 0x1p-150, 0x1p-126, FLT_MAX},
};

static kvg_operand operand_of_type(kvg_dtype T)
{
    return T == KVG_DTYPE_F16 ? KVG_OPERAND_F16 : T == KVG_DTYPE_BF16 ? KVG_OPERAND_BF16 : KVG_OPERAND_F32;
}

/* Codes that f16 holds exactly use it whatever T is; codes of 16 bits, and those whose scales make numbers that f16
 * does not hold, are decoded in T. */
static kvg_operand operand_of_side(const kvg_problem *p, kvg_side side)
{
    const kvg_format_info *f = kvg_format_get(p->storage[side].format);
    const bool in_type = f->element_bits == 16 || f->scales == KVG_SCALES_AFFINE || f->scales == KVG_SCALES_E8M0;
    return in_type ? operand_of_type(p->dtype) : KVG_OPERAND_F16;
}

void kvg_arithmetic_init(const kvg_problem *p, kvg_arithmetic *out)
{
    const kvg_operand k = operand_of_side(p, KVG_K), v = operand_of_side(p, KVG_V);
    *out = (kvg_arithmetic){.q = k, .k = k, .p = v, .v = v, .folded = true, .fraction_bits = 24, .tile = 16};
}

static double or_default(float given, double otherwise)
{
    return given > 0 ? (double)given : otherwise;
}

void ref_model_init(const kvg_problem *p, const kvg_arithmetic *arithmetic, ref_model *out)
{
    *out = (ref_model){.p = p, .codec = !arithmetic};
    if (!arithmetic) return;
    out->class = *arithmetic;
    out->q = operands[arithmetic->q];
    out->k = operands[arithmetic->k];
    out->prob = operands[arithmetic->p];
    out->v = operands[arithmetic->v];
    out->decoding = 0x1p-22;
    out->scaling = 0x1p-21;
    out->exponent = 0x1p-21;
    out->exponential = or_default(arithmetic->exp2_error, 0x1p-22);
    out->tanh = or_default(arithmetic->tanh_error, 0x1p-21);
    out->logarithm = 0x1p-22;
    out->k_unit = or_default(arithmetic->k_unit, 1);
    out->v_unit = or_default(arithmetic->v_unit, 1);
    for (int side = KVG_K; side <= KVG_V; side++) {
        const bool by_tensor = kvg_format_get(p->storage[side].format)->tensor_scale;
        out->outside[side] = arithmetic->folded && (by_tensor || !arithmetic->rows_inside);
    }
    out->lazy = 12;
    out->division = 0x1p-20;
    out->half_ulp = ref_half_ulp(p->dtype);
    out->half_step = ref_max(ref_half_step(p->dtype), 0x1p-126);
}

void ref_model_round_twice(ref_model *m, double v_scale)
{
    if (!m->class.rounded_twice) return;
    m->half_ulp *= 2 + m->half_ulp;
    m->half_step *= 2 + fabs(v_scale);
}

/* --- operands --- */

static bool is_exact(kvg_operand type, double x)
{
    switch (type) {
    case KVG_OPERAND_F16: return kvg_ref_f32_of_f16(kvg_ref_f16_of_f64(x)) == x;
    case KVG_OPERAND_BF16: return kvg_ref_f32_of_bf16(kvg_ref_bf16_of_f64(x)) == x;
    case KVG_OPERAND_E4M3: return (float)x == x && kvg_ref_f32_of_e4m3(kvg_ref_e4m3_of_f32((float)x)) == x;
    case KVG_OPERAND_F32: return (float)x == x;
    }
    return false;
}

/* Section 6.1: element i of a row, x[i] in units of `unit` as the operand holds it. */
static void set_size(const ref_model *m, kvg_operand type, double x, double apart, double unit, uint32_t i,
                     ref_sizes *out)
{
    const ref_operand *o = &operands[type];
    const double a = fabs(x);
    double error = apart * a;
    if (!is_exact(type, x)) error = ref_max(o->relative * a, o->step) + m->decoding * a;
    if (!(a <= o->largest * (1 + m->decoding))) out->promised = false;
    out->size[i] = a * unit;
    out->error[i] = error * unit;
    out->reach[i] = a + error == 0 ? 0 : ref_max(a + error, o->normal) * unit;
}

static double query_unit(const ref_model *m, const double *q, uint32_t n)
{
    const kvg_operand type = m->class.q;
    double amax = 0;
    for (uint32_t i = 0; i < n; i++) amax = ref_max(fabs(q[i]), amax);
    if (type == operand_of_type(m->p->dtype) || !(amax > 0 && amax <= FLT_MAX)) return 1;
    if (type == KVG_OPERAND_E4M3) return m->class.q_unit > 0 ? m->class.q_unit : amax / 448;
    if (type != KVG_OPERAND_F16) return 1;
    return kvg_f64_of_bits(kvg_bits_of_f64(amax) & ~0xFFFFFFFFFFFFFull); /* the power of two in (amax / 2, amax] */
}

static void set_given(const double *x, double factor, const double *error, uint32_t n, ref_sizes *out)
{
    for (uint32_t i = 0; i < n; i++) {
        out->size[i] = fabs(x[i] * factor);
        out->error[i] = error ? error[i] : 0;
        out->reach[i] = 0;
        out->promised &= out->size[i] + out->error[i] <= DBL_MAX;
    }
}

void ref_model_query(const ref_model *m, const double *q, uint32_t n, ref_sizes *out)
{
    out->promised = true;
    if (m->codec) {
        set_given(q, 1, NULL, n, out);
        return;
    }
    const double unit = query_unit(m, q, n);
    for (uint32_t i = 0; i < n; i++) set_size(m, m->class.q, q[i] / unit, 0, unit, i, out);
}

void ref_model_row(const ref_model *m, kvg_side side, const double *y, double factor, double apart, const double *codec,
                   uint32_t n, ref_sizes *out)
{
    out->promised = true;
    if (m->codec) {
        set_given(y, factor, codec, n, out);
        return;
    }
    const double inside = m->outside[side] ? 1 : factor, outside = m->outside[side] ? fabs(factor) : 1;
    const double unit = side == KVG_K ? m->k_unit : m->v_unit;
    const kvg_operand type = side == KVG_K ? m->class.k : m->class.v;
    for (uint32_t i = 0; i < n; i++) set_size(m, type, y[i] * inside / unit, apart, outside * unit, i, out);
}

/* --- sums --- */

/* (1 + x)(1 + y)... - 1 for errors that add up to e. */
static double compound(double e)
{
    return e < 0.5 ? e / (1 - e) : INFINITY;
}

/* Section 6.2: a sum of `terms` products, each in one of `steps` fused sums. */
static double chain(const ref_model *m, double terms, double steps)
{
    const int F = (int)m->class.fraction_bits;
    if (m->codec) return 0;
    if (F == 0) return compound(terms * U);
    const double term = kvg_f64_of_bits((uint64_t)(1023 - F) << 52);
    return compound(ref_max(terms * U, terms * term + steps * (term + ref_max(term, 0x1p-23))));
}

/* How the keys of one query are walked: the longest chain of one accumulator, and what happens to it. */
typedef struct walk {
    double terms, steps; /* products and fused sums of a chain */
    double rescales;     /* of an accumulator, while keys join it or when it is merged */
    double merges;       /* levels of the tree above the chains */
} walk;

static walk walk_of(const ref_model *m, ref_extent keys)
{
    const double n = keys.keys, span = m->class.span, edges = 2.0 * keys.runs;
    walk w = {.terms = span > 0 ? ref_min(n, span) : n};
    for (double leaves = span > 0 ? 2 * (n / span + edges) : 1; leaves > 1; leaves /= 2) w.merges++;
    if (m->class.parts > 1) w.merges += m->class.parts;
    w.steps = ref_min(w.terms, w.terms / 8 + 16 * edges);
    w.rescales = ref_min(w.terms, w.terms / m->class.tile + edges) + w.merges;
    return w;
}

double ref_model_sum(const ref_model *m, ref_extent keys)
{
    if (m->codec) return 0;
    const walk w = walk_of(m, keys);
    return compound(chain(m, w.terms, w.steps) + (w.rescales + 3 * w.merges) * U);
}

/* --- scores --- */

double ref_model_score(const ref_model *m, const ref_sizes *q, const ref_sizes *k, double scale, double factor,
                       double score)
{
    const uint32_t D = m->p->head_dim;
    double operand = 0, reach = 0, query = 0;
    if (!q->promised || !k->promised) return INFINITY;
    for (uint32_t i = 0; i < D; i++) {
        operand += q->error[i] * (k->size[i] + k->error[i]) + q->size[i] * k->error[i];
        reach += q->reach[i] * k->reach[i];
        if (m->class.rounded_products) operand += m->half_ulp * q->size[i] * k->size[i] + m->half_step;
        query += q->reach[i];
    }
    const double outside = m->codec ? fabs(factor) : (m->outside[KVG_K] ? fabs(factor) : 1) * m->k_unit;
    /* The accumulator may hold the sum before the factor; of a row whose scale is 0, any sum of its codes. */
    const double inside = outside > 0 ? reach * ref_max(1, 1 / outside) : query * m->k.largest;
    if (!m->codec && !(inside * ref_max(1, scale) <= FLT_MAX)) return INFINITY;
    const double underflow = m->codec ? 0 : D * 0x1p-125 * ref_max(1, outside);
    double error = scale * (operand + chain(m, D, (D + 7) / 8) * reach + underflow);
    error += m->scaling * (fabs(score) + error);

    const double cap = m->p->attention.softcap;
    if (cap == 0) return error;
    const double inner = ref_tanh(ref_max(0, fabs(score) - error) / cap), outer = fabs(ref_tanh(score / cap)) * cap;
    return ref_min(2 * cap, (1 - inner * inner) * error) + cap * m->tanh + m->scaling * outer;
}

double ref_model_exponent(const ref_model *m, ref_extent keys, double M, double t, double error)
{
    if (m->codec) return error;
    const double made_of = (M - t) + ref_max(fabs(M), fabs(t)) + ref_log(keys.keys + 1.0) + m->lazy;
    const double rescales = walk_of(m, keys).rescales, missed = m->class.fused_rescales ? rescales * U * fabs(M) : 0;
    return error + m->exponent * made_of + missed + m->exponential * (rescales + 2);
}

void ref_tally_add(ref_tally *t, double x, double error)
{
    t->weights += ref_exp(x);
    t->least += ref_exp(x - error);
    t->most += ref_exp(x + error);
    t->top = ref_max(t->top, ref_exp(x + error));
}

/* --- output --- */

void ref_model_key(const ref_model *m, const ref_tally *tally, double x, double error, bool row_scaled, double factor,
                   ref_key *out)
{
    const double unit = m->class.p_unit > 0 ? m->class.p_unit : 1, a = fabs(factor);
    const bool carried = m->outside[KVG_V] && row_scaled && a > 0; /* P carries V's row scale */
    const double small = carried ? ref_max(1, 1 / a) : 1; /* how much larger a weight is than what P holds of it */
    *out = (ref_key){.most = ref_exp(x + error), .error = error, .apart = carried && m->class.rounded_sum,
                     .spread = m->outside[KVG_V] && a > 0 ? ref_max(1, 1 / (a * m->v_unit)) : 1};
    if (m->codec) return;
    out->floor = ref_min(out->most / tally->least, (m->prob.step * unit + 0x1p-126) * small / tally->heaviest);
    out->normal = m->prob.normal * unit * small / tally->heaviest;
    out->underflow = 0x1p-125 * ref_max(1, a * m->v_unit) / tally->heaviest;
}

void ref_elements_begin(uint32_t n, ref_elements *e)
{
    double *const all[] = {e->moved, e->far, e->rounded, e->worst, e->mass, e->floored};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (uint32_t k = 0; k < n; k++) all[i][k] = 0;
    }
}

void ref_model_add(const ref_model *m, double sum_error, const ref_key *key, uint32_t n, const double *o,
                   const double *v, const double *v_error, const double *v_reach, ref_elements *e)
{
    /* A weight rounded in numerator and denominator alike pulls towards v; in the numerator alone it changes by |v|; in
     * both, but each for itself, by |o| more. In a typed class three roundings are in the numerator and one in the
     * denominator, and there is one of each accumulator, and of each sum. */
    const bool alike = m->class.rounded_sum && !key->apart && !m->class.typed;
    const double towards = alike ? 1 : 0, own = m->class.typed ? 3.1 + m->class.parts : 1;
    const double others = key->apart || m->class.typed ? 1 : 0;
    const double u = m->prob.relative, most = key->most;
    const double changed = most * ref_min(key->error, 1); /* e^A - 1 <= e^A min(A, 1) */
#pragma omp simd
    for (uint32_t i = 0; i < n; i++) {
        const double distance = fabs(v[i] - o[i]);
        const double pull = v_error[i] + own * ref_max(fabs(v[i]), towards * distance) + others * fabs(o[i]);
        const double b = u * pull + (1 + u) * (v_error[i] + sum_error * v_reach[i]);
        e->moved[i] += changed * distance;
        e->far[i] = ref_max(e->far[i], distance);
        e->rounded[i] += most * b;
        e->worst[i] = ref_max(e->worst[i], b);
        e->mass[i] += v_reach[i] * key->spread;
        e->floored[i] += key->floor * pull + sum_error * key->normal * v_reach[i] + key->underflow;
    }
    /* o is a rounded number. Where a weight may become a small share of itself, what o lacks may become a large one of
     * the sum. Example: o = 476 is one key's value, the others have e^-41 of its weight and move o by less than its
     * last bit; if the weight of that key falls by e^95, all of the answer is theirs. */
    for (uint32_t i = 0; i < n && key->error > 1; i++) e->moved[i] += most * 0x1p-48 * (fabs(v[i]) + fabs(o[i]));
}

/* What rounding P may change in a sum of rounded weights, relative. */
static double sum_loss(const ref_model *m, const ref_tally *tally)
{
    return m->class.rounded_sum ? m->prob.relative + tally->lost : 0;
}

double ref_model_output(const ref_model *m, double sum_error, const ref_tally *tally, const ref_elements *e, uint32_t i,
                        double o)
{
    const double moved = ref_min(e->moved[i] / tally->least, e->far[i]), loss = sum_loss(m, tally);
    const double product = ref_min(e->rounded[i] / tally->least, e->worst[i]) + e->floored[i] + loss * moved;
    const double quotient = (sum_error + m->division) * (fabs(o) + moved);
    if (!(sum_error < 0.5) || !(loss < 0.5)) return INFINITY;
    const double raw = moved + (product + quotient) / ((1 - sum_error) * (1 - loss)) * (1 + m->division);
    const double bound = (raw + m->half_ulp * (fabs(o) + raw) + m->half_step) * (1 + 0x1p-30);
    const bool sums = e->mass[i] * kvg_f64_of_bits((uint64_t)(1023 + (int)m->lazy) << 52) <= FLT_MAX;
    const bool fits = m->codec || (sums && fabs(o) + bound <= ref_largest(m->p->dtype));
    return fits && bound <= DBL_MAX ? bound : INFINITY;
}

double ref_model_lse(const ref_model *m, ref_extent keys, const ref_tally *tally, double M, double lse)
{
    const double up = ref_log(tally->most / tally->weights), down = ref_log(tally->weights / tally->least);
    const double sums = ref_model_sum(m, keys) + sum_loss(m, tally), size = ref_log(keys.keys + 2.0);
    if (!(sums < 0.5)) return INFINITY;
    const double last = m->logarithm * ref_max(1, size) + m->exponent * (fabs(M) + fabs(lse) + size);
    const double own = 0x1p-50 * (1 + fabs(M) + fabs(lse)); /* of these logarithms, where nothing else errs */
    const double bound = (ref_max(up, down) + sums / (1 - sums) + last + own) * (1 + 0x1p-30);
    return bound <= DBL_MAX ? bound : INFINITY;
}

/* --- comparison --- */

double kvg_attention_ratio(double got, double exact, double bound)
{
    if (got == exact || bound == INFINITY) return 0;
    const double ratio = fabs(got - exact) / bound;
    return ratio == ratio ? ratio : INFINITY;
}

void kvg_attention_measure(const double *got, const double *exact, const double *bound, size_t count,
                           kvg_attention_error *out)
{
    ref_sum difference = {0}, magnitude = {0};
    *out = (kvg_attention_error){0};
    for (size_t i = 0; i < count; i++) {
        const double ratio = kvg_attention_ratio(got[i], exact[i], bound[i]);
        if (ratio > out->worst) {
            out->worst = ratio;
            out->worst_at = i;
        }
        out->outside += ratio > 1;
        out->unpromised += bound[i] == INFINITY;
        if (!(fabs(got[i]) <= DBL_MAX && fabs(exact[i]) <= DBL_MAX)) continue;
        ref_sum_add(&difference, (got[i] - exact[i]) * (got[i] - exact[i]));
        ref_sum_add(&magnitude, exact[i] * exact[i]);
    }
    const double size = ref_sum_value(&magnitude);
    out->relative_l2 = size > 0 ? sqrt(ref_sum_value(&difference) / size) : 0;
}
