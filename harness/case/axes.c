#include "harness/case/axes.h"

#include <string.h>

/* In the order of their enums. */
static const char *const answers_names[] = {"all", "out", NULL};
static const char *const lengths_names[] = {"any", "live", "even", NULL};
#define CLASS(ENUM, name, ...) name,
static const char *const operands_names[] = {
#include "harness/case/classes.def"
    NULL};
#undef CLASS
static const char *const unowned_names[] = {"any", "finite", "zero", NULL};

const kvg_axis_info *kvg_axis_get(kvg_axis axis)
{
    static const kvg_axis_info axes[KVG_AXIS_COUNT] = {
#define AXIS(ENUM, key, in, of, word, said, without, means)                                                           \
    {.name = #key, .scope = KVG_SCOPE_##in, .value = KVG_VALUE_OF_##of, .tag = word, .text = said,                    \
     .fallback = without, .meaning = means},
#include "harness/case/axes.def"
#undef AXIS
    };
    return &axes[axis];
}

bool kvg_scope_holds(kvg_axis_scope scope, const kvg_problem *p)
{
    switch (scope) {
    case KVG_SCOPE_ALL: return true;
    case KVG_SCOPE_STORED: return kvg_op_stores(p->op);
    case KVG_SCOPE_SHAPED: return p->op != KVG_OP_MMA;
    case KVG_SCOPE_PAGED: return kvg_layout_get(p->layout)->paged;
    case KVG_SCOPE_UNOWNED: return kvg_layout_get(p->layout)->paged || p->op == KVG_OP_MERGE;
    case KVG_SCOPE_APPEND: return p->op == KVG_OP_APPEND;
    case KVG_SCOPE_DECODE: return p->op == KVG_OP_DECODE;
    case KVG_SCOPE_PROFILED: return p->op == KVG_OP_DECODE || p->op == KVG_OP_MMA;
    }
    return false;
}

uint64_t kvg_value_number(const kvg_value *value, const void *object)
{
    const char *member = (const char *)object + value->offset;
    bool flag;
    uint32_t number;
    uint64_t wide;
    if (value->bytes == sizeof flag) return memcpy(&flag, member, sizeof flag), flag;
    if (value->bytes == sizeof number) return memcpy(&number, member, sizeof number), number;
    return memcpy(&wide, member, sizeof wide), wide;
}

float kvg_value_factor(const kvg_value *value, const void *object)
{
    float factor;
    memcpy(&factor, (const char *)object + value->offset, sizeof factor);
    return factor;
}

void kvg_value_set_number(const kvg_value *value, uint64_t number, void *object)
{
    char *member = (char *)object + value->offset;
    const bool flag = number;
    const uint32_t narrow = (uint32_t)number;
    const void *from = value->bytes == sizeof flag ? (const void *)&flag
                       : value->bytes == sizeof narrow ? (const void *)&narrow : (const void *)&number;
    memcpy(member, from, value->bytes);
}

void kvg_value_set_factor(const kvg_value *value, float factor, void *object)
{
    memcpy((char *)object + value->offset, &factor, sizeof factor);
}

const char *kvg_value_name(const kvg_value *value, const void *object)
{
    return value->names[kvg_value_number(value, object) - value->least];
}

bool kvg_value_is_zero(const kvg_value *value, const void *object)
{
    if (value->kind == KVG_VALUE_FACTOR) return !(kvg_value_factor(value, object) > 0);
    return kvg_value_number(value, object) == (value->kind == KVG_VALUE_CHOICE ? value->least : 0);
}
