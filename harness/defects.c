#include "harness/defects.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/bits.h"
#include "harness/defect_cache.h"
#include "harness/defect_maps.h"
#include "harness/defects_decode.h"
#include "harness/defects_lanes.h"
#include "harness/defects_mma.h"
#include "harness/defects_rope.h"

/* --- which problems a defect applies to --- */

static const kvg_format_info *format_of(const kvg_problem *p, kvg_side side)
{
    return kvg_format_get(p->storage[side].format);
}

static bool any(const kvg_problem *p, kvg_side side) { return format_of(p, side) != NULL; }
static bool any_rows(const kvg_problem *p, kvg_side side) { return any(p, side) && p->op != KVG_OP_DECODE; }
static bool four_bit(const kvg_problem *p, kvg_side side) { return format_of(p, side)->element_bits == 4; }
static bool scaled(const kvg_problem *p, kvg_side side) { return format_of(p, side)->tensor_scale; }
static bool scaled_v(const kvg_problem *p, kvg_side side) { return side == KVG_V && scaled(p, side); }
static bool nvfp4(const kvg_problem *p, kvg_side side) { return p->storage[side].format == KVG_FORMAT_NVFP4; }
static bool e4m3(const kvg_problem *p, kvg_side side) { return p->storage[side].format == KVG_FORMAT_E4M3; }
static bool wide_values(const kvg_problem *p, kvg_side side) { return any(p, side) && p->dtype != KVG_DTYPE_BF16; }

static bool has_scales(const kvg_problem *p, kvg_side side)
{
    return kvg_format_scale_bytes(p->storage[side].format, p->head_dim) > 0;
}

static bool same_storage(const kvg_problem *p, kvg_side side)
{
    return p->storage[side].format == p->storage[1 - side].format;
}

static bool same_scaled(const kvg_problem *p, kvg_side side)
{
    return scaled(p, side) && scaled(p, (kvg_side)(1 - side));
}

static bool mx_scales(const kvg_problem *p, kvg_side side)
{
    return p->storage[side].format == KVG_FORMAT_MX16 || p->storage[side].format == KVG_FORMAT_MXFP4;
}

static bool writes(const kvg_problem *p, kvg_side side, kvg_format format)
{
    return (p->op == KVG_OP_QUANTISE || p->op == KVG_OP_APPEND) && p->storage[side].format == format;
}

static bool writes_mxfp4(const kvg_problem *p, kvg_side side) { return writes(p, side, KVG_FORMAT_MXFP4); }
static bool writes_nvfp4(const kvg_problem *p, kvg_side side) { return writes(p, side, KVG_FORMAT_NVFP4); }
static bool writes_e5m2(const kvg_problem *p, kvg_side side) { return writes(p, side, KVG_FORMAT_E5M2); }

/* Defects of a paged layout as a whole are changes of "K's side", so that they are made once. */
static bool first_side(const kvg_problem *p, kvg_side side) { return side == KVG_K && kvg_op_get(p->op)->paged; }

static const struct {
    kvg_layout layout, twin;
} twins[] = {
    {KVG_LAYOUT_NHD, KVG_LAYOUT_HND},
    {KVG_LAYOUT_HND, KVG_LAYOUT_NHD},
    {KVG_LAYOUT_VLLM, KVG_LAYOUT_VLLM_HND},
    {KVG_LAYOUT_VLLM_HND, KVG_LAYOUT_VLLM},
};
enum { TWIN_COUNT = sizeof twins / sizeof twins[0] };

static bool is_layout(const kvg_problem *p, kvg_side side, kvg_layout layout)
{
    return first_side(p, side) && p->layout == layout;
}

static bool twin(const kvg_problem *p, kvg_side side)
{
    for (size_t i = 0; i < TWIN_COUNT; i++) {
        if (is_layout(p, side, twins[i].layout)) return true;
    }
    return false;
}

static bool may_swizzle(const kvg_problem *p, kvg_side side)
{
    kvg_problem swizzled = *p;
    swizzled.paging.v_scale_swizzle = true;
    return first_side(p, side) && kvg_problem_check(&swizzled) == KVG_OK;
}

static bool padded(const kvg_problem *p, kvg_side side)
{
    return first_side(p, side) && (p->paging.row_padding || p->paging.data_padding || p->paging.scale_padding);
}

