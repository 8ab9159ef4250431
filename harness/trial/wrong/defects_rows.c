#include "harness/trial/wrong/defects_rows.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/bits.h"
#include "harness/trial/wrong/wrong_rounding.h"

/* --- which problems --- */

static const kvg_format_info *format_of(const kvg_problem *p, kvg_side side)
{
    return kvg_format_get(p->storage[side].format);
}

static bool writes(const kvg_problem *p)
{
    return p->op == KVG_OP_QUANTISE || p->op == KVG_OP_APPEND;
}

/* What is stored is the input itself, so that its codes follow from it. */
bool kvg_rows_encodes(const kvg_problem *p, kvg_side side)
{
    const bool prepared = p->op == KVG_OP_APPEND && (p->bias || (p->rope.dims && side == KVG_K));
    return writes(p) && !prepared;
}

static bool decodes(const kvg_problem *p)
{
    return p->op == KVG_OP_DEQUANTISE || kvg_op_reads_sequences(p->op);
}

static bool is_canonical(const kvg_problem *p, kvg_side side)
{
    return strcmp(p->storage[side].dialect, "canonical") == 0;
}

bool kvg_rows_encodes_canonical(const kvg_problem *p, kvg_side side)
{
    return kvg_rows_encodes(p, side) && is_canonical(p, side);
}

bool kvg_rows_has_dialect(const kvg_problem *p, kvg_side side, const char *name)
{
    const kvg_format format = p->storage[side].format;
    for (size_t i = 0; i < kvg_reference_dialect_count(format); i++) {
        if (strcmp(kvg_reference_dialect(format, i)->name, name) == 0) return true;
    }
    return false;
}

bool kvg_rows_writes_unrounded(const kvg_problem *p, kvg_side side)
{
    return writes(p) && kvg_rows_has_dialect(p, side, KVG_ROWS_UNROUNDED);
}

/* Codes beside the tensor's scale and no other. */
static bool is_plain(const kvg_problem *p, kvg_side side, kvg_codes codes)
{
    const kvg_format_info *f = format_of(p, side);
    return f->codes == codes && f->scales == KVG_SCALES_NONE;
}

bool kvg_rows_writes_e5m2(const kvg_problem *p, kvg_side side)
{
    return writes(p) && is_plain(p, side, KVG_CODES_E5M2);
}

bool kvg_rows_encodes_e4m3(const kvg_problem *p, kvg_side side)
{
    return kvg_rows_encodes_canonical(p, side) && is_plain(p, side, KVG_CODES_E4M3);
}

static bool has_e4m3_scales(const kvg_problem *p, kvg_side side)
{
    return format_of(p, side)->scales == KVG_SCALES_E4M3 && format_of(p, side)->tensor_scale;
}

bool kvg_rows_reads_e4m3_scales(const kvg_problem *p, kvg_side side)
{
    return decodes(p) && has_e4m3_scales(p, side);
}

bool kvg_rows_encodes_blocks(const kvg_problem *p, kvg_side side)
{
    return kvg_rows_encodes(p, side) && has_e4m3_scales(p, side) && format_of(p, side)->codes == KVG_CODES_E2M1;
}

bool kvg_rows_reads_offsets(const kvg_problem *p, kvg_side side)
{
    return decodes(p) && format_of(p, side)->codes == KVG_CODES_OFFSET && format_of(p, side)->element_bits == 4;
}

bool kvg_rows_floors(const kvg_problem *p, kvg_side side)
{
    const bool borrows = kvg_rows_has_dialect(p, side, KVG_ROWS_FLOOR);
    return format_of(p, side)->scales == KVG_SCALES_E8M0 && (borrows ? writes(p) : kvg_rows_encodes(p, side));
}

bool kvg_rows_ceils(const kvg_problem *p, kvg_side side)
{
    return kvg_rows_floors(p, side) && kvg_rows_has_dialect(p, side, KVG_ROWS_FLOOR) && !is_canonical(p, side);
}

