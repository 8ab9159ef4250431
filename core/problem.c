#include "core/problem.h"

#include <float.h>
#include <stdio.h>
#include <string.h>

#include "core/layout_text.h"
#include "core/name.h"
#include "core/rng.h"

#define ROLES(...) {ROLE_LIST(__VA_ARGS__, NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE)}
#define ROLE_LIST(a, b, c, d, e, f, g, h, ...) \
    KVG_ROLE_##a, KVG_ROLE_##b, KVG_ROLE_##c, KVG_ROLE_##d, KVG_ROLE_##e, KVG_ROLE_##f, KVG_ROLE_##g, KVG_ROLE_##h
static const kvg_op_info ops[] = {
#define OP(ENUM, id, name, paged, inputs, outputs, summary) {KVG_OP_##ENUM, name, paged, inputs, outputs, summary},
#include "core/ops.def"
#undef OP
};
enum { OP_COUNT = sizeof ops / sizeof ops[0] };

static const struct {
    bool shared;
    const char *names[2];
} roles[KVG_ROLE_END] = {
    {true, {"?", "?"}},
#define ROLE(ENUM, k_name, v_name) {false, {#k_name, #v_name}},
#define SHARED(ENUM, name) {true, {#name, #name}},
#include "core/roles.def"
#undef ROLE
#undef SHARED
};

const kvg_op_info *kvg_op_table(size_t *count)
{
    *count = OP_COUNT;
    return ops;
}

const kvg_op_info *kvg_op_get(kvg_op op)
{
    for (size_t i = 0; i < OP_COUNT; i++) {
        if (ops[i].op == op) return &ops[i];
    }
    return NULL;
}

kvg_status kvg_op_find(const char *name, kvg_op *out)
{
    size_t i;
    kvg_status s = kvg_name_find("op", name, &ops[0].name, sizeof ops[0], OP_COUNT, &i);
    if (!s) *out = ops[i].op;
    return s;
}

kvg_call_shape kvg_problem_call_shape(const kvg_problem *p, const int32_t *query_lengths)
{
    const uint32_t sequences = p->paging.sequences, group = p->attention.query_heads / p->kv_heads;
    kvg_call_shape call = {.one_token = true, .window = p->attention.window};
    for (uint32_t s = 0; s < sequences; s++) call.one_token &= query_lengths[s] <= 1;
    if (sequences) call.mean_rows = (uint32_t)((uint64_t)p->attention.queries * group / sequences);
    return call;
}

kvg_tiling kvg_problem_tiling(const kvg_problem *p, const kvg_call_shape *call)
{
    const uint32_t bits = kvg_format_get(p->storage[KVG_K].format)->element_bits;
    return kvg_profile_tiling(p->profile, bits, p->head_dim, call);
}

bool kvg_op_reads_sequences(kvg_op op)
{
    return kvg_roles_index(kvg_op_get(op)->inputs, KVG_ROLE_LENGTHS, KVG_K) >= 0;
}

bool kvg_op_stores(kvg_op op)
{
    static const kvg_role stored[] = {KVG_ROLE_VALUES, KVG_ROLE_CODES, KVG_ROLE_DATA_POOL};
    bool found = false;
    for (size_t i = 0; i < sizeof stored / sizeof stored[0]; i++)
        found |= kvg_roles_index(kvg_op_get(op)->inputs, stored[i], KVG_K) >= 0;
    return found;
}

bool kvg_op_attends(kvg_op op)
{
    return kvg_roles_index(kvg_op_get(op)->outputs, KVG_ROLE_OUT, KVG_K) >= 0;
}

bool kvg_role_is_shared(kvg_role role)
{
    return roles[role].shared;
}

size_t kvg_roles_tensors(const kvg_role list[KVG_MAX_ROLES])
{
    size_t n = 0;
    for (int i = 0; i < KVG_MAX_ROLES && list[i] != KVG_ROLE_NONE; i++) n += roles[list[i]].shared ? 1 : 2;
    return n;
}

