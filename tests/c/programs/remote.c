/* A run on another host: remote ADDRESS. Small sets, snapshots, what is read back; then it goes until Quit. */

#include "check.h"

enum { NX = 300, NY = 200, STEPS = 3, SETS = 10 };

static double field[NX][NY];

static void fill(int64_t step)
{
    for (int i = 0; i < NX * NY; ++i) (&field[0][0])[i] = (double)step * 1000000 + i;
}

static void take(fb_run *run, int64_t step)
{
    const int64_t shape[2] = { NX, NY };
    fb_snapshot *snapshot = NULL;
    fill(step);
    OK(fb_snapshot_begin(run, step, (double)step * 0.5, &snapshot));
    OK(fb_snapshot_put(snapshot, "field", FB_DENSE(field, FB_F64, shape[0], shape[1]), NULL, NULL));
    OK(fb_snapshot_end(snapshot));
    memset(field, 0, sizeof field);
    OK(fb_snapshot_wait(snapshot, FB_FOREVER));
    OK(fb_snapshot_free(snapshot));
}

static void read_back(fb_run *run)
{
    const int64_t two[1] = { 2 }, shape[2] = { NX, NY }, offset[2] = { 10, 20 }, count[2] = { 1, 2 };
    int32_t pair[2] = { 0, 0 };
    double part[2] = { 0, 0 };
    fb_snapshot *snapshot = NULL;
    fb_info info;
    OK(fb_get(run, "small/7", 0, FB_DENSE(pair, FB_I32, two[0])));
    CHECK(pair[0] == 7 && pair[1] == 49);
    OK(fb_dataset_info(run, "small/7", 0, &info));
    CHECK(info.version == 1 && info.nbytes == 8);
    FAILS(FB_NOT_FOUND, "small/99", fb_get(run, "small/99", 0, FB_DENSE(pair, FB_I32, two[0])));
    OK(fb_snapshot_at(run, STEPS - 1, &snapshot));
    OK(fb_snapshot_get(snapshot, "field", FB_DENSE(field, FB_F64, shape[0], shape[1])));
    for (int i = 0; i < NX * NY; ++i) CHECK((&field[0][0])[i] == (STEPS - 1) * 1000000.0 + i);
    OK(fb_snapshot_get_part(snapshot, "field", offset, NULL, FB_DENSE(part, FB_F64, count[0], count[1])));
    CHECK(part[0] == (STEPS - 1) * 1000000.0 + 10 * NY + 20 && part[1] == part[0] + 1);
    OK(fb_snapshot_free(snapshot));
}

static fb_status save(int64_t step, void *user)
{
    CHECK(step >= STEPS);
    *(int *)user += 1;
    return FB_OK;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2 && strncmp(argv[1], "fb://", 5) == 0);
    fb_run *run = NULL;
    const fb_open_opts small = { .size = sizeof small, .buffer = 8 << 20 };
    OK(fb_run_open(argv[1], "w", &small, &run));
    double nu = 0.5;
    int saves = 0;
    OK(fb_parameter_f64(run, "nu", &nu, NULL));
    OK(fb_on_save(run, save, &saves, NULL));
    for (int32_t n = 0; n < SETS; ++n) {
        char name[32];
        const int64_t two[1] = { 2 };
        const int32_t pair[2] = { n, n * n };
        snprintf(name, sizeof name, "small/%d", (int)n);
        OK(fb_put(run, name, 0, FB_DENSE(pair, FB_I32, two[0])));
    }
    int64_t step = -1;
    int going = 0;
    while ((going = fb_step(run, &step, INT64_C(1) << 40)) > 0) {
        if (step < STEPS) take(run, step);
        if (step == STEPS) {
            read_back(run);
            puts("ready");
            fflush(stdout);
        }
    }
    CHECK(going == 0);
    OK(fb_run_close(run));
    NOTHING_IN_USE();
    printf("nu %g, saves %d\n", nu, saves);
    return 0;
}
