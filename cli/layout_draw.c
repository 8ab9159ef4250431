#include "cli/layout_draw.h"

#include <inttypes.h>
#include <string.h>

#include "support/whole_file.h"

enum { LABEL = 80, COLUMNS = 100 };

/* A run of bytes of a pool. */
typedef struct box {
    size_t first, bytes;
    uint64_t owner, taken; /* its first byte's number + 1 on the page and for the reader; 0: padding */
} box;

static uint64_t taken_of(const kvg_page *page, const kvg_page *reader, int pool, size_t byte)
{
    if (!reader) return page->owner[pool][byte];
    return byte < reader->bytes[pool] ? reader->owner[pool][byte] : 0;
}

/* Byte `i` behind a run's first one goes on with the row that the run is of. */
static bool goes_on(const kvg_page *page, uint64_t first, uint64_t next, uint64_t i)
{
    uint64_t a[KVG_AT_COUNT], b[KVG_AT_COUNT];
    if (!first || !next) return first == next;
    if (next != first + i) return false;
    kvg_page_split(page, first - 1, a);
    kvg_page_split(page, next - 1, b);
    return memcmp(a, b, KVG_AT_BYTE * sizeof *a) == 0;
}

static box box_at(const kvg_page *page, const kvg_page *reader, int pool, size_t first)
{
    box x = {first, 1, page->owner[pool][first], taken_of(page, reader, pool, first)};
    while (first + x.bytes < page->bytes[pool] &&
           goes_on(page, x.owner, page->owner[pool][first + x.bytes], x.bytes) &&
           goes_on(reader ? reader : page, x.taken, taken_of(page, reader, pool, first + x.bytes), x.bytes)) {
        x.bytes++;
    }
    return x;
}

/* "K t0 h1", "Vs t3 h0 5" (byte 5 alone), with layer and block where there are several. */
static void label_of(const kvg_page *page, uint64_t owner, size_t bytes, char out[LABEL])
{
    static const char *const fields[] = {"K", "Ks", "V", "Vs"};
    const kvg_paging *g = &page->p->paging;
    uint64_t at[KVG_AT_COUNT];
    int used;
    if (!owner) {
        snprintf(out, LABEL, "padding");
        return;
    }
    kvg_page_split(page, owner - 1, at);
    used = snprintf(out, LABEL, "%s", fields[at[KVG_AT_FIELD]]);
    if (g->layers > 1) used += snprintf(out + used, LABEL - (size_t)used, " l%" PRIu64, at[KVG_AT_LAYER]);
    if (g->blocks > 1) used += snprintf(out + used, LABEL - (size_t)used, " b%" PRIu64, at[KVG_AT_BLOCK]);
    used += snprintf(out + used, LABEL - (size_t)used, " t%" PRIu64 " h%" PRIu64, at[KVG_AT_TOKEN], at[KVG_AT_HEAD]);
    if (bytes == kvg_page_row(page, at[KVG_AT_FIELD])->bytes) return;
    used += snprintf(out + used, LABEL - (size_t)used, " %" PRIu64, at[KVG_AT_BYTE]);
    if (bytes > 1) snprintf(out + used, LABEL - (size_t)used, "-%" PRIu64, at[KVG_AT_BYTE] + bytes - 1);
}

/* What the reader takes a box for; "" if that is what it is. */
static void taken_label(const kvg_page *reader, const box *x, char out[LABEL])
{
    out[0] = 0;
    if (!reader || x->taken == x->owner) return;
    if (x->taken) label_of(reader, x->taken, x->bytes, out);
    else snprintf(out, LABEL, "not read");
}

/* --- on a terminal --- */

static size_t width_of(const kvg_page *page, const kvg_page *reader, int pool)
{
    size_t width = 1;
    for (size_t at = 0; at < page->bytes[pool];) {
        const box x = box_at(page, reader, pool, at);
        char label[LABEL], taken[LABEL];
        label_of(page, x.owner, x.bytes, label);
        taken_label(reader, &x, taken);
        if (strlen(label) > width) width = strlen(label);
        if (strlen(taken) > width) width = strlen(taken);
        at += x.bytes;
    }
    return width;
}

static void draw_rule(size_t boxes, size_t width, FILE *to)
{
    char edge[LABEL + 2];
    memset(edge, '-', sizeof edge);
    for (size_t i = 0; i < boxes; i++) fprintf(to, "+%.*s", (int)width + 2, edge);
    fprintf(to, "+\n");
}