int kvg_roles_index(const kvg_role list[KVG_MAX_ROLES], kvg_role role, kvg_side side)
{
    int index = 0;
    for (int i = 0; i < KVG_MAX_ROLES && list[i] != KVG_ROLE_NONE; i++) {
        if (list[i] == role) return index + (roles[role].shared ? 0 : (int)side);
        index += roles[list[i]].shared ? 1 : 2;
    }
    return -1;
}

void kvg_roles_at(const kvg_role list[KVG_MAX_ROLES], size_t index, kvg_role *role, kvg_side *side)
{
    size_t i = 0;
    for (size_t sides; index >= (sides = roles[list[i]].shared ? 1 : 2); i++) index -= sides;
    *role = list[i];
    *side = (kvg_side)index;
}

const char *kvg_tensor_name(kvg_role role, kvg_side side)
{
    return roles[role].names[side];
}

/* What a map follows from, as one number that is not 0. */
static uint64_t key_of(const kvg_problem *p)
{
    const kvg_paging *g = &p->paging;
    const uint64_t from[] = {p->layout, (uintptr_t)p->text, p->storage[KVG_K].format, p->storage[KVG_V].format,
                             p->kv_heads, p->head_dim, g->layers, g->blocks, g->block_tokens, g->row_padding,
                             g->data_padding, g->scale_padding, g->v_scale_swizzle, g->shared_kv};
    return kvg_hash64(from, sizeof from) | 1;
}

/* Has a map that is still its own. */
static bool is_laid_out(const kvg_problem *p)
{
    return p->laid_out && p->laid_out == key_of(p);
}

kvg_status kvg_problem_lay_out(kvg_problem *p)
{
    if (!kvg_layout_get(p->layout)->paged || is_laid_out(p)) return KVG_OK;
    kvg_status s = kvg_problem_check_rows(p);
    if (!s) s = kvg_layout_text_read(p, &p->map, p->pool_bytes);
    p->laid_out = s ? 0 : key_of(p);
    return s;
}

void kvg_rows_map(const kvg_problem *p, kvg_layout_map *out)
{
    kvg_problem q = *p;
    *out = (kvg_layout_map){.codes = {{.bytes = 0}}};
    if (kvg_layout_get(p->layout)->paged && kvg_problem_lay_out(&q) == KVG_OK) *out = q.map;
}

kvg_blocks kvg_problem_blocks(const kvg_problem *p)
{
    return kvg_layout_get(p->layout)->blocks;
}

uint32_t kvg_problem_longest(const kvg_problem *p)
{
    const kvg_blocks rule = kvg_problem_blocks(p);
    if (rule == KVG_BLOCKS_RING) return INT32_MAX;
    return rule == KVG_BLOCKS_ONE && p->paging.block_tokens < p->tokens ? p->paging.block_tokens : p->tokens;
}

bool kvg_problem_joins_sides(const kvg_problem *p)
{
    kvg_layout_map map;
    kvg_rows_map(p, &map);
    return map.codes[KVG_V].bytes && map.codes[KVG_V].side == KVG_K;
}

int kvg_problem_sides(const kvg_problem *p)
{
    return p->paging.shared_kv ? 1 : 2;
}

/* --- checks --- */

static kvg_status check_swizzle(const kvg_problem *p, const kvg_layout_info *layout)
{
    const kvg_format_info *v = kvg_format_get(p->storage[KVG_V].format);
    if (!p->paging.v_scale_swizzle) return KVG_OK;
    if (p->text) {
        return kvg_fail(KVG_ERR_INVALID, "layout %s is a text: write V's groups into it, as [H N/4 G N%%4] V.scales",
                        p->text->name);
    }
    if (!layout->groups) return kvg_fail(KVG_ERR_INVALID, "layout %s keeps V scales linear", layout->name);
    if (v->block != 16 || v->block_scale_bytes != 1) {
        return kvg_fail(KVG_ERR_INVALID, "v_scale_swizzle needs one scale byte per 16 elements; %s has none", v->name);
    }
    if (p->paging.block_tokens % 4 || p->head_dim % 64) {
        return kvg_fail(KVG_ERR_INVALID,
                        "v_scale_swizzle needs block_tokens %% 4 = 0 and head_dim %% 64 = 0, not %u and %u",
                        p->paging.block_tokens, p->head_dim);
    }
    return KVG_OK;
}

