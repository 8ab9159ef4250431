#include "gpu/attention/many/many_plan.h"

enum {
    LEAST_KEYS = 1024, /* of a piece, at least a leaf */
    MOST_PIECES = 64,
    ITEM_COST = 512,  /* what an item costs besides its leaves, in keys: its start, its end, its node */
    ROW_CHUNK = 8,    /* query heads that a CTA of the other kernels takes */
    WORTH_CHUNKS = 4, /* of a sequence: with more of them these kernels are faster */
};

static uint64_t round_up(uint64_t x, uint64_t unit)
{
    return (x + unit - 1) / unit * unit;
}

/* A filler's tile as it is stored: codes, scales, a word. Of a row that K and V share the fillers of V
 * have the larger part: all but 256 elements. */
static uint32_t raw_bytes(const kvg_problem *p, int side)
{
    const kvg_format format = p->storage[side].format;
    const uint32_t elements = p->paging.shared_kv ? MANY_SHARED_DIM - 256 : many_width(p);
    const uint32_t codes = (uint32_t)kvg_format_code_bytes(format, elements);
    const uint64_t row = many_is_padded(p) ? many_pitch(codes) : codes;
    return (uint32_t)round_up(KVG_ATTENTION_TILE * (row + kvg_format_scale_bytes(format, elements)) + 16, 128);
}

/* Scales of padded rows come by registers, and a filler keeps them until its next copy. */
static bool keeps_scales(const kvg_problem *p)
{
    const bool has = kvg_format_scale_bytes(p->storage[KVG_K].format, p->head_dim) ||
                     kvg_format_scale_bytes(p->storage[KVG_V].format, p->head_dim);
    return has && many_is_padded(p);
}

/* The first of the shapes that fits into `limit` bytes. A slot keeps half of what is left of the
 * waiting nodes' traffic out of L2; tiles on their way hide the memory's latency; so do stages, of which
 * a third one is worth more than a slot. Codes of 16 bits are copied into stages. */
static bool find_shape(const kvg_problem *p, uint32_t groups, uint32_t limit, many_shape *out)
{
    static const many_shape own_rows[] = {
        {.stages = 4, .depth = 4, .slots = 2}, {.stages = 3, .depth = 3, .slots = 2},
        {.stages = 4, .depth = 4, .slots = 1}, {.stages = 3, .depth = 3, .slots = 1},
        {.stages = 3, .depth = 2, .slots = 1}, {.stages = 4, .depth = 4, .slots = 0},
        {.stages = 4, .depth = 3, .slots = 0}, {.stages = 3, .depth = 3, .slots = 0},
        {.stages = 3, .depth = 2, .slots = 0}, {.stages = 2, .depth = 2, .slots = 1},
        {.stages = 2, .depth = 2, .slots = 0}, {.stages = 2, .depth = 1, .slots = 0},
    };
    static const many_shape shared_rows[] = {
        {.stages = 4, .depth = 2}, {.stages = 3, .depth = 2}, {.stages = 3, .depth = 1}, {.stages = 2, .depth = 1}};
    const bool shared_row = p->paging.shared_kv, direct = kvg_format_get(p->storage[KVG_K].format)->element_bits == 16;
    const uint32_t k = raw_bytes(p, KVG_K), v = raw_bytes(p, KVG_V), sides = shared_row ? 1 : 2;
    const uint32_t width = many_width(p), row = width * 2;
    const many_shape *shapes = shared_row ? shared_rows : own_rows;
    const size_t count = shared_row ? sizeof shared_rows / sizeof *shapes : sizeof own_rows / sizeof *shapes;
    for (size_t i = 0; i < count; i++) {
        *out = shapes[i];
        if (out->depth == 1 && keeps_scales(p)) continue;
        out->width = width;
        out->groups = groups;
        out->rows = shared_row ? MANY_GROUP_ROWS : groups * MANY_GROUP_ROWS;
        out->columns = shared_row ? MANY_SHARED_COLUMNS : width;
        out->raw = direct ? 0 : k > v ? k : v;
        out->shared = 1024 + MANY_HEADER + out->stages * sides * KVG_ATTENTION_TILE * row + out->rows * row +
                      MANY_FILLERS * out->depth * out->raw +
                      out->slots * groups * (uint32_t)many_node_bytes(out->columns);
        if (out->shared <= limit) return true;
    }
    return false;
}

/* All groups where K and V share rows, or where a band has more than one; else as many CTAs of one
 * group as there is room for. */
static kvg_status choose_shape(const kvg_problem *p, const many_chip *chip, many_shape *out)
{
    const uint64_t rows = (uint64_t)p->attention.queries * (p->attention.query_heads / p->kv_heads);
    const bool shared_row = p->paging.shared_kv;
    const bool many = shared_row || rows > (uint64_t)MANY_GROUP_ROWS * p->paging.sequences;
    if (shared_row && !chip->most_groups) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "decode on tensor cores: rows that K and V share need an sm_90");
    }
    if (many && chip->most_groups > 1 && find_shape(p, chip->most_groups, chip->shared, out)) {
        out->resident = 1;
        return KVG_OK;
    }
    for (uint32_t ctas = chip->most_ctas; ctas > 0 && !shared_row; ctas--) {
        const uint32_t share = chip->shared_all / ctas - 1024;
        if (!find_shape(p, 1, share < chip->shared ? share : chip->shared, out)) continue;
        out->resident = ctas;
        return KVG_OK;
    }
    return kvg_fail(KVG_ERR_UNIMPLEMENTED,
                    "decode on tensor cores: many queries need %u bytes of shared memory, a CTA of "
                    "this GPU has %u",
                    out->shared, chip->shared);
}

