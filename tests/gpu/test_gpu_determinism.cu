/* Equal bits every time: append, flatten, expand, probe and decode 1,000 times over, on several streams at once,
 * replayed from a CUDA graph, and decode in batches of other shapes, which cut its work into other pieces, and of the
 * same rows in another layout, which other loops read.
 *
 * usage: test_gpu_determinism [REPEATS] */
#include <memory>

#include "tests/gpu/device_world.cuh"

namespace {

enum { SEQUENCES = 3, BLOCK = 32, TOKENS = 1500, LONG = 20400, HEADS = 2, STREAMS = 8, REPLAYS = 100 };

struct row {
    kvg_format k, v;
    uint32_t dim, group;
    kvg_profile profile;
    kvg_layout layout = KVG_LAYOUT_HND;
    uint32_t small = 0; /* one row of K and one of V in so many is 2^-12 as large; 0: none */
    uint32_t queries = 2; /* of op decode's first sequence; the others have one each */
};

/* Every family of kernels of op decode, tensor cores where they have one unless asked otherwise; the other ops take the
 * same caches. */
const row rows[] = {
    {KVG_FORMAT_NVFP4, KVG_FORMAT_NVFP4, 128, 8, KVG_PROFILE_NONE},
    {KVG_FORMAT_MX16, KVG_FORMAT_MX16, 128, 8, KVG_PROFILE_NONE},
    {KVG_FORMAT_MX16, KVG_FORMAT_MX16, 256, 2, KVG_PROFILE_NONE},
    {KVG_FORMAT_E4M3, KVG_FORMAT_NVFP4, 128, 20, KVG_PROFILE_NONE},
    {KVG_FORMAT_E4M3, KVG_FORMAT_E4M3, 64, 8, KVG_PROFILE_NONE},
    {KVG_FORMAT_BF16, KVG_FORMAT_BF16, 128, 4, KVG_PROFILE_NONE},
    {KVG_FORMAT_INT8, KVG_FORMAT_INT8, 128, 1, KVG_PROFILE_NONE},
    {KVG_FORMAT_INT4, KVG_FORMAT_INT4, 128, 8, KVG_PROFILE_NONE},
    {KVG_FORMAT_NVFP4, KVG_FORMAT_NVFP4, 128, 8, KVG_PROFILE_SIMT_FMA_V1},
    {KVG_FORMAT_BF16, KVG_FORMAT_BF16, 96, 3, KVG_PROFILE_SIMT_FMA_V1},
    /* Bands of many rows, of one group and of three; in larger batches the same rows go one by one. */
    {KVG_FORMAT_NVFP4, KVG_FORMAT_NVFP4, 128, 8, KVG_PROFILE_NONE, KVG_LAYOUT_HND, 0, 40},
    {KVG_FORMAT_E4M3, KVG_FORMAT_E4M3, 64, 4, KVG_PROFILE_NONE, KVG_LAYOUT_HND, 0, 14},
    {KVG_FORMAT_INT8, KVG_FORMAT_INT8, 256, 5, KVG_PROFILE_NONE, KVG_LAYOUT_HND, 0, 60},
};

uint32_t width_of(uint32_t tokens)
{
    return (tokens + BLOCK - 1) / BLOCK;
}

/* Block i of sequence s: neither in order nor together. */
int32_t block_of(uint32_t s, uint32_t i)
{
    const uint32_t blocks = SEQUENCES * width_of(TOKENS);
    return (int32_t)((blocks - 1 - s * width_of(TOKENS) - i) * 7 % blocks); /* 7 and blocks have no common divisor */
}

kvg_problem problem_of(kvg_op op, const row &r, uint32_t sequences, uint32_t tokens)
{
    kvg_problem p = {};
    p.op = op;
    p.layout = r.layout;
    p.dtype = KVG_DTYPE_BF16;
    p.storage[KVG_K] = {r.k, "canonical"};
    p.storage[KVG_V] = {r.v, "canonical"};
    p.tokens = tokens;
    p.kv_heads = HEADS;
    p.head_dim = r.dim;
    p.paging.layers = 1;
    p.paging.blocks = SEQUENCES * width_of(TOKENS);
    p.paging.block_tokens = BLOCK;
    p.paging.sequences = kvg_op_reads_sequences(op) ? sequences : 0;
    if (op == KVG_OP_DECODE) {
        p.attention.query_heads = r.group * HEADS;
        p.attention.queries = r.queries + sequences - 1;
        p.profile = r.profile;
    }
    return p;
}

/* --- worlds --- */

/* `sequences` of them, the first and the last of `longest` tokens, all on the pages of the first SEQUENCES, in turn
 * where there are too few. One place of the table in `holes` has no block, unless that is 0. */
void put_sequences(device_world &w, uint32_t longest, uint32_t holes)
{
    const uint32_t width = width_of(w.p.tokens);
    std::vector<int32_t> table, lengths;
    for (uint32_t s = 0; s < w.p.paging.sequences; s++) {
        const bool at_end = s == 0 || s + 1 == w.p.paging.sequences;
        lengths.push_back((int32_t)(at_end ? longest : s * 977 % longest));
        for (uint32_t i = 0; i < width; i++) {
            const bool has = i < width_of(longest) && !(holes && i % holes == holes / 4);
            table.push_back(has ? block_of(s % SEQUENCES, i % width_of(TOKENS)) : -1);
        }
    }
    w.put(KVG_ROLE_BLOCK_TABLE, KVG_K, table);
    w.put(KVG_ROLE_LENGTHS, KVG_K, lengths);
}

/* Rows `from`, from + every ... of bf16, which are far from 0, 2^-12 as large. */
__global__ void shrink_rows(uint16_t *values, size_t rows, uint32_t row, size_t from, size_t every)
{
    for (size_t i = from + blockIdx.x * every; i < rows; i += gridDim.x * every) {
        for (uint32_t j = threadIdx.x; j < row; j += blockDim.x) values[i * row + j] -= 12 << 7;
    }
}

void put_values(device_world &w, kvg_side side, uint32_t small)
{
    const uint32_t row = HEADS * w.p.head_dim;
    w.fill_values(KVG_ROLE_VALUES, side, side == KVG_K ? 1 : 2);
    if (!small) return;
    const kvg_tensor &t = w.input(KVG_ROLE_VALUES, side);
    shrink_rows<<<64, 64>>>((uint16_t *)t.data, t.bytes / 2 / row, row, small / (side == KVG_K ? 2 : 15), small);
    device_check(cudaGetLastError());
}

/* New rows for every place of the first SEQUENCES. */
std::vector<int64_t> all_slots()
{
    std::vector<int64_t> slots;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        for (uint32_t t = 0; t < TOKENS; t++) slots.push_back((int64_t)block_of(s, t / BLOCK) * BLOCK + t % BLOCK);
    }
    return slots;
}

