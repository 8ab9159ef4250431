#include "paging/pool/pool_bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "core/rng.h"
#include "paging/paging.h"
#include "support/interrupt.h"

enum { BATCH = 64, BLOCK_TOKENS = 16, SEQUENCE_BLOCKS = 8 };

/* The operations measured. A step is append, materialise and written of one token for one sequence; a resume brings a
 * preempted sequence back, a create ends one sequence and prefills another. */
typedef enum measure {
    ALLOCATE, LOCK, TOUCH, UNLOCK, EVICT, FREE, VERIFY, STEP, RESUME, CREATE, MEASURES
} measure;

static const char *const measure_names[MEASURES] = {"allocate", "lock",   "touch", "unlock", "evict",
                                                    "free",     "verify", "step",  "resume", "create"};

typedef struct cost {
    double ns;
    uint64_t steps, count;
} cost;

typedef struct bench {
    kvg_block_manager *blocks[2];
    kvg_prefix_index *index;
    kvg_sequence_manager *sequences;
    kvg_block_pool data;
    kvg_sequence_pool pool;
    uint32_t size, live; /* sequences 1 to live */
    uint64_t drawn, next_prompt;
    cost costs[MEASURES];
    struct timespec start;
    uint64_t start_steps;
} bench;

static uint64_t below(bench *b, uint64_t n)
{
    return kvg_rng_below(0x62656E6368ull, b->size, b->drawn++, n);
}

static void start(bench *b)
{
    b->start_steps = kvg_block_manager_steps(b->blocks[0]);
    clock_gettime(CLOCK_MONOTONIC, &b->start);
}

static void stop(bench *b, measure which, uint64_t count)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    cost *c = &b->costs[which];
    c->ns += 1e9 * (double)(end.tv_sec - b->start.tv_sec) + (double)(end.tv_nsec - b->start.tv_nsec);
    c->steps += kvg_block_manager_steps(b->blocks[0]) - b->start_steps;
    c->count += count;
}

/* --- blocks: half of the pool is cached and half free, in no order; a batch of single calls each --- */

static kvg_status fill_blocks(bench *b)
{
    uint32_t *ids = malloc(b->size * sizeof *ids);
    if (!ids) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %u blocks", b->size);
    kvg_status s = b->data.ops->allocate(b->data.self, b->size, ids);
    for (uint32_t i = b->size; i-- > 1;) {
        const uint32_t j = (uint32_t)below(b, i + 1ull), id = ids[i];
        ids[i] = ids[j];
        ids[j] = id;
    }
    if (!s) s = b->data.ops->touch(b->data.self, ids, b->size);
    if (!s) s = b->data.ops->unlock(b->data.self, ids, b->size, NULL);
    if (!s) s = b->data.ops->free(b->data.self, ids, b->size / 2);
    free(ids);
    return s;
}

static kvg_status time_blocks(bench *b)
{
    const kvg_block_ops *ops = b->data.ops;
    void *self = b->data.self;
    uint32_t ids[BATCH], valid;
    kvg_block block;
    kvg_status s = KVG_OK;
    start(b);
    for (int i = 0; !s && i < BATCH; i++) s = ops->allocate(self, 1, &ids[i]);
    stop(b, ALLOCATE, BATCH);
    start(b);
    for (int i = 0; !s && i < BATCH; i++) s = ops->touch(self, &ids[i], 1);
    stop(b, TOUCH, BATCH);
    start(b);
    for (int i = 0; !s && i < BATCH; i++) s = ops->unlock(self, &ids[i], 1, NULL);
    stop(b, UNLOCK, BATCH);
    start(b);
    for (int i = 0; !s && i < BATCH; i++) s = ops->lock(self, &ids[i], 1, NULL);
    stop(b, LOCK, BATCH);
    start(b);
    for (int i = 0; !s && i < BATCH; i++) {
        s = ops->get(self, ids[i], &block);
        if (!s) s = ops->verify(self, &ids[i], &block.unique_id, 1, &valid);
    }
    stop(b, VERIFY, BATCH);
    if (!s) s = ops->unlock(self, ids, BATCH, NULL);
    start(b);
    for (int i = 0; !s && i < BATCH / 2; i++) s = ops->free(self, &ids[i], 1);
    stop(b, FREE, BATCH / 2);
    start(b);
    for (int i = 0; !s && i < BATCH / 2; i++) s = ops->evict(self, 1, NULL);
    stop(b, EVICT, BATCH / 2);
    return s;
}