static kvg_status check_shared(const kvg_problem *p, const kvg_layout_info *layout)
{
    const kvg_paging *g = &p->paging;
    const kvg_storage *k = &p->storage[KVG_K], *v = &p->storage[KVG_V];
    if (layout->shared == KVG_SHARED_ALWAYS && (!g->shared_kv || p->kv_heads != 1)) {
        return kvg_fail(KVG_ERR_INVALID, "layout %s holds one row per token: set shared_kv and kv_heads 1",
                        layout->name);
    }
    if (!g->shared_kv) {
        if (!g->v_first && !g->v_dim) return KVG_OK;
        return kvg_fail(KVG_ERR_INVALID, "v_first and v_dim are for shared_kv only");
    }
    if (!layout->shared) return kvg_fail(KVG_ERR_INVALID, "layout %s keeps K and V apart: no shared_kv", layout->name);
    if (k->format != v->format || strcmp(k->dialect, v->dialect) != 0) {
        return kvg_fail(KVG_ERR_INVALID, "shared_kv needs one format and dialect for K and V");
    }
    if (g->v_dim < 1 || (uint64_t)g->v_first + g->v_dim > p->head_dim) {
        return kvg_fail(KVG_ERR_INVALID, "v_first %u and v_dim %u do not lie in head_dim %u", g->v_first, g->v_dim,
                        p->head_dim);
    }
    return KVG_OK;
}

static kvg_status check_rope(const kvg_problem *p)
{
    if (p->op != KVG_OP_APPEND && (p->rope.dims || p->bias)) {
        return kvg_fail(KVG_ERR_INVALID, "rope and bias are for op append only");
    }
    return kvg_rope_check(&p->rope, p->head_dim);
}

static kvg_status check_unpaged(const kvg_paging *g)
{
    const uint32_t numbers = g->layers | g->layer | g->blocks | g->block_tokens | g->sequences | g->row_padding |
                             g->data_padding | g->scale_padding | g->v_first | g->v_dim;
    if (!numbers && !g->v_scale_swizzle && !g->shared_kv) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "blocks, layers, padding and so on are for paged layouts: layout rows has none");
}

static kvg_status check_paging(const kvg_problem *p)
{
    const kvg_layout_info *layout = kvg_layout_get(p->layout);
    const kvg_op_info *op = kvg_op_get(p->op);
    const kvg_paging *g = &p->paging;
    if (!layout) return kvg_fail(KVG_ERR_INVALID, "layout id %d is not in core/layouts.def", (int)p->layout);
    if (layout->paged != op->paged) {
        return kvg_fail(KVG_ERR_INVALID, "op %s works on %s, not on layout %s", op->name,
                        op->paged ? "a paged layout" : "layout rows", layout->name);
    }
    if ((p->text != NULL) != (p->layout == KVG_LAYOUT_TEXT)) {
        return kvg_fail(KVG_ERR_INVALID, "a text of a layout goes with layout TEXT, and only with it");
    }
    if (!layout->paged) return check_unpaged(g);
    if (g->blocks > INT32_MAX) {
        return kvg_fail(KVG_ERR_INVALID, "%u blocks: block tables are i32, so at most %d", g->blocks, INT32_MAX);
    }
    if (g->layers < 1 || g->blocks < 1 || g->block_tokens < 1) {
        return kvg_fail(KVG_ERR_INVALID, "%u layers, %u blocks of %u tokens: each must be at least 1", g->layers,
                        g->blocks, g->block_tokens);
    }
    if (g->layer >= g->layers) return kvg_fail(KVG_ERR_INVALID, "layer %u of %u: count from 0", g->layer, g->layers);
    if (kvg_op_reads_sequences(p->op) && g->sequences < 1) {
        return kvg_fail(KVG_ERR_INVALID, "op %s needs at least 1 sequence", op->name);
    }
    if (p->layout == KVG_LAYOUT_TRTLLM && (g->block_tokens & (g->block_tokens - 1))) {
        return kvg_fail(KVG_ERR_INVALID, "layout trtllm needs a power of two as block_tokens, not %u", g->block_tokens);
    }
    kvg_status s = check_swizzle(p, layout);
    if (!s) s = check_shared(p, layout);
    kvg_problem q = *p;
    return s ? s : kvg_problem_lay_out(&q);
}

