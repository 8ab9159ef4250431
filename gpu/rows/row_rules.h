/* Room rows: append, flatten, expand and probe, and where rows lie.
 *
 *   append, flatten, probe     The ops. A kernel is a template of a format's codec.
 *   codec_*.cuh                A file per family of formats: codes and scales from values, and back.
 *   gpu_layout.h               Addresses of rows, written from docs/spec/layouts.md on their own.
 *   cache_rows.cuh             The same on the device, for one row.
 *   row_rules.h, gpu_rows.c    Which dialects and head_dims have kernels.
 *   dispatch.cuh               From a problem's format to the template of its kernel. */
/* What the dialects of the storage formats differ in (docs/spec/formats.md sections 4 to 8 and 11 to 13), as numbers
 * for a kernel. */
#ifndef KVG_GPU_ROWS_ROW_RULES_H
#define KVG_GPU_ROWS_ROW_RULES_H

#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvg_sign_rule { KVG_SIGN_BIT, KVG_SIGN_LESS, KVG_SIGN_NONZERO, KVG_SIGN_NOTPOS } kvg_sign_rule;
enum { KVG_NAN_SIGNED_ZERO = 16 }; /* as code of a NaN: 0 with x's sign */

/* E2M1, section 2.1. Bit k of `up`: the midpoint between codes k and k + 1 goes to k + 1. */
typedef struct kvg_e2m1_rule {
    uint8_t up, sign, nan;
} kvg_e2m1_rule;
enum { KVG_TIES_EVEN = 0x2A, KVG_TIES_AWAY = 0x7F, KVG_TIES_ZERO = 0 };

/* mx16, mxfp4, section 7: amax = m 2^k, the mantissa's bits in an f32 at most `split`: e = k + low, else one more. */
typedef struct kvg_mx_rule {
    uint32_t split;
    int8_t low, least; /* e is at least `least` */
    uint8_t zero_byte; /* of amax 0 */
    bool special_is_zero, byte0_is_zero; /* Inf or NaN in the block: zero_byte; byte 0: magnitudes 0 */
} kvg_mx_rule;

/* nvfp4, section 8: the columns q, v and "when v is replaced" of its table. */
typedef enum kvg_q_rule { KVG_Q_DIVIDE, KVG_Q_RCP, KVG_Q_ENCODE, KVG_Q_TE, KVG_Q_MINIMAX } kvg_q_rule;
typedef enum kvg_v_rule {
    KVG_V_DIVIDE, KVG_V_UNROUNDED, KVG_V_RCP, KVG_V_RCP_ENCODE, KVG_V_RECIPROCAL, KVG_V_TE
} kvg_v_rule;
typedef enum kvg_v_guard {
    KVG_GUARD_NONE, KVG_GUARD_SIGNED_ZERO, KVG_GUARD_PLUS_ZERO, KVG_GUARD_SMALL, KVG_GUARD_AMAX, KVG_GUARD_Q,
    KVG_GUARD_SCALE
} kvg_v_guard;
typedef struct kvg_nvfp4_rule {
    uint8_t q, v, guard;
    bool clamp_low, zero_is_one, nan_spreads; /* q at least 2^-9; q = 0 becomes 1; a NaN makes q NaN */
} kvg_nvfp4_rule;

typedef enum kvg_affine_rule { KVG_AFFINE_FMA, KVG_AFFINE_MULADD, KVG_AFFINE_PYTORCH } kvg_affine_rule;

typedef struct kvg_row_rule {
    bool canonical;          /* is encoded as `canonical` is */
    kvg_e2m1_rule e2m1;
    kvg_mx_rule mx;
    kvg_nvfp4_rule nvfp4;
    uint8_t affine;
    bool encode_scale;       /* e4m3, e5m2: x times RN(1 / g) */
    bool linear;             /* rowfp4: half steps, no E2M1 */
    bool decode_scale_first; /* nvfp4: e2m1 times RN(sf g), and code 8 is +0 */
    bool metal;              /* mlx: halves go away from zero, and the largest element starts at 0 */
    uint32_t block;          /* of the format: elements of a block, or of a group of mlx */
} kvg_row_rule;

/* KVG_ERR_UNIMPLEMENTED for a dialect that is not in the table. */
kvg_status kvg_row_rule_of(const kvg_storage *storage, kvg_row_rule *out) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
