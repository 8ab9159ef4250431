/* A text is parsed into a tree of nests, the nests are measured from the inside, and a walk from the outside adds up
 * where each field begins and how far each axis steps. */
#include "core/layout_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TEXT = 1024, MAX_NESTS = 64, MAX_AXES = 128, MAX_DEPTH = 16, NONE = -1 };

/* What a field holds, K then V. The scales of a text that names no parameters are both. */
typedef enum part { CODES, SCALES, PARAMS, PARTS } part;
enum { FIELDS = 2 * PARTS };
static const char *const field_names[FIELDS] = {"K.codes", "K.scales", "K.params", "V.codes", "V.scales", "V.params"};

/* `letter` of the index, or a digit of it: index / divisor % modulus; modulus 0: the rest. With `parts` the axis is cut
 * into so many equal parts, and the digit is the part or, with `inner`, the place in it. */
typedef struct axis {
    const char *at;
    char letter;
    uint64_t divisor, modulus, parts;
    bool inner;
} axis;

typedef struct nest {
    const char *at;
    int first_axis, axes;
    int field;             /* NONE: the nest holds other nests */
    int child, next;       /* NONE: no more */
    uint64_t padding, multiple; /* behind the product: bytes, then up to a multiple */
    uint64_t inner, bytes; /* measured: of one repetition, and all of it */
} nest;

enum { PADDINGS = 3 };
static const char *const padding_words[PADDINGS] = {"row", "data", "scale"};

typedef struct reader {
    const kvg_problem *p;
    const char *text, *at;
    nest nests[MAX_NESTS];
    axis axes[MAX_AXES];
    int nest_count, axis_count;
    const char *fields[FIELDS]; /* where a field stands; NULL: nowhere */
    bool padded[PADDINGS];      /* the text has the word */
    uint64_t bytes[FIELDS], groups[2]; /* of a row: bytes of a field, groups that share a scale by kvg_side */
} reader;

/* --- texts --- */

const char *kvg_problem_layout_name(const kvg_problem *p)
{
    return p->layout == KVG_LAYOUT_TEXT ? p->text->name : kvg_layout_get(p->layout)->name;
}

const char *kvg_problem_layout_text(const kvg_problem *p)
{
    const kvg_layout_info *const layout = kvg_layout_get(p->layout);
    if (p->layout == KVG_LAYOUT_TEXT) return p->text->text;
    return p->paging.v_scale_swizzle && layout->groups ? layout->groups : layout->text;
}

/* --- errors --- */

static kvg_status refuse(const reader *r, const char *at, const char *why)
{
    const int column = (int)(at - r->text), before = column < 60 ? column : 60;
    return kvg_fail(KVG_ERR_INVALID, "layout %s, column %d: %s: %.*s^%.20s", kvg_problem_layout_name(r->p), column + 1,
                    why, before, at - before, at);
}

/* --- parsing --- */

static void skip_space(reader *r)
{
    while (*r->at == ' ') r->at++;
}

static bool take(reader *r, char c)
{
    skip_space(r);
    if (*r->at != c) return false;
    r->at++;
    return true;
}

/* A number of 1 to 2^32 - 1. */
static kvg_status read_number(reader *r, uint64_t *out)
{
    const char *const at = r->at;
    *out = 0;
    while (isdigit((unsigned char)*r->at) && *out <= UINT32_MAX) *out = *out * 10 + (uint64_t)(*r->at++ - '0');
    return *out >= 1 && *out <= UINT32_MAX ? KVG_OK : refuse(r, at, "a number from 1 to 4294967295 is missing");
}

/* L, N/4, N%4, N/32%4, G//4, G%%4 */
static kvg_status read_axis(reader *r)
{
    if (r->axis_count == MAX_AXES) return refuse(r, r->at, "more than 128 axes");
    axis *const a = &r->axes[r->axis_count++];
    *a = (axis){.at = r->at, .letter = *r->at, .divisor = 1};
    if (!*r->at || !strchr("LBHNGCE", *r->at)) {
        return refuse(r, r->at, "an axis is L layer, B block, H head, N token, or of a row G group, E element, C byte");
    }
    r->at++;
    a->inner = r->at[0] == '%';
    if (r->at[0] && strchr("/%", r->at[0]) && r->at[1] == r->at[0]) {
        r->at += 2;
        return read_number(r, &a->parts);
    }
    if (*r->at == '/') {
        r->at++;
        kvg_status s = read_number(r, &a->divisor);
        if (s) return s;
    }
    if (*r->at != '%') return KVG_OK;
    r->at++;
    return read_number(r, &a->modulus);
}

