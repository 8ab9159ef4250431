/* Every geometry and option that kvg_problem_check refuses on a paged layout, and what it says. */
#include "tests/reference/layout/test_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/problem.h"

/* A legal problem on every layout: every refusal below is one or two fields away from it. */
static kvg_problem legal(kvg_layout layout)
{
    const bool mla = kvg_layout_get(layout)->shared == KVG_SHARED_ALWAYS, rows = layout == KVG_LAYOUT_ROWS;
    kvg_problem p = {.op = rows ? KVG_OP_QUANTISE : KVG_OP_APPEND, .layout = layout, .dtype = KVG_DTYPE_BF16,
                     .tokens = 3, .kv_heads = mla ? 1 : 2, .head_dim = 128};
    p.storage[KVG_K] = p.storage[KVG_V] = (kvg_storage){KVG_FORMAT_NVFP4, "canonical"};
    if (rows) return p;
    p.paging = (kvg_paging){.layers = 2, .layer = 1, .blocks = 3, .block_tokens = 16, .shared_kv = mla};
    p.paging.v_dim = mla ? 64 : 0;
    const bool whole_bytes = kvg_problem_check(&p) != KVG_OK; /* a page that has no elements of 4 bits */
    if (whole_bytes) p.storage[KVG_K].format = p.storage[KVG_V].format = KVG_FORMAT_BF16;
    return p;
}

/* A field of kvg_problem and the number to put there. */
typedef struct change {
    size_t offset, bytes;
    uint32_t number;
} change;

#define SET(field, number) {offsetof(kvg_problem, field), sizeof((kvg_problem *)0)->field, number}
#define K_FORMAT(ENUM) SET(storage[KVG_K].format, KVG_FORMAT_##ENUM)
#define V_FORMAT(ENUM) SET(storage[KVG_V].format, KVG_FORMAT_##ENUM)

static void apply(kvg_problem *p, const change *c)
{
    const bool flag = c->number != 0;
    if (c->bytes == sizeof flag) memcpy((char *)p + c->offset, &flag, sizeof flag);
    if (c->bytes == sizeof c->number) memcpy((char *)p + c->offset, &c->number, sizeof c->number);
}

#define NO_PADDING(LAYOUT) \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.row_padding, 1)}, "row_padding is 1, but the text has no +row: ["}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.data_padding, 1)}, "data_padding is 1, but the text has no +data: ["}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.scale_padding, 1)}, "scale_padding is 1, but the text has no +scale: ["}
#define DATA_PADDING(LAYOUT) \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.data_padding, 1)}, NULL}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.row_padding, 1)}, "row_padding is 1, but the text has no +row: ["}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.scale_padding, 1)}, "scale_padding is 1, but the text has no +scale: ["}
#define ALL_PADDING(LAYOUT) \
    {KVG_LAYOUT_##LAYOUT, \
     {SET(paging.data_padding, 1), SET(paging.row_padding, 1), SET(paging.scale_padding, 1)}, NULL}
#define LINEAR(LAYOUT) {KVG_LAYOUT_##LAYOUT, {SET(paging.v_scale_swizzle, 1)}, "keeps V scales linear"}
#define SWIZZLE(LAYOUT) \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.v_scale_swizzle, 1)}, NULL}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.v_scale_swizzle, 1), K_FORMAT(E4M3)}, NULL}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.v_scale_swizzle, 1), K_FORMAT(INT4), V_FORMAT(MX16)}, NULL}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.v_scale_swizzle, 1), V_FORMAT(E4M3)}, "one scale byte per 16 elements; e4m3"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.v_scale_swizzle, 1), V_FORMAT(INT4)}, "one scale byte per 16 elements; int4"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.v_scale_swizzle, 1), V_FORMAT(F16)}, "one scale byte per 16 elements; f16"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.v_scale_swizzle, 1), V_FORMAT(MXFP4)}, "one scale byte per 16 elements; mxfp4"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.v_scale_swizzle, 1), SET(head_dim, 96)}, "head_dim % 64 = 0, not 16 and 96"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.v_scale_swizzle, 1), SET(head_dim, 576)}, NULL}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.v_scale_swizzle, 1), SET(paging.block_tokens, 2)}, \
     "block_tokens % 4 = 0 and head_dim % 64 = 0, not 2 and 128"}