std::unique_ptr<device_world> world_of(kvg_op op, const row &r, const device_world *cache, uint32_t sequences,
                                       uint32_t tokens, uint32_t longest = TOKENS, uint32_t holes = 0)
{
    const bool reads = kvg_op_reads_sequences(op);
    auto w = std::make_unique<device_world>(problem_of(op, r, sequences, reads ? tokens : SEQUENCES * TOKENS));
    if (cache) w->take_pools(*cache);
    if (op != KVG_OP_PROBE) w->put_scales();
    if (reads) put_sequences(*w, longest, holes);
    else w->put(KVG_ROLE_SLOTS, KVG_K, all_slots());
    if (op == KVG_OP_APPEND) {
        put_values(*w, KVG_K, r.small);
        put_values(*w, KVG_V, r.small);
    }
    if (op == KVG_OP_DECODE) {
        std::vector<int32_t> queries(sequences, 1);
        queries[0] = (int32_t)r.queries;
        w->fill_values(KVG_ROLE_Q, KVG_K, 3); /* rows of the first sequence are the same in every batch */
        w->put(KVG_ROLE_QUERY_LENGTHS, KVG_K, queries);
    }
    w->alloc_outputs();
    return w;
}

/* --- the ways to ask again --- */

struct outcome {
    unsigned long long runs = 0, bytes = 0, different = 0;
    void add(unsigned long long times, device_tally &tally)
    {
        runs += times;
        bytes += tally.compared;
        different += tally.read();
    }
};

