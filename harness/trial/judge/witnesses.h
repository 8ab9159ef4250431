/* What a case asks for must be seen: harness/trial/judge/witnesses.def. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_WITNESSES_H
#define KVG_HARNESS_TRIAL_JUDGE_WITNESSES_H

#include "harness/trial/question/question.h"
#include "harness/trial/wrong/defects.h"

enum { KVG_WITNESSES_OF_ROW = 4 };

typedef struct kvg_witness {
    const char *axis;
    bool (*asked)(const kvg_question *question);
    const char *remedy;
    const char *defects[KVG_WITNESSES_OF_ROW]; /* ids; ended by NULL unless full */
} kvg_witness;

const kvg_witness *kvg_witness_table(size_t *count);

/* The question must show the row: its case asks for the axis, and one of the defects applies to it. */
bool kvg_witness_asked(const kvg_witness *row, const kvg_question *question);

/* The defect is one of the row. */
bool kvg_witness_is(const kvg_witness *row, const kvg_defect *defect);

#endif
