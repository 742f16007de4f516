/* Loops of every shape, the same as in Fortran (tests/fortran/programs/heads.f90): program RUN. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

struct kept {
    fb_run *run;
    int64_t steps[8];
    int n;
};

static fb_status keep(int64_t step, void *user)
{
    struct kept *kept = user;
    fb_snapshot *snapshot = NULL;
    CHECK(kept->n < 8);
    kept->steps[kept->n++] = step;
    OK(fb_snapshot_begin(kept->run, step, 0, &snapshot));
    OK(fb_snapshot_put(snapshot, "x", FB_ONE(&step, FB_I64), NULL, NULL));
    OK(fb_snapshot_end(snapshot));
    return fb_snapshot_free(snapshot);
}

static int are(const struct kept *kept, int n, const int64_t *steps)
{
    return kept->n == n && memcmp(kept->steps, steps, (size_t)n * sizeof *steps) == 0;
}

/* Snapshots that the program counts: number 2 is of step 20, so the loop is told where it goes on. */
static void goes_on_where_it_says(const char *path)
{
    fb_run *run = NULL;
    fb_snapshot *snapshot = NULL;
    int64_t step = -1, position = 0, heads = 0;
    OK(fb_run_open(path, "w", NULL, &run));
    while (fb_step(run, &step, 28) > 0)
        if (step % 10 == 0) {
            OK(fb_snapshot_begin(run, step / 10, 0, &snapshot));
            OK(fb_snapshot_put(snapshot, "x", FB_ONE(&step, FB_I64), NULL, NULL));
            OK(fb_snapshot_end(snapshot));
            OK(fb_snapshot_free(snapshot));
        }
    OK(fb_restart(run, &snapshot));
    OK(fb_position(run, &position));
    CHECK(position == -1);
    OK(fb_steps_from(run, snapshot));
    CHECK(fb_step(run, &step, 40) == -FB_CONFLICT && strstr(fb_last_error(), "snapshot 2 was taken at step 20"));
    fb_loop_opts at = { .size = sizeof at, .start = 22 };
    OK(fb_steps_with(run, &at));
    CHECK(fb_step(run, &step, 40) == -FB_CONFLICT && strstr(fb_last_error(), "start=20 if step 20 is to be"));
    at.start = 20;
    OK(fb_steps_with(run, &at));
    while (fb_step(run, &step, 40) > 0) CHECK(step == 20 + heads++);
    CHECK(heads == 20 && step == 40);
    OK(fb_snapshot_free(snapshot));
    OK(fb_run_close(run));

    /* At head 0, too. */
    OK(fb_run_open(path, "w", NULL, &run));
    if (fb_step(run, &step, 10) > 0) {
        OK(fb_snapshot_begin(run, 5, 0, &snapshot));
        OK(fb_snapshot_put(snapshot, "x", FB_ONE(&step, FB_I64), NULL, NULL));
        OK(fb_snapshot_end(snapshot));
        OK(fb_snapshot_free(snapshot));
    }
    OK(fb_restart(run, &snapshot));
    at.start = 0;
    OK(fb_steps_from(run, snapshot));
    CHECK(fb_step(run, &step, 10) == -FB_CONFLICT && strstr(fb_last_error(), "start=0"));
    OK(fb_steps_with(run, &at));
    CHECK(fb_step(run, &step, 10) > 0 && step == 0);
    OK(fb_snapshot_free(snapshot));
    OK(fb_run_close(run));
}

/* fb_steps_from says where, and fb_steps_with how. */
static void goes_on_at_a_snapshot_with_options(const char *path)
{
    fb_run *run = NULL;
    fb_snapshot *snapshot = NULL;
    int64_t step = -1;
    OK(fb_run_open(path, "w", NULL, &run));
    while (fb_step(run, &step, 5) > 0)
        if (step == 4) {
            OK(fb_snapshot_begin(run, step, 0, &snapshot));
            OK(fb_snapshot_put(snapshot, "x", FB_ONE(&step, FB_I64), NULL, NULL));
            OK(fb_snapshot_end(snapshot));
            OK(fb_snapshot_free(snapshot));
        }
    OK(fb_restart(run, &snapshot));
    OK(fb_steps_from(run, snapshot));
    fb_loop_opts strides = { .size = sizeof strides, .stride = 3 };
    OK(fb_steps_with(run, &strides));
    CHECK(fb_step(run, &step, 10) == 1 && step == 4);
    CHECK(fb_step(run, &step, 10) == 1 && step == 7);
    CHECK(fb_step(run, &step, 10) == 0 && step == 10);
    OK(fb_snapshot_free(snapshot));
    OK(fb_run_close(run));
}

/* In the body of a loop that was left only the program knows whether the step is computed. */
static void says_whether_a_step_that_was_left_is_computed(const char *path)
{
    fb_run *run = NULL;
    int64_t step = -1;
    OK(fb_run_open(path, "w", NULL, &run));
    while (fb_step(run, &step, 30) > 0)
        if (step == 23) break;
    OK(fb_steps_from(run, NULL));
    CHECK(fb_step(run, &step, 30) == -FB_CONFLICT && strstr(fb_last_error(), "start=23 if step 23 was not computed"));
    CHECK(strstr(fb_last_error(), "start=24 if it was") != NULL);
    OK(fb_run_close(run));
}

