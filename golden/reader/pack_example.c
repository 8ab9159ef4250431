/* How an engine's test uses a golden pack: opens it, gives each stored case to the engine, judges what comes back.
 *
 *     cc -std=c99 pack_example.c -o pack_example && ./pack_example PACK...
 *
 * The engine here is a parrot: it knows the expected tensors and gives them back, or, with --wrong, with the lowest bit
 * of their first byte turned over. Exit status: 0 all right, 1 an answer is wrong, 2 a pack cannot be read. */
#define KVGOLD_PACK_IMPLEMENTATION
#include "kvgold_pack.h"

typedef struct totals {
    unsigned long right, wrong, skipped;
} totals;

/* Replace this: run your kernel on c->prompt, and put its tensor `a` into a buffer of a->bytes; false: it does not do
 * the case. c->config says what the case is, a->short_name which tensor. */
static bool engine_answer(const kvgold_case *c, const kvgold_answer *a, bool wrong, unsigned char *buffer)
{
    if (!c->stored || !a->expected || !a->expected->data) return false;
    memcpy(buffer, a->expected->data, (size_t)a->bytes);
    buffer[0] ^= (unsigned char)wrong;
    return true;
}

static bool judge_case(const kvgold_case *c, bool wrong, totals *t)
{
    if (c->erratum) fprintf(stderr, "warning: case %s is known to be wrong: %s\n", c->key, c->erratum);
    for (size_t i = 0; i < c->answer_count; i++) {
        const kvgold_answer *a = &c->answer[i];
        unsigned char *buffer = (unsigned char *)malloc((size_t)a->bytes);
        kvgold_report report;
        if (!buffer) return false;
        if (!engine_answer(c, a, wrong, buffer)) {
            t->skipped++;
        } else {
            /* true: this engine promises the profile's bits; leave it false for an answer within its bound */
            const kvgold_result result = kvgold_compare(a, buffer, a->bytes, true, &report);
            if (result == KVGOLD_PASS) t->right++;
            else if (result == KVGOLD_SKIP) t->skipped++;
            else t->wrong++;
            if (result != KVGOLD_PASS) printf("%s: %s\n", c->id, report.text);
        }
        free(buffer);
    }
    return true;
}

int main(int argc, char **argv)
{
    const bool wrong = argc > 1 && strcmp(argv[1], "--wrong") == 0;
    totals t = {0, 0, 0};
    if (argc < 2 + wrong) {
        fprintf(stderr, "usage: %s [--wrong] PACK...\n", argv[0]);
        return 2;
    }
    for (int i = 1 + wrong; i < argc; i++) {
        char error[KVGOLD_ERROR_SIZE];
        kvgold_pack *pack = kvgold_pack_open(argv[i], error);
        if (!pack) {
            fprintf(stderr, "%s\n", error);
            return 2;
        }
        if (pack->superseded_by) {
            fprintf(stderr, "warning: %s is superseded: use %s\n", pack->name, pack->superseded_by);
        }
        bool good = true;
        for (size_t k = 0; k < pack->case_count && good; k++) good = judge_case(&pack->cases[k], wrong, &t);
        kvgold_pack_close(pack);
        if (!good) return 2;
    }
    printf("%lu answers right, %lu wrong, %lu skipped\n", t.right, t.wrong, t.skipped);
    return t.wrong || t.right == 0 ? 1 : 0;
}
