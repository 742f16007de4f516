/* small_forebay RUN COUNT: small data sets, one by one, into a run; then flushed, then read again. */
#include "ours.h"

int main(int argc, char **argv) {
    check(argc > 2, "reading the arguments");
    int count = atoi(argv[2]), wrong = 0;
    static int32_t values[2000], out[1000];
    small_fill(values, 2000);
    fb_open_opts opts = {.size = sizeof opts};
    opts.ranks = 1;
    fb_run *run;
    done(fb_run_open(argv[1], "w", &opts, &run));

    double start = now();
    for (int i = 0; i < count; i++) {
        char name[32];
        int64_t n = small_length(i);
        snprintf(name, sizeof name, "set/%05d", i);
        done(fb_put(run, name, 0, FB_DENSE(values + small_first(i), FB_I32, n)));
    }
    double written = now();
    done(fb_flush(run));
    double durable = now();
    for (int i = 0; i < count; i++) {
        char name[32];
        int64_t n = small_length(i);
        snprintf(name, sizeof name, "set/%05d", i);
        done(fb_get(run, name, 0, FB_DENSE(out, FB_I32, n)));
        wrong += out[0] != small_first(i) || out[n - 1] != small_first(i) + n - 1;
    }
    double read = now();
    check(wrong == 0, "reading back");
    done(fb_run_close(run));
    print_small(count, written - start, durable - start, read - durable);
    return 0;
}
