#define _GNU_SOURCE /* unshare, close_range */
#include "support/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *kvg_confinement_name(kvg_confinement confinement)
{
    static const char *const names[] = {"none", "rights", "namespaces"};
    return names[confinement];
}

void kvg_confine_own_memory(void)
{
    prctl(PR_SET_DUMPABLE, 0);
}

static kvg_status put(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const ssize_t written = fd < 0 ? -1 : write(fd, text, strlen(text));
    const int error = errno;
    if (fd >= 0) close(fd);
    return written < 0 ? kvg_fail(KVG_ERR_IO, "cannot write %s: %s", path, strerror(error)) : KVG_OK;
}

/* Inside, the process has the user and the group that it has outside, and no others. */
static kvg_status map_ids(uid_t user, gid_t group)
{
    char map[64];
    prctl(PR_SET_DUMPABLE, 1); /* else these files are root's */
    kvg_status s = put("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "%u %u 1", (unsigned)group, (unsigned)group);
    if (!s) s = put("/proc/self/gid_map", map);
    snprintf(map, sizeof map, "%u %u 1", (unsigned)user, (unsigned)user);
    if (!s) s = put("/proc/self/uid_map", map);
    prctl(PR_SET_DUMPABLE, 0);
    return s;
}

kvg_status kvg_confine_enter(const char *hidden)
{
    const uid_t user = geteuid();
    const gid_t group = getegid();
    if (unshare(CLONE_NEWUSER) != 0) {
        return kvg_fail(KVG_ERR_IO, "the machine refuses a user namespace: %s", strerror(errno));
    }
    kvg_status s = map_ids(user, group);
    if (s) return s;
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) {
        return kvg_fail(KVG_ERR_IO, "the machine refuses a pid and a mount namespace: %s", strerror(errno));
    }
    /* Names in /dev/shm have pids in them, and pids begin again: libomp aborts where it finds what an earlier candidate
     * left under its own pid. A machine that refuses this mount is as it was. */
    (void)mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, NULL);
    if (hidden && mount("/dev/null", hidden, "", MS_BIND, NULL) != 0) {
        return kvg_fail(KVG_ERR_IO, "the machine does not let %s be hidden: %s", hidden, strerror(errno));
    }
    return KVG_OK;
}

kvg_status kvg_confine_see_own(void)
{
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0) return KVG_OK;
    return kvg_fail(KVG_ERR_IO, "the machine refuses a /proc of the new pid namespace: %s", strerror(errno));
}

void kvg_confine_drop(int channel)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    setsid();
    if (channel > STDERR_FILENO + 1) close_range(STDERR_FILENO + 1, (unsigned)channel - 1, 0);
    close_range((channel > STDERR_FILENO ? (unsigned)channel : STDERR_FILENO) + 1, ~0u, 0);
    syscall(SYS_capset, &header, none);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 1);
}