static kvg_status read_field(reader *r, nest *n)
{
    for (int i = 0; i < FIELDS; i++) {
        const size_t length = strlen(field_names[i]);
        if (strncmp(r->at, field_names[i], length) != 0 || isalnum((unsigned char)r->at[length])) continue;
        if (r->fields[i]) return refuse(r, r->at, "this field stands twice");
        n->field = i;
        r->fields[i] = r->at;
        r->at += length;
        return KVG_OK;
    }
    return refuse(r, r->at, "a nest holds K.codes, K.scales, K.params, those of V, or nests in braces");
}

static uint32_t padding_of(const reader *r, int word)
{
    const kvg_paging *g = &r->p->paging;
    return (const uint32_t[PADDINGS]){g->row_padding, g->data_padding, g->scale_padding}[word];
}

/* +64, +row, +data, +scale, +%128 */
static kvg_status read_padding(reader *r, nest *n)
{
    uint64_t number;
    skip_space(r);
    if (n->multiple != 1) return refuse(r, r->at, "a multiple is the last padding of its nest");
    for (int i = 0; i < PADDINGS; i++) {
        const size_t length = strlen(padding_words[i]);
        if (strncmp(r->at, padding_words[i], length) != 0) continue;
        n->padding += padding_of(r, i);
        r->padded[i] = true;
        r->at += length;
        return KVG_OK;
    }
    const bool up = *r->at == '%';
    if (up) r->at++;
    kvg_status s = read_number(r, &number);
    if (!s && up) n->multiple = number;
    else if (!s) n->padding += number;
    return s;
}

static kvg_status read_nest(reader *r, int depth, int *out);

static kvg_status read_nests(reader *r, int depth, int *first)
{
    int *link = first;
    kvg_status s;
    do {
        s = read_nest(r, depth, link);
        if (!s) link = &r->nests[*link].next;
    } while (!s && !take(r, '}'));
    return s;
}

static kvg_status read_nest(reader *r, int depth, int *out)
{
    kvg_status s = KVG_OK;
    skip_space(r);
    if (r->nest_count == MAX_NESTS) return refuse(r, r->at, "more than 64 nests");
    if (depth > MAX_DEPTH) return refuse(r, r->at, "nests deeper than 16");
    nest *const n = &r->nests[*out = r->nest_count++];
    *n = (nest){.at = r->at, .first_axis = r->axis_count, .field = NONE, .child = NONE, .next = NONE, .multiple = 1};
    if (take(r, '[')) {
        while (!s && !take(r, ']')) s = read_axis(r);
        n->axes = r->axis_count - n->first_axis;
        skip_space(r);
    }
    if (!s && take(r, '{')) s = read_nests(r, depth + 1, &n->child);
    else if (!s) s = read_field(r, n);
    while (!s && take(r, '+')) s = read_padding(r, n);
    return s;
}

/* --- measuring --- */

static void measure_rows(reader *r)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_format_info *const f = kvg_format_get(r->p->storage[side].format);
        const bool own = side == KVG_K || !r->p->paging.shared_kv; /* else V is a part of K's rows */
        const bool apart = r->fields[side * PARTS + PARAMS];
        const uint64_t scales = own ? kvg_format_scale_bytes(f->format, r->p->head_dim) : 0;
        r->groups[side] = f->block ? r->p->head_dim / f->block : 1;
        r->bytes[side * PARTS + CODES] = own ? kvg_format_code_bytes(f->format, r->p->head_dim) : 0;
        r->bytes[side * PARTS + PARAMS] = own ? f->row_param_bytes : 0;
        r->bytes[side * PARTS + SCALES] = scales - (apart && own ? f->row_param_bytes : 0);
    }
}

/* The values of an index. Letters G, E and C cut a field's row: into groups that share a scale, elements, or bytes. */
static uint64_t letter_size(const reader *r, char letter, int field)
{
    const kvg_paging *g = &r->p->paging;
    switch (letter) {
    case 'L': return g->layers;
    case 'B': return g->blocks;
    case 'H': return r->p->kv_heads;
    case 'N': return g->block_tokens;
    case 'G': return r->groups[field / PARTS];
    case 'E': return r->p->head_dim;
    default: return r->bytes[field];
    }
}

/* A digit of an index: index / divisor % size. */
typedef struct digit {
    uint64_t divisor, size;
} digit;

