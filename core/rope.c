#include "core/rope.h"

#include <stdio.h>
#include <string.h>

#include "core/name.h"

static const struct {
    kvg_rope_kind kind;
    const char *name;
} kinds[] = {
#define ROPE_KIND(ENUM, id, name, summary) {KVG_ROPE_##ENUM, name},
#include "core/rope_kinds.def"
#undef ROPE_KIND
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

/* Sets of kinds. */
enum {
    LINEAR = 1 << KVG_ROPE_LINEAR,
    DYNAMIC = 1 << KVG_ROPE_DYNAMIC,
    LLAMA3 = 1 << KVG_ROPE_LLAMA3,
    YARN = 1 << KVG_ROPE_YARN,
    SCALED = LINEAR | DYNAMIC | LLAMA3 | YARN,
    EVERY = SCALED | 1 << KVG_ROPE_DEFAULT
};

/* Limits are above every model's numbers; below them positions are exact in f32 and no step leaves its range. */
#define PARAMETER(name, tag) #name, tag, offsetof(kvg_rope_scaling, name)
static const kvg_rope_parameter parameters[] = {
    {PARAMETER(theta, "t"), EVERY, EVERY, 2, 0x1p60f, false},
    {PARAMETER(factor, "f"), SCALED, SCALED, 1, 0x1p20f, false},
    {PARAMETER(original_positions, "o"), DYNAMIC | LLAMA3 | YARN, DYNAMIC | LLAMA3 | YARN, 1, 0x1p24f, true},
    {PARAMETER(length, "l"), DYNAMIC, DYNAMIC, 1, 0x1p24f, true},
    {PARAMETER(low_freq_factor, "lo"), LLAMA3, LLAMA3, 0x1p-20f, 0x1p20f, false},
    {PARAMETER(high_freq_factor, "hi"), LLAMA3, LLAMA3, 0x1p-20f, 0x1p20f, false},
    {PARAMETER(beta_fast, "bf"), YARN, YARN, 0x1p-20f, 0x1p20f, false},
    {PARAMETER(beta_slow, "bs"), YARN, YARN, 0x1p-20f, 0x1p20f, false},
    {PARAMETER(attention_factor, "m"), 0, EVERY, 0x1p-20f, 0x1p20f, false},
    {PARAMETER(mscale, "ms"), 0, YARN, 0x1p-20f, 0x1p20f, false},
    {PARAMETER(mscale_all_dim, "md"), 0, YARN, 0x1p-20f, 0x1p20f, false},
};
#undef PARAMETER
enum { PARAMETER_COUNT = sizeof parameters / sizeof parameters[0] };

const kvg_rope_parameter *kvg_rope_parameter_table(size_t *count)
{
    *count = PARAMETER_COUNT;
    return parameters;
}

float kvg_rope_parameter_get(const kvg_rope_scaling *scaling, const kvg_rope_parameter *parameter)
{
    float value;
    memcpy(&value, (const char *)scaling + parameter->offset, sizeof value);
    return value;
}

void kvg_rope_parameter_set(kvg_rope_scaling *scaling, const kvg_rope_parameter *parameter, float value)
{
    memcpy((char *)scaling + parameter->offset, &value, sizeof value);
}

const char *kvg_rope_kind_name(kvg_rope_kind kind)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (kinds[i].kind == kind) return kinds[i].name;
    }
    return "?";
}

kvg_status kvg_rope_kind_find(const char *name, kvg_rope_kind *out)
{
    size_t i;
    kvg_status s = kvg_name_find("rope kind", name, &kinds[0].name, sizeof kinds[0], KIND_COUNT, &i);
    if (!s) *out = kinds[i].kind;
    return s;
}

/* --- checks --- */

