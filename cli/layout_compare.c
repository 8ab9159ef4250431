#include "cli/layout_compare.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/layout_owners.h"

static const char *const coordinate_names[KVG_AT_COUNT] = {"field", "layer", "block", "head", "token", "byte"};

static void print_byte(const uint64_t at[KVG_AT_COUNT])
{
    printf("%s", kvg_page_field(at[KVG_AT_FIELD]));
    for (int i = KVG_AT_LAYER; i < KVG_AT_COUNT; i++) {
        printf("%s %s %" PRIu64, i > KVG_AT_LAYER ? "," : " of", coordinate_names[i], at[i]);
    }
}

/* What the reader takes in place of a field. */
typedef struct found {
    uint64_t right, padding, beyond, other[KVG_AT_COUNT]; /* other: bytes of another layer and so on */
    uint64_t wrong_at[KVG_AT_COUNT], wrong[KVG_AT_COUNT];  /* the first byte of a row that is another one, and which */
    bool any_wrong;
} found;

static void look(const kvg_page *reader, const kvg_page *g, uint64_t number, found *f)
{
    uint64_t at[KVG_AT_COUNT], is[KVG_AT_COUNT];
    kvg_page_split(reader, number, at);
    const int pool = kvg_page_pool_of(kvg_page_row(reader, at[KVG_AT_FIELD]));
    const uint64_t byte = kvg_page_place(reader, at);
    if (byte >= g->bytes[pool]) {
        f->beyond++;
        return;
    }
    if (!g->owner[pool][byte]) {
        f->padding++;
        return;
    }
    kvg_page_split(g, g->owner[pool][byte] - 1, is);
    bool right = true;
    for (int i = 0; i < KVG_AT_COUNT; i++) {
        f->other[i] += at[i] != is[i];
        right &= at[i] == is[i];
    }
    f->right += right;
    if (right || f->any_wrong) return;
    f->any_wrong = true;
    for (int i = 0; i < KVG_AT_COUNT; i++) f->wrong_at[i] = at[i], f->wrong[i] = is[i];
}

/* "K.codes: 12.5 % of 65536 bytes are right; the others are of another head, token". */
static void print_found(uint64_t field, uint64_t count, const found *f)
{
    const char *separator = "; the others are of another ";
    if (f->right == count) {
        printf("%s: all %" PRIu64 " bytes are right\n", kvg_page_field(field), count);
        return;
    }
    printf("%s: %.1f %% of %" PRIu64 " bytes are right", kvg_page_field(field),
           100.0 * (double)f->right / (double)count, count);
    for (int i = 0; i < KVG_AT_COUNT; i++) {
        if (!f->other[i]) continue;
        printf("%s%s", separator, coordinate_names[i]);
        separator = ", ";
    }
    if (f->padding) printf("; %" PRIu64 " are padding", f->padding);
    if (f->beyond) printf("; %" PRIu64 " lie beyond the pool", f->beyond);
    if (f->any_wrong) {
        printf("\n    in place of ");
        print_byte(f->wrong_at);
        printf("\n    it takes    ");
        print_byte(f->wrong);
    }
    printf("\n");
}

kvg_status kvg_layout_compare(const kvg_page *reader, const kvg_page *other, bool *same)
{
    *same = true;
    if (reader->p->paging.shared_kv != other->p->paging.shared_kv) {
        return kvg_fail(KVG_ERR_INVALID, "--compare: one layout has one row for K and V, and the other has two");
    }
    uint64_t first = 0;
    for (uint64_t field = 0; field < KVG_PAGE_FIELDS; field++) {
        found f = {0};
        const uint64_t count = kvg_page_field_bytes(reader, field);
        for (uint64_t n = first; n < first + count; n++) look(reader, other, n, &f);
        if (count) print_found(field, count, &f);
        *same &= f.right == count;
        first += count;
    }
    return KVG_OK;
}
