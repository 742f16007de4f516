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

/* Offers what a server has, says so to who has started this program, and frees it at the end. */
static inline void serve_to_the_end(fb_server *server) {
    done(fb_server_start(server));
    puts("serving");
    fflush(stdout);
    done(fb_serve(server));
    done(fb_server_free(server));
}

#endif
