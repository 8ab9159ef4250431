#define _GNU_SOURCE /* MAP_ANONYMOUS beside POSIX */
#include "harness/matrix/matrix_run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/matrix/matrix_files.h"
#include "harness/run/backends.h"
#include "support/child.h"
#include "support/clock.h"
#include "support/progress.h"

/* What a writer left, in shared memory. */
typedef struct written {
    kvg_status status;
    bool finished;
    float g[2], number[2];
    char note[200];
    size_t pool[KVG_MATRIX_POOLS]; /* offsets into the mapping */
} written;

typedef struct running_matrix {
    const kvg_matrix *m;
    const kvg_matrix_world *world;
    written *written;
    unsigned seconds; /* for a backend's job */
} running_matrix;

/* --- parties --- */

static kvg_status add_party(const char *prefix, const kvg_matrix_party *party, kvg_matrix_party *parties,
                            size_t *count)
{
    if (*count == KVG_MATRIX_PARTIES) {
        return kvg_fail(KVG_ERR_INVALID, "more than %d parties: give each backend one engine, as NAME@ENGINE",
                        KVG_MATRIX_PARTIES);
    }
    kvg_matrix_party *added = &parties[(*count)++];
    *added = *party;
    snprintf(added->name, sizeof added->name, "%.48s%s%s", prefix, prefix[0] ? "@" : "", party->engine->name);
    return KVG_OK;
}

kvg_status kvg_matrix_add(kvg_format format, const kvg_engine *own, const char *backend, const char *only,
                          kvg_matrix_party *parties, size_t *count)
{
    size_t engine_count;
    const kvg_engine *engines = kvg_engine_table(&engine_count), *one = NULL;
    const char *slash = backend ? strrchr(backend, '/') : NULL;
    if (only && own && strcmp(only, own->name) == 0) one = own;
    kvg_status s = only && !one ? kvg_engine_find(format, only, &one) : KVG_OK;
    for (size_t i = 0; i < engine_count + (own != NULL) && !s; i++) {
        const kvg_engine *engine = i < engine_count ? &engines[i] : own;
        const kvg_matrix_party party = {.engine = engine, .backend = backend};
        if (engine->format != format || (one && one != engine)) continue;
        s = add_party(slash ? slash + 1 : backend ? backend : "", &party, parties, count);
    }
    return s;
}

kvg_status kvg_matrix_add_answer(const kvg_engine *engine, const char *path, kvg_matrix_party *parties, size_t *count)
{
    const kvg_matrix_party party = {.engine = engine, .answer = path};
    return add_party("file", &party, parties, count);
}

/* --- children --- */

typedef void job(const running_matrix *r, size_t party);

typedef struct task {
    const running_matrix *r;
    job *work;
    size_t party;
} task;

static int do_task(void *context, int channel)
{
    const task *t = context;
    (void)channel;
    dup2(STDERR_FILENO, STDOUT_FILENO); /* what an implementation prints is no part of the table */
    t->work(t->r, t->party);
    fflush(NULL);
    return 0;
}

/* Runs a job in a child; *note says how the child ended, for whoever finds its work undone. */
static kvg_status run_child(const running_matrix *r, job *work, size_t party, char *note, size_t size)
{
    task t = {r, work, party};
    const kvg_child_job life = {.work = do_task, .context = &t,
                                .seconds = r->m->parties[party].backend ? r->seconds : 0};
    kvg_child child;
    kvg_status s = kvg_child_start(&life, &child);
    if (s) return s;
    const int status = kvg_child_wait(&child);
    if (kvg_child_timed_out(status)) {
        snprintf(note, size, "did not end within %u s", r->seconds);
    } else if (WIFSIGNALED(status)) {
        snprintf(note, size, "crashed: %s", strsignal(WTERMSIG(status)));
    } else {
        snprintf(note, size, "ended the process with exit code %d", WEXITSTATUS(status));
    }
    return KVG_OK;
}

static void pages_of(const running_matrix *r, size_t party, kvg_matrix_pages *pages)
{
    const written *w = &r->written[party];
    *pages = (kvg_matrix_pages){.g = {w->g[0], w->g[1]}, .number = {w->number[0], w->number[1]}};
    for (size_t i = 0; i < KVG_MATRIX_POOLS; i++) pages->pools[i].data = (uint8_t *)r->m->shared + w->pool[i];
}

/* A backend in a process of its own; NULL for parties that have none. */
static kvg_status open_candidate(const kvg_matrix_party *party, kvg_candidate **out)
{
    kvg_candidate_facts facts;
    *out = NULL;
    if (!party->backend) return KVG_OK;
    kvg_status s = kvg_candidate_start(KVG_CONFINE_NAMESPACES, NULL, kvg_check_backend, out);
    return s ? s : kvg_candidate_open(*out, party->backend, &facts);
}

