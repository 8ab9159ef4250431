/* Wrong places for the rows of a paged layout: the maps of the MAP_DEFECT rows of harness/trial/wrong/defects.def. A
 * map that would lead outside the pools is left as it was. */
#ifndef KVG_HARNESS_TRIAL_WRONG_DEFECT_MAPS_H
#define KVG_HARNESS_TRIAL_WRONG_DEFECT_MAPS_H

#include "reference/reference.h"

void kvg_map_lose_param_base(const kvg_problem *p, kvg_layout_map *map);
void kvg_map_data_strides(const kvg_problem *p, kvg_layout_map *map);
void kvg_map_one_layer_stride(const kvg_problem *p, kvg_layout_map *map);
void kvg_map_swap_layers(const kvg_problem *p, kvg_layout_map *map);
void kvg_map_interleave(const kvg_problem *p, kvg_layout_map *map);
void kvg_map_swap_rows(const kvg_problem *p, kvg_layout_map *map);
void kvg_map_swap_planes(const kvg_problem *p, kvg_layout_map *map);
void kvg_map_swap_scale_planes(const kvg_problem *p, kvg_layout_map *map);

/* The map of a text in the problem's geometry; padding that the text has no word for is none. False: it is no text of
 * such a cache. */
bool kvg_map_of_text(const kvg_problem *p, const char *text, kvg_layout_map *map);

/* The map of a layout on the pools of the problem's; of layout TEXT, whose text is `text`. False: it has not the same
 * pools, or reaches beyond them, or lacks an option of the problem; then the map stays as it was. */
bool kvg_map_of_layout(const kvg_problem *p, kvg_layout layout, const char *text, kvg_layout_map *map);

#endif