static bool layered(const kvg_problem *p, kvg_side side) { return first_side(p, side) && p->paging.layers > 1; }
static bool many_blocks(const kvg_problem *p, kvg_side side) { return first_side(p, side) && p->paging.blocks > 1; }
static bool reads_back(const kvg_problem *p, kvg_side side) { return side == KVG_K && kvg_op_reads_sequences(p->op); }
static bool expands(const kvg_problem *p, kvg_side side) { return any(p, side) && p->op == KVG_OP_EXPAND; }
static bool shared_row(const kvg_problem *p, kvg_side side) { return reads_back(p, side) && p->paging.shared_kv; }
static bool biased(const kvg_problem *p, kvg_side side) { return first_side(p, side) && p->bias; }
static bool roped(const kvg_problem *p, kvg_side side) { return first_side(p, side) && p->rope.dims > 0; }

static bool long_blocks(const kvg_problem *p, kvg_side side)
{
    return first_side(p, side) && p->paging.block_tokens > 1;
}

/* Of op decode by ring_not_wrapped. */
static bool ring(const kvg_problem *p, kvg_side side)
{
    return reads_back(p, side) && p->layout == KVG_LAYOUT_RING && p->op != KVG_OP_DECODE;
}

static bool many_sequences(const kvg_problem *p, kvg_side side)
{
    return first_side(p, side) && p->paging.sequences > 1;
}

static bool inline_params(const kvg_problem *p, kvg_side side)
{
    return is_layout(p, side, KVG_LAYOUT_TURBOMIND) &&
           (format_of(p, KVG_K)->row_param_bytes || format_of(p, KVG_V)->row_param_bytes);
}

/* Without padding the strides of scales and of data go in proportion. */
static bool apart(const kvg_problem *p, kvg_side side)
{
    return padded(p, side) && !kvg_layout_get(p->layout)->joined && (has_scales(p, KVG_K) || has_scales(p, KVG_V));
}

static bool block_major(const kvg_problem *p, kvg_side side)
{
    return layered(p, side) && (p->layout == KVG_LAYOUT_TURBOMIND || p->layout == KVG_LAYOUT_TRTLLM);
}

static bool one_page(const kvg_problem *p, kvg_side side)
{
    return is_layout(p, side, KVG_LAYOUT_VLLM) && has_scales(p, KVG_K);
}

static bool joined_same(const kvg_problem *p, kvg_side side)
{
    return first_side(p, side) && kvg_layout_get(p->layout)->joined && !p->paging.shared_kv && same_storage(p, side);
}

static bool joined_scales(const kvg_problem *p, kvg_side side)
{
    return joined_same(p, side) && has_scales(p, KVG_K) && !p->paging.v_scale_swizzle;
}

/* Not for formats whose parameters are two numbers of the model type. */
static bool expands_16_bit(const kvg_problem *p, kvg_side side)
{
    return expands(p, side) && format_of(p, KVG_K)->row_param_bytes != 4 && format_of(p, KVG_V)->row_param_bytes != 4;
}

/* --- changes of the problem --- */

static void same(kvg_problem *p, kvg_side side) { (void)p, (void)side; }
static void use_floor(kvg_problem *p, kvg_side side) { p->storage[side].dialect = "ocp"; }
static void use_seed(kvg_problem *p, kvg_side side) { p->storage[side].dialect = "seed"; }
static void use_f32(kvg_problem *p, kvg_side side) { (void)side, p->dtype = KVG_DTYPE_F32; }
static void flip_swizzle(kvg_problem *p, kvg_side side) { (void)side, p->paging.v_scale_swizzle ^= true; }
static void use_contiguous(kvg_problem *p, kvg_side side) { (void)side, p->layout = KVG_LAYOUT_CONTIGUOUS; }
static void drop_bias(kvg_problem *p, kvg_side side) { (void)side, p->bias = false; }
static void drop_rope(kvg_problem *p, kvg_side side) { (void)side, p->rope.dims = 0; }

static void use_e4m3(kvg_problem *p, kvg_side side)
{
    p->storage[side] = (kvg_storage){KVG_FORMAT_E4M3, "canonical"};
}

