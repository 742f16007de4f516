/* A run that is told to end: ending PLACE TIME_LIMIT STEPS. It goes on from the last snapshot, and its state
   depends on all its past. Prints from where to where it went, and why it ended. */

#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>

static double x = 0.3;

static fb_status keep(int64_t step, void *user)
{
    fb_snapshot *snapshot = NULL;
    const int64_t one = 1;
    OK(fb_snapshot_begin(user, step, 0.1 * (double)step, &snapshot));
    OK(fb_snapshot_put(snapshot, "x", FB_DENSE(&x, FB_F64, one), NULL, NULL));
    OK(fb_snapshot_end(snapshot));
    OK(fb_snapshot_free(snapshot));
    return FB_OK;
}

int main(int argc, char **argv)
{
    CHECK(argc == 4);
    const int64_t steps = atoll(argv[3]);
    const int hurried = atof(argv[2]) > 0 || steps > 1000000;
    const fb_open_opts small = { .size = sizeof small, .buffer = 8 << 20 };
    fb_run *run = NULL;
    OK(fb_run_open(argv[1], "a", &small, &run));
    fb_loop_opts loop = { .size = sizeof loop, .time_limit = atof(argv[2]) };
    fb_snapshot *last = NULL;
    OK(fb_restart(run, &last));
    if (last != NULL) {
        const int64_t one = 1;
        fb_step_info about = { .size = sizeof about };
        OK(fb_snapshot_step(last, &about));
        OK(fb_snapshot_get(last, "x", FB_DENSE(&x, FB_F64, one)));
        loop.start = about.step;
        OK(fb_snapshot_free(last));
    }
    OK(fb_on_save(run, keep, run, NULL));
    fb_loop_opts wrong = loop;
    wrong.time_limit = -7;
    int64_t step = loop.start - 1;
    OK(fb_steps_with(run, &wrong));
    CHECK(fb_step(run, &step, steps) == -FB_BAD_ARGUMENT && strstr(fb_last_error(), "-7") != NULL);
    OK(fb_steps_with(run, &loop));
    while (fb_step(run, &step, steps) > 0) {
        /* From here on SIGTERM is heard. */
        if (step == loop.start) puts("ready");
        if (step == loop.start) fflush(stdout);
        x = 3.9 * x * (1 - x);
        if (hurried) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    char *why = NULL;
    OK(fb_ended_by(run, &why));
    if (why == NULL) OK(keep(steps, run));
    printf("%lld to %lld ended by %s\n", (long long)loop.start, (long long)step, why == NULL ? "itself" : why);
    OK(fb_free(why));
    OK(fb_run_close(run));
    NOTHING_IN_USE();
    return 0;
}
