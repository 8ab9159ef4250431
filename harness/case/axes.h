/* The axes of a config's case groups: harness/case/axes.def as a table, and the values that an axis
 * may have. */
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

/* The values that a key of a config may hold, and the member of an object that holds the value. The
 * object is a kvg_case, except for keys of a guest. */
typedef struct kvg_value {
    kvg_value_kind kind;
    size_t offset, bytes;     /* of the member */
    uint64_t least, most;     /* COUNT: the range; CHOICE: least is the number of the first name */
    const char *const *names; /* CHOICE: NULL-terminated */
} kvg_value;

/* The member of a COUNT has 4 or 8 bytes. The member of a CHOICE is an enum that counts from
 * `first`, or a bool, where the first name means false. */
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
    KVG_SCOPE_SHAPED,
    KVG_SCOPE_PAGED,
    KVG_SCOPE_UNOWNED,
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

/* True if the case's op and layout have the axes of this scope. */
bool kvg_scope_holds(kvg_axis_scope scope, const kvg_problem *problem);

/* Read and write a member of an object. Number: a count, a flag, or the value of a choice. Factor:
 * a float. Name: the name of a choice. */
uint64_t kvg_value_number(const kvg_value *value, const void *object);
float kvg_value_factor(const kvg_value *value, const void *object);
const char *kvg_value_name(const kvg_value *value, const void *object);
void kvg_value_set_number(const kvg_value *value, uint64_t number, void *object);
void kvg_value_set_factor(const kvg_value *value, float factor, void *object);

/* True if the member has its zero value: no count, no factor, a flag that is not set, the first
 * choice. */
bool kvg_value_is_zero(const kvg_value *value, const void *object);

#endif
