/* Room paging: who holds which block of a paged cache. It knows ids and no bytes.
 *
 *   ref_block_manager      The pool of blocks; ref_block_sets has its ordered sets.
 *   ref_block_pair         The data pool and the scale pool as one.
 *   ref_prefix_index       Which block holds which tokens.
 *   ref_sequence_manager, ref_sequence_step
 *                          Sequences, and the planning of their steps.
 *   ref_contiguous         A contiguous cache and its ring buffer.
 *   ref_paging_memory      The memory of the managers.
 *
 * The public headers are reference/paging.h, paging_pool.h, paging_prefix.h and contiguous.h. The room includes no
 * other room. docs/spec/paging.md is the contract. */
#ifndef KVG_REFERENCE_PAGING_PAGING_H
#define KVG_REFERENCE_PAGING_PAGING_H
#endif
