/* Slots, block tables, lengths and positions gone wrong: mutations of the rows of harness/trial/wrong/defects.def. */
#ifndef KVG_HARNESS_TRIAL_WRONG_DEFECTS_PAGES_H
#define KVG_HARNESS_TRIAL_WRONG_DEFECTS_PAGES_H

#include "harness/trial/wrong/defects.h"

/* Of slots: every one a block on or back; the first negative one made the last or the first that nobody uses. */
void kvg_pages_next(const kvg_defect_site *site);
void kvg_pages_before(const kvg_defect_site *site);
void kvg_pages_last_unused(const kvg_defect_site *site);
void kvg_pages_first_unused(const kvg_defect_site *site);

/* Of block tables. */
void kvg_pages_next_entry(const kvg_defect_site *site);
void kvg_pages_entry_before(const kvg_defect_site *site);
void kvg_pages_repeat(const kvg_defect_site *site);
void kvg_pages_stale_tail(const kvg_defect_site *site);
void kvg_pages_first_table(const kvg_defect_site *site);
void kvg_pages_by_prefix(const kvg_defect_site *site);
void kvg_pages_share_parting(const kvg_defect_site *site);

/* Of lengths and positions. */
void kvg_pages_round_up(const kvg_defect_site *site);
void kvg_pages_first_empty(const kvg_defect_site *site);
void kvg_pages_last_for_longest(const kvg_defect_site *site);
void kvg_pages_token_less(const kvg_defect_site *site);
void kvg_pages_position_late(const kvg_defect_site *site);

#endif