/* --- sequences: of 8 blocks each, half of the pool held; the other half goes from hand to hand --- */

static kvg_status grant_one(bench *b, uint64_t id, uint32_t context, uint32_t *count)
{
    kvg_sequence_grant grant;
    const kvg_sequence_request request = {id, 0, context, context};
    kvg_status s = b->pool.ops->materialise(b->pool.self, &request, 1, &grant);
    if (!s && !grant.active) s = kvg_fail(KVG_ERR_EXHAUSTED, "bench: sequence %" PRIu64 " is not granted", id);
    *count = s ? 0 : grant.count;
    return s;
}

static kvg_status create_one(bench *b, uint64_t id)
{
    enum { TOKENS = BLOCK_TOKENS * (SEQUENCE_BLOCKS - 1) };
    static const kvg_prefix_key key = {0};
    int32_t tokens[TOKENS];
    uint32_t count;
    const uint64_t prompt = b->next_prompt++;
    for (int i = 0; i < TOKENS; i++) tokens[i] = (int32_t)(prompt * 31 + (uint64_t)i) & 0x7FFFFFFF;
    kvg_status s = b->pool.ops->create(b->pool.self, id, &key, tokens, TOKENS);
    if (!s) s = grant_one(b, id, TOKENS, &count);
    return s ? s : b->pool.ops->written(b->pool.self, id, count);
}

static kvg_status step_one(bench *b, uint64_t id)
{
    const int32_t token = 7;
    uint32_t count;
    kvg_sequence_info info;
    kvg_status s = b->pool.ops->append_tokens(b->pool.self, id, &token, 1);
    if (!s) s = b->pool.ops->get(b->pool.self, id, &info);
    if (!s) s = grant_one(b, id, info.tokens, &count);
    return s ? s : b->pool.ops->written(b->pool.self, id, 1);
}

static kvg_status resume_one(bench *b, uint64_t id)
{
    kvg_status s = b->pool.ops->preempt(b->pool.self, id);
    return s ? s : step_one(b, id);
}

/* Sequences grow by steps and resumes: each is made anew before it outgrows its share. */
static kvg_status time_sequences(bench *b)
{
    static const struct {
        measure which;
        kvg_status (*one)(bench *b, uint64_t id);
    } rounds[] = {{CREATE, create_one}, {STEP, step_one}, {RESUME, resume_one}};
    uint64_t ids[BATCH / 8];
    const uint32_t n = sizeof ids / sizeof ids[0];
    kvg_status s = KVG_OK;
    const uint64_t first = below(b, b->live);
    for (uint32_t i = 0; i < n; i++) ids[i] = 1 + (first + i * (b->live / n)) % b->live;
    for (int r = 0; r < 3; r++) {
        start(b);
        for (uint32_t i = 0; !s && i < n; i++) s = rounds[r].one(b, ids[i]);
        stop(b, rounds[r].which, n);
    }
    return s;
}

/* --- one size --- */

