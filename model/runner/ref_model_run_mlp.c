/* The MLP of docs/spec/generate.md section 4: dense, or experts that a router chooses for each row. */
#include <math.h> /* fmaf: correctly rounded in every C library */

#include "model/model_math.h"
#include "model/runner/ref_model_run.h"

static void dense(const ref_model *m, const ref_layer *l, uint32_t rows)
{
    const kvg_model_config *c = m->setup.config;
    const ref_desk *d = &m->desk;
    const ref_rows x = {d->normed, c->hidden, NULL}, y = {d->added, c->hidden, NULL};
    const ref_rows gate = {d->gate, c->intermediate, NULL}, up = {d->up, c->intermediate, NULL};
    const ref_product wide[] = {{&l->gate, rows, x, gate}, {&l->up, rows, x, up}};
    const ref_product down = {&l->down, rows, gate, y};
    ref_products_run(wide, 2);
#pragma omp parallel for schedule(static) if (rows >= REF_ROWS_WORTH_THREADS)
    for (uint32_t r = 0; r < rows; r++) {
        float *g = d->gate + (size_t)r * c->intermediate;
        kvg_reference_swiglu(g, d->up + (size_t)r * c->intermediate, c->intermediate, c->swiglu_limit, g);
    }
    ref_products_run(&down, 1);
}

/* The rows of each expert: members[first[e]] to members[first[e + 1] - 1], and beside them row x top_k + j, the place
 * of the expert's answer. */
static void sort_rows(const ref_model *m, uint32_t rows, uint32_t *first)
{
    const ref_desk *d = &m->desk;
    const uint32_t k = m->setup.config->top_k;
    uint32_t at = 0;
    for (uint32_t e = 0; e < m->setup.config->experts; e++) {
        first[e] = at;
        for (uint32_t i = 0; i < rows * k; i++) {
            if (d->chosen[i] != e) continue;
            d->members[at] = i / k;
            d->places[at++] = i;
        }
    }
    first[m->setup.config->experts] = at;
}

/* SwiGLU of one answer of gate and up, whose elements alternate. */
static void join(const ref_model *m, uint32_t place)
{
    const kvg_model_config *c = m->setup.config;
    const ref_desk *d = &m->desk;
    const float *both = d->gate_up + (size_t)place * 2 * c->intermediate;
    float *gate = d->gate + (size_t)place * c->intermediate, *up = d->up + (size_t)place * c->intermediate;
    for (uint32_t i = 0; i < c->intermediate; i++) {
        gate[i] = both[2 * i];
        up[i] = both[2 * i + 1];
    }
    kvg_reference_swiglu(gate, up, c->intermediate, c->swiglu_limit, gate);
}

/* The answers of a row, in the order of the router. */
static void add_answers(const ref_model *m, uint32_t row)
{
    const kvg_model_config *c = m->setup.config;
    const ref_desk *d = &m->desk;
    float *y = d->added + (size_t)row * c->hidden;
    for (uint32_t i = 0; i < c->hidden; i++) y[i] = 0;
    for (uint32_t j = 0; j < c->top_k; j++) {
        const size_t place = (size_t)row * c->top_k + j;
        for (uint32_t i = 0; i < c->hidden; i++)
            y[i] = fmaf(d->shares[place], d->answers[place * c->hidden + i], y[i]);
    }
}

static void experts(const ref_model *m, const ref_layer *l, uint32_t rows)
{
    const kvg_model_config *c = m->setup.config;
    const ref_desk *d = &m->desk;
    const ref_rows x = {d->normed, c->hidden, NULL}, routes = {d->routes, c->experts, NULL};
    const ref_product router = {&l->router, rows, x, routes};
    ref_products_run(&router, 1);
    for (uint32_t r = 0; r < rows; r++) {
        kvg_reference_route(d->routes + (size_t)r * c->experts, c->experts, c->top_k,
                            d->chosen + (size_t)r * c->top_k, d->shares + (size_t)r * c->top_k);
    }
    sort_rows(m, rows, d->first);
    for (uint32_t e = 0; e < c->experts; e++) {
        const uint32_t *members = d->members + d->first[e], *places = d->places + d->first[e];
        const uint32_t count = d->first[e + 1] - d->first[e];
        d->wide[e] = (ref_product){&l->gate_up[e], count, {d->normed, c->hidden, members},
                                   {d->gate_up, 2 * (size_t)c->intermediate, places}};
        d->down[e] = (ref_product){&l->expert_down[e], count, {d->gate, c->intermediate, places},
                                   {d->answers, c->hidden, places}};
    }
    ref_products_run(d->wide, c->experts);
#pragma omp parallel for schedule(static) if (rows >= REF_ROWS_WORTH_THREADS)
    for (uint32_t i = 0; i < rows * c->top_k; i++) join(m, i);
    ref_products_run(d->down, c->experts);
#pragma omp parallel for schedule(static) if (rows >= REF_ROWS_WORTH_THREADS)
    for (uint32_t r = 0; r < rows; r++) add_answers(m, r);
}

void ref_mlp_run(const ref_model *m, const ref_layer *l, uint32_t rows)
{
    if (m->setup.config->experts) experts(m, l, rows);
    else dense(m, l, rows);
}
