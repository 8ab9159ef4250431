#include "tests/reference/layout/layout_sweep.h"

#include <inttypes.h>
#include <stdio.h>

static uint64_t rows_of(const kvg_problem *p)
{
    const kvg_paging *g = &p->paging;
    return (uint64_t)g->layers * g->blocks * g->block_tokens * p->kv_heads * (uint64_t)kvg_problem_sides(p);
}

static bool check_agrees(const kvg_problem *p)
{
    return (kvg_problem_check(p) == KVG_OK) == page_legal(p);
}

static void sweep_one(const layout_grid *grid, uint64_t index, uint64_t max_rows, prover *v, layout_sweep *sum)
{
    kvg_problem p;
    if (!layout_grid_at(grid, index, &p)) return;
    bool failed = !check_agrees(&p);
    if (!failed && !page_legal(&p)) {
        sum->refused++;
    } else if (!failed && rows_of(&p) > max_rows) {
        sum->left++;
    } else if (!failed) {
        const claim c = claim_of_reference(&p);
        const proof done = prove(v, &p, &c);
        sum->combinations++;
        sum->rows += done.rows;
        sum->bytes += done.bytes;
        sum->padding += done.padding;
        sum->single += done.single;
        failed = done.broken != 0;
    }
    if (!failed) return;
    sum->failures++;
    if (index < sum->first_failure) sum->first_failure = index;
}

static void add(layout_sweep *to, const layout_sweep *from)
{
    to->combinations += from->combinations;
    to->refused += from->refused;
    to->left += from->left;
    to->rows += from->rows;
    to->bytes += from->bytes;
    to->padding += from->padding;
    to->single += from->single;
    to->failures += from->failures;
    if (from->first_failure < to->first_failure) to->first_failure = from->first_failure;
}

layout_sweep layout_sweep_run(const layout_grid *grid, uint64_t start, uint64_t stride, uint64_t max_rows)
{
    const layout_sweep none = {.first_failure = UINT64_MAX};
    layout_sweep all = none;
    const uint64_t size = layout_grid_size(grid), count = start < size ? (size - start + stride - 1) / stride : 0;
#pragma omp parallel
    {
        layout_sweep mine = none;
        prover v = {0};
#pragma omp for schedule(dynamic, 64)
        for (uint64_t i = 0; i < count; i++) sweep_one(grid, start + i * stride, max_rows, &v, &mine);
        prover_close(&v);
#pragma omp critical
        add(&all, &mine);
    }
    return all;
}

void layout_sweep_explain(const layout_grid *grid, uint64_t index)
{
    kvg_problem p;
    if (!layout_grid_at(grid, index, &p)) return;
    fprintf(stderr, "  combination %" PRIu64 ", %s:", index, layout_grid_name(&p).text);
    if (!check_agrees(&p)) {
        fprintf(stderr, " docs/spec/layouts.md says %s, kvg_problem_check does not\n",
                page_legal(&p) ? "legal" : "refused");
        return;
    }
    const claim c = claim_of_reference(&p);
    prover v = {0};
    const proof done = prove(&v, &p, &c);
    prover_close(&v);
    for (int i = 0; i < PROPERTY_COUNT; i++) {
        if (done.broken >> i & 1) fprintf(stderr, " %s", property_name((property)i));
    }
    fprintf(stderr, " broken\n");
}

void layout_sweep_print(const layout_sweep *s)
{
    printf("%" PRIu64 " combinations proven, %" PRIu64 " rows, %" PRIu64 " bytes of rows (%" PRIu64
           " asked one by one), %" PRIu64 " bytes of padding; %" PRIu64
           " combinations refused as they must be, %" PRIu64 " left to the full sweep, %" PRIu64 " failures\n",
           s->combinations, s->rows, s->bytes, s->single, s->padding, s->refused, s->left, s->failures);
}