/* Most leaves that a band's keys touch: all of a sequence, or what a window or a ring leaves to its
 * query tokens. */
static uint64_t leaves_of(const kvg_problem *p, uint32_t leaf, uint32_t rows, bool *anywhere)
{
    const uint32_t ring = kvg_problem_blocks(p) == KVG_BLOCKS_RING ? p->paging.block_tokens : 0;
    const uint32_t window = p->attention.window;
    const uint64_t all = p->tokens ? (p->tokens - 1) / leaf + 1 : 1;
    uint64_t span = ring;
    if (window && (!ring || (uint64_t)window + rows < ring)) span = (uint64_t)window + rows;
    *anywhere = span > 0;
    const uint64_t touched = span ? (span - 1) / leaf + 2 : all;
    return ring || touched < all ? touched : all;
}

/* Pieces that so many leaves touch. */
static uint64_t pieces_of(uint64_t leaves, uint32_t log, bool anywhere)
{
    const uint64_t whole = ((leaves - 1) >> log) + 1;
    return anywhere && leaves > 1 ? whole + 1 : whole;
}

/* The bands that fill whole rounds of CTAs have one piece each. What is left is cut into the pieces
 * that end soonest, if every item takes its leaves and ITEM_COST, and all CTAs are equally fast. */
static many_cut choose_cut(uint64_t bands, uint64_t leaves, uint32_t leaf, bool anywhere, uint64_t ctas)
{
    const uint64_t rest = bands % ctas;
    many_cut cut = {UINT32_MAX, 1, MANY_ALL_LEAVES_LOG};
    uint64_t least = leaves + 1; /* one piece needs no node */
    uint32_t least_log = 0;
    while (leaf << least_log < LEAST_KEYS) least_log++;
    for (uint32_t log = least_log; rest && 1ull << log < leaves; log++) {
        const uint64_t pieces = pieces_of(leaves, log, anywhere);
        const uint64_t cost = ((rest * pieces - 1) / ctas + 1) * ((1ull << log) + ITEM_COST / leaf);
        if (pieces > MOST_PIECES || cost > least) continue;
        least = cost;
        cut = (many_cut){(uint32_t)(bands - rest), (uint32_t)pieces, log};
    }
    return cut;
}

bool many_is_alone(const kvg_problem *p)
{
    return p->paging.shared_kv || many_is_padded(p);
}

bool many_is_worth_it(const kvg_problem *p)
{
    const uint64_t chunks = (p->attention.query_heads / p->kv_heads - 1) / ROW_CHUNK + 1;
    return many_is_alone(p) || p->attention.queries * chunks > (uint64_t)WORTH_CHUNKS * p->paging.sequences;
}

kvg_status many_plan_of(const kvg_problem *p, const many_chip *chip, many_plan *out)
{
    const uint64_t queries = p->attention.queries, sequences = p->paging.sequences;
    const uint64_t group = p->attention.query_heads / p->kv_heads;
    many_shape *shape = &out->shape;
    kvg_status s = choose_shape(p, chip, shape);
    if (s) return s;
    const uint64_t rows = shape->rows;
    bool anywhere;
    const uint64_t leaves = leaves_of(p, chip->leaf, (uint32_t)rows, &anywhere);
    /* A band more for each sequence whose rows do not fill their last one, and for queries that no
     * sequence has. */
    const uint64_t bands = queries * group / rows + sequences + 1;
    const uint64_t likely = sequences ? sequences * ((queries / sequences * group + rows - 1) / rows) : 1;
    const uint64_t ctas = (uint64_t)shape->resident * chip->multiprocessors;
    out->cut = choose_cut((likely ? likely : 1) * p->kv_heads, leaves, chip->leaf, anywhere, ctas);
    const uint64_t all = bands * p->kv_heads, cut = all > out->cut.whole ? all - out->cut.whole : 0;
    const uint64_t items = all + cut * out->cut.pieces;
    if (queries * p->attention.query_heads > INT32_MAX || items > INT32_MAX) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "decode on tensor cores: too many queries");
    }
    out->bands = (uint32_t)bands;
    out->waiting = 2; /* one for each bit of the leaves, and one */
    while (1ull << (out->waiting - 1) < leaves) out->waiting++;
    const uint64_t node = many_node_bytes(shape->columns) * shape->groups;
    out->ctas = (uint32_t)(items < ctas ? items : ctas);
    out->list_bytes = round_up((bands + 1) * 16, 256);
    /* The kernel that merges pieces has stacks, too: of nodes of 32 dims, each with m and l of its
     * own. */
    const uint64_t slices = shape->columns / MANY_SLICE * many_node_bytes(MANY_SLICE) * shape->groups;
    const uint64_t stacks = out->ctas * out->waiting * node, merged = cut * MANY_MERGE_WAITING * slices;
    out->stack_bytes = round_up(merged > stacks ? merged : stacks, 256);
    out->node_bytes = round_up(cut * out->cut.pieces * node, 256);
    return KVG_OK;
}
