#include "harness/trial/question/fill.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/bits.h"
#include "core/rng.h"

/* A source of numbers for one row of one side. */
typedef struct source {
    uint64_t seed;
    uint64_t stream; /* row and side */
    uint64_t next;
    const double *widths; /* of channels, [Hkv][D] */
} source;

static uint64_t draw(source *s)
{
    return kvg_rng_u64(s->seed, s->stream, s->next++);
}

static uint32_t below(source *s, uint32_t n)
{
    return (uint32_t)(draw(s) % n);
}

static double normal(source *s)
{
    return kvg_rng_normal(s->seed, s->stream, s->next++);
}

static void normals(source *s, double *x, uint32_t count)
{
    kvg_rng_normals(s->seed, s->stream, s->next, count, x);
    s->next += count;
}

static double sign(source *s, double x)
{
    return draw(s) & 1 ? -x : x;
}

/* One of `span` elements gets a value of either sign. In `x[below()] = sign()` C leaves open which draw is first, and
 * compilers differ: hence one after the other. */
static void put_somewhere(source *s, double *x, uint32_t span, double magnitude)
{
    const uint32_t i = below(s, span);
    x[i] = sign(s, magnitude);
}

static double power_of_two(int e)
{
    return (double)kvg_f32_of_bits((uint32_t)(e + 127) << 23);
}

/* Of the complement of the case's seed. Noise takes 64 of them. */
enum { STREAM_BIAS, STREAM_ROPE = 2, STREAM_NOISE, STREAM_REDRAW = 100, STREAM_LAYER };

/* The backend is the last word of the id: leaving it out gives every backend the same data. */
uint64_t kvg_fill_seed(const kvg_case *c)
{
    const size_t length = strlen(c->id), backend = strlen(c->backend);
    return c->seed ^ kvg_hash64(c->id, length > backend ? length - backend : length);
}

void kvg_fill_shuffle(kvg_case *c)
{
    c->shuffled = true;
    kvg_paging *g = &c->problem.paging;
    if (!kvg_layout_get(c->problem.layout)->paged) return;
    if (c->layer) g->layer = c->layer - 1;
    else g->layer = (uint32_t)(kvg_rng_u64(~kvg_fill_seed(c), STREAM_LAYER, 0) % g->layers);
}

kvg_case kvg_fill_draw(const kvg_case *c, uint64_t draw)
{
    kvg_case drawn = *c;
    if (draw) {
        drawn.seed = kvg_rng_u64(~kvg_fill_seed(c), STREAM_REDRAW, draw);
        kvg_fill_shuffle(&drawn);
    }
    return drawn;
}

/* --- what a format's numbers look like, for inputs that lie on its grid or between two points of it --- */

typedef enum grid_kind {
    GRID_HALF,
    GRID_E4M3,
    GRID_E5M2,
    GRID_E2M1,
    GRID_SIGNED,
    GRID_UNSIGNED,
    GRID_LINEAR
} grid_kind;

typedef struct grid {
    grid_kind kind;
    int top;  /* largest magnitude on the grid */
    int span; /* elements that share a scale; 0: the tensor (or nothing) */
} grid;

static const struct {
    grid_kind kind;
    int top; /* 0: of integers with as many bits */
} grids[] = {
    [KVG_CODES_F16] = {GRID_HALF, 64},    [KVG_CODES_BF16] = {GRID_HALF, 64},
    [KVG_CODES_E4M3] = {GRID_E4M3, 448},  [KVG_CODES_E5M2] = {GRID_E5M2, 57344},
    [KVG_CODES_E2M1] = {GRID_E2M1, 6},    [KVG_CODES_UNSIGNED] = {GRID_UNSIGNED, 0},
    [KVG_CODES_OFFSET] = {GRID_SIGNED, 0}, [KVG_CODES_SIGNED] = {GRID_SIGNED, 0},
};

static grid grid_of(const kvg_storage *storage)
{
    const kvg_format_info *f = kvg_format_get(storage->format);
    const uint32_t span = f->block ? f->block : f->row_param_bytes ? KVG_MAX_HEAD_DIM : 0;
    grid g = {grids[f->codes].kind, grids[f->codes].top, (int)span};
    if (g.kind == GRID_UNSIGNED) g.top = (1 << f->element_bits) - 1;
    if (g.kind == GRID_SIGNED) g.top = (1 << (f->element_bits - 1)) - 1;
    if (g.kind == GRID_E2M1 && strcmp(storage->dialect, "marlin-linear") == 0) g.kind = GRID_LINEAR;
    return g;
}

