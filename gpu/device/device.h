/* Room device: the GPUs of this machine, and memory on them.
 *
 *   device.cu          Which GPUs there are, and what they can do.
 *   buffer.cu          Memory of a device, copies, and streams, for the harness.
 *   cuda_status.cuh    What CUDA says, as a status and a line of text.
 *   nvml.h             Clocks and other programs on a GPU, by a library that is opened at run time. */
#ifndef KVG_GPU_DEVICE_DEVICE_H
#define KVG_GPU_DEVICE_DEVICE_H
#endif
