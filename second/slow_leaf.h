/* One row of op decode from its scores to its leaves: docs/spec/decode-contract.md section 7,
 * docs/spec/simt-contract.md section 3, docs/spec/other-kernels.md sections 1.3, 2.3 and 4. */
#ifndef KVG_SECOND_SLOW_LEAF_H
#define KVG_SECOND_SLOW_LEAF_H

#include "second/slow_score.h"

/* The state of section 1. Weights that are summed in lanes get to l when the leaf ends. */
enum { SLOW_LANES = 4 };
typedef struct slow_state {
    slow_number m, l, lanes[SLOW_LANES], o[KVG_MAX_HEAD_DIM];
    bool absent; /* nothing visible */
} slow_state;

/* The key at a position if the row sees it, else -1. */
int64_t slow_seen_key(const slow_query *r, int64_t position);

/* Weights are 2^8 times as large: docs/spec/other-kernels.md section 1.6. */
enum { SLOW_LIFT = 8 };
bool slow_weights_are_lifted(const slow_head *h);

/* -RN(m c), or -fma(m, c, -8) where weights are lifted. An m of -Inf, of a row whose scores are all -Inf, is read as 0.
 * Where w is formed at every tile, a product of -Inf is read as the least number. */
slow_number slow_minus_reference(const slow_query *r, slow_number m);

/* EMPTY; positions of a leaf, all that are stored if the row is one leaf; the state after leaf `index`, and after
 * some tiles, of which one begins every `step` positions from `first` on. */
void slow_state_clear(const slow_head *h, slow_state *s);
int64_t slow_leaf_size(const slow_head *h);
void slow_leaf_run(const slow_query *r, int64_t index, slow_state *s);
void slow_tiles_run(const slow_query *r, int64_t first, int64_t step, int64_t tiles, slow_state *s);

#endif
