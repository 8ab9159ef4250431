/* Paged cases: what the fill must contain for the checks to mean something, and stray writes that they must see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness/trial/judge/judge.h"
#include "harness/trial/question/paged_fill.h"
#include "harness/trial/question/question.h"

static kvg_case make_case(kvg_op op, kvg_layout layout, uint64_t seed)
{
    kvg_case c = {
        .problem = {.op = op, .layout = layout, .dtype = KVG_DTYPE_BF16, .tokens = 30, .kv_heads = 2, .head_dim = 64,
                    .storage = {{KVG_FORMAT_NVFP4, "canonical"}, {KVG_FORMAT_NVFP4, "canonical"}},
                    .paging = {.layers = 3, .layer = 1, .blocks = 24, .block_tokens = 4, .sequences = 4}},
        .fill = KVG_FILL_RANDOM,
        .scale = {.given = true, .value = {0.3f, 0.0123f}},
        .backend = "stray",
        .seed = seed,
    };
    if (layout == KVG_LAYOUT_HND) {
        c.problem.paging.row_padding = 3;
        c.problem.paging.data_padding = 64;
        c.problem.paging.scale_padding = 32;
    }
    if (layout == KVG_LAYOUT_CONTIGUOUS) c.problem.paging.block_tokens = 32;
    assert_int_equal(kvg_problem_check(&c.problem), KVG_OK);
    assert_int_equal(kvg_case_name(&c), KVG_OK);
    return c;
}

/* --- the fill --- */

typedef struct seen {
    bool last_block, hole, empty, wrapped, dead;
    bool other_first; /* the first block that is taken is not the pool's last */
    bool garbage[4]; /* -1 where nobody looks, too small, too large, another block */
} seen;

static void look_at_slots(const kvg_case *c, const kvg_paged_fill *f, seen *s)
{
    const kvg_problem *p = &c->problem;
    bool used[24 * 32] = {false};
    for (uint32_t i = 0; i < f->live; i++) {
        const int64_t slot = f->live_slots[i];
        assert_in_range(slot, 0, (int64_t)p->paging.blocks * p->paging.block_tokens - 1);
        assert_false(used[slot]); /* two tokens in one place would make every answer wrong */
        used[slot] = true;
        if (slot / p->paging.block_tokens == p->paging.blocks - 1) s->last_block = true;
    }
    s->other_first = f->live_slots[0] / p->paging.block_tokens != p->paging.blocks - 1;
    for (uint32_t t = 0; p->op == KVG_OP_APPEND && t < p->tokens; t++) s->dead |= f->slots[t] < 0;
}

static void look_at_tables(const kvg_case *c, const kvg_paged_fill *f, seen *s)
{
    const kvg_problem *p = &c->problem;
    const uint32_t width = kvg_layout_table_width(p->layout, &p->paging, p->tokens), B = p->paging.block_tokens;
    for (uint32_t q = 0; q < p->paging.sequences; q++) {
        const uint32_t length = (uint32_t)f->lengths[q];
        s->empty |= length == 0;
        s->wrapped |= kvg_problem_blocks(p) == KVG_BLOCKS_RING && length > B;
        for (uint32_t column = 0; column < width; column++) {
            const int32_t entry = f->table[q * width + column];
            if (column * B < length && kvg_problem_blocks(p) != KVG_BLOCKS_RING) {
                s->hole |= entry == -1;
            } else if (length == 0 || kvg_problem_blocks(p) != KVG_BLOCKS_RING) {
                s->garbage[entry == -1 ? 0 : entry < 0 ? 1 : entry >= (int32_t)p->paging.blocks ? 2 : 3] = true;
            }
        }
    }
}

static seen look(kvg_op op, kvg_layout layout, bool shuffled)
{
    seen s = {0};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        kvg_case c = make_case(op, layout, seed);
        kvg_paged_fill f;
        c.shuffled = shuffled;
        assert_int_equal(kvg_paged_fill_make(&c, seed, &f), KVG_OK);
        seen once = {0};
        look_at_slots(&c, &f, &once);
        assert_true(once.last_block || op == KVG_OP_APPEND); /* append: the block's token may be a skipped one */
        s.last_block |= once.last_block;
        s.dead |= once.dead;
        s.other_first |= once.other_first;
        if (op == KVG_OP_FLATTEN) look_at_tables(&c, &f, &s);
        kvg_paged_fill_free(&f);
    }
    return s;
}

