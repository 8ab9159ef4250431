/* What the driver says about a GPU's clock and power, through its library if this machine has it. */
#ifndef KVG_GPU_DEVICE_NVML_H
#define KVG_GPU_DEVICE_NVML_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvg_nvml_state {
    uint32_t sm_mhz, power_mw;
    uint64_t throttle; /* nvmlClocksEventReasons */
} kvg_nvml_state;

/* Of the GPU at a PCI address as CUDA writes it. False: not known. */
bool kvg_nvml_read(const char *pci_bus_id, kvg_nvml_state *out);

#ifdef __cplusplus
}
#endif
#endif
