/* Slots, positions, tables, lengths and numbers of queries that no engine should hand over: the ops of gpu/ops.h may
 * answer anything, but touch no byte outside of their tensors, and none of an input. Every tensor lies between two
 * zones of poison, which must stay, and which are seen to change where a byte is planted there.
 *
 * usage: test_gpu_hostile             between zones of poison
 *        test_gpu_hostile exact       every tensor an allocation of its own size, for compute-sanitizer (hostile.sh)
 *        test_gpu_hostile planted     the same tensors, and a kernel writes one byte before and one past each */
#include <algorithm>
#include <list>

#include "tests/gpu/device_world.cuh"

namespace {

enum { HEADS = 2, GROUP = 3, POSITIONS = 10, ZONE = 4096 };

struct row {
    kvg_layout layout;
    kvg_format k, v;
    uint32_t dim, block_tokens, blocks, sequences, tokens, queries;
    bool swizzle;
};

const row rows[] = {
    {KVG_LAYOUT_HND, KVG_FORMAT_NVFP4, KVG_FORMAT_NVFP4, 128, 16, 7, 3, 75, 7, true},
    {KVG_LAYOUT_HND, KVG_FORMAT_MX16, KVG_FORMAT_MX16, 64, 8, 9, 3, 44, 7, false},
    {KVG_LAYOUT_HND, KVG_FORMAT_BF16, KVG_FORMAT_BF16, 64, 8, 5, 1100, 8, 90, false}, /* more than a CTA's threads */
    {KVG_LAYOUT_NHD, KVG_FORMAT_E4M3, KVG_FORMAT_E4M3, 128, 16, 7, 3, 75, 7, false},
    {KVG_LAYOUT_VLLM, KVG_FORMAT_NVFP4, KVG_FORMAT_NVFP4, 64, 16, 5, 3, 300, 7, false},
    {KVG_LAYOUT_TRTLLM, KVG_FORMAT_NVFP4, KVG_FORMAT_NVFP4, 128, 8, 7, 3, 44, 7, true},
    {KVG_LAYOUT_TRTLLM, KVG_FORMAT_E4M3, KVG_FORMAT_NVFP4, 128, 16, 7, 3, 44, 7, true},
    {KVG_LAYOUT_TURBOMIND, KVG_FORMAT_INT4, KVG_FORMAT_INT4, 128, 16, 7, 3, 75, 7, false},
    {KVG_LAYOUT_TURBOMIND, KVG_FORMAT_E4M3, KVG_FORMAT_E4M3, 64, 8, 7, 3, 44, 7, false},
    {KVG_LAYOUT_SLOT, KVG_FORMAT_NVFP4, KVG_FORMAT_NVFP4, 64, 1, 50, 3, 40, 7, false},
    {KVG_LAYOUT_SLOT, KVG_FORMAT_BF16, KVG_FORMAT_BF16, 128, 1, 50, 3, 40, 7, false},
    {KVG_LAYOUT_RING, KVG_FORMAT_MX16, KVG_FORMAT_MX16, 128, 40, 3, 3, 75, 7, false},
    {KVG_LAYOUT_RING, KVG_FORMAT_E4M3, KVG_FORMAT_E4M3, 64, 24, 3, 3, 75, 7, false},
    {KVG_LAYOUT_RING, KVG_FORMAT_NVFP4, KVG_FORMAT_NVFP4, 64, 2800, 2, 3, 75, 4, false}, /* several pieces of keys */
    {KVG_LAYOUT_CONTIGUOUS, KVG_FORMAT_INT4, KVG_FORMAT_INT4, 64, 20, 3, 3, 75, 7, false},
    {KVG_LAYOUT_CONTIGUOUS, KVG_FORMAT_BF16, KVG_FORMAT_BF16, 128, 48, 3, 3, 75, 7, false},
};

kvg_problem problem_of(kvg_op op, const row &r, kvg_profile profile)
{
    kvg_problem p = {};
    p.op = op;
    p.layout = r.layout;
    p.dtype = KVG_DTYPE_BF16;
    p.storage[KVG_K] = {r.k, "canonical"};
    p.storage[KVG_V] = {r.v, "canonical"};
    p.tokens = r.tokens;
    p.kv_heads = HEADS;
    p.head_dim = r.dim;
    p.paging.layers = 1;
    p.paging.blocks = r.blocks;
    p.paging.block_tokens = r.block_tokens;
    p.paging.sequences = kvg_op_reads_sequences(op) ? r.sequences : 0;
    p.paging.v_scale_swizzle = r.swizzle;
    if (op == KVG_OP_APPEND) {
        p.bias = true;
        p.rope.dims = r.dim;
        p.rope.positions = POSITIONS;
        p.rope.pairing = KVG_PAIRING_HALVES;
    } else if (op == KVG_OP_DECODE) {
        p.attention.query_heads = GROUP * HEADS;
        p.attention.queries = r.queries;
        p.attention.sinks = true;
        p.profile = profile;
    }
    return p;
}

/* --- numbers --- */

uint64_t hash(uint64_t x)
{
    x = (x + 1) * 0x9E3779B97F4A7C15ull;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    return x ^ x >> 27;
}

/* What a role's numbers may wrongly be, the last ones that are right among them; none: the role addresses nothing. */
std::vector<int64_t> hostile_of(const kvg_problem &p, kvg_role role)
{
    const kvg_paging &g = p.paging;
    const int64_t slots = (int64_t)g.blocks * g.block_tokens, high = (int64_t)1 << 32;
    const int64_t held = (int64_t)kvg_layout_table_width(p.layout, &g, p.tokens) * g.block_tokens;
    switch (role) {
    case KVG_ROLE_SLOTS:
        return {INT64_MIN, -high, INT32_MIN, -1, slots - 1, slots, slots + 1, INT32_MAX, high, high + 1, high << 30,
                INT64_MAX};
    case KVG_ROLE_POSITIONS: return {INT32_MIN, -1, POSITIONS - 1, POSITIONS, POSITIONS + 1, INT32_MAX};
    case KVG_ROLE_BLOCK_TABLE: return {INT32_MIN, -1, g.blocks - 1, g.blocks, g.blocks + 1, INT32_MAX};
    case KVG_ROLE_LENGTHS:
        return {INT32_MIN, -1, 0, 1, p.tokens, (int64_t)p.tokens + 1, held, held + 1, INT32_MAX - 40, INT32_MAX};
    case KVG_ROLE_QUERY_LENGTHS:
        return {INT32_MIN, -1, 0, 1, p.attention.queries, (int64_t)p.attention.queries + 1, INT32_MAX};
    default: return {};
    }
}

/* What they may rightly be. */
int64_t right_of(const kvg_problem &p, kvg_role role, uint64_t i)
{
    switch (role) {
    case KVG_ROLE_SLOTS: return (int64_t)(i % ((uint64_t)p.paging.blocks * p.paging.block_tokens));
    case KVG_ROLE_POSITIONS: return (int64_t)(i % POSITIONS);
    case KVG_ROLE_BLOCK_TABLE: return (int64_t)(i % p.paging.blocks);
    case KVG_ROLE_LENGTHS: return p.tokens;
    default: return std::max<int64_t>(p.attention.queries / p.paging.sequences, 1);
    }
}

/* --- tensors --- */

struct zoned {
    kvg_tensor *tensor; /* null: the workspace */
    kvg_role role;      /* of an input */
    bool is_input;
    uint8_t *start;              /* on the device: zone, bytes, zone */
    size_t bytes, zone;
    std::vector<uint8_t> wanted; /* all of it, as it must stay; outputs: but for the bytes */