static void test_the_fill_holds_what_the_manual_says(void **state)
{
    (void)state;
    const seen append = look(KVG_OP_APPEND, KVG_LAYOUT_HND, false);
    const seen paged = look(KVG_OP_FLATTEN, KVG_LAYOUT_HND, false), ring = look(KVG_OP_FLATTEN, KVG_LAYOUT_RING, false);
    const seen shuffled = look(KVG_OP_FLATTEN, KVG_LAYOUT_HND, true);
    assert_true(append.last_block && append.dead);
    assert_true(paged.hole && paged.empty);
    for (int i = 0; i < 4; i++) assert_true(paged.garbage[i]);
    assert_true(ring.wrapped && ring.empty);
    assert_true(!paged.other_first && shuffled.other_first && shuffled.hole && shuffled.empty);
}

/* How many rows of K's codes in the pool have all bits set, and how many, of those that no token owns, are rows of
 * tokens of the case; and which bits are set in rows that no token owns. */
typedef struct old_rows {
    unsigned all_set, of_tokens;
    uint8_t unowned_bits;
} old_rows;

static old_rows find_old_rows(const kvg_question *d)
{
    const kvg_problem *p = &d->c->problem;
    const uint32_t B = p->paging.block_tokens;
    kvg_layout_map map;
    kvg_rows_map(p, &map);
    const kvg_row_map *m = &map.codes[KVG_K];
    const uint8_t *pool = kvg_set_tensor(&d->in, KVG_ROLE_DATA_POOL, KVG_K)->data;
    old_rows found = {0};
    for (uint32_t slot = 0; slot < p->paging.blocks * B; slot++) {
        const uint8_t *row = pool + kvg_rows_place(m, p->paging.layer, slot / B, 0, slot % B, 0);
        bool all_set = true, owned = false, like = false;
        for (uint32_t i = 0; i < m->bytes; i++) all_set = all_set && row[i] == 0xFF;
        for (uint32_t i = 0; i < d->rows.tokens; i++) {
            const uint32_t live = (uint32_t)d->slots[i];
            const uint64_t at = kvg_rows_place(m, p->paging.layer, live / B, 0, live % B, 0);
            owned = owned || live == slot;
            like = like || memcmp(row, pool + at, m->bytes) == 0;
        }
        found.all_set += all_set;
        found.of_tokens += like && !owned;
        for (uint32_t i = 0; i < m->bytes && !owned; i++) found.unowned_bits |= row[i];
    }
    return found;
}

/* Lengths live: no empty sequence and no lost block; even: all tokens, too. Unowned: no byte has other bits, and over
 * the seeds each permitted bit is set somewhere. */
