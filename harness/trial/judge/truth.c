#include "harness/trial/judge/truth.h"

#include <stdlib.h>

#include "harness/trial/judge/judge_parts.h"
#include "support/guard.h"

kvg_status kvg_answer_alloc(const kvg_question *question, kvg_tensor_set *out)
{
    kvg_status s = kvg_set_alloc(&question->c->problem, question->op->outputs, out);
    if (!s) kvg_question_prefill(question, out);
    return s;
}

static kvg_status know(const kvg_question *question, bool codec, kvg_truth *out)
{
    const kvg_problem *p = &question->c->problem;
    *out = (kvg_truth){.question = question};
    kvg_status s = kvg_answer_alloc(question, &out->expected);
    if (!s) s = kvg_reference_run(p, question->in.tensors, out->expected.tensors);
    if (!s && judge_of(p)->know) s = judge_of(p)->know(out, codec);
    for (size_t i = 0; !s && i < out->expected.count; i++) {
        if (i < kvg_case_asked(question->c)) out->bytes += out->expected.tensors[i].bytes;
        s = kvg_guard_protect(&out->expected.guards[i], 0);
    }
    return s;
}

kvg_status kvg_know(const kvg_question *question, kvg_truth *out)
{
    return know(question, true, out);
}

kvg_status kvg_know_again(const kvg_question *question, kvg_truth *out)
{
    return know(question, false, out);
}

void kvg_truth_free(kvg_truth *t)
{
    kvg_set_free(&t->expected);
    free(t->exact.out);
    free(t->probe.out);
    *t = (kvg_truth){0};
}
