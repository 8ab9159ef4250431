/* Room numbers: arithmetic whose every bit is fixed, without the C library's exp, log, pow and sin.
 *
 *   ref_round              Conversions between f32 and the small formats.
 *   ref_fused, ref_chains  Fused multiply-adds, one and in chains.
 *   ref_exp2               exp2 and log2 of the decode contract, in f32.
 *   ref_elementary         exp, log and tanh in double.
 *   ref_double_double      About 106 bits, for the table of RoPE.
 *
 * The room knows no format and no problem. docs/spec/formats.md section 2 and docs/spec/numerics.md are its pages. */
#ifndef KVG_REFERENCE_NUMBERS_NUMBERS_H
#define KVG_REFERENCE_NUMBERS_NUMBERS_H
#endif
