/* What our own programs share besides: the library, and an end at the first error. */
#ifndef VERSUS_OURS_H
#define VERSUS_OURS_H

#include "common.h"

#include <forebay.h>

static inline void done(fb_status status) {
    if (status != FB_OK) {
        fprintf(stderr, "error: %s\n", fb_last_error());
        exit(1);
    }
}

#endif
