/* Watching and steering: watch PLACE. Goes until somebody presses Quit; prints what it was told, and works on behind
   its loop until its input ends. */

#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <unistd.h>

static const int64_t FAR_AWAY = INT64_C(1) << 40;

struct counts {
    int64_t saves, kicks;
};

static fb_status save(int64_t step, void *user)
{
    struct counts *counts = user;
    CHECK(step >= 0);
    counts->saves += 1;
    return FB_OK;
}

/* A button whose function fails: its text is shown to whoever pressed it, and the run goes on. */
static fb_status kick(int64_t step, void *user)
{
    struct counts *counts = user;
    fb_info info;
    (void)step;
    counts->kicks += 1;
    return fb_dataset_info(NULL, "E", 0, &info);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    fb_run *run = NULL;
    const fb_open_opts small = { .size = sizeof small, .buffer = 8 << 20 };
    OK(fb_run_open(argv[1], "w", &small, &run));
    struct counts counts = { 0, 0 };
    double nu = 0.5;
    int64_t every = 10, seed = INT64_C(9007199254740993); /* no double is that */
    int filter = 0;
    char scheme[16] = "upwind";
    const double least = 0, most = 4;
    const fb_parameter_opts bounds = {
        .size = sizeof bounds, .min = &least, .max = &most, .units = "1/s", .help = "rate of collisions"
    };
    OK(fb_parameter_f64(run, "nu", &nu, &bounds));
    OK(fb_parameter_i64(run, "every", &every, NULL));
    OK(fb_parameter_i64(run, "seed", &seed, NULL));
    OK(fb_parameter_bool(run, "filter", &filter, NULL));
    OK(fb_parameter_str(run, "scheme", scheme, sizeof scheme, NULL));
    double far = 5;
    FAILS(FB_BAD_ARGUMENT, "far", fb_parameter_f64(run, "far", &far, &bounds));
    OK(fb_on_save(run, save, &counts, NULL));
    OK(fb_on_command(run, "kick", kick, &counts));
    OK(fb_message(run, FB_WARNING, "the wave breaks"));
    FAILS(FB_BAD_ARGUMENT, "7", fb_message(run, (fb_level)7, "?"));

    const fb_diagram_opts phase = { .size = sizeof phase, .kind = "scatter", .x = "x [m]", .y = "v [m/s]" };
    const fb_diagram_opts energy = {
        .size = sizeof energy, .kind = "history", .x = "t [s]", .y = "W [J]", .yscale = "log"
    };
    fb_diagram *curve = NULL, *points = NULL, *history = NULL;
    OK(fb_diagram_open(run, "Field", NULL, &curve));
    OK(fb_diagram_open(run, "Phase space", &phase, &points));
    OK(fb_diagram_open(run, "Energy", &energy, &history));
    const fb_diagram_opts pie = { .size = sizeof pie, .kind = "pie" };
    fb_diagram *none = NULL;
    FAILS(FB_BAD_ARGUMENT, "pie", fb_diagram_open(run, "Pie", &pie, &none));
    CHECK(none == NULL);

    char *operator_url = NULL, *viewer_url = NULL;
    OK(fb_monitor(run, &operator_url, &viewer_url));
    CHECK(strncmp(operator_url, "http://127.0.0.1:", 17) == 0 && strncmp(viewer_url, "http://127.0.0.1:", 17) == 0);
    CHECK(strcmp(operator_url, viewer_url) != 0);
    char *printed = NULL;
    OK(fb_monitor_url(run, &printed));
    /* A terminal gets the link of who may steer, and no log does. */
    CHECK((strcmp(printed, viewer_url) == 0) == !isatty(STDOUT_FILENO));
    OK(fb_free(printed));
    OK(fb_free(operator_url));
    OK(fb_free(viewer_url));

    double x[64], y[64];
    for (int i = 0; i < 64; ++i) x[i] = y[i] = i;
    static const char *const names[] = { "field", "kinetic" };
    int wants = 0;
    OK(fb_diagram_wants(curve, NULL, &wants));
    CHECK(wants == 1);
    int64_t step = -1, seen = 0;
    int going = 0;
    puts("ready");
    fflush(stdout);
    while ((going = fb_step(run, &step, FAR_AWAY)) > 0) {
        CHECK(step == seen++);
        OK(fb_curve_update(curve, NULL, 64, x, y));
        OK(fb_curve_update(points, "electrons", 64, x, y));
        if (step % 64 == 0) {
            const double values[2] = { 1.0, (double)step };
            OK(fb_history_append(history, (double)step, 2, names, values));
        }
        if (step == 0) FAILS(FB_BAD_ARGUMENT, "", fb_curve_update(history, NULL, 64, x, y));
        if (step == 0) CHECK(fb_step(run, &step, 77) == -FB_BAD_ARGUMENT && strstr(fb_last_error(), "77") != NULL);
    }
    CHECK(going == 0);
    CHECK(fb_step(run, &step, FAR_AWAY) == 0);
    printf("nu %g, every %lld, seed %lld, filter %d, scheme %s, saves %lld, kicks %lld\n", nu, (long long)every,
           (long long)seed, filter, scheme, (long long)counts.saves, (long long)counts.kicks);
    fflush(stdout);
    CHECK(getchar() == EOF);
    OK(fb_diagram_free(points));
    OK(fb_run_close(run));
    NOTHING_IN_USE();
    return 0;
}
