/* A pool that a manager is asked for, as a text: "1024:16" has 1,024 blocks of 16 tokens, "1024:16w128" a window of 128
 * tokens, "1024:16:32w128" two groups of layers, and "1024+64:16" 64 blocks of the host. */
#ifndef KVG_PAGING_POOL_POOL_GUEST_POOL_H
#define KVG_PAGING_POOL_POOL_GUEST_POOL_H

#include <stdbool.h>

#include "paging/paging_plugin.h"

enum { KVG_GUEST_GROUPS = 3 }; /* at most */

/* KVG_ERR_INVALID: the text is no pool; of 1 to 2^24 blocks, with those of the host, and 1 to 2^16 tokens in one.
 * pool->groups is `groups`. */
kvg_status kvg_guest_pool_read(const char *text, kvg_manager_pool *pool, kvg_manager_group groups[KVG_GUEST_GROUPS])
    KVG_CHECKED;

/* Whether a manager with these claims (KVG_MANAGER_*) takes the pool. */
bool kvg_guest_pool_is_claimed(const kvg_manager_pool *pool, uint32_t claims);

/* How many blocks there are, with those of the host. */
uint32_t kvg_guest_pool_all(const kvg_manager_pool *pool);

/* The fewest tokens that a block of any group holds. */
uint32_t kvg_guest_pool_smallest(const kvg_manager_pool *pool);

/* The blocks of a group that hold so many tokens. */
uint32_t kvg_guest_pool_blocks(const kvg_manager_group *group, uint32_t tokens);

/* How many leading blocks a window has passed, if `written` tokens are: the next token does not see them. */
uint32_t kvg_guest_pool_passed(const kvg_manager_group *group, uint32_t written);

#endif
