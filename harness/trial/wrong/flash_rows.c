#include "harness/trial/wrong/flash_rows.h"
#include "support/tensor_set.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float e4m3(float x)
{
    int exponent;
    if (!(fabsf(x) < INFINITY)) return NAN;
    frexpf(x, &exponent);
    const float step = ldexpf(1, (exponent < -5 ? -5 : exponent) - 4); /* 4 bits; 2^-9 below 2^-6 */
    const float rounded = nearbyintf(x / step) * step;
    return fabsf(rounded) > 448 ? copysignf(448, x) : rounded;
}

float kvg_flash_through(kvg_dtype dtype, float x)
{
    uint32_t code; /* of the widest dtype */
    kvg_reference_store(dtype, &x, 1, &code);
    kvg_reference_load(dtype, &code, 1, &x);
    return x;
}

float kvg_flash_operand(kvg_operand type, float x)
{
    switch (type) {
    case KVG_OPERAND_F16: return kvg_flash_through(KVG_DTYPE_F16, x);
    case KVG_OPERAND_BF16: return kvg_flash_through(KVG_DTYPE_BF16, x);
    case KVG_OPERAND_E4M3: return e4m3(x);
    case KVG_OPERAND_F32: break;
    }
    return x;
}

/* One loading: what is read, from where, and with which defect. */
typedef struct loading {
    const kvg_problem *p;
    const kvg_tensor *in;
    const kvg_flash *how;
    uint32_t sequence, kv_head;
    int64_t earlier;
    kvg_layout_map map;
    const int32_t *table; /* the sequence's row */
    kvg_blocks rule;
    kvg_flash_set *met;
} loading;

static const kvg_tensor *input(const loading *l, kvg_role role, kvg_side side)
{
    return &l->in[kvg_roles_index(kvg_op_get(KVG_OP_DECODE)->inputs, role, side)];
}

/* The defects of loading. */
enum {
    RING_NOT_WRAPPED, EMPTY_UNDERFLOW, STALE_V_PAGE, V_STEPS_BY_V_DIM, V_IS_END_OF_K, PREFIX_SCALES_LOST, K_SCALE_LOST,
    V_SCALE_LOST, TAIL_UNMASKED, TAIL_VALUES_LOADED, LOADING_DEFECTS
};
static const kvg_flash_defect loading_defects[LOADING_DEFECTS] = {
    [RING_NOT_WRAPPED] = KVG_FLASH_RING_NOT_WRAPPED, [EMPTY_UNDERFLOW] = KVG_FLASH_EMPTY_UNDERFLOW,
    [STALE_V_PAGE] = KVG_FLASH_STALE_V_PAGE,         [V_STEPS_BY_V_DIM] = KVG_FLASH_V_STEPS_BY_V_DIM,
    [V_IS_END_OF_K] = KVG_FLASH_V_IS_END_OF_K,       [PREFIX_SCALES_LOST] = KVG_FLASH_PREFIX_SCALES_LOST,
    [K_SCALE_LOST] = KVG_FLASH_K_SCALE_LOST,
    [V_SCALE_LOST] = KVG_FLASH_V_SCALE_LOST,         [TAIL_UNMASKED] = KVG_FLASH_TAIL_UNMASKED,
    [TAIL_VALUES_LOADED] = KVG_FLASH_TAIL_VALUES_LOADED,
};

static bool is(const loading *l, int defect)
{
    return kvg_flash_meets(l->how, loading_defects[defect], l->met);
}

bool kvg_flash_rows_are_right(const kvg_flash *how)
{
    for (int i = 0; i < LOADING_DEFECTS; i++) {
        if (kvg_flash_has(how, loading_defects[i])) return false;
    }
    return true;
}

/* The factor is a row's own, not a tensor's. */
static bool row_scaled(const kvg_problem *p, kvg_side side)
{
    const kvg_side stored = p->paging.shared_kv ? KVG_K : side;
    const kvg_format_info *f = kvg_format_get(p->storage[stored].format);
    return f->row_param_bytes && f->scales != KVG_SCALES_AFFINE;
}

/* The slot of a position of the last page or before it; -1: none. */
static int64_t slot_of(const loading *l, int64_t length, int64_t position)
{
    const kvg_paging *g = &l->p->paging;
    const int64_t B = g->block_tokens;
    if (l->rule == KVG_BLOCKS_RING && (position + B < length || position >= length)) return -1;
    int64_t block = l->table[l->rule == KVG_BLOCKS_TABLE ? position / B : 0];
    if (position >= B && is(l, RING_NOT_WRAPPED)) block += position / B;
    const int32_t *lengths = input(l, KVG_ROLE_LENGTHS, KVG_K)->data;
    if (lengths[l->sequence] == 0 && block < 0 && is(l, EMPTY_UNDERFLOW)) block = 0; /* made a legal one */
    return block < 0 || block >= g->blocks ? -1 : block * B + position % B;
}