/* A magnitude 2^e * (1 + m / 2^bits) with few bits, as the small float formats have. */
static double small_float(source *s, int bits, int low, int high)
{
    double m = below(s, 1u << bits) / power_of_two(bits);
    return power_of_two(low + (int)below(s, (uint32_t)(high - low + 1))) * (1 + m);
}

static const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
static const double e2m1_between[8] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 5}; /* midpoints; the last twice */

static double grid_point(source *s, grid g)
{
    switch (g.kind) {
    case GRID_E4M3: return sign(s, small_float(s, 3, -6, 7));
    case GRID_E5M2: return sign(s, small_float(s, 2, -6, 7));
    case GRID_E2M1: return sign(s, e2m1[below(s, 8)]);
    case GRID_SIGNED: return sign(s, below(s, (uint32_t)g.top + 1));
    case GRID_UNSIGNED: return below(s, (uint32_t)g.top + 1);
    case GRID_LINEAR: return sign(s, below(s, 7)) / 2;
    case GRID_HALF: break;
    }
    return sign(s, below(s, 65));
}

static double grid_midpoint(source *s, grid g)
{
    switch (g.kind) {
    case GRID_E4M3: return sign(s, small_float(s, 3, -6, 7) + power_of_two(-10));
    case GRID_E5M2: return sign(s, small_float(s, 2, -6, 7) + power_of_two(-9));
    case GRID_E2M1: return sign(s, e2m1_between[below(s, 8)]);
    case GRID_UNSIGNED: return below(s, (uint32_t)g.top) + 0.5;
    case GRID_SIGNED: return sign(s, below(s, (uint32_t)g.top) + 0.5);
    case GRID_LINEAR: return sign(s, below(s, 6) / 2.0 + 0.25);
    case GRID_HALF: break;
    }
    return sign(s, 1 + (2 * below(s, 1 << 10) + 1) / power_of_two(11)); /* between two f16 values */
}

/* The unit of row-scaled data: random powers of two that stay normal in f16. */
static double unit(source *s)
{
    return power_of_two((int)below(s, 9) - 6);
}

/* --- rows --- */

typedef void row_fill(const kvg_case *c, kvg_side side, source *s, double *x);

static uint32_t span_of(const kvg_case *c, kvg_side side)
{
    const grid g = grid_of(&c->problem.storage[side]);
    return g.span && (uint32_t)g.span < c->problem.head_dim ? (uint32_t)g.span : c->problem.head_dim;
}

/* Grid points times a power of two, the largest magnitude present in every span: encoders must find the very scale. */
static void exact_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    const grid g = grid_of(&c->problem.storage[side]);
    const uint32_t span = span_of(c, side);
    for (uint32_t start = 0; start < c->problem.head_dim; start += span) {
        const double u = g.span ? unit(s) : 1;
        for (uint32_t i = start; i < start + span; i++) x[i] = grid_point(s, g) * u;
        if (!g.span) continue;
        x[start + below(s, span / 2)] = g.kind == GRID_UNSIGNED ? 0 : x[start];
        x[start + span / 2 + below(s, span / 2)] = g.top * u;
    }
}

static void tie_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    const grid g = grid_of(&c->problem.storage[side]);
    const uint32_t span = span_of(c, side);
    for (uint32_t start = 0; start < c->problem.head_dim; start += span) {
        const double u = g.span ? unit(s) : 1;
        for (uint32_t i = start; i < start + span; i++) x[i] = grid_midpoint(s, g) * u;
        if (g.kind == GRID_UNSIGNED) x[start] = 0;
        if (g.span) x[start + 1 + below(s, span - 1)] = g.top * u;
    }
}

