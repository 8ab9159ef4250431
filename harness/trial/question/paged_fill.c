#include "harness/trial/question/paged_fill.h"

#include <stdlib.h>

#include "core/rng.h"

enum { STREAM_BLOCKS = 1 << 20, STREAM_HISTORY, STREAM_DEAD, STREAM_GARBAGE, STREAM_ROWS, STREAM_PARTS, STREAM_LAST };

/* The generator while it works: physical blocks are handed out in random order, the pool's last one among them. */
typedef struct spread {
    const kvg_case *c;
    const kvg_problem *p;
    uint64_t seed;
    uint32_t *order;
    uint32_t taken;
    kvg_blocks rule;
    uint32_t *part;       /* of each sequence: a number below `sequences` */
    uint32_t empty, tail; /* of three parts or more one is empty, one may have lost its first block, */
    bool full;            /* and the last part may be the longest and fill the output */
    uint32_t *shared;     /* the block of each column that the shared prefix fills, */
    size_t *first;        /* and the first live token at each of its positions; NOBODY: none yet */
} spread;

static const size_t NOBODY = SIZE_MAX;
static const uint32_t NO_BLOCK = UINT32_MAX;

static uint32_t below(const spread *s, uint64_t stream, uint64_t index, uint64_t n)
{
    return (uint32_t)kvg_rng_below(s->seed, stream, index, n);
}

/* Numbers[first, n) in another order. */
static void shuffle(const spread *s, uint64_t stream, uint32_t *numbers, uint32_t first, uint32_t n)
{
    for (uint32_t i = n; i-- > first + 1;) {
        const uint32_t j = first + below(s, stream, i, i - first + 1), number = numbers[i];
        numbers[i] = numbers[j];
        numbers[j] = number;
    }
}

static void shuffle_blocks(spread *s)
{
    const uint32_t n = s->p->paging.blocks;
    for (uint32_t i = 0; i < n; i++) s->order[i] = n - 1 - i;
    shuffle(s, STREAM_BLOCKS, s->order, 1, n);
}

/* The pool's last block, which is taken first, changes places with one of those that were taken. */
static void move_last_block(spread *s)
{
    const uint32_t place = below(s, STREAM_LAST, 0, s->taken), block = s->order[place];
    s->order[place] = s->order[0];
    s->order[0] = block;
}

/* In a case that is not shuffled a sequence's part is its number, part 0 is empty and the last one is full. In a case
 * that is, the empty part is one without queries. Example: with 4 query tokens in 3 sequences part 0 has 3 queries,
 * part 1 none and part 2 all 4, so part 1 is empty. */
static void choose_parts(spread *s)
{
    const uint32_t n = s->p->paging.sequences;
    for (uint32_t i = 0; i < n; i++) s->part[i] = i;
    s->full = !s->c->shuffled || n < 3 || s->p->attention.window || below(s, STREAM_PARTS, 0, 2) == 0;
    if (s->c->shuffled) shuffle(s, STREAM_PARTS, s->part, 0, n);
    s->empty = s->c->shuffled && s->p->op == KVG_OP_DECODE && kvg_case_queries(s->c, 1) == 0;
    s->tail = n > 2 ? 1 - s->empty : 0;
}

static kvg_status take_block(spread *s, uint32_t *block)
{
    if (s->taken == s->p->paging.blocks) {
        return kvg_fail(KVG_ERR_INVALID, "%u tokens in %u sequences need more than %u blocks of %u tokens",
                        s->p->tokens, s->p->paging.sequences, s->p->paging.blocks, s->p->paging.block_tokens);
    }
    *block = s->order[s->taken++];
    return KVG_OK;
}

/* `*first` is the first live token of that row. */
static void add_live(kvg_paged_fill *out, int64_t slot, size_t source, size_t *first)
{
    const size_t token = out->live++;
    if (*first == NOBODY) *first = token;
    out->live_slots[token] = slot;
    out->live_owned[token] = *first != token && out->live_slots[*first] == slot ? -1 : slot;
    out->live_first[token] = *first;
    out->live_source[token] = source;
}

