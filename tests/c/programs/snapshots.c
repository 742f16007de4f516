/* Snapshots taken and read: snapshots PLACE. */

#include "check.h"

#include <math.h>

enum { NX = 6, NY = 4 };

static void take(fb_run *run, int64_t step)
{
    double field[NX][NY];
    float particles[3][2] = { { 1, 2 }, { 3, 4 }, { 5, 6 } };
    for (int i = 0; i < NX * NY; ++i) (&field[0][0])[i] = (double)step * 100 + i;
    const int64_t shape[2] = { NX, NY }, half[2] = { NX / 2, NY }, lower[2] = { 0, 0 }, upper[2] = { NX / 2, 0 };
    const int64_t three[2] = { 3, 2 };
    fb_snapshot *snapshot = NULL;
    OK(fb_snapshot_begin(run, step, step * 0.5, &snapshot));
    OK(fb_snapshot_put(snapshot, "whole", FB_DENSE(field, FB_F64, shape[0], shape[1]), NULL, NULL));
    OK(fb_snapshot_put(snapshot, "blocks", FB_DENSE(field, FB_F64, half[0], half[1]), lower, shape));
    OK(fb_snapshot_put(snapshot, "blocks", FB_DENSE(field[NX / 2], FB_F64, half[0], half[1]), upper, shape));
    OK(fb_snapshot_put(snapshot, "particles", FB_DENSE(particles, FB_F32, three[0], three[1]), FB_APPEND, NULL));
    const fb_piece_opts opts = { .size = sizeof opts, .units = "V/m" };
    OK(fb_snapshot_put_with(snapshot, "unit", FB_DENSE(field, FB_F64, shape[0], shape[1]), NULL, NULL, &opts));
    const int64_t inner[2] = { NX - 2, NY - 2 }, lines[2] = { sizeof *field, sizeof **field };
    const fb_array interior = { FB_F64, 2, inner, lines, &field[1][1] };
    OK(fb_snapshot_put(snapshot, "interior", &interior, NULL, NULL));
    /* The buffer is the program's again: what is written now is not in the snapshot. */
    memset(field, 0, sizeof field);
    fb_array place = { .dtype = FB_F64, .ndim = 2, .shape = shape };
    OK(fb_snapshot_allocate(snapshot, "allocated", &place, NULL, NULL, &opts));
    for (int i = 0; i < NX * NY; ++i) ((double *)place.data)[i] = (double)step + i;
    OK(fb_snapshot_end(snapshot));
    OK(fb_snapshot_wait(snapshot, FB_FOREVER));
    FAILS(FB_CLOSED, "", fb_snapshot_put(snapshot, "late", FB_DENSE(field, FB_F64, shape[0], shape[1]), NULL, NULL));
    FAILS(FB_BAD_ARGUMENT, "fb_snapshot_at",
          fb_snapshot_get(snapshot, "whole", FB_DENSE(field, FB_F64, shape[0], shape[1])));
    OK(fb_snapshot_free(snapshot));
}

