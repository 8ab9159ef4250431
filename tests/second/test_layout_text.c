/* The two derivations of a layout's text: the strides of core/layout_text.c, and the walk of second/slow_layout.c. They
 * agree on every byte of the named layouts and of random texts, and each byte has a place of its own in its pool. In
 * pools that nobody allocates they agree on the rows at both ends and around 2^31 and 2^32 bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/layout_text.h"
#include "core/rng.h"
#include "core/problem.h"
#include "second/slow_layout.h"

enum { SEED = 60, TEXT = 1024 };

/* --- every byte of a problem --- */

typedef void visit_fn(const kvg_problem *p, const kvg_row_map *m, slow_byte byte, bool scales, void *context);

static void each_byte(const kvg_problem *problem, const kvg_layout_map *map, visit_fn *visit, void *context)
{
    kvg_problem p = *problem;
    for (p.paging.layer = 0; p.paging.layer < p.paging.layers; p.paging.layer++) {
        for (int part = 0; part < 4; part++) {
            const kvg_row_map *m = part % 2 ? &map->scales[part / 2] : &map->codes[part / 2];
            const uint64_t rows = (uint64_t)p.paging.blocks * p.kv_heads * p.paging.block_tokens;
            for (uint64_t i = 0; i < rows * m->bytes; i++) {
                const uint64_t row = i / m->bytes, head = row / p.paging.block_tokens;
                const slow_byte byte = {(kvg_side)(part / 2), head / p.kv_heads, head % p.kv_heads,
                                        row % p.paging.block_tokens, i % m->bytes};
                visit(&p, m, byte, part % 2, context);
            }
        }
    }
}

static slow_place place_by(const kvg_problem *p, const kvg_row_map *m, slow_byte b)
{
    return (slow_place){m->pool, m->side, kvg_rows_place(m, p->paging.layer, (uint32_t)b.block, (uint32_t)b.head,
                                                         (uint32_t)b.offset, (uint32_t)b.index)};
}

/* --- each byte where the walk finds it, and no two at one place --- */

typedef struct pools {
    uint8_t *taken[2][2];
    uint64_t bytes[2][2], count;
    const char *why; /* what is wrong with a byte; NULL */
} pools;

static void check_byte(const kvg_problem *p, const kvg_row_map *m, slow_byte byte, bool scales, void *context)
{
    pools *const all = context;
    const slow_place at = place_by(p, m, byte);
    const bool scale_pool = at.pool == KVG_ROLE_SCALE_POOL;
    const slow_place there = scales ? slow_place_of_scale(p, byte) : slow_place_of_code(p, byte);
    all->count++;
    if (all->why) return;
    if (at.pool != there.pool || at.side != there.side || at.at != there.at) all->why = "the walk differs";
    else if (at.at >= all->bytes[at.side][scale_pool]) all->why = "a byte leaves its pool";
    else if (all->taken[at.side][scale_pool][at.at]++) all->why = "two bytes have one place";
}

/* Of a problem that is laid out, under `map`: what is wrong, or NULL, and the bytes that rows have. */
static const char *look(const kvg_problem *p, const kvg_layout_map *map, uint64_t *bytes)
{
    pools all = {.count = 0};
    for (int i = 0; i < 4; i++) {
        const kvg_role role = i % 2 ? KVG_ROLE_SCALE_POOL : KVG_ROLE_DATA_POOL;
        all.bytes[i / 2][i % 2] = p->pool_bytes[i / 2][i % 2];
        assert_int_equal(p->pool_bytes[i / 2][i % 2], slow_pool_bytes(p, role, (kvg_side)(i / 2)));
        all.taken[i / 2][i % 2] = calloc(p->pool_bytes[i / 2][i % 2] + 1, 1);
        assert_non_null(all.taken[i / 2][i % 2]);
    }
    each_byte(p, map, check_byte, &all);
    for (int i = 0; i < 4; i++) free(all.taken[i / 2][i % 2]);
    *bytes = all.count;
    return all.why;
}

