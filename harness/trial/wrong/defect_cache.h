/* The rows of a paged cache under defects of ops on it: rows moved, so that the right map reads what a wrong map would
 * have read, and rows changed in place. */
#ifndef KVG_HARNESS_TRIAL_WRONG_DEFECT_CACHE_H
#define KVG_HARNESS_TRIAL_WRONG_DEFECT_CACHE_H

#include "reference/reference.h"

/* The roles of kvg_cache_rows: codes and scales. */
extern const kvg_role kvg_cache_row_roles[KVG_MAX_ROLES];

/* Ops whose rows lie in a cache alone: flatten, expand, decode; append, whose rows are those that it writes. */
bool kvg_cache_has_rows(kvg_op op);

/* `from`, `to`: the inputs of the problem's op and a copy of them. Every row of the layer that `wrong` finds in `from`
 * comes to stand where the layout has it in `to`. */
void kvg_cache_remap(const kvg_problem *problem, const kvg_layout_map *wrong, const kvg_tensor *from, kvg_tensor *to);

/* Whether op decode reads the same for a sequence and KV head from two inputs of one problem: its rows, and all that
 * belongs to no other sequence. */
bool kvg_cache_reads_alike(const kvg_problem *problem, const kvg_tensor *a, const kvg_tensor *b, uint32_t sequence,
                           uint32_t head);

/* Codes and scales of every slot of the layer in `tensors`, the inputs of the op; of append those of every token, 0
 * where it has no slot, in `tensors`, its outputs. [rows, Hkv, bytes], in the order of kvg_cache_row_roles; allocated
 * here, the caller frees each tensor's data. `in`: the op's inputs. */
kvg_status kvg_cache_rows(const kvg_problem *problem, const kvg_tensor *in, const kvg_tensor *tensors,
                          kvg_tensor rows[4]) KVG_CHECKED;

/* Writes them back into the pools of `tensors`. */
void kvg_cache_store(const kvg_problem *problem, const kvg_tensor *in, const kvg_tensor rows[4], kvg_tensor *tensors);

#endif