static void over_time(fb_run *run, const int64_t *steps, int64_t count)
{
    double whole[2][NX][NY], one[2], part[2][2][2] = { { { 0 } } };
    const int64_t shape[3] = { 2, NX, NY }, single[3] = { 2, 1, 1 }, few[3] = { 2, 2, 2 };
    const int64_t at[2] = { 2, 1 }, begin[2] = { 0, 1 }, stride[2] = { 2, 1 };
    const fb_series_opts point = { .size = sizeof point, .offset = at };
    const fb_series_opts region = { .size = sizeof region, .offset = begin, .step = stride };
    const fb_series_opts filled = { .size = sizeof filled, .offset = at, .missing_nan = 1 };
    const fb_array all = { FB_F64, 3, shape, NULL, whole };
    OK(fb_series(run, "whole", steps, count, &all, NULL));
    for (int i = 0; i < NX * NY; ++i) CHECK((&whole[0][0][0])[i] == i && (&whole[1][0][0])[i] == 1000 + i);
    const fb_array value = { FB_F64, 3, single, NULL, one };
    OK(fb_series(run, "whole", NULL, 0, &value, &point));
    CHECK(one[0] == 2 * NY + 1 && one[1] == 1000 + 2 * NY + 1);
    OK(fb_series(run, "whole", NULL, 0, &value, &filled));
    /* The steps along the last axis of memory. */
    const int64_t apart[3] = { sizeof(double), 4 * sizeof(double), 2 * sizeof(double) };
    const fb_array turned = { FB_F64, 3, few, apart, part };
    const int64_t back[2] = { 10, 0 };
    OK(fb_series(run, "whole", back, 2, &turned, &region));
    CHECK(part[0][0][0] == 1001 && part[0][0][1] == 1 && part[1][1][0] == 1000 + 2 * NY + 2 && part[0][1][1] == 2);
    FAILS(FB_NOT_FOUND, "none", fb_series(run, "none", NULL, 0, &value, &point));
    FAILS(FB_BAD_ARGUMENT, "2 steps", fb_series(run, "whole", NULL, 0, &(fb_array){ FB_F64, 3, (const int64_t[]){ 3, 1, 1 }, NULL, whole }, &point));
    FAILS(FB_BAD_ARGUMENT, "no axis", fb_series(run, "whole", NULL, 0, &(fb_array){ FB_F64, 0, NULL, NULL, one }, &point));
    FAILS(FB_BAD_ARGUMENT, "was asked for", fb_series(run, "whole", NULL, 0, &(fb_array){ FB_F32, 3, single, NULL, one }, &point));
}

static void look_at(fb_run *run, int64_t step)
{
    double field[NX][NY], part[2];
    float particles[3][2];
    const int64_t shape[2] = { NX, NY }, three[2] = { 3, 2 }, offset[2] = { 2, 1 }, count[2] = { 1, 2 };
    fb_snapshot *snapshot = NULL;
    OK(fb_snapshot_at(run, step, &snapshot));
    static const char *const arrays[] = { "whole", "blocks", "unit" };
    for (int a = 0; a < 3; ++a) {
        memset(field, 0, sizeof field);
        OK(fb_snapshot_get(snapshot, arrays[a], FB_DENSE(field, FB_F64, shape[0], shape[1])));
        for (int i = 0; i < NX * NY; ++i) CHECK((&field[0][0])[i] == (double)step * 100 + i);
    }
    double interior[NX - 2][NY - 2];
    OK(fb_snapshot_get(snapshot, "interior", FB_DENSE(interior, FB_F64, NX - 2, NY - 2)));
    CHECK(interior[0][0] == field[1][1] && interior[NX - 3][NY - 3] == field[NX - 2][NY - 2]);
    OK(fb_snapshot_get(snapshot, "allocated", FB_DENSE(field, FB_F64, shape[0], shape[1])));
    CHECK(field[NX - 1][NY - 1] == (double)step + NX * NY - 1);
    OK(fb_snapshot_get(snapshot, "particles", FB_DENSE(particles, FB_F32, three[0], three[1])));
    CHECK(particles[2][1] == 6);
    OK(fb_snapshot_get_part(snapshot, "whole", offset, NULL, FB_DENSE(part, FB_F64, count[0], count[1])));
    CHECK(part[0] == (double)step * 100 + 9 && part[1] == (double)step * 100 + 10);

    fb_array map = { .ndim = 0 };
    if (fb_snapshot_map(snapshot, "whole", FB_F64, &map) == FB_OK) {
        CHECK(map.ndim == 2 && map.shape[1] == NY && map.strides == NULL);
        for (int i = 0; i < NX * NY; ++i) CHECK(((double *)map.data)[i] == (double)step * 100 + i);
        OK(fb_free(map.data));
    } else {
        CHECK(strstr(fb_last_error(), "another host") != NULL);
    }

    fb_info info;
    fb_step_info about = { .size = sizeof about };
    char **names = NULL;
    int64_t how_many = 0;
    OK(fb_snapshot_info(snapshot, "unit", &info));
    CHECK(strcmp(info.units, "V/m") == 0 && info.ndim == 2 && info.shape[0] == NX);
    OK(fb_snapshot_step(snapshot, &about));
    CHECK(about.step == step && about.time == step * 0.5 && about.nbytes >= 4 * NX * NY * 8 && about.finished == 0);
    OK(fb_snapshot_names(snapshot, &names, &how_many));
    CHECK(how_many == 6);
    OK(fb_free(names));
    FAILS(FB_NOT_FOUND, "B", fb_snapshot_get(snapshot, "B", FB_DENSE(field, FB_F64, shape[0], shape[1])));
    FAILS(FB_BAD_ARGUMENT, "complete", fb_snapshot_end(snapshot));
    OK(fb_snapshot_free(snapshot));
}

