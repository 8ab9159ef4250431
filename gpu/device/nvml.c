/* libnvidia-ml.so.1 by its documented C interface (NVML API reference), opened at run time: it comes with the driver,
 * and containers often lack it. */
#include "gpu/device/nvml.h"

#include <dlfcn.h>
#include <string.h>

typedef struct nvmlDevice_st *nvml_device;
enum { NVML_SUCCESS = 0, NVML_CLOCK_SM = 1 };

static struct {
    int (*init)(void);
    int (*device)(const char *bus_id, nvml_device *out);
    int (*clock)(nvml_device device, int kind, unsigned *mhz);
    int (*power)(nvml_device device, unsigned *milliwatts);
    int (*throttle)(nvml_device device, unsigned long long *reasons);
} nvml;

/* dlsym gives functions as object pointers: their bytes are copied, as POSIX intends. */
static bool find_functions(void *library)
{
    const struct {
        const char *name;
        void *to;
    } rows[] = {
        {"nvmlInit_v2", &nvml.init},
        {"nvmlDeviceGetHandleByPciBusId_v2", &nvml.device},
        {"nvmlDeviceGetClockInfo", &nvml.clock},
        {"nvmlDeviceGetPowerUsage", &nvml.power},
        {"nvmlDeviceGetCurrentClocksThrottleReasons", &nvml.throttle},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *found = dlsym(library, rows[i].name);
        if (!found) return false;
        memcpy(rows[i].to, &found, sizeof found);
    }
    return true;
}

bool kvg_nvml_read(const char *pci_bus_id, kvg_nvml_state *out)
{
    static bool asked, known;
    static nvml_device device;
    *out = (kvg_nvml_state){0};
    if (!asked) {
        asked = true;
        void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        known = library && find_functions(library) && nvml.init() == NVML_SUCCESS &&
                nvml.device(pci_bus_id, &device) == NVML_SUCCESS;
    }
    unsigned mhz = 0, power = 0;
    unsigned long long reasons = 0;
    if (!known || nvml.clock(device, NVML_CLOCK_SM, &mhz) != NVML_SUCCESS) return false;
    if (nvml.power(device, &power) == NVML_SUCCESS) out->power_mw = power;
    if (nvml.throttle(device, &reasons) != NVML_SUCCESS) return false;
    out->sm_mhz = mhz;
    out->throttle = reasons;
    return true;
}
