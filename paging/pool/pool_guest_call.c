#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "core/rng.h"
#include "paging/pool/pool_guest_play.h"
#include "support/child.h"
#include "support/clock.h"

static const char *const call_names[CALLS] = {"dlopen", "open", "admit", "grow", "fork", "written", "release",
                                              "available", "close", "swap_out", "swap_in",
                                              "append or flatten"};

/* --- memory --- */

static void *take(void *context, size_t bytes)
{
    pool_guest_memory *memory = context;
    void *piece = ++memory->taken == memory->failing ? NULL : malloc(bytes);
    memory->pieces += piece != NULL;
    return piece;
}

static void give(void *context, void *piece)
{
    pool_guest_memory *memory = context;
    memory->pieces -= piece != NULL;
    free(piece);
}

void pool_guest_memory_make(pool_guest_play *p)
{
    p->memory.functions = (kvg_manager_memory){take, give, &p->memory};
    p->pool.memory = &p->memory.functions;
}

/* `open` and one call of eight are asked again and again: first the first take of memory fails, then the second, and so
 * on; of many takes ever fewer fail. */
static void choose_failure(pool_guest_play *p)
{
    pool_guest_memory *memory = &p->memory;
    memory->taken = 0;
    const bool may_fail = p->manager.claims & KVG_MANAGER_MEMORY && !p->run->spares_memory && p->call != CALL_BYTES;
    if (memory->failing || !may_fail) return;
    memory->failing = p->call == CALL_OPEN || kvg_rng_below(p->run->seed, 2, p->asked++, 8) == 0;
}

/* --- calls --- */

/* The limit of time is set anew only each second, because that costs more than some calls. */
bool pool_guest_asks(pool_guest_play *p, pool_guest_call call, uint64_t whose)
{
    if (p->is_answered) return p->is_answered = false;
    const double now = p->entered = kvg_clock_seconds();
    p->call = call;
    p->whose = whose;
    p->is_running = true;
    choose_failure(p);
    if (p->armed && now - p->armed < 1) return true;
    p->armed = now;
    kvg_child_limit(KVG_GUEST_CALL_SECONDS + 1);
    return true;
}

kvg_status pool_guest_answered(pool_guest_play *p, kvg_status answer)
{
    pool_guest_memory *memory = &p->memory;
    const bool has_failed = memory->failing && memory->taken >= memory->failing;
    p->is_running = false;
    p->inside += kvg_clock_seconds() - p->entered;
    p->result.failures += has_failed;
    if (has_failed && answer == KVG_ERR_MEMORY) memory->failing += 1 + memory->failing / 4;
    else memory->failing = 0;
    p->is_answered = !memory->failing;
    return answer;
}

const char *pool_guest_last_call(const pool_guest_play *p, char text[static 64])
{
    const char *name = (unsigned)p->call < CALLS ? call_names[p->call] : "a call";
    if (p->whose) snprintf(text, 64, "%s of sequence %" PRIu64, name, p->whose);
    else snprintf(text, 64, "%s", name);
    return text;
}

kvg_status pool_guest_broke(const pool_guest_play *p, const char *format, ...)
{
    char call[64], text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return kvg_fail(KVG_ERR_INVALID, "%s %s", pool_guest_last_call(p, call), text);
}

kvg_status pool_guest_failed(const pool_guest_play *p, kvg_status s)
{
    char call_text[64];
    const char *text = p->manager.error_text ? p->manager.error_text() : NULL;
    return kvg_fail(s, "%s fails: %s%s%.120s", pool_guest_last_call(p, call_text), kvg_status_name(s), text ? ": " : "",
                    text ? text : "");
}