static uint64_t check_places(const kvg_problem *p)
{
    uint64_t bytes;
    const char *why = look(p, &p->map, &bytes);
    if (why) fail_msg("%s: %s", kvg_problem_layout_text(p), why);
    return bytes;
}

/* --- random texts --- */

typedef struct draw {
    uint64_t stream, index;
    char text[TEXT];
} draw;

static uint64_t below(draw *d, uint64_t n)
{
    return kvg_rng_below(SEED, d->stream, d->index++, n);
}

static void put(draw *d, const char *word)
{
    const size_t used = strlen(d->text);
    snprintf(d->text + used, sizeof d->text - used, " %s", word);
}

enum { MOST_AXES = 8 };

/* Writes `count` of the axes, in any order, and takes them from the list. */
static void put_axes(draw *d, const char *axes[], size_t *left, size_t count)
{
    put(d, "[");
    for (; count > 0; count--) {
        const size_t i = below(d, *left);
        put(d, axes[i]);
        axes[i] = axes[--*left];
    }
    put(d, "]");
}

/* A nest of the fields, with all of the axes in it. */
static void put_nest(draw *d, const char *const fields[], size_t count, const char *const axes[], size_t axis_count)
{
    static const char *const paddings[] = {"+row", "+data", "+scale", "+3", "+%8"};
    static const char *const cuts[][2] = {{"G", NULL}, {"C/2", "C%2"}, {"C", NULL}, {"C//4", "C%%4"}, {"E", NULL}};
    const char *mine[MOST_AXES];
    memcpy(mine, axes, axis_count * sizeof *mine);
    if (count == 1) {
        const size_t cut = below(d, 9);
        for (int i = 0; cut < 5 && i < 2 && cuts[cut][i]; i++) mine[axis_count++] = cuts[cut][i];
        put_axes(d, mine, &axis_count, axis_count);
        put(d, fields[0]);
    } else {
        const size_t first = 1 + below(d, count - 1);
        put_axes(d, mine, &axis_count, below(d, axis_count + 1));
        put(d, "{");
        put_nest(d, fields, first, mine, axis_count);
        put_nest(d, fields + first, count - first, mine, axis_count);
        put(d, "}");
    }
    if (below(d, 3) == 0) put(d, paddings[below(d, 5)]);
}

static void draw_text(draw *d)
{
    const char *fields[] = {"K.codes", "K.scales", "V.codes", "V.scales"};
    const char *const whole[] = {"L", "B", "H", "N"}, *const digits[] = {"L", "B", "H", "N/4", "N%4"};
    for (size_t i = 3; i > 0; i--) {
        const size_t other = below(d, i + 1);
        const char *const kept = fields[i];
        fields[i] = fields[other];
        fields[other] = kept;
    }
    for (size_t at = 0, count; at < 4; at += count) {
        const bool cut = below(d, 2);
        count = 1 + below(d, 4 - at);
        if (at) put(d, ";");
        put_nest(d, fields + at, count, cut ? digits : whole, cut ? 5 : 4);
    }
}

static void test_random_texts(void **state)
{
    static const kvg_format formats[] = {KVG_FORMAT_NVFP4, KVG_FORMAT_INT8, KVG_FORMAT_BF16, KVG_FORMAT_MLX4};
    const uint64_t random_texts = *(const uint64_t *)*state;
    uint64_t bytes = 0, texts = 0;
    for (uint64_t i = 0; i < random_texts; i++) {
        draw d = {.stream = i};
        const kvg_layout_text text = {"random", d.text};
        kvg_problem p = {.op = KVG_OP_PROBE, .layout = KVG_LAYOUT_TEXT, .dtype = KVG_DTYPE_BF16, .tokens = 1,
                         .kv_heads = 1 + (uint32_t)below(&d, 2), .head_dim = 64, .text = &text,
                         .paging = {.layers = 1 + (uint32_t)below(&d, 2), .blocks = 1 + (uint32_t)below(&d, 2),
                                    .block_tokens = 4 << below(&d, 2)}};
        for (int side = 0; side < 2; side++) p.storage[side] = (kvg_storage){formats[below(&d, 4)], "canonical"};
        draw_text(&d);
        if (strstr(d.text, "+row")) p.paging.row_padding = 5;
        if (strstr(d.text, "+data")) p.paging.data_padding = 7;
        if (strstr(d.text, "+scale")) p.paging.scale_padding = 9;
        if (kvg_problem_lay_out(&p)) { /* too many digits, two pools of one kind, elements of 4 bits */
            const char *why = kvg_error_text();
            if (!strstr(why, "at most 3 digits") && !strstr(why, "a second pool") &&
                !strstr(why, "the pieces do not divide")) fail_msg("%s", why);
            continue;
        }
        if (kvg_problem_check(&p)) fail_msg("%s: %s", d.text, kvg_error_text());
        bytes += check_places(&p);
        texts++;
    }
    assert_true(texts > random_texts / 2);
    printf("%llu texts, %llu bytes\n", (unsigned long long)texts, (unsigned long long)bytes);
}