    uint8_t *data() const { return start + zone; }
    void upload() const { device_check(cudaMemcpy(start, wanted.data(), wanted.size(), cudaMemcpyHostToDevice)); }
};

struct hostile_world {
    kvg_problem p;
    const kvg_op_info *op;
    kvg_tensor in[KVG_MAX_TENSORS] = {}, out[KVG_MAX_TENSORS] = {};
    void *workspace = nullptr;
    std::vector<zoned> all;
    unsigned long long wrong = 0, written = 0; /* bytes: that may not change; of outputs */
    std::vector<uint8_t> found;

    hostile_world(const kvg_problem &problem, size_t zone) : p(problem), op(kvg_op_get(problem.op))
    {
        device_check(kvg_problem_check(&p));
        const size_t inputs = kvg_roles_tensors(op->inputs), outputs = kvg_roles_tensors(op->outputs);
        for (size_t i = 0; i < inputs + outputs; i++) {
            const bool is_input = i < inputs;
            kvg_role role;
            kvg_side side;
            kvg_roles_at(is_input ? op->inputs : op->outputs, is_input ? i : i - inputs, &role, &side);
            kvg_tensor *t = is_input ? in + i : out + (i - inputs);
            *t = kvg_problem_tensor(&p, role, side);
            if (t->bytes) t->data = add(t, role, is_input, t->bytes, zone);
        }
        size_t bytes;
        if (p.op != KVG_OP_DECODE) return;
        device_check(kvg_gpu_decode_workspace(&p, &bytes));
        workspace = add(nullptr, KVG_ROLE_NONE, false, bytes, zone);
    }
    hostile_world(const hostile_world &) = delete;
    ~hostile_world()
    {
        for (zoned &z : all) cudaFree(z.start);
    }
    void *add(kvg_tensor *t, kvg_role role, bool is_input, size_t bytes, size_t zone)
    {
        zoned z = {t, role, is_input, nullptr, bytes, zone, std::vector<uint8_t>(bytes + 2 * zone, DEVICE_POISON)};
        device_check(cudaMalloc((void **)&z.start, z.wanted.size()));
        for (size_t i = 0; is_input && i < bytes; i++) z.wanted[zone + i] = (uint8_t)(hash(i + role * bytes) >> 32);
        z.upload();
        all.push_back(z);
        return z.data();
    }
    /* Numbers of one role: all `number`, or mixed by `seed`, or right. */
    void put(zoned &z, const int64_t *number, const uint64_t *seed)
    {
        const std::vector<int64_t> hostile = hostile_of(p, z.role);
        const size_t width = z.role == KVG_ROLE_SLOTS ? 8 : 4;
        for (size_t i = 0; i < z.bytes / width; i++) {
            const uint64_t h = seed ? hash(*seed + hash(i + (uint64_t)z.role * 0x10001)) >> 20 : 0;
            int64_t n = right_of(p, z.role, i);
            if (number) n = *number;
            else if (seed && h % 2) n = hostile[h / 2 % hostile.size()];
            memcpy(&z.wanted[z.zone + i * width], &n, width); /* little-endian, as the device */
        }
        z.upload();
    }
    /* Bytes that changed and may not; counts those that outputs got. */
    unsigned long long look()
    {
        unsigned long long changed = 0;
        for (const zoned &z : all) {
            found.resize(z.wanted.size());
            device_check(cudaMemcpy(found.data(), z.start, found.size(), cudaMemcpyDeviceToHost));
            if (memcmp(found.data(), z.wanted.data(), found.size()) == 0) continue;
            for (size_t i = 0; i < found.size(); i++) {
                if (found[i] == z.wanted[i]) continue;
                if (!z.is_input && i >= z.zone && i < z.zone + z.bytes) written += z.tensor != nullptr;
                else changed++;
            }
        }
        return changed;
    }
    void run(const char *what, int64_t number)
    {
        for (zoned &z : all) {
            if (!z.is_input) z.upload();
        }
        kvg_status s;
        if (p.op == KVG_OP_APPEND) s = kvg_gpu_append(&p, in, out, nullptr);
        else if (p.op == KVG_OP_DECODE) s = kvg_gpu_decode(&p, in, out, workspace, nullptr);
        else if (p.op == KVG_OP_PROBE) s = kvg_gpu_probe(&p, in, out, nullptr);
        else s = kvg_gpu_flatten(&p, in, out, nullptr);
        const cudaError_t error = cudaDeviceSynchronize();
        const unsigned long long changed = s || error ? 0 : look();
        wrong += changed;
        if (!s && !error && !changed) return;
        printf("FAILED: %s, %s %s/%s D %u pages of %u, profile %d: %s %lld: %llu bytes changed that may not\n",
               op->name, kvg_layout_get(p.layout)->name, kvg_format_get(p.storage[KVG_K].format)->name,
               kvg_format_get(p.storage[KVG_V].format)->name, p.head_dim, p.paging.block_tokens, (int)p.profile, what,
               (long long)number, changed);
        fflush(stdout);
        device_check(s);
        device_check(error);
    }
    /* Each hostile number in all places of its tensor, the others right; then all mixed. Returns the runs. */
    unsigned run_all(unsigned mixed)
    {
        unsigned runs = 1;
        std::vector<zoned *> numbers;
        for (zoned &z : all) {
            if (z.is_input && !hostile_of(p, z.role).empty()) numbers.push_back(&z);
        }
        for (zoned *z : numbers) put(*z, nullptr, nullptr);
        run("right numbers", 0);
        for (zoned *z : numbers) {
            for (const int64_t number : hostile_of(p, z->role)) {
                put(*z, &number, nullptr);
                run(kvg_tensor_name(z->role, KVG_K), number);
                runs++;
            }
            put(*z, nullptr, nullptr);
        }
        for (uint64_t seed = 0; seed < mixed; seed++, runs++) {
            for (zoned *z : numbers) put(*z, nullptr, &seed);
            run("mixed", (int64_t)seed);
        }
        return runs;
    }
};

/* --- planted --- */

__global__ void write_byte(uint8_t *at)
{
    *at ^= 0xFF;
}

void plant(uint8_t *at)
{
    write_byte<<<1, 1>>>(at);
    device_check(cudaGetLastError());
    device_check(cudaDeviceSynchronize());
}

/* A byte before, a byte past each tensor, the first and last one of each input: each must be seen. */
unsigned check_planted()
{
    unsigned seen = 0;
    hostile_world w(problem_of(KVG_OP_DECODE, rows[0], KVG_PROFILE_SIMT_FMA_V1), ZONE);
    for (const zoned &z : w.all) {
        std::vector<uint8_t *> places = {z.data() - 1, z.data() + z.bytes};
        if (z.is_input) places.insert(places.end(), {z.data(), z.data() + z.bytes - 1});
        for (uint8_t *at : places) {
            plant(at);
            const unsigned long long changed = w.look();
            if (changed != 1) {
                device_check(kvg_fail(KVG_ERR_INVALID, "a byte was planted, %llu are seen to change", changed));
            }
            plant(at);
            seen++;
        }
    }
    return seen;
}

__global__ void write_at(uint8_t *const *places)
{
    *places[blockIdx.x] = 0xFF;
}

/* For memcheck, which ends a thread where it reports it: all the places outside of all tensors of all problems. */
void plant_outside()
{
    std::list<hostile_world> worlds;
    std::vector<uint8_t *> places;
    uint8_t **there;
    for (const kvg_op op : {KVG_OP_APPEND, KVG_OP_PROBE, KVG_OP_FLATTEN, KVG_OP_EXPAND, KVG_OP_DECODE}) {
        const kvg_profile profile = op == KVG_OP_DECODE ? KVG_PROFILE_SIMT_FMA_V1 : KVG_PROFILE_NONE;
        for (const row &r : rows) {
            for (const zoned &z : worlds.emplace_back(problem_of(op, r, profile), 0).all) {
                places.insert(places.end(), {z.data() - 1, z.data() + z.bytes});
            }
        }
    }
    device_check(cudaMalloc((void **)&there, places.size() * sizeof *there));
    device_check(cudaMemcpy(there, places.data(), places.size() * sizeof *there, cudaMemcpyHostToDevice));
    printf("planted: %zu bytes\n", places.size());
    fflush(stdout);
    write_at<<<(unsigned)places.size(), 1>>>(there);
    device_check(cudaDeviceSynchronize());
}

} // namespace

