/* The plan of op decode for many rows (gpu/attention/many/many_plan.h), run on the host: which items there are,
 * how the tree over leaves is made, and the ring of stages with all its warps, in many orders.
 * Without a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "gpu/attention/many/many_plan.h"

static const many_chip hopper = {132, 232448, 233472, 2, 3, 512}, ada = {142, 101376, 102400, 1, 1, 256},
                          hopper_shared = {132, 232448, 233472, 1, MANY_SHARED_GROUPS, 512};

static kvg_problem problem_of(kvg_format format, uint32_t dim, uint32_t group, uint32_t sequences, uint32_t tokens,
                              uint32_t queries)
{
    kvg_problem p = {.op = KVG_OP_DECODE,
                     .layout = KVG_LAYOUT_HND,
                     .dtype = KVG_DTYPE_BF16,
                     .tokens = tokens,
                     .kv_heads = 8,
                     .head_dim = dim};
    p.storage[KVG_K] = p.storage[KVG_V] = (kvg_storage){.format = format, .dialect = "canonical"};
    p.paging = (kvg_paging){.layers = 1, .blocks = 4096, .block_tokens = 16, .sequences = sequences};
    p.attention = (kvg_attention){.query_heads = 8 * group, .queries = queries};
    return p;
}

/* MLA: rows of 576 elements, of which 512 are V. */
static kvg_problem shared_problem_of(kvg_format format, uint32_t heads, uint32_t sequences, uint32_t queries)
{
    kvg_problem p = problem_of(format, MANY_SHARED_DIM, heads, sequences, 32768, queries);
    p.layout = KVG_LAYOUT_MLA;
    p.kv_heads = 1;
    p.attention.query_heads = heads;
    p.paging.shared_kv = true;
    p.paging.v_dim = MANY_SHARED_V_DIM;
    return p;
}

/* --- shapes --- */

/* A filler's lane holds a scale of two bytes, or scales of padded rows, until the next copy: so the next copy must not
 * be the one that is read. */
static void check_shape(const kvg_problem *p, const many_chip *chip)
{
    many_plan plan;
    assert_int_equal(many_plan_of(p, chip, &plan), KVG_OK);
    const many_shape *shape = &plan.shape;
    assert_true(shape->stages >= 2 && shape->stages <= MANY_MOST_STAGES);
    assert_true(shape->depth >= 1 && shape->shared <= chip->shared);
    assert_true((shape->shared + 1024) * shape->resident <= chip->shared_all);
    if (p->paging.shared_kv) {
        assert_int_equal(shape->groups * shape->columns, p->paging.v_dim);
        assert_int_equal(shape->rows, MANY_GROUP_ROWS);
    } else {
        assert_true(shape->groups == 1 || shape->groups == 3);
        assert_int_equal(shape->rows, shape->groups * MANY_GROUP_ROWS);
        assert_int_equal(shape->columns, shape->width);
    }
    const bool is_operand = kvg_format_get(p->storage[KVG_K].format)->element_bits == 16;
    assert_true(is_operand == (shape->raw == 0)); /* it goes into its stage as it is */
    const uint64_t scales = kvg_format_scale_bytes(p->storage[KVG_K].format, p->head_dim);
    assert_true(shape->width >= p->head_dim && shape->width % 64 == 0);
    if (shape->depth == 1) assert_true(many_is_padded(p) ? scales == 0 : scales != 2);
}

static void every_format_has_a_shape(void **state)
{
    (void)state;
    size_t formats;
    const kvg_format_info *table = kvg_format_table(&formats);
    for (size_t i = 0; i < formats; i++) {
        for (uint32_t dim = 16; dim <= MANY_MOST_DIM; dim += 16) {
            if (kvg_format_check_dim(table[i].format, dim)) continue;
            for (uint32_t queries = 8; queries <= 8192; queries *= 8) {
                const kvg_problem p = problem_of(table[i].format, dim, 8, 1, 32768, queries);
                many_plan plan;
                check_shape(&p, &hopper);
                if (dim <= 128 || (dim <= 256 && table[i].element_bits == 16)) check_shape(&p, &ada);
                else assert_int_equal(many_plan_of(&p, &ada, &plan), KVG_ERR_UNIMPLEMENTED);
            }
        }
    }
}

static void shared_rows_have_a_shape(void **state)
{
    (void)state;
    const many_chip none = {142, 101376, 102400, 1, 0, 256};
    static const kvg_format formats[] = {KVG_FORMAT_BF16, KVG_FORMAT_F16,   KVG_FORMAT_E4M3,
                                         KVG_FORMAT_E5M2, KVG_FORMAT_NVFP4, KVG_FORMAT_MX16};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const kvg_problem p = shared_problem_of(formats[i], 16, 16, 16);
        many_plan plan;
        check_shape(&p, &hopper_shared);
        assert_int_equal(many_plan_of(&p, &hopper_shared, &plan), KVG_OK);
        assert_true(plan.shape.stages >= 3); /* with two a tile's conversion waits for the tile before */
        assert_int_equal(many_plan_of(&p, &none, &plan), KVG_ERR_UNIMPLEMENTED);
    }
}

