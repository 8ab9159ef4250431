/* The public header of golden/: files on disk. */
#ifndef KVG_GOLDEN_GOLDEN_H
#define KVG_GOLDEN_GOLDEN_H

#include "golden/json.h"
#include "golden/safetensors.h"

#endif
