/* fork after opening: the child is told at every call, ends by exit with all its handlers, and the parent
   goes on as if nothing had been. */

#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

enum { N = 5000 };

static fb_run *run;
static fb_snapshot *snapshot;
static double values[N];
static const int64_t shape[] = { N };

static void child(const char *own_place)
{
    fb_snapshot *another;
    fb_run *own;
    int64_t step = 0;
    FAILS(FB_CLOSED, "after forking", fb_put(run, "z", 0, FB_DENSE(values, FB_F64, shape[0])));
    FAILS(FB_CLOSED, "after forking", fb_flush(run));
    FAILS(FB_CLOSED, "after forking", fb_snapshot_begin(run, 7, 0.0, &another));
    FAILS(FB_CLOSED, "after forking", fb_snapshot_put(snapshot, "B", FB_DENSE(values, FB_F64, shape[0]), NULL, NULL));
    CHECK(fb_step(run, &step, 3) == -FB_CLOSED && step == 0);
    /* Giving its copies back is no harm. */
    OK(fb_snapshot_free(snapshot));
    OK(fb_run_close(run));
    OK(fb_run_open(own_place, "a", NULL, &own));
    OK(fb_put(own, "x", 0, FB_DENSE(values, FB_F64, shape[0])));
    OK(fb_run_close(own));
    exit(0);
}

int main(int argc, char **argv)
{
    char own_place[512];
    int status = -1;
    int64_t at;
    double back[N];
    CHECK(argc > 1);
    snprintf(own_place, sizeof own_place, "%s.child", argv[1]);
    for (int i = 0; i < N; i++) values[i] = i;
    OK(fb_run_open(argv[1], "a", NULL, &run));
    OK(fb_put(run, "x", 0, FB_DENSE(values, FB_F64, shape[0])));
    OK(fb_snapshot_begin(run, 0, 0.0, &snapshot));
    OK(fb_snapshot_put(snapshot, "E", FB_DENSE(values, FB_F64, shape[0]), NULL, NULL));

    CHECK(fb_step(run, &at, 3) == 1 && at == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) child(own_place);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);

    OK(fb_snapshot_put(snapshot, "B", FB_DENSE(values, FB_F64, shape[0]), NULL, NULL));
    OK(fb_snapshot_end(snapshot));
    OK(fb_snapshot_wait(snapshot, 20.0));
    OK(fb_snapshot_free(snapshot));
    OK(fb_get(run, "x", 0, FB_DENSE(back, FB_F64, shape[0])));
    CHECK(memcmp(back, values, sizeof back) == 0);
    FAILS(FB_NOT_FOUND, "z", fb_get(run, "z", 0, FB_DENSE(back, FB_F64, shape[0])));
    OK(fb_snapshot_at(run, 0, &snapshot));
    OK(fb_snapshot_get(snapshot, "B", FB_DENSE(back, FB_F64, shape[0])));
    CHECK(memcmp(back, values, sizeof back) == 0);
    OK(fb_snapshot_free(snapshot));
    OK(fb_run_close(run));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
