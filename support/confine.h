/* What a process gives up before foreign code runs in it, so that this code can neither read nor change the process
 * that judges it. support/child.h starts processes that way. Linux, see capabilities(7) and namespaces(7). */
#ifndef KVG_SUPPORT_CONFINE_H
#define KVG_SUPPORT_CONFINE_H

#include "core/status.h"

/* The levels, each with all that the one before it has. */
typedef enum kvg_confinement {
    KVG_CONFINE_NOT,       /* "none": nothing is given up */
    KVG_CONFINE_RIGHTS,    /* "rights": capabilities, the right to get new ones (no_new_privs), all descriptors but its
                            * channel and the standard streams, the session of its parent */
    KVG_CONFINE_NAMESPACES /* "namespaces": sight of processes that are not its descendants, of a user namespace that
                            * has a right over them, and of one file. It keeps its user id and reads its files */
} kvg_confinement;

const char *kvg_confinement_name(kvg_confinement confinement);

/* From here on no process without privileges reads or writes the memory of this one or of those that it starts
 * (PR_SET_DUMPABLE): not by ptrace, /proc/PID/mem or process_vm_readv. */
void kvg_confine_own_memory(void);

/* Enters new user, pid and mount namespaces; the pid namespace begins with the next child of this process. /dev/shm is
 * empty there, because names in it have pids that other namespaces have, too. `hidden`
 * (NULL: none) is a file that is /dev/null there. The status says which step the machine refuses: some containers and
 * some distributions do. */
kvg_status kvg_confine_enter(const char *hidden) KVG_CHECKED;

/* In the new pid namespace, before its rights are given up: /proc shows that namespace. A driver of CUDA does not start
 * where /proc/PID is another process than the one of its own number. */
kvg_status kvg_confine_see_own(void) KVG_CHECKED;

/* Gives up what is listed under KVG_CONFINE_RIGHTS. Its own memory may be read again, by itself in /proc/self. */
void kvg_confine_drop(int channel);

#endif
