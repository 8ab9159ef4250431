/* The paged ops by both references: random problems over every layout, format and dialect, and every byte of the pools
 * and outputs compared, those that must stay included. Then addresses of geometries that no memory holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/bits.h"
#include "core/rng.h"
#include "reference/reference.h"
#include "second/slow_layout.h"
#include "tests/second/probes.h"
#include "tests/second/test_slowref.h"

enum { STREAM = 1000, MOST_SLOTS = 80 };

/* A source of random numbers; problems have streams of their own. */
typedef struct dice {
    uint64_t stream, next;
} dice;

static uint64_t roll(dice *d, uint64_t n)
{
    return kvg_rng_below(SEED, d->stream, d->next++, n);
}

static uint32_t pick(dice *d, const uint32_t *from, size_t count)
{
    return from[roll(d, count)];
}
#define PICK(d, ...) pick(d, (const uint32_t[]){__VA_ARGS__}, sizeof(uint32_t[]){__VA_ARGS__} / sizeof(uint32_t))

/* What the problems had, to show that nothing was left out. */
typedef struct coverage {
    tally bytes;
    uint64_t problems, shown;
    unsigned swizzled, padded, shared, apart, bias, adjacent, halves, partial_turn, skipped, holes, long_rings;
} coverage;

/* --- problems --- */

static kvg_storage draw_storage(dice *d)
{
    size_t formats;
    const kvg_format_info *table = kvg_format_table(&formats);
    const kvg_format format = table[roll(d, formats)].format;
    return (kvg_storage){format, kvg_reference_dialect(format, roll(d, kvg_reference_dialect_count(format)))->name};
}

static void draw_options(dice *d, const kvg_layout_info *layout, kvg_problem *p)
{
    kvg_paging *g = &p->paging;
    if (strstr(layout->text, "+row") && roll(d, 2)) g->row_padding = (uint32_t)roll(d, 20);
    if (strstr(layout->text, "+data") && roll(d, 2)) g->data_padding = (uint32_t)roll(d, 70);
    if (strstr(layout->text, "+scale") && roll(d, 2)) g->scale_padding = (uint32_t)roll(d, 40);
    g->v_scale_swizzle = layout->groups && roll(d, 2);
    g->shared_kv = layout->shared && (layout->shared == KVG_SHARED_ALWAYS || roll(d, 3) == 0);
    if (layout->shared == KVG_SHARED_ALWAYS) p->kv_heads = 1;
    if (!g->shared_kv) return;
    p->storage[KVG_V] = p->storage[KVG_K];
    g->v_first = (uint32_t)roll(d, p->head_dim);
    g->v_dim = 1 + (uint32_t)roll(d, p->head_dim - g->v_first);
}

/* The layout is a page for such rows. */
static bool takes(kvg_layout layout, kvg_format format)
{
    const uint32_t block = kvg_format_get(format)->block;
    const bool one_row = kvg_layout_get(layout)->shared == KVG_SHARED_ALWAYS;
    kvg_problem p = {.op = KVG_OP_PROBE, .layout = layout, .dtype = KVG_DTYPE_BF16, .tokens = 1, .kv_heads = 1,
                     .storage = {{format, "canonical"}, {format, "canonical"}}, .head_dim = block > 64 ? block : 64,
                     .paging = {.layers = 1, .blocks = 1, .block_tokens = 16, .shared_kv = one_row, .v_dim = one_row}};
    return kvg_problem_lay_out(&p) == KVG_OK;
}

