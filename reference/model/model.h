/* Room model: a transformer around its cache, bit for bit.
 *
 *   ref_model_math         Products, norms, activations, routing: f32, one rounding per operation.
 *   ref_model_sample       The next token from logits.
 *   ref_model_run, ref_model_run_*
 *                          The runner: weights, products, layers, experts, and the cache through ops append and decode.
 *
 * The public headers are reference/model_math.h and reference/model_run.h. docs/spec/generate.md sections 4 to 6
 * decide. */
#ifndef KVG_REFERENCE_MODEL_MODEL_H
#define KVG_REFERENCE_MODEL_MODEL_H
#endif
