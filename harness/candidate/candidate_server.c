/* The candidate's side of a call: the only code of the harness that runs where a plug-in can reach it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fenv.h>
#include <float.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/candidate/candidate_call.h"
#include "support/clock.h"

/* Whether this thread rounds to nearest and keeps subnormals, as every line of the reference relies on. */
static bool float_mode_is_default(void)
{
    volatile float smallest = FLT_MIN;
    return fegetround() == FE_TONEAREST && smallest / 2 != 0;
}

/* Restores the mode here and on the OpenMP threads, which a candidate may share. False if it had been changed. This
 * thread goes first: a runtime may hand its mode to the others. */
static bool restore_float_mode(void)
{
    bool was_default = float_mode_is_default();
    fesetenv(FE_DFL_ENV);
#pragma omp parallel reduction(&& : was_default)
    {
        was_default = was_default && float_mode_is_default();
        fesetenv(FE_DFL_ENV);
    }
    return was_default;
}

/* --- tensors in the candidate's own kind of memory --- */

/* The pieces of the arena in memory of the device: allocated, and uploaded with the guards around them. */
static kvg_status to_device(const kvg_server *s, void *pieces[KVG_ARENA_TENSORS])
{
    const kvg_device_memory *m = s->backend->memory;
    kvg_status status = KVG_OK;
    for (size_t i = 0; i < s->plan.count && !status; i++) {
        if (!s->view.pieces[i]) continue;
        status = m->alloc(s->plan.places[i].size, &pieces[i]);
        if (!status) status = m->upload(pieces[i], s->view.pieces[i], s->plan.places[i].size, NULL);
    }
    return status || !m->synchronise ? status : m->synchronise(NULL);
}

static kvg_status from_device(const kvg_server *s, void *const pieces[KVG_ARENA_TENSORS])
{
    const kvg_device_memory *m = s->backend->memory;
    kvg_status status = KVG_OK;
    for (size_t i = 0; i < s->plan.count && !status; i++) {
        if (pieces[i]) status = m->download(s->view.pieces[i], pieces[i], s->plan.places[i].size, NULL);
    }
    return status || !m->synchronise ? status : m->synchronise(NULL);
}

static kvg_status run_on_device(const kvg_server *s, const kvg_impl *impl, kvg_call *call, size_t inputs,
                                double *milliseconds)
{
    const kvg_device_memory *m = s->backend->memory;
    void *pieces[KVG_ARENA_TENSORS] = {0};
    kvg_status status = to_device(s, pieces);
    for (size_t i = 0; i < s->plan.count; i++) {
        if (pieces[i]) call->tensors[i].data = (uint8_t *)pieces[i] + s->plan.places[i].data;
    }
    if (!status) {
        const double start = kvg_clock_seconds();
        status = impl->run(&call->problem, call->tensors, call->tensors + inputs, NULL);
        if (!status && m->synchronise) status = m->synchronise(NULL);
        *milliseconds = 1e3 * (kvg_clock_seconds() - start);
    }
    if (!status) status = from_device(s, pieces);
    for (size_t i = 0; i < s->plan.count; i++) {
        if (pieces[i]) m->release(pieces[i]);
    }
    return status;
}

static kvg_status run_on_host(const kvg_server *s, const kvg_impl *impl, kvg_call *call, size_t inputs,
                              double *milliseconds)
{
    for (size_t i = 0; i < s->plan.count; i++) {
        if (s->view.pieces[i]) call->tensors[i].data = s->view.pieces[i] + s->plan.places[i].data;
    }
    const double start = kvg_clock_seconds();
    const kvg_status status = impl->run(&call->problem, call->tensors, call->tensors + inputs, NULL);
    *milliseconds = 1e3 * (kvg_clock_seconds() - start);
    return status;
}

/* --- calls --- */

static void copy_text(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text);
}

static void own_text(kvg_reply *r)
{
    copy_text(r->text, sizeof r->text, kvg_error_text());
}

static void backend_text(const kvg_backend *b, kvg_reply *r)
{
    const char *text = b->error_text ? b->error_text() : NULL;
    copy_text(r->text, sizeof r->text, text ? text : "(the backend gives no text)");
}

/* A library whose answers may be those of kvgold's own code: it has the reference, or it is a plug-in behind the first
 * one, which is the implementation. A copy without a symbol is not seen. */