/* --- the named layouts --- */

/* Every pair of formats; with groups, one row for K and V and, where K's format is V's, padding. */
static void test_named_layouts(void **state)
{
    size_t formats, layouts;
    const kvg_format_info *f = kvg_format_table(&formats);
    const kvg_layout_info *l = kvg_layout_table(&layouts);
    uint64_t bytes = 0, problems = 0, grouped = 0, shared = 0;
    (void)state;
    for (size_t i = 0; i < layouts * formats * formats * 8; i++) {
        const kvg_layout_info *layout = &l[i / 8 / formats / formats];
        const bool padded = i & 1, groups = i & 2, one = i & 4;
        kvg_problem p = {.op = KVG_OP_PROBE, .layout = layout->layout, .dtype = KVG_DTYPE_BF16, .tokens = 1,
                         .kv_heads = layout->shared == KVG_SHARED_ALWAYS ? 1 : 2, .head_dim = 64,
                         .storage = {{f[i / 8 % formats].format, "canonical"},
                                     {f[i / 8 / formats % formats].format, "canonical"}},
                         .paging = {.layers = 2, .blocks = 2, .block_tokens = 4, .shared_kv = one,
                                    .v_dim = one ? 32 : 0, .v_scale_swizzle = groups}};
        if (padded && strstr(layout->text, "+row")) p.paging.row_padding = 3, p.paging.scale_padding = 9;
        if (padded && strstr(layout->text, "+data")) p.paging.data_padding = 7;
        if ((padded && p.storage[KVG_K].format != p.storage[KVG_V].format) || kvg_problem_check(&p)) continue;
        assert_int_equal(kvg_problem_lay_out(&p), KVG_OK);
        assert_int_equal(kvg_problem_check(&p), KVG_OK);
        const uint64_t rows = check_places(&p);
        const uint64_t all = p.pool_bytes[0][0] + p.pool_bytes[0][1] + p.pool_bytes[1][0] + p.pool_bytes[1][1];
        if (!padded && !strstr(layout->text, "+%")) assert_int_equal(rows, all); /* no byte is left over */
        bytes += rows;
        problems++;
        grouped += groups;
        shared += one;
    }
    printf("%llu problems of named layouts, %llu bytes; %llu with groups, %llu with one row\n",
           (unsigned long long)problems, (unsigned long long)bytes, (unsigned long long)grouped,
           (unsigned long long)shared);
    assert_true(grouped > 0 && shared > 0);
}

