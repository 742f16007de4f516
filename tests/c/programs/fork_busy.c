/* fork again and again while the parent's snapshots of two runs are being written behind its back:
   whatever the library's threads hold at that moment, or wait for, each child opens a run of its own,
   writes it and ends. */

#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

enum { N = 1000, STEPS = 20 };

static double values[N];
static const int64_t shape[] = { N };

static void take(fb_run *run, int64_t step)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    fb_snapshot *snapshot;
    OK(fb_snapshot_begin(run, step, 0.0, &snapshot));
    for (int i = 0; i < 8; i++) OK(fb_snapshot_put(snapshot, names[i], FB_DENSE(values, FB_F64, shape[0]), NULL, NULL));
    OK(fb_snapshot_end(snapshot));
    OK(fb_snapshot_free(snapshot));
}

static void child(const char *place)
{
    fb_run *own;
    /* A child that hangs ends by this, and not in order. */
    alarm(20);
    OK(fb_run_open(place, "w", NULL, &own));
    take(own, 0);
    OK(fb_run_close(own));
    exit(0);
}

int main(int argc, char **argv)
{
    char place[512];
    int status = -1;
    fb_run *runs[2];
    CHECK(argc > 1);
    for (int i = 0; i < 2; i++) {
        snprintf(place, sizeof place, "%s.%d", argv[1], i);
        OK(fb_run_open(place, "a", NULL, &runs[i]));
    }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < 4; i++) take(runs[i % 2], 2 * step + i / 2);
        snprintf(place, sizeof place, "%s.child%d", argv[1], step % 4);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) child(place);
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    for (int i = 0; i < 2; i++) OK(fb_run_close(runs[i]));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