/* amax one step of the model type below, at and above the values where exponents change. */
static void edge_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    static const double edges[] = {6, 4, 7, 8, 3.5, 3, 5, 448};
    const uint32_t span = span_of(c, side);
    for (uint32_t start = 0; start < c->problem.head_dim; start += span) {
        const double u = power_of_two((int)below(s, 7) - 5), edge = edges[below(s, 8)] * u;
        for (uint32_t i = start; i < start + span; i++) x[i] = normal(s) * edge / 8;
        float at = (float)edge;
        uint16_t code;
        switch (below(s, 3)) {
        case 0: break;
        case 1: at = kvg_f32_of_bits(kvg_bits_of_f32(at) + 1); break;
        case 2: at = kvg_f32_of_bits(kvg_bits_of_f32(at) - 1); break;
        }
        if (c->problem.dtype != KVG_DTYPE_F32) { /* neighbours in the model type, not in f32 */
            float moved = at;
            at = (float)edge;
            kvg_reference_store(c->problem.dtype, &at, 1, &code);
            code = (uint16_t)(code + (moved > at) - (moved < at));
            kvg_reference_load(c->problem.dtype, &code, 1, &at);
        }
        put_somewhere(s, x + start, span, at);
    }
}

static void outlier_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    const uint32_t span = span_of(c, side);
    for (uint32_t i = 0; i < c->problem.head_dim; i++) x[i] = normal(s) * 0.02;
    for (uint32_t start = 0; start < c->problem.head_dim; start += span)
        put_somewhere(s, x + start, span, 60 + normal(s));
}

/* Block j has magnitude j + 1: a scale read from the wrong block is always another number. */
static void staircase_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    const uint32_t span = span_of(c, side);
    for (uint32_t i = 0; i < c->problem.head_dim; i++) x[i] = sign(s, e2m1[below(s, 8)] / 6 * (i / span + 1));
    for (uint32_t start = 0; start < c->problem.head_dim; start += span) x[start + below(s, span)] = start / span + 1;
}

static void subnormal_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    (void)side;
    const double step = c->problem.dtype == KVG_DTYPE_F16 ? power_of_two(-24)
                        : c->problem.dtype == KVG_DTYPE_BF16 ? power_of_two(-126) / 128
                                                             : power_of_two(-126) / 8388608;
    for (uint32_t i = 0; i < c->problem.head_dim; i++) x[i] = sign(s, below(s, 100) * step);
}

static void zero_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    (void)side;
    for (uint32_t i = 0; i < c->problem.head_dim; i++) x[i] = sign(s, 0.0);
}

/* A block of zeros, a block of tiny values and ordinary blocks next to each other. */
static void mixed_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    const uint32_t span = span_of(c, side);
    for (uint32_t i = 0; i < c->problem.head_dim; i++) {
        const double magnitude = (const double[]){0, 1e-6, 0.002, 3}[(i / span + s->stream) % 4];
        x[i] = normal(s) * magnitude;
    }
}

static void special_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    (void)side;
    static const double specials[] = {NAN, INFINITY, -INFINITY, -NAN};
    normals(s, x, c->problem.head_dim);
    const uint32_t count = 1 + below(s, 3);
    for (uint32_t n = 0; n < count; n++) {
        const double special = specials[below(s, 4)]; /* drawn before its place */
        x[below(s, c->problem.head_dim)] = special;
    }
}

static void constant_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    (void)side;
    const double value = normal(s);
    for (uint32_t i = 0; i < c->problem.head_dim; i++) x[i] = value;
}

/* All of one sign and far from zero: a stray zero in a minimum or maximum shows. */
static void offset_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    (void)side;
    const double offset = sign(s, 20);
    for (uint32_t i = 0; i < c->problem.head_dim; i++) x[i] = offset + normal(s);
}

/* Around and beyond the largest code under a scale of 1/8 to 8. */
static void saturating_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    const grid g = grid_of(&c->problem.storage[side]);
    static const double around[] = {1, 1.0625, 464.0 / 448, 0.96875, 1.2, 2, 40};
    for (uint32_t i = 0; i < c->problem.head_dim; i++)
        x[i] = sign(s, around[below(s, 7)] * (g.top > 448 ? 448 : g.top));
}

static void normal_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    (void)side;
    normals(s, x, c->problem.head_dim);
}

static row_fill *const adversarial_rows[] = {
    tie_row,     edge_row,    outlier_row,  staircase_row, subnormal_row,  zero_row,
    mixed_row,   special_row, constant_row, offset_row,    saturating_row, normal_row,
};

static void adversarial_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    const uint64_t count = sizeof adversarial_rows / sizeof adversarial_rows[0];
    adversarial_rows[s->stream / 2 % count](c, side, s, x);
}

