/* Child processes that do not outlive their parent. */
#ifndef KVG_HARNESS_SUPPORT_CHILD_H
#define KVG_HARNESS_SUPPORT_CHILD_H

#include <sys/types.h>

/* fork(), after what was printed is written, so that the child has no copy of it. The child is killed when the parent
 * ends, however that happens: no orphans. -1 with errno: there is none. */
pid_t kvg_child_fork(void);

#endif
