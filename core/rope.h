/* RoPE: which elements of a row of K are rotated, and how the table of cos and sin follows from a
 * model's parameters. */
#ifndef KVG_CORE_ROPE_H
#define KVG_CORE_ROPE_H

#include "core/format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which two elements RoPE rotates together. Ids are stored on disk. */
typedef enum kvg_pairing {
    KVG_PAIRING_ADJACENT = 1, /* (2i, 2i + 1): TurboMind, DeepSeek */
    KVG_PAIRING_HALVES = 2    /* (i, i + R/2): Hugging Face checkpoints */
} kvg_pairing;

typedef enum kvg_rope_kind {
    KVG_ROPE_TABLE = 0, /* the table holds any numbers; their origin is not given */
#define ROPE_KIND(ENUM, id, name, summary) KVG_ROPE_##ENUM = id,
#include "core/rope_kinds.def"
#undef ROPE_KIND
    KVG_ROPE_END
} kvg_rope_kind;

/* The parameters of the table: docs/spec/numerics.md section 8. A parameter that the kind does not
 * take is 0. They are f32, because engines' formulas round them to f32 before use. */
typedef struct kvg_rope_scaling {
    kvg_rope_kind kind;
    float theta;                 /* base; every kind */
    float factor;                /* every kind except default */
    float original_positions;    /* dynamic, llama3, yarn: positions that the model was first trained for */
    float length;                /* dynamic: tokens of the sequence, new ones included; one table has one length */
    float low_freq_factor;       /* llama3 */
    float high_freq_factor;      /* llama3 */
    float beta_fast;             /* yarn: a pair that turns more times than this over the original positions stays as it
                                  * is */
    float beta_slow;             /* yarn: a pair that turns fewer times than this has its frequency divided by factor */
    float attention_factor;      /* multiplies cos and sin; 0: 1, or by yarn's own rule for yarn */
    float mscale;                /* yarn: DeepSeek's rule for the attention factor; needs mscale_all_dim, too */
    float mscale_all_dim;        /* yarn */
    bool truncate;               /* yarn: widen the range of pairs to whole pairs; GPT-OSS does not */
    kvg_dtype entries;           /* type to which cos and sin are rounded at the end; 0: f32 */
} kvg_rope_scaling;

typedef struct kvg_rope {
    uint32_t dims;      /* R: the first R elements are rotated; 0: no RoPE */
    uint32_t positions; /* rows of the cos/sin table */
    kvg_pairing pairing;
    kvg_rope_scaling scaling;
} kvg_rope;

/* A float of kvg_rope_scaling: which kinds take it, and its range. */
typedef struct kvg_rope_parameter {
    const char *name; /* name of the member and of the key in a config */
    const char *tag;  /* in case ids */
    size_t offset;    /* of the member */
    uint32_t needed;  /* bits 1 << kind: the kinds that require it */
    uint32_t taken;   /* bits 1 << kind: the kinds that take it */
    float least, most;
    bool whole;       /* an integer */
} kvg_rope_parameter;

const kvg_rope_parameter *kvg_rope_parameter_table(size_t *count);
float kvg_rope_parameter_get(const kvg_rope_scaling *scaling, const kvg_rope_parameter *parameter);
void kvg_rope_parameter_set(kvg_rope_scaling *scaling, const kvg_rope_parameter *parameter, float value);

const char *kvg_rope_kind_name(kvg_rope_kind kind); /* "?" outside the table */
kvg_status kvg_rope_kind_find(const char *name, kvg_rope_kind *out) KVG_CHECKED;

/* KVG_ERR_INVALID, with the reason, unless K rows of head_dim elements can be rotated like this.
 * dims 0 is always right. */
kvg_status kvg_rope_check(const kvg_rope *rope, uint32_t head_dim) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
