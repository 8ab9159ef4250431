/* One row is as many rows: op decode of many query tokens in one call, by the kernels that take many
 * rows at once and by the others, against the same rows one by one; outputs and LSE as bits.
 * Every format, head_dim and number of query tokens; lengths around every tile and leaf; chunks of a
 * prefill; windows, holes, sinks, soft-cap.
 *
 * usage: test_gpu_prefill [FORMAT [HEAD_DIM]] */
#include <algorithm>
#include <memory>
#include <string>

#include "gpu/attention/many/many_plan.h"
#include "gpu/attention/shared/family.h"
#include "tests/gpu/device_world.cuh"

namespace {

enum { BLOCK = 16, MOST = 4096, HEADS = 2 };

struct kind {
    kvg_format k, v;
    kvg_dtype dtype = KVG_DTYPE_BF16;
};

const kind kinds[] = {
    {KVG_FORMAT_NVFP4, KVG_FORMAT_NVFP4},
    {KVG_FORMAT_E4M3, KVG_FORMAT_E4M3},
    {KVG_FORMAT_BF16, KVG_FORMAT_BF16},
    {KVG_FORMAT_F16, KVG_FORMAT_F16},
    {KVG_FORMAT_MX16, KVG_FORMAT_MX16},
    {KVG_FORMAT_MXFP4, KVG_FORMAT_MXFP4},
    {KVG_FORMAT_INT8, KVG_FORMAT_INT8},
    {KVG_FORMAT_INT4, KVG_FORMAT_INT4},
    {KVG_FORMAT_E5M2, KVG_FORMAT_E5M2},
    {KVG_FORMAT_ROWINT4, KVG_FORMAT_ROWINT4},
    {KVG_FORMAT_ROWFP4, KVG_FORMAT_ROWFP4},
    {KVG_FORMAT_E4M3, KVG_FORMAT_NVFP4},
    {KVG_FORMAT_INT8, KVG_FORMAT_INT8, KVG_DTYPE_F16},
    {KVG_FORMAT_INT4, KVG_FORMAT_INT4, KVG_DTYPE_F16},
};

/* What is asked besides. */
struct way {
    const char *name;
    uint32_t group, window;
    float softcap, score_scale; /* 0: none; 1 / sqrt(head_dim) */
    bool sinks;
    uint32_t holes; /* a page of so many has no block; 0: all have one */
    kvg_layout layout;
};

const way ways[] = {
    {"plain", 8, 0, 0, 0, false, 0, KVG_LAYOUT_HND},
    {"groups of 5, sinks, nhd", 5, 0, 0, 0, true, 0, KVG_LAYOUT_NHD},
    {"windows of 300", 4, 300, 0, 0, false, 0, KVG_LAYOUT_HND},
    {"soft-cap, holes, groups of 1", 1, 0, 30, 0, false, 7, KVG_LAYOUT_HND},
    {"windows of 700, groups of 19, turbomind", 19, 700, 0, 0, true, 0, KVG_LAYOUT_TURBOMIND},
    {"scores far apart", 8, 0, 0, 4, false, 0, KVG_LAYOUT_HND}, /* a leaf's maximum rises from tile to tile */
};

/* A sequence of `length` tokens, the last `queries` of them asked for. */
struct ask {
    uint32_t length, queries;
};

kvg_problem problem_of(kvg_op op, const kind &f, uint32_t dim, const way &w, uint32_t tokens)
{
    kvg_problem p = {};
    p.op = op;
    p.layout = w.layout;
    p.dtype = f.dtype;
    p.storage[KVG_K] = {f.k, "canonical"};
    p.storage[KVG_V] = {f.v, "canonical"};
    p.tokens = tokens;
    p.kv_heads = HEADS;
    p.head_dim = dim;
    p.paging.layers = 1;
    p.paging.blocks = MOST / BLOCK;
    p.paging.block_tokens = BLOCK;
    return p;
}

int32_t block_of(uint32_t page)
{
    return (int32_t)(page * 7 % (MOST / BLOCK));
}

std::unique_ptr<device_world> cache_of(const kind &f, uint32_t dim, const way &w)
{
    auto cache = std::make_unique<device_world>(problem_of(KVG_OP_APPEND, f, dim, w, MOST));
    std::vector<int64_t> slots;
    for (uint32_t t = 0; t < MOST; t++) slots.push_back((int64_t)block_of(t / BLOCK) * BLOCK + t % BLOCK);
    cache->put_scales();
    cache->put(KVG_ROLE_SLOTS, KVG_K, slots);
    cache->fill_values(KVG_ROLE_VALUES, KVG_K, 1);
    cache->fill_values(KVG_ROLE_VALUES, KVG_V, 2);
    cache->alloc_outputs();
    cache->poison();
    cache->launch();
    return cache;
}

/* All rows in one call, or a sequence for each query token. */
std::unique_ptr<device_world> world_of(const kind &f, uint32_t dim, const way &w, const device_world &cache,
                                       const std::vector<ask> &asks, bool apart)
{
    std::vector<int32_t> lengths, queries, table;
    uint32_t rows = 0;
    for (const ask &a : asks) {
        for (uint32_t i = 0; i < (apart ? a.queries : 1); i++) {
            lengths.push_back((int32_t)(apart ? a.length - a.queries + 1 + i : a.length));
            queries.push_back((int32_t)(apart ? 1 : a.queries));
        }
        rows += a.queries;
    }
    kvg_problem p = problem_of(KVG_OP_DECODE, f, dim, w, MOST);
    p.paging.sequences = (uint32_t)lengths.size();
    p.attention = {w.group * HEADS, rows, w.window, w.softcap, w.score_scale, w.sinks};
    auto world = std::make_unique<device_world>(p);
    for (size_t s = 0; s < lengths.size(); s++) {
        for (uint32_t page = 0; page < MOST / BLOCK; page++) {
            table.push_back(w.holes && page % w.holes == w.holes / 2 ? -1 : block_of(page));
        }
    }
    world->take_pools(cache);
    world->put_scales();
    world->put(KVG_ROLE_BLOCK_TABLE, KVG_K, table);
    world->put(KVG_ROLE_LENGTHS, KVG_K, lengths);
    world->put(KVG_ROLE_QUERY_LENGTHS, KVG_K, queries);
    if (w.sinks) {
        std::vector<float> sinks;
        for (uint32_t i = 0; i < p.attention.query_heads; i++) sinks.push_back(0.25f * (float)(i % 9) - 1);
        world->put(KVG_ROLE_SINKS, KVG_K, sinks);
    }
    world->fill_values(KVG_ROLE_Q, KVG_K, 3);
    world->alloc_outputs();
    world->poison();
    return world;
}

void launch(device_world &w, const kvg_decode_family &family)
{
    size_t bytes;
    device_check(family.workspace(&w.p, &bytes));
    void *workspace = w.alloc(bytes);
    device_check(cudaMemset(workspace, DEVICE_POISON, bytes));
    device_check(family.run(&w.p, w.in, w.out, workspace, nullptr));
}

unsigned long long compare(const kind &f, uint32_t dim, const way &w, const device_world &cache,
                           const std::vector<ask> &asks, unsigned long long *compared)
{
    device_tally tally;
    const auto together = world_of(f, dim, w, cache, asks, false), apart = world_of(f, dim, w, cache, asks, true);
    const bool padded = many_is_padded(&apart->p); /* the others have no such rows */
    launch(*apart, padded ? kvg_decode_mma_many : kvg_decode_mma_few);
    for (const kvg_decode_family *family : {&kvg_decode_mma_many, &kvg_decode_mma_few}) {
        if (padded && family == &kvg_decode_mma_few) continue;
        together->poison();
        launch(*together, *family);
        for (size_t i = 0; i < together->outputs; i++) {
            tally.compare(together->out[i].data, apart->out[i].data, together->out[i].bytes);
        }
    }
    *compared += tally.compared;
    return tally.read();
}

/* Batches of sequences whose lengths lie around every tile up to 600 tokens, and around every leaf
 * up to the longest. */
std::vector<std::vector<ask>> batches()
{
    static const uint32_t counts[] = {2, 3, 4, 8, 17, 33, 64, 130};
    std::vector<uint32_t> lengths;
    for (uint32_t n = 1; n <= MOST; n++) {
        const uint32_t in_tile = n % 32, in_leaf = n % 256;
        if (n <= 130 || (n <= 600 && (in_tile <= 1 || in_tile == 31)) || in_leaf <= 1 || in_leaf == 255)
            lengths.push_back(n);
    }
    std::vector<std::vector<ask>> all;
    for (size_t i = 0; i < lengths.size(); i += 8) {
        std::vector<ask> batch;
        for (size_t j = i; j < std::min(i + 8, lengths.size()); j++) {
            batch.push_back({lengths[j], std::min(counts[(j + i / 8) % 8], lengths[j])});
        }
        all.push_back(batch);
    }
    all.push_back({{4096, 700}, {3000, 1}, {100, 100}, {2049, 513}}); /* a prefill beside a decode */
    all.push_back({{1000, 1000}});
    std::vector<ask> many; /* more sequences than a warp looks through, two tokens of each on the average */
    for (uint32_t i = 0; i < 90; i++) many.push_back({i * 13 % 600 + 5, i % 3 + 1});
    all.push_back(many);
    return all;
}

/* A chip whose CTAs have 99 KiB of shared memory has no room for some kinds of rows (docs/dev/prefill-kernels.md). */
bool has_room(const kind &f, uint32_t dim, const kvg_gpu_device &device)
{
    const bool small = device.sm == 86 || device.sm == 89 || device.sm >= 120;
    return !small || dim <= 128 || (dim <= 256 && kvg_format_get(f.k)->element_bits == 16);
}

unsigned long long run(const kind &f, uint32_t dim)
{
    unsigned long long different = 0, compared = 0;
    for (const way &w : ways) {
        const auto cache = cache_of(f, dim, w);
        for (const auto &batch : batches()) {
            const unsigned long long n = compare(f, dim, w, *cache, batch, &compared);
            if (n && !different) {
                printf("%s: %llu bytes different, sequences (length, queries):", w.name, n);
                for (const ask &a : batch) printf(" (%u, %u)", a.length, a.queries);
                printf("\n");
            }
            different += n;
        }
    }
    printf("%-8s %-6s %-5s D %3u %12llu bytes compared %10llu different\n", kvg_format_get(f.k)->name,
           kvg_format_get(f.v)->name, kvg_dtype_name(f.dtype), dim, compared, different);
    fflush(stdout);
    return different;
}

} // namespace

int main(int argc, char **argv)
{
    unsigned long long different = 0;
    const kvg_gpu_device device = device_first();
    for (const kind &f : kinds) {
        if (argc > 1 && strcmp(argv[1], kvg_format_get(f.k)->name)) continue;
        for (const uint32_t dim : {64, 80, 128, 256, 272}) {
            if (kvg_format_check_dim(f.k, dim) || !has_room(f, dim, device)) continue;
            if (argc > 2 && (uint32_t)atoi(argv[2]) != dim) continue;
            different += run(f, dim);
        }
    }
    printf("%s: %llu bytes different\n", device.name, different);
    return different == 0 ? 0 : 1;
}
