/* Tensor-scale conventions: docs/spec/formats.md section 9. */
#include <float.h>
#include <string.h>

#include "reference/reference.h"

/* g = amax / divisor; P4 has no divisor: g = 1. */
static const struct {
    const char *name;
    float divisor;
} conventions[] = {{"P1", 6.0f * 448.0f}, {"P2", 448.0f}, {"P3", 6.0f}, {"P4", 0}};

kvg_status kvg_scale_convention_find(const char *name, kvg_scale_convention *out)
{
    for (int i = 0; i < 4; i++) {
        if (strcmp(conventions[i].name, name) == 0) {
            *out = (kvg_scale_convention)(i + 1);
            return KVG_OK;
        }
    }
    return kvg_fail(KVG_ERR_NOT_FOUND, "no tensor-scale convention '%s'; known: P1, P2, P3, P4", name);
}

kvg_status kvg_scale_from_amax(kvg_scale_convention convention, float amax, float *g)
{
    const float divisor = conventions[convention - 1].divisor;
    if (divisor == 0) {
        *g = 1;
        return KVG_OK;
    }
    *g = amax / divisor;
    if (!(*g > 0 && *g <= FLT_MAX)) {
        return kvg_fail(KVG_ERR_INVALID,
                        "convention %s needs a tensor whose largest magnitude is finite and above 0, not %g",
                        conventions[convention - 1].name, (double)amax);
    }
    return KVG_OK;
}

kvg_status kvg_scale_convert(kvg_scale_convention from, kvg_scale_convention to, float g, float *out)
{
    const float from_divisor = conventions[from - 1].divisor, to_divisor = conventions[to - 1].divisor;
    if (from == to) {
        *out = g;
        return KVG_OK;
    }
    if (from_divisor == 0 || to_divisor == 0) {
        return kvg_fail(KVG_ERR_INVALID,
                        "P4 does not depend on the tensor: converting to or from it needs the largest magnitude");
    }
    *out = (float)((double)g * from_divisor / to_divisor); /* the product is exact: g * 6, 448/6, 448 or an inverse */
    if (!(*out > 0 && *out <= FLT_MAX)) {
        return kvg_fail(KVG_ERR_INVALID, "tensor scale %g has no finite positive %s", (double)g,
                        conventions[to - 1].name);
    }
    return KVG_OK;
}
