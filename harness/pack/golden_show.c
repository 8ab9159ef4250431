#include "harness/pack/golden_show.h"

#include <inttypes.h>
#include <string.h>

static size_t bytes_of(const kvg_pack_tensor *list, size_t count)
{
    size_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += list[i].bytes;
    return sum;
}

/* A pack is somebody else's file: none of its control bytes reaches the terminal. */
static void show_note(const kvg_pack_note *note, FILE *out)
{
    fprintf(out, "%s: ", note->flag);
    for (const char *c = note->text; *c; c++) fputc((unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c, out);
    fputc('\n', out);
}

static void print_line(void *context, const char *line)
{
    fprintf(context, "%s\n", line);
}

static void show_head(const kvg_pack *pack, FILE *out)
{
    char digest[KVG_SHA256_TEXT];
    size_t recipes = 0;
    kvg_sha256_text(&pack->manifest, digest);
    for (size_t i = 0; i < pack->case_count; i++) recipes += !pack->cases[i].stored;
    fprintf(out, "%s %s, format %s, licence %s, seed 0x%" PRIx64 "\n", pack->name, pack->version, pack->format_version,
            pack->licence, pack->seed);
    fprintf(out, "%zu cases, %zu of them recipes; prompt %" PRIu64 " bytes, expected %" PRIu64 " bytes\nmanifest %s\n",
            pack->case_count, recipes, pack->prompt_bytes, pack->expected_bytes, digest);
    for (size_t i = 0; i < pack->profile_count; i++) fprintf(out, "profile %s\n", pack->profiles[i]);
    kvg_pack_warnings(pack, NULL, print_line, out);
}

static const char *judged_by(const kvg_pack_answer *a)
{
    if (a->compare != KVG_PACK_BOUND) return kvg_pack_compare_names[a->compare];
    return a->profile ? "bound, or bits" : "bound";
}

void kvg_golden_show(const kvg_pack *pack, FILE *out)
{
    show_head(pack, out);
    fprintf(out, "\n%-4s %10s %10s  %-14s id\n", "key", "prompt", "expected", "judged by");
    for (size_t i = 0; i < pack->case_count; i++) {
        const kvg_pack_case *c = &pack->cases[i];
        fprintf(out, "%-4s %10zu %10zu  %-14s %s%s%s\n", c->key, bytes_of(c->prompt, c->prompt_count),
                bytes_of(c->expected, c->expected_count), judged_by(&c->answer[0]), c->id, c->stored ? "" : " (recipe)",
                c->has_erratum ? " (ERRATUM)" : "");
    }
    fprintf(out, "\n");
    for (size_t i = 0; i < pack->note_count; i++) show_note(&pack->notes[i], out);
}

/* "[3, 2, 64]" */
static void show_shape(uint32_t rank, const uint64_t *shape, FILE *out)
{
    fprintf(out, "[");
    for (uint32_t i = 0; i < rank; i++) fprintf(out, "%s%" PRIu64, i ? ", " : "", shape[i]);
    fprintf(out, "]");
}

static void show_tensor(const kvg_pack_tensor *t, FILE *out)
{
    char digest[KVG_SHA256_TEXT];
    kvg_sha256_text(&t->sha256, digest);
    fprintf(out, "  %-24s %-4s %10zu bytes  %.16s...  ", t->name, t->dtype, t->bytes, digest);
    show_shape(t->rank, t->shape, out);
    for (int side = 0; side < 2; side++) {
        if (t->packing.side[side]) fprintf(out, " %c: %s", "KV"[side], t->packing.side[side]);
    }
    fprintf(out, "\n");
}

void kvg_golden_show_case(const kvg_pack *pack, const kvg_pack_case *c, FILE *out)
{
    fprintf(out, "%s: case %s, %s\n%s\nlayer %u, %s\n", pack->name, c->key, c->id, c->text, c->layer,
            c->stored ? "stored" : "a recipe: `kvgold golden expand` computes its tensors");
    kvg_pack_warnings(pack, c->key, print_line, out);
    if (c->separation.measured) {
        fprintf(out, "the nearest wrong answer, %s, is %.3g %s away\n", c->separation.nearest, c->separation.least,
                c->separation.bits ? "bits" : "bounds");
    }
    for (size_t i = 0; i < c->flag_count; i++) {
        for (size_t n = 0; n < pack->note_count; n++) {
            const kvg_pack_note *note = &pack->notes[n];
            if (strcmp(note->flag, c->flags[i]) == 0) show_note(note, out);
        }
    }
    fprintf(out, "prompt\n");
    for (size_t i = 0; i < c->prompt_count; i++) show_tensor(&c->prompt[i], out);
    fprintf(out, "answer\n");
    for (size_t i = 0; i < c->answer_count; i++) {
        const kvg_pack_answer *a = &c->answer[i];
        fprintf(out, "  %-24s %-4s judged by %s%s%s ", a->name, a->dtype, judged_by(a), a->profile ? " of " : "",
                a->profile ? a->profile : "");
        show_shape(a->rank, a->shape, out);
        fprintf(out, "\n");
    }
    fprintf(out, "expected\n");
    for (size_t i = 0; i < c->expected_count; i++) show_tensor(&c->expected[i], out);
}

/* --- differences --- */

static const kvg_pack_case *find_id(const kvg_pack *pack, const char *id)
{
    for (size_t i = 0; i < pack->case_count; i++) {
        if (strcmp(pack->cases[i].id, id) == 0) return &pack->cases[i];
    }
    return NULL;
}

/* Where the bytes of two tensors differ, if both are there. */
static void show_bytes(const kvg_pack_tensor *a, const kvg_pack_tensor *b, FILE *out)
{
    const uint8_t *x = a->data, *y = b->data;
    size_t first = 0, count = 0;
    if (!x || !y || a->bytes != b->bytes) return;
    for (size_t i = a->bytes; i-- > 0;) {
        if (x[i] == y[i]) continue;
        first = i;
        count++;
    }
    fprintf(out, ": %zu of %zu bytes, first byte %zu, 0x%02x and 0x%02x", count, a->bytes, first, x[first], y[first]);
}

/* Both lists of the same case; `part` is their name. */
static size_t diff_lists(const char *id, const char *part, const kvg_pack_tensor *a, size_t a_count,
                         const kvg_pack_tensor *b, size_t b_count, FILE *out)
{
    size_t found = 0;
    for (size_t i = 0; i < a_count; i++) {
        const kvg_pack_tensor *t = kvg_pack_tensor_find(b, b_count, a[i].short_name);
        if (t && kvg_sha256_same(&t->sha256, &a[i].sha256) && strcmp(t->dtype, a[i].dtype) == 0) continue;
        fprintf(out, "%s %s %s of %s", t ? "changed" : "removed", part, a[i].short_name, id);
        if (t) show_bytes(&a[i], t, out);
        fprintf(out, "\n");
        found++;
    }
    for (size_t i = 0; i < b_count; i++) {
        if (kvg_pack_tensor_find(a, a_count, b[i].short_name)) continue;
        fprintf(out, "added %s %s of %s\n", part, b[i].short_name, id);
        found++;
    }
    return found;
}

static size_t diff_judging(const kvg_pack_case *a, const kvg_pack_case *b, FILE *out)
{
    size_t found = 0;
    for (size_t i = 0; i < a->answer_count && i < b->answer_count; i++) {
        if (a->answer[i].compare == b->answer[i].compare) continue;
        fprintf(out, "changed judging of %s of %s: %s and %s\n", a->answer[i].short_name, a->id,
                judged_by(&a->answer[i]), judged_by(&b->answer[i]));
        found++;
    }
    return found;
}

static size_t diff_word(const char *what, const char *a, const char *b, FILE *out)
{
    if (strcmp(a ? a : "none", b ? b : "none") == 0) return 0;
    fprintf(out, "changed %s: %s and %s\n", what, a ? a : "none", b ? b : "none");
    return 1;
}

size_t kvg_golden_diff(const kvg_pack *a, const kvg_pack *b, FILE *out)
{
    size_t found = diff_word("name", a->name, b->name, out) + diff_word("version", a->version, b->version, out) +
                   diff_word("licence", a->licence, b->licence, out) +
                   diff_word("superseded_by", a->superseded_by, b->superseded_by, out);
    if (a->seed != b->seed) {
        fprintf(out, "changed seed: 0x%" PRIx64 " and 0x%" PRIx64 "\n", a->seed, b->seed);
        found++;
    }
    for (size_t i = 0; i < a->case_count; i++) {
        const kvg_pack_case *x = &a->cases[i], *y = find_id(b, x->id);
        if (!y) {
            fprintf(out, "removed case %s %s\n", x->key, x->id);
            found++;
            continue;
        }
        found += diff_lists(x->id, "prompt", x->prompt, x->prompt_count, y->prompt, y->prompt_count, out);
        found += diff_lists(x->id, "expected", x->expected, x->expected_count, y->expected, y->expected_count, out);
        found += diff_judging(x, y, out);
    }
    for (size_t i = 0; i < b->case_count; i++) {
        if (find_id(a, b->cases[i].id)) continue;
        fprintf(out, "added case %s %s\n", b->cases[i].key, b->cases[i].id);
        found++;
    }
    if (found == 0 && !kvg_sha256_same(&a->manifest, &b->manifest)) {
        fprintf(out, "changed manifest.json: keys, flags, notes, errata or what is stored; no case's bytes\n");
        found++;
    }
    return found;
}
