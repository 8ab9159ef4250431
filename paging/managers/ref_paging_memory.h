/* The managers' host memory: kvg_memory with its default, and arrays that grow. */
#ifndef KVG_PAGING_MANAGERS_REF_PAGING_MEMORY_H
#define KVG_PAGING_MANAGERS_REF_PAGING_MEMORY_H

#include "paging/paging_pool.h"

/* *given, or malloc and free if it is NULL. */
kvg_memory ref_memory_of(const kvg_memory *given);

/* Room for count * size bytes, not cleared; NULL if there is none or the product does not fit. */
void *ref_memory_take(const kvg_memory *memory, uint64_t count, size_t size);
void ref_memory_give(const kvg_memory *memory, void *pointer); /* NULL: nothing */

/* `array` with room for at least `need` items of `size` bytes: itself, or a copy with at least twice its room in its
 * place. Never NULL on success, not even for need 0. NULL: no memory, and array and *room are as they were. */
void *ref_memory_reserve(const kvg_memory *memory, void *array, size_t *room, uint64_t need, size_t size);

kvg_status ref_memory_fail(const char *what); /* KVG_ERR_MEMORY */

#endif