static void test_lengths_and_unowned_bytes(void **state)
{
    (void)state;
    static const uint8_t permitted[] = {0xFF, 0x3F, 0};
    bool shorter = false;
    for (int unowned = KVG_UNOWNED_ANY; unowned <= KVG_UNOWNED_ZERO; unowned++) {
        uint8_t set = 0;
        for (uint64_t seed = 1; seed <= 20; seed++) {
            kvg_case c = make_case(KVG_OP_FLATTEN, KVG_LAYOUT_HND, seed);
            kvg_question d;
            c.shuffled = seed & 1;
            c.lengths = seed % 3 ? KVG_LENGTHS_LIVE : KVG_LENGTHS_EVEN;
            c.unowned = (kvg_unowned)unowned;
            c.problem.paging.blocks *= 2; /* no sequence is empty */
            assert_int_equal(kvg_question_make(&c, &d), KVG_OK);
            const kvg_paging *g = &c.problem.paging;
            const int32_t *lengths = kvg_set_tensor(&d.in, KVG_ROLE_LENGTHS, KVG_K)->data;
            const int32_t *table = kvg_set_tensor(&d.in, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
            const uint32_t width = kvg_layout_table_width(c.problem.layout, g, c.problem.tokens);
            for (uint32_t s = 0; s < g->sequences; s++) {
                assert_in_range(lengths[s], c.lengths == KVG_LENGTHS_EVEN ? c.problem.tokens : 1, c.problem.tokens);
                assert_in_range(table[s * width], 0, g->blocks - 1);
                shorter = shorter || (uint32_t)lengths[s] < c.problem.tokens;
            }
            set |= find_old_rows(&d).unowned_bits;
            kvg_question_free(&d);
        }
        assert_int_equal(set, permitted[unowned]);
    }
    assert_true(shorter);
}

/* The slot of a token of a sequence; -1: it has none. */
static int64_t slot_of(const kvg_question *d, uint32_t sequence, uint32_t position)
{
    const kvg_problem *p = &d->c->problem;
    const uint32_t B = p->paging.block_tokens, width = kvg_layout_table_width(p->layout, &p->paging, p->tokens);
    const int32_t *table = kvg_set_tensor(&d->in, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
    const int32_t *lengths = kvg_set_tensor(&d->in, KVG_ROLE_LENGTHS, KVG_K)->data;
    const int64_t block = position < (uint32_t)lengths[sequence] ? table[sequence * width + position / B] : -1;
    return block < 0 ? -1 : block * B + position % B;
}

/* Codes of V under the last head, the last part of a token. */
static const uint8_t *codes_in(const kvg_question *d, int64_t slot, size_t *bytes)
{
    const kvg_problem *p = &d->c->problem;
    const uint32_t B = p->paging.block_tokens;
    kvg_layout_map map;
    kvg_rows_map(p, &map);
    const kvg_row_map *m = &map.codes[KVG_V];
    *bytes = m->bytes;
    return (const uint8_t *)kvg_set_tensor(&d->in, m->pool, m->side)->data +
           kvg_rows_place(m, p->paging.layer, (uint32_t)(slot / B), p->kv_heads - 1, (uint32_t)(slot % B), 0);
}

typedef struct parted {
    bool shorter, longer, whole_page, copied_row, own_row;
} parted;

/* Two sequences have a token in one slot if the prefix fills its block, and else in two. The rows are the same as far
 * as the prefix goes. */
static void look_at_two(const kvg_question *d, uint32_t one, uint32_t other, parted *found)
{
    const uint32_t prefix = d->c->shared_prefix, B = d->c->problem.paging.block_tokens;
    for (uint32_t position = 0; position < d->c->problem.tokens; position++) {
        const int64_t a = slot_of(d, one, position), b = slot_of(d, other, position);
        const bool shared = position < prefix / B * B;
        size_t bytes;
        if (a < 0 || b < 0) continue;
        const uint8_t *codes = codes_in(d, a, &bytes);
        assert_int_equal(a == b, shared);
        assert_int_equal(memcmp(codes, codes_in(d, b, &bytes), bytes) == 0, position < prefix);
        found->whole_page |= shared;
        found->copied_row |= !shared && position < prefix;
        found->own_row |= position >= prefix;
    }
}

/* Every slot of the case is written once. */
static void look_at_owners(const kvg_question *d)
{
    const kvg_paging *g = &d->c->problem.paging;
    unsigned owners[24 * 4] = {0};
    assert_in_range(g->blocks * g->block_tokens, 1, sizeof owners / sizeof owners[0]);
    for (uint32_t i = 0; i < d->rows.tokens; i++) {
        if (d->owned[i] >= 0) owners[d->owned[i]]++;
    }
    for (uint32_t i = 0; i < d->rows.tokens; i++) assert_int_equal(owners[d->slots[i]], 1);
}

static parted look_at_prefix(kvg_op op, uint32_t prefix)
{
    parted found = {0};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        kvg_case c = make_case(KVG_OP_FLATTEN, KVG_LAYOUT_HND, seed);
        kvg_question d;
        c.shuffled = seed & 1;
        c.shared_prefix = prefix;
        if (op == KVG_OP_DECODE) {
            c.problem.op = op;
            c.problem.attention = (kvg_attention){.query_heads = c.problem.kv_heads,
                                                  .queries = c.problem.paging.sequences};
            c.queries = 1;
            c.fill = KVG_FILL_CODES;
        }
        if (kvg_question_make(&c, &d)) fail_msg("%s", kvg_error_text());
        const int32_t *lengths = kvg_set_tensor(&d.in, KVG_ROLE_LENGTHS, KVG_K)->data;
        for (uint32_t s = 0; s < c.problem.paging.sequences; s++) {
            assert_in_range(lengths[s], 0, c.problem.tokens);
            found.shorter |= lengths[s] > 0 && (uint32_t)lengths[s] < prefix;
            found.longer |= (uint32_t)lengths[s] > prefix;
            for (uint32_t other = 0; other < s; other++) look_at_two(&d, s, other, &found);
        }
        look_at_owners(&d);
        kvg_question_free(&d);
    }
    return found;
}

static void test_sequences_share_a_prefix(void **state)
{
    (void)state;
    static const kvg_op ops[] = {KVG_OP_FLATTEN, KVG_OP_DECODE};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        const parted none = look_at_prefix(ops[i], 0), within = look_at_prefix(ops[i], 10);
        const parted first = look_at_prefix(ops[i], 3), at_start = look_at_prefix(ops[i], 12);
        assert_true(none.own_row && !none.whole_page && !none.copied_row);
        assert_true(within.shorter && within.longer && within.whole_page && within.copied_row && within.own_row);
        assert_true(first.copied_row && first.own_row && !first.whole_page);
        assert_true(at_start.whole_page && at_start.own_row && !at_start.copied_row);
    }
}

