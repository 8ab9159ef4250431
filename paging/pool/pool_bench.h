/* What one operation costs in pools of different sizes. */
#ifndef KVG_PAGING_POOL_POOL_BENCH_H
#define KVG_PAGING_POOL_POOL_BENCH_H

#include <cjson/cJSON.h>

#include "paging/pool/pool_config.h"

/* Measures the reference's managers at every size of the config, prints a table and adds each line to `list`. Steps are
 * elementary steps of the data pool (kvg_block_manager_steps): *logarithmic says whether they grow at most as
 * log2(blocks), up to a factor of 2; time is the machine's. KVG_ERR_IO after a signal (support/interrupt.h). */
kvg_status kvg_pool_bench(const kvg_pool_config *config, cJSON *list, bool *logarithmic) KVG_CHECKED;

#endif
