/* The profile tier of paged attention: what the decode contract (docs/decode-contract.md) gives on the tensor core of
 * one chip, every bit. Any shape, layout, format and batch of docs/attention.md; model types f16 and bf16, head_dim a
 * multiple of 16. */
#ifndef KVG_REFERENCE_ATTENTION_PROFILE_H
#define KVG_REFERENCE_ATTENTION_PROFILE_H

#include "reference/attention_spec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Op decode under problem->profile: in and out are its tensors. NaN outputs are 0x7FFF, a NaN LSE 0x7FFFFFFF. The bits
 * do not depend on the number of threads. KVG_ERR_UNIMPLEMENTED: no profile, model type f32, another head_dim, an
 * unknown dialect; KVG_ERR_INVALID names the tensor that contradicts docs/attention.md; KVG_ERR_MEMORY. */
kvg_status kvg_attention_profile(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out) KVG_CHECKED;

/* The class of arithmetic that the contract belongs to for the problem, so that kvg_attention_spec gives a bound for
 * its profile's answer. KVG_ERR_UNIMPLEMENTED as above. */
kvg_status kvg_arithmetic_of_profile(const kvg_problem *problem, kvg_arithmetic *out) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
