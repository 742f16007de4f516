/* Errors of what was acknowledged earlier, and figures: program RUN. */
#include "check.h"

#define N 200000
static double field[N];

static void take(fb_run *run, int64_t step) {
    int64_t shape[] = { N };
    fb_snapshot *snapshot = NULL;
    OK(fb_snapshot_begin(run, step, 0.5 * step, &snapshot));
    OK(fb_snapshot_put(snapshot, "E", FB_DENSE(field, FB_F64, shape[0]), NULL, NULL));
    /* The pieces of step 1, and of 11 and 21, do not make a whole, which shows when it is written. */
    int64_t part[] = { 5 }, offset[] = { 0 }, whole[] = { 9 };
    if (step % 10 == 1) OK(fb_snapshot_put(snapshot, "F", FB_DENSE(field, FB_F64, part[0]), offset, whole));
    OK(fb_snapshot_end(snapshot));
    OK(fb_snapshot_free(snapshot));
}

static fb_run *opened(const char *path, const char *mode, const char *late) {
    fb_open_opts opts = { .size = sizeof opts, .buffer = 16 << 20, .late = late };
    fb_run *run = NULL;
    OK(fb_run_open(path, mode, &opts, &run));
    return run;
}

static fb_stats figures(fb_run *run) {
    fb_stats stats = { .size = sizeof stats };
    OK(fb_run_stats(run, &stats));
    return stats;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    fb_open_opts opts = { .size = sizeof opts, .late = "perhaps" };
    fb_run *run = NULL;
    FAILS(FB_BAD_ARGUMENT, "\"warn\" or \"ignore\"", fb_run_open(argv[1], "w", &opts, &run));

    run = opened(argv[1], "w", NULL);
    take(run, 0);
    take(run, 1);
    CHECK(fb_flush(run) != FB_OK && strstr(fb_last_error(), "step 1") && strstr(fb_last_error(), "lacks 4 of its 9"));
    take(run, 2);
    OK(fb_flush(run));
    fb_stats stats = figures(run);
    CHECK(stats.late_errors == 1 && stats.embedded == 1 && stats.in_memory == 1 && stats.waiting_for_disk == 0);
    CHECK(stats.copy_bytes_per_s > 0 && stats.ideal_s > 0 && stats.ideal_s <= stats.visible_s);
    OK(fb_run_close(run));

    const char *quiet[] = { "warn", "ignore" };
    for (int i = 0; i < 2; i++) {
        run = opened(argv[1], "r+", quiet[i]);
        fb_snapshot *last = NULL;
        OK(fb_restart(run, &last));
        OK(fb_snapshot_free(last));
        take(run, 11 + 10 * i);
        OK(fb_flush(run));
        take(run, 12 + 10 * i);
        CHECK(figures(run).late_errors == 1);
        OK(fb_run_close(run));
    }
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