static kvg_status make(bench *b, bool sequences)
{
    const kvg_block_config config = {.capacity = b->size, .chunk = -1};
    kvg_status s = kvg_block_manager_create(&config, &b->blocks[0]);
    if (s) return s;
    b->data = kvg_block_manager_pool(b->blocks[0]);
    if (!sequences) return fill_blocks(b);
    s = kvg_block_manager_create(&config, &b->blocks[1]);
    if (s) return s;
    const kvg_prefix_config index = {.span = BLOCK_TOKENS, .blocks = b->data};
    s = kvg_prefix_index_create(&index, &b->index);
    if (s) return s;
    const kvg_sequence_config sequence = {.block_tokens = BLOCK_TOKENS, .cp_size = 1, .data = b->data,
                                          .scale = kvg_block_manager_pool(b->blocks[1]),
                                          .prefix = kvg_prefix_index_pool(b->index)};
    s = kvg_sequence_manager_create(&sequence, &b->sequences);
    if (s) return s;
    b->pool = kvg_sequence_manager_pool(b->sequences);
    b->live = b->size / 2 / SEQUENCE_BLOCKS;
    kvg_block_counts counts = {.free = 1};
    for (uint64_t i = 0; !s && counts.free; i++) { /* what is created again leaves cached blocks behind */
        s = create_one(b, 1 + i % b->live);
        b->data.ops->counts(b->data.self, &counts);
    }
    return s;
}

static void destroy(bench *b)
{
    kvg_sequence_manager_destroy(b->sequences);
    kvg_prefix_index_destroy(b->index);
    kvg_block_manager_destroy(b->blocks[0]);
    kvg_block_manager_destroy(b->blocks[1]);
}

/* Repeats a round until its measures have had their time. */
static kvg_status time_size(uint32_t size, double seconds, bool sequences, cost costs[MEASURES])
{
    bench b = {.size = size};
    const measure slowest = sequences ? CREATE : ALLOCATE, fastest = sequences ? STEP : EVICT;
    kvg_status s = make(&b, sequences);
    while (!s && (b.costs[slowest].ns < 1e9 * seconds || b.costs[fastest].ns < 1e8 * seconds)) {
        s = sequences ? time_sequences(&b) : time_blocks(&b);
    }
    for (int i = 0; i < MEASURES; i++) {
        if (b.costs[i].count) costs[i] = b.costs[i];
    }
    destroy(&b);
    return s;
}

static void print_size(uint32_t size, const cost costs[MEASURES], cJSON *list)
{
    cJSON *item = cJSON_CreateObject();
    cJSON_AddNumberToObject(item, "blocks", size);
    printf("%9u", size);
    for (int i = 0; i < MEASURES; i++) {
        const double ns = costs[i].ns / (double)costs[i].count;
        const double steps = (double)costs[i].steps / (double)costs[i].count;
        char text[32];
        cJSON *one = cJSON_AddObjectToObject(item, measure_names[i]);
        cJSON_AddNumberToObject(one, "ns", ns);
        cJSON_AddNumberToObject(one, "steps", steps);
        snprintf(text, sizeof text, "%.0f/%.1f", ns, steps);
        printf(" %12s", text);
    }
    putchar('\n');
    fflush(stdout);
    cJSON_AddItemToArray(list, item);
}

kvg_status kvg_pool_bench(const kvg_pool_config *config, cJSON *list, bool *logarithmic)
{
    double first[MEASURES] = {0};
    puts("nanoseconds / elementary steps of the data pool, per operation on one block or one sequence of 8 blocks\n");
    printf("%9s", "blocks");
    for (int i = 0; i < MEASURES; i++) printf(" %12s", measure_names[i]);
    putchar('\n');
    *logarithmic = true;
    for (size_t i = 0; i < config->bench_count; i++) {
        const uint32_t size = config->bench_blocks[i];
        cost costs[MEASURES] = {{0}};
        kvg_status s = kvg_interrupt_check();
        if (!s) s = time_size(size, config->bench_seconds, false, costs);
        if (!s) s = time_size(size, config->bench_seconds, true, costs);
        if (s) return s;
        print_size(size, costs, list);
        for (int m = 0; m < MEASURES; m++) {
            const double per_log = (double)costs[m].steps / (double)costs[m].count / log2(size);
            if (i == 0) first[m] = per_log;
            else if (!(per_log <= 2 * first[m])) *logarithmic = false;
        }
    }
    printf("\nsteps per operation grow %s log2(blocks)\n", *logarithmic ? "at most as" : "FASTER than");
    return KVG_OK;
}
