/* works_mpi WORK FILE HOW SLOWED: the same works on ranks, rank 0 having what goes and getting what comes.
 *
 * HOW is `static`: forces by a ring, through which each rank's particles go half way round; matrices and vectors by equal parts;
 * the picture by blocks of rows; `cyclic`: row after row to the next rank; `workers`: rank 0 gives each other rank a task when
 * it has done one. SLOWED is 2 if the last rank does everything twice. */
#include <mpi.h>

#include "works.h"

enum { GO = 1, OVER = 2, MOST_RANKS = 64 };

static int rank, ranks;
static double *all;

static void *numbers(int64_t n) { return calloc((size_t)n + 1, sizeof(double)); }
static void give(const double *what, int64_t n, int to) { MPI_Send(what, (int)n, MPI_DOUBLE, to, GO, MPI_COMM_WORLD); }
static void take(double *what, int64_t n, int from) {
    MPI_Recv(what, (int)n, MPI_DOUBLE, from, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* --- forces: what goes round comes home with the forces on it --- */
static void ring(void) {
    int n = PARTICLES / ranks, next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    double *mine = numbers(3 * n), *on_mine = numbers(3 * n), *guest = numbers(6 * n), *spare = numbers(3 * n);
    check(n * ranks == PARTICLES, "dividing the particles");
    MPI_Scatter(particles, 3 * n, MPI_DOUBLE, mine, 3 * n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    memcpy(guest, mine, sizeof *mine * 3 * (size_t)n);
    for (int i = 0; i < times_over; i++) {
        memset(on_mine, 0, sizeof *on_mine * 3 * (size_t)n);
        forces(mine, n, mine, n, 1, on_mine, on_mine);
    }
    for (int step = 1; step <= ranks / 2; step++) {
        MPI_Sendrecv_replace(guest, 6 * n, MPI_DOUBLE, next, GO, before, GO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        /* Half way round two ranks meet each other's particles: each does a half. */
        int half = ranks % 2 == 0 && step == ranks / 2, low = rank < ranks / 2, cut = 3 * (n / 2);
        for (int i = 0; i < times_over; i++) {
            double *on_guest = i ? spare : guest + 3 * n, *to_mine = i ? spare : on_mine;
            if (half && low) forces(mine, n / 2, guest, n, 0, to_mine, on_guest);
            else if (half) forces(mine, n, guest + cut, n - n / 2, 0, to_mine, on_guest + cut);
            else forces(mine, n, guest, n, 0, to_mine, on_guest);
        }
    }
    int owner = (rank + ranks - ranks / 2) % ranks, holder = (rank + ranks / 2) % ranks;
    MPI_Sendrecv(guest + 3 * n, 3 * n, MPI_DOUBLE, owner, GO, spare, 3 * n, MPI_DOUBLE, holder, GO, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < 3 * n; i++) on_mine[i] += spare[i];
    MPI_Gather(on_mine, 3 * n, MPI_DOUBLE, all, 3 * n, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    free(mine), free(on_mine), free(guest), free(spare);
}

/* --- the others: tasks by their number --- */
static void equal_parts(const Work *work, int cyclic) {
    static double *x, *y;
    int share = work->tasks / ranks;
    check(share * ranks == work->tasks, "dividing the tasks");
    if (!x) x = numbers(work->nx * work->tasks), y = numbers(work->ny * work->tasks);
    if (strcmp(work->name, "matrix") == 0) {
        int rows = EDGE * EDGE / ranks;
        MPI_Bcast(columns_of, EDGE * EDGE, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        MPI_Scatter(rows_of, rows, MPI_DOUBLE, rank ? rows_of + (int64_t)rows * rank : MPI_IN_PLACE, rows, MPI_DOUBLE, 0,
                    MPI_COMM_WORLD);
    } else if (strcmp(work->name, "dot") == 0) {
        int part = LENGTH / ranks;
        MPI_Scatter(first, part, MPI_DOUBLE, rank ? first + (int64_t)part * rank : MPI_IN_PLACE, part, MPI_DOUBLE, 0,
                    MPI_COMM_WORLD);
        MPI_Scatter(second, part, MPI_DOUBLE, rank ? second + (int64_t)part * rank : MPI_IN_PLACE, part, MPI_DOUBLE, 0,
                    MPI_COMM_WORLD);
    }
    for (int i = 0; i < share; i++) {
        int task = cyclic ? rank + i * ranks : rank * share + i;
        do_task(work, task, work->a(task), work->b(task), x + work->nx * i, y);
    }
    if (rank == 0) {
        double *from = numbers(work->nx * share);
        for (int r = 0; r < ranks; r++) {
            if (r > 0) take(from, work->nx * share, r);
            for (int i = 0; i < share; i++)
                work->collect(cyclic ? r + i * ranks : r * share + i, (r ? from : x) + work->nx * i, y, all);
        }
        free(from);
    } else {
        give(x, work->nx * share, 0);
    }
}

/* --- one gives, the others work --- */
static void worker(const Work *work) {
    double *in = numbers(work->na + work->nb), *out = numbers(work->nx + work->ny);
    for (;;) {
        int task;
        MPI_Status status;
        MPI_Recv(&task, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == OVER) break;
        if (work->na) take(in, work->na, 0), take(in + work->na, work->nb, 0);
        do_task(work, task, in, in + work->na, out, out + work->nx);
        give(out, work->nx + work->ny, 0);
    }
    free(in), free(out);
}

static void give_task(const Work *work, int task, int to) {
    MPI_Send(&task, 1, MPI_INT, to, GO, MPI_COMM_WORLD);
    if (work->na) give(work->a(task), work->na, to), give(work->b(task), work->nb, to);
}

static void master(const Work *work) {
    static double *x, *y;
    if (!x) x = numbers(work->nx * work->tasks), y = numbers(work->ny * work->tasks);
    double *out = numbers(work->nx + work->ny);
    int has[MOST_RANKS], next = 0;
    for (int r = 1; r < ranks; r++, next++) give_task(work, has[r] = next, r);
    for (int over = 0; over < work->tasks; over++) {
        MPI_Status status;
        MPI_Recv(out, (int)(work->nx + work->ny), MPI_DOUBLE, MPI_ANY_SOURCE, GO, MPI_COMM_WORLD, &status);
        int r = status.MPI_SOURCE, task = has[r];
        if (next < work->tasks) {
            give_task(work, has[r] = next++, r);
        } else {
            MPI_Send(&task, 1, MPI_INT, r, OVER, MPI_COMM_WORLD);
        }
        memcpy(x + work->nx * task, out, sizeof *x * (size_t)work->nx);
        memcpy(y + work->ny * task, out + work->nx, sizeof *y * (size_t)work->ny);
    }
    for (int task = 0; task < work->tasks; task++) work->collect(task, x + work->nx * task, y + work->ny * task, all);
    free(out);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    check(argc > 4, "reading the arguments");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    check(ranks <= MOST_RANKS, "having so many ranks");
    const Work *work = work_of(argv[1]);
    const char *how = argv[3];
    times_over = rank == ranks - 1 ? atoi(argv[4]) : 1;
    prepare(work);
    all = numbers(work->all);
    double best = INFINITY;
    for (int turn = 0; turn < 3; turn++) {
        memset(all, 0, sizeof *all * (size_t)work->all);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now();
        if (strcmp(how, "workers") == 0) {
            if (rank == 0) master(work);
            else worker(work);
        } else if (strcmp(work->name, "forces") == 0) {
            ring();
        } else {
            equal_parts(work, strcmp(how, "cyclic") == 0);
        }
        if (turn > 0) best = fmin(best, now() - start);
    }
    if (rank == 0) finish(work, all, argv[2], best);
    MPI_Finalize();
    return 0;
}
