/* The matrix instructions of the GPU that is here against the reference's model of them, bit for bit: mma.sync on every
 * chip, and on Hopper wgmma, whose sums are the same.
 *
 * usage: test_gpu_mma [TILES]    tiles of 128 outputs per class and type, a multiple of 4; the default gives more than
 *                                10^8 outputs of each instruction
 *
 * Exit status: 0 no mismatch, 1 mismatches or a CUDA error, 77 no GPU or none with a profile. KVGOLD_REQUIRE=sm90 in
 * the environment makes anything but an SM 90 that was tested a failure. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bits.h"
#include "gpu/gpu.h"
#include "harness/trial/question/mma_inputs.h"
#include "reference/tensor_core.h"
#include "tests/gpu/mma_compare.h"
#include "tests/gpu/wgmma_tiles.h"

enum { SEED = 0x6D6D61, SKIP = 77, DEFAULT_TILES = 16640, KIND_TILES = 1024 };

static const char *require(void)
{
    const char *name = getenv("KVGOLD_REQUIRE");
    return name && *name ? name : NULL;
}

/* There is nothing to test: a skip, or a failure where a chip is required. */
static int nothing(const char *reason)
{
    if (require()) printf("FAILED: KVGOLD_REQUIRE=%s, but %s\n", require(), reason);
    else printf("skipped: %s\n", reason);
    return require() ? EXIT_FAILURE : SKIP;
}

static void check(kvg_status status)
{
    if (status == KVG_OK) return;
    printf("FAILED: %s\n", kvg_error_text());
    exit(EXIT_FAILURE);
}

/* --- what kinds of input gave what: read this where the rules of specials, zeros and overflow are in doubt --- */

enum {
    ZERO_PLUS = 1,
    ZERO_MINUS = 2,
    FINITE = 4,
    INF_PLUS = 8,
    INF_MINUS = 16,
    INF_ZERO = 32,
    NAN_FACTOR = 64,
    C_SHIFT = 7
};
static const char *const kind_names[] = {"+0", "-0", "finite", "+Inf", "-Inf", "Inf*0", "NaN"};

typedef struct kind_row {
    uint32_t kinds; /* of the products, and those of c << C_SHIFT */
    uint32_t expected, got;
    uint64_t count;
} kind_row;

typedef struct kind_table {
    kind_row row[256];
    size_t rows;
    uint64_t dropped; /* outputs for which there was no row left */
} kind_table;

static uint32_t kind_of(uint32_t magnitude, uint32_t infinity, bool negative)
{
    if (magnitude > infinity) return NAN_FACTOR;
    if (magnitude == infinity) return negative ? INF_MINUS : INF_PLUS;
    if (magnitude == 0) return negative ? ZERO_MINUS : ZERO_PLUS;
    return FINITE;
}

static uint32_t product_kind(kvg_dtype dtype, uint16_t a, uint16_t b)
{
    const uint32_t infinity = dtype == KVG_DTYPE_F16 ? 0x7C00 : 0x7F80;
    const bool negative = ((a ^ b) & 0x8000) != 0;
    const uint32_t kinds = kind_of(a & 0x7FFF, infinity, negative) | kind_of(b & 0x7FFF, infinity, negative);
    const uint32_t zero = kinds & (ZERO_PLUS | ZERO_MINUS), inf = kinds & (INF_PLUS | INF_MINUS);
    if (kinds & NAN_FACTOR) return NAN_FACTOR;
    if (zero && inf) return INF_ZERO;
    return zero ? zero : inf ? inf : FINITE;
}

/* Specials, zeros and the largest finite numbers stand for themselves, 1 for all other results. */
static uint32_t result_kind(uint32_t bits)
{
    const uint32_t magnitude = bits & 0x7FFFFFFF;
    return magnitude >= 0x7F7FFFFF || magnitude == 0 ? bits : 1;
}

/* Only what decides: specials before other numbers, those before zeros. */
static uint32_t deciding(uint32_t products, uint32_t c)
{
    const uint32_t specials = INF_PLUS | INF_MINUS | INF_ZERO | NAN_FACTOR;
    if (products & specials) {
        products &= specials;
        if (!(c & specials)) c = FINITE;
    } else if (products & FINITE) {
        products = FINITE;
    }
    return products | c << C_SHIFT;
}

static void kinds_count(kind_table *t, const kind_row *r)
{
    for (size_t i = 0; i < t->rows; i++) {
        kind_row *known = &t->row[i];
        if (known->kinds != r->kinds || known->expected != r->expected || known->got != r->got) continue;
        known->count++;
        return;
    }
    if (t->rows < sizeof t->row / sizeof t->row[0]) t->row[t->rows++] = *r;
    else t->dropped++;
}