/* K has a few channels 8 to 23 times as wide as the others, the same in every row of a head; V has none. */
static void random_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    const double *widths = s->widths + s->stream / 2 % c->problem.kv_heads * c->problem.head_dim;
    normals(s, x, c->problem.head_dim);
    for (uint32_t i = 0; i < c->problem.head_dim && side == KVG_K; i++) x[i] *= widths[i];
}

/* To be freed; NULL without memory. */
static double *draw_widths(const kvg_case *c)
{
    const uint64_t heads = c->problem.kv_heads, D = c->problem.head_dim, seed = kvg_fill_seed(c);
    double *widths = malloc(heads * D * sizeof *widths);
    for (uint64_t i = 0; widths && i < heads * D; i++) {
        const uint64_t channel = kvg_rng_u64(seed, ~0ull, i / D << 32 | i % D);
        widths[i] = channel % 16 == 0 ? 8 + (double)(channel >> 32 & 15) : 1;
    }
    return widths;
}

static void all_zero_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    (void)side, (void)s;
    for (uint32_t i = 0; i < c->problem.head_dim; i++) x[i] = 0;
}

/* --- rows of the probes of op decode: numbers that every format stores exactly, its scales being powers of two --- */

/* Elements that give a row its scales: the largest code of every span; 0 and the largest for affine formats. */
static bool anchor(const kvg_case *c, kvg_side side, uint32_t dim, double *value)
{
    const grid g = grid_of(&c->problem.storage[side]);
    *value = g.kind == GRID_UNSIGNED && dim == 0 ? 0 : g.top;
    return g.kind == GRID_UNSIGNED ? dim < 2 : g.span && dim % span_of(c, side) == 0;
}

static uint32_t anchors(const kvg_case *c, kvg_side side)
{
    uint32_t count = 0;
    double value;
    for (uint32_t i = 0; i < c->problem.head_dim; i++) count += anchor(c, side, i, &value);
    return count;
}

static void ones_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    (void)s;
    for (uint32_t i = 0; i < c->problem.head_dim; i++) x[i] = anchor(c, side, i, &x[i]) ? x[i] : 1;
}

/* Bits that tell the live tokens of a case apart. */
static uint32_t token_bits(const kvg_problem *p)
{
    uint32_t bits = 1;
    while (((uint64_t)p->paging.sequences * p->tokens - 1) >> bits) bits++;
    return bits;
}

/* The other elements hold the bits of the token's number, over and over. */
static void needle_row(const kvg_case *c, kvg_side side, source *s, double *x)
{
    const uint64_t token = s->stream / 2 / c->problem.kv_heads;
    const grid g = grid_of(&c->problem.storage[side]);
    for (uint32_t i = 0, n = 0; i < c->problem.head_dim; i++) {
        if (anchor(c, side, i, &x[i])) continue;
        const bool bit = token >> n++ % token_bits(&c->problem) & 1;
        x[i] = bit ? g.kind == GRID_UNSIGNED ? g.top : 1 : g.kind == GRID_UNSIGNED ? 0 : -1;
    }
}

/* What the tensor scale makes of 1. */
static double grid_unit(const kvg_case *c, kvg_side side)
{
    const bool scaled = kvg_format_get(c->problem.storage[side].format)->tensor_scale;
    return scaled && c->scale.given ? (double)c->scale.value[side] : 1;
}

double kvg_fill_ones_sum(const kvg_case *c)
{
    double x[KVG_MAX_HEAD_DIM], sum = 0;
    ones_row(c, KVG_K, NULL, x);
    for (uint32_t i = 0; i < c->problem.head_dim; i++) sum += x[i];
    return sum * grid_unit(c, KVG_K);
}

int kvg_fill_needle_sign(const kvg_case *c, uint64_t token, uint32_t dim)
{
    uint32_t n = dim;
    double value;
    for (uint32_t i = 0; i < dim; i++) n -= anchor(c, KVG_K, i, &value);
    return anchor(c, KVG_K, dim, &value) ? 0 : token >> n % token_bits(&c->problem) & 1 ? 1 : -1;
}

double kvg_fill_needle_step(const kvg_case *c)
{
    const grid g = grid_of(&c->problem.storage[KVG_K]);
    const uint32_t copies = (c->problem.head_dim - anchors(c, KVG_K)) / token_bits(&c->problem);
    return copies * (g.kind == GRID_UNSIGNED ? g.top : 2) * grid_unit(c, KVG_K);
}

