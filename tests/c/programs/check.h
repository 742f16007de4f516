/* What the test programs share: a check that tells where it failed, and what the library said. */

#ifndef CHECK_H
#define CHECK_H

#include <forebay.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void check(int holds, const char *what, const char *file, int line)
{
    if (holds) return;
    fprintf(stderr, "%s:%d: %s\n  last error: %s\n", file, line, what, fb_last_error());
    exit(1);
}

static inline int in_a_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Whether a text says what to do as Python writes it: name="value", object.method(...), None. */
static inline int speaks_python(const char *text)
{
    static const char *const words[] = { "None", "True", "False" };
    for (const char *at = text; *at != 0; ++at) {
        const int behind_a_word = at != text && in_a_word(at[-1]);
        if (*at == '=' && behind_a_word && (at[1] == '"' || at[1] == '\'')) return 1;
        if (*at == '.' && behind_a_word) {
            const char *end = at + 1;
            while (in_a_word(*end)) ++end;
            if (end != at + 1 && *end == '(') return 1;
        }
        for (int i = 0; i < 3; ++i) {
            const size_t n = strlen(words[i]);
            if (!behind_a_word && strncmp(at, words[i], n) == 0 && !in_a_word(at[n])) return 1;
        }
    }
    return 0;
}

static inline void check_fails(fb_status got, fb_status wanted, const char *word, const char *call, const char *file,
                               int line)
{
    const char *name = fb_status_name(got);
    if (got == wanted && strstr(fb_last_error(), word) != NULL && !speaks_python(fb_last_error())) return;
    fprintf(stderr, "%s:%d: %s\n  gave %s: %s\n  wanted %s with \"%s\" in its text\n", file, line, call,
            name ? name : "no status", fb_last_error(), fb_status_name(wanted), word);
    exit(1);
}

/* The condition holds. */
#define CHECK(condition) check((condition), #condition, __FILE__, __LINE__)
/* The call went well. */
#define OK(call) check((call) == FB_OK, #call, __FILE__, __LINE__)
/* The call gave this status, and its text has this word in it and speaks of no other language's calls. */
#define FAILS(status, word, call) check_fails((call), status, word, #call, __FILE__, __LINE__)
/* All handles and memory were given back. */
#define NOTHING_IN_USE()                  \
    do {                                  \
        int64_t in_use_ = -1;             \
        OK(fb_in_use(&in_use_));          \
        CHECK(in_use_ == 0);              \
    } while (0)

#endif
