#include "reference/attention_profile.h"
#include "tests/second/decode_compare.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reference/reference.h"
#include "second/slow_attention.h"
#include "second/slow_side.h"

const kvg_role decode_outputs[DECODE_OUTPUTS] = {KVG_ROLE_OUT, KVG_ROLE_LSE};

/* The profiles of chips in turn, not those of other kernels. */
static kvg_profile chip_at(uint64_t number)
{
    size_t count;
    const kvg_profile_info *table = kvg_profile_table(&count);
    size_t i = number % count;
    while (!kvg_profile_is_chip(&table[i]) || !kvg_profile_is_own(&table[i])) i = (i + 1) % count;
    return table[i].profile;
}

decode_wish decode_wish_of(kvg_format format, size_t dialect, uint64_t number)
{
    static const uint32_t longest[] = {600, 290, 80, 290, 80, 130, 40, 20};
    enum { LAYOUTS = KVG_LAYOUT_MLA + 1 - KVG_LAYOUT_TURBOMIND }; /* test_paged_pair.c has those that came later */
    const kvg_profile chip = chip_at(number / 10);
    return (decode_wish){
        .layout = KVG_LAYOUT_TURBOMIND + (kvg_layout)(number % LAYOUTS),
        .k = {format, kvg_reference_dialect(format, dialect)->name},
        .dtype = number / 3 % 2 ? KVG_DTYPE_BF16 : KVG_DTYPE_F16,
        .profile = kvg_profile_has_operands(chip, format) ? chip : KVG_PROFILE_SIMT_FMA_V1,
        .longest = number % 50 == 49 ? 3000 : longest[number / 6 % 8],
    };
}

decode_wish decode_simt_wish_of(kvg_format format, size_t dialect, uint64_t number)
{
    decode_wish wish = decode_wish_of(format, dialect, number);
    wish.profile = KVG_PROFILE_SIMT_FMA_V1;
    if (number % 4 == 3 && type_fits(format, KVG_DTYPE_F32)) wish.dtype = KVG_DTYPE_F32;
    return wish;
}

/* Of the kernel of another project, one of two. A third of the caches are e4m3 if it takes them. */
static decode_wish other_wish(uint64_t number, kvg_profile one, kvg_profile other, bool takes_e4m3)
{
    static const uint32_t longest[] = {420, 130, 290, 40, 200, 600};
    enum { WISH_STREAM = 7500000, LAYOUTS = KVG_LAYOUT_MLA - KVG_LAYOUT_TURBOMIND }; /* K and V share no row */
    dice d = {WISH_STREAM + number, 0};
    const kvg_layout layout = KVG_LAYOUT_TURBOMIND + (kvg_layout)roll(&d, LAYOUTS);
    const bool narrow = roll(&d, 2), second = roll(&d, 2);
    decode_wish wish = {
        .layout = layout,
        .k = {narrow ? KVG_FORMAT_BF16 : KVG_FORMAT_F16, "canonical"},
        .dtype = narrow ? KVG_DTYPE_BF16 : KVG_DTYPE_F16,
        .profile = second ? other : one,
        .longest = longest[roll(&d, sizeof longest / sizeof longest[0])],
    };
    if (takes_e4m3 && roll(&d, 3) == 0) {
        wish.k = (kvg_storage){KVG_FORMAT_E4M3, roll(&d, 2) ? "canonical" : "trtllm"};
        wish.dtype = KVG_DTYPE_BF16;
    }
    return wish;
}

decode_wish decode_fa3_wish_of(kvg_format format, size_t dialect, uint64_t number)
{
    (void)format;
    (void)dialect; /* the cache is of the model type */
    return other_wish(number, KVG_PROFILE_SM90_FA3_20260810_PAGES, KVG_PROFILE_SM90_FA3_20260810_CONTIGUOUS, true);
}

decode_wish decode_fi2_wish_of(kvg_format format, size_t dialect, uint64_t number)
{
    (void)format;
    (void)dialect;
    return other_wish(number, KVG_PROFILE_SM90_FLASHINFER_FA2_0_7_2, KVG_PROFILE_SM90_FLASHINFER_FA2_0_7_4, true);
}

decode_wish decode_fi3_wish_of(kvg_format format, size_t dialect, uint64_t number)
{
    (void)format;
    (void)dialect;
    return other_wish(number, KVG_PROFILE_SM90_FLASHINFER_FA3_0_7_2, KVG_PROFILE_SM90_FLASHINFER_FA3_0_7_2, false);
}

decode_wish decode_one_wish_of(kvg_format format, size_t dialect, uint64_t number)
{
    (void)format;
    (void)dialect;
    return other_wish(number, KVG_PROFILE_SM90_FLASHINFER_ONE_0_7_2, KVG_PROFILE_SM90_FLASHINFER_ONE_0_7_2, false);
}

