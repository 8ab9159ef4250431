#include "support/tensor_set.h"

#include <string.h>

kvg_status kvg_set_alloc(const kvg_problem *p, const kvg_role *roles, kvg_tensor_set *set)
{
    set->roles = roles;
    set->count = kvg_roles_tensors(roles);
    for (size_t i = 0; i < set->count; i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        set->tensors[i] = kvg_problem_tensor(p, role, side);
        kvg_status s = kvg_guard_alloc(set->tensors[i].bytes, &set->guards[i]);
        if (s) return s;
        set->tensors[i].data = set->guards[i].data;
    }
    return KVG_OK;
}

void kvg_set_free(kvg_tensor_set *set)
{
    for (size_t i = 0; i < set->count; i++) kvg_guard_free(&set->guards[i]);
}

kvg_tensor *kvg_set_tensor(const kvg_tensor_set *set, kvg_role role, kvg_side side)
{
    const int i = kvg_roles_index(set->roles, role, side);
    return i < 0 ? NULL : (kvg_tensor *)&set->tensors[i];
}

const char *kvg_set_name(const kvg_tensor_set *set, size_t index)
{
    kvg_role role;
    kvg_side side;
    kvg_roles_at(set->roles, index, &role, &side);
    return kvg_tensor_name(role, side);
}

/* NULL: the source does not have it. */
static void *data_of(const kvg_source *source, kvg_role role, kvg_side side)
{
    if (!source->set) return source->role == role ? (void *)source->data[side] : NULL;
    const kvg_tensor *t = source->set->count ? kvg_set_tensor(source->set, role, side) : NULL;
    return t ? t->data : NULL;
}

void kvg_gather(const kvg_problem *p, const kvg_role *roles, const kvg_source *sources, size_t count, kvg_tensor *out)
{
    for (size_t i = 0; i < kvg_roles_tensors(roles); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        out[i] = kvg_problem_tensor(p, role, side);
        for (size_t k = count; k-- > 0 && out[i].bytes && !out[i].data;) out[i].data = data_of(&sources[k], role, side);
    }
}

bool kvg_set_same_bytes(const kvg_tensor_set *a, const kvg_tensor_set *b)
{
    for (size_t i = 0; i < a->count; i++) {
        const kvg_tensor *t = &a->tensors[i];
        if (t->bytes && memcmp(t->data, b->tensors[i].data, t->bytes) != 0) return false;
    }
    return true;
}
