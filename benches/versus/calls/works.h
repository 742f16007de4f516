/* Four works as tasks, which may be done in any order and anywhere: what goes to a task, what comes, and how the results
 * are put together. Sequentially, by servers and by ranks it is this very code that runs. */
#ifndef VERSUS_WORKS_H
#define VERSUS_WORKS_H

#include "kernels.h"

typedef struct {
    const char *name;
    int tasks;
    /* Numbers that go (a, b), that come (x, y), and of the whole result. */
    int64_t na, nb, nx, ny, all;
    /* Where the numbers of a task lie at the one who has the whole. */
    const double *(*a)(int task), *(*b)(int task);
    void (*compute)(int task, const double *a, const double *b, double *x, double *y);
    /* Results of a task, taken in the order of the tasks. */
    void (*collect)(int task, const double *x, const double *y, double *all);
} Work;

/* A server, or rank, that is slowed by half does each task twice. */
static int times_over = 1;

/* --- forces --- */
enum { PAIRS = BLOCKS * (BLOCKS + 1) / 2 };
static double particles[3 * PARTICLES];

static inline void blocks_of(int task, int *i, int *j) {
    for (*i = 0; task >= BLOCKS - *i; task -= BLOCKS - (*i)++) {}
    *j = *i + task;
}
static const double *block_a(int task) {
    int i, j;
    blocks_of(task, &i, &j);
    return particles + 3 * PER_BLOCK * i;
}
static const double *block_b(int task) {
    int i, j;
    blocks_of(task, &i, &j);
    return particles + 3 * PER_BLOCK * j;
}
static void compute_forces(int task, const double *a, const double *b, double *x, double *y) {
    int i, j;
    blocks_of(task, &i, &j);
    memset(x, 0, sizeof *x * 3 * PER_BLOCK);
    memset(y, 0, sizeof *y * 3 * PER_BLOCK);
    forces(a, PER_BLOCK, b, PER_BLOCK, i == j, x, y);
}
static void collect_forces(int task, const double *x, const double *y, double *all) {
    int i, j;
    blocks_of(task, &i, &j);
    for (int k = 0; k < 3 * PER_BLOCK; k++) {
        all[3 * PER_BLOCK * i + k] += x[k];
        all[3 * PER_BLOCK * j + k] += y[k];
    }
}

/* --- product of matrices: task r * TILES + s; rows of tiles of the first one, columns of tiles of the second one --- */
static double rows_of[EDGE * EDGE], columns_of[EDGE * EDGE];

static const double *row_of(int task) { return rows_of + (int64_t)EDGE * TILE * (task / TILES); }
static const double *column_of(int task) { return columns_of + (int64_t)EDGE * TILE * (task % TILES); }
static void compute_tile(int task, const double *a, const double *b, double *x, double *y) {
    (void)task, (void)y;
    tile_product(a, b, x);
}
static void collect_tile(int task, const double *x, const double *y, double *all) {
    (void)y;
    memcpy(all + (int64_t)TILE * TILE * task, x, sizeof *x * TILE * TILE);
}

/* --- dot product --- */
static double *first, *second;

static const double *part_of_first(int task) { return first + part_begin(task); }
static const double *part_of_second(int task) { return second + part_begin(task); }
static void compute_dot(int task, const double *a, const double *b, double *x, double *y) {
    (void)task, (void)y;
    x[0] = dot(a, b, LENGTH / PARTS);
}
static void collect_dot(int task, const double *x, const double *y, double *all) {
    (void)task, (void)y;
    all[0] += x[0];
}

/* --- rays --- */
static const double *nothing_goes(int task) {
    (void)task;
    return NULL;
}
static void compute_row(int task, const double *a, const double *b, double *x, double *y) {
    (void)a, (void)b, (void)y;
    rays(task, x);
}
static void collect_row(int task, const double *x, const double *y, double *all) {
    (void)y;
    memcpy(all + (int64_t)WIDE * task, x, sizeof *x * WIDE);
}

static const Work works[] = {
    {"forces", PAIRS, 3 * PER_BLOCK, 3 * PER_BLOCK, 3 * PER_BLOCK, 3 * PER_BLOCK, 3 * PARTICLES, block_a, block_b,
     compute_forces, collect_forces},
    {"matrix", TILES * TILES, EDGE * TILE, EDGE * TILE, TILE * TILE, 0, EDGE * EDGE, row_of, column_of, compute_tile,
     collect_tile},
    {"dot", PARTS, LENGTH / PARTS, LENGTH / PARTS, 1, 0, 1, part_of_first, part_of_second, compute_dot, collect_dot},
    {"rays", HIGH, 0, 0, WIDE, 0, WIDE * HIGH, nothing_goes, nothing_goes, compute_row, collect_row},
};

static inline const Work *work_of(const char *name) {
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        if (strcmp(works[i].name, name) == 0) return &works[i];
    fprintf(stderr, "error: there is no work %s\n", name);
    exit(1);
}

/* What goes, at the one who has the whole. */
static inline void prepare(const Work *work) {
    scatter_particles(particles);
    fill_matrix(rows_of, 1);
    fill_matrix(columns_of, 2);
    if (strcmp(work->name, "dot") != 0) return;
    first = malloc(sizeof *first * LENGTH), second = malloc(sizeof *second * LENGTH);
    for (int i = 0; i < LENGTH; i++) first[i] = 1.0 / (1 + i % 1000), second[i] = i % 7 - 2;
}

static inline void do_task(const Work *work, int task, const double *a, const double *b, double *x, double *y) {
    for (int i = 0; i < times_over; i++) work->compute(task, a, b, x, y);
}

/* The result is compared with the sequential one, which is in a file; the time goes to the driver. */
static inline void finish(const Work *work, const double *all, const char *right_file, double seconds) {
    double *right = malloc(sizeof *right * (size_t)work->all), most = 0, difference = 0;
    FILE *file = fopen(right_file, "rb");
    check(file && fread(right, sizeof *right, (size_t)work->all, file) == (size_t)work->all, "reading the right result");
    fclose(file);
    for (int64_t i = 0; i < work->all; i++) {
        most = fmax(most, fabs(right[i]));
        difference = fmax(difference, fabs(all[i] - right[i]));
    }
    free(right);
    check(difference <= 1e-12 * most, "computing what the sequential program computes");
    printf("{\"seconds\": %.6f}\n", seconds);
}

#endif
