#define _POSIX_C_SOURCE 200809L
#include "support/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
    caught = number;
}

void kvg_interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool kvg_interrupted(void)
{
    return caught != 0;
}

kvg_status kvg_interrupt_check(void)
{
    return caught ? kvg_fail(KVG_ERR_IO, "interrupted by a signal") : KVG_OK;
}

void kvg_interrupt_end(void)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
}
