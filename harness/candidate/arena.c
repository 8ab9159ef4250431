#define _GNU_SOURCE /* memfd_create, seals, SEEK_DATA */
#include "harness/candidate/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/guard.h"

enum {
    FENCE = 1 << 20, /* unmapped bytes on each side of a piece in a view: a multiple of every page size in use */
    DEAD_VIEWS = 8   /* of which the addresses stay reserved */
};

void kvg_arena_plan_make(const kvg_tensor *tensors, size_t count, size_t margin, kvg_arena_plan *plan)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), least = margin ? margin : KVG_GUARD_CANARY;
    memset(plan, 0, sizeof *plan); /* plans are compared as bytes */
    plan->margin = margin;
    plan->count = count;
    for (size_t i = 0; i < count; i++) {
        kvg_arena_place *p = &plan->places[i];
        p->bytes = tensors[i].bytes;
        if (p->bytes == 0) continue;
        p->hole = tensors[i].data == NULL;
        p->at = plan->bytes;
        p->size = (p->bytes + 2 * least + 63 + page - 1) / page * page;
        p->data = margin ? margin : (p->size - least - p->bytes) / 64 * 64;
        plan->bytes += p->size;
    }
}

static bool has_hole(const kvg_arena_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->places[i].hole) return true;
    }
    return false;
}

static kvg_status make_file(uint64_t bytes, kvg_arena *out)
{
    const int fd = memfd_create("kvgold tensors", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return kvg_fail(KVG_ERR_IO, "cannot make shared memory: %s", strerror(errno));
    void *file = MAP_FAILED;
    if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0) {
        file = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (file == MAP_FAILED) {
        const int error = errno;
        close(fd);
        return kvg_fail(KVG_ERR_MEMORY, "cannot map %llu bytes of shared memory: %s", (unsigned long long)bytes,
                        strerror(error));
    }
    *out = (kvg_arena){.fd = fd, .file = file, .room = bytes};
    return KVG_OK;
}

kvg_status kvg_arena_make(const kvg_arena_plan *plan, kvg_arena *arena)
{
    if (plan->bytes > arena->room || has_hole(plan) || has_hole(&arena->plan)) {
        kvg_arena_free(arena);
        const kvg_status s = plan->bytes ? make_file(plan->bytes, arena) : KVG_OK;
        if (s) return s;
    }
    arena->plan = *plan;
    for (size_t i = 0; i < plan->count; i++) {
        const kvg_arena_place *p = &plan->places[i];
        if (p->bytes == 0) continue;
        kvg_guard_fill(arena->file + p->at, 0, p->data);
        kvg_guard_fill(arena->file + p->at, p->data + p->bytes, p->size);
    }
    return KVG_OK;
}

void kvg_arena_free(kvg_arena *arena)
{
    if (arena->file) {
        munmap(arena->file, arena->room);
        close(arena->fd);
    }
    *arena = (kvg_arena){0};
}

void *kvg_arena_data(const kvg_arena *arena, size_t index)
{
    const kvg_arena_place *p = &arena->plan.places[index];
    return p->bytes ? arena->file + p->at + p->data : NULL;
}

kvg_status kvg_arena_check(const kvg_arena *arena, size_t index)
{
    const kvg_arena_place *p = &arena->plan.places[index];
    if (p->bytes == 0) return KVG_OK;
    return kvg_guard_find(arena->file + p->at, p->size, p->data, p->data + p->bytes);
}

uint64_t kvg_arena_first_nonzero(const kvg_arena *arena, size_t index)
{
    static const uint8_t zeros[4096];
    const kvg_arena_place *p = &arena->plan.places[index];
    const off_t begin = (off_t)(p->at + p->data), end = begin + (off_t)p->bytes;
    for (off_t at = begin; at < end;) {
        off_t touched = lseek(arena->fd, at, SEEK_DATA);
        if (touched < 0 || touched > end) touched = end;
        off_t hole = touched < end ? lseek(arena->fd, touched, SEEK_HOLE) : end;
        if (hole < 0 || hole > end) hole = end;
        for (at = touched; at < hole;) {
            const size_t n = hole - at < (off_t)sizeof zeros ? (size_t)(hole - at) : sizeof zeros;
            if (memcmp(arena->file + at, zeros, n) != 0) {
                while (arena->file[at] == 0) at++;
                return (uint64_t)(at - begin);
            }
            at += (off_t)n;
        }
    }
    return p->bytes;
}

kvg_status kvg_arena_view_open(const kvg_arena_plan *plan, int fd, kvg_arena_view *out)
{
    *out = (kvg_arena_view){0};
    if (plan->bytes == 0) return KVG_OK;
    const size_t mapped = plan->bytes + (plan->count + 1) * FENCE;
    void *mapping = mmap(NULL, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return kvg_fail(KVG_ERR_MEMORY, "cannot reserve %zu bytes", mapped);
    out->mapping = mapping;
    out->mapped = mapped;
    uint8_t *at = out->mapping + FENCE;
    for (size_t i = 0; i < plan->count; i++) {
        const kvg_arena_place *p = &plan->places[i];
        if (p->bytes == 0) continue;
        if (mmap(at, p->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)p->at) == MAP_FAILED) {
            kvg_arena_view_close(out);
            return kvg_fail(KVG_ERR_MEMORY, "cannot map a tensor of %llu bytes: %s", (unsigned long long)p->bytes,
                            strerror(errno));
        }
        out->pieces[i] = at;
        at += p->size + FENCE;
    }
    return KVG_OK;
}

void kvg_arena_view_close(kvg_arena_view *view)
{
    static kvg_arena_view dead[DEAD_VIEWS];
    static size_t next;
    if (view->mapping && mmap(view->mapping, view->mapped, PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED) {
        if (dead[next].mapping) munmap(dead[next].mapping, dead[next].mapped);
        dead[next] = *view;
        next = (next + 1) % DEAD_VIEWS;
    }
    *view = (kvg_arena_view){0};
}
