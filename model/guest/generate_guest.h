/* Op generate as a guest of the judge. */
#ifndef KVG_MODEL_GUEST_GENERATE_GUEST_H
#define KVG_MODEL_GUEST_GENERATE_GUEST_H

#include "harness/case/guest.h"

extern const kvg_guest kvg_generate_guest;

#endif
