/* What the decode contract feeds to the tensor core: docs/spec/decode-contract.md sections 2 to 4. */
#ifndef KVG_REFERENCE_ATTENTION_REF_PROFILE_OPERAND_H
#define KVG_REFERENCE_ATTENTION_REF_PROFILE_OPERAND_H

#include "reference/attention/ref_kv.h"
#include "reference/attention_spec.h"
#include "reference/tensor_core/ref_mma.h"

/* How one side (K or V) is held: number = operand * 2^base * the tensor's or the row's scale. */
typedef struct ref_holding {
    const ref_kv *kv;
    kvg_side side;
    kvg_operand type; /* X */
    int base;
    bool row_scaled; /* the scale is the row's */
    float factor;    /* RN(g * 2^base) */
    bool decoded;    /* with the row's parameters */
    uint32_t codes;  /* of an element; 0: no table */
    uint32_t block;  /* elements of a scale byte; 0: none */
    ref_operand table[256 * 16]; /* by scale byte and code */
} ref_holding;

/* Weights of e4m3 are 2^this of what they would be. */
enum { REF_E4M3_OFFSET = 8 };

/* KVG_ERR_UNIMPLEMENTED: the contract has no operands for the model type, the head_dim or a format. */
kvg_status ref_holding_check(const kvg_problem *p) KVG_CHECKED;

/* Of kernels of other projects, what they were not built for or not held against. */
kvg_status ref_stored_check(const kvg_problem *p) KVG_CHECKED;

/* The contract's class in attention.v1, on the chip of the profile. */
void ref_holding_class(const kvg_problem *p, kvg_arithmetic *out);

void ref_holding_init(const ref_kv *kv, kvg_side side, ref_holding *out);

/* The operands of a position that has a slot, ref_kv_dim of them in order of dims (room for head_dim), and its row
 * scale (1 where there is none). */
void ref_holding_row(const ref_holding *h, uint32_t sequence, uint32_t head, uint32_t position, ref_operand *out,
                     float *row_scale);

/* A number of f32 as an operand: one rounding. */
ref_operand ref_operand_round(kvg_operand type, float x);

/* A row of q, codes of T, as operands of `type`; *exponent is e: the operands hold q * 2^-e. */
void ref_query_operands(kvg_dtype T, kvg_operand type, const uint16_t *q, uint32_t n, ref_operand *out, int *exponent);

/* Section 4: dims[16 s + k] is the dim in place k of sum s of a score. */
void ref_score_order(const ref_kv *kv, uint16_t *dims);

#endif