int main(int argc, char **argv)
{
    enum { MIXED = 40, MIXED_EXACT = 4 };
    const char *mode = argc > 1 ? argv[1] : "";
    const bool exact = strcmp(mode, "exact") == 0, planted = strcmp(mode, "planted") == 0;
    const kvg_gpu_device device = device_first();
    if (planted) {
        plant_outside();
        return 0;
    }
    if (!exact) printf("planted: %u bytes, each seen\n", check_planted());
    kvg_profile chip = KVG_PROFILE_NONE;
    device_check(kvg_profile_of_sm(device.sm, &chip));
    const struct {
        kvg_op op;
        kvg_profile profile;
        const char *name;
    } kinds[] = {
        {KVG_OP_APPEND, KVG_PROFILE_NONE, "append"},
        {KVG_OP_PROBE, KVG_PROFILE_NONE, "probe"},
        {KVG_OP_FLATTEN, KVG_PROFILE_NONE, "flatten"},
        {KVG_OP_EXPAND, KVG_PROFILE_NONE, "expand"},
        {KVG_OP_DECODE, KVG_PROFILE_SIMT_FMA_V1, "decode, simt.fma.v1"},
        {KVG_OP_DECODE, chip, "decode, tensor cores"},
    };
    unsigned long long wrong = 0;
    for (const auto &kind : kinds) {
        unsigned runs = 0, idle = 0;
        unsigned long long changed = 0, written = 0;
        for (const row &r : rows) {
            hostile_world w(problem_of(kind.op, r, kind.profile), exact ? 0 : ZONE);
            runs += w.run_all(exact ? MIXED_EXACT : MIXED);
            changed += w.wrong;
            written += w.written;
            idle += w.written == 0;
        }
        printf("%-22s %5u runs %12llu bytes of outputs written %6llu others changed\n", kind.name, runs, written,
               changed);
        fflush(stdout);
        if (idle) device_check(kvg_fail(KVG_ERR_INVALID, "%s wrote nothing at all for %u problems", kind.name, idle));
        wrong += changed;
    }
    return wrong == 0 ? 0 : 1;
}
