/* A layout as text: the grammar and its meaning are docs/spec/layouts.md section 8.
 *
 *     [L B H N]{ K.codes V.codes }                      one pool: layer, block, head, token, then K's and V's codes
 *     [L B]{ [N H]{ K.codes +row } +data } ; ...        pools behind one another, with the padding of the problem
 */
#ifndef KVG_CORE_LAYOUT_TEXT_H
#define KVG_CORE_LAYOUT_TEXT_H

#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a text says of a problem: where its rows lie, and the bytes of its pools by kvg_side, data then scales. The text
 * is problem->text->text; formats, geometry and padding count. KVG_ERR_INVALID is one line with the column, and a caret
 * before the place. */
kvg_status kvg_layout_text_read(const kvg_problem *problem, kvg_layout_map *map, uint64_t pools[2][2]) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