/* An append problem with this layout and K; the rest at random until the rules allow it. */
static kvg_problem draw_problem(dice *d, kvg_layout layout, kvg_storage k)
{
    for (unsigned tries = 0; tries < 10000; tries++) {
        kvg_problem p = {
            .op = KVG_OP_APPEND,
            .layout = layout,
            .dtype = KVG_DTYPE_F16 + (kvg_dtype)roll(d, 3),
            .storage = {k, roll(d, 3) ? draw_storage(d) : k},
            .tokens = 1 + (uint32_t)roll(d, 6),
            .kv_heads = 1 + (uint32_t)roll(d, 3),
            .head_dim = PICK(d, 64, 64, 128, 32, 96, 16, 8, 40, 6),
            .paging = {.layers = 1 + (uint32_t)roll(d, 3), .blocks = 1 + (uint32_t)roll(d, 4),
                       .block_tokens = PICK(d, 1, 2, 3, 4, 4, 5, 8, 8, 12, 16)},
            .bias = roll(d, 2),
        };
        p.paging.layer = (uint32_t)roll(d, p.paging.layers);
        draw_options(d, kvg_layout_get(layout), &p);
        if (roll(d, 4)) {
            p.rope.dims = roll(d, 2) ? p.head_dim : 2 * (1 + (uint32_t)roll(d, p.head_dim / 2));
            p.rope.positions = 1 + (uint32_t)roll(d, 5);
            p.rope.pairing = KVG_PAIRING_ADJACENT + (kvg_pairing)roll(d, 2);
        }
        if (kvg_problem_check(&p) == KVG_OK) return p;
    }
    fail_msg("no problem of layout %s and format %s is allowed", kvg_layout_get(layout)->name,
             kvg_format_get(k.format)->name);
    return (kvg_problem){0};
}

static void count_options(coverage *c, const kvg_problem *p)
{
    c->swizzled += p->paging.v_scale_swizzle;
    c->padded += p->paging.row_padding && p->paging.data_padding && p->paging.scale_padding;
    c->shared += p->paging.shared_kv;
    c->apart += p->storage[KVG_K].format != p->storage[KVG_V].format;
    c->bias += p->bias;
    c->adjacent += p->rope.dims && p->rope.pairing == KVG_PAIRING_ADJACENT;
    c->halves += p->rope.dims && p->rope.pairing == KVG_PAIRING_HALVES;
    c->partial_turn += p->rope.dims && p->rope.dims < p->head_dim;
}

/* --- inputs --- */

static void fill_bytes(dice *d, const kvg_tensor *tensor)
{
    for (size_t i = 0; i < tensor->bytes; i++) ((uint8_t *)tensor->data)[i] = (uint8_t)roll(d, 256);
}

/* Mostly ordinary numbers; one tensor in four has special values among them, one in eight is random bits. */
static void fill_values(dice *d, const kvg_tensor *tensor, double unit)
{
    size_t width = kvg_dtype_bytes(tensor->dtype), count = tensor->bytes / width;
    uint64_t kind = roll(d, 8);
    if (kind == 0) {
        fill_bytes(d, tensor);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        float x = (float)(kvg_rng_normal(SEED, d->stream, d->next++) * unit);
        if (kind <= 2 && roll(d, 16) == 0) x = kvg_f32_of_bits(special_values[roll(d, special_count)]);
        kvg_reference_store(tensor->dtype, &x, 1, (uint8_t *)tensor->data + i * width);
    }
}

static void fill_tensor_scales(dice *d, kit *k)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor *tensor = &k->tensor[KVG_ROLE_TENSOR_SCALE][side];
        size_t among = roll(d, 4) ? tensor_scale_extreme : tensor_scale_count;
        uint32_t bits = tensor_scales[roll(d, among)];
        if (tensor->bytes > 0) memcpy(tensor->data, &bits, sizeof bits);
    }
}

/* Slots in random order, none twice, some negative. */
static void fill_slots(dice *d, coverage *c, const kit *k)
{
    static const int64_t no_place[] = {-1, -2, INT64_MIN};
    const kvg_tensor *tensor = &k->tensor[KVG_ROLE_SLOTS][KVG_K];
    int64_t *slots = tensor->data, all[MOST_SLOTS];
    size_t left = (size_t)k->problem.paging.blocks * k->problem.paging.block_tokens;
    assert_true(left <= MOST_SLOTS);
    for (size_t i = 0; i < left; i++) all[i] = (int64_t)i;
    for (size_t t = 0; t < k->problem.tokens; t++) {
        if (left == 0 || roll(d, 5) == 0) {
            slots[t] = no_place[roll(d, 3)];
            c->skipped++;
            continue;
        }
        size_t at = roll(d, left);
        slots[t] = all[at];
        all[at] = all[--left];
    }
}

