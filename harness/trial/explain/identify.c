#include "harness/trial/explain/identify.h"

#include <stdlib.h>
#include <string.h>

#include "harness/trial/wrong/defect_maps.h"

enum { WIDENED = 8 }; /* the best ones, to whose texts others are near */

typedef struct suspect {
    kvg_identified is;
    kvg_layout_map map;
    size_t order;
} suspect;

typedef struct search {
    const kvg_question *question;
    const kvg_tensor *pools;
    kvg_tensor_set rows; /* codes and scales of the live tokens, as they should be */
    kvg_near_texts near;
    suspect *suspects;
    size_t count, room;
} search;

/* --- one layout --- */

/* Bytes of the rows of one side, codes or scales, that lie where the map says. */
static uint64_t count_right(const search *s, const kvg_row_map *m, const kvg_tensor *rows)
{
    const kvg_problem *p = &s->question->c->problem;
    const kvg_tensor *pool = &s->pools[2 * (int)m->side + (m->pool == KVG_ROLE_SCALE_POOL)];
    const uint8_t *expected = rows->data, *got = pool->data;
    uint64_t right = 0;
    for (size_t token = 0; token < s->question->rows.tokens; token++) {
        const int64_t slot = s->question->slots[token];
        const uint32_t block = (uint32_t)(slot / p->paging.block_tokens);
        const uint32_t offset = (uint32_t)(slot % p->paging.block_tokens);
        for (uint32_t head = 0; head < p->kv_heads; head++) {
            for (uint32_t i = 0; i < m->bytes; i++, expected++) {
                const uint64_t at = kvg_rows_place(m, p->paging.layer, block, head, offset, i);
                right += at < pool->bytes && got[at] == *expected;
            }
        }
    }
    return right;
}

/* A text without mistakes is another one than any text before: others are near to it. */
static bool is_known(const search *s, const char *text, unsigned mistakes, const kvg_layout_map *map)
{
    bool known = false;
    for (size_t i = 0; i < s->count && !known; i++) {
        const suspect *const x = &s->suspects[i];
        known = mistakes ? memcmp(&x->map, map, sizeof *map) == 0 : strcmp(x->is.text, text) == 0;
    }
    return known;
}

static kvg_status suspect_text(search *s, const char *name, const char *text, unsigned mistakes)
{
    kvg_layout_map map = {.codes = {{.base = 0}}};
    if (strlen(text) >= KVG_NEAR_TEXT || !kvg_map_of_text(&s->question->c->problem, text, &map)) return KVG_OK;
    if (is_known(s, text, mistakes, &map)) return KVG_OK;
    if (s->count == s->room) {
        const size_t room = s->room ? 2 * s->room : 64;
        suspect *const more = realloc(s->suspects, room * sizeof *more);
        if (!more) return kvg_fail(KVG_ERR_MEMORY, "no memory for %zu layouts", room);
        s->suspects = more;
        s->room = room;
    }
    suspect *const one = &s->suspects[s->count];
    *one = (suspect){.is = {.name = name, .mistakes = mistakes}, .map = map, .order = s->count};
    strcpy(one->is.text, text);
    for (int side = KVG_K; side < kvg_problem_sides(&s->question->c->problem); side++) {
        one->is.right += count_right(s, &map.codes[side], kvg_set_tensor(&s->rows, KVG_ROLE_CODES, (kvg_side)side));
        one->is.right += count_right(s, &map.scales[side], kvg_set_tensor(&s->rows, KVG_ROLE_SCALES, (kvg_side)side));
    }
    s->count++;
    return KVG_OK;
}

/* --- all of them --- */

/* The case's own text, if it has one, before the named layouts. */
static kvg_status suspect_names(search *s)
{
    size_t layouts;
    const kvg_layout_info *layout = kvg_layout_table(&layouts);
    const kvg_layout_text *own = s->question->c->problem.text;
    kvg_status status = own ? suspect_text(s, own->name, own->text, 0) : KVG_OK;
    for (size_t i = 0; i < layouts && !status; i++) {
        if (layout[i].paged) status = suspect_text(s, layout[i].name, layout[i].text, 0);
        if (!status && layout[i].groups) status = suspect_text(s, layout[i].name, layout[i].groups, 0);
    }
    return status;
}

/* The texts near those of the first `count`. */
static kvg_status widen(search *s, size_t count)
{
    kvg_status status = KVG_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const char *const name = s->suspects[i].is.name;
        const unsigned mistakes = s->suspects[i].is.mistakes + 1;
        kvg_near_texts_of(s->suspects[i].is.text, &s->near);
        for (size_t k = 0; k < s->near.count && !status; k++) {
            status = suspect_text(s, name, s->near.texts[k], mistakes);
        }
    }
    return status;
}

static int by_right(const void *x, const void *y)
{
    const suspect *a = x, *b = y;
    if (a->is.right != b->is.right) return a->is.right > b->is.right ? -1 : 1;
    if (a->is.mistakes != b->is.mistakes) return a->is.mistakes < b->is.mistakes ? -1 : 1;
    return (a->order > b->order) - (a->order < b->order);
}

static void rank(search *s)
{
    qsort(s->suspects, s->count, sizeof *s->suspects, by_right);
}

kvg_status kvg_identify(const kvg_question *question, const kvg_tensor *expected,
                        const kvg_tensor pools[KVG_POOLS], kvg_identification *out)
{
    search s = {.question = question, .pools = pools};
    *out = (kvg_identification){.count = 0};
    kvg_status status = kvg_question_codes(question, expected, &s.rows);
    if (!status) status = suspect_names(&s);
    if (!status) status = widen(&s, s.count);
    if (!status) {
        for (size_t i = 0; i < s.rows.count; i++) out->all += s.rows.tensors[i].bytes;
        rank(&s);
        if (s.count && s.suspects[0].is.right < out->all) {
            status = widen(&s, s.count < WIDENED ? s.count : WIDENED);
            rank(&s);
        }
    }
    out->tried = s.count;
    for (; !status && out->count < s.count && out->count < KVG_IDENTIFIED; out->count++) {
        out->best[out->count] = s.suspects[out->count].is;
    }
    free(s.suspects);
    kvg_set_free(&s.rows);
    return status;
}
