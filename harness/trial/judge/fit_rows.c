#include "harness/trial/judge/fit_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "harness/trial/judge/differences.h"
#include "reference/reference.h"

size_t judge_fit_row_at(const fit_rows *r, const uint32_t *at)
{
    size_t number = 0;
    for (size_t a = 0; a < r->axis_count; a++) {
        if (a != r->follows) number = number * r->axes[a].of + at[a];
    }
    return number;
}

const uint8_t *judge_fit_right_row(const fit_rows *r, size_t row)
{
    return r->right + row * r->width;
}

const uint8_t *judge_fit_got_row(const fit_rows *r, size_t row)
{
    return r->got + row * r->width;
}

/* Of another row it must be four times as near as of its own, and no row of zeros: many answers are 0. */
static bool is_near(const fit_rows *r, size_t row, size_t source)
{
    enum { NEARER = 4 };
    const kvg_attention_answer *exact = &r->q->numbers->exact;
    const kvg_tensor *have = &r->q->answer[0];
    double to_source = 0, to_own = 0;
    bool zero = true;
    for (size_t i = 0; i < r->bytes[row] / kvg_dtype_bytes(have->dtype); i++) {
        const size_t right = r->unit[source] + i, own = r->unit[row] + i;
        const double got = kvg_number_at(have->dtype, have->data, own);
        if (row != source && !(exact->out_bound[right] < INFINITY)) return false;
        if (kvg_attention_ratio(got, exact->out[right], exact->out_bound[right]) > 1) return false;
        to_source = fmax(to_source, fabs(got - exact->out[right]));
        to_own = fmax(to_own, fabs(got - exact->out[own]));
        zero = zero && got == 0;
    }
    return row == source || (!zero && NEARER * to_source <= to_own);
}

bool judge_fit_is_row(const fit_rows *r, size_t row, size_t source)
{
    if (r->bytes[row] != r->bytes[source]) return false;
    if (r->attends) return is_near(r, row, source);
    return memcmp(judge_fit_right_row(r, source), judge_fit_got_row(r, row), r->bytes[row]) == 0;
}

kvg_role judge_fit_role_of(const fit_rows *r, size_t output, kvg_side *side)
{
    kvg_role role;
    kvg_roles_at(r->q->data->op->outputs, output, &role, side);
    return role;
}

