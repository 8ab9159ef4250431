/* The known-wrong answers to a question: the one pass over the rows of harness/trial/wrong/defects.def. Each answer is
 * a control of the check, a distance of the separation, and may be what a candidate answered. Of op decode it is made
 * for more and more sequences and heads, and only until the check rejects it, some other answer is nearer, and it is
 * not what the candidate answered. Of another op of many tokens, if there is no answer to explain, it is made for
 * few tokens first, and for all only if the check does not reject it there. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_KNOWN_WRONG_H
#define KVG_HARNESS_TRIAL_JUDGE_KNOWN_WRONG_H

#include "harness/trial/judge/separation.h"
#include "harness/trial/judge/witnesses.h"

enum { KVG_MAX_DEFECTS = 256 };

/* What becomes of a known-wrong answer that is offered to the check. */
typedef enum kvg_control_outcome {
    KVG_CONTROL_ABSENT,    /* does not apply to this problem, or was not offered */
    KVG_CONTROL_UNREACHED, /* does not change the exact answer of this case */
    KVG_CONTROL_REJECTED,  /* changed it, and the check said FAIL: by bytes or by value */
    KVG_CONTROL_REJECTED_BY_BOUND, /* the round-trip bound alone rejects it too */
    KVG_CONTROL_WITHIN,    /* op decode without a profile: changed it by less than a right answer may be off */
    KVG_CONTROL_ACCEPTED   /* changed it, and the check passed it: the case is MISTRUSTED */
} kvg_control_outcome;

bool kvg_control_rejects(kvg_control_outcome outcome);

/* Of each row of the table, and of all together. */
typedef struct kvg_known_wrong {
    kvg_control_outcome outcome[KVG_MAX_DEFECTS];
    bool explains[KVG_MAX_DEFECTS];   /* it is the given answer */
    double part[KVG_MAX_DEFECTS];     /* no row is the given answer, and this has all that is wrong in it: how much of
                                       * what the row makes wrong that is, at most 1; else 0 */
    double distance[KVG_MAX_DEFECTS]; /* as kvg_separation_distance has it, or less, because some rows told enough; NAN
                                       * where it is not measured */
    kvg_separation separation;        /* ops that are judged by distance; else empty */
    const kvg_witness *unseen;        /* what the case asks for and its data do not show; or NULL */
    const kvg_defect *accepted;       /* the first control that the check passed; or NULL */
} kvg_known_wrong;

enum { KVG_DOUBT_TEXT = 512 };

/* Which rows are offered to the check. CONTROLS: also the witnesses of what the case asks for. */
typedef enum kvg_offer { KVG_OFFER_NONE, KVG_OFFER_CONTROLS, KVG_OFFER_ALL } kvg_offer;

/* `answer`: a wrong one that some row may explain, or NULL. `doubted`: NULL: every row is tried. Else the pass may end
 * where a row judged by distance leaves the case in doubt: *doubted becomes that row, and is tried first where it is
 * one. The status is that of a defect that could not be run. */
kvg_status kvg_known_wrong_try(const kvg_truth *truth, const kvg_tensor_set *answer, kvg_offer offer,
                               const kvg_defect **doubted, kvg_known_wrong *out) KVG_CHECKED;

/* The case can tell right from wrong: `doubt` says why not and what to do, or is empty; `known` has controls. */
bool kvg_known_wrong_tells(const kvg_known_wrong *known, char doubt[KVG_DOUBT_TEXT]);

#endif
