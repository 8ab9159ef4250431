/* The table of RoPE as a C function over arrays, for ctypes (tests/oracle/oracle_rope.py). */
#include <stdbool.h>
#include <string.h>

#include "reference/rope_table.h"

/* Parameters by name. numbers: base, low, width, attention factor. `cos_sin` holds one row for each of `positions`.
 * Returns a kvg_status. */
int oracle_rope(const char *kind, uint32_t dims, const char *const *names, const float *values, size_t count,
                bool truncate, float *numbers, float *frequencies, const uint32_t *positions, size_t rows,
                float *cos_sin)
{
    kvg_rope rope = {.dims = dims, .positions = 1, .pairing = KVG_PAIRING_HALVES};
    kvg_rope_numbers n;
    size_t known;
    const kvg_rope_parameter *parameters = kvg_rope_parameter_table(&known);
    kvg_status s = kvg_rope_kind_find(kind, &rope.scaling.kind);
    rope.scaling.truncate = truncate;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < known; k++) {
            if (strcmp(parameters[k].name, names[i]) == 0)
                kvg_rope_parameter_set(&rope.scaling, &parameters[k], values[i]);
        }
    }
    if (!s) s = kvg_reference_rope_numbers(&rope, &n);
    if (!s) s = kvg_reference_rope_frequencies(&rope, frequencies);
    for (size_t i = 0; i < rows && !s; i++) {
        s = kvg_reference_rope_rows(&rope, frequencies, positions[i], 1, cos_sin + i * dims);
    }
    if (!s) memcpy(numbers, (const float[]){n.base, n.low, n.width, n.attention_factor}, 4 * sizeof *numbers);
    return s;
}
