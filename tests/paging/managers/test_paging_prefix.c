/* The prefix index: what is a hit, what must be a miss, and what goes when blocks die. */
#include "tests/paging/managers/paging_world.h"

enum { SPAN = 4, CAPACITY = 16 };

typedef struct fixture {
    world w;
    kvg_prefix_pool index;
    kvg_block_pool blocks;
    uint32_t ids[CAPACITY];
    uint64_t lives[CAPACITY];
    int32_t tokens[64];
} fixture;

static const kvg_prefix_key plain = {0, 0, 0};

/* All CAPACITY blocks are allocated; tokens are those of family 1. */
static void open_fixture(fixture *f, kvg_prefix_hash hash)
{
    const world_options options = {
        .capacity = CAPACITY, .chunk = -1, .block_tokens = SPAN, .prefix = true, .hash = hash};
    world_open(&f->w, &options);
    f->index = kvg_prefix_index_pool(f->w.index);
    f->blocks = f->w.pools[0].inner;
    assert_ok(f->blocks.ops->allocate(f->blocks.self, CAPACITY, f->ids));
    for (uint32_t i = 0; i < CAPACITY; i++) f->lives[i] = block_of(f->blocks, i).unique_id;
    world_tokens(1, 0, 64, f->tokens);
}

static uint32_t match(fixture *f, const kvg_prefix_key *key, const int32_t *tokens, size_t count, uint32_t *ids)
{
    uint64_t lives[CAPACITY];
    uint32_t own[CAPACITY], matched = 99;
    if (!ids) ids = own;
    assert_ok(f->index.ops->match(f->index.self, key, tokens, count, ids, lives, &matched));
    for (uint32_t i = 0; i < matched; i++) assert_int_equal(lives[i], block_of(f->blocks, ids[i]).unique_id);
    return matched;
}

/* Publishes n blocks of `tokens` as the blocks from `first` on. */
static uint32_t publish(fixture *f, const kvg_prefix_key *key, const int32_t *tokens, uint32_t n, uint32_t first)
{
    uint32_t published = 99;
    assert_ok(f->index.ops->publish(f->index.self, key, tokens, n, f->ids + first, f->lives + first, &published));
    return published;
}

static uint32_t dropped_by_verify(fixture *f, const uint32_t *ids, uint32_t n)
{
    uint32_t dropped = 99;
    assert_ok(f->index.ops->verify(f->index.self, ids, n, &dropped));
    return dropped;
}

static bool count_node(void *context, const kvg_prefix_node *n)
{
    (void)n;
    ++*(uint32_t *)context;
    return true;
}

static uint32_t nodes(fixture *f)
{
    uint32_t n = 0;
    const uint32_t seen = f->index.ops->visit(f->index.self, count_node, &n);
    assert_int_equal(seen, n);
    return n;
}

static void kill_block(fixture *f, uint32_t id)
{
    assert_ok(f->blocks.ops->unlock(f->blocks.self, &id, 1, NULL));
    assert_ok(f->blocks.ops->free(f->blocks.self, &id, 1));
}

static void test_match_never_takes_the_whole_prompt(void **state)
{
    (void)state;
    fixture f;
    uint32_t ids[4];
    open_fixture(&f, NULL);
    assert_int_equal(match(&f, &plain, f.tokens, 13, NULL), 0);
    assert_int_equal(publish(&f, &plain, f.tokens, 3, 5), 3);
    static const uint32_t expected[] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3};
    for (size_t count = 0; count < 18; count++) {
        assert_int_equal(match(&f, &plain, f.tokens, count, ids), expected[count]);
        for (uint32_t i = 0; i < expected[count]; i++) assert_int_equal(ids[i], 5 + i);
    }
    f.tokens[7]++; /* in the second block */
    assert_int_equal(match(&f, &plain, f.tokens, 13, NULL), 1);
    f.tokens[7]--;
    f.tokens[0]++;
    assert_int_equal(match(&f, &plain, f.tokens, 13, NULL), 0);
    world_close(&f.w);
}

static uint64_t one_hash(void *context, uint64_t parent, const kvg_prefix_key *key, const int32_t *tokens, uint32_t n)
{
    (void)context, (void)parent, (void)key, (void)tokens, (void)n;
    return 42;
}

