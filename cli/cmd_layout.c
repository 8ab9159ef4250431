#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/layout_compare.h"
#include "cli/layout_draw.h"
#include "cli/layout_identify.h"
#include "core/problem.h"
#include "harness/trial/question/describe.h"

/* Where one byte of a row is asked for: `dim` is the element whose code it holds, or whose scale. */
typedef struct place {
    uint32_t layer, block, head, token, dim;
} place;

/* "4 x 1, 32": digits of 4 values 1 byte apart, then the rest, 32 bytes apart. */
static const char *digits_text(const kvg_digit *digit, char *out, size_t size)
{
    size_t used = 0;
    for (; digit->size; digit++) {
        used += (size_t)snprintf(out + used, size - used, "%" PRIu64 " x %" PRIu64 ", ", digit->size, digit->stride);
    }
    snprintf(out + used, size - used, "%" PRIu64, digit->stride);
    return out;
}

static void print_map(const kvg_page *page)
{
    printf("%-9s %-12s %6s %10s %10s %10s %10s  %-16s %s\n", "field", "pool", "bytes", "base", "layer", "block", "head",
           "token", "byte");
    for (uint64_t i = 0; i < KVG_PAGE_FIELDS; i++) {
        const kvg_row_map *m = kvg_page_row(page, i);
        char token[80], byte[80];
        if (!kvg_page_field_bytes(page, i)) continue;
        printf("%-9s %-12s %6u %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64 "  %-16s %s\n",
               kvg_page_field(i), kvg_page_pool(kvg_page_pool_of(m)), m->bytes, m->base, m->layer, m->block, m->head,
               digits_text(m->token, token, sizeof token), digits_text(m->byte, byte, sizeof byte));
    }
    for (int i = 0; i < KVG_PAGE_POOLS; i++) {
        if (page->bytes[i]) printf("pool %-12s %zu bytes\n", kvg_page_pool(i), page->bytes[i]);
    }
}

/* --- from a place to its bytes --- */

static kvg_status read_place(const kvg_problem *p, const char *text, place *out)
{
    const struct {
        const char *word;
        uint32_t *to, count;
    } words[] = {{"layer", &out->layer, p->paging.layers}, {"block", &out->block, p->paging.blocks},
                 {"head", &out->head, p->kv_heads}, {"token", &out->token, p->paging.block_tokens},
                 {"dim", &out->dim, p->head_dim}};
    *out = (place){.layer = 0};
    while (*text) {
        size_t i = 0;
        char *end;
        const size_t length = strcspn(text, "=");
        while (i < 5 && (strlen(words[i].word) != length || strncmp(text, words[i].word, length) != 0)) i++;
        if (i == 5) {
            return kvg_fail(KVG_ERR_INVALID, "--at: '%.40s': layer, block, head, token or dim and its number, as in "
                            "layer=1,token=5", text);
        }
        text += length + (text[length] == '=');
        const unsigned long number = strtoul(text, &end, 10);
        if (end == text || (*end && *end != ',') || number >= words[i].count) {
            return kvg_fail(KVG_ERR_INVALID, "--at: %s is a number from 0 to %u, not '%.20s'", words[i].word,
                            words[i].count - 1, text);
        }
        *words[i].to = (uint32_t)number;
        text = *end ? end + 1 : end;
    }
    return KVG_OK;
}

static void print_place(const kvg_page *page, const place *at)
{
    for (uint64_t i = 0; i < KVG_PAGE_FIELDS; i++) {
        const kvg_row_map *m = kvg_page_row(page, i);
        const kvg_format_info *f = kvg_format_get(page->p->storage[i / 2].format);
        const uint32_t block = f->block ? at->dim / f->block * f->block_scale_bytes : 0;
        const uint32_t index = i % 2 ? block : at->dim * f->element_bits / 8;
        if (!kvg_page_field_bytes(page, i)) continue;
        const uint64_t byte = kvg_rows_place(m, at->layer, at->block, at->head, at->token, index);
        printf("%-9s byte %" PRIu64 " of %s = %" PRIu64 " + layer %u x %" PRIu64 " + block %u x %" PRIu64
               " + head %u x %" PRIu64 " + token %u: %" PRIu64 " + byte %u of the row: %" PRIu64 "\n",
               kvg_page_field(i), byte, kvg_page_pool(kvg_page_pool_of(m)), m->base, at->layer, m->layer, at->block,
               m->block, at->head, m->head, at->token, kvg_digits_place(m->token, at->token), index,
               kvg_digits_place(m->byte, index));
    }
}

/* --- from a byte to its place --- */

static void print_byte(const kvg_page *page, uint64_t byte)
{
    for (int pool = 0; pool < KVG_PAGE_POOLS; pool++) {
        bool found = false;
        kvg_pool_byte at;
        if (byte >= page->bytes[pool]) continue;
        for (uint64_t field = 0; field < KVG_PAGE_FIELDS && !found; field++) {
            const kvg_row_map *m = kvg_page_row(page, field);
            found = kvg_page_field_bytes(page, field) && kvg_page_pool_of(m) == pool &&
                    kvg_pool_byte_find(page->p, m, byte, &at);
            if (!found) continue;
            printf("byte %" PRIu64 " of %s: %s of layer %u, block %u, head %u, token %u, byte %u of the row\n", byte,
                   kvg_page_pool(pool), kvg_page_field(field), at.layer, at.block, at.head, at.offset, at.index);
        }
        if (!found) printf("byte %" PRIu64 " of %s: padding\n", byte, kvg_page_pool(pool));
    }
}

