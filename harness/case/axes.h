/* The axes of a config's case groups: harness/case/axes.def as a table, and what one value of an axis may be. */
#ifndef KVG_HARNESS_CASE_AXES_H
#define KVG_HARNESS_CASE_AXES_H

#include <stddef.h>

#include "harness/case/case.h"

typedef enum kvg_axis {
#define AXIS(ENUM, name, scope, value, tag, text, fallback, meaning) KVG_AXIS_##ENUM,
#include "harness/case/axes.def"
#undef AXIS
    KVG_AXIS_COUNT
} kvg_axis;

typedef enum kvg_value_kind {
    KVG_VALUE_OWN,
    KVG_VALUE_WORD,
    KVG_VALUE_SIDES,
    KVG_VALUE_COUNT,
    KVG_VALUE_FACTOR,
    KVG_VALUE_FLAG,
    KVG_VALUE_CHOICE
} kvg_value_kind;

/* What a key of a config may hold, and which member of an object holds it then: of a kvg_case, but for keys of a
 * guest. */
typedef struct kvg_value {
    kvg_value_kind kind;
    size_t offset, bytes;     /* of the member */
    uint64_t least, most;     /* COUNT; CHOICE: least is what the first name stands for */
    const char *const *names; /* CHOICE: NULL-terminated */
} kvg_value;

/* A COUNT may be of 4 or 8 bytes. A CHOICE may be an enum that counts from `first`, or a bool: false is the first
 * name. */
#define KVG_MEMBER_OF(type, member) .offset = offsetof(type, member), .bytes = sizeof((type *)0)->member
#define KVG_MEMBER(member) KVG_MEMBER_OF(kvg_case, member)
#define KVG_VALUE_OF_OWN {.kind = KVG_VALUE_OWN}
#define KVG_VALUE_OF_WORD {.kind = KVG_VALUE_WORD}
#define KVG_VALUE_OF_SIDES {.kind = KVG_VALUE_SIDES}
#define KVG_VALUE_OF_COUNT(member, from, to) {.kind = KVG_VALUE_COUNT, KVG_MEMBER(member), .least = from, .most = to}
#define KVG_VALUE_OF_FACTOR(member) {.kind = KVG_VALUE_FACTOR, KVG_MEMBER(member)}
#define KVG_VALUE_OF_FLAG(member) {.kind = KVG_VALUE_FLAG, KVG_MEMBER(member)}
#define KVG_VALUE_OF_CHOICE(member, list, first) \
    {.kind = KVG_VALUE_CHOICE, KVG_MEMBER(member), .least = first, .names = list}

typedef enum kvg_axis_scope {
    KVG_SCOPE_ALL,
    KVG_SCOPE_STORED,
    KVG_SCOPE_PAGED,
    KVG_SCOPE_APPEND,
    KVG_SCOPE_DECODE,
    KVG_SCOPE_PROFILED
} kvg_axis_scope;

/* A row of the table; its columns are those of axes.def. */
typedef struct kvg_axis_info {
    const char *name;
    kvg_axis_scope scope;
    kvg_value value;
    const char *tag;
    bool text;
    const char *fallback, *meaning;
} kvg_axis_info;

const kvg_axis_info *kvg_axis_get(kvg_axis axis);

/* The op and the layout of the case have axes of that scope. */
bool kvg_scope_holds(kvg_axis_scope scope, const kvg_problem *problem);

/* Members of an object by the row of a table. A count, a flag or the value of a choice; a factor; the choice's
 * name. */
uint64_t kvg_value_number(const kvg_value *value, const void *object);
float kvg_value_factor(const kvg_value *value, const void *object);
const char *kvg_value_name(const kvg_value *value, const void *object);
void kvg_value_set_number(const kvg_value *value, uint64_t number, void *object);
void kvg_value_set_factor(const kvg_value *value, float factor, void *object);

/* The member says nothing: no count, no factor, a flag that is not set, the first choice. */
bool kvg_value_is_zero(const kvg_value *value, const void *object);

#endif
