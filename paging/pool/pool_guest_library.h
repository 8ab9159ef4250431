/* The shared library of another program's block manager. */
#ifndef KVG_PAGING_POOL_POOL_GUEST_LIBRARY_H
#define KVG_PAGING_POOL_POOL_GUEST_LIBRARY_H

#include "paging/paging_plugin.h"

/* Opens the library and copies what this kvgold knows of its manager; the rest is 0. KVG_ERR_NOT_FOUND: the linker
 * cannot load it. KVG_ERR_INVALID: it has no manager, or one that lacks what is not optional. */
kvg_status kvg_guest_library_open(const char *path, kvg_manager *out) KVG_CHECKED;

#endif