bool kvg_rows_encodes_symmetric(const kvg_problem *p, kvg_side side)
{
    const kvg_format_info *f = format_of(p, side);
    return kvg_rows_encodes_canonical(p, side) && f->row_param_bytes && f->scales != KVG_SCALES_AFFINE;
}

static bool has_factors(const kvg_format_info *f)
{
    return f->scales != KVG_SCALES_NONE && f->scales != KVG_SCALES_AFFINE;
}

bool kvg_rows_writes_factors(const kvg_problem *p, kvg_side side)
{
    return kvg_rows_encodes(p, side) && has_factors(format_of(p, side));
}

/* The smallest scale of the canonical dialect is 0, or that of zeros. */
bool kvg_rows_writes_least(const kvg_problem *p, kvg_side side)
{
    const kvg_scales scales = format_of(p, side)->scales;
    return kvg_rows_encodes(p, side) && (scales == KVG_SCALES_E4M3 || scales == KVG_SCALES_E8M0);
}

bool kvg_rows_zeros_have_scale(const kvg_problem *p, kvg_side side)
{
    const bool zero = is_canonical(p, side) && format_of(p, side)->scales != KVG_SCALES_F32;
    return kvg_rows_writes_factors(p, side) && !zero;
}

bool kvg_rows_gives_values(const kvg_problem *p, kvg_side side)
{
    const kvg_codes codes = format_of(p, side)->codes;
    return (p->op == KVG_OP_DEQUANTISE || p->op == KVG_OP_FLATTEN) && codes != KVG_CODES_F16 &&
           codes != KVG_CODES_BF16 && codes != KVG_CODES_E5M2;
}

bool kvg_rows_has_two_scales(const kvg_problem *p, kvg_side side)
{
    return side == KVG_V && !p->paging.shared_kv && format_of(p, KVG_K)->tensor_scale &&
           format_of(p, KVG_V)->tensor_scale;
}

/* --- bytes --- */

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
void kvg_rows_roll(const kvg_defect_site *s)
{
    size_t step = s->tensor->bytes;
    for (uint32_t i = 0; i < s->tensor->rank && step == s->tensor->bytes; i++) step /= (size_t)s->tensor->shape[i];
    roll(s->tensor, step);
}

static size_t scale_bytes(const kvg_defect_site *s)
{
    const kvg_format_info *f = format_of(s->problem, s->side);
    return f->block ? f->block_scale_bytes : f->row_param_bytes;
}

void kvg_rows_scales_late(const kvg_defect_site *s) { roll(s->tensor, scale_bytes(s)); }
void kvg_rows_scales_early(const kvg_defect_site *s) { roll(s->tensor, s->tensor->bytes - scale_bytes(s)); }

void kvg_rows_swap_nibbles(const kvg_defect_site *s)
{
    uint8_t *bytes = s->tensor->data;
    for (size_t i = 0; i < s->tensor->bytes; i++) bytes[i] = (uint8_t)(bytes[i] << 4 | bytes[i] >> 4);
}

void kvg_rows_drop_half(const kvg_defect_site *s)
{
    const size_t row = (size_t)s->tensor->shape[2];
    for (size_t r = 0; r < s->tensor->bytes; r += row)
        memset((uint8_t *)s->tensor->data + r + row / 2, 0, row - row / 2);
}

void kvg_rows_drop_last(const kvg_defect_site *s)
{
    const size_t row = (size_t)s->tensor->shape[2];
    memset((uint8_t *)s->tensor->data + s->tensor->bytes - row, 0, row);
}

void kvg_rows_saturate_to_nan(const kvg_defect_site *s)
{
    uint8_t *bytes = s->tensor->data;
    for (size_t i = 0; i < s->tensor->bytes; i++) bytes[i] |= (bytes[i] & 0x7F) == 0x7E;
}

