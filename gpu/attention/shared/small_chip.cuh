/* Chips with 100 KiB of shared memory, of which a CTA has 99; the others have 228 and 227, sm_80 164 and 163 (CUDA
 * Programming Guide, "Technical Specifications per Compute Capability"). KVG_ALL_CHIPS_SMALL is for tests. */
#ifndef KVG_GPU_ATTENTION_SHARED_SMALL_CHIP_CUH
#define KVG_GPU_ATTENTION_SHARED_SMALL_CHIP_CUH

constexpr bool kvg_is_small_chip(int sm)
{
#ifdef KVG_ALL_CHIPS_SMALL
    return sm > 0;
#else
    return sm == 86 || sm == 89 || sm >= 120;
#endif
}
#ifdef __CUDA_ARCH__ /* of the code that is being made */
constexpr bool KVG_SMALL_CHIP = kvg_is_small_chip(__CUDA_ARCH__ / 10);
#else
constexpr bool KVG_SMALL_CHIP = false; /* the host asks for both */
#endif

#endif
