/* RoPE: which elements of a row of K turn, and how the table of cos and sin follows from a model's parameters. */
#ifndef KVG_CORE_ROPE_H
#define KVG_CORE_ROPE_H

#include "core/format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which elements RoPE turns together. Ids are stored on disk. */
typedef enum kvg_pairing {
    KVG_PAIRING_ADJACENT = 1, /* (2i, 2i + 1): TurboMind, DeepSeek */
    KVG_PAIRING_HALVES = 2    /* (i, i + R/2): Hugging Face checkpoints */
} kvg_pairing;

typedef enum kvg_rope_kind {
    KVG_ROPE_TABLE = 0, /* the table is any numbers: nothing is said of where they come from */
#define ROPE_KIND(ENUM, id, name, summary) KVG_ROPE_##ENUM = id,
#include "core/rope_kinds.def"
#undef ROPE_KIND
    KVG_ROPE_END
} kvg_rope_kind;

/* What the table follows from: docs/spec/numerics.md section 8. A parameter that the kind does not take is 0. They
 * are f32, as engines' formulas round them to f32 before they use them. */
typedef struct kvg_rope_scaling {
    kvg_rope_kind kind;
    float theta;                 /* base; every kind */
    float factor;                /* every kind but default */
    float original_positions;    /* dynamic, llama3, yarn: positions that the model was trained for first */
    float length;                /* dynamic: tokens of the sequence, new ones included; one table has one length */
    float low_freq_factor;       /* llama3 */
    float high_freq_factor;      /* llama3 */
    float beta_fast;             /* yarn: turns over the original positions from which a frequency stays */
    float beta_slow;             /* yarn: turns below which it is divided by factor */
    float attention_factor;      /* multiplies cos and sin; 0: 1, for yarn by its rule */
    float mscale;                /* yarn: DeepSeek's rule for the attention factor; both or none */
    float mscale_all_dim;        /* yarn */
    bool truncate;               /* yarn: the range of pairs widened to whole pairs; GPT-OSS: not */
    kvg_dtype entries;           /* type that cos and sin are rounded to in the end; 0: f32 */
} kvg_rope_scaling;

typedef struct kvg_rope {
    uint32_t dims;      /* R: elements that turn, from the first on; 0: no RoPE */
    uint32_t positions; /* rows of the cos/sin table */
    kvg_pairing pairing;
    kvg_rope_scaling scaling;
} kvg_rope;

/* A float of kvg_rope_scaling: who takes it, and what it may be. */
typedef struct kvg_rope_parameter {
    const char *name; /* of the member, and of the key in a config */
    const char *tag;  /* in case ids */
    size_t offset;    /* of the member */
    uint32_t needed;  /* bit 1 << kind: the kinds that cannot do without it */
    uint32_t taken;   /* ... that take it */
    float least, most;
    bool whole;       /* an integer */
} kvg_rope_parameter;

const kvg_rope_parameter *kvg_rope_parameter_table(size_t *count);
float kvg_rope_parameter_get(const kvg_rope_scaling *scaling, const kvg_rope_parameter *parameter);
void kvg_rope_parameter_set(kvg_rope_scaling *scaling, const kvg_rope_parameter *parameter, float value);

const char *kvg_rope_kind_name(kvg_rope_kind kind); /* "?" outside the table */
kvg_status kvg_rope_kind_find(const char *name, kvg_rope_kind *out) KVG_CHECKED;

/* KVG_ERR_INVALID, with what is wrong, unless K rows of head_dim elements can be turned so. dims 0 is always good. */
kvg_status kvg_rope_check(const kvg_rope *rope, uint32_t head_dim) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
