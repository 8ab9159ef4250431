#include "harness/matrix/matrix_engine.h"

#include <stdio.h>
#include <string.h>

#include "core/name.h"

static const kvg_engine engines[] = {
#define ENGINE(name, FORMAT, LAYOUT, dialect, convention, NUMBER, swizzle, ORDER, source)                        \
    {name, KVG_FORMAT_##FORMAT, KVG_LAYOUT_##LAYOUT, dialect, KVG_SCALE_##convention, KVG_NUMBER_##NUMBER, swizzle, \
     KVG_PAIRING_##ORDER, source, NULL},
#include "harness/matrix/engines.def"
#undef ENGINE
};
enum { ENGINE_COUNT = sizeof engines / sizeof engines[0] };

const kvg_engine *kvg_engine_table(size_t *count)
{
    *count = ENGINE_COUNT;
    return engines;
}

kvg_status kvg_engine_find(kvg_format format, const char *name, const kvg_engine **out)
{
    const char *known[ENGINE_COUNT];
    char what[64];
    size_t count = 0;
    for (size_t i = 0; i < ENGINE_COUNT; i++) {
        if (engines[i].format != format) continue;
        *out = &engines[i];
        if (strcmp(engines[i].name, name) == 0) return KVG_OK;
        known[count++] = engines[i].name;
    }
    snprintf(what, sizeof what, "%s engine", kvg_format_get(format)->name);
    return kvg_name_fail(what, name, known, sizeof known[0], count);
}

const char *kvg_scale_number_name(kvg_scale_number number)
{
    static const char *const names[] = {"g", "1/g", "g/6"};
    return names[number];
}

const char *kvg_engine_order_name(kvg_pairing order)
{
    return order == KVG_PAIRING_HALVES ? "halves" : "adjacent";
}

float kvg_scale_to_number(kvg_scale_number number, float g)
{
    switch (number) {
    case KVG_NUMBER_ENCODE: return 1 / g;
    case KVG_NUMBER_SIXTH: return g / 6;
    case KVG_NUMBER_DECODE: break;
    }
    return g;
}

float kvg_scale_of_number(kvg_scale_number number, float n)
{
    switch (number) {
    case KVG_NUMBER_ENCODE: return 1 / n;
    case KVG_NUMBER_SIXTH: return n * 6;
    case KVG_NUMBER_DECODE: break;
    }
    return n;
}

uint32_t kvg_element_place(kvg_pairing order, uint32_t head_dim, uint32_t dim)
{
    const uint32_t half = head_dim / 2;
    if (order == KVG_PAIRING_HALVES) return dim;
    return dim < half ? 2 * dim : 2 * (dim - half) + 1;
}