static void bad_takers(fb_run *run)
{
    const double x[4] = { 1, 2, 3, 4 };
    const int64_t four = 4, zero = 0, three = 3;
    fb_snapshot *snapshot = NULL, *second = NULL;
    FAILS(FB_CONFLICT, "10", fb_snapshot_begin(run, 10, NAN, &snapshot));
    FAILS(FB_BAD_ARGUMENT, "-1", fb_snapshot_begin(run, -1, NAN, &snapshot));
    OK(fb_snapshot_begin(run, 99, NAN, &snapshot));
    FAILS(FB_CONFLICT, "99", fb_snapshot_begin(run, 100, NAN, &second));
    FAILS(FB_BAD_ARGUMENT, "global", fb_snapshot_put(snapshot, "x", FB_DENSE(x, FB_F64, four), &zero, NULL));
    FAILS(FB_BAD_ARGUMENT, "", fb_snapshot_put(snapshot, "x", FB_DENSE(x, FB_F64, four), &zero, &three));
    OK(fb_snapshot_put(snapshot, "x", FB_DENSE(x, FB_F64, four), NULL, NULL));
    FAILS(FB_BAD_ARGUMENT, "x", fb_snapshot_put(snapshot, "x", FB_DENSE(x, FB_F64, four), NULL, NULL));
    OK(fb_snapshot_discard(snapshot));
    OK(fb_snapshot_discard(snapshot));
    FAILS(FB_CLOSED, "", fb_snapshot_end(snapshot));
    OK(fb_snapshot_free(snapshot));
    /* One that is freed, and never ended, is discarded. */
    OK(fb_snapshot_begin(run, 98, NAN, &snapshot));
    OK(fb_snapshot_put(snapshot, "x", FB_DENSE(x, FB_F64, four), NULL, NULL));
    OK(fb_snapshot_free(snapshot));
    FAILS(FB_NOT_FOUND, "98", fb_snapshot_at(run, 98, &snapshot));
}

static void back_to_a_checkpoint(fb_run *run)
{
    fb_snapshot *snapshot = NULL;
    fb_checkpoint_info *found = NULL;
    int64_t count = 0;
    take(run, 20);
    OK(fb_checkpoint(run, NULL, NULL));
    FAILS(FB_NOT_FOUND, "before the wave breaks", fb_restart_from(run, "the wave", &snapshot));
    OK(fb_restart_from(run, "before the wave breaks", &snapshot));
    fb_step_info about = { .size = sizeof about };
    OK(fb_snapshot_step(snapshot, &about));
    CHECK(about.step == 10);
    OK(fb_checkpoints(run, &found, &count));
    CHECK(count == 2 && found[1].id == 2 && found[1].parent == 1 && found[1].step == 20 && !found[1].kept);
    CHECK(strcmp(found[0].tag, "before the wave breaks") == 0 && strcmp(found[1].tag, "") == 0);
    CHECK(found[0].id == 1 && found[0].parent == 0 && found[0].step == 10 && found[0].time == 5.0 && found[0].kept);
    OK(fb_free(found));
    FAILS(FB_NOT_FOUND, "20", fb_snapshot_at(run, 20, &snapshot));
}

