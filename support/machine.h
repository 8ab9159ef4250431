/* What this machine calls itself and its parts. Opens no driver. */
#ifndef KVG_SUPPORT_MACHINE_H
#define KVG_SUPPORT_MACHINE_H

#include <stddef.h>

void kvg_machine_host(char *out, size_t size);

/* The model of the processor; where the kernel names none, its architecture. */
void kvg_machine_cpu(char *out, size_t size);

/* The models of NVIDIA's GPUs, as the files of their driver name them: "NVIDIA H200, NVIDIA H200"; "": none. */
void kvg_machine_gpus(char *out, size_t size);

#endif
