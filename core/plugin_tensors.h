/* Where a plug-in finds the tensors of an op, as constants, without a library: in[KVG_APPEND_IN_SLOTS],
 * out[KVG_DECODE_OUT_LSE]. A name is KVG_<OP>_IN_<TENSOR> or KVG_<OP>_OUT_<TENSOR>, with the names of core/ops.def and
 * core/roles.def in capitals. The constants follow from these tables.
 *
 *     op append   KVG_APPEND_IN_K, _IN_V, _IN_K_TENSOR_SCALE, _IN_V_TENSOR_SCALE, _IN_K_BIAS, _IN_V_BIAS,
 *                 _IN_POSITIONS, _IN_COS_SIN, _IN_SLOTS; KVG_APPEND_OUT_K_DATA, _OUT_V_DATA, _OUT_K_SCALE_POOL,
 *                 _OUT_V_SCALE_POOL
 *     op decode   KVG_DECODE_IN_Q, _IN_K_DATA, _IN_V_DATA, ..., _IN_SINKS; KVG_DECODE_OUT_OUT, KVG_DECODE_OUT_LSE
 *
 * Pools stand side by side: data of K, data of V, scales of K, scales of V. So do codes and scales of rows.
 * KVG_<OP>_IN_COUNT and KVG_<OP>_OUT_COUNT are the numbers of tensors. */
#ifndef KVG_CORE_PLUGIN_TENSORS_H
#define KVG_CORE_PLUGIN_TENSORS_H

/* The tensors of a role. */
#define KVG_TENSORS_(P)
#define KVG_TENSORS_VALUES(P) P##_K, P##_V,
#define KVG_TENSORS_CODES(P) P##_K_CODES, P##_V_CODES,
#define KVG_TENSORS_SCALES(P) P##_K_SCALES, P##_V_SCALES,
#define KVG_TENSORS_TENSOR_SCALE(P) P##_K_TENSOR_SCALE, P##_V_TENSOR_SCALE,
#define KVG_TENSORS_BIAS(P) P##_K_BIAS, P##_V_BIAS,
#define KVG_TENSORS_DATA_POOL(P) P##_K_DATA, P##_V_DATA,
#define KVG_TENSORS_SCALE_POOL(P) P##_K_SCALE_POOL, P##_V_SCALE_POOL,
#define KVG_TENSORS_FLAT(P) P##_K_FLAT, P##_V_FLAT,
#define KVG_TENSORS_FLAT_E4M3(P) P##_K_FLAT_E4M3, P##_V_FLAT_E4M3,
#define KVG_TENSORS_PART(P) P##_OUT_A, P##_OUT_B,
#define KVG_TENSORS_PART_LSE(P) P##_LSE_A, P##_LSE_B,
#define KVG_TENSORS_POSITIONS(P) P##_POSITIONS,
#define KVG_TENSORS_COS_SIN(P) P##_COS_SIN,
#define KVG_TENSORS_SLOTS(P) P##_SLOTS,
#define KVG_TENSORS_BLOCK_TABLE(P) P##_BLOCK_TABLE,
#define KVG_TENSORS_LENGTHS(P) P##_LENGTHS,
#define KVG_TENSORS_Q(P) P##_Q,
#define KVG_TENSORS_QUERY_LENGTHS(P) P##_QUERY_LENGTHS,
#define KVG_TENSORS_SINKS(P) P##_SINKS,
#define KVG_TENSORS_OUT(P) P##_OUT,
#define KVG_TENSORS_LSE(P) P##_LSE,
#define KVG_TENSORS_MMA_A(P) P##_A,
#define KVG_TENSORS_MMA_B(P) P##_B,
#define KVG_TENSORS_MMA_C(P) P##_C,
#define KVG_TENSORS_MMA_D(P) P##_D,

/* The tensors of up to eight roles, one after another. */
#define KVG_TENSORS_EIGHT(P, a, b, c, d, e, f, g, h, ...)                                                     \
    KVG_TENSORS_##a(P) KVG_TENSORS_##b(P) KVG_TENSORS_##c(P) KVG_TENSORS_##d(P)                               \
    KVG_TENSORS_##e(P) KVG_TENSORS_##f(P) KVG_TENSORS_##g(P) KVG_TENSORS_##h(P)
#define KVG_TENSORS_OF(P, ...) KVG_TENSORS_EIGHT(P, __VA_ARGS__, , , , , , , , , )

#define ROLES(...) __VA_ARGS__
#define OP(ENUM, id, name, paged, inputs, outputs, summary)                                                   \
    enum { KVG_TENSORS_OF(KVG_##ENUM##_IN, inputs) KVG_##ENUM##_IN_COUNT };                                   \
    enum { KVG_TENSORS_OF(KVG_##ENUM##_OUT, outputs) KVG_##ENUM##_OUT_COUNT };
#include "core/ops.def"
#undef OP
#undef ROLES

#endif
