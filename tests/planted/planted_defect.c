/* The reference with known-wrong answers at places, for `ci/recall --defects`. KVGOLD_PLANTED names rows of
 * harness/trial/wrong/defects.def and where each stands, joined by "+":
 *
 *   zeros        everywhere
 *   zeros@2/8    in the third of eight parts, as the words that it changes follow each other in memory
 *   zeros@2%8    in every eighth word that it changes, from the third on
 *
 * A word is 4 bytes. Each output has places of its own; there are no more of them than words, so that none is empty. A
 * defect that does not apply to a problem changes nothing. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/trial/wrong/defects.h"
#include "support/tensor_set.h"

enum { WORD = 4, MOST = 2 };

typedef struct plant {
    const kvg_defect *defect;
    char how; /* '/' or '%' */
    unsigned part, parts;
} plant;

static plant plants[MOST];
static size_t planted;

static bool is_here(const plant *p, size_t word, size_t words)
{
    const size_t parts = words < p->parts ? words : p->parts;
    return (p->how == '%' ? word % parts : word * parts / words) == p->part % parts;
}

/* How many words the defect changes. With that number as `words`, those at the place are copied to `out`. */
static size_t put(const plant *p, const kvg_tensor *right, const kvg_tensor *wrong, size_t words, uint8_t *out)
{
    size_t changed = 0;
    for (size_t at = 0; at < right->bytes; at += WORD) {
        const size_t bytes = right->bytes - at < WORD ? right->bytes - at : WORD;
        const uint8_t *from = (const uint8_t *)wrong->data + at;
        if (memcmp((const uint8_t *)right->data + at, from, bytes) == 0) continue;
        if (words && is_here(p, changed, words)) memcpy(out + at, from, bytes);
        changed++;
    }
    return changed;
}

/* What the defect changes: a defect of the plain kernel changes that kernel's answer, which is rounded otherwise than
 * the reference's. */
static kvg_status run_right(const kvg_defect *defect, const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    kvg_flash plain;
    if (!defect->flash) return kvg_reference_run(p, in, out);
    kvg_flash_init(p, KVG_FLASH_RIGHT, &plain);
    return kvg_flash_run(p, in, &plain, out);
}

/* Without and with a defect. */
typedef struct answers {
    kvg_tensor_set right, wrong;
} answers;

/* An op may leave bytes of its outputs as they are. */
static kvg_status copy_outputs(const kvg_problem *p, const kvg_tensor *out, kvg_tensor_set *to)
{
    kvg_status s = kvg_set_alloc(p, kvg_op_get(p->op)->outputs, to);
    for (size_t i = 0; i < to->count && !s; i++) {
        if (out[i].bytes) memcpy(to->tensors[i].data, out[i].data, out[i].bytes);
    }
    return s;
}

static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    answers of[MOST] = {0};
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < planted && !s; i++) {
        const kvg_defect *defect = plants[i].defect;
        if (!kvg_defect_applies(defect, p)) continue;
        s = copy_outputs(p, out, &of[i].right);
        if (!s) s = copy_outputs(p, out, &of[i].wrong);
        if (!s) s = run_right(defect, p, in, of[i].right.tensors);
        if (!s) s = kvg_defect_run(defect, p, in, of[i].wrong.tensors);
    }
    if (!s) s = kvg_reference_run(p, in, out);
    for (size_t i = 0; i < planted; i++) {
        for (size_t t = 0; t < of[i].right.count && !s; t++) {
            const kvg_tensor *right = &of[i].right.tensors[t], *wrong = &of[i].wrong.tensors[t];
            put(&plants[i], right, wrong, put(&plants[i], right, wrong, 0, NULL), out[t].data);
        }
        kvg_set_free(&of[i].right);
        kvg_set_free(&of[i].wrong);
    }
    return s;
}

/* False: the text is no list of defects and places. */
static bool read_plants(const char *text)
{
    for (planted = 0; text && planted < MOST; planted++) {
        plant *p = &plants[planted];
        char id[64] = "";
        *p = (plant){.how = '/', .parts = 1};
        const int fields = sscanf(text, "%63[^@+]@%u%c%u", id, &p->part, &p->how, &p->parts);
        if ((fields != 1 && fields != 4) || p->part >= p->parts || kvg_defect_find(id, &p->defect)) return false;
        text = strchr(text, '+');
        if (text) text++;
    }
    return !text;
}

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    static const kvg_impl impls[] = {
#define OP(ENUM, id, name, paged, inputs, outputs, summary) {"defect_" name, KVG_OP_##ENUM, KVG_FORMAT_NONE, 0, run},
#include "core/ops.def"
#undef OP
    };
    static const kvg_backend backend = {
        .abi = KVG_BACKEND_ABI,
        .struct_size = sizeof backend,
        .name = "planted_defect",
        .impls = impls,
        .impl_count = sizeof impls / sizeof impls[0],
        .error_text = kvg_error_text,
        .problem_size = sizeof(kvg_problem),
    };
    return read_plants(getenv("KVGOLD_PLANTED")) ? &backend : NULL;
}
