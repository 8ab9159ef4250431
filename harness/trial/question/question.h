/* Room question: the tensors of a case, and what their bytes mean. A candidate may be shown a question.
 *
 *   question               The inputs of a case, and the K and V rows that an answer stands for, whatever the op.
 *   fill, mma_fill, merge_fill
 *                          Values of K and V by the case's fill, and inputs of ops mma and merge.
 *   mma_inputs             The classes of numbers that op mma is asked with.
 *   paged_fill             Who owns which block: block tables, lengths, slots.
 *   query_fill             What op decode has beside a cache: q, query lengths, sinks.
 *   decode_probes          Fills of op decode whose answer follows without a reference.
 *   places, describe       To which coordinates a byte of an answer belongs; the same in words.
 *
 * The question of a case depends on its seed and its id alone. */
/* The tensors of a case, and the rows of K and V that an answer stands for, for any op and
 * layout. */
#ifndef KVG_HARNESS_TRIAL_QUESTION_QUESTION_H
#define KVG_HARNESS_TRIAL_QUESTION_QUESTION_H

#include "harness/case/case.h"
#include "support/tensor_set.h"

/* A row of q. It sees `keys` neighbouring live tokens of the case, from live token `first` on. */
typedef struct kvg_query_row {
    uint32_t sequence, number; /* the row is number `number` of that sequence */
    int64_t position;          /* below 0: the row sees nothing */
    size_t first;
    uint32_t keys;
} kvg_query_row;

typedef struct kvg_question {
    const kvg_case *c;
    uint64_t seed; /* seed of the case's data */
    const kvg_op_info *op;
    kvg_tensor_set in;
    kvg_tensor_set before; /* the bytes that the outputs of an op hold before it updates them in place; else empty */
    kvg_problem rows;      /* the rows of the case (its live tokens) as op quantise of layout rows; mma: 0 */
    kvg_tensor_set values; /* these rows (role VALUES): to store, after bias and RoPE, or to get back */
    float tensor_scale[2];
    int64_t *slots;        /* paged ops: the slot of each live token */
    int64_t *owned;        /* the same, to write each slot once: -1 where an earlier live token has the slot */
    size_t *first;         /* the first live token that has the same row, by a shared prefix; else the token itself */
    size_t *source;        /* paged ops, for each live token: append, probe: the token; flatten: sequence * tokens +
                            * position */
    kvg_query_row *queries; /* op decode: rows of q */
} kvg_question;

/* Allocates and fills. Call kvg_question_free at the end, also on failure. */
kvg_status kvg_question_make(const kvg_case *c, kvg_question *out) KVG_CHECKED;

/* A question of tensors that are given: the inputs of the case's op, and the bytes that its outputs hold before. The
 * question owns both sets from here on; it knows nothing of the rows in them. */
kvg_question kvg_question_of(const kvg_case *c, const kvg_tensor_set *in, const kvg_tensor_set *before);
void kvg_question_free(kvg_question *data);

/* Op decode: the same question with other rows of q, which follow from `number`. It shares
 * everything else with `question`, which must outlive it. Call kvg_question_with_other_q_free at
 * the end, also on failure. */
kvg_status kvg_question_with_other_q(const kvg_question *question, uint64_t number, kvg_question *out) KVG_CHECKED;
void kvg_question_with_other_q_free(kvg_question *other);

/* Whether the op reads pools, which hold more rows than it is asked for. */
bool kvg_question_reads_pools(const kvg_question *data);

/* Fills the outputs of an op that updates in place with the same bytes in every set. Outputs of
 * other ops stay as they are. */
void kvg_question_prefill(const kvg_question *data, kvg_tensor_set *outputs);

/* Rows of codes and scales. They are from an answer (`tensors` in the order of the op's outputs) if
 * the op writes codes, else from the inputs. *rows is allocated here (roles CODES, SCALES). */
kvg_status kvg_question_codes(const kvg_question *data, const kvg_tensor *tensors, kvg_tensor_set *rows) KVG_CHECKED;

/* The round-trip bound (docs/spec/numerics.md section 2) of one of the case's rows x. +Inf: nothing
 * is promised. 0: no error is allowed. */
void kvg_question_bound(const kvg_question *data, kvg_side side, const float *x, double *bound);

/* The rows that an answer stands for: codes decoded by the reference, values as they are. *rows is
 * allocated here (role VALUES). */
kvg_status kvg_question_values(const kvg_question *data, const kvg_tensor *answer, kvg_tensor_set *rows) KVG_CHECKED;

/* The case's problem for another op over other tokens, without the fields that only its own op
 * has. */
kvg_problem kvg_question_other_op(const kvg_problem *p, kvg_op op, uint32_t tokens);

/* The op that writes `tokens` tokens into the cache that p reads: append. */
kvg_problem kvg_question_writer(const kvg_problem *p, uint32_t tokens);

#endif
