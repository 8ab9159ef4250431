/* One side (K or V) of a problem as the codecs need it, and its rows in the model type. */
#ifndef KVG_SECOND_SLOW_SIDE_H
#define KVG_SECOND_SLOW_SIDE_H

#include "core/backend.h"
#include "second/slow_codec.h"

typedef struct slow_side {
    const slow_codec *codec;
    slow_row row;
    kvg_dtype dtype;
    size_t code_bytes, scale_bytes; /* of a row */
} slow_side;

/* Finds the codec and reads the tensor scale among the op's inputs. KVG_ERR_UNIMPLEMENTED: a dialect that slowref does
 * not have; KVG_ERR_INVALID: a tensor scale that is not finite and above 0. */
kvg_status slow_side_open(const kvg_problem *problem, kvg_side side, const kvg_tensor *in, slow_side *out) KVG_CHECKED;

/* `count` elements of the model type from or to memory; storing is the last rounding, RN_T. */
void slow_load(kvg_dtype dtype, const uint8_t *from, size_t count, slow_number *x);
void slow_store(kvg_dtype dtype, const slow_number *x, size_t count, uint8_t *to);

/* The tensor of (role, side) among the tensors of a role list that has it. */
const kvg_tensor *slow_tensor(const kvg_tensor *tensors, const kvg_role *roles, kvg_role role, kvg_side side);

#endif
