/* Room backend: the backend `cuda`, which the harness asks for by that name.
 *
 *   gpu_backend.c      Capabilities, the tensors of a problem, and the call of its op.
 *
 * gpu/gpu.h declares it. What an engine calls is gpu/ops.h, which needs no backend. */
#ifndef KVG_GPU_BACKEND_BACKEND_H
#define KVG_GPU_BACKEND_BACKEND_H
#endif