/* Tokens that existed before a sequence's first new one. A contiguous cache has to hold both. */
static kvg_status choose_history(const spread *s, uint32_t sequence, uint32_t count, uint32_t *history)
{
    const uint32_t B = s->p->paging.block_tokens;
    *history = below(s, STREAM_HISTORY, sequence, 2ull * B + 1);
    if (s->rule != KVG_BLOCKS_ONE) return KVG_OK;
    if (count > B) {
        return kvg_fail(KVG_ERR_INVALID, "%u tokens of a sequence exceed the capacity %u (block_tokens)", count, B);
    }
    *history = below(s, STREAM_HISTORY, sequence, (uint64_t)B - count + 1);
    return KVG_OK;
}

/* The row of the table of RoPE for a position. Sequences here are short: where the table follows from parameters, all
 * but one are moved along it, so that far rows are read too. */
static uint32_t table_row(const spread *s, uint32_t sequence, uint32_t position)
{
    const kvg_rope *r = &s->p->rope;
    const bool moved = r->scaling.kind != KVG_ROPE_TABLE && s->part[sequence] > 0;
    if (!r->positions) return position;
    return (position + (moved ? below(s, STREAM_ROWS, sequence, r->positions) : 0)) % r->positions;
}

/* Tokens [first, first + count) of one sequence. Some have no slot, nor have those that a ring overwrites at once. */
static kvg_status spread_new(spread *s, uint32_t sequence, uint32_t first, uint32_t count, kvg_paged_fill *out)
{
    const kvg_problem *p = s->p;
    const uint32_t B = p->paging.block_tokens;
    uint32_t history, block = 0, column = UINT32_MAX;
    kvg_status status = choose_history(s, sequence, count, &history);
    for (uint32_t i = 0; i < count && !status; i++) {
        const uint32_t token = first + i, position = history + i;
        const uint32_t here = s->rule == KVG_BLOCKS_TABLE ? position / B : 0;
        if (here != column) status = take_block(s, &block);
        if (status) break;
        column = here;
        const bool dead = token + 1 < p->tokens && below(s, STREAM_DEAD, token, 6) == 0; /* the last one never */
        const bool overwritten = s->rule == KVG_BLOCKS_RING && count - i > B;
        out->positions[token] = (int32_t)table_row(s, sequence, position);
        out->slots[token] = dead || overwritten ? -1 - (int64_t)(token % 3) : (int64_t)block * B + position % B;
        if (out->slots[token] >= 0) add_live(out, out->slots[token], token, &(size_t){NOBODY});
    }
    return status;
}

/* The length of a shuffled case's part that ends within a page: shorter than the longest sequence, and beyond its first
 * block, which it may have lost. Both hold only if there are tokens enough. */
static uint32_t choose_tail(const spread *s, uint32_t sequence, uint32_t least, uint32_t most)
{
    const uint32_t B = s->p->paging.block_tokens, top = most > least ? most - 1 : most;
    if (s->p->paging.sequences > 2 && least <= B && B < top) least = B + 1;
    const uint32_t length = least + below(s, STREAM_HISTORY, sequence, top - least + 1);
    if (length % B) return length;
    return length < top ? length + 1 : length > least ? length - 1 : length;
}

/* Length of a sequence to read back. Lengths any: one part is empty where there are several, the last part may fill the
 * output; in a ring some have wrapped. Decode: the queries' own tokens are among them if that is possible. */
