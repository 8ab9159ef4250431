/* The contract of the chip that code is made for (docs/spec/decode-contract.md). */
#ifndef KVG_GPU_ATTENTION_SHARED_CONTRACT_CUH
#define KVG_GPU_ATTENTION_SHARED_CONTRACT_CUH

#include "core/profile.h"

struct kvg_contract {
    uint32_t leaf;   /* positions */
    bool approx;     /* exp2 is ex2.approx */
    bool neighbours; /* a sum of 16-bit codes has 16 neighbouring dims */
};

/* The newest row that core/profiles.def has of a chip, 90 for sm_90. */
constexpr kvg_contract kvg_contract_of(uint32_t chip)
{
    kvg_contract contract = {};
#define CONTRACT(ENUM, operands, tile, leaf, order, pieces, factor, cap, exponent, exp2, rise, weights, sinks, end, \
                 widest_16) \
    const kvg_contract ENUM = {leaf, KVG_EXP2_##exp2 == KVG_EXP2_APPROX, widest_16 == KVG_MMA_K}; \
    const bool ENUM##_IS_OWN = KVG_OPERANDS_##operands == KVG_OPERANDS_HELD;
#define CHIP(ENUM, sm, sum_terms, fraction_bits, least_exponent, sum_terms_8, fraction_bits_8) const uint32_t ENUM = sm;
#define PROFILE(ENUM, name, id, chip_of, contract_of, summary) \
    if (chip == chip_of && contract_of##_IS_OWN) contract = contract_of;
#include "core/profiles.def"
    return contract;
}

#ifdef __CUDA_ARCH__ /* of the code that is being made */
constexpr kvg_contract KVG_CONTRACT = kvg_contract_of(__CUDA_ARCH__ / 10);
#else
constexpr kvg_contract KVG_CONTRACT = kvg_contract_of(80); /* the host reads kernels, and runs none */
#endif

#endif
