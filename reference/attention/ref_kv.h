/* K and V rows of sequences as exact numbers, read from a paged cache or from rows that were never quantised. */
#ifndef KVG_REFERENCE_ATTENTION_REF_KV_H
#define KVG_REFERENCE_ATTENTION_REF_KV_H

#include "reference/formats/ref_codec.h"
#include "reference/layout/ref_table.h"

typedef struct ref_kv {
    const kvg_problem *p;
    kvg_layout_map map;
    ref_side side[2];          /* both of K where V is a part of K's row */
    const uint8_t *pools[2][2]; /* data and scales, by the side that a map names */
    ref_table table;
    const kvg_tensor *flat;    /* K's and V's rows in T; NULL: the cache is read */
} ref_kv;

/* Reads the inputs of op decode of a checked problem. KVG_ERR_INVALID for a length that docs/spec/attention.md
 * forbids or a tensor scale that is not finite and positive; KVG_ERR_UNIMPLEMENTED for an unknown dialect. */
kvg_status ref_kv_init(const kvg_problem *p, const kvg_tensor *in, const kvg_tensor *flat, ref_kv *out) KVG_CHECKED;

/* The slot of a sequence's position; -1 where it has none: beyond the length, overwritten in a ring, no block. */
int64_t ref_kv_slot(const ref_kv *kv, uint32_t sequence, uint32_t position);

/* The row of a position that has a slot as it is stored: codes in order of dims, all of K's where V is a part of it,
 * and scale bytes. Room for head_dim codes and KVG_MAX_HEAD_DIM bytes. */
void ref_kv_codes(const ref_kv *kv, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position, uint16_t *codes,
                  uint8_t *scales);

/* The row of a position that has a slot: element i is y[i] * (the factor returned). Room for head_dim numbers, of which
 * ref_kv_dim are given. */
double ref_kv_row(const ref_kv *kv, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position, double *y);
bool ref_kv_row_scaled(const ref_kv *kv, kvg_side side); /* the factor is the row's, not the tensor's */

/* The tensor's scale is a part of y, rounded with it, and not the factor that ref_kv_row gave: nvfp4 modelopt. */
bool ref_kv_scale_within(const ref_kv *kv, kvg_side side, double factor);

/* The largest exponent of the E8M0 scales of a row that has a slot; very small for formats that have none. */
int ref_kv_exponent(const ref_kv *kv, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position);

/* round-trip.v1 of the same row of `flat`: how far the stored number may be from it. */
void ref_kv_codec_bound(const ref_kv *kv, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position,
                        double *bound);

uint32_t ref_kv_dim(const ref_kv *kv, kvg_side side); /* elements of a row */

#endif
