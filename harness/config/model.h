/* Named model geometries: configs/models/<name>.json. */
#ifndef KVG_HARNESS_CONFIG_MODEL_H
#define KVG_HARNESS_CONFIG_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* Layers that keep rows of one geometry, of the same tokens. */
typedef struct kvg_model_group {
    uint32_t layers;
    uint32_t window;    /* the keys that a query sees, its own included (docs/spec/attention.md); 0: all */
    uint32_t kv_heads, head_dim;
    uint32_t shared_kv; /* 1: K and V share one row of head_dim elements (MLA latent), so V takes no memory */
} kvg_model_group;

enum { KVG_MODEL_GROUPS = 8 };

typedef struct kvg_model {
    char name[64];         /* the file's name without .json */
    char title[96];
    kvg_model_group groups[KVG_MODEL_GROUPS]; /* L: layers that hold KV */
    size_t group_count;
    uint32_t other_layers; /* layers that hold no KV: Mamba, linear attention */
    uint32_t query_heads;
    char source[256];      /* origin of the numbers */
} kvg_model;

/* Loads a model by its name. It is looked for in `folder`. If this is NULL, the folder is
 * configs/models below the working directory, beside the build tree, or in the installed share
 * folder: the first that exists. A name that ends in .json is a path. KVG_ERR_NOT_FOUND lists the
 * known names. */
kvg_status kvg_model_load(const char *folder, const char *name, kvg_model *out) KVG_CHECKED;

/* All layers that hold KV as one group without a window, of the first group's geometry. KVG_ERR_INVALID if a group
 * has another geometry; *out is set even so. */
kvg_status kvg_model_whole(const kvg_model *model, kvg_model_group *out) KVG_CHECKED;

/* The folder that kvg_model_load uses for a NULL `folder`. KVG_ERR_NOT_FOUND. */
kvg_status kvg_model_folder(char *out, size_t size) KVG_CHECKED;

/* The folder of the checkpoint that kvgold carries: golden/data/model, found by kvg_shipped_path. */
kvg_status kvg_model_carried(char *out, size_t size) KVG_CHECKED;

/* Names of the models in a folder, sorted; at most `max`. */
kvg_status kvg_model_names(const char *folder, char names[][64], size_t max, size_t *count) KVG_CHECKED;

#endif