static void decode_print(const kit *k, uint64_t stream)
{
    const kvg_problem *p = &k->problem;
    const kvg_attention *a = &p->attention;
    const kvg_paging *g = &p->paging;
    const kvg_profile_info *profile = kvg_profile_get(p->profile);
    print_error("  stream %llu, %s: %s, T %s, K %s %s, V %s %s, H %u of %u, D %u, B %u, window %u, cap %a, scale %a, "
                "sinks %d, shared %d (%u + %u)",
                (unsigned long long)stream, profile ? profile->name : "exact", kvg_layout_get(p->layout)->name,
                kvg_dtype_name(p->dtype), kvg_format_get(p->storage[KVG_K].format)->name, p->storage[KVG_K].dialect,
                kvg_format_get(p->storage[KVG_V].format)->name, p->storage[KVG_V].dialect, a->query_heads, p->kv_heads,
                p->head_dim, g->block_tokens, a->window, (double)a->softcap, (double)a->scale, a->sinks, g->shared_kv,
                g->v_first, g->v_dim);
    for (int side = KVG_K; side <= KVG_V; side++) {
        uint32_t bits = 0;
        if (k->tensor[KVG_ROLE_TENSOR_SCALE][side].bytes) {
            memcpy(&bits, k->tensor[KVG_ROLE_TENSOR_SCALE][side].data, sizeof bits);
        }
        print_error(", g 0x%08X", bits);
    }
    for (size_t i = 0; i < g->sequences; i++) {
        print_error(", length %d queries %d", ((const int32_t *)k->tensor[KVG_ROLE_LENGTHS][KVG_K].data)[i],
                    ((const int32_t *)k->tensor[KVG_ROLE_QUERY_LENGTHS][KVG_K].data)[i]);
    }
    print_error("\n");
}

slow_number decode_element(const kvg_tensor *tensor, size_t i)
{
    slow_number n;
    slow_load(tensor->dtype, (const uint8_t *)tensor->data + i * kvg_dtype_bytes(tensor->dtype), 1, &n);
    return n;
}

size_t decode_elements(const kvg_tensor *tensor)
{
    return tensor->bytes / kvg_dtype_bytes(tensor->dtype);
}

uint64_t decode_bits(const kvg_tensor *tensor, size_t i)
{
    const size_t width = kvg_dtype_bytes(tensor->dtype);
    uint64_t bits = 0;
    memcpy(&bits, (const uint8_t *)tensor->data + i * width, width);
    return bits;
}

void decode_show(coverage *c, const kit *k, uint64_t stream, kvg_role role, size_t i, uint64_t golden, uint64_t slow)
{
    enum { SHOWN = 12 };
    if (c->shown++ >= SHOWN) return;
    const kvg_tensor *tensor = &k->tensor[role][KVG_K];
    const size_t inner = role == KVG_ROLE_OUT ? (size_t)tensor->shape[2] : 1;
    if (c->shown_stream != stream) decode_print(k, stream);
    c->shown_stream = stream;
    print_error("    %s of query %zu head %zu element %zu: golden %llX, slow %llX\n", kvg_tensor_name(role, KVG_K),
                i / inner / (size_t)tensor->shape[1], i / inner % (size_t)tensor->shape[1], i % inner,
                (unsigned long long)golden, (unsigned long long)slow);
}

void decode_golden(kit *k, uint64_t stream)
{
    if (!kit_run(k, golden_backend(), KVG_OP_DECODE)) return;
    decode_print(k, stream);
    fail_msg("golden: %s", kvg_error_text());
}

/* The same inputs, by the second reference. */
kit decode_slow(const kit *golden, slow_decode_fault fault)
{
    kit slow = kit_open_problem(&golden->problem);
    kvg_tensor in[KVG_MAX_TENSORS], out[KVG_MAX_TENSORS];
    kit_copy(golden, &slow);
    kit_list(&slow, kvg_op_get(KVG_OP_DECODE)->inputs, in);
    kit_list(&slow, kvg_op_get(KVG_OP_DECODE)->outputs, out);
    for (size_t i = 0; i < 2; i++) memset(out[i].data, 0xA5, out[i].bytes);
    kvg_status status = fault ? slow_decode_faulty(&slow.problem, in, out, fault)
                               : kit_run(&slow, slow_backend(), KVG_OP_DECODE);
    if (status) fail_msg("slow: %s", kvg_error_text());
    return slow;
}

kit decode_end(const kit *golden, int direction)
{
    kit end = kit_open_problem(&golden->problem);
    kvg_tensor in[KVG_MAX_TENSORS], out[KVG_MAX_TENSORS];
    kit_copy(golden, &end);
    kit_list(&end, kvg_op_get(KVG_OP_DECODE)->inputs, in);
    kit_list(&end, kvg_op_get(KVG_OP_DECODE)->outputs, out);
    if (slow_attention(&end.problem, in, out, direction)) fail_msg("slow: %s", kvg_error_text());
    return end;
}

uint64_t decode_differing(coverage *c, const kit *golden, const kit *slow, uint64_t stream)
{
    uint64_t differing = 0;
    for (size_t o = 0; o < DECODE_OUTPUTS; o++) {
        const kvg_tensor *a = &golden->tensor[decode_outputs[o]][KVG_K], *b = &slow->tensor[decode_outputs[o]][KVG_K];
        for (size_t i = 0; i < decode_elements(a); i++) {
            const bool nan = decode_element(a, i).kind == SLOW_NAN, both = nan && decode_element(b, i).kind == SLOW_NAN;
            const bool same = both || decode_bits(a, i) == decode_bits(b, i);
            differing += !same;
            if (!c) continue;
            *(o ? &c->lse : &c->outputs) += 1;
            c->nan += nan;
            c->nonzero += o == 0 && !slow_is_zero(decode_element(a, i));
            if (!same) decode_show(c, golden, stream, decode_outputs[o], i, decode_bits(a, i), decode_bits(b, i));
        }
    }
    return differing;
}

bool decode_inside(slow_number low, slow_number x, slow_number high)
{
    if (x.kind == SLOW_NAN) return false;
    if (slow_is_zero(x)) x.negative = false; /* a zero has any sign */
    if (slow_is_zero(low)) low.negative = true;
    if (slow_is_zero(high)) high.negative = false;
    return slow_compare(low, x) <= 0 && slow_compare(x, high) <= 0;
}