#define APART(LAYOUT) \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.shared_kv, 1), SET(paging.v_dim, 64)}, "keeps K and V apart: no shared_kv"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.v_dim, 64)}, "v_first and v_dim are for shared_kv only"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.v_first, 1)}, "v_first and v_dim are for shared_kv only"}
#define SHARED_ROW(LAYOUT) \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.shared_kv, 1), SET(paging.v_dim, 128)}, NULL}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.shared_kv, 1), SET(paging.v_dim, 64), SET(paging.v_first, 64)}, NULL}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.shared_kv, 1), SET(paging.v_dim, 64), SET(paging.v_first, 65)}, \
     "v_first 65 and v_dim 64 do not lie in head_dim 128"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.shared_kv, 1), SET(paging.v_dim, 0)}, "v_first 0 and v_dim 0"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.shared_kv, 1), SET(paging.v_dim, 129)}, "do not lie in head_dim 128"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.shared_kv, 1), SET(paging.v_dim, 2), SET(paging.v_first, UINT32_MAX)}, \
     "do not lie in head_dim"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.shared_kv, 1), SET(paging.v_dim, 64), V_FORMAT(MX16)}, "one format and dialect"}
#define COUNTS(LAYOUT) \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.layer, 2)}, "layer 2 of 2"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.layer, UINT32_MAX)}, "layer 4294967295 of 2"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.layers, 0), SET(paging.layer, 0)}, "0 layers, 3 blocks of 16 tokens"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.blocks, 0)}, "0 blocks of 16 tokens"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.blocks, (uint32_t)INT32_MAX + 1)}, "block tables are i32"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.block_tokens, 0)}, "3 blocks of 0 tokens"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(paging.blocks, INT32_MAX), SET(paging.layers, UINT32_MAX)}, "exceeds 2^63 - 1 bytes"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(kv_heads, 0)}, "kv_heads 0 must be at least 1"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(tokens, 0)}, "tokens 0 and"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(head_dim, 120)}, "head_dim 120 does not fit format nvfp4"}, \
    {KVG_LAYOUT_##LAYOUT, {K_FORMAT(INT8), V_FORMAT(INT8), SET(dtype, KVG_DTYPE_F32)}, "use f16 or bf16"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(op, KVG_OP_FLATTEN)}, "op flatten needs at least 1 sequence"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(op, KVG_OP_FLATTEN), SET(paging.sequences, 1)}, NULL}, \
    {KVG_LAYOUT_##LAYOUT, {SET(op, KVG_OP_EXPAND)}, "op expand needs at least 1 sequence"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(op, KVG_OP_EXPAND), SET(paging.sequences, 1)}, NULL}, \
    {KVG_LAYOUT_##LAYOUT, {SET(op, KVG_OP_EXPAND), SET(dtype, KVG_DTYPE_F32)}, "use f16 or bf16"}, \
    {KVG_LAYOUT_##LAYOUT, {SET(op, KVG_OP_PROBE)}, NULL}, \
    {KVG_LAYOUT_##LAYOUT, {SET(op, KVG_OP_QUANTISE)}, "op quantise works on layout rows, not on layout "}, \
    {KVG_LAYOUT_##LAYOUT, {SET(op, KVG_OP_DEQUANTISE)}, "op dequantise works on layout rows, not on layout "}, \
    {KVG_LAYOUT_##LAYOUT, {SET(op, 99)}, "op id 99 is not in core/ops.def"}

static const struct {
    kvg_layout layout;
    change changes[3]; /* bytes 0: none */
    const char *text;  /* a part of the refusal; NULL: the problem is legal */
} table[] = {
    COUNTS(TURBOMIND),  NO_PADDING(TURBOMIND),  LINEAR(TURBOMIND),  SHARED_ROW(TURBOMIND),
    COUNTS(TRTLLM),     NO_PADDING(TRTLLM),     SWIZZLE(TRTLLM),    APART(TRTLLM),
    COUNTS(NHD),        ALL_PADDING(NHD),       SWIZZLE(NHD),       APART(NHD),
    COUNTS(HND),        ALL_PADDING(HND),       SWIZZLE(HND),       APART(HND),
    COUNTS(VLLM),       DATA_PADDING(VLLM),     SWIZZLE(VLLM),      APART(VLLM),
    COUNTS(VLLM_HND),   DATA_PADDING(VLLM_HND), SWIZZLE(VLLM_HND),  APART(VLLM_HND),
    COUNTS(SLOT),       NO_PADDING(SLOT),       LINEAR(SLOT),       APART(SLOT),
    COUNTS(CONTIGUOUS), NO_PADDING(CONTIGUOUS), LINEAR(CONTIGUOUS), APART(CONTIGUOUS),
    COUNTS(RING),       NO_PADDING(RING),       LINEAR(RING),       APART(RING),
    COUNTS(MLA),        NO_PADDING(MLA),        LINEAR(MLA),        SHARED_ROW(MLA),
    {KVG_LAYOUT_TURBOMIND, {SET(paging.v_dim, 64)}, "v_first and v_dim are for shared_kv only"},
    {KVG_LAYOUT_HND, {SET(tokens, UINT32_MAX), SET(kv_heads, UINT32_MAX)}, "tensor k would have more than 2^63 - 1"},
    {KVG_LAYOUT_HND, {SET(tokens, UINT32_MAX), SET(kv_heads, 1 << 24)}, "tensor k would have more than 2^63 - 1 bytes"},
    {KVG_LAYOUT_HND, {SET(tokens, UINT32_MAX), SET(kv_heads, 1 << 22)}, NULL},
    {KVG_LAYOUT_HND, {SET(op, KVG_OP_PROBE), SET(tokens, UINT32_MAX), SET(kv_heads, UINT32_MAX)}, "tensor k_codes"},
    {KVG_LAYOUT_MLA, {SET(op, KVG_OP_FLATTEN), SET(tokens, UINT32_MAX), SET(paging.sequences, UINT32_MAX)}, "k_flat"},
    {KVG_LAYOUT_MLA, {SET(kv_heads, 2)}, "layout mla holds one row per token: set shared_kv and kv_heads 1"},
    {KVG_LAYOUT_MLA, {SET(paging.shared_kv, 0)}, "layout mla holds one row per token"},
    {KVG_LAYOUT_TRTLLM, {SET(paging.block_tokens, 24)}, "power of two as block_tokens, not 24"},
    {KVG_LAYOUT_TRTLLM, {SET(paging.block_tokens, 3)}, "power of two as block_tokens, not 3"},
    {KVG_LAYOUT_TRTLLM, {SET(paging.block_tokens, 1)}, NULL},
    {KVG_LAYOUT_HND, {SET(paging.block_tokens, 3)}, NULL},
    {KVG_LAYOUT_HND, {SET(layout, 99)}, "layout id 99 is not in core/layouts.def"},
    {KVG_LAYOUT_HND, {SET(layout, 0)}, "layout id 0 is not in core/layouts.def"},
    {KVG_LAYOUT_HND, {SET(layout, KVG_LAYOUT_ROWS)}, "op append works on a paged layout, not on layout rows"},
    {KVG_LAYOUT_ROWS, {SET(op, KVG_OP_APPEND)}, "op append works on a paged layout"},
    {KVG_LAYOUT_ROWS, {SET(op, KVG_OP_FLATTEN)}, "op flatten works on a paged layout"},
    {KVG_LAYOUT_ROWS, {SET(op, KVG_OP_PROBE)}, "op probe works on a paged layout"},
    {KVG_LAYOUT_ROWS, {SET(paging.shared_kv, 1), SET(paging.v_dim, 64)}, "layout rows"},
    {KVG_LAYOUT_ROWS, {SET(paging.block_tokens, 16)}, "layout rows"},
    {KVG_LAYOUT_ROWS, {SET(paging.data_padding, 1)}, "layout rows"},
};
enum { ROWS = sizeof table / sizeof table[0] };

static bool row_holds(size_t row)
{
    kvg_problem p = legal(table[row].layout);
    for (size_t i = 0; i < 3 && table[row].changes[i].bytes; i++) apply(&p, &table[row].changes[i]);
    const kvg_status s = kvg_problem_check(&p);
    const bool refused = s == KVG_ERR_INVALID && table[row].text && strstr(kvg_error_text(), table[row].text);
    const bool holds = table[row].text ? refused : s == KVG_OK;
    if (!holds) {
        print_error("  row %zu, layout %s: wanted '%s', got %s '%s'\n", row, kvg_layout_get(table[row].layout)->name,
                    table[row].text ? table[row].text : "accepted", kvg_status_name(s), s ? kvg_error_text() : "");
    }
    return holds;
}

void test_refusals_table(void **state)
{
    (void)state;
    size_t refusals = 0, failures = 0;
    for (kvg_layout layout = KVG_LAYOUT_ROWS; layout < KVG_LAYOUT_END; layout++) {
        const kvg_problem p = legal(layout);
        assert_int_equal(kvg_problem_check(&p), KVG_OK);
    }
    kvg_problem p = legal(KVG_LAYOUT_MLA);
    p.storage[KVG_V].dialect = "modelopt";
    assert_int_equal(kvg_problem_check(&p), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "one format and dialect"));
    for (size_t i = 0; i < ROWS; i++) {
        failures += !row_holds(i);
        refusals += table[i].text != NULL;
    }
    printf("refusals: %zu, and %zu neighbours accepted\n", refusals + 1, ROWS - refusals);
    assert_int_equal(failures, 0);
}
