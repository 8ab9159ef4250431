/* usage: nvfp4_rows_test PACK DIALECT
 *
 * Judges nvfp4_decode by the cases of a golden pack that dequantise NVFP4 of this dialect to bf16. */
#define KVGOLD_PACK_IMPLEMENTATION
#include "golden/reader/kvgold_pack.h"

#include "nvfp4_rows.h"

/* Decodes one side, "k" or "v", and prints what is wrong with it. */
static bool judge_side(const kvgold_case *c, const kvgold_answer *answer, bool modelopt)
{
    const char *names[] = {"codes", "scales", "tensor_scale"};
    const void *data[3];
    for (size_t i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_%s", answer->short_name, names[i]);
        data[i] = kvgold_tensor_find(c->prompt, c->prompt_count, name)->data;
    }
    uint16_t *out = malloc(answer->bytes);
    if (!out) return false;
    nvfp4_decode(data[0], data[1], *(const float *)data[2], answer->bytes / 32, modelopt, out);
    kvgold_report report;
    const kvgold_result result = kvgold_compare(answer, out, answer->bytes, false, &report);
    if (result != KVGOLD_PASS) puts(report.text);
    free(out);
    return result == KVGOLD_PASS;
}

int main(int argc, char **argv)
{
    char error[KVGOLD_ERROR_SIZE], wanted[64];
    if (argc != 3) return 2;
    kvgold_pack *pack = kvgold_pack_open(argv[1], error);
    if (!pack) {
        puts(error);
        return 2;
    }
    snprintf(wanted, sizeof wanted, "dequantise/nvfp4.%s/rows/bf16/", argv[2]);
    size_t right = 0, wrong = 0;
    for (const kvgold_case *c = pack->cases; c < pack->cases + pack->case_count; c++) {
        if (!c->stored || strncmp(c->id, wanted, strlen(wanted)) != 0) continue;
        if (c->erratum) printf("%s: %s\n", c->id, c->erratum);
        for (size_t i = 0; i < c->answer_count; i++) {
            const bool good = judge_side(c, &c->answer[i], strcmp(argv[2], "modelopt") == 0);
            printf("%s %s of %s\n", good ? "PASS" : "FAIL", c->answer[i].short_name, c->id);
            right += good;
            wrong += !good;
        }
    }
    kvgold_pack_close(pack);
    return right && !wrong ? 0 : 1; /* a pack without such cases proves nothing */
}
