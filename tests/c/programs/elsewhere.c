/* Data that a killed program left in memory which the next one does not see: program RUN write, or
   program RUN refuse|abandon|perhaps|usual. */
#include "check.h"

#include <signal.h>

static void put(fb_run *run, const char *name, double value) { OK(fb_put(run, name, 0, FB_ONE(&value, FB_F64))); }

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    const int writes = strcmp(argv[2], "write") == 0;
    const char *elsewhere = writes || strcmp(argv[2], "usual") == 0 ? NULL : argv[2];
    const fb_open_opts opts = { .size = sizeof opts, .buffer = 8 << 20, .elsewhere = elsewhere };
    fb_run *run = NULL;
    if (strcmp(argv[2], "refuse") == 0) {
        FAILS(FB_CONFLICT, "FOREBAY_ELSEWHERE=abandon", fb_run_open(argv[1], "a", &opts, &run));
    } else if (strcmp(argv[2], "perhaps") == 0) {
        FAILS(FB_BAD_ARGUMENT, "\"refuse\" or \"abandon\"", fb_run_open(argv[1], "a", &opts, &run));
    } else {
        OK(fb_run_open(argv[1], "a", &opts, &run));
        put(run, "first", 1.0);
        if (writes) {
            OK(fb_flush(run));
            put(run, "second", 2.0);
            raise(SIGKILL);
        }
        OK(fb_run_close(run));
    }
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
