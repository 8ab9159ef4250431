#include <stdlib.h>
#include <string.h>

#include "golden/golden.h"
#include "harness/trial/question/fill.h"
#include "reference/reference.h"

kvg_status kvg_fill_capture(const kvg_case *c, kvg_side side, kvg_tensor *tensor)
{
    kvg_safetensors *file;
    kvg_status s = kvg_safetensors_open(c->capture_file, &file);
    if (s) return s;
    const kvg_safetensors_entry *e;
    s = kvg_safetensors_find(file, c->capture[side], &e);
    kvg_dtype dtype = KVG_DTYPE_BF16;
    if (!s) {
        if (strcmp(e->dtype, "F16") == 0) dtype = KVG_DTYPE_F16;
        else if (strcmp(e->dtype, "F32") == 0) dtype = KVG_DTYPE_F32;
        else if (strcmp(e->dtype, "BF16") != 0) {
            s = kvg_fail(KVG_ERR_INVALID, "%s: tensor %s has dtype %s; K and V must be F16, BF16 or F32",
                         c->capture_file, e->name, e->dtype);
        }
    }
    if (!s && (e->rank != 3 || e->shape[0] < tensor->shape[0] || e->shape[1] != tensor->shape[1] ||
               e->shape[2] != tensor->shape[2])) {
        s = kvg_fail(KVG_ERR_INVALID, "%s: tensor %s does not hold [%llu or more tokens, %llu heads, %llu]",
                     c->capture_file, e->name, (unsigned long long)tensor->shape[0],
                     (unsigned long long)tensor->shape[1], (unsigned long long)tensor->shape[2]);
    }
    if (!s) {
        const size_t count = tensor->bytes / kvg_dtype_bytes(tensor->dtype);
        float *x = malloc(count * sizeof *x);
        if (x) {
            kvg_reference_load(dtype, e->data, count, x);
            kvg_reference_store(tensor->dtype, x, count, tensor->data);
        } else {
            s = kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu captured values", count);
        }
        free(x);
    }
    kvg_safetensors_close(file);
    return s;
}
