/* Where a byte lies by the text of a layout (docs/spec/layouts.md section 8): a walk that counts bytes, nest by nest,
 * and reads each nest as often as it is asked for. */
#ifndef KVG_SECOND_SLOW_TEXT_H
#define KVG_SECOND_SLOW_TEXT_H

#include "second/slow_layout.h"

/* `scales`: the byte is one of its row's scales or parameters, and not of its codes. */
slow_place slow_text_place(const kvg_problem *problem, slow_byte byte, bool scales);

/* Bytes of the pool tensor. */
uint64_t slow_text_pool_bytes(const kvg_problem *problem, kvg_role pool, kvg_side side);

#endif