static void test_a_hash_collision_is_a_miss(void **state)
{
    (void)state;
    fixture f;
    int32_t other[64];
    uint32_t ids[3];
    open_fixture(&f, one_hash);
    world_tokens(2, 0, 64, other);
    assert_int_equal(publish(&f, &plain, f.tokens, 3, 0), 3);
    assert_int_equal(match(&f, &plain, other, 13, NULL), 0);
    assert_int_equal(match(&f, &(kvg_prefix_key){1, 0, 0}, f.tokens, 13, NULL), 0);
    assert_int_equal(publish(&f, &plain, other, 3, 4), 0);
    assert_int_equal(match(&f, &plain, f.tokens, 13, ids), 3);
    assert_int_equal(ids[2], 2);
    memcpy(other, f.tokens, 2 * SPAN * sizeof *other); /* differs from the third block on */
    assert_int_equal(match(&f, &plain, other, 13, NULL), 2);
    assert_int_equal(publish(&f, &plain, other, 3, 4), 0);
    world_close(&f.w);
}

static void test_the_dead_are_missed_and_dropped_with_their_subtree(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, NULL);
    int32_t branch[64];
    world_tokens(1, 0, 64, branch);
    branch[3 * SPAN] = -1;
    assert_int_equal(publish(&f, &plain, f.tokens, 4, 0), 4);
    assert_int_equal(publish(&f, &plain, branch, 5, 8), 2); /* 11 and 12 behind 2 */
    kill_block(&f, 2);
    assert_int_equal(match(&f, &plain, f.tokens, 17, NULL), 2);
    assert_int_equal(nodes(&f), 6); /* match changes nothing */
    assert_int_equal(dropped_by_verify(&f, (const uint32_t[]){0, 1, 3, 9, 11}, 5), 0);
    assert_int_equal(dropped_by_verify(&f, (const uint32_t[]){2, 99}, 2), 4);
    assert_int_equal(nodes(&f), 2);
    assert_int_equal(match(&f, &plain, branch, 17, NULL), 2);
    /* A new life of block 2 is not the old one. */
    assert_ok(f.blocks.ops->allocate(f.blocks.self, 1, &f.ids[2]));
    assert_int_equal(f.ids[2], 2);
    assert_int_equal(match(&f, &plain, f.tokens, 17, NULL), 2);
    f.lives[2] = block_of(f.blocks, 2).unique_id;
    assert_int_equal(publish(&f, &plain, f.tokens, 4, 0), 2);
    assert_int_equal(match(&f, &plain, f.tokens, 17, NULL), 4);
    kill_block(&f, 0);
    kill_block(&f, 9);
    assert_int_equal(dropped_by_verify(&f, NULL, 0), 4);
    assert_int_equal(nodes(&f), 0);
    world_close(&f.w);
}

static void test_publish_replaces_the_dead(void **state)
{
    (void)state;
    fixture f;
    uint32_t ids[4];
    open_fixture(&f, NULL);
    assert_int_equal(publish(&f, &plain, f.tokens, 3, 0), 3);
    kill_block(&f, 1);
    assert_int_equal(publish(&f, &plain, f.tokens, 3, 8), 2); /* 9 for the dead 1; 2 went with it */
    assert_int_equal(match(&f, &plain, f.tokens, 13, ids), 3);
    assert_int_equal(ids[0], 0);
    assert_int_equal(ids[1], 9);
    assert_int_equal(ids[2], 10);
    kill_block(&f, 0);
    assert_int_equal(publish(&f, &plain, f.tokens, 4, 8), 1); /* 11 behind 10, as ever, and as lost as 10 */
    assert_int_equal(match(&f, &plain, f.tokens, 17, ids), 0);
    assert_int_equal(dropped_by_verify(&f, (const uint32_t[]){0}, 1), 4);
    assert_int_equal(publish(&f, &plain, f.tokens, 4, 8), 4);
    assert_int_equal(match(&f, &plain, f.tokens, 17, ids), 4);
    assert_int_equal(ids[0], 8);
    assert_int_equal(ids[3], 11);
    assert_int_equal(nodes(&f), 4);
    world_close(&f.w);
}

static void test_bad_references_are_refused(void **state)
{
    (void)state;
    fixture f;
    int32_t other[64];
    open_fixture(&f, NULL);
    world_tokens(2, 0, 64, other);
    assert_int_equal(publish(&f, &plain, f.tokens, 2, 0), 2);
    const uint32_t ids[] = {3, 4, 1}, twice[] = {3, 3}, outside[] = {3, CAPACITY};
    const uint64_t lives[] = {f.lives[3], f.lives[4], f.lives[1]}, stale[] = {f.lives[3], f.lives[4] + 1, f.lives[5]};
    const uint64_t same[] = {f.lives[3], f.lives[3]};
    const kvg_prefix_ops *ops = f.index.ops;
    assert_int_equal(ops->publish(f.index.self, &plain, other, 3, ids, lives, NULL), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "block 1: publish: it stands for other tokens"));
    assert_int_equal(ops->publish(f.index.self, &plain, other, 3, ids, stale, NULL), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "block 4: publish: entry 1 of the table is dead"));
    assert_int_equal(ops->publish(f.index.self, &plain, other, 2, twice, same, NULL), KVG_ERR_INVALID);
    assert_int_equal(ops->publish(f.index.self, &plain, other, 2, outside, lives, NULL), KVG_ERR_INVALID);
    assert_ok(ops->publish(f.index.self, &plain, f.tokens, 1, ids, stale, NULL)); /* the node exists */
    assert_int_equal(nodes(&f), 2);
    assert_int_equal(publish(&f, &plain, other, 3, 3), 3); /* the refused left no trace */
    world_close(&f.w);
}

