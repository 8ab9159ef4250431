#include "harness/trial/judge/elsewhere.h"

uint32_t kvg_elsewhere_block(const kvg_elsewhere *e, uint32_t block)
{
    const uint64_t near_last = e->question->c->problem.paging.blocks - 1u, last = e->blocks - 1u;
    const uint32_t spread = (uint32_t)(near_last ? block * last / near_last : last);
    return e->backwards ? (uint32_t)last - spread : spread;
}

int64_t kvg_elsewhere_slot(const kvg_elsewhere *e, int64_t slot)
{
    const int64_t B = e->question->c->problem.paging.block_tokens;
    return slot < 0 ? slot : (int64_t)kvg_elsewhere_block(e, (uint32_t)(slot / B)) * B + slot % B;
}

int32_t kvg_elsewhere_entry(const kvg_elsewhere *e, int32_t entry)
{
    const bool real = entry >= 0 && (uint32_t)entry < e->question->c->problem.paging.blocks;
    return real ? (int32_t)kvg_elsewhere_block(e, (uint32_t)entry) : entry;
}

size_t kvg_elsewhere_rows(const kvg_elsewhere *e, kvg_way how, const kvg_row_map *near, const kvg_row_map *far,
                          uint8_t *here, uint8_t *there)
{
    const kvg_question *d = e->question;
    const kvg_problem *p = &d->c->problem;
    const uint32_t B = p->paging.block_tokens, layer = p->paging.layer;
    size_t different = 0;
    for (size_t i = 0; i < (size_t)d->rows.tokens * p->kv_heads; i++) {
        if (d->owned[i / p->kv_heads] < 0) continue;
        const uint64_t slot = (uint64_t)d->owned[i / p->kv_heads];
        const uint32_t head = (uint32_t)(i % p->kv_heads), offset = (uint32_t)(slot % B);
        const uint32_t block = (uint32_t)(slot / B), other = kvg_elsewhere_block(e, block);
        for (uint32_t byte = 0; byte < near->bytes; byte++) {
            uint8_t *a = &here[kvg_rows_place(near, layer, block, head, offset, byte)];
            uint8_t *b = &there[kvg_rows_place(far, layer, other, head, offset, byte)];
            different += *a != *b;
            if (how == KVG_PUT) *b = *a;
            if (how == KVG_TAKE_AND_CLEAR) *a = *b;
            if (how != KVG_PUT) *b = 0;
        }
    }
    return different;
}
