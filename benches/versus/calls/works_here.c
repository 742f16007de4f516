/* works_here WORK FILE: a work done by one program, task by task; the result goes to the file, for the others. */
#include "works.h"

int main(int argc, char **argv) {
    check(argc > 2, "reading the arguments");
    const Work *work = work_of(argv[1]);
    prepare(work);
    double *all = calloc((size_t)work->all, sizeof *all), *x = malloc(sizeof *x * (size_t)(work->nx + 1)),
           *y = malloc(sizeof *y * (size_t)(work->ny + 1)), best = INFINITY;
    for (int turn = 0; turn < 2; turn++) {
        memset(all, 0, sizeof *all * (size_t)work->all);
        double start = now();
        for (int task = 0; task < work->tasks; task++) {
            do_task(work, task, work->a(task), work->b(task), x, y);
            work->collect(task, x, y, all);
        }
        best = fmin(best, now() - start);
    }
    FILE *file = fopen(argv[2], "wb");
    check(file && fwrite(all, sizeof *all, (size_t)work->all, file) == (size_t)work->all, "writing the result");
    fclose(file);
    printf("{\"seconds\": %.6f}\n", best);
    return 0;
}