static uint32_t choose_length(const spread *s, uint32_t sequence)
{
    const uint32_t part = s->part[sequence];
    const kvg_problem *p = s->p;
    const uint32_t last = p->paging.sequences - 1;
    const uint32_t B = p->paging.block_tokens;
    const uint32_t most = s->rule == KVG_BLOCKS_ONE && B < p->tokens ? B : p->tokens;
    if (s->c->lengths == KVG_LENGTHS_EVEN) return most;
    if (part == s->empty && last >= 2 && s->c->lengths == KVG_LENGTHS_ANY) return 0;
    if (part != last || !s->full) {
        const uint32_t queries = kvg_case_queries(s->c, part);
        const uint32_t least = queries < 1 ? 1 : queries < most ? queries : most;
        const bool tail = s->c->shuffled && s->rule == KVG_BLOCKS_TABLE && part == s->tail && part != last;
        if (tail) return choose_tail(s, sequence, least, most);
        return least + below(s, STREAM_HISTORY, sequence, most - least + 1);
    }
    if (s->rule != KVG_BLOCKS_RING || p->op == KVG_OP_DECODE) return most;
    return p->tokens + below(s, STREAM_HISTORY, sequence, B);
}

/* What stands in a table where nobody may look. */
static int32_t garbage(const spread *s, uint64_t index)
{
    const int32_t bad[] = {-1, INT32_MAX, INT32_MIN, (int32_t)s->p->paging.blocks};
    const uint32_t kind = below(s, STREAM_GARBAGE, index, 8);
    return kind < 4 ? bad[kind] : (int32_t)below(s, STREAM_GARBAGE, ~index, s->p->paging.blocks);
}

/* The first position that a query of the sequence sees; its length where it has none. */
static uint32_t first_seen(const spread *s, uint32_t sequence, uint32_t length)
{
    const uint32_t queries = kvg_case_queries(s->c, s->part[sequence]), window = s->p->attention.window;
    if (s->p->op != KVG_OP_DECODE) return 0;
    if (queries == 0) return length;
    return window && length >= (uint64_t)queries + window ? length - queries - window + 1 : 0;
}

/* The block of a column of one more sequence: its own, unless the shared prefix fills the column. */
static kvg_status find_block(spread *s, uint32_t column, uint32_t *block)
{
    if (column >= s->c->shared_prefix / s->p->paging.block_tokens) return take_block(s, block);
    const kvg_status status = s->shared[column] == NO_BLOCK ? take_block(s, &s->shared[column]) : KVG_OK;
    *block = s->shared[column];
    return status;
}

/* One sequence of op flatten. One part of three or more has lost its first block, as a sliding window does. */
static kvg_status spread_old(spread *s, uint32_t sequence, kvg_paged_fill *out)
{
    const kvg_problem *p = s->p;
    const uint32_t B = p->paging.block_tokens, width = kvg_layout_table_width(p->layout, &p->paging, p->tokens);
    const uint32_t length = choose_length(s, sequence);
    int32_t *table = out->table + (size_t)sequence * width;
    out->lengths[sequence] = (int32_t)length;
    out->query_lengths[sequence] = (int32_t)kvg_case_queries(s->c, s->part[sequence]);
    for (uint32_t column = 0; column < width; column++) table[column] = garbage(s, (uint64_t)sequence * width + column);
    const bool tail = s->rule == KVG_BLOCKS_TABLE && s->part[sequence] == s->tail;
    const bool hole = tail && p->paging.sequences > 2 && length > B && s->c->lengths == KVG_LENGTHS_ANY;
    if (hole) table[0] = -1;
    const uint32_t end = length < p->tokens ? length : p->tokens;
    const uint32_t seen = first_seen(s, sequence, length);
    uint32_t first = hole ? B : 0, column = UINT32_MAX, block = 0;
    if (s->rule == KVG_BLOCKS_RING && length > B) first = length - B;
    for (uint32_t position = first; position < end; position++) {
        const uint32_t here = s->rule == KVG_BLOCKS_TABLE ? position / B : 0;
        if (here != column) {
            kvg_status status = find_block(s, here, &block);
            if (status) return status;
            table[here] = (int32_t)block;
            column = here;
        }
        if (position < seen) continue;
        add_live(out, (int64_t)block * B + position % B, (size_t)sequence * p->tokens + position,
                 position < s->c->shared_prefix ? &s->first[position] : &(size_t){NOBODY});
    }
    return KVG_OK;
}