/* The same values with an exponent bias of 8: one binade up, subnormals doubled, saturating. */
void kvg_rows_fnuz(const kvg_defect_site *s)
{
    uint8_t *bytes = s->tensor->data;
    for (size_t i = 0; i < s->tensor->bytes; i++) {
        const unsigned magnitude = bytes[i] & 0x7F, up = magnitude < 8 ? 2 * magnitude : magnitude + 8;
        bytes[i] = (uint8_t)((bytes[i] & 0x80) | (up < 0x7F ? up : 0x7F));
    }
}

static void add_to_bytes(const kvg_defect_site *s, int step)
{
    uint8_t *bytes = s->tensor->data;
    for (size_t i = 0; i < s->tensor->bytes; i++) bytes[i] = (uint8_t)(bytes[i] + step);
}

void kvg_rows_add_one(const kvg_defect_site *s) { add_to_bytes(s, 1); }
void kvg_rows_subtract_one(const kvg_defect_site *s) { add_to_bytes(s, -1); }

void kvg_rows_round_bf16(const kvg_defect_site *s)
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

/* Inf becomes the largest finite number of its type. */
void kvg_rows_saturate_overflows(const kvg_defect_site *s)
{
    const float largest[] = {[KVG_DTYPE_F16] = 65504, [KVG_DTYPE_BF16] = 0x1.FEp127f, [KVG_DTYPE_F32] = FLT_MAX};
    const size_t size = kvg_dtype_bytes(s->tensor->dtype);
    for (size_t i = 0; i < s->tensor->bytes; i += size) {
        float x;
        kvg_reference_load(s->tensor->dtype, (uint8_t *)s->tensor->data + i, 1, &x);
        if (!isinf(x)) continue;
        x = copysignf(largest[s->tensor->dtype], x);
        kvg_reference_store(s->tensor->dtype, &x, 1, (uint8_t *)s->tensor->data + i);
    }
}

void kvg_rows_two_bit_codes(const kvg_defect_site *s)
{
    uint8_t *bytes = s->tensor->data;
    for (size_t i = 0; i < s->tensor->bytes; i++) bytes[i] &= 0x33;
}

/* Four nibbles of one kind in a word, 8 taken from each by one subtraction of the word: below 8 it borrows from the
 * next one. -9 is no code: a 0 that is borrowed from stays. */
void kvg_rows_borrow(const kvg_defect_site *s)
{
    enum { LANES = 4 };
    for (size_t word = 0; word + LANES <= s->tensor->bytes; word += LANES) {
        uint8_t *lanes = (uint8_t *)s->tensor->data + word;
        for (unsigned shift = 0; shift < 8; shift += 4) {
            for (unsigned i = 0, borrow = 0; i < LANES; i++) {
                const unsigned nibble = lanes[i] >> shift & 15u, left = nibble > borrow ? nibble - borrow : 0;
                borrow = nibble < 8 + borrow;
                lanes[i] = (uint8_t)((lanes[i] & ~(15u << shift)) | left << shift);
            }
        }
    }
}

/* --- scales --- */

/* The scale of a block or row that stands for 1, with no minimum. */
static void write_one(const kvg_defect_site *s, uint8_t bytes[4])
{
    static const float neutral[2] = {1, 0};
    switch (format_of(s->problem, s->side)->scales) {
    case KVG_SCALES_NONE: break;
    case KVG_SCALES_E8M0: bytes[0] = 0x7F; break;
    case KVG_SCALES_E4M3: bytes[0] = 0x38; break;
    case KVG_SCALES_F16: kvg_reference_store(KVG_DTYPE_F16, neutral, 1, bytes); break;
    case KVG_SCALES_F32: kvg_reference_store(KVG_DTYPE_F32, neutral, 1, bytes); break;
    case KVG_SCALES_AFFINE: kvg_reference_store(s->problem->dtype, neutral, 2, bytes); break;
    }
}

void kvg_rows_scales_one(const kvg_defect_site *s)
{
    const size_t size = scale_bytes(s);
    uint8_t bytes[4] = {0};
    write_one(s, bytes);
    for (size_t i = 0; i < s->tensor->bytes; i++) ((uint8_t *)s->tensor->data)[i] = bytes[i % size];
}

