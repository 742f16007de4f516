/* The options of the program: the same as those of the example in Python. */

#ifndef TWO_STREAM_OPTIONS_H
#define TWO_STREAM_OPTIONS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
    const char *deck;
    const char *run;
    int64_t particles, steps; /* 0: the deck's */
    int fresh, renew, monitor;
    double wait; /* seconds to wait for a server at first */
};

static const char OPTIONS_HELP[] =
    "usage: two_stream [DECK] [options]\n"
    "The two-stream instability as a client of Forebay.\n\n"
    "  --deck FILE      input deck (two_stream.toml)\n"
    "  --run NAME       name of the run: the directory NAME.fb (two_stream)\n"
    "  --particles N    number of particles, instead of the deck's\n"
    "  --steps N        number of steps, instead of the deck's\n"
    "  --fresh          begin anew even if the run exists\n"
    "  --renew          begin anew if the run is finished\n"
    "  --no-monitor     without the page\n"
    "  --wait SECONDS   how long to wait for a server at first (20)\n\n"
    "example: mpiexec -n 2 ./two_stream two_stream.toml --particles 20000\n";

/* An integer above 0, or 0 if the text is none. */
static int64_t options_count(const char *text)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    return *end || end == text || value < 1 ? 0 : value;
}

/* Reads the options; 0, or the exit status plus 1 when the program is to end. `say`: whether this
   rank speaks. */
static int options_read(int argc, char **argv, int say, struct options *o)
{
    *o = (struct options){.deck = "two_stream.toml", .run = "two_stream", .monitor = 1, .wait = 20.0};
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        char *end = NULL;
        int bad = 0, alone = 1;
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            if (say)
                fputs(OPTIONS_HELP, stdout);
            return 1;
        } else if (strcmp(word, "--fresh") == 0) {
            o->fresh = 1;
        } else if (strcmp(word, "--renew") == 0) {
            o->renew = 1;
        } else if (strcmp(word, "--no-monitor") == 0) {
            o->monitor = 0;
        } else if (word[0] != '-') {
            o->deck = word;
        } else {
            alone = 0;
            bad = !value;
            if (strcmp(word, "--deck") == 0)
                o->deck = value;
            else if (strcmp(word, "--run") == 0)
                o->run = value;
            else if (strcmp(word, "--particles") == 0)
                bad = bad || !(o->particles = options_count(value));
            else if (strcmp(word, "--steps") == 0)
                bad = bad || !(o->steps = options_count(value));
            else if (strcmp(word, "--wait") == 0)
                bad = bad || !((o->wait = strtod(value, &end)) >= 0 && end != value && !*end);
            else
                bad = 1;
        }
        if (bad) {
            if (say)
                fprintf(stderr, "two_stream: %s %s is not understood; --help names the options\n", word, value ? value : "");
            return 3;
        }
        i += !alone;
    }
    return 0;
}

#endif