static void fill_append(dice *d, coverage *c, kit *k)
{
    const kvg_tensor *positions = &k->tensor[KVG_ROLE_POSITIONS][KVG_K];
    for (int side = KVG_K; side <= KVG_V; side++) {
        fill_values(d, &k->tensor[KVG_ROLE_VALUES][side], roll(d, 2) ? 1 : 100);
        fill_values(d, &k->tensor[KVG_ROLE_BIAS][side], 1);
        fill_bytes(d, &k->tensor[KVG_ROLE_DATA_POOL][side]);
        fill_bytes(d, &k->tensor[KVG_ROLE_SCALE_POOL][side]);
    }
    fill_values(d, &k->tensor[KVG_ROLE_COS_SIN][KVG_K], 0.7);
    fill_tensor_scales(d, k);
    fill_slots(d, c, k);
    for (size_t t = 0; t < positions->bytes / sizeof(int32_t); t++) {
        ((int32_t *)positions->data)[t] = (int32_t)roll(d, k->problem.rope.positions);
    }
}

static void fill_flatten(dice *d, coverage *c, kit *k)
{
    static const int32_t holes[] = {-1, INT32_MIN, INT32_MAX};
    const kvg_paging *g = &k->problem.paging;
    const kvg_tensor *table = &k->tensor[KVG_ROLE_BLOCK_TABLE][KVG_K];
    const bool ring = kvg_problem_blocks(&k->problem) == KVG_BLOCKS_RING;
    uint32_t longest = k->problem.tokens;
    if (kvg_problem_blocks(&k->problem) == KVG_BLOCKS_ONE && longest > g->block_tokens) longest = g->block_tokens;
    if (ring) longest += 2 * g->block_tokens;
    for (size_t i = 0; i < table->bytes / sizeof(int32_t); i++) {
        bool hole = roll(d, 5) == 0;
        int32_t block = (int32_t)roll(d, g->blocks + (hole ? 1 : 0)); /* N is a hole, too */
        ((int32_t *)table->data)[i] = hole && roll(d, 2) ? holes[roll(d, 3)] : block;
        c->holes += hole;
    }
    for (size_t i = 0; i < g->sequences; i++) {
        int32_t length = (int32_t)(roll(d, 3) ? longest : roll(d, longest + 1));
        ((int32_t *)k->tensor[KVG_ROLE_LENGTHS][KVG_K].data)[i] = length;
        c->long_rings += ring && (uint32_t)length > g->block_tokens;
    }
    for (int side = KVG_K; side <= KVG_V; side++) fill_bytes(d, &k->tensor[KVG_ROLE_FLAT][side]);
    fill_tensor_scales(d, k);
}

static void fill_probe(dice *d, coverage *c, kit *k)
{
    fill_slots(d, c, k);
    for (int side = KVG_K; side <= KVG_V; side++) {
        fill_bytes(d, &k->tensor[KVG_ROLE_CODES][side]);
        fill_bytes(d, &k->tensor[KVG_ROLE_SCALES][side]);
    }
}

/* --- the comparison --- */

static void print_problem(const kvg_problem *p)
{
    const kvg_paging *g = &p->paging;
    print_error("  %s %s, T %s, K %s %s, V %s %s, tokens %u, H %u, D %u, layer %u of %u, N %u, B %u, padding %u %u %u, "
                "swizzle %d, shared %d (%u + %u), sequences %u, rope %u of %u pairing %d, bias %d\n",
                kvg_op_get(p->op)->name, kvg_layout_get(p->layout)->name, kvg_dtype_name(p->dtype),
                kvg_format_get(p->storage[KVG_K].format)->name, p->storage[KVG_K].dialect,
                kvg_format_get(p->storage[KVG_V].format)->name, p->storage[KVG_V].dialect, p->tokens, p->kv_heads,
                p->head_dim, g->layer, g->layers, g->blocks, g->block_tokens, g->row_padding, g->data_padding,
                g->scale_padding, g->v_scale_swizzle, g->shared_kv, g->v_first, g->v_dim, g->sequences, p->rope.dims,
                p->rope.positions, (int)p->rope.pairing, p->bias);
}

/* Inputs count only if they differ. The first differing problems are printed whole. */
static void compare_tensor(coverage *c, const kit *golden, const kit *slow, kvg_role role, kvg_side side)
{
    enum { SHOWN = 10 };
    const uint8_t *a = golden->tensor[role][side].data, *b = slow->tensor[role][side].data;
    bool shown = false;
    if (kvg_roles_index(kvg_op_get(golden->problem.op)->outputs, role, side) >= 0) {
        c->bytes.compared += golden->tensor[role][side].bytes;
    }
    for (size_t i = 0; i < golden->tensor[role][side].bytes; i++) {
        if (a[i] == b[i]) continue;
        c->bytes.differing++;
        if (shown || c->shown++ >= SHOWN) continue;
        print_problem(&golden->problem);
        print_error("    %s byte %zu of %zu: golden %02X, slow %02X\n", kvg_tensor_name(role, side), i,
                    golden->tensor[role][side].bytes, a[i], b[i]);
        shown = true;
    }
}

