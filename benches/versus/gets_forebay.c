/* gets_forebay RUN STEPS MIB BUFFER_MIB GETS: what a data set of 1000 integers costs to read, and one to put and read
 * again, GETS times while nothing else happens and then as long as snapshots of a buffer drain to the disk. */
#include "ours.h"

enum { NUMBERS = 1000, MOST = 1 << 20 };

/* Reads, or puts and reads; what it took, in seconds. */
static double once(fb_run *run, int put) {
    static int32_t values[NUMBERS], out[NUMBERS];
    static int32_t turn;
    double began = now();
    if (put) {
        values[0] = ++turn;
        done(fb_put(run, "put", 0, FB_DENSE(values, FB_I32, NUMBERS)));
    }
    done(fb_get(run, put ? "put" : "stands", 0, FB_DENSE(out, FB_I32, NUMBERS)));
    double took = now() - began;
    check(!put || out[0] == turn, "reading back");
    return took;
}

static void print(const char *what, double *took, int count) {
    check(count > 0, "reading while the buffer drains");
    qsort(took, (size_t)count, sizeof *took, by_size);
    printf("\"%s\": {\"p50_us\": %.3f, \"p99_us\": %.3f, \"worst_us\": %.3f, \"count\": %d}", what, took[count / 2] * 1e6,
           took[(int)(count * 0.99)] * 1e6, took[count - 1] * 1e6, count);
}

static int64_t durable(fb_run *run) {
    fb_stats stats = {.size = sizeof stats};
    done(fb_run_stats(run, &stats));
    return stats.durable_step;
}

static void take(fb_run *run, int from, int to, double *field, int64_t n) {
    for (int step = from; step < to; step++) {
        fb_snapshot *snapshot;
        done(fb_snapshot_begin(run, step, step, &snapshot));
        done(fb_snapshot_put(snapshot, "a", FB_DENSE(field, FB_F64, n), NULL, NULL));
        done(fb_snapshot_end(snapshot));
        done(fb_snapshot_free(snapshot));
    }
}

int main(int argc, char **argv) {
    check(argc > 5, "reading the arguments");
    int steps = atoi(argv[2]), gets = atoi(argv[5]);
    int64_t n = (int64_t)atoi(argv[3]) << 17;
    double *field = malloc((size_t)n * 8);
    /* Read, then put and read: idle first, then while the buffer drains. */
    double *took[4] = {calloc((size_t)gets, 8), calloc((size_t)gets, 8), calloc(MOST, 8), calloc(MOST, 8)};
    int count[4] = {0};
    check(field && took[0] && took[1] && took[2] && took[3], "taking memory");
    for (int64_t i = 0; i < n; i++) field[i] = (double)(i % 251);
    fb_open_opts opts = {.size = sizeof opts};
    opts.ranks = 1;
    opts.buffer = (uint64_t)atoi(argv[4]) << 20;
    fb_run *run;
    done(fb_run_open(argv[1], "w", &opts, &run));
    static int32_t values[NUMBERS];
    small_fill(values, NUMBERS);
    done(fb_put(run, "stands", 0, FB_DENSE(values, FB_I32, NUMBERS)));
    done(fb_flush(run));

    for (int put = 0; put < 2; put++)
        while (count[put] < gets) took[put][count[put]++] = once(run, put);
    /* The first round takes the pages of the buffer; the second one copies into warm ones, faster than any disk. */
    take(run, 0, steps, field, n);
    done(fb_flush(run));
    double start = now();
    take(run, steps, 2 * steps, field, n);
    double ended = now();
    int64_t before = durable(run);
    for (int put = 0; durable(run) < 2 * steps - 1; put = !put)
        for (int i = 0; i < 8 && count[2 + put] < MOST; i++) took[2 + put][count[2 + put]++] = once(run, put);
    double drained = now();
    done(fb_run_close(run));
    const char *names[] = {"get_idle", "put_idle", "get_draining", "put_draining"};
    putchar('{');
    for (int i = 0; i < 4; i++) {
        print(names[i], took[i], count[i]);
        printf(", ");
    }
    printf("\"taken_s\": %.4f, \"drained_s\": %.4f, \"drained_steps\": %d}\n", ended - start, drained - ended,
           2 * steps - 1 - (int)before);
    return 0;
}