static kvg_status check_attention(const kvg_problem *p)
{
    const kvg_attention *a = &p->attention;
    if (p->op != KVG_OP_DECODE) {
        if (!a->query_heads && !a->queries && !a->window && !a->softcap && !a->scale && !a->sinks) return KVG_OK;
        return kvg_fail(KVG_ERR_INVALID, "op %s has no queries: leave attention zero", kvg_op_get(p->op)->name);
    }
    if (a->queries < 1 || a->query_heads < 1 || a->query_heads % p->kv_heads) {
        return kvg_fail(KVG_ERR_INVALID, "%u queries, %u query heads over %u KV heads: at least 1 query, and query "
                        "heads a multiple of KV heads", a->queries, a->query_heads, p->kv_heads);
    }
    if (!(a->scale >= 0 && a->scale <= FLT_MAX) || !(a->softcap >= 0 && a->softcap <= FLT_MAX)) {
        return kvg_fail(KVG_ERR_INVALID, "scale %a and softcap %a must be finite and positive; 0: 1/sqrt(D), no cap",
                        (double)a->scale, (double)a->softcap);
    }
    return KVG_OK;
}

/* The op mma has no K and V: its problem is that of `tokens` tiles in the operand type, 16 products each. */
static kvg_status check_profile(const kvg_problem *p)
{
    const char *op = kvg_op_get(p->op)->name;
    if (p->profile != KVG_PROFILE_NONE && !kvg_profile_get(p->profile)) {
        return kvg_fail(KVG_ERR_INVALID, "profile id %d is not in core/profiles.def", (int)p->profile);
    }
    if (p->op == KVG_OP_DECODE) return KVG_OK;
    if (p->op != KVG_OP_MMA) {
        if (p->profile == KVG_PROFILE_NONE) return KVG_OK;
        return kvg_fail(KVG_ERR_INVALID, "op %s gives the same bits on every chip: no profile", op);
    }
    const kvg_format operand = kvg_format_of_dtype(p->dtype);
    if (p->profile == KVG_PROFILE_NONE || !kvg_profile_is_chip(kvg_profile_get(p->profile))) {
        return kvg_fail(KVG_ERR_INVALID, "op mma needs a profile of a tensor core");
    }
    if (p->dtype == KVG_DTYPE_F32 || p->storage[KVG_K].format != operand || p->storage[KVG_V].format != operand) {
        return kvg_fail(KVG_ERR_INVALID, "op mma has operands in f16 or bf16: set the format to the model type");
    }
    if (p->head_dim != KVG_MMA_K || p->kv_heads != 1) {
        return kvg_fail(KVG_ERR_INVALID, "op mma has tiles of %d products: set head_dim %d and kv_heads 1", KVG_MMA_K,
                        KVG_MMA_K);
    }
    return KVG_OK;
}

static kvg_status check_parts(const kvg_problem *p)
{
    for (int side = KVG_K; p->op == KVG_OP_MERGE && side <= KVG_V; side++) {
        if (kvg_format_get(p->storage[side].format)->element_bits == 16) continue;
        return kvg_fail(KVG_ERR_INVALID, "op merge stores nothing: set the formats to f16 or bf16");
    }
    return KVG_OK;
}