static void test_memory_is_bounded_by_the_pool(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, NULL);
    const int64_t empty = f.w.live;
    int32_t tokens[4 * SPAN];
    for (uint32_t round = 0; round < 1000; round++) {
        const uint32_t first = round % 4 * 4;
        world_tokens(round, 0, 4 * SPAN, tokens);
        for (uint32_t i = first; i < first + 4; i++) kill_block(&f, i);
        assert_ok(f.blocks.ops->allocate(f.blocks.self, 4, f.ids + first));
        for (uint32_t i = first; i < first + 4; i++) f.lives[i] = block_of(f.blocks, f.ids[i]).unique_id;
        assert_int_equal(publish(&f, &plain, tokens, 4, first), 4);
        assert_true(nodes(&f) <= CAPACITY);
        assert_true(f.w.live <= empty + CAPACITY);
    }
    assert_int_equal(match(&f, &plain, tokens, 4 * SPAN, NULL), 3);
    world_close(&f.w);
}

typedef struct hash_check {
    uint64_t hash[4];
    int depth_seen;
} hash_check;

static bool check_hash(void *context, const kvg_prefix_node *n)
{
    hash_check *c = context;
    assert_int_equal(n->depth, c->depth_seen++);
    const uint64_t parent = n->depth ? c->hash[n->depth - 1] : 0;
    assert_true(n->hash == kvg_prefix_hash_default(NULL, parent, &n->key, n->tokens, SPAN));
    assert_int_equal(n->parent_block, n->depth ? n->block.id - 1 : KVG_BLOCK_NONE);
    assert_int_equal(n->tokens[SPAN - 1], 100000 + (int)(n->depth + 1) * SPAN - 1);
    c->hash[n->depth] = n->hash;
    return n->depth < 2;
}

static void test_every_node_shows_the_hash_of_its_tokens(void **state)
{
    (void)state;
    fixture f;
    hash_check c = {.depth_seen = 0};
    open_fixture(&f, NULL);
    assert_int_equal(publish(&f, &(kvg_prefix_key){1, 2, 3}, f.tokens, 4, 0), 4);
    memset(f.tokens, 0, sizeof f.tokens); /* the index has its own copy */
    assert_int_equal(f.index.ops->visit(f.index.self, check_hash, &c), 3);
    world_close(&f.w);
}

/* A known answer: FNV-1a of 32 zero bytes and of the token 0x04030201 behind them. */
static void test_the_default_hash_reads_everything(void **state)
{
    (void)state;
    const int32_t token = 0x04030201;
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < 32; i++) h *= 0x100000001b3u;
    assert_true(kvg_prefix_hash_default(NULL, 0, &plain, NULL, 0) == h);
    for (uint64_t i = 1; i <= 4; i++) h = (h ^ i) * 0x100000001b3u;
    assert_true(kvg_prefix_hash_default(NULL, 0, &plain, &token, 1) == h);
}

static void test_bad_indexes_are_refused(void **state)
{
    (void)state;
    kvg_prefix_index *index;
    fixture f;
    open_fixture(&f, NULL);
    assert_int_equal(kvg_prefix_index_create(&(kvg_prefix_config){.blocks = f.blocks}, &index), KVG_ERR_INVALID);
    assert_int_equal(kvg_prefix_index_create(&(kvg_prefix_config){.span = 4}, &index), KVG_ERR_INVALID);
    kvg_prefix_index_destroy(NULL);
    world_close(&f.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_match_never_takes_the_whole_prompt),
        cmocka_unit_test(test_a_hash_collision_is_a_miss),
        cmocka_unit_test(test_the_dead_are_missed_and_dropped_with_their_subtree),
        cmocka_unit_test(test_publish_replaces_the_dead),
        cmocka_unit_test(test_bad_references_are_refused),
        cmocka_unit_test(test_memory_is_bounded_by_the_pool),
        cmocka_unit_test(test_every_node_shows_the_hash_of_its_tokens),
        cmocka_unit_test(test_the_default_hash_reads_everything),
        cmocka_unit_test(test_bad_indexes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