static void few_rows_are_left_to_the_other_kernels(void **state)
{
    (void)state;
    const kvg_problem one = problem_of(KVG_FORMAT_NVFP4, 128, 8, 16, 32768, 16),
                      eight = problem_of(KVG_FORMAT_NVFP4, 128, 8, 16, 32768, 128),
                      many_heads = problem_of(KVG_FORMAT_NVFP4, 128, 64, 16, 32768, 16),
                      shared = shared_problem_of(KVG_FORMAT_NVFP4, 1, 16, 1);
    assert_false(many_is_worth_it(&one));
    assert_true(many_is_worth_it(&eight));
    assert_true(many_is_worth_it(&many_heads));
    assert_true(many_is_worth_it(&shared)); /* the others have no kernel for it */
}

static void too_many_queries_are_refused(void **state)
{
    (void)state;
    const kvg_problem p = problem_of(KVG_FORMAT_NVFP4, 128, 64, 1, 32768, 1u << 22);
    many_plan plan;
    assert_int_equal(many_plan_of(&p, &hopper, &plan), KVG_ERR_UNIMPLEMENTED);
}

/* --- items --- */

/* Every piece of every band is one item, and every node that is written has a place of its own. */
static void check_items(const many_cut *cut, uint32_t bands)
{
    const uint32_t items = many_items(cut, bands);
    uint8_t *seen = calloc((size_t)bands * cut->pieces, 1);
    uint8_t *nodes = calloc((size_t)bands * cut->pieces, 1);
    assert_non_null(seen);
    assert_non_null(nodes);
    for (uint32_t i = 0; i < items; i++) {
        const many_piece p = many_piece_of(cut, bands, i);
        assert_true(p.band < bands && p.piece < cut->pieces);
        assert_int_equal(seen[(size_t)p.band * cut->pieces + p.piece]++, 0);
        if (p.band < cut->whole) {
            assert_int_equal(p.node, MANY_NO_NODE);
            assert_int_equal(p.leaves_log, MANY_ALL_LEAVES_LOG);
        } else {
            assert_int_equal(p.node, many_node_of(cut, bands, p.band, p.piece));
            assert_true(p.node < bands * cut->pieces);
            assert_int_equal(nodes[p.node]++, 0);
        }
    }
    for (uint32_t band = 0; band < bands; band++) {
        for (uint32_t piece = 0; piece < (band < cut->whole ? 1 : cut->pieces); piece++) {
            assert_int_equal(seen[(size_t)band * cut->pieces + piece], 1);
        }
    }
    free(seen);
    free(nodes);
}

static void every_piece_is_one_item(void **state)
{
    (void)state;
    for (uint32_t whole = 0; whole < 12; whole += 3) {
        for (uint32_t pieces = 1; pieces < 9; pieces++) {
            for (uint32_t bands = 1; bands < 20; bands++) check_items(&(many_cut){whole, pieces, 3}, bands);
        }
    }
    check_items(&(many_cut){UINT32_MAX, 1, MANY_ALL_LEAVES_LOG}, 17);
}

/* What the workspace has room for is what the kernels write, whatever the sequences' lengths. */
static void check_workspace(const kvg_problem *p, const many_chip *chip)
{
    const uint32_t queries = p->attention.queries, sequences = p->paging.sequences;
    const uint32_t group = p->attention.query_heads / p->kv_heads;
    many_plan plan;
    assert_int_equal(many_plan_of(p, chip, &plan), KVG_OK);
    const uint32_t rows = plan.shape.rows;
    /* One sequence has nearly all, or all have the same, or no sequence has any. */
    const uint32_t alone = ((queries - 1) * group + rows - 1) / rows + sequences,
                   none = (queries * group + rows - 1) / rows,
                   each = sequences * ((queries / sequences * group + rows - 1) / rows);
    assert_true(plan.bands >= none && plan.bands >= each && plan.bands + 1 >= alone);
    const uint64_t node = many_node_bytes(plan.shape.columns) * plan.shape.groups;
    assert_true(node >=
                (uint64_t)MANY_GROUP_ROWS * (p->paging.shared_kv ? p->paging.v_dim : p->head_dim) * sizeof(float));
    const uint32_t all = plan.bands * p->kv_heads, items = many_items(&plan.cut, all);
    for (uint32_t i = 0; i < items; i++) {
        const many_piece piece = many_piece_of(&plan.cut, all, i);
        if (piece.node != MANY_NO_NODE) assert_true((piece.node + 1) * node <= plan.node_bytes);
    }
}

