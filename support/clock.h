/* Time that passes, for whoever measures or waits. */
#ifndef KVG_SUPPORT_CLOCK_H
#define KVG_SUPPORT_CLOCK_H

/* Seconds of a clock that never jumps, from a start of its own. */
double kvg_clock_seconds(void);

#endif