/* A line of boxes. */
static void draw_line(const kvg_page *page, const kvg_page *reader, const box *line, size_t count, size_t width,
                      FILE *to)
{
    char label[LABEL];
    draw_rule(count, width, to);
    for (int what = 0; what < (reader ? 2 : 1); what++) {
        for (size_t i = 0; i < count; i++) {
            if (what) taken_label(reader, &line[i], label);
            else label_of(page, line[i].owner, line[i].bytes, label);
            fprintf(to, "| %-*s ", (int)width, label);
        }
        fprintf(to, "|\n");
    }
    draw_rule(count, width, to);
    for (size_t i = 0; i < count; i++) fprintf(to, " %-*zu ", (int)width + 1, line[i].first);
    fprintf(to, "\n");
}

void kvg_layout_draw(const kvg_page *page, const kvg_page *reader, FILE *to)
{
    fprintf(to, "K, V: codes; Ks, Vs: scales; t: token; h: head; below a box its first byte\n");
    if (reader) fprintf(to, "second line: what the reader takes it for, if that is something else\n");
    for (int pool = 0; pool < KVG_PAGE_POOLS; pool++) {
        const size_t width = width_of(page, reader, pool), most = COLUMNS / (width + 3);
        box line[COLUMNS];
        size_t count = 0;
        if (!page->bytes[pool]) continue;
        fprintf(to, "\n%s, %zu bytes\n", kvg_page_pool(pool), page->bytes[pool]);
        for (size_t at = 0; at < page->bytes[pool]; at += line[count - 1].bytes) {
            if (count == most) {
                draw_line(page, reader, line, count, width, to);
                count = 0;
            }
            line[count++] = box_at(page, reader, pool, at);
        }
        draw_line(page, reader, line, count, width, to);
    }
}

/* --- as a picture --- */

enum { BOX_WIDTH = 96, BOX_HEIGHT = 40, LINE_HEIGHT = 64, TITLE_HEIGHT = 26, PER_LINE = 10, MARGIN = 12 };

typedef struct pair {
    const kvg_page *page, *reader;
} pair;

static void draw_boxes(const kvg_page *page, const kvg_page *reader, int pool, int top, FILE *to)
{
    static const char *const fills[] = {"#a6c8ff", "#b5e3b5", "#ffd0a0", "#fff0a0"};
    int number = 0;
    fprintf(to, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s, %zu bytes</text>\n", MARGIN, top + 16,
            kvg_page_pool(pool), page->bytes[pool]);
    for (size_t at = 0; at < page->bytes[pool]; number++) {
        const box x = box_at(page, reader, pool, at);
        const int left = MARGIN + number % PER_LINE * BOX_WIDTH;
        const int y = top + TITLE_HEIGHT + number / PER_LINE * LINE_HEIGHT;
        uint64_t place[KVG_AT_COUNT];
        char label[LABEL], taken[LABEL];
        if (x.owner) kvg_page_split(page, x.owner - 1, place);
        label_of(page, x.owner, x.bytes, label);
        taken_label(reader, &x, taken);
        fprintf(to, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" stroke=\"#444\"/>\n", left, y,
                BOX_WIDTH, BOX_HEIGHT, x.owner ? fills[place[KVG_AT_FIELD]] : "#eeeeee");
        fprintf(to, "<text x=\"%d\" y=\"%d\">%s</text>\n", left + 6, y + 16, label);
        if (taken[0]) fprintf(to, "<text x=\"%d\" y=\"%d\" fill=\"#b00020\">%s</text>\n", left + 6, y + 32, taken);
        fprintf(to, "<text x=\"%d\" y=\"%d\" fill=\"#555\">%zu</text>\n", left + 2, y + BOX_HEIGHT + 14, x.first);
        at += x.bytes;
    }
}

static int height_of(const kvg_page *page, const kvg_page *reader, int pool)
{
    int number = 0;
    for (size_t at = 0; at < page->bytes[pool]; number++) at += box_at(page, reader, pool, at).bytes;
    return number ? TITLE_HEIGHT + (number + PER_LINE - 1) / PER_LINE * LINE_HEIGHT : 0;
}

static kvg_status write_svg(void *context, FILE *to)
{
    const pair *const pages = context;
    int y = MARGIN, height = 2 * MARGIN;
    for (int pool = 0; pool < KVG_PAGE_POOLS; pool++) height += height_of(pages->page, pages->reader, pool);
    fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"monospace\" "
            "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            2 * MARGIN + PER_LINE * BOX_WIDTH, height);
    for (int pool = 0; pool < KVG_PAGE_POOLS; pool++) {
        if (pages->page->bytes[pool]) draw_boxes(pages->page, pages->reader, pool, y, to);
        y += height_of(pages->page, pages->reader, pool);
    }
    fprintf(to, "</svg>\n");
    return KVG_OK;
}

kvg_status kvg_layout_draw_svg(const kvg_page *page, const kvg_page *reader, const char *path)
{
    return kvg_whole_file_write(path, write_svg, &(pair){page, reader});
}
