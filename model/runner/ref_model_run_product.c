/* Matrix products of docs/spec/generate.md section 4: each output is a chain of its own. */
#include "model/runner/ref_model_run.h"
#include "reference/numbers/ref_chains.h"

enum { LANES = REF_LINEAR_LANES, WORTH_THREADS = 1 << 19 /* multiply-adds */ };

static size_t tiles_of(const ref_linear *l)
{
    return (l->outputs + LANES - 1) / LANES;
}

static void run_tile(const ref_product *p, size_t tile)
{
    const ref_linear *l = p->linear;
    const uint32_t first = (uint32_t)tile * LANES, lanes = l->outputs - first < LANES ? l->outputs - first : LANES;
    const float *weights = l->tiles + tile * l->inputs * LANES;
    for (uint32_t r = 0; r < p->rows; r++) {
        float sums[LANES] = {0}, *y = ref_row_at(&p->y, r) + first;
        ref_chains(weights, LANES, ref_row_at(&p->x, r), l->inputs, LANES, sums);
        for (uint32_t i = 0; i < lanes; i++) y[i] = l->bias ? sums[i] + l->bias[first + i] : sums[i];
    }
}

void ref_products_run(const ref_product *products, size_t count)
{
    size_t tiles = 0, work = 0;
    for (size_t i = 0; i < count; i++) {
        tiles += tiles_of(products[i].linear);
        work += (size_t)products[i].rows * products[i].linear->inputs * products[i].linear->outputs;
    }
#pragma omp parallel for schedule(dynamic) if (work >= WORTH_THREADS)
    for (size_t t = 0; t < tiles; t++) {
        const ref_product *p = products;
        size_t tile = t;
        for (; tile >= tiles_of(p->linear); p++) tile -= tiles_of(p->linear);
        run_tile(p, tile);
    }
}