/* The position whose row stands for that of `position`. */
static int64_t source_of(const loading *l, kvg_side side, int64_t position)
{
    const int64_t B = l->p->paging.block_tokens;
    return side == KVG_V && position / B % 2 && is(l, STALE_V_PAGE) ? position - B : position;
}

static void read_row(const loading *l, const kvg_row_map *map, int64_t slot, uint8_t *to)
{
    const kvg_paging *g = &l->p->paging;
    const uint32_t block = (uint32_t)(slot / g->block_tokens), offset = (uint32_t)(slot % g->block_tokens);
    kvg_rows_read(map, input(l, map->pool, map->side)->data, g->layer, block, l->kv_head, offset, to);
}

static bool affine(const kvg_storage *storage)
{
    return kvg_format_get(storage->format)->scales == KVG_SCALES_AFFINE;
}

/* Elements that share two parameters of an affine format. */
static uint32_t span_of(const kvg_problem *p, kvg_side side)
{
    const uint32_t block = kvg_format_get(p->storage[side].format)->block;
    return block ? block : p->head_dim;
}

/* Takes what is applied to the elements of a row after op dequantise has given them without it from the row's scale
 * bytes, which become those of 1, and of 0 for a second parameter: the factor of the row or its tensor and, of affine
 * formats, the two parameters of each span. */
static float take_outside(const loading *l, kvg_side side, uint8_t *scales, float *params)
{
    static const float neutral[2] = {1, 0};
    const kvg_tensor *tensor = input(l, KVG_ROLE_TENSOR_SCALE, side);
    const kvg_format_info *f = kvg_format_get(l->p->storage[side].format);
    float factor = 1;
    if (row_scaled(l->p, side)) {
        const kvg_dtype type = f->scales == KVG_SCALES_F16 ? KVG_DTYPE_F16 : KVG_DTYPE_F32;
        kvg_reference_load(type, scales, 1, &factor);
        kvg_reference_store(type, neutral, 1, scales);
    } else if (affine(&l->p->storage[side])) {
        for (uint32_t i = 0; i < l->p->head_dim / span_of(l->p, side); i++) {
            kvg_reference_load(l->p->dtype, scales + 4 * i, 2, params + 2 * i);
            kvg_reference_store(l->p->dtype, neutral, 2, scales + 4 * i);
        }
    } else if (tensor->bytes) {
        memcpy(&factor, tensor->data, sizeof factor);
    }
    return factor;
}

/* docs/spec/attention.md section 3, from the code q. */
static float affine_number(const kvg_problem *p, kvg_dialect_number number, float q, const float *params)
{
    const float step = params[0], second = params[1];
    switch (number) {
    case KVG_NUMBER_FROM_ZERO: return (q - second) * step;
    case KVG_NUMBER_FROM_ZERO_IN_T: return kvg_flash_through(p->dtype, q - second) * step;
    case KVG_NUMBER_TWICE: return kvg_flash_through(p->dtype, q * step) + second;
    case KVG_NUMBER_LESS_ZERO: return (float)((double)q * step - kvg_flash_through(p->dtype, step * second));
    case KVG_NUMBER_FUSED: break;
    }
    return (float)((double)q * step + second);
}

