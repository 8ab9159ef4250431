/* The addresses of the kernels (gpu/rows/gpu_layout.c) against the reference's, byte by byte, without a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "gpu/rows/gpu_layout.h"
#include "reference/reference.h"

enum { PROBLEMS = 120000, PLACES = 64, SEED = 90 };

static uint32_t below(uint64_t problem, uint64_t draw, uint64_t n)
{
    return (uint32_t)kvg_rng_below(SEED, problem, draw, n);
}

/* A problem of any layout, with whatever the layout may have. Not all of them can be. */
static kvg_problem draw_problem(uint64_t i)
{
    static const uint32_t dims[] = {16, 64, 80, 96, 128, 576};
    size_t layouts, formats;
    const kvg_layout_info *layout = &kvg_layout_table(&layouts)[0];
    const kvg_format_info *format = &kvg_format_table(&formats)[0];
    layout += below(i, 0, layouts);
    const uint32_t dim = dims[below(i, 1, 6)], layers = 1 + below(i, 2, 4), same = below(i, 3, 2);
    kvg_problem p = {.op = KVG_OP_PROBE, .layout = layout->layout, .dtype = KVG_DTYPE_BF16, .tokens = 1,
                     .kv_heads = 1 + below(i, 4, 9), .head_dim = dim};
    p.storage[KVG_K] = (kvg_storage){format[below(i, 5, formats)].format, "canonical"};
    p.storage[KVG_V] = same ? p.storage[KVG_K] : (kvg_storage){format[below(i, 6, formats)].format, "canonical"};
    p.paging = (kvg_paging){.layers = layers, .layer = below(i, 7, layers), .blocks = 1 + below(i, 8, 70000),
                            .block_tokens = 1u << below(i, 9, 9), .sequences = 1,
                            .v_scale_swizzle = below(i, 10, 3) == 0};
    if (strstr(layout->text, "+row")) p.paging.row_padding = below(i, 11, 2) * 16;
    if (strstr(layout->text, "+scale")) p.paging.scale_padding = below(i, 12, 40);
    if (strstr(layout->text, "+data")) p.paging.data_padding = below(i, 13, 40);
    if (layout->shared == KVG_SHARED_ALWAYS || (layout->shared && below(i, 14, 3) == 0)) {
        p.paging.shared_kv = true;
        p.paging.v_dim = dim / 2;
        p.kv_heads = layout->shared == KVG_SHARED_ALWAYS ? 1 : p.kv_heads;
        p.storage[KVG_V] = p.storage[KVG_K];
    }
    return p;
}

static uint64_t place(const kvg_gpu_rows *rows, uint32_t block, uint32_t head, uint32_t offset, uint32_t byte)
{
    uint32_t token = offset;
    if (rows->group) {
        token = offset - offset % 4 + byte / rows->group;
        byte = byte % rows->group * 4 + offset % 4;
    }
    return rows->base + block * rows->block + head * rows->head + token * rows->token + byte;
}

static void compare(const kvg_problem *p, uint64_t i, const kvg_gpu_rows *ours, const kvg_row_map *theirs)
{
    assert_int_equal(ours->bytes, theirs->bytes);
    if (ours->bytes == 0) return;
    assert_int_equal(ours->pool, theirs->pool);
    assert_int_equal(ours->pool_side, theirs->side);
    for (uint64_t n = 0; n < PLACES; n++) {
        const uint32_t block = n ? below(i, 20 + 4 * n, p->paging.blocks) : p->paging.blocks - 1;
        const uint32_t head = below(i, 21 + 4 * n, p->kv_heads);
        const uint32_t offset = below(i, 22 + 4 * n, p->paging.block_tokens), byte = below(i, 23 + 4 * n, ours->bytes);
        const uint64_t right = kvg_rows_place(theirs, p->paging.layer, block, head, offset, byte);
        const uint64_t got = place(ours, block, head, offset, byte);
        if (got != right) {
            fail_msg("layout %s, block %u, head %u, offset %u, byte %u: %llu, not %llu",
                     kvg_layout_get(p->layout)->name, block, head, offset, byte, (unsigned long long)got,
                     (unsigned long long)right);
        }
    }
}

/* The bytes of a row, or the tokens of a block, are not one behind another by one step. */
static bool lie_apart(const kvg_row_map *codes)
{
    return codes->bytes && (codes->token[0].size || !kvg_rows_together(codes));
}

static void test_kernels_address_what_the_reference_addresses(void **state)
{
    (void)state;
    unsigned compared[KVG_LAYOUT_END] = {0}, refused[KVG_LAYOUT_END] = {0};
    size_t layouts;
    const kvg_layout_info *layout = kvg_layout_table(&layouts);
    for (uint64_t i = 0; i < PROBLEMS; i++) {
        const kvg_problem p = draw_problem(i);
        kvg_gpu_layout ours;
        kvg_layout_map theirs;
        if (kvg_problem_check(&p)) continue;
        const kvg_status s = kvg_gpu_layout_of(&p, &ours);
        kvg_rows_map(&p, &theirs);
        if (lie_apart(&theirs.codes[KVG_K]) || lie_apart(&theirs.codes[KVG_V])) {
            assert_int_equal(s, KVG_ERR_UNIMPLEMENTED);
            refused[p.layout]++;
            continue;
        }
        assert_int_equal(s, KVG_OK);
        for (int side = KVG_K; side < kvg_problem_sides(&p); side++) {
            compare(&p, i, &ours.codes[side], &theirs.codes[side]);
            compare(&p, i, &ours.scales[side], &theirs.scales[side]);
        }
        compared[p.layout]++;
    }
    for (size_t i = 0; i < layouts; i++) {
        if (!layout[i].paged) continue;
        const kvg_layout l = layout[i].layout;
        printf("%-17s %u problems, %u refused\n", layout[i].name, compared[l], refused[l]);
        assert_true(compared[l] + refused[l] > 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kernels_address_what_the_reference_addresses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
