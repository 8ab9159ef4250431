/* Input data of a case. Element i depends only on the seed, the case's id without the backend, and
 * i. So every implementation sees the same data, in any order and on any number of threads. */
#ifndef KVG_HARNESS_TRIAL_QUESTION_FILL_H
#define KVG_HARNESS_TRIAL_QUESTION_FILL_H

#include "harness/case/case.h"

/* KVG_ERR_INVALID if the fill does not exist for the case's format or op (docs/guide/config.md has
 * the table). For a probe kvg_probe_check (harness/trial/question/decode_probes.h) checks the
 * rest. */
kvg_status kvg_fill_check(const kvg_case *c) KVG_CHECKED;

/* True for a probe of op decode (harness/trial/question/decode_probes.h). */
bool kvg_fill_is_probe(kvg_fill fill);

/* The seed of the case's data, made of the case's seed and its id without the backend. */
uint64_t kvg_fill_seed(const kvg_case *c);

/* Lets seed and id decide two things that are fixed in golden packs: the order of the sequences'
 * parts, and the layer of the pools that the op works on (unless the config names it).
 * kvg_config_open does this for every case. A case of a golden pack has its manifest's layer. */
void kvg_fill_shuffle(kvg_case *c);

/* The case with other data. Draw 0 is the case itself; every later draw has a seed that follows
 * from seed and id. */
enum { KVG_REDRAWS = 8 };
kvg_case kvg_fill_draw(const kvg_case *c, uint64_t draw);

/* Fills `tensor` (role VALUES of `rows`) with rows of K or V in the model type. `rows` is the
 * case's problem, or another with other tokens. */
kvg_status kvg_fill_values(const kvg_case *c, const kvg_problem *rows, kvg_side side, kvg_tensor *tensor) KVG_CHECKED;

/* Those of KVG_FILL_CAPTURE: the first rows of a tensor of the case's file. */
kvg_status kvg_fill_capture(const kvg_case *c, kvg_side side, kvg_tensor *tensor) KVG_CHECKED;

/* The tensor scale of one side for those rows: as given, or by convention from their largest finite magnitude. */
kvg_status kvg_fill_scale(const kvg_case *c, kvg_side side, const kvg_tensor *values, float *g) KVG_CHECKED;

/* KVG_FILL_COLD: the sum of a row of K. */
double kvg_fill_ones_sum(const kvg_case *c);

/* KVG_FILL_NEEDLE. kvg_fill_needle_sign: element `dim` of the K row of live token `token` is large
 * (1), small (-1), or the same in every row (0). kvg_fill_needle_step: the least difference of two
 * rows, summed over the elements in which they differ. */
int kvg_fill_needle_sign(const kvg_case *c, uint64_t token, uint32_t dim);
double kvg_fill_needle_step(const kvg_case *c);

/* KVG_FILL_CODES: fills `codes` and `scales` with every byte pattern in turn, each at its own
 * pace. */
void kvg_fill_codes(const kvg_case *c, kvg_side side, kvg_tensor *codes, kvg_tensor *scales);

/* Fill with nearly normal biases; with points of the unit circle; with bytes without a pattern.
 * Tensors without bytes stay as they are. */
void kvg_fill_bias(const kvg_case *c, kvg_side side, kvg_tensor *bias);
void kvg_fill_cos_sin(const kvg_case *c, kvg_tensor *table);
void kvg_fill_noise(const kvg_case *c, uint64_t stream, kvg_tensor *tensor);

#endif
