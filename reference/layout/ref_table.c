#include "reference/layout/ref_table.h"

kvg_status ref_table_init(const kvg_problem *p, const kvg_tensor *block_table, const kvg_tensor *lengths,
                          ref_table *out)
{
    *out = (ref_table){p, block_table->data, lengths->data, kvg_layout_table_width(p->layout, &p->paging, p->tokens),
                       kvg_problem_blocks(p)};
    const uint32_t most = kvg_problem_longest(p);
    for (uint32_t i = 0; i < p->paging.sequences; i++) {
        if (out->lengths[i] < 0 || (uint32_t)out->lengths[i] > most) {
            return kvg_fail(KVG_ERR_INVALID, "lengths[%u] is %d, not 0 to %u", i, out->lengths[i], most);
        }
    }
    return KVG_OK;
}

int64_t ref_table_slot(const ref_table *t, uint32_t sequence, uint32_t position)
{
    const kvg_paging *g = &t->p->paging;
    const int64_t length = t->lengths[sequence];
    const uint32_t column = t->rule == KVG_BLOCKS_TABLE ? position / g->block_tokens : 0;
    if (position >= length) return -1;
    if (t->rule == KVG_BLOCKS_RING && position + (int64_t)g->block_tokens < length) return -1; /* overwritten */
    const int64_t block = t->blocks[(size_t)sequence * t->width + column];
    if (block < 0 || block >= g->blocks) return -1;
    return block * g->block_tokens + position % g->block_tokens;
}
