/* The public header of golden/: files on disk. */
#ifndef KVG_GOLDEN_GOLDEN_H
#define KVG_GOLDEN_GOLDEN_H

#include "golden/json.h"
#include "golden/pack.h"
#include "golden/pack_write.h"
#include "golden/safetensors.h"
#include "golden/safetensors_write.h"

#endif
