/* Modes of a quantised KV cache: which storage a policy number means on a chip, and how many bytes
 * a block has. The contract is docs/spec/modes.md. */
#ifndef KVG_POLICY_MODE_H
#define KVG_POLICY_MODE_H

#include "core/format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the cache is stored, by the engine's name for it. Ids are stored in reports: never renumber, never reuse. */
typedef enum kvg_mode {
    KVG_MODE_UNSUPPORTED = 0, /* a request that names no mode */
    KVG_MODE_NONE = 1,        /* unquantised: the model type */
    KVG_MODE_INT4 = 2,
    KVG_MODE_INT8 = 3,
    KVG_MODE_FP4_MX = 4,
    KVG_MODE_FP4_NV = 5,
    KVG_MODE_FP8_E4M3 = 6, /* exists in LMDeploy's other engine only, not in TurboMind */
    KVG_MODE_FP8_E5M2 = 7
} kvg_mode;

typedef struct kvg_mode_info {
    kvg_mode mode;
    const char *name;
    kvg_format format; /* format of K and of V; KVG_FORMAT_NONE: the model type's */
    bool turbomind;    /* TurboMind has kernels for it */
} kvg_mode_info;

/* The table, in id order; *count rows. */
const kvg_mode_info *kvg_mode_table(size_t *count);

/* "none", "int4", ...; "unsupported" for KVG_MODE_UNSUPPORTED and for values outside the table. */
const char *kvg_mode_name(kvg_mode mode);
kvg_status kvg_mode_find(const char *name, kvg_mode *out) KVG_CHECKED;

/* The storage format of a mode with model type f16 or bf16; KVG_FORMAT_NONE for KVG_MODE_UNSUPPORTED, unknown modes and
 * other model types. */
kvg_format kvg_mode_format(kvg_mode mode, kvg_dtype dtype);

/* q_bits: bits of one stored element. t_bits: bits of each of the two parameters that a row keeps
 * in the data block; 0 if it keeps none. scale_pool: block scales lie in a second pool, under the
 * same block ids. All three follow from the mode's format and the model type, never from a policy
 * number. 0 and false if kvg_mode_format gives KVG_FORMAT_NONE. */
uint32_t kvg_mode_q_bits(kvg_mode mode, kvg_dtype dtype);
uint32_t kvg_mode_t_bits(kvg_mode mode, kvg_dtype dtype);
bool kvg_mode_scale_pool(kvg_mode mode);

typedef struct kvg_block_geometry {
    uint32_t layers; /* layers that hold KV */
    uint32_t kv_heads, head_dim;
    uint32_t block_tokens;
    bool shared_kv; /* K and V are one row (MLA) */
} kvg_block_geometry;

/* Bytes of one block of all layers in the data pool and in the scale pool, by TurboMind's formulas (docs/spec/modes.md
 * section 4):
 *     rows = layers * kv_heads * block_tokens * (shared_kv ? 1 : 2)
 *     data = rows * (q_bits * head_dim / 8 + 2 * t_bits / 8)
 *     scale = rows * bytes of a row's block scales
 * KVG_ERR_INVALID: no such mode or model type, a size of 0, a head_dim that does not fit the format, or a product of
 * 2^64 and more. */
kvg_status kvg_mode_block_bytes(kvg_mode mode, kvg_dtype dtype, const kvg_block_geometry *geometry, uint64_t *data,
                                uint64_t *scale) KVG_CHECKED;

/* The engine whose policy numbers are meant: the same number means different things in each. Ids
 * are stored in reports. */
typedef enum kvg_policy_domain {
    KVG_POLICY_TURBOMIND = 1,    /* bit sets: 0x04 int4, 0x08 int8, 0x10 FP4 */
    KVG_POLICY_LMDEPLOY_2026 = 2 /* plain numbers: 16 and 17 are FP8 */
} kvg_policy_domain;

const char *kvg_policy_domain_name(kvg_policy_domain domain); /* "?" for a value outside the enum */
kvg_status kvg_policy_domain_find(const char *name, kvg_policy_domain *out) KVG_CHECKED;