static void kinds_add(kind_table *t, kvg_dtype dtype, size_t tiles, const uint16_t *a, const uint16_t *b,
                      const float *c, const float *expected, const float *got)
{
    for (size_t i = 0; i < tiles * KVG_TILE_C; i++) {
        uint16_t row[KVG_MMA_K], column[KVG_MMA_K];
        const uint32_t addend = kvg_bits_of_f32(c[i]);
        uint32_t products = 0;
        kvg_mma_operands(a + i / KVG_TILE_C * KVG_TILE_A, b + i / KVG_TILE_C * KVG_TILE_B, (int)(i % KVG_TILE_C), row,
                         column);
        for (int k = 0; k < KVG_MMA_K; k++) products |= product_kind(dtype, row[k], column[k]);
        const kind_row r = {deciding(products, kind_of(addend & 0x7FFFFFFF, 0x7F800000, addend >> 31)),
                            result_kind(kvg_bits_of_f32(expected[i])), result_kind(kvg_bits_of_f32(got[i])), 1};
        kinds_count(t, &r);
    }
}

static int by_kinds(const void *x, const void *y)
{
    const kind_row *a = x, *b = y;
    if (a->kinds != b->kinds) return a->kinds < b->kinds ? -1 : 1;
    return (a->count < b->count) - (a->count > b->count);
}

static void print_kinds(uint32_t kinds, int width)
{
    for (int i = 0; i < C_SHIFT; i++) {
        if (kinds >> i & 1) width -= printf(" %s", kind_names[i]);
    }
    printf("%*s", width > 0 ? width : 0, "");
}

static void print_result(uint32_t bits)
{
    if (bits == 1) printf("  other   ");
    else printf("  %08" PRIX32, bits);
}

static void kinds_print(kind_table *t)
{
    qsort(t->row, t->rows, sizeof t->row[0], by_kinds);
    printf("\nresults by the kinds of products and of c (of each class the first %d tiles)\n%-24s %-9s %-9s %-9s %s\n",
           KIND_TILES, " products", "c", "expected", "device", "outputs");
    for (size_t i = 0; i < t->rows; i++) {
        const kind_row *r = &t->row[i];
        print_kinds(r->kinds & ((1u << C_SHIFT) - 1), 24);
        print_kinds(r->kinds >> C_SHIFT, 8);
        print_result(r->expected);
        print_result(r->got);
        printf(" %9" PRIu64 "%s\n", r->count, r->expected == r->got ? "" : "  DIFFERS");
    }
    if (t->dropped) printf(" %" PRIu64 " outputs more\n", t->dropped);
}

/* --- the run --- */

typedef struct tile_set {
    size_t count;
    uint16_t *a, *b;
    float *c, *expected, *got;
    uint16_t *device_a, *device_b;
    float *device_c; /* the device writes its results over it */
} tile_set;

static void *host_alloc(size_t count, size_t size)
{
    void *p = calloc(count, size);
    if (p) return p;
    printf("FAILED: no memory for %zu elements\n", count);
    exit(EXIT_FAILURE);
}

static void *device_alloc(size_t bytes)
{
    void *p;
    check(kvg_gpu_alloc(bytes, &p));
    return p;
}

static tile_set tiles_open(size_t n)
{
    return (tile_set){.count = n,
                   .a = host_alloc(n * KVG_TILE_A, sizeof(uint16_t)),
                   .b = host_alloc(n * KVG_TILE_B, sizeof(uint16_t)),
                   .c = host_alloc(n * KVG_TILE_C, sizeof(float)),
                   .expected = host_alloc(n * KVG_TILE_C, sizeof(float)),
                   .got = host_alloc(n * KVG_TILE_C, sizeof(float)),
                   .device_a = device_alloc(n * KVG_TILE_A * sizeof(uint16_t)),
                   .device_b = device_alloc(n * KVG_TILE_B * sizeof(uint16_t)),
                   .device_c = device_alloc(n * KVG_TILE_C * sizeof(float))};
}

static void tiles_close(tile_set *t)
{
    void *host[] = {t->a, t->b, t->c, t->expected, t->got}, *device[] = {t->device_a, t->device_b, t->device_c};
    for (size_t i = 0; i < sizeof host / sizeof host[0]; i++) free(host[i]);
    for (size_t i = 0; i < sizeof device / sizeof device[0]; i++) kvg_gpu_free(device[i]);
}

/* The ways in which the device makes a tile. */
typedef struct instruction {
    const char *name;
    uint32_t sm;    /* the chip that has it; 0: mma.sync, which all have */
    wgmma_way way;
    bool without_c; /* c is +0 */
} instruction;

static const instruction instructions[] = {
    {"mma.sync", 0, 0, false},
    {"wgmma as of q and K", 90, WGMMA_COLUMNS, false},
    {"wgmma as of weights and V", 90, WGMMA_ROWS, false},
    {"wgmma as of weights and V, 128 columns", 90, WGMMA_ROWS_128, false},
    {"wgmma as of weights and ones", 90, WGMMA_EIGHT, false},
    {"wgmma that begins with nothing", 90, WGMMA_COLUMNS, true},
};