/* What an axis is for a field. A digit that does not divide the axis is refused. Worked example: of an axis of 8 values
 * G//4 is its 4 parts, index / 2, and G%%4 one of the 2 places in a part. */
static kvg_status digit_of(const reader *r, const axis *a, int field, digit *out)
{
    const uint64_t all = letter_size(r, a->letter, field);
    const uint64_t unit = a->parts ? a->parts : a->divisor * (a->modulus ? a->modulus : 1);
    if (all % unit) return refuse(r, a->at, "this digit does not divide its axis");
    if (!a->parts) *out = (digit){a->divisor, a->modulus ? a->modulus : all / a->divisor};
    else *out = a->inner ? (digit){1, all / a->parts} : (digit){all / a->parts, a->parts};
    return KVG_OK;
}

/* The letter by which a nest, or one around it, cuts rows; 0: none does. */
static kvg_status find_cut(const reader *r, const nest *n, char *cut)
{
    for (int i = 0; i < n->axes; i++) {
        const axis *const a = &r->axes[n->first_axis + i];
        if (!strchr("GEC", a->letter)) continue;
        if (*cut && *cut != a->letter) return refuse(r, a->at, "a row is cut by one of G, E and C");
        *cut = a->letter;
    }
    return KVG_OK;
}

/* Of a nest's axes, which must count the same for every field in it, the product by which `bytes` grows. */
static kvg_status multiply(const reader *r, const nest *n, const nest *in, uint64_t *bytes)
{
    kvg_status s = KVG_OK;
    if (in->field == NONE) {
        for (int i = in->child; !s && i != NONE; i = r->nests[i].next) s = multiply(r, n, &r->nests[i], bytes);
        return s;
    }
    uint64_t product = 1;
    for (int i = 0; !s && i < n->axes; i++) {
        digit d;
        s = digit_of(r, &r->axes[n->first_axis + i], in->field, &d);
        if (!s && __builtin_mul_overflow(product, d.size, &product)) s = refuse(r, n->at, "it exceeds 2^63 - 1 bytes");
    }
    if (!s && *bytes != UINT64_MAX && *bytes != product) s = refuse(r, n->at, "fields with rows of other sizes");
    *bytes = product;
    return s;
}

static kvg_status measure(reader *r, nest *n, char cut)
{
    uint64_t product = UINT64_MAX;
    kvg_status s = find_cut(r, n, &cut);
    if (!s && n->field != NONE) {
        const uint64_t pieces = cut ? letter_size(r, cut, n->field) : 1;
        n->inner = pieces ? r->bytes[n->field] / pieces : 0;
        if (pieces && r->bytes[n->field] % pieces) s = refuse(r, n->at, "the pieces do not divide this field");
    }
    for (int i = n->child; !s && i != NONE; i = r->nests[i].next) {
        s = measure(r, &r->nests[i], cut);
        if (!s && __builtin_add_overflow(n->inner, r->nests[i].bytes, &n->inner)) {
            s = refuse(r, n->at, "it exceeds 2^63 - 1 bytes");
        }
    }
    if (!s) s = multiply(r, n, n, &product);
    if (s) return s;
    bool over = __builtin_mul_overflow(n->inner, product, &n->bytes);
    over |= n->bytes && __builtin_add_overflow(n->bytes, n->padding, &n->bytes);
    over |= __builtin_add_overflow(n->bytes, (n->multiple - n->bytes % n->multiple) % n->multiple, &n->bytes);
    return over || n->bytes > INT64_MAX ? refuse(r, n->at, "it exceeds 2^63 - 1 bytes") : KVG_OK;
}

/* --- places --- */

/* A step of an axis on the way to a field. */
typedef struct step {
    const axis *a;
    digit digit; /* of the field that is placed */
    uint64_t stride;
} step;

typedef struct way {
    step steps[MAX_AXES];
    int count;
    uint64_t base;
    char cut;
} way;

/* A digit of one value comes before the digit that begins where it ends. */
static int by_divisor(const void *a, const void *b)
{
    const digit *x = &((const step *)a)->digit, *y = &((const step *)b)->digit;
    if (x->divisor != y->divisor) return x->divisor > y->divisor ? 1 : -1;
    return (x->size > y->size) - (x->size < y->size);
}

/* The digits of one letter, the lowest first, behind `low` digits that are there: each goes on where the one before it
 * ends, and together they are the index. Neighbours that step alike are one. */