/* Runs both on the golden kit's bytes and compares every tensor, so inputs too. */
static void compare_run(coverage *c, kit *golden)
{
    kit slow = kit_open_problem(&golden->problem);
    kit_copy(golden, &slow);
    kvg_status by_slow = kit_run(&slow, slow_backend(), golden->problem.op);
    if (by_slow) print_error("  slow: %s\n", kvg_error_text());
    kvg_status by_golden = kit_run(golden, golden_backend(), golden->problem.op);
    if (by_golden) print_error("  golden: %s\n", kvg_error_text());
    if (by_slow || by_golden) print_problem(&golden->problem);
    assert_int_equal(by_slow, KVG_OK);
    assert_int_equal(by_golden, KVG_OK);
    for (int role = 0; role < KVG_ROLE_END; role++) {
        for (int side = KVG_K; side <= KVG_V; side++) compare_tensor(c, golden, &slow, role, side);
    }
    c->problems++;
    kit_close(&slow);
}

/* The reading ops get the pools as the golden append left them: random bytes around its rows. */
static kit open_reading(kvg_op op, const kit *append)
{
    kvg_problem p = append->problem;
    p.op = op;
    p.bias = false;
    p.rope = (kvg_rope){0};
    p.paging.sequences = op == KVG_OP_FLATTEN ? p.tokens % 3 + 1 : 0;
    if (op == KVG_OP_FLATTEN) p.tokens += p.paging.block_tokens;
    assert_int_equal(kvg_problem_check(&p), KVG_OK);
    kit k = kit_open_problem(&p);
    for (int role = KVG_ROLE_DATA_POOL; role <= KVG_ROLE_SCALE_POOL; role++) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            const kvg_tensor *pool = &append->tensor[role][side];
            if (pool->bytes > 0) memcpy(k.tensor[role][side].data, pool->data, pool->bytes);
        }
    }
    return k;
}

static void compare_ops(coverage *c, dice *d, const kvg_problem *p)
{
    kit append = kit_open_problem(p);
    fill_append(d, c, &append);
    compare_run(c, &append);
    kit flatten = open_reading(KVG_OP_FLATTEN, &append);
    fill_flatten(d, c, &flatten);
    compare_run(c, &flatten);
    kit_close(&flatten);
    kit probe = open_reading(KVG_OP_PROBE, &append);
    fill_probe(d, c, &probe);
    compare_run(c, &probe);
    kit_close(&probe);
    kit_close(&append);
}

/* Every layout with every dialect on K. */
void test_paged_ops(void **state)
{
    (void)state;
    enum { REPEATS = 2 };
    coverage c = {0};
    dice d = {STREAM, 0};
    size_t formats;
    const kvg_format_info *table = kvg_format_table(&formats);
    for (kvg_layout layout = KVG_LAYOUT_TURBOMIND; layout < KVG_LAYOUT_END; layout++) {
        for (size_t f = 0; f < formats; f++) {
            const kvg_format format = table[f].format;
            for (size_t i = 0; takes(layout, format) && i < REPEATS * kvg_reference_dialect_count(format); i++) {
                kvg_storage k = {format, kvg_reference_dialect(format, i / REPEATS)->name};
                kvg_problem p = draw_problem(&d, layout, k);
                count_options(&c, &p);
                compare_ops(&c, &d, &p);
                d = (dice){d.stream + 1, 0};
            }
        }
    }
    print_message("%s: %llu problems\n", __func__, (unsigned long long)c.problems);
    assert_true(c.swizzled && c.padded && c.shared && c.apart && c.bias && c.adjacent && c.halves && c.partial_turn);
    assert_true(c.skipped && c.holes && c.long_rings);
    tally_close(&c.bytes, __func__);
}