/* Every tensor must be countable in bytes. What measures a map has asked that of the pools. */
static kvg_status check_sizes(const kvg_problem *p)
{
    const kvg_op_info *op = kvg_op_get(p->op);
    const kvg_role *lists[] = {op->inputs, op->outputs};
    for (size_t i = 0; i < 2 * KVG_MAX_ROLES; i++) {
        const kvg_role role = lists[i / KVG_MAX_ROLES][i % KVG_MAX_ROLES];
        for (int side = KVG_K; role != KVG_ROLE_NONE && side <= KVG_V; side++) {
            if (role == KVG_ROLE_DATA_POOL || role == KVG_ROLE_SCALE_POOL) continue;
            if (kvg_problem_tensor(p, role, (kvg_side)side).bytes > INT64_MAX) {
                return kvg_fail(KVG_ERR_INVALID, "tensor %s would have more than 2^63 - 1 bytes",
                                kvg_tensor_name(role, (kvg_side)side));
            }
        }
    }
    return KVG_OK;
}

kvg_status kvg_problem_check_rows(const kvg_problem *p)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_status s = kvg_format_check_dim(p->storage[side].format, p->head_dim);
        if (s) return s;
        const kvg_format_info *f = kvg_format_get(p->storage[side].format);
        if (f->scales == KVG_SCALES_AFFINE && p->dtype == KVG_DTYPE_F32) {
            return kvg_fail(KVG_ERR_INVALID, "format %s keeps its parameters in a 16-bit model type: use f16 or bf16",
                            f->name);
        }
    }
    return KVG_OK;
}

kvg_status kvg_problem_check(const kvg_problem *p)
{
    if (!kvg_op_get(p->op)) return kvg_fail(KVG_ERR_INVALID, "op id %d is not in core/ops.def", (int)p->op);
    if (p->dtype != KVG_DTYPE_F16 && p->dtype != KVG_DTYPE_BF16 && p->dtype != KVG_DTYPE_F32) {
        return kvg_fail(KVG_ERR_INVALID, "model type %s cannot hold K and V: use f16, bf16 or f32",
                        kvg_dtype_name(p->dtype));
    }
    if (p->tokens < 1 || p->kv_heads < 1) {
        return kvg_fail(KVG_ERR_INVALID, "tokens %u and kv_heads %u must be at least 1", p->tokens, p->kv_heads);
    }
    kvg_status s = kvg_problem_check_rows(p);
    if (s) return s;
    if (p->op == KVG_OP_EXPAND && p->dtype == KVG_DTYPE_F32) {
        return kvg_fail(KVG_ERR_INVALID, "op expand goes to E4M3 through a 16-bit model type: use f16 or bf16");
    }
    s = check_attention(p);
    if (!s) s = check_profile(p);
    if (!s) s = check_parts(p);
    if (!s) s = check_paging(p);
    if (!s) s = check_rope(p);
    return s ? s : check_sizes(p);
}

/* --- tensors --- */

kvg_status kvg_problem_pool_bytes(const kvg_problem *p, kvg_role pool, kvg_side side, uint64_t *out)
{
    kvg_problem q = *p;
    kvg_status s = kvg_problem_lay_out(&q);
    *out = s || !kvg_layout_get(p->layout)->paged ? 0 : q.pool_bytes[side][pool == KVG_ROLE_SCALE_POOL];
    return s;
}

/* A size that does not fit is SIZE_MAX: kvg_problem_check refuses it. */
static kvg_tensor shaped(kvg_dtype dtype, uint32_t rank, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    kvg_tensor t = {.dtype = dtype, .rank = rank, .shape = {a, b, c, d}, .bytes = kvg_dtype_bytes(dtype)};
    bool empty = false, over = false;
    for (uint32_t i = 0; i < rank; i++) {
        empty |= t.shape[i] == 0;
        over |= __builtin_mul_overflow(t.bytes, (size_t)t.shape[i], &t.bytes);
    }
    if (empty || over) t.bytes = empty ? 0 : SIZE_MAX;
    return t;
}

static kvg_tensor pool_tensor(const kvg_problem *p, kvg_role role, kvg_side side)
{
    uint64_t bytes;
    return shaped(KVG_DTYPE_U8, 1, kvg_problem_pool_bytes(p, role, side, &bytes) ? 0 : bytes, 0, 0, 0);
}

