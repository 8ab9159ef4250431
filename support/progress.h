/* How far a command is, on standard error, for whoever waits.
 *
 * A terminal has one line, which takes the place of the last one, ends where the terminal ends, and is drawn anew every
 * second: "[####    ] 12 of 130 cases, 3 failed, 6/s, 9 s left; 7 of 90 known-wrong answers after 2 s in ID". Elsewhere
 * a line "kvgold check: 12 of 130 cases, ..." comes every 20 s, or every KVGOLD_PROGRESS_SECONDS of the environment.
 * A thread of its own writes them, so that no call is a silence, however long.
 *
 * A process has one progress at a time. Where none has begun, and in a process that was forked from one that has, the
 * functions do nothing: so code that does not know who calls it may say where it is. All threads may call `at` and
 * `part`. Strings are kept by address, except `current`. */
#ifndef KVG_SUPPORT_PROGRESS_H
#define KVG_SUPPORT_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

/* In place of a number of failures, where nothing is judged. */
#define KVG_PROGRESS_NOT_JUDGED SIZE_MAX

/* noun: "cases". Ends by kvg_progress_end. */
void kvg_progress_begin(const char *command, size_t total, const char *noun);

/* `done` of the total are done, `failed` of them not well; what is under way is `current` ("": nobody knows), since
 * `since` (kvg_clock_seconds). */
void kvg_progress_at(size_t done, size_t failed, const char *current, double since);

/* `done` of `of` parts of what is under way are done. noun: "known-wrong answers". */
void kvg_progress_part(size_t done, size_t of, const char *noun);

/* Takes the line away until the next `at`: the command prints something else. */
void kvg_progress_pause(void);

void kvg_progress_end(void);

#endif
