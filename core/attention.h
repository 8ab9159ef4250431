/* The fields of a problem that only paged attention (op decode) uses. The contract is
 * docs/spec/attention.md. */
#ifndef KVG_CORE_ATTENTION_H
#define KVG_CORE_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Positions of a tile: the unit in which the decode contracts work (docs/spec/decode-contract.md
 * section 1). A leaf is several tiles, how many says the profile. */
enum { KVG_ATTENTION_TILE = 32 };

/* All fields are zero in a problem of any other op. */
typedef struct kvg_attention {
    uint32_t query_heads; /* Hq. Each group of G = Hq / Hkv query heads reads one KV head; G may be any whole number */
    uint32_t queries;     /* query tokens: rows of q of all sequences together */
    uint32_t window;      /* keys that a query sees, its own included; 0: all keys up to its own */
    float softcap;        /* a score s becomes softcap * tanh(s / softcap); 0: scores stay as they are */
    float scale;          /* factor of the scores; 0: 1 / sqrt(D) */
    bool sinks;           /* each query head has one more logit, which is added to the denominator only */
} kvg_attention;

#ifdef __cplusplus
}
#endif
#endif
