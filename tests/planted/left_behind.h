/* A process that lives on when its plug-in's has ended. */
#ifndef KVG_TESTS_PLANTED_LEFT_BEHIND_H
#define KVG_TESTS_PLANTED_LEFT_BEHIND_H

#include <stdbool.h>

/* In a plug-in: starts it, and returns when it holds a lock of its log. A daemon has left session and parent. */
void leave_behind(bool daemon);

#endif