/* KVG_FILL_CODES needs values too, for the controls that copy or compare them. */
static row_fill *const fills[][2] = {
    [KVG_FILL_EXACT] = {exact_row, exact_row},
    [KVG_FILL_ADVERSARIAL] = {adversarial_row, adversarial_row},
    [KVG_FILL_RANDOM] = {random_row, random_row},
    [KVG_FILL_CODES] = {random_row, random_row},
    [KVG_FILL_ZERO] = {all_zero_row, all_zero_row},
    [KVG_FILL_UNIFORM] = {exact_row, exact_row},
    [KVG_FILL_ONES] = {exact_row, ones_row},
    [KVG_FILL_NEEDLE] = {needle_row, exact_row},
    [KVG_FILL_COLD] = {ones_row, ones_row},
};

bool kvg_fill_is_probe(kvg_fill fill)
{
    return fill >= KVG_FILL_UNIFORM;
}

/* Rows that lie on the formats' grids: the cache holds them exactly. */
static bool on_grid(kvg_fill fill)
{
    return fill == KVG_FILL_EXACT || kvg_fill_is_probe(fill);
}

static kvg_status check_unstored(const kvg_case *c)
{
    if (c->fill == KVG_FILL_RANDOM || c->fill == KVG_FILL_ADVERSARIAL || c->fill == KVG_FILL_ZERO) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "op %s has the fills random, adversarial and zero, not %s",
                    kvg_op_get(c->problem.op)->name, kvg_fill_names[c->fill]);
}

kvg_status kvg_fill_check(const kvg_case *c)
{
    const bool encodes = c->problem.op == KVG_OP_QUANTISE || c->problem.op == KVG_OP_APPEND;
    if (c->fill == KVG_FILL_CODES && encodes) {
        return kvg_fail(KVG_ERR_INVALID, "fill codes is for decoders: op %s has no codes as input",
                        kvg_op_get(c->problem.op)->name);
    }
    if (!kvg_op_stores(c->problem.op)) return check_unstored(c);
    if (c->fill == KVG_FILL_EXACT && (c->problem.bias || c->problem.rope.dims)) {
        return kvg_fail(KVG_ERR_INVALID, "fill exact does not survive bias or rope: leave them out");
    }
    if ((on_grid(c->fill) || c->fill == KVG_FILL_ADVERSARIAL) && c->problem.head_dim < 4) {
        return kvg_fail(KVG_ERR_INVALID, "fill %s needs a head_dim of at least 4", kvg_fill_names[c->fill]);
    }
    if (!on_grid(c->fill)) return KVG_OK;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_storage *storage = &c->problem.storage[side];
        if (grid_of(storage).kind == GRID_LINEAR) {
            return kvg_fail(KVG_ERR_INVALID, "fill %s does not exist for %s.%s: amax / 6 is not on its grid",
                            kvg_fill_names[c->fill], kvg_format_get(storage->format)->name, storage->dialect);
        }
        if (!kvg_format_get(storage->format)->tensor_scale) continue;
        const bool power = c->scale.given && (kvg_bits_of_f32(c->scale.value[side]) & 0x7FFFFFu) == 0;
        if (!power && !(c->scale.convention == KVG_SCALE_P4 && !c->scale.given)) {
            return kvg_fail(KVG_ERR_INVALID, "fill %s needs powers of two as tensor scales, or P4",
                            kvg_fill_names[c->fill]);
        }
    }
    return KVG_OK;
}

kvg_status kvg_fill_values(const kvg_case *c, const kvg_problem *rows, kvg_side side, kvg_tensor *tensor)
{
    kvg_status s = kvg_fill_check(c);
    if (s) return s;
    if (c->fill == KVG_FILL_CAPTURE) return kvg_fill_capture(c, side, tensor);
    const uint32_t D = c->problem.head_dim;
    const size_t row_bytes = D * kvg_dtype_bytes(c->problem.dtype);
    const double g = on_grid(c->fill) ? grid_unit(c, side) : 1;
    /* K's rows that are V's as well are ones, too */
    const kvg_side kind = c->fill == KVG_FILL_ONES && c->problem.paging.shared_kv ? KVG_V : side;
    const uint64_t seed = kvg_fill_seed(c), count = (uint64_t)rows->tokens * rows->kv_heads;
    double *widths = draw_widths(c);
    if (!widths) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the widths of %u channels", D);
    /* By one thread: kvgold matrix fills before it forks, and threads of OpenMP do not outlive that. */
    for (uint64_t r = 0; r < count; r++) {
        source s_row = {seed, 2 * r + (uint64_t)side, 0, widths};
        double x[KVG_MAX_HEAD_DIM];
        float narrow[KVG_MAX_HEAD_DIM];
        fills[c->fill][kind](c, side, &s_row, x);
        for (uint32_t i = 0; i < D; i++) narrow[i] = (float)(x[i] * g);
        kvg_reference_store(c->problem.dtype, narrow, D, (uint8_t *)tensor->data + r * row_bytes);
    }
    free(widths);
    return KVG_OK;
}