static void write_job(const running_matrix *r, size_t party)
{
    written *w = &r->written[party];
    kvg_matrix_pages pages;
    kvg_candidate *candidate;
    pages_of(r, party, &pages);
    w->status = open_candidate(&r->m->parties[party], &candidate);
    if (!w->status) w->status = kvg_matrix_write(r->world, &r->m->parties[party], candidate, &pages);
    if (w->status) snprintf(w->note, sizeof w->note, "%.190s", kvg_error_text());
    kvg_candidate_end(candidate);
    memcpy(w->g, pages.g, sizeof w->g);
    memcpy(w->number, pages.number, sizeof w->number);
    w->finished = true;
}

/* A reader's column. Cells of writers that failed are done; one that stays as it was has not been reached. */
static void read_job(const running_matrix *r, size_t party)
{
    const kvg_matrix *m = r->m;
    kvg_candidate *candidate;
    const kvg_status opened = open_candidate(&m->parties[party], &candidate);
    for (size_t i = 0; i < m->count; i++) {
        kvg_matrix_cell *cell = &m->cells[i * m->count + party], result = {.verdict = KVG_MATRIX_FAILED};
        kvg_matrix_pages pages;
        if (r->written[i].status) continue;
        pages_of(r, i, &pages);
        if (opened) snprintf(result.note, sizeof result.note, "%.190s", kvg_error_text());
        else kvg_matrix_read(r->world, &m->parties[i], &pages, &m->parties[party], candidate, &result);
        *cell = result;
    }
    kvg_candidate_end(candidate);
}

static kvg_status run_writer(const running_matrix *r, size_t party)
{
    char note[200];
    written *w = &r->written[party];
    kvg_status s = run_child(r, write_job, party, note, sizeof note);
    if (!s && !w->finished) {
        w->status = KVG_ERR_DEVICE;
        snprintf(w->note, sizeof w->note, "%s", note);
    }
    kvg_problem p;
    const bool absent = kvg_matrix_problem(r->world, r->m->parties[party].engine, KVG_OP_APPEND, &p) ||
                        w->status == KVG_ERR_UNIMPLEMENTED;
    for (size_t i = 0; i < r->m->count; i++) {
        kvg_matrix_cell *cell = &r->m->cells[party * r->m->count + i];
        cell->verdict = w->status && absent ? KVG_MATRIX_ABSENT : KVG_MATRIX_FAILED;
        if (w->status) snprintf(cell->note, sizeof cell->note, "writing: %.180s", w->note);
    }
    return s;
}

static kvg_status run_reader(const running_matrix *r, size_t party)
{
    char note[200];
    kvg_status s = run_child(r, read_job, party, note, sizeof note);
    for (size_t i = 0; !s && i < r->m->count; i++) {
        kvg_matrix_cell *cell = &r->m->cells[i * r->m->count + party];
        if (cell->verdict == KVG_MATRIX_FAILED && !cell->note[0]) {
            snprintf(cell->note, sizeof cell->note, "reading: %.180s", note);
        }
    }
    return s;
}

/* --- engines that are not linked --- */

static kvg_status prompt_part(const kvg_matrix_world *w, const kvg_engine *e, const char *folder, kvg_matrix_file file,
                              kvg_op op)
{
    static const kvg_role write_roles[KVG_MAX_ROLES] = {KVG_ROLE_VALUES, KVG_ROLE_TENSOR_SCALE, KVG_ROLE_SLOTS,
                                                        KVG_ROLE_DATA_POOL, KVG_ROLE_SCALE_POOL};
    static const kvg_role read_roles[KVG_MAX_ROLES] = {KVG_ROLE_DATA_POOL, KVG_ROLE_SCALE_POOL, KVG_ROLE_TENSOR_SCALE,
                                                       KVG_ROLE_BLOCK_TABLE, KVG_ROLE_LENGTHS};
    const kvg_role *roles = op == KVG_OP_APPEND ? write_roles : read_roles;
    const kvg_matrix_party reference = {.engine = e};
    char path[KVG_MATRIX_PATH];
    kvg_problem p;
    kvg_tensor_set set = {0};
    kvg_matrix_pages pages = {0};
    kvg_status s = kvg_matrix_file_path(folder, e, file, path);
    if (!s) s = kvg_matrix_problem(w, e, op, &p);
    if (!s) s = kvg_matrix_inputs(w, e, &p, roles, &set);
    if (!s) kvg_gather(&p, kvg_op_get(KVG_OP_APPEND)->outputs, &(kvg_source){.set = &set}, 1, pages.pools);
    if (!s) s = kvg_matrix_write(w, &reference, NULL, &pages);
    for (int side = KVG_K; side <= KVG_V && !s; side++) {
        kvg_tensor *scale = kvg_set_tensor(&set, KVG_ROLE_TENSOR_SCALE, (kvg_side)side);
        if (scale->bytes) memcpy(scale->data, &pages.number[side], sizeof pages.number[side]);
    }
    for (size_t i = 0; !s && op == KVG_OP_APPEND && i < KVG_MATRIX_POOLS; i++) {
        kvg_matrix_noise(w, i, &pages.pools[i]); /* as before writing */
    }
    if (!s) s = kvg_matrix_file_write(path, e, &p, roles, set.tensors);
    kvg_set_free(&set);
    return s;
}

