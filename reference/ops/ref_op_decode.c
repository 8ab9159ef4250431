/* The op decode: paged attention by the spec tier, rounded once, or by the profile tier; and the op merge, by the spec
 * tier (docs/spec/attention.md). */
#include <stdlib.h>

#include "reference/attention_profile.h"
#include "reference/attention_spec.h"
#include "reference/formats/ref_codec.h"
#include "reference/numbers/ref_round.h"
#include "reference/ops/ref_ops.h"

/* One rounding from binary64 to T. */
static void store_numbers(kvg_dtype dtype, const double *from, size_t count, void *to)
{
    for (size_t i = 0; i < count; i++) {
        if (dtype == KVG_DTYPE_F16) ((uint16_t *)to)[i] = kvg_ref_f16_of_f64(from[i]);
        else if (dtype == KVG_DTYPE_BF16) ((uint16_t *)to)[i] = kvg_ref_bf16_of_f64(from[i]);
        else ((float *)to)[i] = (float)from[i];
    }
}

/* The numbers of a row and a query head lie together. */
static void store(const kvg_problem *p, const bool *wanted, const double *from, size_t numbers, const kvg_tensor *to)
{
    const size_t parts = wanted ? (size_t)p->attention.queries * p->attention.query_heads : 1;
    const size_t of_part = parts ? numbers / parts : 0;
    for (size_t i = 0; i < parts; i++) {
        if (wanted && !wanted[i]) continue;
        store_numbers(to->dtype, from + i * of_part, of_part,
                      (uint8_t *)to->data + i * of_part * kvg_dtype_bytes(to->dtype));
    }
}

static kvg_status exact(const kvg_problem *p, const bool *wanted, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *o = &out[0], *lse = &out[1];
    const size_t outputs = o->bytes / kvg_dtype_bytes(o->dtype), rows = lse->bytes / sizeof(float);
    double *numbers = malloc((outputs + rows) * sizeof *numbers);
    if (!numbers) return kvg_fail(KVG_ERR_MEMORY, "no memory for %zu outputs", outputs);
    const kvg_attention_answer answer = {.out = numbers, .lse = numbers + outputs, .wanted = wanted};
    kvg_status s = kvg_attention_spec(p, in, NULL, &answer);
    if (!s) {
        store(p, wanted, answer.out, outputs, o);
        store(p, wanted, answer.lse, rows, lse);
    }
    free(numbers);
    return s;
}

kvg_status kvg_attention_some(const kvg_problem *problem, const bool *wanted, const kvg_tensor *in, kvg_tensor *out)
{
    if (problem->profile == KVG_PROFILE_NONE) return exact(problem, wanted, in, out);
    return kvg_attention_walk(problem, &(kvg_walk){.splits = 1, .wanted = wanted}, in, out);
}

kvg_status ref_decode(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    return kvg_attention_some(problem, NULL, in, out);
}
