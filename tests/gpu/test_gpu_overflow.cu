/* Sizes that do not fit 32 bits: pools above 2^32 bytes with rows at both ends and at both sides of every power of two
 * that an index could wrap at, outputs of flatten and inputs of append above 2^31 elements. Each answer is that of a
 * small problem with the same rows, byte for byte, and no other byte of the large pool changes.
 *
 * Planted in every run: the blocks that a product of 32 bits would find instead must give other answers. */
#include <algorithm>
#include <memory>

#include "tests/gpu/device_world.cuh"

namespace {

constexpr uint64_t SLACK = 2ull << 30; /* for all that is not a large pool */
enum { BLOCK = 64, HEADS = 8, TOKENS = 10 * BLOCK, QUERIES = 2, GROUP = 8, MLA_ROPE = 64 };

struct row {
    kvg_layout layout;
    kvg_format format;
    uint32_t dim;
    uint64_t pool; /* bytes of the data pool, or a little more */
};

const row rows[] = {
    {KVG_LAYOUT_HND, KVG_FORMAT_NVFP4, 128, 9ull << 29},
    {KVG_LAYOUT_HND, KVG_FORMAT_BF16, 128, 9ull << 29},
    {KVG_LAYOUT_TURBOMIND, KVG_FORMAT_INT4, 128, 9ull << 29},
    {KVG_LAYOUT_VLLM, KVG_FORMAT_NVFP4, 128, 9ull << 29},
    {KVG_LAYOUT_NHD, KVG_FORMAT_E4M3, 128, 9ull << 29},
    {KVG_LAYOUT_TRTLLM, KVG_FORMAT_MXFP4, 128, 9ull << 29},
    {KVG_LAYOUT_VLLM_HND, KVG_FORMAT_INT8, 128, 9ull << 29},
    {KVG_LAYOUT_SLOT, KVG_FORMAT_E5M2, 128, 9ull << 29},
    {KVG_LAYOUT_CONTIGUOUS, KVG_FORMAT_ROWINT4, 128, 9ull << 29},
    {KVG_LAYOUT_RING, KVG_FORMAT_MX16, 128, 9ull << 29},
    /* head_dims of plain f32 alone */
    {KVG_LAYOUT_HND, KVG_FORMAT_BF16, 96, 9ull << 29},
    {KVG_LAYOUT_TURBOMIND, KVG_FORMAT_INT8, 80, 9ull << 29},
    {KVG_LAYOUT_NHD, KVG_FORMAT_NVFP4, 192, 9ull << 29},
    {KVG_LAYOUT_MLA, KVG_FORMAT_BF16, 576, 9ull << 29},
    {KVG_LAYOUT_MLA, KVG_FORMAT_E4M3, 576, 9ull << 29},
    {KVG_LAYOUT_MLA, KVG_FORMAT_NVFP4, 576, 9ull << 29},
    /* scale pools above 2^31 and 2^32 bytes */
    {KVG_LAYOUT_HND, KVG_FORMAT_NVFP4, 128, 9ull << 31},
    {KVG_LAYOUT_HND, KVG_FORMAT_INT4, 16, 9ull << 30},
};

/* Ops that read a pool; decode without a profile is on tensor cores where they have a kernel. */
const struct {
    kvg_op op;
    kvg_profile profile;
    const char *name;
} readers[] = {
    {KVG_OP_PROBE, KVG_PROFILE_NONE, "probe"},   {KVG_OP_FLATTEN, KVG_PROFILE_NONE, "flatten"},
    {KVG_OP_EXPAND, KVG_PROFILE_NONE, "expand"}, {KVG_OP_DECODE, KVG_PROFILE_NONE, "decode"},
    {KVG_OP_DECODE, KVG_PROFILE_SIMT_FMA_V1, "decode in plain f32"},
};

kvg_problem problem_of(kvg_op op, const row &r, uint32_t blocks, uint32_t sequences, uint32_t tokens)
{
    kvg_problem p = {};
    p.op = op;
    p.layout = r.layout;
    p.dtype = KVG_DTYPE_BF16;
    p.storage[KVG_K] = p.storage[KVG_V] = {r.format, "canonical"};
    p.tokens = tokens;
    p.kv_heads = r.layout == KVG_LAYOUT_MLA ? 1 : HEADS;
    p.head_dim = r.dim;
    p.paging.layers = 1; /* then block b lies at b times the bytes of a block, whatever the layout */
    p.paging.blocks = blocks;
    p.paging.block_tokens = BLOCK;
    p.paging.sequences = kvg_op_reads_sequences(op) ? sequences : 0;
    if (r.layout == KVG_LAYOUT_MLA) {
        p.paging.shared_kv = true;
        p.paging.v_first = MLA_ROPE;
        p.paging.v_dim = r.dim - MLA_ROPE;
    }
    if (op == KVG_OP_DECODE) {
        p.attention.query_heads = GROUP * p.kv_heads;
        p.attention.queries = QUERIES * sequences;
    }
    return p;
}

/* Bytes of a block in a pool; 0: there is no such pool. K's may hold both sides. */
uint64_t block_bytes(const row &r, kvg_role pool, kvg_side side = KVG_K)
{
    const kvg_problem one = problem_of(KVG_OP_APPEND, r, 1, 0, 1);
    return kvg_problem_tensor(&one, pool, side).bytes;
}

/* Blocks at the ends of a pool, and around the byte and the element 2^31 and 2^32 of the data pool and of the scale
 * pool. */
std::vector<int32_t> far_blocks(const row &r, uint32_t blocks)
{
    std::vector<int32_t> list = {0, 1, (int32_t)blocks - 1, (int32_t)blocks - 2};
    const uint64_t elements = 8 / kvg_format_get(r.format)->element_bits; /* in a byte; 0: two bytes each */
    for (const kvg_role pool : {KVG_ROLE_DATA_POOL, KVG_ROLE_SCALE_POOL}) {
        const uint64_t bytes = block_bytes(r, pool);
        const uint64_t edges[] = {1ull << 31, 1ull << 32, (1ull << 31) / std::max<uint64_t>(elements, 1), 1ull << 30};
        for (const uint64_t edge : edges) {
            if (bytes == 0 || edge / bytes >= blocks) continue;
            for (const uint64_t b : {edge / bytes - 1, edge / bytes}) list.push_back((int32_t)b);
        }
    }
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    std::reverse(list.begin() + 1, list.end()); /* in no order */
    return list;
}

std::vector<int64_t> slots_of(const std::vector<int32_t> &blocks)
{
    std::vector<int64_t> slots;
    for (const int32_t b : blocks) {
        for (int t = 0; t < BLOCK; t++) slots.push_back((int64_t)b * BLOCK + t);
    }
    return slots;
}

struct totals {
    unsigned long long compared = 0, different = 0, planted = 0, unseen = 0, left_out = 0;
    void add(const char *what, const row &r, device_tally &tally)
    {
        const unsigned long long n = tally.read();
        printf("%-31s %-10s %-7s D %3u %15llu bytes compared %8llu different\n", what, kvg_layout_get(r.layout)->name,
               kvg_format_get(r.format)->name, r.dim, tally.compared, n);
        compared += tally.compared;
        different += n;
    }
};

/* A cache with the same rows in each of `blocks`' entries. */
std::unique_ptr<device_world> fill_cache(const row &r, uint32_t pool_blocks, const std::vector<int32_t> &blocks)
{
    const uint32_t tokens = (uint32_t)blocks.size() * BLOCK;
    auto w = std::make_unique<device_world>(problem_of(KVG_OP_APPEND, r, pool_blocks, 0, tokens));
    w->put(KVG_ROLE_SLOTS, KVG_K, slots_of(blocks));
    w->put_scales();
    w->fill_values(KVG_ROLE_VALUES, KVG_K, 1);
    w->fill_values(KVG_ROLE_VALUES, KVG_V, 2);
    w->alloc_outputs();
    w->poison();
    w->launch();
    device_check(cudaDeviceSynchronize());
    return w;
}

/* Reads `blocks` as one sequence, `times` over; a contiguous cache and a ring have a sequence in each block. */
std::unique_ptr<device_world> read_cache(kvg_op op, kvg_profile profile, const row &r, const device_world &cache,
                                         const std::vector<int32_t> &blocks, uint32_t times)
{
    const bool one_block = kvg_layout_get(r.layout)->blocks != KVG_BLOCKS_TABLE;
    const uint32_t all = (uint32_t)blocks.size(), width = one_block && op != KVG_OP_PROBE ? 1 : all;
    const uint32_t sequences = times * all / width, tokens = width * BLOCK;
    kvg_problem p = problem_of(op, r, cache.p.paging.blocks, sequences, tokens);
    p.profile = profile;
    auto w = std::make_unique<device_world>(p);
    w->take_pools(cache);
    if (op == KVG_OP_PROBE) {
        w->put(KVG_ROLE_SLOTS, KVG_K, slots_of(blocks));
    } else {
        std::vector<int32_t> table;
        for (uint32_t i = 0; i < times; i++) table.insert(table.end(), blocks.begin(), blocks.end());
        w->put_scales();
        w->put(KVG_ROLE_BLOCK_TABLE, KVG_K, table);
        w->put(KVG_ROLE_LENGTHS, KVG_K, std::vector<int32_t>(sequences, (int32_t)tokens - 5));
    }
    if (op == KVG_OP_DECODE) {
        w->fill_values(KVG_ROLE_Q, KVG_K, 3);
        w->put(KVG_ROLE_QUERY_LENGTHS, KVG_K, std::vector<int32_t>(sequences, QUERIES));
    }
    w->alloc_outputs();
    w->poison();
    w->launch();
    device_check(cudaDeviceSynchronize());
    return w;
}

/* Every op on a large pool against the same on a small one. */
void check_large_pool(const row &r, uint64_t memory, totals *sum)
{
    const uint64_t data_bytes = block_bytes(r, KVG_ROLE_DATA_POOL);
    const uint32_t large_blocks = (uint32_t)(r.pool / data_bytes + 1);
    const bool apart = block_bytes(r, KVG_ROLE_DATA_POOL, KVG_V) > 0;
    const uint64_t needed = (data_bytes + block_bytes(r, KVG_ROLE_SCALE_POOL)) * large_blocks * (apart ? 2 : 1);
    if (needed + SLACK > memory) {
        printf("left out: %s %s D %u needs a GPU with %llu GiB\n", kvg_layout_get(r.layout)->name,
               kvg_format_get(r.format)->name, r.dim, (unsigned long long)((needed + SLACK) >> 30) + 1);
        sum->left_out++;
        return;
    }
    const std::vector<int32_t> far = far_blocks(r, large_blocks);
    std::vector<int32_t> near, wrapped;
    for (size_t i = 0; i < far.size(); i++) {
        near.push_back((int32_t)i);
        wrapped.push_back((int32_t)((uint32_t)(far[i] * data_bytes) / data_bytes));
    }
    const auto large = fill_cache(r, large_blocks, far), small = fill_cache(r, (uint32_t)near.size(), near);
    device_tally pages, touched_large, touched_small;
    for (size_t i = 0; i < large->outputs; i++) {
        const size_t page = small->out[i].bytes / near.size();
        for (size_t b = 0; b < far.size(); b++) {
            const uint8_t *of_large = (const uint8_t *)large->out[i].data + (size_t)far[b] * page;
            pages.compare(of_large, (const uint8_t *)small->out[i].data + b * page, page);
        }
        touched_large.compare(large->out[i].data, nullptr, large->out[i].bytes);
        touched_small.compare(small->out[i].data, nullptr, small->out[i].bytes);
    }
    sum->add("append: pages", r, pages);
    if (touched_large.read() != touched_small.read()) {
        device_check(kvg_fail(KVG_ERR_INVALID, "append wrote %llu bytes of the large pool and %llu of the small one",
                              touched_large.read(), touched_small.read()));
    }
    sum->compared += touched_large.compared;
    for (const auto &reader : readers) {
        const auto right = read_cache(reader.op, reader.profile, r, *small, near, 2);
        const auto read = read_cache(reader.op, reader.profile, r, *large, far, 2);
        const auto wrong = read_cache(reader.op, reader.profile, r, *large, wrapped, 2);
        device_tally tally, planted;
        for (size_t i = 0; i < right->outputs; i++) {
            tally.compare(read->out[i].data, right->out[i].data, right->out[i].bytes);
            planted.compare(wrong->out[i].data, right->out[i].data, right->out[i].bytes);
        }
        sum->add(reader.name, r, tally);
        sum->planted++;
        sum->unseen += planted.read() == 0;
    }
}

/* Outputs of more than 2^31 elements: the same sequence over and over. */
void check_large_output(totals *sum)
{
    const row r = {KVG_LAYOUT_HND, KVG_FORMAT_NVFP4, 128, 0};
    enum { SEQUENCES = 3600 }; /* times 640 tokens, 8 heads, 128 dims */
    std::vector<int32_t> blocks;
    for (int i = 0; i < TOKENS / BLOCK; i++) blocks.push_back(i);
    const auto cache = fill_cache(r, (uint32_t)blocks.size(), blocks);
    for (const kvg_op op : {KVG_OP_FLATTEN, KVG_OP_EXPAND}) {
        const auto all = read_cache(op, KVG_PROFILE_NONE, r, *cache, blocks, SEQUENCES);
        const auto one = read_cache(op, KVG_PROFILE_NONE, r, *cache, blocks, 1);
        device_tally tally;
        for (size_t i = 0; i < all->outputs; i++) {
            const size_t bytes = one->out[i].bytes;
            for (size_t s = 0; s < SEQUENCES; s++) {
                tally.compare((uint8_t *)all->out[i].data + s * bytes, one->out[i].data, bytes);
            }
        }
        sum->add(op == KVG_OP_FLATTEN ? "flatten: 2^31 elements and more" : "expand: 2^31 elements and more", r, tally);
    }
}

/* Inputs of more than 2^31 elements: every 64 tokens the same rows, so every page must be the first. */
void check_large_input(totals *sum)
{
    const row r = {KVG_LAYOUT_HND, KVG_FORMAT_NVFP4, 128, 0};
    const uint32_t blocks = (1u << 31) / (BLOCK * HEADS * 128) + 3;
    std::vector<int32_t> list(blocks);
    for (uint32_t i = 0; i < blocks; i++) list[i] = (int32_t)(blocks - 1 - i);
    device_world w(problem_of(KVG_OP_APPEND, r, blocks, 0, blocks * BLOCK));
    w.put(KVG_ROLE_SLOTS, KVG_K, slots_of(list));
    w.put_scales();
    for (const kvg_side side : {KVG_K, KVG_V}) {
        w.fill_values(KVG_ROLE_VALUES, side, 1 + side);
        kvg_tensor &t = w.input(KVG_ROLE_VALUES, side);
        const size_t period = t.bytes / blocks;
        for (size_t done = period; done < t.bytes; done *= 2) { /* doubles what is periodic already */
            device_check(cudaMemcpy((uint8_t *)t.data + done, t.data, std::min(done, t.bytes - done),
                                    cudaMemcpyDeviceToDevice));
        }
    }
    w.alloc_outputs();
    w.poison();
    w.launch();
    device_tally tally;
    for (size_t i = 0; i < w.outputs; i++) { /* every page that of the one before: all are the first */
        const size_t page = w.out[i].bytes / blocks;
        tally.compare((uint8_t *)w.out[i].data + page, w.out[i].data, w.out[i].bytes - page);
    }
    sum->add("append: 2^31 elements and more", r, tally);
    device_tally written;
    for (size_t i = 0; i < w.outputs; i++) written.compare(w.out[i].data, nullptr, w.out[i].bytes);
    if (written.read() < written.compared / 2) {
        device_check(kvg_fail(KVG_ERR_INVALID, "append wrote only %llu of %llu bytes", written.read(),
                              written.compared));
    }
}

} // namespace

int main()
{
    enum { GIB_NEEDED = 24 };
    totals sum;
    const kvg_gpu_device device = device_first();
    if (device.memory_bytes >> 30 < GIB_NEEDED) {
        printf("skipped: needs a GPU with %d GiB\n", GIB_NEEDED);
        return 77;
    }
    for (const row &r : rows) check_large_pool(r, device.memory_bytes, &sum);
    check_large_output(&sum);
    check_large_input(&sum);
    printf("%s: %llu bytes compared, %llu different; planted: %llu, %llu unseen; %llu left out\n", device.name,
           sum.compared, sum.different, sum.planted, sum.unseen, sum.left_out);
    return sum.different + sum.unseen == 0 ? 0 : 1;
}