kvg_status kvg_fill_scale(const kvg_case *c, kvg_side side, const kvg_tensor *values, float *g)
{
    if (c->scale.given) {
        *g = c->scale.value[side];
        return KVG_OK;
    }
    const size_t width = kvg_dtype_bytes(values->dtype), D = c->problem.head_dim;
    float amax = 0, x[KVG_MAX_HEAD_DIM];
    for (size_t at = 0; at < values->bytes; at += D * width) {
        kvg_reference_load(values->dtype, (const uint8_t *)values->data + at, D, x);
        for (size_t i = 0; i < D; i++) amax = fabsf(x[i]) <= FLT_MAX && fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    }
    if (amax == 0) amax = 1; /* all zero: any scale is right, and the case shows as MISTRUSTED */
    return kvg_scale_from_amax(c->scale.convention, amax, g);
}

void kvg_fill_codes(const kvg_case *c, kvg_side side, kvg_tensor *codes, kvg_tensor *scales)
{
    const kvg_format_info *format = kvg_format_get(c->problem.storage[side].format);
    const uint64_t seed = kvg_fill_seed(c);
    const bool wide = format->element_bits == 16; /* all high bytes in turn, low bytes at random */
    uint8_t *bytes = codes->data, *scale_bytes = scales->data;
    for (size_t i = 0; i < codes->bytes; i++) {
        if (wide) bytes[i] = (uint8_t)(i % 2 ? i / 2 : kvg_rng_u64(seed, (uint64_t)side, i));
        else bytes[i] = (uint8_t)i;
    }
    for (size_t i = 0; i < scales->bytes; i++) {
        scale_bytes[i] = (uint8_t)(format->block ? i * 89 + i / 256 : kvg_rng_u64(seed, 2 + (uint64_t)side, i));
    }
}

/* Streams under another key (the seed's complement) than the rows. */
void kvg_fill_bias(const kvg_case *c, kvg_side side, kvg_tensor *bias)
{
    const size_t width = kvg_dtype_bytes(bias->dtype);
    for (size_t i = 0; i < bias->bytes / width; i++) {
        const float x = (float)(kvg_rng_normal(~kvg_fill_seed(c), STREAM_BIAS + (uint64_t)side, i) * 0.25);
        kvg_reference_store(bias->dtype, &x, 1, (uint8_t *)bias->data + i * width);
    }
}

/* (1 - t^2) / (1 + t^2) and 2t / (1 + t^2), t in (-1, 1): the same bits on every machine, which cos and sin are not. */
void kvg_fill_cos_sin(const kvg_case *c, kvg_tensor *table)
{
    float *pairs = table->data;
    for (size_t i = 0; i < table->bytes / (2 * sizeof *pairs); i++) {
        const uint64_t random = kvg_rng_u64(~kvg_fill_seed(c), STREAM_ROPE, i);
        const double t = (double)(random >> 40) / (1 << 23) - 1, d = 1 + t * t;
        const bool flip = random & 1; /* the other half of the circle */
        pairs[2 * i] = (float)((1 - t * t) / d * (flip ? -1 : 1));
        pairs[2 * i + 1] = (float)(2 * t / d);
    }
}

void kvg_fill_noise(const kvg_case *c, uint64_t stream, kvg_tensor *tensor)
{
    const uint64_t seed = ~kvg_fill_seed(c);
    uint8_t *bytes = tensor->data;
    for (size_t i = 0; i < tensor->bytes; i += 8) {
        const uint64_t word = kvg_rng_u64(seed, STREAM_NOISE + stream, i);
        memcpy(bytes + i, &word, tensor->bytes - i < 8 ? tensor->bytes - i : 8);
    }
}
