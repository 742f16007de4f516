/* What the example prints at its end: physics from the table `history`, output from the run's own
   figures. The same lines as the example in Python. */

#ifndef TWO_STREAM_REPORT_H
#define TWO_STREAM_REPORT_H

#include <forebay.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "deck.h"
#include "physics.h"

/* What the client measured itself. */
struct clocked {
    double seconds; /* of the loop */
    double *calls;  /* seconds of each field solve */
    int64_t ncalls;
};

/* Columns of the table `history`, each `n` long. */
struct history {
    int64_t n;
    double *t, *field, *kinetic, *momentum;
};

static int report_ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Reads the history; free `t` afterwards. */
static fb_status report_history(fb_run *run, struct history *h)
{
    const char *columns[] = {"time", "field", "kinetic", "momentum"};
    fb_table *table = NULL;
    fb_rows *rows = NULL;
    fb_status status = fb_table_open(run, "history", NULL, 0, NULL, &table);
    if (!status)
        status = fb_table_select(table, columns, 4, NULL, NULL, 0, &rows);
    if (!status)
        status = fb_rows_count(rows, &h->n, NULL);
    h->t = status ? NULL : calloc((size_t)(4 * h->n + 1), sizeof(double));
    if (h->t) {
        h->field = h->t + h->n;
        h->kinetic = h->field + h->n;
        h->momentum = h->kinetic + h->n;
        for (int c = 0; c < 4 && !status; c++)
            status = fb_rows_f64(rows, c, h->t + c * h->n);
    }
    fb_rows_free(rows);
    fb_table_free(table);
    return status;
}

static void report_growth(const struct deck *deck, const struct history *h)
{
    double theory = growth_from_dispersion(deck), measured;
    if (!growth_from_history(h->t, h->field, h->n, &measured))
        printf("growth rate   not reached yet; by the dispersion relation %.4f wp\n", theory);
    else if (theory > 0)
        printf("growth rate   %.4f wp; by the dispersion relation %.4f wp, %+.1f %%\n", measured, theory, 100 * (measured / theory - 1));
    else
        printf("growth rate   %.4f wp; by the dispersion relation %.4f wp\n", measured, theory);
}

static void report_conserved(const struct deck *deck, const struct history *h)
{
    double low = INFINITY, high = -INFINITY, shift = 0, scale = 1e-300;
    for (int64_t i = 0; i < h->n; i++) {
        low = fmin(low, h->field[i] + h->kinetic[i]);
        high = fmax(high, h->field[i] + h->kinetic[i]);
        shift = fmax(shift, fabs(h->momentum[i] - h->momentum[0]));
    }
    /* Momentum is compared with that of one beam, for the sum of both is 0. */
    for (int b = 0; b < deck->beams; b++) {
        const struct beam *beam = &deck->beam[b];
        scale = fmax(scale, deck->length * fabs(beam->drift) * beam->plasma_frequency * beam->plasma_frequency);
    }
    printf("energy        drift %.2f %% over %" PRId64 " steps\n", 100 * (high - low) / fabs(h->field[0] + h->kinetic[0]), h->n);
    printf("momentum      drift %.1e of that of one beam\n", shift / scale);
}

static fb_status report_output(fb_run *run, const struct clocked *clocked)
{
    fb_stats stats = {.size = sizeof stats};
    int64_t *steps = NULL, snapshots = 0;
    fb_status status = fb_run_stats(run, &stats);
    if (!status)
        status = fb_snapshots(run, &steps, &snapshots);
    if (status)
        return status;
    fb_free(steps);
    printf("snapshots     %" PRId64 ", this time %.1f MB written\n", snapshots, (double)stats.written_bytes / 1e6);
    if (clocked->ncalls) {
        double share = 100 * stats.visible_s / clocked->seconds;
        printf("output        %.2f %% of %.1f s visible to the simulation\n", share, clocked->seconds);
    }
    return FB_OK;
}

/* Prints the report. */
static fb_status report(fb_run *run, const struct deck *deck, struct clocked *clocked)
{
    struct history h = {0};
    char *path = NULL;
    fb_status status = fb_path(run, &path);
    if (!status)
        printf("run           %s\n", path);
    fb_free(path);
    if (!status)
        status = report_history(run, &h);
    if (!status && h.n) {
        report_growth(deck, &h);
        report_conserved(deck, &h);
    } else if (!status) {
        printf("history       empty: the run ended before its first step\n");
    }
    free(h.t);
    if (!status)
        status = report_output(run, clocked);
    if (!status && clocked->ncalls) {
        int64_t n = clocked->ncalls;
        qsort(clocked->calls, (size_t)n, sizeof(double), report_ascending);
        double median = 0.5 * (clocked->calls[(n - 1) / 2] + clocked->calls[n / 2]);
        printf("calls         %" PRId64 " to poisson1d, median %.1f us\n", n, 1e6 * median);
    }
    fflush(stdout);
    return status;
}

#endif
