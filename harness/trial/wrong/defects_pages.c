#include "harness/trial/wrong/defects_pages.h"

#include <string.h>

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

void kvg_pages_last_unused(const kvg_defect_site *s)
{
    use_negative(s, (int64_t)s->problem->paging.blocks * s->problem->paging.block_tokens - 1, -1);
}

void kvg_pages_first_unused(const kvg_defect_site *s)
{
    use_negative(s, 0, 1);
}

static void move_slots(const kvg_defect_site *s, int64_t blocks)
{
    const int64_t B = s->problem->paging.block_tokens, end = B * s->problem->paging.blocks;
    int64_t *slots = s->tensor->data;
    for (uint64_t i = 0; i < s->tensor->shape[0]; i++) {
        if (slots[i] >= 0) slots[i] = (slots[i] + blocks * B + end) % end;
    }
}

void kvg_pages_next(const kvg_defect_site *s) { move_slots(s, 1); }
void kvg_pages_before(const kvg_defect_site *s) { move_slots(s, -1); }

static void move_entries(const kvg_defect_site *s, int64_t blocks)
{
    const int64_t N = s->problem->paging.blocks;
    int32_t *table = s->tensor->data;
    for (size_t i = 0; i < s->tensor->bytes / sizeof *table; i++) {
        if (table[i] >= 0 && table[i] < N) table[i] = (int32_t)((table[i] + blocks + N) % N);
    }
}

void kvg_pages_next_entry(const kvg_defect_site *s) { move_entries(s, 1); }
void kvg_pages_entry_before(const kvg_defect_site *s) { move_entries(s, -1); }

void kvg_pages_repeat(const kvg_defect_site *s)
{
    int32_t *table = s->tensor->data;
    const uint64_t width = s->tensor->shape[1];
    for (uint64_t i = 0; i < s->tensor->shape[0] * width; i++) {
        if (i % width % 2) table[i] = table[i - 1];
    }
}

void kvg_pages_round_up(const kvg_defect_site *s)
{
    const int64_t B = s->problem->paging.block_tokens;
    int32_t *lengths = s->tensor->data;
    for (uint64_t i = 0; i < s->tensor->shape[0]; i++) {
        const int64_t whole = (lengths[i] + B - 1) / B * B;
        lengths[i] = (int32_t)(whole < s->problem->tokens ? whole : s->problem->tokens);
    }
}

void kvg_pages_first_empty(const kvg_defect_site *s)
{
    *(int32_t *)s->tensor->data = 0;
}

void kvg_pages_last_for_longest(const kvg_defect_site *s)
{
    int32_t *lengths = s->tensor->data;
    const int32_t last = lengths[s->tensor->shape[0] - 1];
    for (uint64_t i = 0; i < s->tensor->shape[0]; i++) {
        if (lengths[i] > last) lengths[i] = last;
    }
}

static void add_to_all(const kvg_defect_site *s, int32_t least, int32_t step, int32_t most)
{
    int32_t *numbers = s->tensor->data;
    for (uint64_t i = 0; i < s->tensor->shape[0]; i++) {
        if (numbers[i] >= least && numbers[i] <= most) numbers[i] += step;
    }
}

void kvg_pages_token_less(const kvg_defect_site *s) { add_to_all(s, 1, -1, INT32_MAX); }
void kvg_pages_position_late(const kvg_defect_site *s) { add_to_all(s, 0, 1, (int32_t)s->problem->rope.positions - 2); }


/* Each sequence's last page, by its length, is the one before it. */
void kvg_pages_stale_tail(const kvg_defect_site *s)
{
    const kvg_op_info *op = kvg_op_get(s->problem->op);
    const int32_t *lengths = s->in[kvg_roles_index(op->inputs, KVG_ROLE_LENGTHS, KVG_K)].data;
    const int32_t B = (int32_t)s->problem->paging.block_tokens;
    int32_t *table = s->tensor->data;
    for (uint64_t i = 0; i < s->tensor->shape[0]; i++) {
        const int64_t last = (lengths[i] + (int64_t)B - 1) / B - 1;
        if (last < 1 || last >= (int64_t)s->tensor->shape[1]) continue;
        int32_t *entry = table + i * s->tensor->shape[1] + (uint64_t)last;
        entry[0] = entry[-1];
    }
}

void kvg_pages_first_table(const kvg_defect_site *s)
{
    const size_t row = s->tensor->bytes / (size_t)s->tensor->shape[0];
    uint8_t *table = s->tensor->data;
    for (size_t i = row; i < s->tensor->bytes; i += row) memcpy(table + i, table, row);
}

/* The columns of a table up to the last one in which two sequences have the same block; 0: there is none. */
static uint64_t shared_columns(const kvg_tensor *t, uint64_t a, uint64_t b)
{
    const int32_t *table = t->data;
    uint64_t shared = 0;
    for (uint64_t i = 0; i < t->shape[1]; i++) {
        const int32_t block = table[a * t->shape[1] + i];
        if (block >= 0 && block == table[b * t->shape[1] + i]) shared = i + 1;
    }
    return shared;
}

/* The first sequence that shares a block with sequence `of`, or `of` itself. */
static uint64_t sharer(const kvg_tensor *t, uint64_t of)
{
    uint64_t first = 0;
    while (first < of && !shared_columns(t, first, of)) first++;
    return first;
}

void kvg_pages_by_prefix(const kvg_defect_site *s)
{
    int32_t *table = s->tensor->data;
    const uint64_t width = s->tensor->shape[1];
    for (uint64_t i = 0; i < s->tensor->shape[0]; i++)
        memmove(table + i * width, table + sharer(s->tensor, i) * width, width * sizeof *table);
}

void kvg_pages_share_parting(const kvg_defect_site *s)
{
    int32_t *table = s->tensor->data;
    const uint64_t width = s->tensor->shape[1];
    for (uint64_t i = 0; i < s->tensor->shape[0]; i++) {
        const uint64_t other = sharer(s->tensor, i), column = shared_columns(s->tensor, other, i);
        if (other < i && column < width && table[other * width + column] >= 0)
            table[i * width + column] = table[other * width + column];
    }
}