/* What one refuses, the other refuses with the same status, and neither writes. */
static void compare_refusal(tally *t, kit *k, const char *what, kvg_status want)
{
    const kvg_backend *backends[] = {golden_backend(), slow_backend()};
    for (size_t b = 0; b < 2; b++) {
        kit copy = kit_open_problem(&k->problem);
        kit_copy(k, &copy);
        kvg_status got = kit_run(&copy, backends[b], k->problem.op);
        bool written = false;
        for (int role = 0; role < KVG_ROLE_END; role++) {
            for (int side = KVG_K; side <= KVG_V; side++) {
                const kvg_tensor *before = &k->tensor[role][side];
                if (before->bytes == 0) continue;
                written |= memcmp(before->data, copy.tensor[role][side].data, before->bytes) != 0;
            }
        }
        t->compared++;
        if (got != want || written) {
            t->differing++;
            print_error("  %s, %s: %s%s\n", backends[b]->name, what, kvg_status_name(got), written ? ", written" : "");
        }
        kit_close(&copy);
    }
}

static kvg_problem refusal_problem(kvg_op op, kvg_layout layout)
{
    return (kvg_problem){
        .op = op, .layout = layout, .dtype = KVG_DTYPE_F16,
        .storage = {{KVG_FORMAT_E4M3, "canonical"}, {KVG_FORMAT_NVFP4, "canonical"}},
        .tokens = 3, .kv_heads = 2, .head_dim = 32,
        .paging = {.layers = 1, .blocks = 2, .block_tokens = 2, .sequences = op == KVG_OP_FLATTEN ? 2 : 0},
        .rope = {.dims = op == KVG_OP_APPEND ? 4 : 0, .positions = 2, .pairing = KVG_PAIRING_HALVES},
    };
}

/* All right but for what the cases below change. */
static kit refusal_kit(const kvg_problem *p)
{
    kit k = kit_open_problem(p);
    const float one = 1;
    for (int role = KVG_ROLE_POSITIONS; role < KVG_ROLE_END; role++) {
        if (k.tensor[role][KVG_K].bytes) memset(k.tensor[role][KVG_K].data, 0, k.tensor[role][KVG_K].bytes);
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_tensor *g = &k.tensor[KVG_ROLE_TENSOR_SCALE][side];
        if (g->bytes) memcpy(g->data, &one, g->bytes);
    }
    int64_t *slots = k.tensor[KVG_ROLE_SLOTS][KVG_K].data;
    for (int64_t t = 0; slots && t < 3; t++) slots[t] = t;
    return k;
}

void test_paged_refusals_agree(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        kvg_op op;
        kvg_layout layout;
        kvg_role role; /* of which element `at` gets this value */
        size_t at;
        int64_t value;
        kvg_status want;
    } cases[] = {
        {"slot N * B", KVG_OP_APPEND, KVG_LAYOUT_NHD, KVG_ROLE_SLOTS, 2, 4, KVG_ERR_INVALID},
        {"slot 2^40", KVG_OP_APPEND, KVG_LAYOUT_SLOT, KVG_ROLE_SLOTS, 2, (int64_t)1 << 40, KVG_ERR_INVALID},
        {"slot twice", KVG_OP_APPEND, KVG_LAYOUT_HND, KVG_ROLE_SLOTS, 2, 0, KVG_ERR_INVALID},
        {"position beyond the table", KVG_OP_APPEND, KVG_LAYOUT_VLLM, KVG_ROLE_POSITIONS, 2, 2, KVG_ERR_INVALID},
        {"position 2^31 - 1", KVG_OP_APPEND, KVG_LAYOUT_RING, KVG_ROLE_POSITIONS, 0, INT32_MAX, KVG_ERR_INVALID},
        {"negative position", KVG_OP_APPEND, KVG_LAYOUT_TRTLLM, KVG_ROLE_POSITIONS, 2, -1, KVG_ERR_INVALID},
        {"negative length", KVG_OP_FLATTEN, KVG_LAYOUT_RING, KVG_ROLE_LENGTHS, 1, -1, KVG_ERR_INVALID},
        {"length above T", KVG_OP_FLATTEN, KVG_LAYOUT_NHD, KVG_ROLE_LENGTHS, 1, 4, KVG_ERR_INVALID},
        {"length above B", KVG_OP_FLATTEN, KVG_LAYOUT_CONTIGUOUS, KVG_ROLE_LENGTHS, 1, 3, KVG_ERR_INVALID},
        {"slot N * B", KVG_OP_PROBE, KVG_LAYOUT_RING, KVG_ROLE_SLOTS, 2, 4, KVG_ERR_INVALID},
    };
    tally t = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kvg_problem p = refusal_problem(cases[i].op, cases[i].layout);
        kit k = refusal_kit(&p);
        const kvg_tensor *tensor = &k.tensor[cases[i].role][KVG_K];
        size_t width = kvg_dtype_bytes(tensor->dtype); /* the low bytes come first */
        memcpy((uint8_t *)tensor->data + cases[i].at * width, &cases[i].value, width);
        compare_refusal(&t, &k, cases[i].what, cases[i].want);
        kit_close(&k);
    }
    static const kvg_op coding[] = {KVG_OP_APPEND, KVG_OP_FLATTEN};
    for (size_t i = 0; i < 2; i++) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            kvg_problem p = refusal_problem(coding[i], KVG_LAYOUT_NHD);
            p.storage[side].dialect = "no-such-dialect";
            kit unknown = refusal_kit(&p);
            compare_refusal(&t, &unknown, "dialect", KVG_ERR_UNIMPLEMENTED);
            kit_close(&unknown);
            p.storage[side].dialect = "canonical";
            kit scale = refusal_kit(&p);
            memset(scale.tensor[KVG_ROLE_TENSOR_SCALE][side].data, 0, sizeof(float));
            compare_refusal(&t, &scale, "tensor scale 0", KVG_ERR_INVALID);
            kit_close(&scale);
        }
    }
    tally_close(&t, __func__);
}