static void nodes_fit_the_workspace(void **state)
{
    (void)state;
    for (uint32_t queries = 1; queries < 20000; queries = queries * 3 + 1) {
        for (uint32_t sequences = 1; sequences < 100; sequences = sequences * 3 + 1) {
            const kvg_problem p = problem_of(KVG_FORMAT_NVFP4, 128, 8, sequences, 32768, queries),
                              shared = shared_problem_of(KVG_FORMAT_NVFP4, 16, sequences, queries);
            check_workspace(&p, &hopper);
            check_workspace(&shared, &hopper_shared);
        }
    }
}

/* --- the tree --- */

typedef struct node {
    uint32_t level, index; /* leaves index << level ... */
    uint32_t from, to;     /* of them, those that the item has */
} node;

/* The leaves `first` ... `last` of an item, as the kernel merges them: each merge joins the two
 * halves of a node of the aligned tree, as far as the item has them, and no more than `most` nodes
 * wait. */
static void check_tree(uint32_t first, uint32_t last, uint32_t most)
{
    node waiting[40];
    uint32_t count = 0;
    for (uint32_t leaf = first; leaf <= last; leaf++) {
        node x = {0, leaf, leaf, leaf};
        for (uint32_t level = 0;; level++) {
            const many_step step = many_step_of(leaf, level, first, leaf == last);
            assert_int_equal(x.level, level);
            if (step == MANY_ENDS) {
                assert_int_equal(leaf, last);
                assert_int_equal(count, 0);
                assert_int_equal(x.from, first);
                assert_int_equal(x.to, last);
                return;
            }
            if (step == MANY_WAITS) {
                assert_true(leaf != last && x.index % 2 == 0);
                waiting[count++] = x;
                assert_true(count <= most);
                break;
            }
            if (step == MANY_MERGES) {
                const node left = waiting[--count];
                assert_int_equal(left.level, level);
                assert_int_equal(left.index + 1, x.index);
                assert_int_equal(left.to + 1, x.from);
                x.from = left.from;
            } else { /* the other half is absent */
                const uint32_t other = (x.index ^ 1) << level;
                assert_true(other > last || other + (1u << level) <= first);
            }
            x.level++, x.index /= 2;
        }
    }
    fail(); /* no leaf ended the item */
}

static void merges_are_those_of_the_aligned_tree(void **state)
{
    (void)state;
    for (uint32_t first = 0; first < 70; first++) {
        for (uint32_t leaves = 1; leaves < 140; leaves++) {
            uint32_t most = 2; /* as many_plan_of has it */
            while (1u << (most - 1) < leaves) most++;
            check_tree(first, first + leaves - 1, most);
        }
    }
    check_tree((1u << 23) - 3, (1u << 23) + 2, 4); /* a ring's positions come near to 2^31 */
}

/* --- the ring --- */

enum { GROUPS = 3, SIDES = 2, WARPS = SIDES * MANY_SIDE_FILLERS + GROUPS, ITEMS = 9, MOST_TILES = 19 };

typedef struct barrier {
    uint32_t arrivals, left, phase;
} barrier;

static void arrive(barrier *b)
{
    if (--b->left == 0) b->left = b->arrivals, b->phase++;
}
/* As mbarrier.try_wait.parity: whether the phase of that parity is over. */
static bool is_over(const barrier *b, uint32_t parity)
{
    return (b->phase + 1) % 2 == parity;
}

/* A warp: a filler of a side, or a group of rows. `step` counts what it has done of its tile. */
typedef struct warp {
    uint32_t item, tile, global, step;
    uint32_t under_way[MANY_MOST_STAGES]; /* stages into which a filler's copies go, oldest first */
    uint32_t copies;                      /* how many there are */
    many_turn turn, mine;                 /* of the item's first tile; of the tile */
    uint32_t held; /* stage of the tile before, which a group has not released; UINT32_MAX: none */
} warp;

typedef struct ring {
    uint32_t stages, tiles[ITEMS];
    bool direct; /* fillers copy into stages, and do not wait for the copies */
    barrier full[MANY_MOST_STAGES], empty[MANY_MOST_STAGES];
    uint32_t content[SIDES][MANY_MOST_STAGES]; /* the tile that lies there, counted over all items */
    uint32_t users[MANY_MOST_STAGES];          /* groups that have not released what lies there */
    warp warps[WARPS];
} ring;

static bool is_filler(uint32_t i)
{
    return i < SIDES * MANY_SIDE_FILLERS;
}

static void begin_item(ring *r, uint32_t i)
{
    warp *w = &r->warps[i];
    w->tile = is_filler(i) ? many_first_of(&w->turn, i % MANY_SIDE_FILLERS) : 0;
    w->mine = w->turn;
    many_turn_by(&w->mine, r->stages, w->tile);
}