static void use_twin(kvg_problem *p, kvg_side side)
{
    (void)side;
    for (size_t i = 0; i < TWIN_COUNT; i++) {
        if (p->layout == twins[i].layout) {
            p->layout = twins[i].twin;
            return;
        }
    }
}

static void drop_padding(kvg_problem *p, kvg_side side)
{
    (void)side;
    p->paging.row_padding = p->paging.data_padding = p->paging.scale_padding = 0;
}

static void use_other_layer(kvg_problem *p, kvg_side side)
{
    (void)side;
    p->paging.layer = (p->paging.layer + 1) % p->paging.layers;
}

static void move_latent(kvg_problem *p, kvg_side side)
{
    (void)side;
    p->paging.v_first = p->paging.v_first ? 0 : p->head_dim - p->paging.v_dim;
}

static void other_pairing(kvg_problem *p, kvg_side side)
{
    (void)side;
    p->rope.pairing = p->rope.pairing == KVG_PAIRING_HALVES ? KVG_PAIRING_ADJACENT : KVG_PAIRING_HALVES;
}

/* --- mutations of tensors --- */

static void keep(const kvg_defect_site *s) { (void)s; }

static void zero_fill(const kvg_defect_site *s)
{
    memset(s->tensor->data, 0, s->tensor->bytes);
}

static void copy_input(const kvg_defect_site *s)
{
    for (size_t i = 0; i < s->tensor->bytes; i++) {
        ((uint8_t *)s->tensor->data)[i] = ((const uint8_t *)s->input->data)[i % s->input->bytes];
    }
}

/* Moves the tensor's bytes up by `count`, the last ones to the front. */
static void roll(kvg_tensor *t, size_t count)
{
    uint8_t *bytes = t->data, *copy = malloc(t->bytes);
    if (!copy) return; /* the caller then sees an unchanged answer and lists the defect as unreached */
    memcpy(copy, bytes, t->bytes);
    for (size_t i = 0; i < t->bytes; i++) bytes[(i + count) % t->bytes] = copy[i];
    free(copy);
}

/* By a token; where there is one token, by a head; where there is one row, by an element. */
static void roll_rows(const kvg_defect_site *s)
{
    size_t step = s->tensor->bytes;
    for (uint32_t i = 0; i < s->tensor->rank && step == s->tensor->bytes; i++) step /= (size_t)s->tensor->shape[i];
    roll(s->tensor, step);
}

static void roll_scales(const kvg_defect_site *s)
{
    const kvg_format_info *f = kvg_format_get(s->problem->storage[s->side].format);
    roll(s->tensor, f->block ? f->block_scale_bytes : f->row_param_bytes);
}

static void swap_nibbles(const kvg_defect_site *s)
{
    uint8_t *bytes = s->tensor->data;
    for (size_t i = 0; i < s->tensor->bytes; i++) bytes[i] = (uint8_t)(bytes[i] << 4 | bytes[i] >> 4);
}

/* --- of slots, tables, lengths, positions --- */

static bool slot_is_used(const kvg_tensor *slots, int64_t slot)
{
    const int64_t *all = slots->data;
    for (uint64_t i = 0; i < slots->shape[0]; i++) {
        if (all[i] == slot) return true;
    }
    return false;
}

/* The first negative slot becomes the first unused one from `from` on, in steps of `step`. */
static void use_negative(const kvg_defect_site *s, int64_t from, int64_t step)
{
    int64_t *slots = s->tensor->data, end = (int64_t)s->problem->paging.blocks * s->problem->paging.block_tokens;
    int64_t slot = from;
    while (slot >= 0 && slot < end && slot_is_used(s->tensor, slot)) slot += step;
    for (uint64_t i = 0; slot >= 0 && slot < end && i < s->tensor->shape[0]; i++) {
        if (slots[i] >= 0) continue;
        slots[i] = slot;
        return;
    }
}

static void last_unused(const kvg_defect_site *s)
{
    use_negative(s, (int64_t)s->problem->paging.blocks * s->problem->paging.block_tokens - 1, -1);
}

static void first_unused(const kvg_defect_site *s)
{
    use_negative(s, 0, 1);
}

static void next_page(const kvg_defect_site *s)
{
    const int64_t B = s->problem->paging.block_tokens, end = B * s->problem->paging.blocks;
    int64_t *slots = s->tensor->data;
    for (uint64_t i = 0; i < s->tensor->shape[0]; i++) {
        if (slots[i] >= 0) slots[i] = (slots[i] + B) % end;
    }
}

