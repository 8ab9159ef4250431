/* A model on the device: its tensors, its pools, and the memory of a step. */
#ifndef KVG_GPU_MODEL_MODEL_STATE_CUH
#define KVG_GPU_MODEL_MODEL_STATE_CUH

#include "gpu/model/model_device.h"
#include "gpu/model/model_library.cuh"
#include "gpu/model/model_parts.cuh"

/* What a step uploads, in one piece: where each array lies. */
struct kvg_model_places {
    uint64_t tokens, positions, slots, lengths, query_lengths, wanted, table, bytes;
};

/* Activations, [rows] each unless it says otherwise. */
struct kvg_model_activations {
    float *x, *h;       /* the residual; what a norm gives, of rows or of wanted rows */
    void *q, *k, *v;    /* in T */
    void *attention;    /* in T */
    float *lse;
    float *wide;        /* gate and up; [entries] */
    float *act, *down;  /* [entries] */
    float *router, *weight;
    uint32_t *expert, *entries, *counts;
    float *logits;      /* [wanted] */
    uint32_t hidden, inner, experts; /* elements of a row: multiples of 8 */
};

struct kvg_gpu_model {
    kvg_model_setup setup;
    kvg_model_tensors tensors;
    void *memory;           /* of the device, in one piece */
    uint8_t *host, *inputs; /* pinned; on the device */
    kvg_model_places places;
    kvg_model_activations a;
    void *pools[2][2];      /* [data, scales][side] */
    uint64_t pool_bytes[2][2];
    void *workspace; /* of op decode */
    uint64_t workspace_bytes;
    kvg_model_copy copy;
    kvg_library *library;   /* null: products in their fixed order */
};

#endif
