#include "harness/trial/wrong/defects.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/bits.h"
#include "core/name.h"
#include "harness/trial/wrong/defect_cache.h"
#include "harness/trial/wrong/defect_maps.h"
#include "harness/trial/wrong/defects_decode.h"
#include "harness/trial/wrong/defects_encode.h"
#include "harness/trial/wrong/defects_lanes.h"
#include "harness/trial/wrong/defects_merge.h"
#include "harness/trial/wrong/defects_mma.h"
#include "harness/trial/wrong/defects_pages.h"
#include "harness/trial/wrong/defects_rope.h"
#include "harness/trial/wrong/defects_rows.h"
#include "harness/trial/wrong/near_texts.h"

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
static bool e4m3_scales(const kvg_problem *p, kvg_side side) { return format_of(p, side)->scales == KVG_SCALES_E4M3; }
static bool mx_scales(const kvg_problem *p, kvg_side side) { return format_of(p, side)->scales == KVG_SCALES_E8M0; }
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

static bool scaled_e4m3(const kvg_problem *p, kvg_side side)
{
    return scaled(p, side) && format_of(p, side)->codes == KVG_CODES_E4M3;
}

/* Defects of a paged layout as a whole are changes of "K's side", so that they are made once. */
static bool first_side(const kvg_problem *p, kvg_side side) { return side == KVG_K && kvg_op_get(p->op)->paged; }

static const struct {
    kvg_layout layout, twin;
} twins[] = {
    {KVG_LAYOUT_NHD, KVG_LAYOUT_HND},
    {KVG_LAYOUT_HND, KVG_LAYOUT_NHD},
    {KVG_LAYOUT_VLLM, KVG_LAYOUT_VLLM_HND},
    {KVG_LAYOUT_VLLM_HND, KVG_LAYOUT_VLLM},
    {KVG_LAYOUT_VLLM_LBNHC, KVG_LAYOUT_VLLM_LBHNC},
    {KVG_LAYOUT_VLLM_LBHNC, KVG_LAYOUT_VLLM_LBNHC},
    {KVG_LAYOUT_VLLM_BLNHC, KVG_LAYOUT_VLLM_BLHNC},
    {KVG_LAYOUT_VLLM_BLHNC, KVG_LAYOUT_VLLM_BLNHC},
    {KVG_LAYOUT_VLLM_NVFP4_BLNHC, KVG_LAYOUT_VLLM_NVFP4_BLHNC},
    {KVG_LAYOUT_VLLM_NVFP4_BLHNC, KVG_LAYOUT_VLLM_NVFP4_BLNHC},
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
static bool after_first_layer(const kvg_problem *p, kvg_side side) { return layered(p, side) && p->paging.layer; }
static bool before_last_layer(const kvg_problem *p, kvg_side side)
{
    return layered(p, side) && p->paging.layer < p->paging.layers - 1;
}

static bool many_blocks(const kvg_problem *p, kvg_side side) { return first_side(p, side) && p->paging.blocks > 1; }
static bool reads_back(const kvg_problem *p, kvg_side side) { return side == KVG_K && kvg_op_reads_sequences(p->op); }
static bool expands(const kvg_problem *p, kvg_side side) { return any(p, side) && p->op == KVG_OP_EXPAND; }
static bool shared_row(const kvg_problem *p, kvg_side side) { return reads_back(p, side) && p->paging.shared_kv; }
static bool biased(const kvg_problem *p, kvg_side side) { return first_side(p, side) && p->bias; }
static bool has_bias(const kvg_problem *p, kvg_side side) { return (int)side < kvg_problem_sides(p) && p->bias; }
static bool roped(const kvg_problem *p, kvg_side side) { return first_side(p, side) && p->rope.dims > 0; }

static bool long_blocks(const kvg_problem *p, kvg_side side)
{
    return first_side(p, side) && p->paging.block_tokens > 1;
}

/* Of op decode by ring_not_wrapped. */
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
    return padded(p, side) && !kvg_problem_joins_sides(p) && (has_scales(p, KVG_K) || has_scales(p, KVG_V));
}

