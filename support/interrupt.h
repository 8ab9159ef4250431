/* Ctrl-C and SIGTERM, for commands that keep what they have when they are stopped. */
#ifndef KVG_SUPPORT_INTERRUPT_H
#define KVG_SUPPORT_INTERRUPT_H

#include <stdbool.h>

#include "core/status.h"

/* From here on the first one is only noted, and ends system calls that wait; a second one ends the program. */
void kvg_interrupt_catch(void);

/* One was noted. */
bool kvg_interrupted(void);

/* KVG_ERR_IO if so. */
kvg_status kvg_interrupt_check(void) KVG_CHECKED;

/* From here on they are ignored: the files are being written. */
void kvg_interrupt_end(void);

#endif
