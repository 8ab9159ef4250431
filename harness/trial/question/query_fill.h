/* Inputs of op decode other than the cache: q, query lengths, sinks. Also fills the outputs with
 * NaN, so that an element which the candidate does not write is seen. Part of
 * harness/trial/question/question.c. */
#ifndef KVG_HARNESS_TRIAL_QUESTION_QUERY_FILL_H
#define KVG_HARNESS_TRIAL_QUESTION_QUERY_FILL_H

#include "harness/trial/question/question.h"

/* Makes data->queries from lengths, query lengths and the live tokens. */
kvg_status kvg_query_fill_place(kvg_question *data) KVG_CHECKED;

/* Replaces values that are not finite by 1 and -1. The case's live rows are those that a query
 * sees. */
void kvg_query_fill_finite(kvg_question *data);

/* KVG_FILL_CODES: fills the live slots with bytes without a pattern. None of them stands for NaN or
 * Inf, and no scale is so large that it hides all other rows. */
void kvg_query_fill_codes(kvg_question *data);

/* Call it after all other fills. If a sequence has several rows, only its last row sees its newest
 * token. This token becomes NaN in every format. For contracts under which no other row may
 * notice. */
void kvg_query_fill_own_keys(kvg_question *data);

/* Fills q. Scores of most rows spread by 1 to 10 over the keys. Some rows are zero or have |q| up
 * to 100. */
void kvg_query_fill(kvg_question *data);
void kvg_query_fill_sinks(kvg_question *data);

/* Makes every other number of each tensor a NaN. */
void kvg_query_fill_poison(kvg_tensor_set *outputs);

#endif