static bool block_major(const kvg_problem *p, kvg_side side)
{
    return layered(p, side) && strncmp(kvg_problem_layout_text(p), "[B", 2) == 0;
}

static bool one_page(const kvg_problem *p, kvg_side side)
{
    return is_layout(p, side, KVG_LAYOUT_VLLM) && has_scales(p, KVG_K);
}

static bool joined_same(const kvg_problem *p, kvg_side side)
{
    return first_side(p, side) && kvg_problem_joins_sides(p) && !p->paging.shared_kv && same_storage(p, side);
}

static bool joined_scales(const kvg_problem *p, kvg_side side)
{
    return joined_same(p, side) && has_scales(p, KVG_K) && !p->paging.v_scale_swizzle;
}

/* Not for formats whose parameters are two numbers of the model type. */
static bool expands_16_bit(const kvg_problem *p, kvg_side side)
{
    return expands(p, side) && format_of(p, KVG_K)->scales != KVG_SCALES_AFFINE &&
           format_of(p, KVG_V)->scales != KVG_SCALES_AFFINE;
}

/* --- changes of the problem --- */

static void same(kvg_problem *p, kvg_side side) { (void)p, (void)side; }
static void use_canonical(kvg_problem *p, kvg_side side) { p->storage[side].dialect = "canonical"; }
static void use_unrounded(kvg_problem *p, kvg_side side) { p->storage[side].dialect = KVG_ROWS_UNROUNDED; }
static void use_f32(kvg_problem *p, kvg_side side) { (void)side, p->dtype = KVG_DTYPE_F32; }
static void flip_swizzle(kvg_problem *p, kvg_side side) { (void)side, p->paging.v_scale_swizzle ^= true; }
static void drop_bias(kvg_problem *p, kvg_side side) { (void)side, p->bias = false; }
static void drop_rope(kvg_problem *p, kvg_side side) { (void)side, p->rope.dims = 0; }

/* Where a dialect has that rule; kvg_rows_floor does it for other formats. */
static void use_floor(kvg_problem *p, kvg_side side)
{
    if (kvg_rows_has_dialect(p, side, KVG_ROWS_FLOOR)) p->storage[side].dialect = KVG_ROWS_FLOOR;
}

