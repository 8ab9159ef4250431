#define _DEFAULT_SOURCE
#include "harness/candidate/candidate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/candidate/candidate_call.h"
#include "support/child.h"
#include "support/clock.h"

enum { DEVICE_MARGIN = 1 << 16 }; /* canary bytes on each side of a tensor in memory of a device: no page is unmapped */

struct kvg_candidate {
    bool apart;      /* in a process of its own */
    kvg_child child; /* KVG_NO_CHILD: it is no more */
    int wait_status; /* how it ended */
    char confinement[256];
    uint32_t number; /* of the last call */
    kvg_server here; /* the other side, where it is in this process */
    size_t margin;
    kvg_arena arena;
    kvg_call call;
    kvg_reply reply;
    char reference_in[KVG_IMPL_NAME_SIZE];
    kvg_candidate_watch *watch; /* NULL: nobody is told */
    const void *watch_context;
    kvg_candidate_claims *claims; /* NULL: everything */
    const void *claims_context;
};

/* --- the process --- */

static int serve(void *context, int channel)
{
    kvg_backend_opener *const *opener = context;
    kvg_server_main(channel, *opener);
}

kvg_status kvg_candidate_start(kvg_confinement most, const char *hidden, kvg_backend_opener *opener,
                               kvg_candidate **out)
{
    kvg_child_job job = {.work = serve, .context = &opener, .channel = KVG_CHANNEL_SOCKET, .confinement = most,
                         .hidden = hidden};
    kvg_candidate *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return kvg_fail(KVG_ERR_MEMORY, "no memory for a candidate");
    c->apart = true;
    if (most != KVG_CONFINE_NOT) kvg_confine_own_memory();
    kvg_status s = kvg_child_start(&job, &c->child);
    snprintf(c->confinement, sizeof c->confinement, "%s", kvg_confinement_name(most));
    if (s && most == KVG_CONFINE_NAMESPACES) {
        job.confinement = KVG_CONFINE_RIGHTS;
        snprintf(c->confinement, sizeof c->confinement, "%s: %s", kvg_confinement_name(job.confinement),
                 kvg_error_text());
        s = kvg_child_start(&job, &c->child);
    }
    if (s) free(c);
    else *out = c;
    return s;
}

const char *kvg_candidate_confinement(const kvg_candidate *c)
{
    return c->confinement;
}

kvg_status kvg_candidate_here(const kvg_backend *backend, kvg_candidate **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out) return kvg_fail(KVG_ERR_MEMORY, "no memory for a candidate");
    (*out)->child = KVG_NO_CHILD;
    snprintf((*out)->confinement, sizeof (*out)->confinement, "%s", kvg_confinement_name(KVG_CONFINE_NOT));
    (*out)->here.backend = backend;
    (*out)->margin = backend->memory ? DEVICE_MARGIN : 0;
    return KVG_OK;
}

static void forget(kvg_candidate *c)
{
    kvg_arena_view_close(&c->here.view);
    kvg_arena_free(&c->arena);
}

int kvg_candidate_end(kvg_candidate *c)
{
    if (!c) return 0;
    const int wait_status = c->child.id ? kvg_child_wait(&c->child) : c->wait_status;
    forget(c);
    free(c);
    return wait_status;
}

static kvg_status describe_end(const kvg_candidate *c)
{
    char text[128];
    kvg_child_describe(c->wait_status, text, sizeof text);
    return kvg_fail(KVG_ERR_DEVICE, "%s", text);
}

/* It is gone, or about to be: waits for its end, which whoever watches this process limits. */
static kvg_status wait_for_end(kvg_candidate *c)
{
    if (c->watch) c->watch(c->watch_context, true); /* it may have closed the socket and live on */
    c->wait_status = kvg_child_wait(&c->child);
    return describe_end(c);
}

/* --- calls --- */

