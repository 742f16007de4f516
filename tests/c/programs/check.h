/* What the test programs share: a check that tells where it failed, and what the library said. */

#ifndef CHECK_H
#define CHECK_H

#include <forebay.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void check(int holds, const char *what, const char *file, int line)
{
    if (holds) return;
    fprintf(stderr, "%s:%d: %s\n  last error: %s\n", file, line, what, fb_last_error());
    exit(1);
}

static inline void check_fails(fb_status got, fb_status wanted, const char *word, const char *call, const char *file,
                               int line)
{
    const char *name = fb_status_name(got);
    if (got == wanted && strstr(fb_last_error(), word) != NULL) return;
    fprintf(stderr, "%s:%d: %s\n  gave %s: %s\n  wanted %s with \"%s\" in its text\n", file, line, call,
            name ? name : "no status", fb_last_error(), fb_status_name(wanted), word);
    exit(1);
}

/* The condition holds. */
#define CHECK(condition) check((condition), #condition, __FILE__, __LINE__)
/* The call went well. */
#define OK(call) check((call) == FB_OK, #call, __FILE__, __LINE__)
/* The call gave this status, and its text has this word in it. */
#define FAILS(status, word, call) check_fails((call), status, word, #call, __FILE__, __LINE__)
/* All handles and memory were given back. */
#define NOTHING_IN_USE()                  \
    do {                                  \
        int64_t in_use_ = -1;             \
        OK(fb_in_use(&in_use_));          \
        CHECK(in_use_ == 0);              \
    } while (0)

#endif
