#include "second/slow_layout.h"

#include <stdlib.h>
#include <string.h>

/* What is looked for, and what was found in the nest that was read last. */
typedef struct walker {
    const kvg_problem *p;
    const char *text;
    slow_byte byte;
    bool scales;
    const char *found; /* the field that holds the byte; NULL: none of the nest's */
    uint64_t at;       /* where in the nest the byte is */
} walker;

static const char *past_spaces(const char *s)
{
    return s + strspn(s, " ");
}

static bool begins(const char *s, const char *word)
{
    return strncmp(s, word, strlen(word)) == 0;
}

/* --- fields: "K.codes" and so on --- */

static kvg_side side_of(const char *field)
{
    return *field == 'K' ? KVG_K : KVG_V;
}

static bool is_codes(const char *field)
{
    return begins(field + 1, ".codes");
}

static uint64_t row_bytes(const walker *w, const char *field)
{
    const kvg_format_info *f = kvg_format_get(w->p->storage[side_of(field)].format);
    const uint64_t blocks = f->block ? w->p->head_dim / f->block : 0;
    if (side_of(field) == KVG_V && w->p->paging.shared_kv) return 0; /* V is a part of K's rows */
    if (is_codes(field)) return (uint64_t)w->p->head_dim * f->element_bits / 8;
    if (begins(field + 1, ".params")) return f->row_param_bytes;
    const bool apart = strstr(w->text, side_of(field) == KVG_K ? "K.params" : "V.params");
    return blocks * f->block_scale_bytes + (apart ? 0 : f->row_param_bytes);
}

static bool is_wanted(const walker *w, const char *field)
{
    return side_of(field) == w->byte.side && is_codes(field) != w->scales && row_bytes(w, field) > 0;
}

static const char *first_field(const char *s)
{
    while (!((*s == 'K' || *s == 'V') && s[1] == '.')) s++;
    return s;
}

/* --- axes --- */

/* Into how many pieces letter G, E or C cuts a row; 1 without such a letter. */
static uint64_t pieces(const walker *w, char cut, const char *field)
{
    const kvg_format_info *f = kvg_format_get(w->p->storage[side_of(field)].format);
    if (cut == 'G') return f->block ? w->p->head_dim / f->block : 1;
    if (cut == 'E') return w->p->head_dim;
    return cut == 'C' ? row_bytes(w, field) : 1;
}

static uint64_t count_of(const walker *w, char letter, const char *field)
{
    switch (letter) {
    case 'L': return w->p->paging.layers;
    case 'B': return w->p->paging.blocks;
    case 'H': return w->p->kv_heads;
    case 'N': return w->p->paging.block_tokens;
    default: return pieces(w, letter, field);
    }
}

/* The byte's own value on the axis. */
static uint64_t value_of(const walker *w, char letter)
{
    switch (letter) {
    case 'L': return w->p->paging.layer;
    case 'B': return w->byte.block;
    case 'H': return w->byte.head;
    case 'N': return w->byte.offset;
    default: return w->byte.index / (row_bytes(w, w->found) / pieces(w, letter, w->found));
    }
}

/* What stands behind a letter of `all` values: "", "/4", "%4", "/32%4", "//4", "%%4". The value on the axis is the
 * index div *divisor mod *count. */
static void read_digit(const char *s, uint64_t all, uint64_t *divisor, uint64_t *count)
{
    char *rest = (char *)s;
    const bool part = begins(s, "//"), place = begins(s, "%%");
    const uint64_t parts = part || place ? strtoull(s + 2, NULL, 10) : 1;
    *divisor = part ? all / parts : 1;
    *count = part ? parts : all / parts;
    if (part || place) return;
    if (*s == '/') *divisor = strtoull(s + 1, &rest, 10);
    *count = *rest == '%' ? strtoull(rest + 1, NULL, 10) : all / *divisor;
}

/* Repeats what has `bytes` bytes along the axes between `axes` and `end`, the last one first. */
static uint64_t repeat(walker *w, const char *axes, const char *end, const char *field, uint64_t bytes)
{
    while (end-- > axes) {
        uint64_t divisor, count;
        if (*end < 'A' || *end > 'Z') continue;
        read_digit(end + 1, count_of(w, *end, w->found ? w->found : field), &divisor, &count);
        if (w->found) w->at += value_of(w, *end) / divisor % count * bytes;
        bytes *= count;
    }
    return bytes;
}