/* Multiplies the tensor scale that the wrong run gets. */
static void multiply_tensor_scale(const kvg_defect_site *s, float factor)
{
    const int at = kvg_roles_index(kvg_op_get(s->problem->op)->inputs, KVG_ROLE_TENSOR_SCALE, s->side);
    float g;
    memcpy(&g, s->changed[at].data, sizeof g);
    g *= factor;
    memcpy(s->changed[at].data, &g, sizeof g);
}

/* 2^(e - 7) (1 + m / 8) for e = 0, too: twice that is the number of the byte 8 above, as it is for every other byte
 * below 0x77 (a scale of 240); with half the tensor scale all of them are right but those of e = 0. */
void kvg_rows_subnormal_scales(const kvg_defect_site *s)
{
    uint8_t *bytes = s->tensor->data;
    for (size_t i = 0; i < s->tensor->bytes; i++) bytes[i] = (uint8_t)(bytes[i] + ((bytes[i] & 0x7F) < 0x77 ? 8 : 0));
    multiply_tensor_scale(s, 0.5f);
}

/* --- encoders gone wrong, from the values --- */

float kvg_rows_tensor_scale(const kvg_defect_site *s)
{
    float g;
    const int at = kvg_roles_index(kvg_op_get(s->problem->op)->inputs, KVG_ROLE_TENSOR_SCALE, s->side);
    memcpy(&g, s->in[at].data, sizeof g);
    return g;
}

void kvg_rows_load(const kvg_defect_site *s, size_t row, float *x)
{
    const kvg_problem *p = s->problem;
    const uint8_t *from = s->in[s->side].data; /* VALUES come first */
    kvg_reference_load(p->dtype, from + row * p->head_dim * kvg_dtype_bytes(p->dtype), p->head_dim, x);
}

size_t kvg_rows_count(const kvg_defect_site *s)
{
    return (size_t)s->problem->tokens * s->problem->kv_heads;
}

/* Every row of VALUES through `change`. */
static void change_rows(const kvg_defect_site *s, void (*change)(const kvg_defect_site *s, float *x))
{
    const kvg_problem *p = s->problem;
    for (size_t row = 0; row < kvg_rows_count(s); row++) {
        float x[KVG_MAX_HEAD_DIM];
        kvg_rows_load(s, row, x);
        change(s, x);
        kvg_reference_store(p->dtype, x, p->head_dim,
                            (uint8_t *)s->tensor->data + row * p->head_dim * kvg_dtype_bytes(p->dtype));
    }
}