static kvg_status run_tiles(const instruction *how, kvg_dtype dtype, const tile_set *t)
{
    const uint16_t *a = t->device_a, *b = t->device_b;
    float *c = t->device_c;
    if (how->sm == 0) return kvg_gpu_mma(dtype, t->count, a, b, c, c, NULL);
    return wgmma_tiles(dtype, how->way, how->without_c, t->count, a, b, c, c, NULL);
}

static void run_class(tile_set *t, const kvg_profile_info *profile, kvg_dtype dtype, const kvg_mma_class *class,
                      const instruction *how)
{
    int refused = 0;
#pragma omp parallel for schedule(static) reduction(+ : refused)
    for (size_t i = 0; i < t->count; i++) {
        uint16_t *a = t->a + i * KVG_TILE_A, *b = t->b + i * KVG_TILE_B;
        float *c = t->c + i * KVG_TILE_C;
        kvg_mma_tile_fill(class, dtype, SEED, i, a, b, c);
        if (how->without_c) memset(c, 0, KVG_TILE_C * sizeof *c);
        refused += kvg_reference_mma(profile->profile, dtype, 1, a, b, c, t->expected + i * KVG_TILE_C) != KVG_OK;
    }
    if (refused) check(kvg_fail(KVG_ERR_INVALID, "the reference refused %d tiles", refused));
    check(kvg_gpu_upload(t->device_a, t->a, t->count * KVG_TILE_A * sizeof *t->a, NULL));
    check(kvg_gpu_upload(t->device_b, t->b, t->count * KVG_TILE_B * sizeof *t->b, NULL));
    check(kvg_gpu_upload(t->device_c, t->c, t->count * KVG_TILE_C * sizeof *t->c, NULL));
    check(run_tiles(how, dtype, t));
    memset(t->got, 0xA5, t->count * KVG_TILE_C * sizeof *t->got);
    check(kvg_gpu_download(t->got, t->device_c, t->count * KVG_TILE_C * sizeof *t->got, NULL));
}

/* All classes by one instruction; how many outputs differ. */
static uint64_t run_instruction(const kvg_profile_info *profile, const instruction *how, size_t count)
{
    static const kvg_dtype dtypes[] = {KVG_DTYPE_F16, KVG_DTYPE_BF16};
    static kind_table kinds;
    uint64_t outputs = 0, mismatches = 0;
    tile_set t = tiles_open(count);
    kinds.rows = 0, kinds.dropped = 0;
    printf("\n%s\n%-18s %-5s %12s %12s\n", how->name, "class", "type", "outputs", "mismatches");
    for (size_t i = 0; i < 2 * kvg_mma_class_count; i++) {
        const kvg_mma_class *class = &kvg_mma_classes[i / 2];
        const kvg_dtype dtype = dtypes[i % 2];
        mma_tally tally = {0};
        run_class(&t, profile, dtype, class, how);
        mma_compare(&tally, profile, dtype, t.count, t.a, t.b, t.c, t.expected, t.got);
        kinds_add(&kinds, dtype, count < KIND_TILES ? count : KIND_TILES, t.a, t.b, t.c, t.expected, t.got);
        printf("%-18s %-5s %12" PRIu64 " %12" PRIu64 "\n", class->name, kvg_dtype_name(dtype), tally.outputs,
               tally.mismatches);
        mma_tally_print(&tally);
        outputs += tally.outputs;
        mismatches += tally.mismatches;
    }
    kinds_print(&kinds);
    tiles_close(&t);
    printf("\n%s, %s: %" PRIu64 " outputs, %" PRIu64 " mismatches\n", profile->name, how->name, outputs, mismatches);
    return mismatches;
}

static int run(const kvg_profile_info *profile, uint32_t sm, size_t count)
{
    uint64_t mismatches = 0;
    for (size_t i = 0; i < sizeof instructions / sizeof instructions[0]; i++) {
        const instruction *how = &instructions[i];
        if (how->sm == 0 || how->sm == sm) mismatches += run_instruction(profile, how, count);
    }
    return mismatches == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    kvg_gpu_device device;
    kvg_profile profile;
    size_t found;
    char name[16];
    const long long count = argc > 1 ? atoll(argv[1]) : DEFAULT_TILES;
    if (count < 1 || count % 4) { /* wgmma takes four tiles at once */
        printf("usage: test_gpu_mma [TILES], a multiple of 4\n");
        return 2;
    }
    check(kvg_gpu_devices(&device, 1, &found));
    if (found == 0) return nothing("there is no GPU");
    printf("%s, SM %" PRIu32 "\n", device.name, device.sm);
    snprintf(name, sizeof name, "sm%" PRIu32, device.sm);
    if (require() && strcmp(require(), name) != 0) return nothing("the GPU is another one");
    if (kvg_profile_of_sm(device.sm, &profile)) return nothing(kvg_error_text());
    return run(kvg_profile_get(profile), device.sm, (size_t)count);
}
