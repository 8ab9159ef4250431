/* A backend that keeps pages and misbehaves on purpose, for `kvgold matrix`. The number of KV heads chooses what goes
 * wrong; all else is the reference's. */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reference/reference.h"

enum planted {
    GOOD = 2,
    SWAPS_NIBBLES = 3,  /* as a reader */
    LOSES_SCALE = 4,    /* as a writer: the tensor scale is taken for 1 */
    CRASHES = 5,        /* as a reader */
    HANGS = 6,          /* as a reader */
    ABORTS = 7,         /* as a writer */
    WRITES_PAST = 8,    /* as a reader, one byte behind the output */
    REFUSES = 9,        /* as a reader */
    READS_NAN = 10,     /* as a reader: one NaN in an otherwise right answer */
    EXITS_0 = 11,       /* as a reader */
    PRINTS = 12         /* noise on stdout, right answer */
};

static kvg_status run_append(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    static float one = 1;
    kvg_tensor changed[KVG_MAX_TENSORS];
    const kvg_role *roles = kvg_op_get(p->op)->inputs;
    memcpy(changed, in, kvg_roles_tensors(roles) * sizeof *in);
    switch ((enum planted)p->kv_heads) {
    case LOSES_SCALE:
        changed[kvg_roles_index(roles, KVG_ROLE_TENSOR_SCALE, KVG_K)].data = &one;
        changed[kvg_roles_index(roles, KVG_ROLE_TENSOR_SCALE, KVG_V)].data = &one;
        break;
    case ABORTS: abort();
    default: break;
    }
    return kvg_reference_run(p, changed, out);
}

/* Pools of data whose codes lie apart from scales. */
static kvg_status run_swapped(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    kvg_tensor changed[KVG_MAX_TENSORS];
    const kvg_role *roles = kvg_op_get(p->op)->inputs;
    kvg_status s = KVG_OK;
    memcpy(changed, in, kvg_roles_tensors(roles) * sizeof *in);
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_tensor *pool = &changed[kvg_roles_index(roles, KVG_ROLE_DATA_POOL, (kvg_side)side)];
        uint8_t *bytes = malloc(pool->bytes + 1);
        if (!bytes) s = kvg_fail(KVG_ERR_MEMORY, "cannot copy a pool");
        for (size_t i = 0; bytes && i < pool->bytes; i++) {
            const uint8_t byte = ((const uint8_t *)pool->data)[i];
            bytes[i] = (uint8_t)(byte << 4 | byte >> 4);
        }
        pool->data = bytes;
    }
    if (!s) s = kvg_reference_run(p, changed, out);
    for (int side = KVG_K; side <= KVG_V; side++) {
        free(changed[kvg_roles_index(roles, KVG_ROLE_DATA_POOL, (kvg_side)side)].data);
    }
    return s;
}

static kvg_status run_flatten(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    if (p->kv_heads == SWAPS_NIBBLES) return run_swapped(p, in, out);
    kvg_status s = kvg_reference_run(p, in, out);
    switch ((enum planted)p->kv_heads) {
    case CRASHES: raise(SIGSEGV); break;
    case HANGS: for (;;) pause();
    case WRITES_PAST: ((volatile uint8_t *)out[0].data)[out[0].bytes] ^= 0xFF; break;
    case REFUSES: return kvg_fail(KVG_ERR_UNIMPLEMENTED, "planted refusal");
    case READS_NAN: memset(out[1].data, 0xFF, 2); break;
    case EXITS_0: exit(0);
    case PRINTS: printf("noise on stdout\n"); break;
    default: break;
    }
    return s;
}

static const kvg_impl impls[] = {
    {"planted_append", KVG_OP_APPEND, KVG_FORMAT_NONE, 0, run_append},
    {"planted_flatten", KVG_OP_FLATTEN, KVG_FORMAT_NONE, 0, run_flatten},
};

static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof backend,
    .name = "planted_pages",
    .impls = impls,
    .impl_count = sizeof impls / sizeof impls[0],
    .error_text = kvg_error_text,
};

const kvg_backend *kvg_backend_export(void);
const kvg_backend *kvg_backend_export(void)
{
    return &backend;
}
