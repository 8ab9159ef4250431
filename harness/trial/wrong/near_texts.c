#include "harness/trial/wrong/near_texts.h"

#include <stdio.h>
#include <string.h>

/* Part of a text. */
typedef struct range {
    const char *from, *to;
} range;

enum { MAX_RANGES = 32 };

static void add(kvg_near_texts *n, const char *text, const char *near)
{
    bool known = strcmp(near, text) == 0 || n->count == KVG_NEAR_TEXTS;
    for (size_t i = 0; i < n->count && !known; i++) known = strcmp(n->texts[i], near) == 0;
    if (!known) strcpy(n->texts[n->count++], near);
}

/* The text with another one in place of a range; nothing if that is too long. */
static void replace(kvg_near_texts *n, const char *text, range r, const char *by)
{
    char near[KVG_NEAR_TEXT];
    const int length = snprintf(near, sizeof near, "%.*s%s%s", (int)(r.from - text), text, by, r.to);
    if (length < KVG_NEAR_TEXT) add(n, text, near);
}

/* a stands before b. */
static void exchange(kvg_near_texts *n, const char *text, range a, range b)
{
    char by[KVG_NEAR_TEXT];
    snprintf(by, sizeof by, "%.*s%.*s%.*s", (int)(b.to - b.from), b.from, (int)(b.from - a.to), a.to,
             (int)(a.to - a.from), a.from);
    replace(n, text, (range){a.from, b.to}, by);
}

/* --- brackets --- */

/* The axes of the bracket that begins at `at`. */
static size_t axes_of(const char *at, range axes[MAX_RANGES])
{
    size_t count = 0;
    for (at++; *at && *at != ']' && count < MAX_RANGES; count++) {
        at += strspn(at, " ");
        axes[count].from = at;
        at += strcspn(at, " ]");
        axes[count].to = at;
        at += strspn(at, " ");
    }
    return count;
}

/* Worked example: the digits of [N/4 G//4 H G%%4 N%4] undone are [N H]. */
static void undo_digits(kvg_near_texts *n, const char *text, const range *axes, size_t count)
{
    char whole[MAX_RANGES * 2 + 1] = "";
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const char letter = *axes[i].from;
        if (strchr("GEC", letter) || strchr(whole, letter)) continue;
        if (used) whole[used++] = ' ';
        whole[used++] = letter;
        whole[used] = 0;
    }
    replace(n, text, (range){axes[0].from, axes[count - 1].to}, whole);
}

/* The inverse, where scales stand behind the bracket. */
static void make_digits(kvg_near_texts *n, const char *text, const range *axes, size_t count)
{
    const range *const last = &axes[count - 1];
    const char *const field = last->to + strspn(last->to, " ]");
    const bool token_last = *last->from == 'N', head_last = *last->from == 'H' && count > 1 && *last[-1].from == 'N';
    if (strncmp(field, "K.scales", 8) != 0 && strncmp(field, "V.scales", 8) != 0) return;
    if (memchr(axes[0].from, 'G', (size_t)(last->to - axes[0].from))) return;
    if (token_last) replace(n, text, *last, "N/4 G N%4");
    if (head_last) replace(n, text, (range){last[-1].from, last->to}, "N/4 G//4 H G%%4 N%4");
}

static void near_brackets(const char *text, kvg_near_texts *n)
{
    for (const char *at = strchr(text, '['); at; at = strchr(at + 1, '[')) {
        range axes[MAX_RANGES];
        const size_t count = axes_of(at, axes);
        for (size_t i = 0; i < count; i++) {
            for (size_t k = i + 1; k < count; k++) exchange(n, text, axes[i], axes[k]);
        }
        if (count) undo_digits(n, text, axes, count);
        if (count) make_digits(n, text, axes, count);
    }
}

/* --- braces --- */

static const char *skip_nests(const char *at);

/* Behind the nest that begins at `at`: its axes, its field or nests, its paddings. */
static const char *skip_nest(const char *at)
{
    if (*at == '[') {
        at += strcspn(at, "]");
        at += strspn(at, "] ");
    }
    if (*at == '{') at = skip_nests(at + 1);
    else at += strcspn(at, " ;{}[+");
    for (const char *next = at + strspn(at, " "); *next == '+'; next = at + strspn(at, " ")) {
        at = next + 1 + strspn(next + 1, " ");
        at += strcspn(at, " ;{}[+");
    }
    return at;
}

/* Behind the brace that ends the nests from `at` on. */
static const char *skip_nests(const char *at)
{
    for (at += strspn(at, " "); *at && *at != '}'; at += strspn(at, " ")) {
        const char *const next = skip_nest(at);
        if (next == at) return at + strlen(at);
        at = next;
    }
    return at + (*at == '}');
}

static void near_braces(const char *text, kvg_near_texts *n)
{
    for (const char *brace = strchr(text, '{'); brace; brace = strchr(brace + 1, '{')) {
        range before = {NULL, NULL};
        const char *at = brace + 1 + strspn(brace + 1, " ");
        while (*at && *at != '}') {
            const range nest = {at, skip_nest(at)};
            if (nest.to == nest.from) return;
            if (before.from) exchange(n, text, before, nest);
            before = nest;
            at = nest.to + strspn(nest.to, " ");
        }
    }
}

/* --- letters and fields --- */

/* Exchanges two letters, those in brackets or those of fields. */
static void exchange_letters(const char *text, char a, char b, bool axes, kvg_near_texts *n)
{
    char near[KVG_NEAR_TEXT];
    bool inside = false;
    size_t i = 0;
    for (; text[i]; i++) {
        inside = text[i] == '[' || (inside && text[i] != ']');
        const bool mine = axes ? inside : text[i + 1] == '.';
        near[i] = !mine ? text[i] : text[i] == a ? b : text[i] == b ? a : text[i];
    }
    near[i] = 0;
    add(n, text, near);
}

static void exchange_fields(const char *text, const char *a, const char *b, kvg_near_texts *n)
{
    const char *const x = strstr(text, a), *const y = strstr(text, b);
    if (!x || !y) return;
    const range first = {x, x + strlen(a)}, second = {y, y + strlen(b)};
    if (x < y) exchange(n, text, first, second);
    else exchange(n, text, second, first);
}

void kvg_near_texts_of(const char *text, kvg_near_texts *out)
{
    static const char letters[] = "LBHN";
    static const char *const fields[][2] = {{"K.codes", "V.codes"}, {"K.scales", "V.scales"}, {"K.params", "V.params"},
                                            {"K.codes", "K.scales"}, {"V.codes", "V.scales"}};
    out->count = 0;
    if (strlen(text) >= KVG_NEAR_TEXT) return;
    near_brackets(text, out);
    near_braces(text, out);
    for (const char *a = letters; *a; a++) {
        for (const char *b = a + 1; *b; b++) exchange_letters(text, *a, *b, true, out);
    }
    exchange_letters(text, 'K', 'V', false, out);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        exchange_fields(text, fields[i][0], fields[i][1], out);
    }
}