static kvg_status allocate(const kvg_problem *p, spread *s, kvg_paged_fill *out)
{
    const size_t sequences = p->paging.sequences;
    const size_t most = kvg_op_reads_sequences(p->op) ? sequences * p->tokens : p->tokens;
    const size_t width = kvg_layout_table_width(p->layout, &p->paging, p->tokens);
    s->order = calloc(p->paging.blocks, sizeof *s->order);
    s->part = calloc(sequences, sizeof *s->part);
    s->shared = calloc(p->tokens, sizeof *s->shared);
    s->first = calloc(p->tokens, sizeof *s->first);
    out->slots = calloc(p->tokens, sizeof *out->slots);
    out->positions = calloc(p->tokens, sizeof *out->positions);
    out->table = calloc(sequences * width, sizeof *out->table);
    out->lengths = calloc(sequences, sizeof *out->lengths);
    out->query_lengths = calloc(sequences, sizeof *out->query_lengths);
    out->live_slots = calloc(most, sizeof *out->live_slots);
    out->live_owned = calloc(most, sizeof *out->live_owned);
    out->live_first = calloc(most, sizeof *out->live_first);
    out->live_source = calloc(most, sizeof *out->live_source);
    if (!s->order || !s->part || !s->shared || !s->first || !out->slots || !out->positions || !out->table ||
        !out->lengths || !out->query_lengths || !out->live_slots || !out->live_owned || !out->live_first ||
        !out->live_source) {
        return kvg_fail(KVG_ERR_MEMORY, "cannot hold the tables of %zu sequences", sequences);
    }
    return KVG_OK;
}

static kvg_status spread_all(spread *s, kvg_paged_fill *out)
{
    const kvg_problem *p = s->p;
    const uint32_t sequences = p->paging.sequences;
    kvg_status status = KVG_OK;
    s->taken = 0;
    out->live = 0;
    for (uint32_t i = 0; i < p->tokens; i++) {
        s->shared[i] = NO_BLOCK;
        s->first[i] = NOBODY;
    }
    for (uint32_t i = 0; i < sequences && !status; i++) {
        const uint32_t first = (uint32_t)((uint64_t)p->tokens * i / sequences);
        const uint32_t next = (uint32_t)((uint64_t)p->tokens * (i + 1) / sequences);
        status = kvg_op_reads_sequences(p->op) ? spread_old(s, i, out) : spread_new(s, i, first, next - first, out);
    }
    if (!status && out->live == 0) {
        status = kvg_fail(KVG_ERR_INVALID, "no token of the case is in the cache: use more tokens");
    }
    return status;
}

/* How many blocks are taken is known when all are, so a case that is shuffled is spread twice. */
kvg_status kvg_paged_fill_make(const kvg_case *c, uint64_t seed, kvg_paged_fill *out)
{
    const kvg_problem *p = &c->problem;
    spread s = {.c = c, .p = p, .seed = seed, .rule = kvg_problem_blocks(p)};
    *out = (kvg_paged_fill){0};
    if (p->paging.sequences < 1) return kvg_fail(KVG_ERR_INVALID, "a paged case needs at least 1 sequence");
    kvg_status status = allocate(p, &s, out);
    if (!status) shuffle_blocks(&s);
    if (!status) choose_parts(&s);
    if (!status) status = spread_all(&s, out);
    if (!status && c->shuffled) {
        move_last_block(&s);
        status = spread_all(&s, out);
    }
    free(s.order);
    free(s.part);
    free(s.shared);
    free(s.first);
    return status;
}

void kvg_paged_fill_free(kvg_paged_fill *fill)
{
    free(fill->slots);
    free(fill->positions);
    free(fill->table);
    free(fill->lengths);
    free(fill->query_lengths);
    free(fill->live_slots);
    free(fill->live_owned);
    free(fill->live_first);
    free(fill->live_source);
    *fill = (kvg_paged_fill){0};
}