static bool send_call(const kvg_candidate *c)
{
    union { /* aligned as a control message must be */
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr header;
    } control = {{0}};
    struct iovec part = {(void *)&c->call, sizeof c->call};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (c->call.new_arena && c->arena.file) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &c->arena.fd, sizeof(int));
    }
    ssize_t n;
    while ((n = sendmsg(c->child.channel, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {}
    return n == (ssize_t)sizeof c->call;
}

/* Waits for the reply to the call. A process that the candidate forked may hold the socket open after its end, so that
 * the process itself is looked at, too. */
static kvg_status receive_reply(kvg_candidate *c)
{
    const kvg_child *child = &c->child;
    for (bool told = false;;) {
        bool ready;
        kvg_status s = kvg_child_poll(&child, 1, 100, &ready);
        if (s) return s;
        if (!ready) {
            if (kvg_child_over(&c->child, &c->wait_status)) return describe_end(c);
            if (c->watch && !told) c->watch(c->watch_context, true);
            told = true;
            continue;
        }
        const ssize_t n = recv(child->channel, &c->reply, sizeof c->reply, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return wait_for_end(c);
        if (n != (ssize_t)sizeof c->reply || c->reply.number != c->number) continue;
        if (c->watch && told) c->watch(c->watch_context, false);
        return KVG_OK;
    }
}

/* Puts the call and waits for its reply; KVG_ERR_DEVICE: there is nobody, or not any more. */
static kvg_status ask(kvg_candidate *c, kvg_call_kind kind)
{
    c->call.kind = kind;
    c->call.number = ++c->number;
    if (c->apart && !c->child.id) return describe_end(c);
    if (!c->apart) {
        kvg_server_answer(&c->here, &c->call, c->arena.fd, &c->reply);
        return KVG_OK;
    }
    if (!send_call(c)) return wait_for_end(c);
    kvg_status s = receive_reply(c);
    c->reply.impl[sizeof c->reply.impl - 1] = 0;
    c->reply.text[sizeof c->reply.text - 1] = 0;
    c->reply.facts.name[sizeof c->reply.facts.name - 1] = 0;
    c->reply.reference_in[sizeof c->reply.reference_in - 1] = 0;
    if (!s && c->reply.reference_in[0]) memcpy(c->reference_in, c->reply.reference_in, sizeof c->reference_in);
    return s;
}

/* What it replied, as a status of this side. */
static kvg_status replied(const kvg_candidate *c)
{
    return c->reply.status ? kvg_fail(c->reply.status, "%s", c->reply.text) : KVG_OK;
}

kvg_status kvg_candidate_open(kvg_candidate *c, const char *name, kvg_candidate_facts *facts)
{
    *facts = (kvg_candidate_facts){0};
    if (strlen(name) >= sizeof c->call.name) return kvg_fail(KVG_ERR_INVALID, "backend name too long: %.40s...", name);
    snprintf(c->call.name, sizeof c->call.name, "%s", name);
    kvg_status s = ask(c, KVG_CALL_OPEN);
    if (!s) s = replied(c);
    if (s) return s;
    *facts = c->reply.facts;
    c->margin = facts->device_memory ? DEVICE_MARGIN : 0;
    return KVG_OK;
}

const char *kvg_candidate_reference_in(const kvg_candidate *c)
{
    return c->reference_in;
}

kvg_status kvg_candidate_ready(kvg_candidate *c)
{
    kvg_status s = ask(c, KVG_CALL_READY);
    return s ? s : replied(c);
}

/* Dialects travel beside the problem. */
static kvg_status set_problem(kvg_candidate *c, const kvg_problem *problem)
{
    c->call.problem = *problem;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const char *dialect = problem->storage[side].dialect ? problem->storage[side].dialect : "";
        if (strlen(dialect) >= sizeof c->call.dialects[side]) {
            return kvg_fail(KVG_ERR_INVALID, "name of a dialect too long: %.40s...", dialect);
        }
        snprintf(c->call.dialects[side], sizeof c->call.dialects[side], "%s", dialect);
    }
    return KVG_OK;
}

void kvg_candidate_set_watch(kvg_candidate *c, kvg_candidate_watch *watch, const void *context)
{
    c->watch = watch;
    c->watch_context = context;
}

void kvg_candidate_limit(kvg_candidate *c, kvg_candidate_claims *claims, const void *context)
{
    c->claims = claims;
    c->claims_context = context;
}

bool kvg_candidate_has(kvg_candidate *c, const kvg_problem *problem)
{
    if (c->claims && !c->claims(c->claims_context, problem)) return false;
    return set_problem(c, problem) == KVG_OK && ask(c, KVG_CALL_HAS) == KVG_OK && c->reply.status == KVG_OK;
}

void kvg_candidate_next_case(kvg_candidate *c)
{
    if (!c->arena.file) return;
    const kvg_status s = ask(c, KVG_CALL_FORGET);
    (void)s; /* a candidate that is gone shows at its next call */
    forget(c);
}

/* --- tensors --- */

static kvg_status put_tensors(kvg_candidate *c, size_t count)
{
    kvg_arena_plan plan;
    kvg_arena_plan_make(c->call.tensors, count, c->margin, &plan);
    c->call.new_arena = memcmp(&plan, &c->arena.plan, sizeof plan) != 0;
    if (!c->call.new_arena) return KVG_OK;
    c->call.plan = plan;
    return kvg_arena_make(&plan, &c->arena);
}

static void note_fault(kvg_outcome *o, const char *what, const char *name, const char *fault)
{
    if (!o->fault[0]) snprintf(o->fault, sizeof o->fault, "%s %s%s", what, name, fault);
}

static const char *tensor_name(const kvg_role *roles, size_t index)
{
    kvg_role role;
    kvg_side side;
    kvg_roles_at(roles, index, &role, &side);
    return kvg_tensor_name(role, side);
}

/* Guards around all tensors, then inputs. */
static void find_faults(const kvg_candidate *c, const kvg_op_info *op, const kvg_tensor *in, size_t inputs,
                        kvg_outcome *o)
{
    char text[KVG_CANDIDATE_TEXT_SIZE / 2];
    if (c->reply.mode_changed) {
        note_fault(o, o->impl, "left the floating-point mode changed: rounding or subnormals", "");
    }
    for (size_t i = 0; i < c->arena.plan.count; i++) {
        if (kvg_arena_check(&c->arena, i) == KVG_OK) continue;
        snprintf(text, sizeof text, ": %s", kvg_error_text());
        if (i < inputs) note_fault(o, "input", tensor_name(op->inputs, i), text);
        else note_fault(o, "output", tensor_name(op->outputs, i - inputs), text);
    }
    for (size_t i = 0; i < inputs; i++) {
        if (!in[i].bytes || !in[i].data) continue; /* of a hole its owner knows what it held */
        if (memcmp(kvg_arena_data(&c->arena, i), in[i].data, in[i].bytes) == 0) continue;
        note_fault(o, "input", tensor_name(op->inputs, i), " was written");
    }
}

kvg_status kvg_candidate_put(kvg_candidate *c, const kvg_problem *problem, const kvg_tensor *in, const kvg_tensor *out,
                             kvg_tensor *shared)
{
    const kvg_op_info *op = kvg_op_get(problem->op);
    const size_t inputs = kvg_roles_tensors(op->inputs), count = inputs + kvg_roles_tensors(op->outputs);
    for (size_t i = 0; i < count; i++) c->call.tensors[i] = i < inputs ? in[i] : out[i - inputs];
    kvg_status s = set_problem(c, problem);
    if (!s) s = put_tensors(c, count);
    for (size_t i = 0; i < count && !s; i++) {
        const void *from = c->call.tensors[i].data;
        c->call.tensors[i].data = NULL;
        shared[i] = c->call.tensors[i];
        shared[i].data = kvg_arena_data(&c->arena, i);
        if (from && shared[i].bytes) memcpy(shared[i].data, from, shared[i].bytes);
    }
    return s;
}

kvg_status kvg_candidate_run_put(kvg_candidate *c, const kvg_tensor *in, kvg_tensor *out, kvg_outcome *o)
{
    const kvg_op_info *op = kvg_op_get(c->call.problem.op);
    const size_t inputs = kvg_roles_tensors(op->inputs), outputs = kvg_roles_tensors(op->outputs);
    memset(o, 0, sizeof *o);
    memset(&c->reply, 0, sizeof c->reply);
    const double start = kvg_clock_seconds();
    const kvg_status s = ask(c, KVG_CALL_RUN);
    o->waited = 1e3 * (kvg_clock_seconds() - start);
    if (s && s != KVG_ERR_DEVICE) return s;
    o->status = s ? s : c->reply.status;
    o->milliseconds = c->reply.milliseconds;
    snprintf(o->impl, sizeof o->impl, "%s", c->reply.impl);
    snprintf(o->text, sizeof o->text, "%s", s ? kvg_error_text() : c->reply.text);
    if (s) return KVG_OK;
    for (size_t i = 0; i < outputs; i++) {
        if (out[i].bytes && out[i].data) memcpy(out[i].data, kvg_arena_data(&c->arena, inputs + i), out[i].bytes);
    }
    find_faults(c, op, in, inputs, o);
    return KVG_OK;
}

kvg_status kvg_candidate_run(kvg_candidate *c, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out,
                             kvg_outcome *o)
{
    kvg_tensor shared[KVG_ARENA_TENSORS];
    *o = (kvg_outcome){0};
    const kvg_status s = kvg_candidate_put(c, problem, in, out, shared);
    return s ? s : kvg_candidate_run_put(c, in, out, o);
}

uint64_t kvg_candidate_first_nonzero(const kvg_candidate *c, size_t index)
{
    return kvg_arena_first_nonzero(&c->arena, index);
}

kvg_status kvg_outcome_status(const kvg_outcome *o)
{
    if (o->status) return kvg_fail(o->status, "%s%s%s", o->impl, o->impl[0] ? ": " : "", o->text);
    return o->fault[0] ? kvg_fail(KVG_ERR_INVALID, "%s: %s", o->impl, o->fault) : KVG_OK;
}

kvg_status kvg_candidate_answer(kvg_candidate *c, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    kvg_outcome o;
    const kvg_status s = kvg_candidate_run(c, problem, in, out, &o);
    return s ? s : kvg_outcome_status(&o);
}