/* --- the command --- */

static void print_all(void)
{
    size_t count;
    const kvg_layout_info *layouts = kvg_layout_table(&count);
    for (size_t i = 0; i < count; i++) {
        const kvg_layout_info *const layout = &layouts[i];
        if (layout->paged) printf("%-11s %s\n", layout->name, layout->text);
        if (layout->groups) printf("%-11s v_scale_swizzle %s\n", layout->name, layout->groups);
    }
}

static uint32_t number(const kvg_arguments *a, kvg_option_id id, uint32_t fallback)
{
    return (uint32_t)kvg_given_number(a, id, fallback);
}

/* The problem of a cache with that layout: a name, or a text. A picture is of a small one. */
static kvg_status open_cache(const kvg_arguments *a, const char *layout, kvg_layout_text *text, kvg_problem *p)
{
    const bool small = kvg_given(a, KVG_OPTION_LAYOUT_DRAW) || kvg_given(a, KVG_OPTION_LAYOUT_SVG);
    kvg_format format;
    kvg_status s = kvg_format_find(kvg_given_text(a, KVG_OPTION_LAYOUT_FORMAT, "nvfp4"), &format);
    if (s) return s;
    *p = (kvg_problem){.op = KVG_OP_PROBE, .dtype = KVG_DTYPE_BF16,
                       .storage = {{format, "canonical"}, {format, "canonical"}}, .tokens = 1,
                       .kv_heads = number(a, KVG_OPTION_LAYOUT_HEADS, small ? 2 : 8),
                       .head_dim = number(a, KVG_OPTION_LAYOUT_DIM, 128),
                       .paging = {.layers = number(a, KVG_OPTION_LAYOUT_LAYERS, small ? 1 : 2),
                                  .blocks = number(a, KVG_OPTION_LAYOUT_BLOCKS, small ? 1 : 4),
                                  .block_tokens = number(a, KVG_OPTION_LAYOUT_TOKENS, small ? 4 : 16),
                                  .sequences = 1}};
    s = kvg_layout_read(layout, text, &p->layout);
    if (text->text) p->text = text;
    if (!s && !strstr(kvg_problem_layout_text(p), "V.")) {
        p->paging.shared_kv = true;
        p->paging.v_dim = p->head_dim;
        p->kv_heads = 1;
    }
    return s ? s : kvg_problem_check(p);
}

/* What the options ask of a page, and of another one (or NULL) that --compare names. */
static kvg_status show(const kvg_arguments *a, kvg_page *page, kvg_page *other, bool *same)
{
    const char *const where = kvg_given_text(a, KVG_OPTION_LAYOUT_AT, NULL);
    const char *const picture = kvg_given_text(a, KVG_OPTION_LAYOUT_SVG, NULL);
    const kvg_argument *const byte = kvg_given(a, KVG_OPTION_LAYOUT_BYTE);
    const bool draws = kvg_given(a, KVG_OPTION_LAYOUT_DRAW);
    place at;
    kvg_status s = where ? read_place(page->p, where, &at) : KVG_OK;
    if (!s && (draws || picture)) s = kvg_page_own(page);
    if (!s && other) s = kvg_page_own(other);
    if (!s && other) s = kvg_layout_compare(page, other, same);
    if (!s && draws) kvg_layout_draw(other ? other : page, other ? page : NULL, stdout);
    if (!s && picture) s = kvg_layout_draw_svg(other ? other : page, other ? page : NULL, picture);
    if (s) return s;
    if (where) print_place(page, &at);
    if (byte) print_byte(page, byte->numbers[0]);
    if (!where && !byte && !other && !draws && !picture) print_map(page);
    return KVG_OK;
}

static int identify(const kvg_arguments *a, const char *pack)
{
    bool explained = false;
    if (a->file_count != 1) return kvg_command_usage("layout", "--identify: give one answer file");
    const char *const key = kvg_given_text(a, KVG_OPTION_LAYOUT_CASE, NULL);
    kvg_status s = kvg_layout_identify(a->files[0], pack, key, &explained);
    return s ? kvg_command_fail("layout", s) : explained ? KVG_EXIT_PASS : KVG_EXIT_FAIL;
}

int kvg_command_layout(const kvg_arguments *a)
{
    kvg_layout_text text, other_text;
    kvg_problem p, q;
    kvg_page page, other = {.p = NULL};
    bool same = true;
    const char *const with = kvg_given_text(a, KVG_OPTION_LAYOUT_COMPARE, NULL);
    const char *const pack = kvg_given_text(a, KVG_OPTION_LAYOUT_IDENTIFY, NULL);
    if (pack) return identify(a, pack);
    if (a->file_count > 1) return kvg_command_usage("layout", "give one layout, a text in quotes");
    if (a->file_count == 0) {
        print_all();
        return KVG_EXIT_PASS;
    }
    kvg_status s = open_cache(a, a->files[0], &text, &p);
    if (!s && with) s = open_cache(a, with, &other_text, &q);
    if (s) return kvg_command_fail("layout", s);
    kvg_page_open(&p, &page);
    if (with) kvg_page_open(&q, &other);
    s = show(a, &page, with ? &other : NULL, &same);
    kvg_page_close(&page);
    kvg_page_close(&other);
    return s ? kvg_command_fail("layout", s) : same ? KVG_EXIT_PASS : KVG_EXIT_FAIL;
}
