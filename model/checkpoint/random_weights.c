#include "model/checkpoint/random_weights.h"

#include <stdlib.h>

#include "model/checkpoint/model_weights.h"

struct kvg_random_weights {
    const kvg_bench_device *device;
    uint8_t *buffer;          /* the device's */
    kvg_weight_view views[];  /* [layer][weight]; those that come once under layer 0 */
};

static kvg_weight_view *view_at(kvg_random_weights *w, kvg_weight weight, uint32_t layer)
{
    return &w->views[(size_t)layer * KVG_WEIGHT_COUNT + weight];
}

static bool is_norm(kvg_weight weight)
{
    return weight == KVG_WEIGHT_INPUT_NORM || weight == KVG_WEIGHT_MLP_NORM || weight == KVG_WEIGHT_FINAL_NORM ||
           weight == KVG_WEIGHT_Q_NORM || weight == KVG_WEIGHT_K_NORM;
}

static uint64_t bytes_of(const kvg_weight_view *view)
{
    uint64_t bytes = kvg_dtype_bytes(view->dtype);
    for (uint32_t i = 0; i < view->rank; i++) bytes *= view->shape[i];
    return bytes;
}

/* Gives each tensor its place; the sum of all. */
static uint64_t place_all(kvg_random_weights *w, const kvg_model_config *config)
{
    uint64_t used = 0;
    for (int i = 0; i < KVG_WEIGHT_COUNT; i++) {
        kvg_weight_view view = {.dtype = KVG_DTYPE_BF16};
        const uint32_t layers = kvg_model_weight_shape(config, (kvg_weight)i, &view.rank, view.shape);
        for (uint32_t layer = 0; layer < layers; layer++) {
            view.data = w->buffer ? w->buffer + used : NULL;
            used += (bytes_of(&view) + 255) / 256 * 256;
            *view_at(w, (kvg_weight)i, layer) = view;
        }
    }
    return used;
}

static kvg_status fill(const kvg_random_weights *w, kvg_weight weight, const kvg_weight_view *view, uint64_t seed)
{
    const uint64_t line = view->shape[view->rank - 1] * kvg_dtype_bytes(view->dtype);
    const kvg_bench_rows rows = {.base = (uint64_t)((const uint8_t *)view->data - w->buffer),
                                 .stride = {0, 0, line},
                                 .count = {1, 1, (uint32_t)(bytes_of(view) / line)},
                                 .bytes = (uint32_t)line};
    const kvg_recipe linear = {seed, 0x80FF80FF80FF80FFu, 0x3C003C003C003C00u};
    const kvg_recipe norm = {seed, 0x000F000F000F000Fu, 0x3F803F803F803F80u};
    return w->device->fill(w->buffer, &rows, is_norm(weight) ? norm : linear);
}

kvg_status kvg_random_weights_make(const kvg_bench_device *device, const kvg_model_config *config, uint64_t seed,
                                   kvg_random_weights **out)
{
    const size_t views = (size_t)config->layers * KVG_WEIGHT_COUNT;
    *out = NULL;
    if (config->experts) return kvg_fail(KVG_ERR_UNIMPLEMENTED, "random weights are those of dense models");
    kvg_random_weights *w = calloc(1, sizeof *w + views * sizeof *w->views);
    if (!w) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the tensors of %u layers", config->layers);
    w->device = device;
    void *buffer = NULL;
    kvg_status s = device->alloc(place_all(w, config), &buffer);
    w->buffer = buffer;
    (void)place_all(w, config); /* now where they lie */
    for (size_t i = 0; !s && i < views; i++) {
        if (w->views[i].data) s = fill(w, (kvg_weight)(i % KVG_WEIGHT_COUNT), &w->views[i], seed);
    }
    if (s) kvg_random_weights_free(w);
    else *out = w;
    return s;
}

void kvg_random_weights_free(kvg_random_weights *w)
{
    if (!w) return;
    if (w->buffer) w->device->free(w->buffer);
    free(w);
}

static kvg_weight_view source_view(const void *weights, kvg_weight weight, uint32_t layer)
{
    const kvg_random_weights *w = weights;
    return w->views[(size_t)layer * KVG_WEIGHT_COUNT + weight];
}

kvg_model_source kvg_random_weights_source(const kvg_random_weights *weights)
{
    return (kvg_model_source){.weights = weights, .view = source_view};
}
