/* What a case of op decode has beside a cache: rows of q, query lengths, sinks, and answers that nobody wrote yet. Part
 * of harness/trial/question/question.c. */
#ifndef KVG_HARNESS_TRIAL_QUESTION_QUERY_FILL_H
#define KVG_HARNESS_TRIAL_QUESTION_QUERY_FILL_H

#include "harness/trial/question/question.h"

/* data->queries, from lengths, query lengths and the live tokens. */
kvg_status kvg_query_fill_place(kvg_question *data) KVG_CHECKED;

/* Values that are not finite become 1 and -1: the case's live rows are those that a query sees. */
void kvg_query_fill_finite(kvg_question *data);

/* KVG_FILL_CODES: bytes without a pattern in the live slots, but none that stands for NaN or Inf, nor a scale that
 * hides all other rows. */
void kvg_query_fill_codes(kvg_question *data);

/* After everything else: the newest token of a sequence with several rows, which its last row alone sees, becomes NaN
 * in every format. For contracts under which no other row may notice. */
void kvg_query_fill_own_keys(kvg_question *data);

/* q. Scores of most rows spread by 1 to 10 over the keys; some rows are zero or have |q| up to 100. */
void kvg_query_fill(kvg_question *data);
void kvg_query_fill_sinks(kvg_question *data);

/* Every other number of each tensor becomes a NaN. */
void kvg_query_fill_poison(kvg_tensor_set *outputs);

#endif
