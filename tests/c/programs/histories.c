/* A rank of several, each of which appends to the same histories: histories PLACE.
   Rank and number of ranks come from the launcher's environment. */

#include "check.h"

enum { STEPS = 10 };

int main(int argc, char **argv)
{
    static const char *const ways[] = { NULL, "sum", "min", "max", "mean" };
    static const char *const titles[] = { "kept", "sum", "min", "max", "mean" };
    static const char *const names[] = { "w" };
    fb_run *run = NULL;
    fb_diagram *diagrams[5] = { NULL };
    int32_t rank = -1, ranks = 0;
    int64_t step = 0;
    CHECK(argc == 2);
    OK(fb_run_open(argv[1], "a", NULL, &run));
    OK(fb_rank(run, &rank, &ranks));
    for (int d = 0; d < 5; ++d) {
        const fb_diagram_opts opts = { .size = sizeof opts, .kind = "history", .reduce = ways[d] };
        OK(fb_diagram_open(run, titles[d], &opts, &diagrams[d]));
    }
    const fb_diagram_opts none = { .size = sizeof none, .kind = "history", .reduce = "product" };
    fb_diagram *refused = NULL;
    FAILS(FB_BAD_ARGUMENT, "product", fb_diagram_open(run, "product", &none, &refused));
    while (fb_step(run, &step, STEPS) > 0) {
        const double value = 0.1 * (rank + 1) + (double)step;
        for (int d = 0; d < 5; ++d) OK(fb_history_append(diagrams[d], 0.5 * (double)step, 1, names, &value));
    }
    /* Nobody leaves before all have come. */
    const int64_t one = 1;
    fb_snapshot *snapshot = NULL;
    OK(fb_snapshot_begin(run, STEPS, 0.5 * STEPS, &snapshot));
    const double x = rank;
    OK(fb_snapshot_put(snapshot, "x", FB_DENSE(&x, FB_F64, one), FB_APPEND, NULL));
    OK(fb_snapshot_end(snapshot));
    OK(fb_snapshot_wait(snapshot, 30));
    fb_rows *rows = NULL;
    int64_t count = 0;
    int columns = 0;
    double t[STEPS];
    OK(fb_history(run, "kept", &rows));
    OK(fb_rows_count(rows, &count, &columns));
    CHECK(count == STEPS && columns == 3);
    OK(fb_rows_f64(rows, 1, t));
    CHECK(t[0] == 0 && t[STEPS - 1] == 0.5 * (STEPS - 1));
    OK(fb_rows_free(rows));
    FAILS(FB_NOT_FOUND, "no history", fb_history(run, "none", &rows));
    OK(fb_run_close(run));
    puts("done");
    return 0;
}