static float largest(const float *x, uint32_t n)
{
    float most = 0;
    for (uint32_t i = 0; i < n; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

static void scale_zeros(const kvg_defect_site *s, const uint8_t scale[4])
{
    const kvg_problem *p = s->problem;
    const uint32_t block = format_of(p, s->side)->block, span = block ? block : p->head_dim;
    const size_t size = scale_bytes(s);
    uint8_t *to = s->tensor->data;
    for (size_t row = 0; row < kvg_rows_count(s); row++) {
        float x[KVG_MAX_HEAD_DIM];
        kvg_rows_load(s, row, x);
        for (uint32_t i = 0; i < p->head_dim; i += span, to += size) {
            if (largest(x + i, span) == 0) memcpy(to, scale, size);
        }
    }
}

void kvg_rows_scale_zeros_by_0(const kvg_defect_site *s) { scale_zeros(s, (const uint8_t[4]){0}); }

void kvg_rows_scale_zeros_by_1(const kvg_defect_site *s)
{
    uint8_t one[4] = {0};
    write_one(s, one);
    scale_zeros(s, one);
}

/* 2^-9, vLLM's; 2^-33, SGLang's. */
void kvg_rows_scale_zeros_by_least(const kvg_defect_site *s)
{
    const bool power = format_of(s->problem, s->side)->scales == KVG_SCALES_E8M0;
    scale_zeros(s, (const uint8_t[4]){power ? 0x5E : 0x01});
}

static void clip(float *x, uint32_t n, float limit)
{
    for (uint32_t i = 0; i < n; i++) x[i] = fabsf(x[i]) > limit ? copysignf(limit, x[i]) : x[i];
}

/* A block whose amax is 1.5 2^k at most has the exponent of the floor rule, and what was above it saturates. */
static void clip_blocks(const kvg_defect_site *s, float *x)
{
    const uint32_t block = format_of(s->problem, s->side)->block;
    for (uint32_t i = 0; i < s->problem->head_dim; i += block) {
        int k;
        const float amax = largest(x + i, block);
        if (!(amax > 0) || !isfinite(amax)) continue;
        frexpf(amax, &k);
        clip(x + i, block, ldexpf(1.5f, k - 1));
    }
}

void kvg_rows_floor(const kvg_defect_site *s)
{
    if (!kvg_rows_has_dialect(s->problem, s->side, KVG_ROWS_FLOOR)) change_rows(s, clip_blocks);
}

static void clip_half(const kvg_defect_site *s, float *x)
{
    const float amax = largest(x, s->problem->head_dim / 2);
    if (amax > 0) clip(x, s->problem->head_dim, amax);
}

void kvg_rows_amax_of_half(const kvg_defect_site *s) { change_rows(s, clip_half); }

static void divide_first(const kvg_defect_site *s, float *x)
{
    const float g = kvg_rows_tensor_scale(s);
    for (uint32_t i = 0; i < s->problem->head_dim; i++) x[i] /= g;
    uint16_t codes[KVG_MAX_HEAD_DIM];
    kvg_reference_store(KVG_DTYPE_BF16, x, s->problem->head_dim, codes);
    kvg_reference_load(KVG_DTYPE_BF16, codes, s->problem->head_dim, x);
}

void kvg_rows_bf16_quotient(const kvg_defect_site *s)
{
    change_rows(s, divide_first);
    multiply_tensor_scale(s, 1 / kvg_rows_tensor_scale(s));
}

/* Codes of E2M1 from x and the scale byte of its block. */
static void recode(const kvg_defect_site *s, unsigned (*code_of)(float x, uint8_t scale, float g, unsigned code))
{
    const uint32_t D = s->problem->head_dim, block = format_of(s->problem, s->side)->block;
    const float g = kvg_rows_tensor_scale(s);
    for (size_t row = 0; row < kvg_rows_count(s); row++) {
        float x[KVG_MAX_HEAD_DIM];
        uint8_t *codes = (uint8_t *)s->tensor->data + row * D / 2;
        const uint8_t *scales = (const uint8_t *)s->scales[s->side]->data + row * D / block;
        kvg_rows_load(s, row, x);
        for (uint32_t i = 0; i < D; i++) {
            const unsigned shift = i % 2 * 4, code = codes[i / 2] >> shift & 15u;
            const unsigned wrong = code_of(x[i], scales[i / block], g, code);
            codes[i / 2] = (uint8_t)((codes[i / 2] & ~(15u << shift)) | wrong << shift);
        }
    }
}

static unsigned multiplied(float x, uint8_t scale, float g, unsigned code)
{
    (void)code;
    const float factor = (float)kvg_float_value(KVG_CODES_E4M3, scale) * g;
    return kvg_float_code(KVG_CODES_E2M1, x * factor, KVG_TIES_EVEN);
}

static unsigned divided_by_0(float x, uint8_t scale, float g, unsigned code)
{
    (void)g;
    if (scale) return code;
    return x != 0 && !isnan(x) ? (code & 8) | 7 : 7;
}

void kvg_rows_not_inverted(const kvg_defect_site *s) { recode(s, multiplied); }
void kvg_rows_divide_by_0(const kvg_defect_site *s) { recode(s, divided_by_0); }