/* A stride or a base that is one byte short moves a byte, and that is seen. */
static void test_planted(void **state)
{
    size_t layouts, planted = 0;
    const kvg_layout_info *l = kvg_layout_table(&layouts);
    (void)state;
    for (size_t i = 0; i < layouts; i++) {
        const uint32_t heads = l[i].shared == KVG_SHARED_ALWAYS ? 1 : 2;
        kvg_problem p = {.op = KVG_OP_PROBE, .layout = l[i].layout, .dtype = KVG_DTYPE_BF16, .tokens = 1,
                         .kv_heads = heads, .head_dim = 128,
                         .paging = {.layers = 2, .blocks = 2, .block_tokens = 32, .shared_kv = heads == 1,
                                    .v_dim = heads == 1 ? 32 : 0, .v_scale_swizzle = l[i].groups != NULL}};
        for (int f = 0; f < 3; f++) {
            static const kvg_format formats[] = {KVG_FORMAT_NVFP4, KVG_FORMAT_INT8_TOKEN_HEAD, KVG_FORMAT_BF16};
            p.storage[0] = p.storage[1] = (kvg_storage){formats[f], "canonical"};
            if (kvg_problem_check(&p) == KVG_OK) break;
        }
        if (!l[i].paged || kvg_problem_check(&p)) continue;
        assert_int_equal(kvg_problem_lay_out(&p), KVG_OK);
        for (size_t n = 0; n < 4 * (4 + 2 * KVG_MAP_DIGITS); n++) {
            kvg_layout_map map = p.map;
            kvg_row_map *m = n % 2 ? &map.scales[n / 2 % 2] : &map.codes[n / 2 % 2];
            uint64_t *const numbers[] = {&m->base, &m->layer, &m->block, &m->head, &m->token[0].stride,
                                         &m->token[1].stride, &m->token[2].stride, &m->byte[0].stride,
                                         &m->byte[1].stride, &m->byte[2].stride};
            uint64_t bytes;
            if (m->bytes == 0 || *numbers[n / 4] == 0 || (n / 4 == 3 && heads == 1)) continue;
            --*numbers[n / 4];
            if (!look(&p, &map, &bytes)) fail_msg("%s: number %zu short by one is not seen", l[i].name, n);
            planted++;
        }
    }
    printf("%zu numbers of maps short by one\n", planted);
    assert_true(planted > 100);
}

/* --- pools that nobody allocates --- */

typedef uint64_t place_fn(uint64_t place);
static uint64_t whole(uint64_t place) { return place; }
static uint64_t int32(uint64_t place) { return (uint64_t)(int32_t)(uint32_t)place; }
static uint64_t uint32(uint64_t place) { return (uint32_t)place; }

/* How many of the rows looked at lie elsewhere than the walk says, and the highest place. */
typedef struct far_rows {
    uint64_t rows, wrong, top;
} far_rows;

static far_rows look_far(const kvg_problem *problem, const uint64_t *blocks, size_t block_count, place_fn *kept)
{
    far_rows t = {0};
    kvg_problem p = *problem;
    const kvg_paging *g = &p.paging;
    for (size_t i = 0; i < block_count * 64; i++) { /* of each block: ends of layers, heads, offsets, rows, by part */
        const kvg_side side = (kvg_side)(i / 16 % 2);
        const bool scales = i / 32 % 2, last = i / 8 % 2;
        const kvg_row_map *m = scales ? &p.map.scales[side] : &p.map.codes[side];
        if (m->bytes == 0) continue;
        p.paging.layer = i % 2 ? g->layers - 1 : 0;
        const slow_byte byte = {side, blocks[i / 64], i / 2 % 2 ? p.kv_heads - 1 : 0,
                                i / 4 % 2 ? g->block_tokens - 1 : 0, last ? m->bytes - 1 : 0};
        const slow_place want = scales ? slow_place_of_scale(&p, byte) : slow_place_of_code(&p, byte);
        const slow_place got = place_by(&p, m, byte);
        const bool inside = got.at < p.pool_bytes[m->side][m->pool == KVG_ROLE_SCALE_POOL];
        t.wrong += kept(got.at) != want.at || got.pool != want.pool || got.side != want.side || !inside;
        t.top = got.at > t.top ? got.at : t.top;
        t.rows++;
    }
    return t;
}

static uint64_t largest_pool(kvg_problem *p)
{
    uint64_t most = 0;
    assert_int_equal(kvg_problem_lay_out(p), KVG_OK);
    for (int i = 0; i < 4; i++) most = p->pool_bytes[i / 2][i % 2] > most ? p->pool_bytes[i / 2][i % 2] : most;
    return most;
}

