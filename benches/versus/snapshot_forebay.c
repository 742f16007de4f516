/* snapshot_forebay put|allocate DIRECTORY STEPS MIB SECONDS [RANK RANKS BUFFER_MIB]: four arrays a
 * step, MIB in all, of this rank; computing SECONDS between. `allocate` fills its arrays in place,
 * as a simulation would that keeps them there: filling them is not counted. */
#include "ours.h"

int main(int argc, char **argv) {
    check(argc > 5, "reading the arguments");
    int in_place = !strcmp(argv[1], "allocate"), steps = atoi(argv[3]);
    int64_t n = (int64_t)atoi(argv[4]) << 17, part = n / 4;
    double seconds = atof(argv[5]), *field = malloc((size_t)n * 8), *visible = calloc((size_t)steps, 8);
    check(field && visible, "taking memory");
    for (int64_t i = 0; i < n; i++) field[i] = (double)(i % 251);
    fb_open_opts opts = {.size = sizeof opts};
    opts.rank = argc > 6 ? atoi(argv[6]) : 0;
    opts.ranks = argc > 7 ? atoi(argv[7]) : 1;
    opts.buffer = (uint64_t)(argc > 8 ? atoi(argv[8]) : 1024) << 20;
    int64_t offset = opts.rank * part, global = opts.ranks * part;
    char path[4096];
    snprintf(path, sizeof path, "%s/forebay", argv[2]);
    fb_run *run;
    done(fb_run_open(path, "w", &opts, &run));

    double start = now();
    for (int step = 0; step < steps; step++) {
        if (seconds > 0) compute(seconds);
        fb_snapshot *snapshot;
        fb_array place[4];
        double began = now(), filling = 0;
        done(fb_snapshot_begin(run, step, step, &snapshot));
        for (int a = 0; a < 4; a++) {
            char name[2] = {(char)('a' + a), 0};
            place[a] = (fb_array){.dtype = FB_F64, .ndim = 1, .shape = &part};
            if (in_place)
                done(fb_snapshot_allocate(snapshot, name, &place[a], &offset, &global, NULL));
            else
                done(fb_snapshot_put(snapshot, name, FB_DENSE(field + a * part, FB_F64, part), &offset, &global));
        }
        if (in_place) {
            double from = now();
            for (int a = 0; a < 4; a++) memcpy(place[a].data, field + a * part, (size_t)part * 8);
            filling = now() - from;
        }
        done(fb_snapshot_end(snapshot));
        visible[step] = now() - began - filling;
        done(fb_snapshot_free(snapshot));
    }
    done(fb_flush(run));
    double durable = now() - start;
    done(fb_run_close(run));
    print_steps(visible, steps, durable);
    return 0;
}