static void repeat_page(const kvg_defect_site *s)
{
    int32_t *table = s->tensor->data;
    const uint64_t width = s->tensor->shape[1];
    for (uint64_t i = 0; i < s->tensor->shape[0] * width; i++) {
        if (i % width % 2) table[i] = table[i - 1];
    }
}

static void round_up(const kvg_defect_site *s)
{
    const int64_t B = s->problem->paging.block_tokens;
    int32_t *lengths = s->tensor->data;
    for (uint64_t i = 0; i < s->tensor->shape[0]; i++) {
        const int64_t whole = (lengths[i] + B - 1) / B * B;
        lengths[i] = (int32_t)(whole < s->problem->tokens ? whole : s->problem->tokens);
    }
}

static void add_to_all(const kvg_defect_site *s, int32_t least, int32_t step, int32_t most)
{
    int32_t *numbers = s->tensor->data;
    for (uint64_t i = 0; i < s->tensor->shape[0]; i++) {
        if (numbers[i] >= least && numbers[i] <= most) numbers[i] += step;
    }
}

static void minus_one(const kvg_defect_site *s) { add_to_all(s, 1, -1, INT32_MAX); }
static void next_position(const kvg_defect_site *s) { add_to_all(s, 0, 1, (int32_t)s->problem->rope.positions - 2); }

static void negate_sin(const kvg_defect_site *s)
{
    float *pairs = s->tensor->data;
    for (size_t i = 1; i < s->tensor->bytes / sizeof *pairs; i += 2) pairs[i] = -pairs[i];
}

static void swap_sides(const kvg_defect_site *s)
{
    if (s->side != KVG_K || s->tensor->bytes != s->other->bytes) return;
    uint8_t *k = s->tensor->data, *v = s->other->data;
    for (size_t i = 0; i < s->tensor->bytes; i++) {
        uint8_t byte = k[i];
        k[i] = v[i];
        v[i] = byte;
    }
}

static void drop_half(const kvg_defect_site *s)
{
    const size_t row = (size_t)s->tensor->shape[2];
    for (size_t r = 0; r < s->tensor->bytes; r += row)
        memset((uint8_t *)s->tensor->data + r + row / 2, 0, row - row / 2);
}

static void drop_last(const kvg_defect_site *s)
{
    const size_t row = (size_t)s->tensor->shape[2];
    memset((uint8_t *)s->tensor->data + s->tensor->bytes - row, 0, row);
}

static void saturate_to_nan(const kvg_defect_site *s)
{
    uint8_t *bytes = s->tensor->data;
    for (size_t i = 0; i < s->tensor->bytes; i++) bytes[i] |= (bytes[i] & 0x7F) == 0x7E;
}

/* The same values with an exponent bias of 8: one binade up, subnormals doubled, saturating. */
static void fnuz_codes(const kvg_defect_site *s)
{
    uint8_t *bytes = s->tensor->data;
    for (size_t i = 0; i < s->tensor->bytes; i++) {
        const unsigned magnitude = bytes[i] & 0x7F, up = magnitude < 8 ? 2 * magnitude : magnitude + 8;
        bytes[i] = (uint8_t)((bytes[i] & 0x80) | (up < 0x7F ? up : 0x7F));
    }
}

static void add_one(const kvg_defect_site *s)
{
    uint8_t *bytes = s->tensor->data;
    for (size_t i = 0; i < s->tensor->bytes; i++) bytes[i]++;
}

static void round_bf16(const kvg_defect_site *s)
{
    const size_t size = kvg_dtype_bytes(s->tensor->dtype);
    for (size_t i = 0; i < s->tensor->bytes; i += size) {
        float x;
        uint16_t code;
        kvg_reference_load(s->tensor->dtype, (uint8_t *)s->tensor->data + i, 1, &x);
        kvg_reference_store(KVG_DTYPE_BF16, &x, 1, &code);
        kvg_reference_load(KVG_DTYPE_BF16, &code, 1, &x);
        kvg_reference_store(s->tensor->dtype, &x, 1, (uint8_t *)s->tensor->data + i);
    }
}