/* Which snapshots stay. */
static void kept(const char *place)
{
    fb_run *run = NULL;
    fb_open_opts opts = { .size = sizeof opts, .buffer = 8 << 20, .keep = "last" };
    FAILS(FB_BAD_ARGUMENT, "\"last 5\"", fb_run_open(place, "w", &opts, &run));
    opts.keep = "last 1, every 20";
    FAILS(FB_BAD_ARGUMENT, "mode \"r\"", fb_run_open(place, "r", &opts, &run));
    OK(fb_run_open(place, "w", &opts, &run));
    for (int64_t step = 0; step <= 50; step += 10) take(run, step);
    OK(fb_flush(run));
    int64_t *steps = NULL, count = 0;
    OK(fb_snapshots(run, &steps, &count));
    CHECK(count == 4 && steps[0] == 0 && steps[1] == 20 && steps[2] == 40 && steps[3] == 50);
    OK(fb_free(steps));
    OK(fb_run_close(run));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    fb_run *run = NULL;
    const fb_open_opts opts = { .size = sizeof opts, .buffer = 8 << 20, .full = "block" };
    OK(fb_run_open(argv[1], "w", &opts, &run));
    fb_snapshot *snapshot = NULL;
    OK(fb_restart(run, &snapshot));
    CHECK(snapshot == NULL);
    OK(fb_snapshot_last(run, &snapshot));
    CHECK(snapshot == NULL);
    double amplitude = 0.25;
    OK(fb_parameter_f64(run, "amplitude", &amplitude, NULL));
    take(run, 0);
    take(run, 10);
    int64_t marked = -1;
    OK(fb_checkpoint(run, "before the wave breaks", &marked));
    CHECK(marked == 10);
    look_at(run, 0);
    look_at(run, 10);
    bad_takers(run);

    int64_t *steps = NULL, count = 0;
    OK(fb_snapshots(run, &steps, &count));
    CHECK(count == 2 && steps[0] == 0 && steps[1] == 10);
    over_time(run, steps, count);
    OK(fb_free(steps));
    fb_stats stats = { .size = sizeof stats };
    OK(fb_run_stats(run, &stats));
    CHECK(stats.steps == 2 && stats.durable_step == 10 && stats.snapshot_bytes > 0);
    OK(fb_run_close_unfinished(run));

    OK(fb_run_open(argv[1], "r+", &opts, &run));
    amplitude = 0.5;
    OK(fb_parameter_f64(run, "amplitude", &amplitude, NULL));
    OK(fb_restart(run, &snapshot));
    fb_step_info about = { .size = sizeof about };
    OK(fb_snapshot_step(snapshot, &about));
    CHECK(about.step == 10 && about.finished == 0 && amplitude == 0.25);
    char *json = NULL;
    OK(fb_snapshot_parameters(snapshot, &json));
    CHECK(strcmp(json, "{\"amplitude\":0.25}") == 0);
    OK(fb_free(json));
    OK(fb_steps_from(run, snapshot));
    int64_t step = -1, loops = 0, position = -1;
    int taken = 1;
    OK(fb_position(run, &position));
    CHECK(position == 10);
    FAILS(FB_BAD_ARGUMENT, "fb_snapshot_begin", fb_snapshot_taken(snapshot, &taken));
    while (fb_step(run, &step, 13) > 0) {
        CHECK(step == 10 + loops++);
        if (step > 10) continue;
        /* The one that the run went back to: nothing is done. */
        fb_snapshot *same = NULL;
        OK(fb_snapshot_begin(run, step, NAN, &same));
        OK(fb_snapshot_taken(same, &taken));
        OK(fb_snapshot_put(same, "x", FB_ONE(&amplitude, FB_F64), NULL, NULL));
        OK(fb_snapshot_end(same));
        OK(fb_snapshot_wait(same, FB_FOREVER));
        OK(fb_snapshot_free(same));
        CHECK(!taken);
    }
    OK(fb_position(run, &position));
    CHECK(loops == 3 && step == 13 && position == 13);
    OK(fb_run_close(run));

    /* The handle of the snapshot went with its run; a run that came to its end says so. */
    FAILS(FB_CLOSED, "fb_snapshot", fb_snapshot_step(snapshot, &about));
    OK(fb_run_open(argv[1], "r+", &opts, &run));
    OK(fb_restart(run, &snapshot));
    OK(fb_snapshot_step(snapshot, &about));
    CHECK(about.step == 10 && about.finished == 1);
    back_to_a_checkpoint(run);
    OK(fb_run_close(run));
    kept(argv[1]);
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
