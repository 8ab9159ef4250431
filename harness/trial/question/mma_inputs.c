#include "harness/trial/question/mma_inputs.h"

#include "core/bits.h"
#include "core/rng.h"

const kvg_mma_class kvg_mma_classes[] = {
    {.name = "near", .low = -2, .high = 2, .c_low = -4, .c_high = 4, .extreme = 16},
    {.name = "wide", .low = -14, .high = 15, .c_low = -40, .c_high = 40, .extreme = 16, .zero = 8},
    {.name = "full", .low = -126, .high = 127, .c_low = -126, .c_high = 127, .extreme = 32, .zero = 8, .subnormal = 8},
    {.name = "bits", .bits = true},
    {.name = "sticky", .low = -13, .high = 0, .c_low = -28, .c_high = 2, .extreme = 128, .ends = true},
    {.name = "sticky_wide", .low = -14, .high = -1, .c_low = -28, .c_high = 0, .extreme = 128},
    {.name = "cancel", .low = -2, .high = 2, .c_low = -32, .c_high = 0, .extreme = 32, .c_zero = 64, .cancel = 250},
    {.name = "cancel_wide", .low = -12, .high = 12, .c_low = -40, .c_high = 24, .c_zero = 16, .cancel = 224},
    {.name = "addend_large", .low = -4, .high = 4, .c_low = 8, .c_high = 40, .extreme = 64},
    {.name = "addend_tiny", .low = -4, .high = 4, .c_low = -60, .c_high = -10, .extreme = 64, .c_zero = 32},
    {.name = "subnormal", .low = -14, .high = 6, .c_low = -60, .c_high = -10, .subnormal = 128, .extreme = 64},
    {.name = "subnormal_large", .low = 0, .high = 127, .c_low = -40, .c_high = 0, .subnormal = 160, .zero = 16},
    {.name = "underflow", .low = -80, .high = -60, .c_low = -126, .c_high = -118, .zero = 16, .c_zero = 128,
     .c_subnormal = 64, .cancel = 64},
    {.name = "addend_subnormal", .low = -75, .high = -70, .zero = 240, .subnormal = 4, .c_low = -126, .c_high = -124,
     .c_zero = 32, .c_subnormal = 192},
    {.name = "zeros", .low = -126, .high = 127, .c_low = -126, .c_high = -20, .zero = 160, .subnormal = 16,
     .c_zero = 128},
    {.name = "vanishing", .low = -77, .high = -73, .zero = 160, .c_zero = 255, .c_low = -126, .c_high = -126},
    {.name = "vanishing_minus", .low = -77, .high = -73, .zero = 160, .c_zero = 255, .c_low = -126, .c_high = -126,
     .minus = true},
    {.name = "least", .low = -79, .high = -73, .c_zero = 255, .c_low = -126, .c_high = -126, .edge = true},
    {.name = "minus_zeros", .low = -14, .high = 15, .c_low = -20, .c_high = 0, .zero = 254, .c_zero = 240,
     .minus = true},
    {.name = "signed_zeros", .low = -14, .high = 15, .c_low = -20, .c_high = 0, .zero = 255, .c_zero = 240},
    {.name = "overflow", .low = 61, .high = 63, .c_low = 124, .c_high = 127, .extreme = 128},
    {.name = "overflow_edge", .low = 59, .high = 63, .c_low = 127, .c_high = 127, .extreme = 240, .cancel = 128},
    {.name = "beyond", .low = 60, .high = 127, .c_low = 100, .c_high = 127, .c_zero = 64, .cancel = 250, .zero = 64},
    {.name = "kinds", .kinds = true},
    {.name = "special_sparse", .low = -14, .high = 15, .c_low = -20, .c_high = 20, .special = 4, .zero = 16,
     .c_special = 8},
    {.name = "special_dense", .low = -126, .high = 127, .c_low = -126, .c_high = 127, .special = 24, .zero = 24,
     .subnormal = 16, .c_special = 64},
};
const size_t kvg_mma_class_count = sizeof kvg_mma_classes / sizeof kvg_mma_classes[0];

/* A row of random words that belongs to one tile. */
typedef struct source {
    uint64_t seed, stream, index;
    uint32_t words[4];
    unsigned left;
} source;

static uint32_t next(source *s)
{
    if (s->left == 0) {
        kvg_rng_block(s->seed, s->stream, s->index++, s->words);
        s->left = 4;
    }
    return s->words[--s->left];
}

/* True `of_256` times of 256. */
static bool chance(source *s, uint8_t of_256)
{
    return of_256 != 0 && (next(s) >> 13 & 255) < of_256;
}

static int between(source *s, int low, int high, bool ends)
{
    const uint32_t word = next(s) >> 8;
    return ends ? (word & 1 ? low : high) : low + (int)(word % (uint32_t)(high - low + 1));
}

/* A binary type with `exponent_bits` and `fraction_bits`. */
typedef struct layout {
    int exponent_bits, fraction_bits;
} layout;

static const layout f16 = {5, 10}, bf16 = {8, 7}, f32 = {8, 23};

static uint32_t fraction(source *s, const layout *t, const kvg_mma_class *class)
{
    const uint32_t ones = ((uint32_t)1 << t->fraction_bits) - 1;
    if (class->edge) return 0;
    if (!chance(s, class->extreme)) return next(s) & ones;
    const uint32_t pick = next(s) >> 5 & 3;
    return pick == 0 ? 0 : pick == 1 ? 1 : ones;
}

static uint32_t with_sign(source *s, const layout *t, uint32_t magnitude)
{
    return (next(s) >> 7 & 1) << (t->exponent_bits + t->fraction_bits) | magnitude;
}