/* The op has two sides: one gets the first half of the rows, the other the rest; of 5 rows 0 to 2, and 2 to 4. */
kvg_status kvg_flash_dequantise(const kvg_problem *p, kvg_side side, float tensor_scale, uint32_t count,
                                const uint8_t *codes, const uint8_t *scales, float *to)
{
    const kvg_storage *storage = &p->storage[side];
    const uint32_t half = (count + 1) / 2, second = count - half;
    const kvg_problem rows = {.op = KVG_OP_DEQUANTISE, .layout = KVG_LAYOUT_ROWS,
                              .dtype = affine(storage) ? p->dtype : KVG_DTYPE_F32, .storage = {*storage, *storage},
                              .tokens = half, .kv_heads = 1, .head_dim = p->head_dim};
    const size_t code_bytes = kvg_format_code_bytes(storage->format, p->head_dim);
    const size_t scale_bytes = kvg_format_scale_bytes(storage->format, p->head_dim);
    const size_t row_bytes = p->head_dim * kvg_dtype_bytes(rows.dtype);
    const kvg_source sources[] = {
        {.role = KVG_ROLE_CODES, .data = {codes, codes + second * code_bytes}},
        {.role = KVG_ROLE_SCALES, .data = {scales, scales + second * scale_bytes}},
        {.role = KVG_ROLE_TENSOR_SCALE, .data = {&tensor_scale, &tensor_scale}}};
    kvg_tensor in[KVG_MAX_TENSORS], out[2];
    kvg_gather(&rows, kvg_op_get(rows.op)->inputs, sources, 3, in);
    uint8_t *values = malloc(count * row_bytes);
    if (!values) return kvg_fail(KVG_ERR_MEMORY, "no memory for %u rows", count);
    for (int i = 0; i < 2; i++) {
        out[i] = kvg_problem_tensor(&rows, KVG_ROLE_VALUES, (kvg_side)i);
        out[i].data = values + (i ? second * row_bytes : 0);
    }
    const kvg_status s = kvg_reference_run(&rows, in, out);
    if (!s) kvg_reference_load(rows.dtype, values, (size_t)count * rows.head_dim, to);
    free(values);
    return s;
}

/* Numbers y of a side's rows, [count][D], and their factors. */
static kvg_status load_side(const loading *l, kvg_side side, kvg_flash_rows *r, float *y)
{
    const kvg_row_map *maps[2] = {&l->map.codes[side], &l->map.scales[side]};
    const size_t count = (size_t)r->count, D = l->p->head_dim;
    const kvg_storage *storage = &l->p->storage[side];
    size_t dialect = 0;
    kvg_status s = kvg_reference_dialect_find(storage->format, storage->dialect, &dialect);
    if (s) return s;
    const kvg_dialect_number number = kvg_reference_dialect_number(storage->format, dialect);
    const size_t span = span_of(l->p, side), row_params = 2 * (D / span);
    uint8_t *codes = calloc(count, maps[0]->bytes), *scales = calloc(count, maps[1]->bytes ? maps[1]->bytes : 1);
    float *params = calloc(count, row_params * sizeof *params);
    if (!codes || !scales || !params) s = kvg_fail(KVG_ERR_MEMORY, "no memory for %zu rows", count);
    for (size_t k = 0; k < count && !s; k++) {
        const int64_t slot = slot_of(l, r->length, source_of(l, side, (int64_t)k));
        uint8_t *row_scales = scales + k * maps[1]->bytes;
        if (slot < 0) continue; /* zeros */
        read_row(l, maps[0], slot, codes + k * maps[0]->bytes);
        read_row(l, maps[1], slot, row_scales);
        r->factors[side][k] = take_outside(l, side, row_scales, params + k * row_params);
    }
    if (!s) s = kvg_flash_dequantise(l->p, side, 1, (uint32_t)count, codes, scales, y); /* the scales are neutral */
    for (size_t i = 0; i < count * D && !s && affine(storage); i++)
        y[i] = affine_number(l->p, number, y[i], params + i / D * row_params + i % D / span * 2);
    free(codes);
    free(scales);
    free(params);
    return s;
}

/* Element i of V's row where it lies in K's row. */
static float latent(const loading *l, const float *k_numbers, int64_t position, uint32_t i)
{
    const kvg_problem *p = l->p;
    const uint32_t D = p->head_dim, Dv = p->paging.v_dim, B = p->paging.block_tokens;
    const int64_t from = source_of(l, KVG_V, position);
    if (is(l, V_STEPS_BY_V_DIM)) {
        const uint64_t at = (uint64_t)(from % B) * Dv + p->paging.v_first + i;
        return k_numbers[((uint64_t)(from - from % B) + at / D) * D + at % D];
    }
    const uint32_t other_end = p->paging.v_first ? 0 : D - Dv;
    return k_numbers[(uint64_t)from * D + (is(l, V_IS_END_OF_K) ? other_end : p->paging.v_first) + i];
}

