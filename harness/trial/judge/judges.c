#include <assert.h>

#include "harness/trial/judge/judge.h"
#include "harness/trial/judge/judge_decode.h"
#include "harness/trial/judge/judge_parts.h"

#define JUDGE(id, ...) static const judge row_##id = {__VA_ARGS__};
#include "harness/trial/judge/judges.def"

static const struct {
    const judge *plain, *profiled;
} judges[KVG_OP_END] = {
#define JUDGED(OP, plain, profiled) [KVG_OP_##OP] = {&row_##plain, &row_##profiled},
#include "harness/trial/judge/judges.def"
};

/* An op without a row does not compile. */
enum {
#define JUDGED(OP, plain, profiled) JUDGED_##OP,
#include "harness/trial/judge/judges.def"
};
#define OP(ENUM, ...) _Static_assert(JUDGED_##ENUM >= 0, "harness/trial/judge/judges.def has a row for each op");
#include "core/ops.def"
#undef OP

const char *kvg_judge_right(const kvg_problem *problem)
{
    return judge_of(problem)->right;
}

const judge *judge_of(const kvg_problem *p)
{
    assert(p->op < KVG_OP_END);
    return p->profile == KVG_PROFILE_NONE ? judges[p->op].plain : judges[p->op].profiled;
}
