/* The ops of the reference's backend, one function for each group of them. */
#ifndef KVG_REFERENCE_OPS_OPS_H
#define KVG_REFERENCE_OPS_OPS_H

#include "core/backend.h"

/* Quantise and dequantise over rows; append, flatten, expand and probe over a paged cache; decode; mma. */
kvg_run_fn ref_quantise, ref_dequantise, ref_paged, ref_decode, ref_mma;

#endif
