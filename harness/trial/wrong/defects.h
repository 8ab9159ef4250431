/* Room wrong: answers that are known to be wrong, each in one way. They prove that a check can fail.
 *
 *   defects, defects.def   The table of defects, one row each, with the place where each was seen.
 *   defects_<kind>         What the rows of one kind do: to rows, pages, rope, lanes, ops decode, merge, mma.
 *   defects_encode         An encoder of the canonical dialects with one fault.
 *   wrong_rounding         Rounding with ties by any rule.
 *   defect_maps, _cache    Wrong places of a layout, and the rows that a wrong map would read.
 *   near_texts             Texts that are one mistake away from a layout's.
 *   defect_run             Runs the reference under one defect, or under several at once; the backend of defects.
 *   flash, flash_rows      A plain attention kernel in f32, right or with one of the defects of flash_defects.def.
 *
 * A defect changes a problem, its inputs or its outputs. The room knows no case and judges nothing. */
/* Known-wrong variants of the reference: harness/trial/wrong/defects.def. */
#ifndef KVG_HARNESS_TRIAL_WRONG_DEFECTS_H
#define KVG_HARNESS_TRIAL_WRONG_DEFECTS_H

#include "harness/trial/wrong/flash.h"
#include "reference/reference.h"

/* What a mutation works on. */
typedef struct kvg_defect_site {
    const kvg_problem *problem;
    kvg_side side;
    kvg_tensor *tensor;      /* the tensor to change */
    kvg_tensor *other;       /* the same role on the other side; `tensor` itself for a shared role */
    const kvg_tensor *input; /* the op's first input of this side */
    const kvg_tensor *in;    /* all of its inputs, unchanged */
    kvg_tensor *changed;     /* and as the wrong run gets them; while outputs are changed, after it */
    kvg_tensor *scales[2];    /* by side, those of the same rows, where `tensor` is one of several; or NULL */
} kvg_defect_site;

typedef struct kvg_defect {
    const char *id;
    bool control;
    bool (*applies)(const kvg_problem *problem, kvg_side side);
    void (*change)(kvg_problem *problem, kvg_side side); /* of each side it applies to */
    kvg_role role;
    void (*mutate)(const kvg_defect_site *site);
    void (*remap)(const kvg_problem *problem, kvg_layout_map *map); /* paged ops; NULL: the layout's own map */
    kvg_flash_defect flash; /* op decode by the plain kernel of flash.h; KVG_FLASH_RIGHT: by the reference */
    const char *summary, *seen_in;
    const char *dialect; /* not NULL: that of the sides whose format has it and that are stored in another */
    kvg_layout layout;   /* not 0: rows lie as in this layout, on the pools of the problem's */
    const char *text;    /* of layout TEXT */
} kvg_defect;

const kvg_defect *kvg_defect_table(size_t *count);

/* One defect "dialect:<name>" for every name of a dialect, whatever the format, and one "layout:<name>" for every named
 * page. */
const kvg_defect *kvg_defect_named(size_t *count);

/* One defect "layout:<text>" for every text that is near the one of the problem's layout; none if that has no text. The
 * list is made once for each text, and is the room's. */
kvg_status kvg_defect_near(const kvg_problem *problem, const kvg_defect **out, size_t *count) KVG_CHECKED;

/* In the table, or with a name. */
kvg_status kvg_defect_find(const char *id, const kvg_defect **out) KVG_CHECKED;

/* True if the defect makes sense for that side; for K or for V. Only the sides it applies to are changed. */
bool kvg_defect_applies_to(const kvg_defect *defect, const kvg_problem *problem, kvg_side side);
bool kvg_defect_applies(const kvg_defect *defect, const kvg_problem *problem);

/* The mutation of rows that have none. */
void kvg_defect_keep(const kvg_defect_site *site);

/* Runs the reference under a defect: kvg_wrong_run (harness/trial/wrong/defect_run.h) of one on both sides. */
kvg_status kvg_defect_run(const kvg_defect *defect, const kvg_problem *problem, const kvg_tensor *in,
                          kvg_tensor *out) KVG_CHECKED;

/* The backend "defect:<id>". KVG_ERR_NOT_FOUND for an unknown id. */
kvg_status kvg_defect_backend(const char *name, const kvg_backend **out) KVG_CHECKED;

#endif