static kvg_status check_parameter(const kvg_rope_scaling *s, const kvg_rope_parameter *p)
{
    const float value = kvg_rope_parameter_get(s, p);
    const uint32_t kind = 1u << s->kind;
    const char *name = kvg_rope_kind_name(s->kind);
    if (value == 0 && !(p->needed & kind)) return KVG_OK;
    if (!(p->taken & kind)) {
        return kvg_fail(KVG_ERR_INVALID, "rope kind %s takes no %s, which is %g: leave it 0", name, p->name,
                        (double)value);
    }
    if (!(value >= p->least && value <= p->most) || (p->whole && value != (float)(uint32_t)value)) {
        return kvg_fail(KVG_ERR_INVALID, "rope kind %s needs %s from %g to %g%s, not %g", name, p->name,
                        (double)p->least, (double)p->most, p->whole ? ", an integer" : "", (double)value);
    }
    return KVG_OK;
}

static kvg_status check_scaling(const kvg_rope *r)
{
    const kvg_rope_scaling *s = &r->scaling;
    if (strcmp(kvg_rope_kind_name(s->kind), "?") == 0) {
        return kvg_fail(KVG_ERR_INVALID, "rope kind id %d is not in core/rope_kinds.def", (int)s->kind);
    }
    for (size_t i = 0; i < PARAMETER_COUNT; i++) {
        kvg_status status = check_parameter(s, &parameters[i]);
        if (status) return status;
    }
    if (r->positions > 1u << 24) {
        return kvg_fail(KVG_ERR_INVALID, "%u rope positions: f32 counts to 16777216", r->positions);
    }
    if (s->entries && s->entries != KVG_DTYPE_F32 && s->entries != KVG_DTYPE_F16 && s->entries != KVG_DTYPE_BF16) {
        return kvg_fail(KVG_ERR_INVALID, "rope entries of type %s: use f32, f16 or bf16", kvg_dtype_name(s->entries));
    }
    if (s->kind == KVG_ROPE_DYNAMIC && r->dims < 4) {
        return kvg_fail(KVG_ERR_INVALID, "rope kind dynamic has the exponent R / (R - 2): turn 4 elements or more, "
                        "not %u", r->dims);
    }
    if (s->kind == KVG_ROPE_LLAMA3 && s->high_freq_factor <= s->low_freq_factor) {
        return kvg_fail(KVG_ERR_INVALID, "rope kind llama3: high_freq_factor %g must be above low_freq_factor %g",
                        (double)s->high_freq_factor, (double)s->low_freq_factor);
    }
    if (s->kind == KVG_ROPE_YARN && s->beta_fast <= s->beta_slow) {
        return kvg_fail(KVG_ERR_INVALID, "rope kind yarn: beta_fast %g must be above beta_slow %g",
                        (double)s->beta_fast, (double)s->beta_slow);
    }
    if ((s->mscale == 0) != (s->mscale_all_dim == 0) || (s->mscale != 0 && s->attention_factor != 0)) {
        return kvg_fail(KVG_ERR_INVALID, "rope kind yarn takes its attention factor from attention_factor, from "
                        "mscale and mscale_all_dim together, or from neither");
    }
    if (s->kind != KVG_ROPE_YARN && s->truncate) {
        return kvg_fail(KVG_ERR_INVALID, "rope kind %s has no range to truncate: leave truncate out",
                        kvg_rope_kind_name(s->kind));
    }
    return KVG_OK;
}

kvg_status kvg_rope_check(const kvg_rope *r, uint32_t head_dim)
{
    if (r->dims == 0) return KVG_OK;
    if (r->dims % 2 || r->dims > head_dim || r->positions < 1) {
        return kvg_fail(KVG_ERR_INVALID, "rope turns %u of %u elements by a table of %u rows: use an even number, 1 "
                        "row or more", r->dims, head_dim, r->positions);
    }
    if (r->pairing != KVG_PAIRING_ADJACENT && r->pairing != KVG_PAIRING_HALVES) {
        return kvg_fail(KVG_ERR_INVALID, "rope pairing id %d is unknown: use adjacent or halves", (int)r->pairing);
    }
    return r->scaling.kind == KVG_ROPE_TABLE ? KVG_OK : check_scaling(r);
}