static void release(ring *r, warp *w)
{
    r->users[w->held]--;
    arrive(&r->empty[w->held]);
    w->held = UINT32_MAX;
}

/* A filler's oldest copies are done: they arrive. */
static void end_copies(ring *r, warp *w)
{
    const uint32_t stage = w->under_way[0];
    memmove(w->under_way, w->under_way + 1, sizeof w->under_way - sizeof w->under_way[0]);
    w->copies--;
    if (r->full[stage].left == 1) r->users[stage] = GROUPS;
    arrive(&r->full[stage]);
}

/* One step of warp i; false if it waits, or has ended. A tile that is written while somebody needs
 * the one before, or one that is read before it is there, fails. */
static bool go_on(ring *r, uint32_t i)
{
    warp *w = &r->warps[i];
    if (w->item == ITEMS) return false;
    if (w->tile >= r->tiles[w->item]) {
        w->global += r->tiles[w->item];
        many_turn_by(&w->turn, r->stages, r->tiles[w->item]);
        if (++w->item < ITEMS) begin_item(r, i);
        return true;
    }
    const uint32_t stage = w->mine.stage, tile = w->global + w->tile;
    if (is_filler(i)) {
        if (!is_over(&r->empty[stage], w->mine.odd ^ 1)) return false;
        assert_int_equal(r->users[stage], 0);
        r->content[i / MANY_SIDE_FILLERS][stage] = tile;
        assert_true(w->copies < r->stages);
        w->under_way[w->copies++] = stage;
        if (!r->direct) end_copies(r, w);
        w->tile += MANY_SIDE_FILLERS;
        many_turn_by(&w->mine, r->stages, MANY_SIDE_FILLERS);
        return true;
    }
    if (w->step == 0) { /* q K */
        if (!is_over(&r->full[stage], w->mine.odd)) return false;
        for (int side = 0; side < SIDES; side++) assert_int_equal(r->content[side][stage], tile);
        w->step = 1;
    } else if (w->step == 1) { /* it is done, and so is the product with V of the tile before */
        if (w->held != UINT32_MAX) release(r, w);
        for (int side = 0; side < SIDES; side++) assert_int_equal(r->content[side][stage], tile);
        w->held = stage;
        w->step = 2;
    } else {
        if (w->tile + 1 == r->tiles[w->item] || tile % 8 == 7) release(r, w); /* a leaf ends */
        w->tile++;
        many_turn_by(&w->mine, r->stages, 1);
        w->step = 0;
    }
    return true;
}

static void run_ring(uint32_t stages, bool direct, uint32_t seed)
{
    uint64_t draw = 0;
    ring r = {.stages = stages, .direct = direct};
    for (uint32_t i = 0; i < ITEMS; i++) r.tiles[i] = (uint32_t)kvg_rng_below(seed, 0, draw++, MOST_TILES + 1);
    for (uint32_t i = 0; i < stages; i++) {
        r.full[i] = (barrier){SIDES, SIDES, 0};
        r.empty[i] = (barrier){GROUPS, GROUPS, 0};
    }
    for (uint32_t i = 0; i < WARPS; i++) {
        r.warps[i].held = UINT32_MAX;
        begin_item(&r, i);
    }
    for (uint32_t idle = 0; idle < 5000;) { /* in any order, now one and now another far ahead */
        const uint32_t i = (uint32_t)kvg_rng_below(seed, 0, draw++, WARPS);
        const uint32_t steps = (uint32_t)kvg_rng_below(seed, 0, draw++, 12);
        bool went = r.warps[i].copies > 0 && kvg_rng_below(seed, 0, draw++, 2);
        if (went) end_copies(&r, &r.warps[i]);
        for (uint32_t j = 0; j < steps && go_on(&r, i); j++) went = true;
        idle = went ? 0 : idle + 1;
    }
    for (uint32_t i = 0; i < WARPS; i++) assert_int_equal(r.warps[i].item, ITEMS); /* nobody waits for ever */
}

static void the_ring_loses_no_tile(void **state)
{
    (void)state;
    for (uint32_t stages = 2; stages <= MANY_MOST_STAGES; stages++) {
        for (uint32_t seed = 0; seed < 200; seed++) run_ring(stages, seed % 2, seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_has_a_shape),     cmocka_unit_test(few_rows_are_left_to_the_other_kernels),
        cmocka_unit_test(too_many_queries_are_refused), cmocka_unit_test(every_piece_is_one_item),
        cmocka_unit_test(nodes_fit_the_workspace),      cmocka_unit_test(merges_are_those_of_the_aligned_tree),
        cmocka_unit_test(the_ring_loses_no_tile),       cmocka_unit_test(shared_rows_have_a_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