/* --- addresses beyond memory --- */

static kvg_problem draw_large(dice *d, kvg_layout layout)
{
    for (;;) {
        const kvg_storage k = draw_storage(d);
        if (!takes(layout, k.format)) continue;
        kvg_problem p = draw_problem(d, layout, k);
        p.kv_heads = kvg_layout_get(layout)->shared == KVG_SHARED_ALWAYS ? 1 : 1 + (uint32_t)roll(d, 200);
        p.paging.layers = 1 + (uint32_t)roll(d, 200);
        p.paging.layer = (uint32_t)roll(d, p.paging.layers);
        p.paging.blocks = 1 + (uint32_t)roll(d, INT32_MAX >> roll(d, 24));
        p.paging.block_tokens = (uint32_t)1 << roll(d, 12);
        if (p.paging.row_padding) p.paging.row_padding = (uint32_t)roll(d, 1 << 20);
        if (p.paging.data_padding) p.paging.data_padding = (uint32_t)roll(d, 1 << 30);
        if (kvg_problem_check(&p) == KVG_OK) return p;
    }
}

static bool same_place(const kvg_problem *p, const kvg_row_map *map, slow_place place, const slow_byte *b)
{
    uint64_t at = kvg_rows_place(map, p->paging.layer, (uint32_t)b->block, (uint32_t)b->head, (uint32_t)b->offset,
                                      (uint32_t)b->index);
    return map->pool == place.pool && map->side == place.side && at == place.at;
}

void test_paged_addresses(void **state)
{
    (void)state;
    enum { PROBLEMS = 200, BYTES = 50 };
    tally t = {0};
    uint64_t largest = 0;
    for (kvg_layout layout = KVG_LAYOUT_TURBOMIND; layout < KVG_LAYOUT_END; layout++) {
        for (uint64_t i = 0; i < PROBLEMS * BYTES; i++) {
            dice d = {2 * STREAM * (uint64_t)layout + i / BYTES, 0};
            kvg_problem p = draw_large(&d, layout);
            kvg_layout_map map;
            kvg_rows_map(&p, &map);
            d.next += i % BYTES * 8;
            kvg_side side = kvg_problem_sides(&p) == 2 && roll(&d, 2) ? KVG_V : KVG_K;
            bool scales = map.scales[side].bytes > 0 && roll(&d, 2);
            const kvg_row_map *rows = scales ? &map.scales[side] : &map.codes[side];
            slow_byte b = {side, roll(&d, p.paging.blocks), roll(&d, p.kv_heads), roll(&d, p.paging.block_tokens),
                           roll(&d, rows->bytes)};
            slow_place place = scales ? slow_place_of_scale(&p, b) : slow_place_of_code(&p, b);
            t.compared++;
            if (place.at > largest) largest = place.at;
            if (same_place(&p, rows, place, &b)) continue;
            if (t.differing++ < 10) print_problem(&p);
        }
    }
    assert_true(largest > (uint64_t)1 << 50);
    tally_close(&t, __func__);
}