void compare(device_tally &tally, const device_world &w, const device_world &first, cudaStream_t stream)
{
    for (size_t i = 0; i < w.outputs; i++) tally.compare(w.out[i].data, first.out[i].data, w.out[i].bytes, stream);
}

void once(device_world &w, const device_world &first, device_tally &tally, cudaStream_t stream)
{
    w.poison(stream);
    w.launch(stream);
    compare(tally, w, first, stream);
}

typedef std::vector<std::unique_ptr<device_world>> worlds;

/* One after the other, then each world on a stream of its own. */
void repeat(worlds &all, const device_world &first, uint32_t repeats, outcome *o)
{
    device_tally tally;
    std::vector<cudaStream_t> streams(all.size());
    for (auto &s : streams) device_check(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    for (uint32_t i = 0; i < repeats; i++) once(*all[0], first, tally, streams[0]);
    device_check(cudaDeviceSynchronize());
    for (uint32_t i = 0; i < repeats; i++) once(*all[i % all.size()], first, tally, streams[i % all.size()]);
    o->add(2 * repeats, tally);
    for (auto s : streams) device_check(cudaStreamDestroy(s));
}

/* Captured once, replayed: nothing may be allocated, read back or waited for in a launch. */
void replay(device_world &w, const device_world &first, outcome *o)
{
    device_tally tally;
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t replays;
    device_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    device_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    once(w, first, tally, stream);
    device_check(cudaStreamEndCapture(stream, &graph));
    device_check(cudaGraphInstantiate(&replays, graph, 0));
    w.poison();
    device_check(cudaDeviceSynchronize());
    for (int i = 0; i < REPLAYS; i++) device_check(cudaGraphLaunch(replays, stream));
    tally.compared *= REPLAYS;
    o->add(REPLAYS, tally);
    device_check(cudaGraphExecDestroy(replays));
    device_check(cudaGraphDestroy(graph));
    device_check(cudaStreamDestroy(stream));
}

/* The first sequence's rows in batches of other shapes. */
void other_grids(const row &r, const device_world &cache, const device_world &first, outcome *o)
{
    static const struct {
        uint32_t sequences, tokens;
    } shapes[] = {{1, TOKENS}, {2, TOKENS}, {5, TOKENS + 1}, {17, TOKENS}, {130, 2 * TOKENS}, {1, 40 * TOKENS}};
    device_tally tally;
    for (const auto &shape : shapes) {
        const auto w = world_of(KVG_OP_DECODE, r, &cache, shape.sequences, shape.tokens);
        w->poison();
        w->launch();
        for (size_t i = 0; i < w->outputs; i++) {
            tally.compare(w->out[i].data, first.out[i].data, w->out[i].bytes / w->p.attention.queries * r.queries);
        }
        device_check(cudaDeviceSynchronize());
    }
    o->add(sizeof shapes / sizeof *shapes, tally);
}

/* An answer that nobody wrote is the same every time, too. */
void check_written(const device_world &w)
{
    for (size_t i = 0; i < w.outputs; i++) {
        device_tally tally;
        tally.compare(w.out[i].data, nullptr, w.out[i].bytes);
        if (w.out[i].bytes && tally.read() < w.out[i].bytes / 4) {
            device_check(kvg_fail(KVG_ERR_INVALID, "op %s wrote next to nothing", w.op->name));
        }
    }
}

/* Whole batches, which are more CTAs than are resident at once, so that the last pieces are cut, against the same in a
 * table for longer sequences, whose last pieces hold no keys; and against the first sequence alone. Long sequences have
 * longer pieces, which are cut in quarters, too; with holes two leaves in five have one, and the others none. */
void other_cuts(const row &r, const device_world &cache, outcome *o)
{
    static const struct {
        uint32_t sequences, tokens, holes;
    } batches[] = {{300, TOKENS, 0}, {80, LONG, 0}, {80, LONG, 19}};
    device_tally tally;
    for (const auto &b : batches) {
        const auto cut = world_of(KVG_OP_DECODE, r, &cache, b.sequences, b.tokens, b.tokens, b.holes);
        const auto whole = world_of(KVG_OP_DECODE, r, &cache, b.sequences, 2 * b.tokens, b.tokens, b.holes);
        const auto alone = world_of(KVG_OP_DECODE, r, &cache, 1, b.tokens, b.tokens, b.holes);
        for (const auto *w : {&whole, &alone}) {
            (*w)->poison();
            (*w)->launch();
            check_written(**w);
        }
        once(*cut, *whole, tally, nullptr);
        compare(tally, *alone, *cut, nullptr);
        device_check(cudaDeviceSynchronize());
    }
    o->add(3 * sizeof batches / sizeof *batches, tally);
}

/* The same rows in another layout, short and long; some are so small that their scales are far from the others, which
 * loops may take on trust. */
void other_layouts(const row &r, outcome *o)
{
    static const struct {
        uint32_t sequences, tokens;
    } batches[] = {{SEQUENCES, TOKENS}, {80, LONG}};
    device_tally tally;
    row together = r;
    together.small = 701;
    row apart = together;
    apart.layout = KVG_LAYOUT_NHD;
    std::unique_ptr<device_world> caches[2];
    for (int i = 0; i < 2; i++) {
        caches[i] = world_of(KVG_OP_APPEND, i ? apart : together, nullptr, 0, 0);
        caches[i]->poison();
        caches[i]->launch();
    }
    for (const auto &b : batches) {
        const auto one = world_of(KVG_OP_DECODE, together, caches[0].get(), b.sequences, b.tokens, b.tokens);
        const auto other = world_of(KVG_OP_DECODE, apart, caches[1].get(), b.sequences, b.tokens, b.tokens);
        other->poison();
        other->launch();
        check_written(*other);
        once(*one, *other, tally, nullptr);
        device_check(cudaDeviceSynchronize());
    }
    o->add(sizeof batches / sizeof *batches, tally);
}

unsigned long long run(kvg_op op, const row &r, const device_world *cache, uint32_t repeats)
{
    outcome o;
    const auto first = world_of(op, r, cache, SEQUENCES, TOKENS);
    worlds all;
    first->poison();
    first->launch();
    check_written(*first);
    for (int i = 0; i < STREAMS; i++) all.push_back(world_of(op, r, cache, SEQUENCES, TOKENS));
    repeat(all, *first, repeats, &o);
    replay(*all[0], *first, &o);
    if (op == KVG_OP_DECODE) {
        other_grids(r, *cache, *first, &o);
        other_cuts(r, *cache, &o);
        other_layouts(r, &o);
    }
    const char *family = op == KVG_OP_DECODE && r.profile == KVG_PROFILE_SIMT_FMA_V1 ? "simt" : "";
    printf("%-8s %-6s %-6s D %3u q %2u %4s %6llu runs %16llu bytes compared %8llu different\n",
           kvg_op_get(op)->name, kvg_format_get(r.k)->name, kvg_format_get(r.v)->name, r.dim, r.queries, family,
           o.runs, o.bytes, o.different);
    return o.different;
}

} // namespace

int main(int argc, char **argv)
{
    const uint32_t repeats = argc > 1 ? (uint32_t)atoi(argv[1]) : 1000;
    unsigned long long different = 0;
    const kvg_gpu_device device = device_first();
    for (const row &r : rows) {
        const auto cache = world_of(KVG_OP_APPEND, r, nullptr, 0, 0);
        cache->poison();
        cache->launch();
        different += run(KVG_OP_APPEND, r, nullptr, repeats);
        different += run(KVG_OP_FLATTEN, r, cache.get(), repeats);
        different += run(KVG_OP_EXPAND, r, cache.get(), repeats);
        different += run(KVG_OP_PROBE, r, cache.get(), repeats);
        different += run(KVG_OP_DECODE, r, cache.get(), repeats);
    }
    printf("%s: %llu bytes different\n", device.name, different);
    return different == 0 ? 0 : 1;
}
