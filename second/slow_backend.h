/* The symbol KVG_BACKEND_SYMBOL of this backend, for those who link it instead of opening the shared library. */
#ifndef KVG_SECOND_SLOW_BACKEND_H
#define KVG_SECOND_SLOW_BACKEND_H

#include "core/backend.h"

const kvg_backend *kvg_backend_export(void);

#endif