kvg_tensor kvg_problem_tensor(const kvg_problem *p, kvg_role role, kvg_side side)
{
    const kvg_format format = p->storage[side].format;
    const kvg_paging *g = &p->paging;
    const kvg_attention *a = &p->attention;
    const uint64_t T = p->tokens, H = p->kv_heads, D = p->head_dim, R = p->rope.dims;
    const uint64_t own_row = side == KVG_K || !g->shared_kv; /* V in K's row has no rows of its own */
    const uint64_t Q = p->op == KVG_OP_MERGE ? T : a->queries, Hq = p->op == KVG_OP_MERGE ? H : a->query_heads;
    switch (role) {
    case KVG_ROLE_VALUES: return shaped(p->dtype, 3, T, H, own_row * D, 0);
    case KVG_ROLE_CODES: return shaped(KVG_DTYPE_U8, 3, T, H, own_row * kvg_format_code_bytes(format, D), 0);
    case KVG_ROLE_SCALES: return shaped(KVG_DTYPE_U8, 3, T, H, own_row * kvg_format_scale_bytes(format, D), 0);
    case KVG_ROLE_TENSOR_SCALE:
        return shaped(KVG_DTYPE_F32, 1, own_row && kvg_format_get(format)->tensor_scale, 0, 0, 0);
    case KVG_ROLE_BIAS: return shaped(p->dtype, 2, H, p->bias ? own_row * D : 0, 0, 0);
    case KVG_ROLE_DATA_POOL:
    case KVG_ROLE_SCALE_POOL: return pool_tensor(p, role, side);
    case KVG_ROLE_FLAT: return shaped(p->dtype, 4, g->sequences, H, T, own_row ? D : g->v_dim);
    case KVG_ROLE_FLAT_E4M3: return shaped(KVG_DTYPE_U8, 4, g->sequences, H, T, own_row ? D : g->v_dim);
    case KVG_ROLE_POSITIONS: return shaped(KVG_DTYPE_I32, 1, R ? T : 0, 0, 0, 0);
    case KVG_ROLE_COS_SIN: return shaped(KVG_DTYPE_F32, 3, R ? p->rope.positions : 0, R / 2, 2, 0);
    case KVG_ROLE_SLOTS: return shaped(KVG_DTYPE_I64, 1, T, 0, 0, 0);
    case KVG_ROLE_BLOCK_TABLE:
        return shaped(KVG_DTYPE_I32, 2, g->sequences, kvg_layout_table_width(p->layout, g, p->tokens), 0, 0);
    case KVG_ROLE_LENGTHS: return shaped(KVG_DTYPE_I32, 1, g->sequences, 0, 0, 0);
    case KVG_ROLE_Q: return shaped(p->dtype, 3, a->queries, a->query_heads, D, 0);
    case KVG_ROLE_QUERY_LENGTHS: return shaped(KVG_DTYPE_I32, 1, a->queries ? g->sequences : 0, 0, 0, 0);
    case KVG_ROLE_SINKS: return shaped(KVG_DTYPE_F32, 1, a->sinks ? a->query_heads : 0, 0, 0, 0);
    case KVG_ROLE_PART:
    case KVG_ROLE_OUT: return shaped(p->dtype, 3, Q, Hq, g->shared_kv ? g->v_dim : D, 0);
    case KVG_ROLE_PART_LSE:
    case KVG_ROLE_LSE: return shaped(KVG_DTYPE_F32, 2, Q, Hq, 0, 0);
    case KVG_ROLE_MMA_A: return shaped(p->dtype, 3, T, KVG_MMA_M, KVG_MMA_K, 0);
    case KVG_ROLE_MMA_B: return shaped(p->dtype, 3, T, KVG_MMA_K, KVG_MMA_N, 0);
    case KVG_ROLE_MMA_C:
    case KVG_ROLE_MMA_D: return shaped(KVG_DTYPE_F32, 3, T, KVG_MMA_M, KVG_MMA_N, 0);
    case KVG_ROLE_NONE:
    case KVG_ROLE_END: break;
    }
    return (kvg_tensor){.dtype = KVG_DTYPE_U8};
}