/* Op append: the pools before it hold permitted bits alone. */
static void test_unowned_bytes_before_append(void **state)
{
    (void)state;
    static const uint8_t permitted[] = {0xFF, 0x3F, 0};
    for (int unowned = KVG_UNOWNED_ANY; unowned <= KVG_UNOWNED_ZERO; unowned++) {
        kvg_case c = make_case(KVG_OP_APPEND, KVG_LAYOUT_HND, 1);
        kvg_question d;
        uint8_t set = 0;
        c.unowned = (kvg_unowned)unowned;
        assert_int_equal(kvg_question_make(&c, &d), KVG_OK);
        for (size_t t = 0; t < d.before.count; t++) {
            const uint8_t *bytes = d.before.tensors[t].data;
            for (size_t i = 0; i < d.before.tensors[t].bytes; i++) set |= bytes[i];
        }
        assert_int_equal(set, permitted[unowned]);
        kvg_question_free(&d);
    }
}

static void test_what_pools_held_before(void **state)
{
    (void)state;
    enum { SEEDS = 40 };
    unsigned noise = 0, nan = 0, rows = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kvg_case c = make_case(KVG_OP_FLATTEN, KVG_LAYOUT_HND, seed);
        kvg_question d;
        c.shuffled = true;
        assert_int_equal(kvg_question_make(&c, &d), KVG_OK);
        const old_rows found = find_old_rows(&d);
        noise += found.all_set == 0 && found.of_tokens == 0;
        nan += found.all_set > 0;
        rows += found.of_tokens > 0;
        kvg_question_free(&d);
    }
    assert_true(noise && nan && rows);
    assert_int_equal(noise + nan + rows, SEEDS);
}

/* --- stray writes --- */

static void (*stray)(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out);

static kvg_status run_and_stray(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    kvg_status s = kvg_reference_run(p, in, out);
    if (!s && stray) stray(p, in, out);
    return s;
}

/* Changes a byte of K's codes of (layer, block, offset), or of a byte `beyond` the row's end. */
static void touch(const kvg_problem *p, kvg_tensor *out, uint32_t layer, uint32_t block, uint32_t offset,
                  uint32_t beyond)
{
    kvg_layout_map map;
    kvg_rows_map(p, &map);
    const uint64_t at = kvg_rows_place(&map.codes[KVG_K], layer, block, 1, offset, beyond);
    ((uint8_t *)out[0].data)[at] ^= 1;
}

