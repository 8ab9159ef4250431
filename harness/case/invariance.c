#include "harness/case/invariance.h"

#include <string.h>

#define INVARIANCE(id, summary) #id,
const char *const kvg_invariance_names[KVG_INVARIANCE_AXES + 1] = {
#include "harness/case/invariance.def"
    NULL};
#undef INVARIANCE

#define INVARIANCE(id, summary) summary,
const char *const kvg_invariance_summaries[KVG_INVARIANCE_AXES] = {
#include "harness/case/invariance.def"
};
#undef INVARIANCE

kvg_invariance kvg_invariance_find(const char *name)
{
    int axis = 0;
    while (axis < KVG_INVARIANCE_AXES && strcmp(kvg_invariance_names[axis], name) != 0) axis++;
    return (kvg_invariance)axis;
}
