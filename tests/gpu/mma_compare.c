#include "tests/gpu/mma_compare.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/bits.h"

static void examine(mma_tally *t, const kvg_profile_info *profile, kvg_dtype dtype, const mma_sample *sample)
{
    t->examined++;
    for (slow_mma_fault f = 0; f < SLOW_MMA_FAULTS; f++) {
        const uint32_t wrong = slow_mma_output(profile->chip, dtype, 1u << f, sample->a, sample->b, sample->c);
        t->explained[f] += wrong == sample->got;
    }
}

void mma_compare(mma_tally *t, const kvg_profile_info *profile, kvg_dtype dtype, size_t tiles, const uint16_t *a,
                 const uint16_t *b, const float *c, const float *expected, const float *got)
{
    t->outputs += tiles * KVG_TILE_C;
    for (size_t i = 0; i < tiles * KVG_TILE_C; i++) {
        mma_sample sample = {.c = kvg_bits_of_f32(c[i]),
                             .expected = kvg_bits_of_f32(expected[i]),
                             .got = kvg_bits_of_f32(got[i])};
        if (sample.expected == sample.got) continue;
        const size_t tile = i / KVG_TILE_C;
        kvg_mma_operands(a + tile * KVG_TILE_A, b + tile * KVG_TILE_B, (int)(i % KVG_TILE_C), sample.a, sample.b);
        if (t->mismatches < MMA_SAMPLES) t->sample[t->mismatches] = sample;
        if (t->mismatches++ < MMA_EXAMINED) examine(t, profile, dtype, &sample);
    }
}

bool mma_tally_explains(const mma_tally *t, slow_mma_fault fault)
{
    return t->examined > 0 && t->explained[fault] == t->examined;
}

void mma_tally_print(const mma_tally *t)
{
    for (uint64_t i = 0; i < t->mismatches && i < MMA_SAMPLES; i++) {
        const mma_sample *s = &t->sample[i];
        printf("    c %08" PRIX32 ", expected %08" PRIX32 ", got %08" PRIX32 "\n      a", s->c, s->expected, s->got);
        for (int k = 0; k < KVG_MMA_K; k++) printf(" %04X", s->a[k]);
        printf("\n      b");
        for (int k = 0; k < KVG_MMA_K; k++) printf(" %04X", s->b[k]);
        printf("\n");
    }
    for (slow_mma_fault f = 0; f < SLOW_MMA_FAULTS; f++) {
        if (t->explained[f] == 0) continue;
        printf("    %" PRIu64 " of %" PRIu64 " as if %s: %s\n", t->explained[f], t->examined, slow_mma_fault_name(f),
               slow_mma_fault_text(f));
    }
}