static void expect_too_large(const kvg_problem *p)
{
    assert_int_equal(kvg_problem_check(p), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "exceeds 2^63 - 1 bytes"));
}

/* Sums in 32 bits are seen as soon as a place needs more; the most blocks that fit in 2^63 - 1 bytes, and one more. */
static void test_huge_pools(void **state)
{
    static const struct {
        uint32_t heads, dim, layers, tokens;
        uint64_t bytes;
    } sizes[] = {{8, 128, 61, 64, 1ull << 28}, {8, 128, 61, 64, 5ull << 29}, {8, 128, 61, 64, 5ull << 30},
                 {8, 128, 61, 64, 3ull << 38}, {128, 576, 7, 1 << 22, 1ull << 46}, {128, 576, 1021, 4096, INT64_MAX}};
    static const kvg_format formats[] = {KVG_FORMAT_F16, KVG_FORMAT_E4M3, KVG_FORMAT_INT8, KVG_FORMAT_NVFP4};
    enum { SIZES = sizeof sizes / sizeof sizes[0], FORMATS = sizeof formats / sizeof formats[0] };
    size_t layouts;
    uint64_t rows = 0, seen[2] = {0}, problems = 0, largest = 0;
    const kvg_layout_info *l = kvg_layout_table(&layouts);
    (void)state;
    for (size_t i = 0; i < layouts * SIZES * FORMATS * FORMATS; i++) {
        const kvg_layout_info *layout = &l[i / SIZES / FORMATS / FORMATS];
        const bool one = layout->shared == KVG_SHARED_ALWAYS, full = sizes[i % SIZES].bytes == INT64_MAX;
        kvg_problem p = {.op = KVG_OP_PROBE, .layout = layout->layout, .dtype = KVG_DTYPE_BF16, .tokens = 1,
                         .kv_heads = one ? 1 : sizes[i % SIZES].heads, .head_dim = sizes[i % SIZES].dim,
                         .paging = {.layers = sizes[i % SIZES].layers, .blocks = 1, .shared_kv = one,
                                    .v_dim = one ? 64 : 0,
                                    .block_tokens = sizes[i % SIZES].tokens * (one ? sizes[i % SIZES].heads : 1)}};
        p.storage[KVG_K] = (kvg_storage){formats[i / SIZES % FORMATS], "canonical"};
        p.storage[KVG_V] = (kvg_storage){formats[i / SIZES / FORMATS % FORMATS], "canonical"};
        if (kvg_problem_check(&p)) continue;
        const uint64_t block = largest_pool(&p), most = sizes[i % SIZES].bytes;
        p.paging.blocks = (uint32_t)(most / block + !full);
        assert_int_equal(kvg_problem_check(&p), KVG_OK);
        assert_true(largest_pool(&p) / block == p.paging.blocks);
        const uint64_t last = p.paging.blocks - 1, at31 = (1ull << 31) / block, at32 = (1ull << 32) / block;
        const uint64_t blocks[] = {0, last, at31 < last ? at31 : last, at31 ? (at31 < last ? at31 : last) - 1 : 0,
                                   at32 < last ? at32 : last, at32 ? (at32 < last ? at32 : last) - 1 : 0};
        const far_rows right = look_far(&p, blocks, 6, whole);
        if (right.wrong) fail_msg("%s: %llu wrong", layout->name, (unsigned long long)right.wrong);
        const bool over[2] = {right.top > INT32_MAX, right.top > UINT32_MAX};
        assert_int_equal(look_far(&p, blocks, 6, int32).wrong > 0, over[0]);
        assert_int_equal(look_far(&p, blocks, 6, uint32).wrong > 0, over[1]);
        for (int bits = 0; bits < 2; bits++) seen[bits] += over[bits];
        rows += right.rows;
        problems++;
        if (!full) continue;
        p.paging.blocks++;
        expect_too_large(&p);
        p.paging.layers = UINT32_MAX;
        expect_too_large(&p);
        largest++;
    }
    printf("%llu huge problems, %llu rows, %llu above 2^31, %llu above 2^32, %llu at 2^63 - 1\n",
           (unsigned long long)problems, (unsigned long long)rows, (unsigned long long)seen[0],
           (unsigned long long)seen[1], (unsigned long long)largest);
    assert_true(seen[0] < problems && seen[1] > 0 && largest > 0);
}