static void find_reference(char *out, size_t size)
{
    const void *first = NULL;
    const struct link_map *loaded = dlopen(NULL, RTLD_LAZY); /* this program, whose own copy is not exported */
    for (const struct link_map *m = loaded ? loaded->l_next : NULL; m && !out[0]; m = m->l_next) {
        void *library = m->l_name[0] ? dlopen(m->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        const char *slash = strrchr(m->l_name, '/');
        const void *plugin = library ? dlsym(library, KVG_BACKEND_SYMBOL) : NULL;
        const bool other = plugin && first && plugin != first;
        if (!first) first = plugin;
        if (other || (library && dlsym(library, "kvg_reference_run"))) {
            copy_text(out, size, slash ? slash + 1 : m->l_name);
        }
        if (library) dlclose(library);
    }
}

static int note_loads(struct dl_phdr_info *info, size_t size, void *loads)
{
    (void)size;
    *(unsigned long long *)loads = info->dlpi_adds;
    return 1;
}

/* Looks again only if a library was loaded since. */
static void tell_reference(kvg_server *s, kvg_reply *r)
{
    unsigned long long loads;
    dl_iterate_phdr(note_loads, &loads);
    if (loads != s->loads && !s->reference_in[0]) find_reference(s->reference_in, sizeof s->reference_in);
    s->loads = loads;
    memcpy(r->reference_in, s->reference_in, sizeof r->reference_in);
}

static void answer_open(kvg_server *s, const char *name, kvg_reply *r)
{
    r->status = s->opener(name, &s->backend);
    restore_float_mode(); /* its initialisation may have changed it */
    if (r->status) {
        s->backend = NULL;
        own_text(r);
        return;
    }
    copy_text(r->facts.name, sizeof r->facts.name, s->backend->name);
    r->facts.sm = s->backend->sm ? s->backend->sm() : 0;
    r->facts.device_memory = s->backend->memory != NULL;
    r->facts.has_ready = s->backend->ready != NULL;
    tell_reference(s, r);
}

static const kvg_impl *choose(const kvg_server *s, const kvg_problem *p, kvg_reply *r)
{
    const kvg_impl *impl = NULL;
    r->status = s->backend ? kvg_backend_choose(s->backend, p, &impl) : kvg_fail(KVG_ERR_INVALID, "no backend is open");
    if (r->status) own_text(r);
    else copy_text(r->impl, sizeof r->impl, impl->name);
    return r->status ? NULL : impl;
}

static void answer_run(kvg_server *s, kvg_call *call, int fd, kvg_reply *r)
{
    if (call->new_arena) {
        kvg_arena_view_close(&s->view);
        s->plan = call->plan;
        r->status = kvg_arena_view_open(&s->plan, fd, &s->view);
        if (r->status) {
            own_text(r);
            return;
        }
    }
    const kvg_impl *impl = choose(s, &call->problem, r);
    if (!impl) return;
    r->status = kvg_problem_lay_out(&call->problem);
    if (r->status) {
        own_text(r);
        return;
    }
    const size_t inputs = kvg_roles_tensors(kvg_op_get(call->problem.op)->inputs);
    restore_float_mode();
    r->status = s->backend->memory ? run_on_device(s, impl, call, inputs, &r->milliseconds)
                                   : run_on_host(s, impl, call, inputs, &r->milliseconds);
    r->mode_changed = !restore_float_mode();
    tell_reference(s, r);
    if (r->status) backend_text(s->backend, r);
}

void kvg_server_answer(kvg_server *s, kvg_call *call, int fd, kvg_reply *r)
{
    memset(r, 0, sizeof *r);
    r->number = call->number;
    for (int side = KVG_K; side <= KVG_V; side++) call->problem.storage[side].dialect = call->dialects[side];
    switch ((kvg_call_kind)call->kind) {
    case KVG_CALL_OPEN: answer_open(s, call->name, r); break;
    case KVG_CALL_READY:
        r->status = s->backend && s->backend->ready ? s->backend->ready() : KVG_OK;
        if (r->status) backend_text(s->backend, r);
        break;
    case KVG_CALL_HAS: choose(s, &call->problem, r); break;
    case KVG_CALL_RUN: answer_run(s, call, fd, r); break;
    case KVG_CALL_FORGET: kvg_arena_view_close(&s->view); break;
    }
}

/* --- the process --- */

/* False at the end of the conversation. */
static bool receive(int socket, kvg_call *call, int *fd)
{
    union { /* aligned as a control message must be */
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control;
    struct iovec part = {call, sizeof *call};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t n;
    while ((n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {}
    *fd = -1;
    if (n != (ssize_t)sizeof *call) return false;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS) memcpy(fd, CMSG_DATA(header), sizeof *fd);
    return true;
}

void kvg_server_main(int socket, kvg_backend_opener *opener)
{
    static kvg_server server;
    static kvg_call call;
    static kvg_reply reply;
    const pid_t pid = getpid();
    int fd;
    server.opener = opener;
    while (receive(socket, &call, &fd)) {
        kvg_server_answer(&server, &call, fd, &reply);
        if (getpid() != pid) _exit(0); /* a copy that the candidate forked: nobody asked it */
        fflush(NULL); /* what the candidate printed is safe even if the next case kills this process */
        if (fd >= 0) close(fd);
        ssize_t n;
        while ((n = send(socket, &reply, sizeof reply, MSG_NOSIGNAL)) < 0 && errno == EINTR) {}
        if (n != (ssize_t)sizeof reply) _exit(3);
    }
    fflush(NULL);
    _exit(0);
}