static void use_e4m3(kvg_problem *p, kvg_side side)
{
    p->storage[side] = (kvg_storage){kvg_format_of_codes(KVG_CODES_E4M3), "canonical"};
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

static void use_first_layer(kvg_problem *p, kvg_side side)
{
    (void)side;
    p->paging.layer = 0;
}

static void use_last_layer(kvg_problem *p, kvg_side side)
{
    (void)side;
    p->paging.layer = p->paging.layers - 1;
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

void kvg_defect_keep(const kvg_defect_site *s) { (void)s; }

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

static void negate_sin(const kvg_defect_site *s)
{
    float *pairs = s->tensor->data;
    for (size_t i = 1; i < s->tensor->bytes / sizeof *pairs; i += 2) pairs[i] = -pairs[i];
}

static void negate(const kvg_defect_site *s)
{
    const size_t width = kvg_dtype_bytes(s->tensor->dtype);
    uint8_t *bytes = s->tensor->data;
    for (size_t i = width - 1; i < s->tensor->bytes; i += width) bytes[i] ^= 0x80;
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

static void copy_of_k(const kvg_defect_site *s)
{
    memcpy(s->tensor->data, s->other->data, s->tensor->bytes);
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
static float sixth(float g) { return g / 6.0f; }
static float half(float g) { return g * 0.5f; }
static float min_1(float g) { return g < 1.0f ? 1.0f : g; }
static float pow2(float g) { return kvg_f32_of_bits(kvg_bits_of_f32(g) & 0x7F800000u); }
static float bf16(float g) { return kvg_f32_of_bits(kvg_bits_of_f32(g) & 0xFFFF0000u); }

static float rounded(float g)
{
    uint16_t code;
    kvg_reference_store(KVG_DTYPE_BF16, &g, 1, &code);
    kvg_reference_load(KVG_DTYPE_BF16, &code, 1, &g);
    return g;
}

static void scale_one(const kvg_defect_site *s) { map_scale(s, one); }
static void scale_square(const kvg_defect_site *s) { map_scale(s, square); }
static void scale_inverse(const kvg_defect_site *s) { map_scale(s, inverse); }
static void scale_times_6(const kvg_defect_site *s) { map_scale(s, times_6); }
static void scale_sixth(const kvg_defect_site *s) { map_scale(s, sixth); }
static void scale_half(const kvg_defect_site *s) { map_scale(s, half); }
static void scale_min_1(const kvg_defect_site *s) { map_scale(s, min_1); }
static void scale_pow2(const kvg_defect_site *s) { map_scale(s, pow2); }
static void scale_bf16(const kvg_defect_site *s) { map_scale(s, bf16); }
static void scale_rounded(const kvg_defect_site *s) { map_scale(s, rounded); }

/* --- the table and its two readers --- */

static const kvg_defect defects[] = {
#define DEFECT(id, control, applies, change, role, mutate, summary, seen_in) \
    {#id, control, applies, change, KVG_ROLE_##role, mutate, NULL, KVG_FLASH_RIGHT, summary, seen_in, NULL, 0, NULL},
#define MAP_DEFECT(id, control, applies, remap, summary, seen_in) \
    {#id,     control, applies, same, KVG_ROLE_NONE, kvg_defect_keep, kvg_map_##remap, KVG_FLASH_RIGHT, \
     summary, seen_in, NULL, 0, NULL},
#define FLASH_DEFECT(id, control, applies, ENUM, summary, seen_in) \
    {#id,     control, kvg_decode_##applies, same, KVG_ROLE_NONE, kvg_defect_keep, NULL, KVG_FLASH_##ENUM, \
     summary, seen_in, NULL, 0, NULL},
#include "harness/trial/wrong/defects.def"
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

enum { NAMED = 160, NAMED_ID = 48 };

typedef struct named_list {
    kvg_defect list[NAMED];
    char ids[NAMED][NAMED_ID];
    size_t count;
} named_list;

static void add_named(named_list *n, const char *kind, const char *name, kvg_defect defect)
{
    if (n->count == NAMED) return; /* test_defects.c finds every name */
    snprintf(n->ids[n->count], NAMED_ID, "%s:%s", kind, name);
    for (size_t i = 0; i < n->count; i++) {
        if (strcmp(n->ids[i], n->ids[n->count]) != 0) continue;
        /* canonical, trtllm: formats have dialects of one name, with a source each */
        if (strcmp(n->list[i].seen_in, defect.seen_in) != 0) n->list[i].seen_in = "docs/spec/formats.md";
        return;
    }
    defect.id = n->ids[n->count];
    defect.change = same;
    defect.mutate = kvg_defect_keep;
    n->list[n->count++] = defect;
}

static void add_dialects(named_list *n)
{
    size_t formats;
    const kvg_format_info *format = kvg_format_table(&formats);
    for (size_t f = 0; f < formats; f++) {
        for (size_t d = 0; d < kvg_reference_dialect_count(format[f].format); d++) {
            const kvg_dialect *dialect = kvg_reference_dialect(format[f].format, d);
            add_named(n, "dialect", dialect->name,
                      (kvg_defect){.applies = any, .summary = "another dialect of the format",
                                   .seen_in = dialect->source, .dialect = dialect->name});
        }
    }
}

static void add_layouts(named_list *n)
{
    size_t layouts;
    const kvg_layout_info *layout = kvg_layout_table(&layouts);
    for (size_t i = 0; i < layouts; i++) {
        if (!layout[i].paged) continue;
        add_named(n, "layout", layout[i].name,
                  (kvg_defect){.applies = first_side, .summary = "rows lie as in another layout",
                               .seen_in = layout[i].summary, .layout = layout[i].layout});
    }
}

const kvg_defect *kvg_defect_named(size_t *count)
{
    static named_list made; /* once */
    if (made.count == 0) {
        add_dialects(&made);
        add_layouts(&made);
    }
    *count = made.count;
    return made.list;
}

/* --- texts near a layout's --- */

typedef struct near_list {
    struct near_list *next;
    char *text; /* that the others are near to */
    kvg_near_texts near;
    char ids[KVG_NEAR_TEXTS][sizeof "layout:" + KVG_NEAR_TEXT];
    kvg_defect list[KVG_NEAR_TEXTS];
} near_list;

static kvg_status make_near(const char *text, near_list **out)
{
    near_list *const n = calloc(1, sizeof *n);
    char *const copy = strdup(text);
    if (!n || !copy) {
        free(n);
        free(copy);
        return kvg_fail(KVG_ERR_MEMORY, "no memory for the texts near a layout's");
    }
    n->text = copy;
    kvg_near_texts_of(text, &n->near);
    for (size_t i = 0; i < n->near.count; i++) {
        snprintf(n->ids[i], sizeof n->ids[i], "layout:%s", n->near.texts[i]);
        n->list[i] = (kvg_defect){.id = n->ids[i], .applies = first_side, .change = same, .mutate = kvg_defect_keep,
                                  .summary = "rows lie as this text says", .seen_in = "", .layout = KVG_LAYOUT_TEXT,
                                  .text = n->near.texts[i]};
    }
    *out = n;
    return KVG_OK;
}

kvg_status kvg_defect_near(const kvg_problem *p, const kvg_defect **out, size_t *count)
{
    static near_list *made;
    const char *const text = kvg_op_get(p->op)->paged ? kvg_problem_layout_text(p) : "";
    near_list *n = made;
    *count = 0;
    if (!*text) return KVG_OK;
    while (n && strcmp(n->text, text) != 0) n = n->next;
    if (!n) {
        kvg_status s = make_near(text, &n);
        if (s) return s;
        n->next = made;
        made = n;
    }
    *out = n->list;
    *count = n->near.count;
    return KVG_OK;
}

kvg_status kvg_defect_find(const char *id, const kvg_defect **out)
{
    size_t names;
    const kvg_defect *named = kvg_defect_named(&names);
    for (size_t i = 0; i < DEFECT_COUNT + names; i++) {
        const kvg_defect *d = i < DEFECT_COUNT ? &defects[i] : &named[i - DEFECT_COUNT];
        if (strcmp(d->id, id) != 0) continue;
        *out = d;
        return KVG_OK;
    }
    const char *nearest = kvg_name_nearest(id, &defects[0].id, sizeof defects[0], DEFECT_COUNT);
    return kvg_fail(KVG_ERR_NOT_FOUND, nearest ? "no defect '%s' (did you mean '%s'?)"
                                               : "no defect '%s': `kvgold list defects` shows them", id, nearest);
}

bool kvg_defect_applies_to(const kvg_defect *defect, const kvg_problem *p, kvg_side side)
{
    const kvg_storage *storage = &p->storage[side];
    kvg_layout_map map;
    if (defect->layout) {
        return first_side(p, side) && (defect->text || defect->layout != p->layout) &&
               kvg_map_of_layout(p, defect->layout, defect->text, &map);
    }
    if (!defect->dialect) return defect->applies(p, side);
    if (!any(p, side) || strcmp(storage->dialect, defect->dialect) == 0) return false;
    for (size_t i = 0; i < kvg_reference_dialect_count(storage->format); i++) {
        if (strcmp(kvg_reference_dialect(storage->format, i)->name, defect->dialect) == 0) return true;
    }
    return false;
}

bool kvg_defect_applies(const kvg_defect *defect, const kvg_problem *problem)
{
    const kvg_op_info *op = kvg_op_get(problem->op);
    const bool of_rows = kvg_roles_index(kvg_cache_row_roles, defect->role, KVG_K) >= 0;
    const bool in_cache = of_rows && kvg_cache_has_rows(problem->op);
    if (defect->role != KVG_ROLE_NONE && kvg_roles_index(op->inputs, defect->role, KVG_K) < 0 &&
        kvg_roles_index(op->outputs, defect->role, KVG_K) < 0 && !in_cache) {
        return false;
    }
    return kvg_defect_applies_to(defect, problem, KVG_K) || kvg_defect_applies_to(defect, problem, KVG_V);
}
