/* A run to which something happens: damage PLACE write|read|go|lose|again. `write` takes snapshots 0 to 3, whose
   "E" is their number; then somebody turns a byte of the last one over. `read` sees that. `go`, behind
   `forebay repair`, passes it over, makes it anew, and drops another one. `lose` waits for its store while another
   owner takes the run. `again` is a program that is started a second time, and does not call fb_restart. */

#include "check.h"

enum { N = 1000 };
static const int64_t shape = N;
static double field[N];

static void take(fb_run *run, int64_t step)
{
    fb_snapshot *snapshot = NULL;
    for (int i = 0; i < N; ++i) field[i] = (double)step + 0.25;
    OK(fb_snapshot_begin(run, step, (double)step, &snapshot));
    OK(fb_snapshot_put(snapshot, "E", FB_DENSE(field, FB_F64, shape), NULL, NULL));
    OK(fb_snapshot_end(snapshot));
    OK(fb_snapshot_wait(snapshot, FB_FOREVER));
    OK(fb_snapshot_free(snapshot));
}

static void read_all(fb_run *run)
{
    fb_snapshot *snapshot = NULL;
    OK(fb_snapshot_at(run, 2, &snapshot));
    OK(fb_snapshot_get(snapshot, "E", FB_DENSE(field, FB_F64, shape)));
    CHECK(field[0] == 2.25 && field[N - 1] == 2.25);
    OK(fb_snapshot_free(snapshot));
    OK(fb_snapshot_at(run, 3, &snapshot));
    FAILS(FB_CORRUPT, "0000000003.h5", fb_snapshot_get(snapshot, "E", FB_DENSE(field, FB_F64, shape)));
    CHECK(strstr(fb_last_error(), "forebay drop") != NULL);
    OK(fb_snapshot_free(snapshot));
}

static void go(fb_run *run)
{
    fb_snapshot *snapshot = NULL;
    FAILS(FB_CORRUPT, "step 3 is damaged", fb_restart_strict(run, &snapshot));
    OK(fb_restart(run, &snapshot));
    CHECK(snapshot != NULL);
    fb_step_info about = { .size = sizeof about };
    OK(fb_snapshot_step(snapshot, &about));
    CHECK(about.step == 2);
    int64_t *steps = NULL, count = 0;
    OK(fb_snapshot_passed(snapshot, &steps, &count));
    CHECK(count == 1 && steps[0] == 3);
    OK(fb_free(steps));
    OK(fb_snapshot_free(snapshot));
    take(run, 3);
    int dropped = -1;
    OK(fb_drop(run, 1, &dropped));
    CHECK(dropped == 1);
    OK(fb_drop(run, 1, &dropped));
    CHECK(dropped == 0);
    OK(fb_drop(run, 0, NULL));
    take(run, 1);
    OK(fb_snapshots(run, &steps, &count));
    CHECK(count == 3 && steps[0] == 1 && steps[1] == 2 && steps[2] == 3);
    OK(fb_free(steps));
    OK(fb_snapshot_last(run, &snapshot));
    OK(fb_snapshot_get(snapshot, "E", FB_DENSE(field, FB_F64, shape)));
    CHECK(field[7] == 3.25);
    OK(fb_snapshot_passed(snapshot, &steps, &count));
    CHECK(count == 0);
    OK(fb_free(steps));
    OK(fb_snapshot_free(snapshot));
    int64_t packed = -1, single = -1;
    OK(fb_pack(run, 1, 2, &packed, &single));
    CHECK(packed == 2 && single == 0);
    OK(fb_pack(run, INT64_MIN, INT64_MAX, NULL, &single));
    CHECK(single == 1);
    OK(fb_snapshot_at(run, 2, &snapshot));
    OK(fb_snapshot_get(snapshot, "E", FB_DENSE(field, FB_F64, shape)));
    CHECK(field[7] == 2.25);
    OK(fb_snapshot_free(snapshot));
    FAILS(FB_BAD_ARGUMENT, "lower number", fb_pack(run, 2, 1, NULL, NULL));
}

static void lose(fb_run *run)
{
    fb_snapshot *snapshot = NULL;
    take(run, 0);
    puts("ready");
    fflush(stdout);
    CHECK(getchar() == '\n');
    OK(fb_snapshot_begin(run, 1, 1.0, &snapshot));
    OK(fb_snapshot_put(snapshot, "E", FB_DENSE(field, FB_F64, shape), NULL, NULL));
    OK(fb_snapshot_end(snapshot));
    puts("waiting");
    fflush(stdout);
    FAILS(FB_SERVER_LOST, "lost", fb_snapshot_wait(snapshot, FB_FOREVER));
    FAILS(FB_SERVER_LOST, "lost", fb_flush(run));
    FAILS(FB_SERVER_LOST, "lost", fb_rename(run, "a", "b", NULL));
    FAILS(FB_SERVER_LOST, "lost", fb_put(run, "a", 0, FB_DENSE(field, FB_F64, shape)));
    OK(fb_snapshot_free(snapshot));
    FAILS(FB_SERVER_LOST, "lost", fb_run_close(run));
}

static void again(fb_run *run)
{
    fb_snapshot *snapshot = NULL;
    int64_t step = -1, *steps = NULL, count = 0;
    int going = 0;
    while ((going = fb_step(run, &step, 2)) > 0)
        FAILS(FB_CONFLICT, "complete steps up to 1", fb_snapshot_begin(run, step, (double)step, &snapshot));
    CHECK(going == 0 && step == 2);
    OK(fb_snapshots(run, &steps, &count));
    CHECK(count == 2 && steps[0] == 0 && steps[1] == 1);
    OK(fb_free(steps));
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    const fb_open_opts small = { .size = sizeof small, .buffer = 8 << 20, .late = "ignore" };
    fb_run *run = NULL;
    const int reads = strcmp(argv[2], "read") == 0;
    OK(fb_run_open(argv[1], reads ? "r" : "a", &small, &run));
    if (reads) read_all(run);
    else if (strcmp(argv[2], "go") == 0) go(run);
    else if (strcmp(argv[2], "again") == 0) again(run);
    else if (strcmp(argv[2], "lose") == 0) lose(run);
    else for (int64_t step = 0; step < 4; ++step) take(run, step);
    if (strcmp(argv[2], "lose") != 0) OK(fb_run_close(run));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
