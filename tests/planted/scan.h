/* A search of this process's memory for the right answer of a case. */
#ifndef KVG_TESTS_PLANTED_SCAN_H
#define KVG_TESTS_PLANTED_SCAN_H

#include "core/problem.h"

/* Gives the right answer, and fails if a copy of it lay anywhere in the address space before: "found the answer at
 * ...". */
kvg_status scan_for_answer(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out);

#endif