int judge_fit_by_hash(const void *x, const void *y)
{
    const fit_hash *a = x, *b = y;
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

/* Notes that row `row`, which is at `at`, reaches to byte `end`. */
static void note_row(fit_rows *r, size_t row, const uint32_t *at, size_t output, size_t end)
{
    if (r->bytes[row] < end) r->bytes[row] = (uint32_t)end;
    memcpy(r->at + row * r->axis_count, at, r->axis_count * sizeof *at);
    r->output[at[FIT_PART]] = output;
}

static uint32_t part_of(const fit_rows *r, size_t output)
{
    kvg_side side;
    const bool scales = judge_fit_role_of(r, output, &side) == KVG_ROLE_SCALES;
    return 2 * (uint32_t)side + scales;
}

/* --- rows of the outputs --- */

/* An output without an answer counts as right. */
static void collect_output(fit_rows *r, size_t output)
{
    const kvg_tensor *want = &r->q->expected[output], *have = &r->q->answer[output];
    const uint8_t *got = have->data ? have->data : want->data;
    const size_t unit = kvg_places_unit(r->places, output);
    kvg_axis axes[KVG_MAX_AXES];
    const size_t last = kvg_places_axes(r->places, output, axes) - 1;
    const uint32_t part = part_of(r, output);
    for (size_t i = 0; i < want->bytes / unit; i++) {
        uint32_t at[KVG_MAX_AXES + 1] = {part}; /* the places of a pool have it */
        uint32_t *place = r->pools ? at : at + 1;
        kvg_places_at(r->places, output, i, place);
        if (place[0] == KVG_NO_PLACE) continue;
        const size_t byte = place[last] * unit, row = judge_fit_row_at(r, at), to = row * r->width + byte;
        memcpy(r->right + to, (const uint8_t *)want->data + i * unit, unit);
        memcpy(r->got + to, got + i * unit, unit);
        if (byte == 0) r->unit[row] = i;
        note_row(r, row, at, output, byte + unit);
    }
}

/* --- rows of the slots that an op reads --- */

/* What the op is to read in every slot of the problem's layer; of an op that reads sequences each block is one. */
static kvg_status read_layer(const kvg_question *d, const kvg_problem *all, kvg_tensor_set *out)
{
    const kvg_paging *g = &all->paging;
    const size_t slots = (size_t)g->blocks * g->block_tokens;
    kvg_tensor in[KVG_MAX_TENSORS];
    int64_t *each = malloc(slots * sizeof *each);
    int32_t *blocks = malloc(g->blocks * sizeof *blocks), *lengths = malloc(g->blocks * sizeof *lengths);
    kvg_status s = kvg_set_alloc(all, d->op->outputs, out);
    if (!s && (!each || !blocks || !lengths)) s = kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu slots", slots);
    if (!s) {
        for (size_t i = 0; i < slots; i++) each[i] = (int64_t)i;
        for (uint32_t b = 0; b < g->blocks; b++) {
            blocks[b] = (int32_t)b;
            lengths[b] = (int32_t)g->block_tokens;
        }
        const kvg_source sources[] = {{.set = &d->in}, {.role = KVG_ROLE_SLOTS, .data = {each}},
                                      {.role = KVG_ROLE_BLOCK_TABLE, .data = {blocks}},
                                      {.role = KVG_ROLE_LENGTHS, .data = {lengths}}};
        kvg_gather(all, d->op->inputs, sources, sizeof sources / sizeof sources[0], in);
        s = kvg_reference_run(all, in, out->tensors);
    }
    free(each);
    free(blocks);
    free(lengths);
    return s;
}

/* They count as answered until collect_answers. */
static kvg_status collect_layer(fit_rows *r, uint32_t layer)
{
    kvg_problem all = r->q->data->c->problem;
    const bool sequences = kvg_op_reads_sequences(all.op);
    const uint32_t B = all.paging.block_tokens, H = all.kv_heads;
    const size_t count = (size_t)all.paging.blocks * H * B;
    kvg_tensor_set read = {.count = 0};
    all.paging.layer = layer;
    all.tokens = sequences ? B : B * all.paging.blocks;
    if (sequences) all.paging.sequences = all.paging.blocks;
    const kvg_status s = read_layer(r->q->data, &all, &read);
    for (size_t i = 0; i < read.count && !s; i++) {
        const kvg_tensor *t = &read.tensors[i];
        const size_t bytes = t->bytes / count;
        for (size_t row = 0; row < count && bytes; row++) { /* [block, head, offset] or [block, offset, head] */
            const size_t block = row / H / B, head = sequences ? row / B % H : row % H;
            const size_t offset = sequences ? row % B : row / H % B;
            const uint32_t at[] = {part_of(r, i), layer, (uint32_t)block, (uint32_t)offset, KVG_NO_PLACE,
                                   (uint32_t)head};
            const size_t number = judge_fit_row_at(r, at), to = number * r->width;
            memcpy(r->right + to, (const uint8_t *)t->data + row * bytes, bytes);
            memcpy(r->got + to, (const uint8_t *)t->data + row * bytes, bytes);
            note_row(r, number, at, i, bytes);
        }
    }
    kvg_set_free(&read);
    return s;
}

/* The place in its slot of an output's answer i; false: its token has no slot. */
static bool place_answer(const fit_rows *r, size_t output, uint32_t i, uint32_t at[FIT_POOL_AXES])
{
    const kvg_problem *p = &r->q->data->c->problem;
    const uint32_t B = p->paging.block_tokens, H = p->kv_heads, T = p->tokens;
    const bool flat = kvg_op_reads_sequences(p->op); /* [sequence, head, token], else [token, head] */
    const uint32_t token = flat ? i / T / H * T + i % T : i / H, head = flat ? i / T % H : i % H;
    const int64_t slot = r->slots[token];
    if (slot < 0) return false;
    const uint32_t place[] = {part_of(r, output), p->paging.layer, (uint32_t)(slot / B), (uint32_t)(slot % B), token,
                              head};
    memcpy(at, place, sizeof place);
    return true;
}

/* The answer of each token that has a slot; of those that share one, the last. */
static void collect_answers(fit_rows *r, size_t output, size_t asked)
{
    const kvg_tensor *have = &r->q->answer[output], *want = &r->q->expected[output];
    const uint32_t count = r->axes[FIT_TOKEN].of * r->axes[FIT_HEAD].of;
    const size_t bytes = have->bytes / count;
    uint32_t at[FIT_POOL_AXES];
    for (uint32_t i = 0; i < count && have->data && bytes; i++) {
        if (!place_answer(r, output, i, at)) continue;
        const size_t row = judge_fit_row_at(r, at);
        memcpy(r->got + row * r->width, (const uint8_t *)have->data + i * bytes, bytes);
        note_row(r, row, at, output, bytes);
    }
    for (uint32_t i = 0; i < count && have->data && bytes && output == asked; i++) {
        const uint8_t *answer = (const uint8_t *)have->data + i * bytes;
        if (memcmp(answer, (const uint8_t *)want->data + i * bytes, bytes) == 0) continue;
        const bool placed = place_answer(r, output, i, at);
        r->apart += !placed || memcmp(judge_fit_got_row(r, judge_fit_row_at(r, at)), answer, bytes) != 0;
    }
}

/* --- the whole --- */

static void find_wrong(fit_rows *r, size_t output)
{
    for (size_t row = 0; row < r->count; row++) {
        if (!r->bytes[row]) continue;
        r->index[r->indexed++] = (fit_hash){kvg_hash64(judge_fit_right_row(r, row), r->bytes[row]), row};
        if (r->output[r->at[row * r->axis_count]] != output) continue;
        if (judge_fit_is_row(r, row, row)) continue;
        r->wrong[r->wrong_count++] = row;
        for (size_t i = 0; i < r->bytes[row]; i++)
            r->wrong_bytes += judge_fit_right_row(r, row)[i] != judge_fit_got_row(r, row)[i];
    }
    qsort(r->index, r->indexed, sizeof *r->index, judge_fit_by_hash);
}

static void find_slots(fit_rows *r)
{
    const kvg_question *d = r->q->data;
    for (uint32_t i = 0; i < r->axes[FIT_TOKEN].of; i++) r->slots[i] = -1;
    for (uint32_t i = 0; i < d->rows.tokens; i++) r->slots[d->source[i]] = d->slots[i];
}

static void measure(fit_rows *r, bool slots)
{
    const kvg_problem *p = &r->q->data->c->problem;
    const bool written = r->places->token != NULL; /* the outputs are pools */
    const uint32_t sequences = kvg_op_reads_sequences(p->op) ? p->paging.sequences : 1;
    kvg_axis axes[KVG_MAX_AXES];
    r->pools = written || slots;
    r->attends = r->q->data->queries != NULL;
    r->follows = r->pools ? FIT_TOKEN : r->attends ? FIT_KV_HEAD : KVG_MAX_AXES;
    for (size_t i = 0; i < (r->attends ? 1 : r->places->outputs); i++) { /* of an attention out alone */
        const size_t n = kvg_places_axes(r->places, i, axes), width = axes[n - 1].of * kvg_places_unit(r->places, i);
        r->axis_count = written ? n - 1 : n;
        memcpy(r->axes + !written, axes, (n - 1) * sizeof *axes);
        r->width = width > r->width ? width : r->width;
    }
    if (slots) {
        r->axis_count = FIT_POOL_AXES;
        r->axes[FIT_LAYER] = (kvg_axis){"layer", "layers", p->paging.layers};
        r->axes[FIT_BLOCK] = (kvg_axis){"block", "blocks", p->paging.blocks};
        r->axes[FIT_OFFSET] = (kvg_axis){"offset", "offsets", p->paging.block_tokens};
        r->axes[FIT_TOKEN] = (kvg_axis){"token", "tokens", sequences * p->tokens};
        r->axes[FIT_HEAD] = (kvg_axis){"head", "heads", p->kv_heads};
    }
    r->axes[FIT_PART] = (kvg_axis){"part", "parts", FIT_PARTS};
    r->count = 1;
    for (size_t a = 0; a < r->axis_count; a++) r->count *= a != r->follows ? r->axes[a].of : 1;
}

kvg_status judge_fit_rows_open(const kvg_evidence *q, const kvg_places *places, size_t index, bool slots, fit_rows *r)
{
    enum { MOST_BYTES = 1 << 26 };
    *r = (fit_rows){.q = q, .places = places};
    measure(r, slots);
    if (r->count > MOST_BYTES / r->width) return KVG_OK;
    r->right = calloc(r->count, r->width);
    r->got = calloc(r->count, r->width);
    r->bytes = calloc(r->count, sizeof *r->bytes);
    r->unit = calloc(r->count, sizeof *r->unit);
    r->at = calloc(r->count, r->axis_count * sizeof *r->at);
    r->index = malloc(r->count * sizeof *r->index);
    r->wrong = malloc(r->count * sizeof *r->wrong);
    r->slots = malloc((r->pools ? r->axes[FIT_TOKEN].of : 1) * sizeof *r->slots);
    if (!r->right || !r->got || !r->bytes || !r->at || !r->unit || !r->index || !r->wrong || !r->slots)
        return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu rows", r->count);
    if (r->pools) find_slots(r);
    kvg_status s = KVG_OK;
    for (uint32_t layer = 0; slots && layer < r->axes[FIT_LAYER].of && !s; layer++) s = collect_layer(r, layer);
    for (size_t i = 0; i < places->outputs && !s; i++) {
        if (slots) collect_answers(r, i, index);
        else if (!r->attends || i == 0) collect_output(r, i);
    }
    if (!s) find_wrong(r, index);
    return s;
}

void judge_fit_rows_close(fit_rows *r)
{
    free(r->right);
    free(r->got);
    free(r->bytes);
    free(r->at);
    free(r->unit);
    free(r->slots);
    free(r->index);
    free(r->wrong);
}