static kvg_status put_digits(const reader *r, const way *w, char letter, int field, kvg_digit *digits, int low)
{
    step mine[MAX_AXES];
    int count = 0, made = low;
    uint64_t reached = 1;
    const uint64_t all = letter_size(r, letter, field);
    for (int i = 0; i < w->count; i++) {
        if (w->steps[i].a->letter != letter) continue;
        mine[count] = w->steps[i];
        kvg_status s = digit_of(r, mine[count].a, field, &mine[count].digit);
        if (s) return s;
        count++;
    }
    qsort(mine, (size_t)count, sizeof *mine, by_divisor);
    for (int i = 0; i < count; i++) {
        kvg_digit *const before = made ? &digits[made - 1] : NULL;
        if (mine[i].digit.divisor < reached) {
            return refuse(r, mine[i].a->at, "this axis, or this digit of it, stands twice");
        }
        if (mine[i].digit.divisor > reached) return refuse(r, mine[i].a->at, "a lower digit of this axis is missing");
        reached *= mine[i].digit.size;
        if (before && before->size * before->stride == mine[i].stride) {
            before->size *= mine[i].digit.size;
        } else if (made == KVG_MAP_DIGITS) {
            return refuse(r, mine[i].a->at, "an index has at most 3 digits");
        } else {
            digits[made++] = (kvg_digit){mine[i].digit.size, mine[i].stride};
        }
    }
    if (reached != all) {
        char why[96];
        const char *const what = count ? "a higher digit of axis %c is missing" : "axis %c, of %llu, is missing";
        snprintf(why, sizeof why, what, letter, (unsigned long long)all);
        return refuse(r, r->fields[field], why);
    }
    if (made) digits[made - 1].size = 0; /* takes the rest */
    return KVG_OK;
}

static kvg_status put_stride(const reader *r, const way *w, char letter, int field, uint64_t *stride)
{
    kvg_digit digits[KVG_MAP_DIGITS] = {{0, 0}};
    kvg_status s = put_digits(r, w, letter, field, digits, 0);
    if (!s && digits[0].size) s = refuse(r, r->fields[field], "only N, G, E and C may lie in digits that are apart");
    *stride = digits[0].stride;
    return s;
}

static kvg_status put_field(const reader *r, const way *w, int field, kvg_row_map *m)
{
    const uint64_t bytes = r->bytes[field];
    *m = (kvg_row_map){.base = w->base, .bytes = (uint32_t)bytes};
    kvg_status s = put_stride(r, w, 'L', field, &m->layer);
    if (!s) s = put_stride(r, w, 'B', field, &m->block);
    if (!s) s = put_stride(r, w, 'H', field, &m->head);
    if (!s) s = put_digits(r, w, 'N', field, m->token, 0);
    m->byte[0] = (kvg_digit){0, 1};
    if (s || !w->cut) return s;
    const uint64_t unit = bytes / letter_size(r, w->cut, field);
    m->byte[0].size = unit;
    return put_digits(r, w, w->cut, field, m->byte, unit > 1);
}

/* Adds up the way to each field in a nest, and goes back. */
static kvg_status walk(const reader *r, const nest *n, way *w, kvg_row_map maps[FIELDS])
{
    const int outer_count = w->count;
    const uint64_t outer_base = w->base;
    const char outer_cut = w->cut;
    uint64_t repeated = n->inner;
    const nest *first = n; /* axes count the same for every field */
    while (first->field == NONE) first = &r->nests[first->child];
    kvg_status s = find_cut(r, n, &w->cut);
    if (s) return s;
    for (int i = n->axes; i-- > 0;) {
        const axis *a = &r->axes[n->first_axis + i];
        digit d;
        s = digit_of(r, a, first->field, &d);
        if (s) return s;
        if (w->count == MAX_AXES) return refuse(r, a->at, "more than 128 axes on the way to a field");
        w->steps[w->count++] = (step){.a = a, .stride = repeated};
        repeated *= d.size;
    }
    if (n->field != NONE && r->bytes[n->field]) s = put_field(r, w, n->field, &maps[n->field]);
    for (int i = n->child; !s && i != NONE; i = r->nests[i].next) {
        s = walk(r, &r->nests[i], w, maps);
        w->base += r->nests[i].bytes;
    }
    w->count = outer_count;
    w->base = outer_base;
    w->cut = outer_cut;
    return s;
}

/* --- pools --- */

static bool holds(const reader *r, const nest *n, int field)
{
    if (n->field != NONE) return n->field == field;
    for (int i = n->child; i != NONE; i = r->nests[i].next) {
        if (holds(r, &r->nests[i], field)) return true;
    }
    return false;
}

