/* Room attention: op decode, paged attention over a quantised cache.
 *
 *   ref_attention          The spec tier: the exact answer.
 *   ref_attention_bound    How far a right implementation of a class of arithmetic may be from it.
 *   ref_profile            The profile tier: what the decode contracts share.
 *   ref_profile_mma, _operand
 *                          The contract of tensor cores, and what it feeds to them.
 *   ref_profile_simt       The contract of plain f32.
 *   ref_kv, ref_query      Rows of K and V as exact numbers; rows of q and what they see.
 *
 * The public headers are reference/attention_spec.h and reference/attention_profile.h. */
#ifndef KVG_REFERENCE_ATTENTION_ATTENTION_H
#define KVG_REFERENCE_ATTENTION_ATTENTION_H
#endif