static bool slot_is_free(const kvg_problem *p, const kvg_tensor *in, int64_t slot)
{
    const int64_t *slots = in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_SLOTS, KVG_K)].data;
    for (uint32_t t = 0; t < p->tokens; t++) {
        if (slots[t] == slot) return false;
    }
    return true;
}

static void another_layer(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    touch(p, out, 2, 23, 0, 0);
}

static void row_padding(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    touch(p, out, p->paging.layer, 23, 0, 32); /* the first byte behind 64 elements of 4 bits */
}

static void last_byte(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p, (void)in;
    ((uint8_t *)out[0].data)[out[0].bytes - 1] ^= 1; /* padding of the last page */
}

static void scale_padding(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    kvg_tensor *scales = &out[kvg_roles_index(kvg_op_get(p->op)->outputs, KVG_ROLE_SCALE_POOL, KVG_V)];
    ((uint8_t *)scales->data)[scales->bytes - 1] ^= 1;
}

static void nobodys_slot(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const int64_t B = p->paging.block_tokens;
    int64_t slot = 0;
    while (!slot_is_free(p, in, slot)) slot++;
    touch(p, out, p->paging.layer, (uint32_t)(slot / B), (uint32_t)(slot % B), 0);
}

static void test_stray_writes_are_seen_and_described(void **state)
{
    (void)state;
    static const struct {
        void (*stray)(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out);
        const char *words;
    } strays[] = {
        {another_layer, "(another layer)"},  {row_padding, "padding, pool byte"},
        {last_byte, "padding, pool byte"},   {scale_padding, "v_scale_pool: 1 of"},
        {nobodys_slot, "no token of the case"},
    };
    static const kvg_impl impls[] = {{"stray", KVG_OP_APPEND, KVG_FORMAT_NONE, 0, run_and_stray}};
    static const kvg_backend backend = {.abi = KVG_BACKEND_ABI, .struct_size = sizeof backend, .name = "stray",
                                        .impls = impls, .impl_count = 1, .error_text = kvg_error_text};
    const kvg_case c = make_case(KVG_OP_APPEND, KVG_LAYOUT_HND, 5);
    kvg_result r;
    stray = NULL;
    kvg_check_run(&c, &backend, &r);
    if (r.verdict != KVG_VERDICT_PASS) fail_msg("%s", r.detail);
    for (size_t i = 0; i < sizeof strays / sizeof strays[0]; i++) {
        stray = strays[i].stray;
        kvg_check_run(&c, &backend, &r);
        assert_int_equal(r.verdict, KVG_VERDICT_FAIL);
        assert_int_equal(r.bytes.mismatched, 1);
        if (!strstr(r.detail, strays[i].words)) fail_msg("'%s' is not in: %s", strays[i].words, r.detail);
    }
}

/* A value outside a sequence's length, or of an empty sequence. */
static void beyond_a_length(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p, (void)in;
    ((uint8_t *)out[0].data)[0] ^= 1; /* the first sequence of four is empty */
}

static void test_flatten_must_leave_what_is_not_there(void **state)
{
    (void)state;
    static const kvg_impl impls[] = {{"stray", KVG_OP_FLATTEN, KVG_FORMAT_NONE, 0, run_and_stray}};
    static const kvg_backend backend = {.abi = KVG_BACKEND_ABI, .struct_size = sizeof backend, .name = "stray",
                                        .impls = impls, .impl_count = 1, .error_text = kvg_error_text};
    const kvg_case c = make_case(KVG_OP_FLATTEN, KVG_LAYOUT_HND, 5);
    kvg_result r;
    stray = beyond_a_length;
    kvg_check_run(&c, &backend, &r);
    assert_int_equal(r.verdict, KVG_VERDICT_FAIL);
    assert_non_null(strstr(r.detail, "sequence 0, token 0, head 0, dim 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_fill_holds_what_the_manual_says),
        cmocka_unit_test(test_what_pools_held_before),
        cmocka_unit_test(test_lengths_and_unowned_bytes),
        cmocka_unit_test(test_sequences_share_a_prefix),
        cmocka_unit_test(test_unowned_bytes_before_append),
        cmocka_unit_test(test_stray_writes_are_seen_and_described),
        cmocka_unit_test(test_flatten_must_leave_what_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