/* A small cache of that layout. */
static kvg_problem problem_of(const kvg_layout_text *text)
{
    return (kvg_problem){.op = KVG_OP_PROBE, .layout = KVG_LAYOUT_TEXT, .dtype = KVG_DTYPE_BF16, .tokens = 1,
                         .kv_heads = 2, .head_dim = 64, .text = text,
                         .storage = {{KVG_FORMAT_NVFP4, "canonical"}, {KVG_FORMAT_NVFP4, "canonical"}},
                         .paging = {.layers = 2, .blocks = 4, .block_tokens = 4}};
}

/* --- what is refused, and where --- */

static void test_refusals(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"[L B H N H]{ K.codes V.codes } ; K.scales", "V.scales has no place"},
        {"[L B H N H]{ K.codes V.codes K.scales V.scales }", "or this digit of it, stands twice: [L B ^H N H]"},
        {"[L B H]{ K.codes V.codes K.scales V.scales }", "axis N, of 4, is missing: [L B H]{ ^K.codes"},
        {"[L B H N/3 N%3]{ K.codes V.codes K.scales V.scales }", "this digit does not divide its axis: [L B H ^N/3"},
        {"[L B H N//3 N%%3]{ K.codes V.codes K.scales V.scales }", "this digit does not divide its axis: [L B H ^N//3"},
        {"[L B H N//4]{ K.codes V.codes K.scales V.scales }", NULL},
        {"[L B H N//2]{ K.codes V.codes K.scales V.scales }", "a lower digit of this axis is missing: [L B H ^N//2]"},
        {"[L B H N%2]{ K.codes V.codes K.scales V.scales }", "a higher digit of axis N is missing"},
        {"[L B H N/2]{ K.codes V.codes K.scales V.scales }", "a lower digit of this axis is missing: [L B H ^N/2]"},
        {"[B/2 L B%2 H N]{ K.codes V.codes K.scales V.scales }", "only N, G, E and C may lie in digits"},
        {"[L B H N]{ K.codes K.codes }", "column 20: this field stands twice: [L B H N]{ K.codes ^K.codes }"},
        {"[L B H N]{ K.codes V.codes K.scales V.scales", "column 45: a nest holds K.codes"},
        {"[L B H N]{ K.codes V.codes K.scales V.scales } }", "nothing more is expected here"},
        {"[L B H X]{ K.codes", "column 8: an axis is L layer"},
        {"[L B H N]{ K.code", "a nest holds K.codes"},
        {"[L B H N]{ K.codes +-1 }", "column 21: a number from 1 to 4294967295 is missing"},
        {"[L B H N]{ K.codes +99999999999 }", "a number from 1 to 4294967295 is missing"},
        {"[L B H N]{ K.codes +%8 +4 }", "a multiple is the last padding of its nest"},
        {"[L B H N C]{ K.codes K.scales } ; [L B H N]{ V.codes V.scales }", "fields with rows of other sizes"},
        {"{{{{{{{{{{{{{{{{{ K.codes", "nests deeper than 16"},
        {"[L B H N G]{ [C] K.codes } ; [L B H N]{ K.scales V.codes V.scales }", "cut by one of G, E and C: [L B"},
        {"[L B H N E] K.codes ; [L B H N]{ K.scales V.codes V.scales }", "the pieces do not divide this field"},
        {"[L B N%2 H N/2%2 C%2 C/16 N/2 C/2%8] K.codes ; [L B H N]{ K.scales V.scales V.codes }", "stands twice"},
        {"[L B H N] K.codes ; [L B H N] K.scales ; [L B H N]{ V.codes V.scales } +4294967295", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const kvg_layout_text text = {"mine", rows[i].text};
        kvg_problem p = problem_of(&text);
        const kvg_status s = kvg_problem_lay_out(&p);
        if (!rows[i].error && s) fail_msg("%s", kvg_error_text());
        if (!rows[i].error) continue;
        if (s != KVG_ERR_INVALID || !strstr(kvg_error_text(), rows[i].error)) {
            fail_msg("%s: wanted '%s', got '%s'", rows[i].text, rows[i].error, s ? kvg_error_text() : "no failure");
        }
    }
}

