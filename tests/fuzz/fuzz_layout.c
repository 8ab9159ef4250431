/* Any bytes as a layout's text (docs/spec/layouts.md section 8), of a cache that the first bytes choose. They may be
 * letters, so that a seed is a file of text. What is read places bytes where the walk of second/slow_layout.c finds
 * them, inside of their pools, which have the walk's sizes. What is refused leaves one line. */
#include <string.h>

#include "core/problem.h"
#include "core/rng.h"
#include "second/slow_layout.h"
#include "tests/fuzz/fuzz_require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CHOICES = 8, BYTES = 16, TEXT = 1024 };

/* A byte of a row that draw `i` chooses. */
static void check_byte(kvg_problem *p, kvg_side side, bool scales, uint64_t i)
{
    const kvg_row_map *m = scales ? &p->map.scales[side] : &p->map.codes[side];
    if (!m->bytes) return;
    const slow_byte b = {side, kvg_rng_below(0, 0, i, p->paging.blocks), kvg_rng_below(0, 1, i, p->kv_heads),
                         kvg_rng_below(0, 2, i, p->paging.block_tokens), kvg_rng_below(0, 3, i, m->bytes)};
    p->paging.layer = (uint32_t)kvg_rng_below(0, 4, i, p->paging.layers);
    const slow_place at = scales ? slow_place_of_scale(p, b) : slow_place_of_code(p, b);
    const uint64_t place = kvg_rows_place(m, p->paging.layer, (uint32_t)b.block, (uint32_t)b.head, (uint32_t)b.offset,
                                          (uint32_t)b.index);
    require(at.pool == m->pool && at.side == m->side && at.at == place);
    require(place < p->pool_bytes[m->side][m->pool == KVG_ROLE_SCALE_POOL]);
}

static void check_layout(kvg_problem *p)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        require(p->pool_bytes[side][0] == slow_pool_bytes(p, KVG_ROLE_DATA_POOL, (kvg_side)side));
        require(p->pool_bytes[side][1] == slow_pool_bytes(p, KVG_ROLE_SCALE_POOL, (kvg_side)side));
        for (uint64_t i = 0; i < BYTES && side < kvg_problem_sides(p); i++) {
            check_byte(p, (kvg_side)side, false, i);
            check_byte(p, (kvg_side)side, true, i);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT] = "";
    const kvg_layout_text own = {"fuzz", text};
    size_t formats;
    if (size < CHOICES) return 0;
    memcpy(text, data + CHOICES, size - CHOICES < TEXT - 1 ? size - CHOICES : TEXT - 1);
    text[strcspn(text, "\n")] = 0;
    const kvg_format_info *f = kvg_format_table(&formats);
    const bool shared = data[7] % 4 == 1;
    kvg_problem p = {.op = KVG_OP_PROBE, .layout = KVG_LAYOUT_TEXT, .text = &own, .dtype = KVG_DTYPE_BF16, .tokens = 1,
                     .kv_heads = shared ? 1 : 1 + data[0] % 4, .head_dim = 64 + data[1] % 3 * 64,
                     .storage = {{f[data[2] % formats].format, "canonical"},
                                 {f[data[shared ? 2 : 3] % formats].format, "canonical"}},
                     .paging = {.layers = 1 + data[4] % 4, .blocks = 1 + data[5] % 4,
                                .block_tokens = 1 + data[6] % 32, .shared_kv = shared, .v_dim = shared ? 32 : 0}};
    if (strstr(text, "+row")) p.paging.row_padding = 5;
    if (strstr(text, "+data")) p.paging.data_padding = 7;
    if (strstr(text, "+scale")) p.paging.scale_padding = 9;
    kvg_status s = kvg_problem_lay_out(&p);
    if (!s) s = kvg_problem_check(&p);
    if (s) require_line(kvg_error_text());
    else check_layout(&p);
    return 0;
}