static void map_scale(const kvg_defect_site *s, float (*f)(float))
{
    float g;
    if (s->tensor->bytes != sizeof g) return;
    memcpy(&g, s->tensor->data, sizeof g);
    g = f(g);
    if (g > 0 && isfinite(g)) memcpy(s->tensor->data, &g, sizeof g);
}

static float one(float g)
{
    (void)g;
    return 1;
}

static float square(float g) { return g * g; }
static float inverse(float g) { return 1.0f / g; }
static float times_6(float g) { return g * 6.0f; }
static float half(float g) { return g * 0.5f; }
static float min_1(float g) { return g < 1.0f ? 1.0f : g; }
static float pow2(float g) { return kvg_f32_of_bits(kvg_bits_of_f32(g) & 0x7F800000u); }
static float bf16(float g) { return kvg_f32_of_bits(kvg_bits_of_f32(g) & 0xFFFF0000u); }

static void scale_one(const kvg_defect_site *s) { map_scale(s, one); }
static void scale_square(const kvg_defect_site *s) { map_scale(s, square); }
static void scale_inverse(const kvg_defect_site *s) { map_scale(s, inverse); }
static void scale_times_6(const kvg_defect_site *s) { map_scale(s, times_6); }
static void scale_half(const kvg_defect_site *s) { map_scale(s, half); }
static void scale_min_1(const kvg_defect_site *s) { map_scale(s, min_1); }
static void scale_pow2(const kvg_defect_site *s) { map_scale(s, pow2); }
static void scale_bf16(const kvg_defect_site *s) { map_scale(s, bf16); }

/* --- the table and its two readers --- */

static const kvg_defect defects[] = {
#define DEFECT(id, control, applies, change, role, mutate, summary, seen_in) \
    {#id, control, applies, change, KVG_ROLE_##role, mutate, NULL, KVG_FLASH_RIGHT, summary, seen_in},
#define MAP_DEFECT(id, control, applies, remap, summary, seen_in) \
    {#id, control, applies, same, KVG_ROLE_NONE, keep, kvg_map_##remap, KVG_FLASH_RIGHT, summary, seen_in},
#define FLASH_DEFECT(id, control, applies, ENUM, summary, seen_in) \
    {#id, control, kvg_decode_##applies, same, KVG_ROLE_NONE, keep, NULL, KVG_FLASH_##ENUM, summary, seen_in},
#include "harness/defects.def"
#undef DEFECT
#undef MAP_DEFECT
#undef FLASH_DEFECT
};
enum { DEFECT_COUNT = sizeof defects / sizeof defects[0] };

const kvg_defect *kvg_defect_table(size_t *count)
{
    *count = DEFECT_COUNT;
    return defects;
}

kvg_status kvg_defect_find(const char *id, const kvg_defect **out)
{
    for (size_t i = 0; i < DEFECT_COUNT; i++) {
        if (strcmp(defects[i].id, id) == 0) {
            *out = &defects[i];
            return KVG_OK;
        }
    }
    return kvg_fail(KVG_ERR_NOT_FOUND, "no defect '%s': `kvgold list defects` shows them", id);
}

/* Op decode has no codes and scales among its tensors: those in its cache change. */
static bool changes_cache(const kvg_defect *defect, const kvg_problem *p)
{
    return p->op == KVG_OP_DECODE && kvg_roles_index(kvg_cache_row_roles, defect->role, KVG_K) >= 0;
}

bool kvg_defect_applies(const kvg_defect *defect, const kvg_problem *problem)
{
    const kvg_op_info *op = kvg_op_get(problem->op);
    if (defect->role != KVG_ROLE_NONE && kvg_roles_index(op->inputs, defect->role, KVG_K) < 0 &&
        kvg_roles_index(op->outputs, defect->role, KVG_K) < 0 && !changes_cache(defect, problem)) {
        return false;
    }
    return defect->applies(problem, KVG_K) || defect->applies(problem, KVG_V);
}

/* Mutates the tensors of the defect's role in a list; role NONE: all. */
static void mutate_all(const kvg_defect *defect, const kvg_problem *p, const kvg_role *roles, kvg_tensor *tensors,
                       const kvg_tensor *in)
{
    for (size_t i = 0; i < kvg_roles_tensors(roles); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        if ((defect->role != KVG_ROLE_NONE && defect->role != role) || tensors[i].bytes == 0) continue;
        if (!defect->applies(p, side)) continue;
        kvg_tensor *other = &tensors[kvg_roles_index(roles, role, (kvg_side)(1 - side))];
        const kvg_tensor *input = in[side].bytes ? &in[side] : &in[KVG_K];
        defect->mutate(&(kvg_defect_site){p, side, &tensors[i], other, input, in});
    }
}

static void free_tensors(kvg_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) free(tensors[i].data);
}

static kvg_status copy_tensors(const kvg_tensor *from, size_t count, kvg_tensor *to)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = from[i];
        to[i].data = NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (from[i].bytes == 0) continue;
        to[i].data = malloc(from[i].bytes);
        if (!to[i].data) {
            free_tensors(to, count);
            return kvg_fail(KVG_ERR_MEMORY, "cannot copy an input of %zu bytes", from[i].bytes);
        }
        memcpy(to[i].data, from[i].data, from[i].bytes);
    }
    return KVG_OK;
}

