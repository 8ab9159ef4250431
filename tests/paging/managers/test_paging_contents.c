/* What the managers are for: whatever is shared, copied, evicted and resumed, a granted sequence finds its own tokens
 * in its blocks. An engine is played that keeps, for every slot, a tag of all the tokens up to it. */
#include "core/rng.h"
#include "tests/paging/managers/paging_world.h"

enum { SEQUENCES = 10, BLOCKS = 40, OPERATIONS = 3000, LONGEST = 90 };

typedef struct engine {
    world w;
    uint32_t span;
    uint64_t *slots; /* [block][span] */
    uint64_t drafts; /* tags of rejected tokens: never equal to another */
    uint64_t at;     /* of the random stream */
    uint64_t seed;
    uint64_t checked, shared, copied, resumed, holes;
} engine;

static uint32_t below(engine *e, uint32_t n)
{
    return (uint32_t)kvg_rng_below(e->seed, 0, e->at++, n);
}

static void tags_of(engine *e, uint64_t id, uint32_t n, uint64_t *tags)
{
    int32_t tokens[LONGEST];
    uint64_t last = 0;
    assert_ok(e->w.ops->tokens(e->w.self, id, 0, n, tokens));
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t link[2] = {last, (uint32_t)tokens[i]};
        tags[i] = last = kvg_hash64(link, sizeof link);
    }
}

static uint64_t *slot(engine *e, uint64_t id, uint32_t position)
{
    const uint32_t block = entry_of(&e->w, id, position / e->span);
    assert_true(block < BLOCKS);
    return &e->slots[block * e->span + position % e->span];
}

static void copy(engine *e, const kvg_sequence_grant *g)
{
    if (!g->active || g->copy_to == KVG_BLOCK_NONE) return;
    e->copied++;
    assert_int_equal(g->copy_tokens, g->first % e->span);
    memcpy(&e->slots[g->copy_to * e->span], &e->slots[g->copy_from * e->span], e->span * sizeof *e->slots);
}

/* Every key that a query from `first` on can see is there, and nobody else holds what is written. */
static void write(engine *e, const kvg_sequence_grant *g)
{
    const uint32_t window = e->w.options.window, known = info_of(&e->w, g->sequence).tokens;
    uint64_t tags[LONGEST];
    tags_of(e, g->sequence, known, tags);
    for (uint32_t p = window && g->first >= window ? g->first - window + 1 : 0; p < g->first; p++) {
        assert_true(*slot(e, g->sequence, p) == tags[p]);
        e->checked++;
    }
    assert_true(g->count > 0 && g->read_only * e->span <= g->first);
    for (uint32_t p = g->first; p < g->first + g->count; p++) {
        assert_int_equal(block_of(e->w.data, entry_of(&e->w, g->sequence, p / e->span)).use_count, 1);
        *slot(e, g->sequence, p) = p < known ? tags[p] : ++e->drafts;
    }
}

/* A step of some of the sequences, in a random order of priority. */
static void step(engine *e)
{
    kvg_sequence_request requests[SEQUENCES];
    kvg_sequence_grant grants[SEQUENCES];
    kvg_sequence_info before[SEQUENCES];
    uint32_t n = 0;
    for (uint64_t id = 0; id < SEQUENCES; id++) {
        if (e->w.ops->get(e->w.self, id, &before[n]) != KVG_OK || below(e, 3) == 0) continue;
        const uint32_t context = before[n].tokens > before[n].cache_len ? before[n].tokens : before[n].tokens + 1;
        requests[n++] = (kvg_sequence_request){id, below(e, 5), context + below(e, 3), 1 + below(e, 30)};
    }
    assert_ok(e->w.ops->materialise(e->w.self, requests, n, grants));
    world_check(&e->w);
    for (uint32_t i = 0; i < n; i++) copy(e, &grants[i]);
    for (uint32_t i = 0; i < n; i++) {
        const kvg_sequence_grant *g = &grants[i];
        assert_int_equal(g->sequence, requests[i].sequence);
        e->shared += g->matched;
        if (!g->active) continue;
        e->resumed += before[i].state == KVG_SEQUENCE_CACHED && g->first > 0 && g->matched == 0;
        e->holes += info_of(&e->w, g->sequence).holes;
        write(e, g);
    }
    for (uint32_t i = 0; i < n; i++) {
        const kvg_sequence_info s = info_of(&e->w, grants[i].sequence);
        if (!grants[i].active || below(e, 8) == 0) continue; /* now and then a step is lost */
        const uint32_t known = s.tokens - s.cache_len, most = known < s.granted ? known : s.granted;
        assert_ok(e->w.ops->written(e->w.self, s.id, below(e, 4) ? most : below(e, most + 1)));
        world_check(&e->w);
    }
}

static void other_operation(engine *e)
{
    static const act_kind kinds[] = {CREATE, APPEND, APPEND, APPEND, RELEASE, PREEMPT, FORK, COMMIT, VERIFY, ERASE};
    act a = {kinds[below(e, 10)], below(e, SEQUENCES), 1 + below(e, 3), 0};
    kvg_sequence_info s, child;
    const bool exists = e->w.ops->get(e->w.self, a.id, &s) == KVG_OK;
    if (a.kind == CREATE) {
        a.a = 1 + below(e, 40);
        a.b = below(e, 3);
        if (exists && below(e, 4)) return;
    } else if (!exists) {
        return;
    }
    if (a.kind == APPEND && s.tokens + a.a > LONGEST - 4) a.kind = ERASE;
    if (a.kind == FORK && e->w.ops->get(e->w.self, a.a = below(e, SEQUENCES), &child) == KVG_OK) return;
    assert_ok(world_act(&e->w, &a));
}

static void play(const world_options *options, uint64_t seed)
{
    engine e = {.span = options->block_tokens * options->cp_size, .seed = seed};
    world_open(&e.w, options);
    e.slots = calloc(BLOCKS * e.span, sizeof *e.slots);
    assert_non_null(e.slots);
    for (int i = 0; i < OPERATIONS; i++) {
        if (below(&e, 3) == 0) step(&e);
        else other_operation(&e);
        world_check(&e.w);
    }
    print_message("seed %llx: %llu tokens found, %llu blocks shared, %llu copied, %llu resumed, %llu holes\n",
                  (unsigned long long)seed, (unsigned long long)e.checked, (unsigned long long)e.shared,
                  (unsigned long long)e.copied, (unsigned long long)e.resumed, (unsigned long long)e.holes);
    assert_true(e.checked > OPERATIONS && e.copied > 10 && e.resumed > 50);
    assert_true(!options->prefix || e.shared > 100);
    assert_true(!options->window || e.holes > 100);
    free(e.slots);
    world_close(&e.w);
}

static void test_every_sequence_finds_its_own_tokens(void **state)
{
    (void)state;
    static const world_options variants[] = {
        {.capacity = BLOCKS, .chunk = 7, .block_tokens = 4, .cp_size = 1, .scale = true, .prefix = true},
        {.capacity = BLOCKS, .chunk = -1, .block_tokens = 4, .cp_size = 1},
        {.capacity = BLOCKS, .chunk = -1, .block_tokens = 4, .cp_size = 1, .window = 9, .scale = true, .prefix = true},
        {.capacity = BLOCKS, .chunk = -1, .block_tokens = 2, .cp_size = 2, .window = 13, .scale = true},
        {.capacity = BLOCKS, .chunk = -1, .block_tokens = 3, .cp_size = 1, .prefix = true},
    };
    for (uint64_t i = 0; i < sizeof variants / sizeof variants[0]; i++) play(&variants[i], 0x1000 + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_sequence_finds_its_own_tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