/* The columns of the selection table. */
typedef enum kvg_policy_column {
    KVG_POLICY_FP4_MX_CHIP,     /* SM 89, 90, FP4 built in */
    KVG_POLICY_FP4_NV_CHIP,     /* SM 100, 103, 110, 120, 121, FP4 built in, fp4_nv rolled out */
    KVG_POLICY_FP4_NV_HELD,     /* the same chips, fp4_nv not rolled out */
    KVG_POLICY_OTHER_CHIP,      /* any other SM, FP4 built in */
    KVG_POLICY_NO_FP4_BUILD,    /* FP4 not built in, any SM */
    KVG_POLICY_COLUMNS
} kvg_policy_column;

typedef struct kvg_policy {
    kvg_policy_domain domain;
    uint32_t number;
    const char *name;
    kvg_mode modes[KVG_POLICY_COLUMNS]; /* KVG_MODE_UNSUPPORTED: refused */
} kvg_policy;

/* The selection table: policy x SM x build flag x rollout switch; *count rows. */
const kvg_policy *kvg_policy_table(size_t *count);

typedef struct kvg_sm {
    uint32_t sm;              /* compute capability, major * 10 + minor */
    kvg_policy_column column; /* KVG_POLICY_FP4_MX_CHIP or KVG_POLICY_FP4_NV_CHIP */
} kvg_sm;

/* The chips with an FP4 mode, ascending; *count rows. Every other SM is KVG_POLICY_OTHER_CHIP. */
const kvg_sm *kvg_sm_table(size_t *count);

/* The head_dim of MLA, where K and V share one row: 64 RoPE elements and 512 latent elements. */
enum { KVG_MLA_HEAD_DIM = 576 };

typedef struct kvg_mode_request {
    kvg_policy_domain domain;
    uint32_t policy;
    uint32_t sm;           /* 90, 100, ...; 0: unknown */
    bool fp4_build;        /* FP4 is built in */
    bool fp4_nv_enabled;   /* rollout switch of fp4_nv; off: an unquantised cache instead, which is reported */
    kvg_dtype dtype;       /* model type: f16 or bf16 */
    uint32_t layers, kv_heads, head_dim, block_tokens;
    bool shared_kv;        /* K and V are one row; implied by head_dim KVG_MLA_HEAD_DIM */
    uint32_t kernel_block; /* block_tokens must be a multiple of it; 0: any */
    bool engine_kernels;   /* true: refuse what TurboMind's compiled kernels cannot do */
    bool partial_kv;       /* wanted: speculative decoding that flattens part of the cache (SpecPV) */
    bool has_flatten;      /* the implementation flattens the mode's format; kvgold's reference flattens every one */
    bool prefix_cache;     /* wanted */
    bool design_gating;    /* keep the source designs' bans (docs/spec/modes.md section 5) */
    bool fall_back;        /* "on_unsupported": "fallback": take an unquantised cache if the mode is not possible */
} kvg_mode_request;

enum { KVG_MODE_REASON_SIZE = 512 };

typedef struct kvg_mode_choice {
    kvg_mode requested; /* the mode that policy and chip name; KVG_MODE_UNSUPPORTED: they name none */
    kvg_mode effective;
    bool fell_back;                    /* another mode was requested, and effective is KVG_MODE_NONE */
    char reason[KVG_MODE_REASON_SIZE]; /* why it fell back; "" otherwise */
    kvg_format format;                 /* what K and V are stored in */
    uint32_t q_bits, t_bits;
    bool shared_kv; /* as requested, or because head_dim is KVG_MLA_HEAD_DIM */
    uint64_t data_block_bytes, scale_block_bytes;
    bool partial_kv, prefix_cache; /* wanted and allowed */
    const char *partial_kv_reason; /* why it is off although it was wanted; "" otherwise */
    const char *prefix_cache_reason;
} kvg_mode_choice;

/* Chooses the mode. KVG_ERR_INVALID gives the reason and leaves *choice untouched. With fall_back
 * off that happens if the policy is unknown, conflicting or without a format in kvgold, or if the
 * chip, build, kernels or geometry cannot do the mode. In any case it happens if the request cannot
 * be an unquantised cache either. docs/spec/modes.md section 3 has the checks in order. */
kvg_status kvg_mode_select(const kvg_mode_request *request, kvg_mode_choice *choice) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