static kvg_status change_cache(const kvg_defect *defect, const kvg_problem *p, const kvg_tensor *in,
                               kvg_tensor *changed)
{
    kvg_tensor rows[4];
    kvg_status s = kvg_cache_rows(p, in, rows);
    if (s) return s;
    mutate_all(defect, p, kvg_cache_row_roles, rows, in);
    kvg_cache_store(p, rows, changed);
    free_tensors(rows, 4);
    return KVG_OK;
}

/* The answer under a wrong map; op decode has its cache moved instead. */
static kvg_status run_mapped(const kvg_defect *defect, const kvg_problem *p, const kvg_tensor *in, kvg_tensor *changed,
                             kvg_tensor *out)
{
    kvg_layout_map map;
    kvg_reference_layout_map(p, &map);
    defect->remap(p, &map);
    if (p->op != KVG_OP_DECODE) return kvg_reference_run_mapped(p, &map, changed, out);
    kvg_cache_remap(p, &map, in, changed);
    return kvg_reference_run(p, changed, out);
}

kvg_status kvg_defect_run(const kvg_defect *defect, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_op_info *op = kvg_op_get(problem->op);
    const size_t inputs = kvg_roles_tensors(op->inputs);
    kvg_tensor changed[KVG_MAX_TENSORS];
    if (defect->flash) {
        kvg_flash how;
        kvg_flash_init(problem, defect->flash, &how);
        return kvg_flash_run(problem, in, &how, out);
    }
    kvg_status s = copy_tensors(in, inputs, changed);
    if (s) return s;

    kvg_problem wrong = *problem;
    for (int side = KVG_K; side <= KVG_V; side++) {
        if (defect->applies(problem, (kvg_side)side)) defect->change(&wrong, (kvg_side)side);
    }
    if (defect->role != KVG_ROLE_NONE) mutate_all(defect, problem, op->inputs, changed, in);
    if (changes_cache(defect, problem)) s = change_cache(defect, problem, in, changed);
    if (!s) s = defect->remap ? run_mapped(defect, problem, in, changed, out) : kvg_reference_run(&wrong, changed, out);
    free_tensors(changed, inputs);
    if (!s) mutate_all(defect, problem, op->outputs, out, in);
    return s;
}

static const kvg_defect *active; /* the defect of this process's defect backend: one per candidate process */

static kvg_status run_active(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    if (!kvg_defect_applies(active, problem)) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "defect %s does not apply to this problem", active->id);
    }
    return kvg_defect_run(active, problem, in, out);
}

kvg_status kvg_defect_backend(const char *name, const kvg_backend **out)
{
    static const kvg_impl impls[] = {
#define OP(ENUM, id, name, paged, inputs, outputs, summary) \
    {"defect_" name, KVG_OP_##ENUM, KVG_FORMAT_NONE, 0, run_active},
#include "core/ops.def"
#undef OP
    };
    static const kvg_backend backend = {
        .abi = KVG_BACKEND_ABI,
        .struct_size = sizeof backend,
        .name = "defect",
        .impls = impls,
        .impl_count = sizeof impls / sizeof impls[0],
        .error_text = kvg_error_text,
    };
    const char *id = strchr(name, ':');
    kvg_status s = kvg_defect_find(id ? id + 1 : "", &active);
    if (s) return s;
    *out = &backend;
    return KVG_OK;
}
