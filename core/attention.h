/* The part of a problem that only paged attention has. The contract is docs/spec/attention.md. */
#ifndef KVG_CORE_ATTENTION_H
#define KVG_CORE_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Positions that the decode contract takes together (docs/spec/decode-contract.md section 1). */
enum { KVG_ATTENTION_TILE = 32, KVG_ATTENTION_LEAF = 256 };

/* All zero where a problem is no attention. */
typedef struct kvg_attention {
    uint32_t query_heads; /* Hq: G = Hq / Hkv query heads read one KV head; any G */
    uint32_t queries;     /* rows of q, of all sequences together */
    uint32_t window;      /* keys that a query sees, its own included; 0: all before it */
    float softcap;        /* scores become cap * tanh(score / cap); 0: they stay */
    float scale;          /* of the scores; 0: 1 / sqrt(D) */
    bool sinks;           /* one more logit per query head, in the denominator only */
} kvg_attention;

#ifdef __cplusplus
}
#endif
#endif
