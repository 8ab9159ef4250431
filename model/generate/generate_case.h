/* The data of a case of op generate besides its problem: a model, a text, how the text is read, and
 * how much may be lost (docs/spec/generate.md section 8, docs/guide/config.md section 15). */
#ifndef KVG_MODEL_GENERATE_GENERATE_CASE_H
#define KVG_MODEL_GENERATE_GENERATE_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/config/config.h"

/* Layers whose K and V are stored in the case's formats; the others keep the model type. */
typedef enum kvg_quantised_layers { KVG_LAYERS_ALL, KVG_LAYERS_SLIDING, KVG_LAYERS_FULL } kvg_quantised_layers;

/* Names as in configs, NULL-terminated: in the order of the enum; for false and true. */
extern const char *const kvg_quantised_layers_names[], *const kvg_quantised_k_names[];

enum { KVG_GENERATE_DEFECTS = 16 };

/* The most that a run may lose. +Inf (top1: 0) if the config has no limit. */
typedef struct kvg_quality_limits {
    double loss, kl; /* limits of the means, in bits */
    double top1;     /* at least */
} kvg_quality_limits;

typedef struct kvg_generate_case {
    const char *model;        /* folder of a checkpoint; strings are owned by the config */
    const char *text;         /* its bytes are the tokens */
    const char *calibration;  /* text from which tensor scales are taken; NULL: no format has one */
    uint32_t window;          /* tokens of a window */
    uint32_t windows, stride; /* windows 0: as many as the text has */
    uint32_t chunk, batch;
    uint32_t greedy;          /* tokens generated after each window */
    uint32_t bit_windows;     /* windows compared bit for bit with the reference, which reads them in another way */
    uint32_t calibration_tokens;
    kvg_quantised_layers layers;
    bool before_rope;         /* K quantised before RoPE */
    kvg_quality_limits limits;
    uint64_t budget;          /* a budget in bytes: how many requests of a window fit is reported; 0: it is not */
    const char *defects[KVG_GENERATE_DEFECTS]; /* names for kvg_planted_find; each planted run must fail */
    size_t defect_count;
} kvg_generate_case;

static inline const kvg_generate_case *kvg_generate_of(const kvg_case *c)
{
    return c->guest_case;
}

/* config_generate.c: appends the cases of a group; writes the group's part of the schema and of the
 * page of configs. */
kvg_status kvg_generate_add(const kvg_guest *guest, kvg_config *config, kvg_json group) KVG_CHECKED;
void kvg_generate_schema(kvg_json_text *out);
void kvg_generate_page(kvg_json_text *out);

#endif