static uint32_t normal(source *s, const layout *t, int low, int high, const kvg_mma_class *class, bool ends)
{
    const int bias = (1 << (t->exponent_bits - 1)) - 1;
    if (low < 1 - bias) low = 1 - bias;
    if (high > bias) high = bias;
    if (low > high) low = high;
    if (high < low) high = low;
    const int exponent = between(s, low, high, ends);
    return with_sign(s, t, (uint32_t)(exponent + bias) << t->fraction_bits | fraction(s, t, class));
}

static uint32_t special(source *s, const layout *t, const kvg_mma_class *class)
{
    const uint32_t infinity = (((uint32_t)1 << t->exponent_bits) - 1) << t->fraction_bits;
    return with_sign(s, t, infinity | (chance(s, 85) ? fraction(s, t, class) : 0));
}

/* One of the kinds of numbers, by a random word. */
static uint32_t kind(source *s, const layout *t)
{
    const uint32_t least_normal = (uint32_t)1 << t->fraction_bits;
    const uint32_t infinity = (((uint32_t)1 << t->exponent_bits) - 1) << t->fraction_bits;
    const uint32_t one = infinity >> 1 & infinity;
    const uint32_t kinds[] = {0, 1, least_normal - 1, least_normal, one, infinity - 1, infinity, infinity | 1,
                              infinity | least_normal >> 1};
    return with_sign(s, t, kinds[(next(s) >> 4) % (sizeof kinds / sizeof kinds[0])]);
}

static uint16_t factor(source *s, const layout *t, const kvg_mma_class *class)
{
    if (class->bits) return (uint16_t)(next(s) >> 9);
    if (chance(s, class->special)) return (uint16_t)special(s, t, class);
    if (chance(s, class->zero)) return (uint16_t)with_sign(s, t, 0);
    if (chance(s, class->subnormal)) return (uint16_t)with_sign(s, t, fraction(s, t, class));
    return (uint16_t)normal(s, t, class->low, class->high, class, class->ends);
}

static uint32_t addend(source *s, const kvg_mma_class *class)
{
    if (class->bits) return next(s);
    if (class->kinds) return kind(s, &f32);
    if (chance(s, class->c_special)) return special(s, &f32, class);
    if (chance(s, class->c_zero)) return with_sign(s, &f32, 0);
    if (chance(s, class->c_subnormal)) return with_sign(s, &f32, fraction(s, &f32, class));
    return normal(s, &f32, class->c_low, class->c_high, class, false);
}

/* Makes the products of k and its partner cancel in every output: equal columns, opposite rows, some a bit off. */
static void cancel(source *s, const kvg_mma_class *class, uint16_t *a, uint16_t *b)
{
    const int partner = 1 << (next(s) >> 6 & 3);
    for (int k = 0; k < KVG_MMA_K; k++) {
        if ((k & partner) || !chance(s, class->cancel)) continue;
        for (int m = 0; m < KVG_MMA_M; m++) {
            a[m * KVG_MMA_K + (k | partner)] = a[m * KVG_MMA_K + k] ^ 0x8000 ^ chance(s, 16);
        }
        for (int n = 0; n < KVG_MMA_N; n++) b[(k | partner) * KVG_MMA_N + n] = b[k * KVG_MMA_N + n] ^ chance(s, 16);
    }
}

/* The factor at `k`: one of a kind or of a power of two at the two places, else +-0. */
static uint16_t placed(source *s, const layout *t, const kvg_mma_class *class, const uint32_t places[2], uint32_t k)
{
    const int exponent = k == places[0] ? class->low : class->high;
    if (k != places[0] && k != places[1]) return (uint16_t)with_sign(s, t, 0);
    return (uint16_t)(class->kinds ? kind(s, t) : normal(s, t, exponent - 1, exponent + 1, class, false));
}

static void fill_places(source *s, const layout *t, const kvg_mma_class *class, uint16_t *a, uint16_t *b)
{
    const uint32_t places[2] = {next(s) >> 3 & 15, next(s) >> 3 & 15};
    for (int i = 0; i < KVG_TILE_A; i++) a[i] = placed(s, t, class, places, (uint32_t)i % KVG_MMA_K);
    for (int i = 0; i < KVG_TILE_B; i++) b[i] = placed(s, t, class, places, (uint32_t)i / KVG_MMA_N);
}

void kvg_mma_tile_fill(const kvg_mma_class *class, kvg_dtype dtype, uint64_t seed, uint64_t index, uint16_t *a,
                       uint16_t *b, float *c)
{
    const layout *t = dtype == KVG_DTYPE_F16 ? &f16 : &bf16;
    const uint64_t stream = (uint64_t)dtype << 32 | (uint64_t)(class - kvg_mma_classes);
    source s = {.seed = seed, .stream = stream, .index = index << 16};
    if (class->kinds || class->edge) {
        fill_places(&s, t, class, a, b);
    } else {
        for (int i = 0; i < KVG_TILE_A; i++) a[i] = factor(&s, t, class);
        for (int i = 0; i < KVG_TILE_B; i++) b[i] = factor(&s, t, class);
    }
    for (int i = 0; class->minus && i < KVG_TILE_A; i++) a[i] |= 0x8000;
    for (int i = 0; class->minus && i < KVG_TILE_B; i++) b[i] &= 0x7FFF;
    if (class->cancel) cancel(&s, class, a, b);
    for (int i = 0; i < KVG_TILE_C; i++) c[i] = kvg_f32_of_bits(addend(&s, class) | (uint32_t)class->minus << 31);
}