/* Padding that is given and that the text has no place for would be lost. */
static void test_padding_without_a_place(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"[L B H N]{ K.codes +row V.codes K.scales V.scales +scale } +data", NULL},
        {"[L B H N]{ K.codes V.codes K.scales V.scales +scale } +data", "row_padding is 3, but the text has no +row"},
        {"[L B H N]{ K.codes +row V.codes K.scales V.scales +scale }", "data_padding is 7, but the text has no +data"},
        {"[L B H N]{ K.codes +row V.codes K.scales V.scales } +data", "scale_padding is 9, but the text has no +scale"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const kvg_layout_text text = {"mine", rows[i].text};
        kvg_problem p = problem_of(&text);
        p.paging.row_padding = 3, p.paging.data_padding = 7, p.paging.scale_padding = 9;
        const kvg_status s = kvg_problem_check(&p);
        if (rows[i].error) assert_non_null(s ? strstr(kvg_error_text(), rows[i].error) : NULL);
        else if (s) fail_msg("%s", kvg_error_text());
    }
}

/* A map that was made for another problem is not used: each field that a map follows from is changed alone. */
static void test_other_maps(void **state)
{
    const kvg_layout_text texts[] = {{"mine", "[L B H N]{ K.codes +row V.codes K.scales V.scales +scale } +data"},
                                     {"yours", "[B L H N]{ V.codes +row K.codes K.scales V.scales +scale } +data"}};
    kvg_problem p = problem_of(texts), q[12];
    (void)state;
    assert_int_equal(kvg_problem_lay_out(&p), KVG_OK);
    for (size_t i = 0; i < 12; i++) q[i] = p;
    q[0].text = &texts[1];
    q[1].layout = KVG_LAYOUT_NHD, q[1].text = NULL;
    q[2].storage[KVG_K].format = KVG_FORMAT_E4M3;
    q[3].storage[KVG_V].format = KVG_FORMAT_E4M3;
    q[4].kv_heads = 3;
    q[5].head_dim = 128;
    q[6].paging.layers = 3;
    q[7].paging.blocks = 5;
    q[8].paging.block_tokens = 8;
    q[9].paging.row_padding = 1;
    q[10].paging.data_padding = 1;
    q[11].paging.scale_padding = 1;
    for (size_t i = 0; i < 12; i++) {
        kvg_problem fresh = q[i];
        kvg_layout_map map;
        fresh.laid_out = 0;
        assert_int_equal(kvg_problem_check(&q[i]), KVG_OK);
        assert_int_equal(kvg_problem_lay_out(&fresh), KVG_OK);
        kvg_rows_map(&q[i], &map);
        assert_memory_equal(&map, &fresh.map, sizeof map);
        assert_int_equal(kvg_problem_tensor(&q[i], KVG_ROLE_DATA_POOL, KVG_K).bytes, fresh.pool_bytes[KVG_K][0]);
        if (memcmp(&map, &p.map, sizeof map) == 0 && memcmp(fresh.pool_bytes, p.pool_bytes, sizeof p.pool_bytes) == 0) {
            fail_msg("change %zu changes nothing", i);
        }
    }
    p.layout = KVG_LAYOUT_HND; /* with a text */
    assert_int_equal(kvg_problem_check(&p), KVG_ERR_INVALID);
}

/* usage: test_layout_text [RANDOM_TEXTS] */
int main(int argc, char **argv)
{
    uint64_t random_texts = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_random_texts, &random_texts),
        cmocka_unit_test(test_named_layouts),
        cmocka_unit_test(test_planted),
        cmocka_unit_test(test_huge_pools),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_padding_without_a_place),
        cmocka_unit_test(test_other_maps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