/* --- nests --- */

/* Adds what stands behind a nest: "+row", "+64", "+%128". */
static uint64_t pad(const walker *w, const char **s, uint64_t bytes)
{
    const kvg_paging *g = &w->p->paging;
    while (*(*s = past_spaces(*s)) == '+') {
        const char *what = *s = past_spaces(*s + 1);
        const uint64_t number = strtoull(what + (*what == '%'), NULL, 10);
        *s += strspn(what, "%0123456789abcdefghijklmnopqrstuvwxyz");
        if (bytes == 0) continue;
        if (*what == '%') bytes = (bytes + number - 1) / number * number;
        else if (begins(what, "row")) bytes += g->row_padding;
        else if (begins(what, "data")) bytes += g->data_padding;
        else if (begins(what, "scale")) bytes += g->scale_padding;
        else bytes += number;
    }
    return bytes;
}

/* The bytes of the nest at *s, which then points behind it. `cut`: the letter that cuts rows outside of it. */
static uint64_t read_nest(walker *w, const char **s, char cut)
{
    const char *const axes = *s = past_spaces(*s), *end = axes, *field;
    uint64_t bytes = 0;
    if (*axes == '[') {
        for (end = axes; *end != ']'; end++) {
            if (*end == 'G' || *end == 'E' || *end == 'C') cut = *end;
        }
        *s = past_spaces(end + 1);
    }
    field = first_field(*s);
    if (**s == '{') {
        const char *found = NULL;
        uint64_t at = 0;
        for (*s = past_spaces(*s + 1); **s != '}'; *s = past_spaces(*s)) {
            const uint64_t more = read_nest(w, s, cut);
            if (w->found) at = bytes + w->at;
            if (w->found) found = w->found;
            bytes += more;
        }
        ++*s;
        w->found = found;
        w->at = at;
    } else {
        const uint64_t parts = pieces(w, cut, field);
        bytes = parts ? row_bytes(w, field) / parts : 0;
        w->found = is_wanted(w, field) ? field : NULL;
        w->at = w->found ? w->byte.index % bytes : 0;
        *s = field + 2 + strspn(field + 2, "abcdefghijklmnopqrstuvwxyz");
    }
    return pad(w, s, repeat(w, axes, end, field, bytes));
}

/* --- pools --- */

/* The tensor that the pool between `s` and `end` is: of data if it names codes, K's if it names such bytes of K. */
static slow_place tensor_of(const char *s, const char *end)
{
    bool codes = false, of_k = false;
    for (int pass = 0; pass < 2; pass++) {
        for (const char *field = s; field < end; field++) {
            if ((*field != 'K' && *field != 'V') || field[1] != '.') continue;
            if (pass == 0) codes |= is_codes(field);
            else of_k |= *field == 'K' && is_codes(field) == codes;
        }
    }
    return (slow_place){codes ? KVG_ROLE_DATA_POOL : KVG_ROLE_SCALE_POOL, of_k ? KVG_K : KVG_V, 0};
}

static slow_place place_of(const kvg_problem *p, slow_byte byte, bool scales)
{
    walker w = {.p = p, .text = kvg_problem_layout_text(p), .byte = byte, .scales = scales};
    const char *s = w.text, *start = s;
    for (;; s++) { /* behind the ';' of the pool before */
        start = s;
        read_nest(&w, &s, 0);
        if (w.found) break;
    }
    slow_place place = tensor_of(start, s);
    place.at = w.at;
    return place;
}

slow_place slow_place_of_code(const kvg_problem *problem, slow_byte byte)
{
    return place_of(problem, byte, false);
}

slow_place slow_place_of_scale(const kvg_problem *problem, slow_byte byte)
{
    return place_of(problem, byte, true);
}

uint64_t slow_pool_bytes(const kvg_problem *p, kvg_role pool, kvg_side side)
{
    walker w = {.p = p, .text = kvg_problem_layout_text(p)};
    uint64_t found = 0;
    for (const char *s = w.text, *start = s; *start; start = s += *s == ';') {
        const uint64_t bytes = read_nest(&w, &s, 0);
        const slow_place place = tensor_of(start, s);
        if (bytes && place.pool == pool && place.side == side) found = bytes;
    }
    return found;
}