static fb_status fail(int64_t step, void *user)
{
    (void)user;
    return step == 4 ? fb_fail(FB_FULL, "the tape is full") : FB_OK;
}

/* A function of the program that fails by itself says why, and fb_step says it again. */
static void says_why_the_program_could_not_keep_its_state(const char *path)
{
    fb_run *run = NULL;
    const fb_save_opts every = { .size = sizeof every, .every = 2 };
    int64_t step = -1, heads = 0;
    int more = 0;
    FAILS(FB_BAD_ARGUMENT, "0 is no status of a failure", fb_fail(FB_OK, "fine"));
    FAILS(FB_BAD_ARGUMENT, "99 is no status", fb_fail((fb_status)99, "fine"));
    FAILS(FB_BAD_ARGUMENT, "text", fb_fail(FB_IO, NULL));
    OK(fb_run_open(path, "w", NULL, &run));
    OK(fb_on_save(run, fail, NULL, &every));
    while ((more = fb_step(run, &step, 9)) > 0) heads += 1;
    CHECK(heads == 4 && more == -FB_FULL && strstr(fb_last_error(), "the tape is full") != NULL);
    OK(fb_run_close(run));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    struct kept kept = { .n = 0 };
    int64_t step = -1, position = -1, heads = 0;
    /* Who says no size of the buffer has the one of the environment. */
    fb_stats stats = { .size = sizeof stats };
    CHECK(setenv("FOREBAY_BUFFER", "3MiB", 1) == 0);
    OK(fb_run_open(argv[1], "w", NULL, &kept.run));
    OK(fb_run_stats(kept.run, &stats));
    CHECK(stats.buffer_bytes == 3 << 20);
    fb_save_opts every = { .size = sizeof every, .every = -1 };
    FAILS(FB_BAD_ARGUMENT, "every -1 steps", fb_on_save(kept.run, keep, &kept, &every));
    every.every = 10;
    OK(fb_on_save(kept.run, keep, &kept, &every));

    fb_loop_opts strides = { .size = sizeof strides, .stride = 7 };
    OK(fb_steps_with(kept.run, &strides));
    CHECK(fb_step(kept.run, &step, 20) == -FB_BAD_ARGUMENT && strstr(fb_last_error(), "does not meet 20"));
    OK(fb_steps_with(kept.run, &strides));
    while (fb_step(kept.run, &step, 21) > 0) CHECK(step == 7 * heads++);
    CHECK(heads == 3 && step == 21 && are(&kept, 2, (int64_t[]){ 0, 21 }));

    /* Another loop that begins below the state that is there. */
    CHECK(fb_step(kept.run, &step, 30) == -FB_CONFLICT && strstr(fb_last_error(), "a loop from 0 is begun"));
    CHECK(strstr(fb_last_error(), "the state of step 21: numbers of steps grow; give it a start of 21 or more") != NULL);
    CHECK(fb_step(kept.run, &step, 21) == -FB_CONFLICT);
    strides = (fb_loop_opts){ .size = sizeof strides, .start = 29 };
    OK(fb_steps_with(kept.run, &strides));
    CHECK(fb_step(kept.run, &step, 25) == -FB_BAD_ARGUMENT && strstr(fb_last_error(), "a loop from 29 to 25 has no"));

    FAILS(FB_CONFLICT, "no loop is under way", fb_finish(kept.run));
    strides = (fb_loop_opts){ .size = sizeof strides, .start = 21 };
    OK(fb_steps_with(kept.run, &strides));
    while (fb_step(kept.run, &step, FB_NO_END) > 0)
        if (step == 33) OK(fb_finish(kept.run));
    CHECK(step == 34 && are(&kept, 4, (int64_t[]){ 0, 21, 30, 34 }));

    CHECK(fb_reach(kept.run, 34) == 1 && fb_reach(kept.run, 34) == 1 && fb_reach(kept.run, 40) == 1);
    CHECK(fb_reach(kept.run, 39) == -FB_CONFLICT && strstr(fb_last_error(), "behind step 40"));
    OK(fb_finish(kept.run));
    CHECK(fb_reach(kept.run, 45) == 0 && fb_reach(kept.run, 50) == 0);
    OK(fb_position(kept.run, &position));
    CHECK(position == 45 && are(&kept, 6, (int64_t[]){ 0, 21, 30, 34, 40, 45 }));
    OK(fb_run_close(kept.run));
    goes_on_where_it_says(argv[1]);
    goes_on_at_a_snapshot_with_options(argv[1]);
    says_whether_a_step_that_was_left_is_computed(argv[1]);
    says_why_the_program_could_not_keep_its_state(argv[1]);
    puts("done");
    return 0;
}