/* Numbers to operands, and the factors to where the class applies them. */
static void round_rows(const loading *l, kvg_side side, kvg_flash_rows *r, const float *y)
{
    const kvg_arithmetic *class = &l->how->class;
    const uint32_t n = r->dim[side];
    const bool latent_v = side == KVG_V && l->p->paging.shared_kv;
    const bool prefix_lost = is(l, PREFIX_SCALES_LOST), folded = class->folded && !prefix_lost;
    const bool lost = is(l, side == KVG_K ? K_SCALE_LOST : V_SCALE_LOST);
    const float given = side == KVG_K ? class->k_unit : class->v_unit, unit = given > 0 ? given : 1;
    for (int64_t k = 0; k < r->count; k++) {
        float factor = r->factors[latent_v ? KVG_K : side][k];
        if (lost || (prefix_lost && k < l->earlier)) factor = 1;
        for (uint32_t i = 0; i < n; i++) {
            const float x = latent_v ? latent(l, y, k, i) : y[(size_t)k * n + i];
            const float number = (folded ? x : x * factor) / unit;
            r->operands[side][(size_t)k * n + i] = kvg_flash_operand(side == KVG_K ? class->k : class->v, number);
        }
        const float left = (folded ? factor : 1) * unit;
        const bool by_output = side == KVG_V && !(folded && row_scaled(l->p, side));
        r->factors[side][k] = by_output ? 1 : left;
        if (by_output && r->present[k]) r->outside = left;
    }
}

kvg_status kvg_flash_rows_load(const kvg_problem *p, const kvg_tensor *in, const kvg_flash *how, uint32_t sequence,
                               uint32_t kv_head, int64_t earlier, kvg_flash_rows *out)
{
    loading l = {.p = p, .in = in, .how = how, .sequence = sequence, .kv_head = kv_head, .earlier = earlier,
                 .met = &out->met};
    const int64_t B = p->paging.block_tokens;
    *out = (kvg_flash_rows){.outside = 1, .dim = {p->head_dim, p->paging.shared_kv ? p->paging.v_dim : p->head_dim}};
    out->length = ((const int32_t *)input(&l, KVG_ROLE_LENGTHS, KVG_K)->data)[sequence];
    if (out->length == 0 && is(&l, EMPTY_UNDERFLOW)) out->length = B;
    const bool has_tail = out->length % B != 0;
    const bool whole_pages = has_tail && (is(&l, TAIL_UNMASKED) || is(&l, TAIL_VALUES_LOADED));
    out->count = whole_pages ? (out->length + B - 1) / B * B : out->length;
    if (out->count == 0) return KVG_OK;
    kvg_rows_map(p, &l.map);
    const size_t width = kvg_layout_table_width(p->layout, &p->paging, p->tokens);
    l.table = (const int32_t *)input(&l, KVG_ROLE_BLOCK_TABLE, KVG_K)->data + sequence * width;
    l.rule = kvg_problem_blocks(p);
    const size_t count = (size_t)out->count;
    float *y = malloc(count * p->head_dim * sizeof *y);
    out->present = calloc(count, sizeof *out->present);
    bool got = y && out->present;
    for (int side = KVG_K; side <= KVG_V; side++) {
        out->operands[side] = malloc(count * out->dim[side] * sizeof(float));
        out->factors[side] = calloc(count, sizeof(float));
        got = got && out->operands[side] && out->factors[side];
    }
    kvg_status s = got ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "no memory for %zu rows", count);
    for (int64_t k = 0; k < out->length && !s; k++) out->present[k] = slot_of(&l, out->length, k) >= 0;
    if (!s) s = load_side(&l, KVG_K, out, y);
    if (!s && p->paging.shared_kv) round_rows(&l, KVG_V, out, y); /* before K's factors are taken in */
    if (!s) round_rows(&l, KVG_K, out, y);
    if (!s && !p->paging.shared_kv) {
        s = load_side(&l, KVG_V, out, y);
        if (!s) round_rows(&l, KVG_V, out, y);
    }
    free(y);
    return s;
}

kvg_status kvg_flash_kept_open(const kvg_problem *p, kvg_flash_kept *out)
{
    enum { ROOM = 1 << 26 }; /* 256 MiB of f32: K and V of 8 KV heads, 32 Ki tokens and head_dim 128 */
    *out = (kvg_flash_kept){.count = (size_t)p->paging.sequences * p->kv_heads, .room = ROOM};
    out->rows = calloc(out->count, sizeof *out->rows);
    out->met = calloc(out->count, sizeof *out->met);
    if (!out->rows || !out->met) return kvg_fail(KVG_ERR_MEMORY, "no memory for the rows of %zu KV heads", out->count);
    for (size_t i = 0; i < out->count; i++) out->rows[i].length = -1;
    return KVG_OK;
}

void kvg_flash_kept_close(kvg_flash_kept *kept)
{
    for (size_t i = 0; kept->rows && i < kept->count; i++) kvg_flash_rows_free(&kept->rows[i]);
    free(kept->rows);
    free(kept->met);
    *kept = (kvg_flash_kept){0};
}

void kvg_flash_rows_free(kvg_flash_rows *r)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        free(r->operands[side]);
        free(r->factors[side]);
    }
    free(r->present);
    *r = (kvg_flash_rows){0};
}