kvg_status kvg_matrix_prompt(const kvg_matrix_world *w, const kvg_engine *e, const char *folder)
{
    kvg_status s = prompt_part(w, e, folder, KVG_MATRIX_FILE_WRITE, KVG_OP_APPEND);
    return s ? s : prompt_part(w, e, folder, KVG_MATRIX_FILE_READ, KVG_OP_FLATTEN);
}

/* --- the table --- */

/* Shared memory for the cells and what every writer leaves; `written` of a party that cannot have the geometry has no
 * pools, and its writing fails. */
static kvg_status map_shared(const kvg_matrix_world *world, kvg_matrix *m, written **out)
{
    enum { ALIGN = 64 };
    size_t at = (m->count * m->count * sizeof *m->cells + ALIGN - 1) / ALIGN * ALIGN;
    const size_t writers = at;
    size_t pools[KVG_MATRIX_PARTIES][KVG_MATRIX_POOLS];
    at += m->count * sizeof **out;
    for (size_t i = 0; i < m->count * KVG_MATRIX_POOLS; i++) {
        kvg_problem p;
        const kvg_role *roles = kvg_op_get(KVG_OP_APPEND)->outputs;
        kvg_role role;
        kvg_side side;
        const kvg_status s = kvg_matrix_problem(world, m->parties[i / KVG_MATRIX_POOLS].engine, KVG_OP_APPEND, &p);
        at = (at + ALIGN - 1) / ALIGN * ALIGN;
        pools[i / KVG_MATRIX_POOLS][i % KVG_MATRIX_POOLS] = at;
        kvg_roles_at(roles, i % KVG_MATRIX_POOLS, &role, &side);
        if (!s) at += kvg_problem_tensor(&p, role, side).bytes;
    }
    m->shared_bytes = at;
    m->shared = mmap(NULL, at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m->shared == MAP_FAILED) {
        m->shared = NULL;
        return kvg_fail(KVG_ERR_MEMORY, "cannot share %zu bytes: %s", at, strerror(errno));
    }
    m->cells = m->shared;
    *out = (written *)((uint8_t *)m->shared + writers);
    for (size_t i = 0; i < m->count; i++) memcpy((*out)[i].pool, pools[i], sizeof pools[i]);
    return KVG_OK;
}

kvg_status kvg_matrix_make(const kvg_matrix_shape *shape, const kvg_matrix_party *parties, size_t count,
                           unsigned seconds, kvg_matrix *out)
{
    kvg_matrix_world world;
    *out = (kvg_matrix){.shape = *shape, .parties = parties, .count = count};
    running_matrix r = {.m = out, .world = &world, .seconds = seconds};
    kvg_status s = kvg_matrix_world_make(shape, &world);
    if (!s) s = map_shared(&world, out, &r.written);
    kvg_progress_begin("matrix", 2 * count, "writes and reads");
    for (size_t i = 0; !s && i < 2 * count; i++) {
        const size_t party = i % count;
        kvg_progress_at(i, KVG_PROGRESS_NOT_JUDGED, parties[party].name, kvg_clock_seconds());
        s = i < count ? run_writer(&r, party) : run_reader(&r, party);
    }
    kvg_progress_end();
    kvg_matrix_world_free(&world);
    return s;
}

void kvg_matrix_free(kvg_matrix *m)
{
    if (m->shared) munmap(m->shared, m->shared_bytes);
    *m = (kvg_matrix){0};
}

const kvg_matrix_cell *kvg_matrix_at(const kvg_matrix *m, size_t writer, size_t reader)
{
    return &m->cells[writer * m->count + reader];
}

size_t kvg_matrix_broken(const kvg_matrix *m)
{
    size_t broken = 0;
    for (size_t i = 0; i < m->count * m->count; i++) {
        const kvg_matrix_party *writer = &m->parties[i / m->count], *reader = &m->parties[i % m->count];
        const kvg_matrix_verdict v = m->cells[i].verdict;
        broken += writer->engine == reader->engine && v != KVG_MATRIX_READS && v != KVG_MATRIX_ABSENT;
    }
    return broken;
}