/* The tensor that a pool is follows from the text alone: a data pool if it names codes, else a scale pool; K's if it
 * names such bytes of K. */
static kvg_status place_pool(const reader *r, const nest *pool, kvg_row_map maps[FIELDS], uint64_t pools[2][2])
{
    way w;
    bool held[FIELDS], codes = false;
    kvg_side side = KVG_V;
    w.count = w.cut = 0;
    w.base = 0;
    kvg_status s = walk(r, pool, &w, maps);
    if (s || pool->bytes == 0) return s;
    for (int field = 0; field < FIELDS; field++) {
        held[field] = holds(r, pool, field);
        codes |= held[field] && field % PARTS == CODES;
    }
    for (int field = 0; field < FIELDS; field++) {
        if (held[field] && codes == (field % PARTS == CODES) && field / PARTS == KVG_K) side = KVG_K;
    }
    for (int field = 0; field < FIELDS; field++) {
        if (!held[field]) continue;
        maps[field].pool = codes ? KVG_ROLE_DATA_POOL : KVG_ROLE_SCALE_POOL;
        maps[field].side = side;
    }
    if (pools[side][!codes]) return refuse(r, pool->at, "a second pool of scales of this side");
    pools[side][!codes] = pool->bytes;
    return KVG_OK;
}

static kvg_status check_fields(const reader *r)
{
    for (int field = 0; field < FIELDS; field++) {
        const bool own = field < PARTS || !r->p->paging.shared_kv;
        if (r->fields[field] && !own && r->p->text) {
            return refuse(r, r->fields[field], "V is a part of K's rows (shared_kv)");
        }
        if (r->fields[field] || field % PARTS == PARAMS || r->bytes[field] == 0) continue;
        return kvg_fail(KVG_ERR_INVALID, "layout %s: %s has no place: %s", kvg_problem_layout_name(r->p),
                        field_names[field], r->text);
    }
    return KVG_OK;
}

/* The text has a place for each padding that is given. */
static kvg_status check_paddings(const reader *r)
{
    for (int i = 0; i < PADDINGS; i++) {
        if (!padding_of(r, i) || r->padded[i]) continue;
        return kvg_fail(KVG_ERR_INVALID, "layout %s: %s_padding is %u, but the text has no +%s: %s",
                        kvg_problem_layout_name(r->p), padding_words[i], padding_of(r, i), padding_words[i], r->text);
    }
    return KVG_OK;
}

kvg_status kvg_layout_text_read(const kvg_problem *p, kvg_layout_map *map, uint64_t pools[2][2])
{
    const char *const text = kvg_problem_layout_text(p);
    reader r;
    kvg_row_map maps[FIELDS] = {{.bytes = 0}};
    int first[MAX_NESTS], count = 0;
    kvg_status s = KVG_OK;
    r.p = p;
    r.text = r.at = text;
    r.nest_count = r.axis_count = 0;
    memset(r.fields, 0, sizeof r.fields);
    memset(r.padded, 0, sizeof r.padded);
    *map = (kvg_layout_map){.codes = {{.bytes = 0}}};
    memset(pools, 0, sizeof(uint64_t[2][2]));
    if (strlen(r.text) > MAX_TEXT) {
        return kvg_fail(KVG_ERR_INVALID, "layout %s: more than %d bytes of text", kvg_problem_layout_name(p), MAX_TEXT);
    }
    do s = read_nest(&r, 1, &first[count++]);
    while (!s && take(&r, ';'));
    skip_space(&r);
    if (!s && *r.at) s = refuse(&r, r.at, "nothing more is expected here");
    if (!s) measure_rows(&r);
    if (!s) s = check_fields(&r);
    if (!s) s = check_paddings(&r);
    for (int i = 0; !s && i < count; i++) {
        s = measure(&r, &r.nests[first[i]], 0);
        if (!s) s = place_pool(&r, &r.nests[first[i]], maps, pools);
    }
    for (int side = KVG_K; !s && side <= KVG_V; side++) {
        const kvg_row_map *parts = &maps[side * PARTS];
        map->codes[side] = parts[CODES];
        map->scales[side] = parts[PARAMS].bytes ? parts[PARAMS] : parts[SCALES]; /* no format has both */
        if (!map->codes[side].bytes) map->codes[side].pool = KVG_ROLE_DATA_POOL;
        if (!map->scales[side].bytes) map->scales[side].pool = KVG_ROLE_DATA_POOL;
    }
    return s;
}
