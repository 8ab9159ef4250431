/* Both references' conversions of one f32 to the small formats: for the boundary test and the sweep of all inputs. */
#ifndef KVG_TESTS_SECOND_CONVERSIONS_H
#define KVG_TESTS_SECOND_CONVERSIONS_H

#include <stdint.h>

enum { CONVERSION_COUNT = 7 };

/* The name of the first conversion that the two do differently for the f32 with these bits; NULL if they agree. */
const char *conversions_differ(uint32_t bits);

#endif
