/* The op decode: paged attention by the spec tier, rounded once, or by the profile tier (docs/spec/attention.md). */
#include <stdlib.h>

#include "reference/attention_profile.h"
#include "reference/attention_spec.h"
#include "reference/formats/ref_codec.h"
#include "reference/numbers/ref_round.h"
#include "reference/ops/ref_ops.h"

/* One rounding from binary64 to T. */
static void store(kvg_dtype dtype, const double *from, size_t count, void *to)
{
    for (size_t i = 0; i < count; i++) {
        if (dtype == KVG_DTYPE_F16) ((uint16_t *)to)[i] = kvg_ref_f16_of_f64(from[i]);
        else if (dtype == KVG_DTYPE_BF16) ((uint16_t *)to)[i] = kvg_ref_bf16_of_f64(from[i]);
        else ((float *)to)[i] = (float)from[i];
    }
}

static kvg_status exact(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_tensor *o = &out[0], *lse = &out[1];
    const size_t outputs = o->bytes / kvg_dtype_bytes(o->dtype), rows = lse->bytes / sizeof(float);
    double *numbers = malloc((outputs + rows) * sizeof *numbers);
    if (!numbers) return kvg_fail(KVG_ERR_MEMORY, "no memory for %zu outputs", outputs);
    const kvg_attention_answer answer = {.out = numbers, .lse = numbers + outputs};
    kvg_status s = kvg_attention_spec(p, in, NULL, &answer);
    if (!s) {
        store(o->dtype, answer.out, outputs, o->data);
        store(lse->dtype, answer.lse, rows, lse->data);
    }
    free(numbers);
    return s;
}

kvg_status ref_decode(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    return problem->profile == KVG_PROFILE_NONE ? exact(problem, in, out) : kvg_attention_profile(problem, in, out);
}
