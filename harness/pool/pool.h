/* Room pool: managers of block ids under random and scripted traces (`kvgold pool`).
 *
 *   pool_trace, _config    Traces and configs as data.
 *   pool_model, pool_model_*
 *                          An independent model that predicts what every operation does.
 *   pool_check_*           The invariants, looked up in the managers after every operation.
 *   pool_stack             The managers under test, with gates where faults and defects sit.
 *   pool_defects, _*       Planted defects: pool_defects.def.
 *   pool_generate, _run, _shrink, _fault, _campaign, _bench
 *                          Draws traces, runs them, shrinks what fails, and times managers.
 *
 * The room includes support and reference/paging*.h alone: it knows no format and no bytes. docs/guide/pool.md is the
 * manual. */
#ifndef KVG_HARNESS_POOL_POOL_H
#define KVG_HARNESS_POOL_POOL_H
#endif
