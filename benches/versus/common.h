/* What the programs of the competition share: the clock, the data, and the computing between
 * snapshots. Each program prints one line of JSON. */
#ifndef VERSUS_COMMON_H
#define VERSUS_COMMON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void check(int good, const char *what) {
    if (!good) {
        fprintf(stderr, "error: %s did not work\n", what);
        exit(1);
    }
}

/* Number of values of the i-th small data set, and its first value. */
static inline int small_length(int i) { return (int)(1 + (int64_t)i * 7919 % 1000); }
static inline int32_t small_first(int i) { return i % 1000; }

static inline void small_fill(int32_t *values, int n) {
    for (int i = 0; i < n; i++) values[i] = i;
}

static inline int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Computes for `seconds` on one core, over 4 MiB, so that caches hold the simulation's data. */
static inline double compute(double seconds) {
    enum { N = 4 << 17 };
    static double field[N];
    double end = now() + seconds, sum = 0;
    do {
        for (int i = 1; i < N; i++) field[i] = 0.5 * (field[i] + field[i - 1]) + 1e-9;
        sum += field[N - 1];
    } while (now() < end);
    return sum;
}

/* Seconds that all puts, all puts until they were durable, and all gets took. */
static inline void print_small(int count, double put, double durable, double get) {
    printf("{\"put_us\": %.3f, \"durable_us\": %.3f, \"get_us\": %.3f}\n", put / count * 1e6, durable / count * 1e6,
           get / count * 1e6);
}

/* The visible times of all steps, as the driver wants them. */
static inline void print_steps(double *visible, int steps, double durable) {
    double mean = 0;
    printf("{\"visible_ms\": [");
    for (int i = 0; i < steps; i++) {
        printf("%s%.3f", i ? ", " : "", visible[i] * 1e3);
        mean += visible[i] / steps;
    }
    qsort(visible, (size_t)steps, sizeof *visible, by_size);
    printf("], \"p50_ms\": %.3f, \"mean_ms\": %.3f, \"worst_ms\": %.3f, \"durable_s\": %.4f}\n",
           visible[steps / 2] * 1e3, mean * 1e3, visible[steps - 1] * 1e3, durable);
}

#endif
