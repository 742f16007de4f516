/* Heat in a block of matter, by the ranks of an MPI program: the second of three programs around one run.

       mpicc heat3d.c $(pkg-config --cflags --libs forebay) -o heat3d
       mpiexec -n 2 ./heat3d heat3d

   mesh.py has put the mesh, the boundary conditions and the box of cells of each rank into the run. A rank reads what
   is its own, computes with its neighbours, and keeps its box of T:

       ghost cells from the neighbours or from the boundary -> fluxes through the faces of each cell -> T of the next step

   Killed, it goes on from its last snapshot, to the bit, on any number of ranks for which mesh.py has cut the block. */

#define _POSIX_C_SOURCE 200809L

#include <forebay.h>
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The cells of this rank, with a layer of ghost cells around them. */
struct block {
    fb_run *run;
    fb_diagram *mean;
    int rank, ranks;
    int64_t whole[3], first[3], n[3]; /* cells of all ranks, the first of ours, how many */
    int64_t stride[3];                /* from a cell to its neighbour along each axis */
    double h[3], dt;
    double *T, *next;
    double *D[3]; /* diffusivity of the face below each cell along an axis */
};

static void fail(const char *text)
{
    fprintf(stderr, "heat3d: %s\n", text);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void check(fb_status status)
{
    if (status != FB_OK)
        fail(fb_last_error());
}

static double *numbers(int64_t n)
{
    double *made = calloc((size_t)n, sizeof *made);
    if (!made)
        fail("there is not enough memory; use more ranks or fewer cells");
    return made;
}

/* Where a cell lies; ghost cells have the indices -1 and n. */
static int64_t at(const struct block *b, int64_t i, int64_t j, int64_t k)
{
    return (i + 1) * b->stride[0] + (j + 1) * b->stride[1] + (k + 1);
}

/* --- what mesh.py has put ---------------------------------------------------------------------- */

static double parameter(fb_run *run, const char *name)
{
    fb_arg args[] = {FB_IN_STR((char *)name)};
    fb_rows *rows = NULL;
    int64_t count = 0;
    double value = 0;
    check(fb_sql(run, "SELECT value FROM parameters WHERE name = ?", args, 1, &rows));
    check(fb_rows_count(rows, &count, NULL));
    if (count != 1)
        fail("the run has no parameter of that name; run mesh.py first");
    check(fb_rows_f64(rows, 0, &value));
    check(fb_rows_free(rows));
    return value;
}

/* Whether a face of the block has a given temperature, and which. */
static int is_fixed(fb_run *run, const char *face, double *temperature)
{
    fb_arg args[] = {FB_IN_STR((char *)face)};
    fb_rows *rows = NULL;
    const char *kind = NULL;
    check(fb_sql(run, "SELECT kind, temperature FROM boundary WHERE face = ?", args, 1, &rows));
    check(fb_rows_str(rows, 0, &kind));
    check(fb_rows_f64(rows, 1, temperature));
    int fixed = !strcmp(kind, "fixed");
    check(fb_rows_free(rows));
    return fixed;
}

/* The box of this rank; of ranks that have slabs along x. */
static void read_box(struct block *b)
{
    int64_t box[2][3];
    fb_info info;
    if ((int)parameter(b->run, "ranks") != b->ranks)
        fail("the mesh is cut for another number of ranks; run mesh.py with --ranks, or start as many");
    check(fb_get(b->run, "decomposition", b->rank, FB_DENSE(box, FB_I64, 2, 3)));
    check(fb_dataset_info(b->run, "mesh/diffusivity", 0, &info));
    for (int axis = 0; axis < 3; axis++) {
        b->whole[axis] = info.shape[axis];
        b->first[axis] = box[0][axis];
        b->n[axis] = box[1][axis] - box[0][axis];
        if (axis > 0 && b->n[axis] != b->whole[axis])
            fail("this program wants slabs along x; run mesh.py --along x");
    }
    b->stride[1] = b->n[2] + 2;
    b->stride[0] = (b->n[1] + 2) * b->stride[1];
    b->stride[2] = 1;
    b->dt = parameter(b->run, "dt");
    b->h[0] = parameter(b->run, "dx");
    b->h[1] = parameter(b->run, "dy");
    b->h[2] = parameter(b->run, "dz");
}

/* Diffusivities of the faces: the harmonic mean of both cells; half a cell's at a fixed face, whose temperature goes
   into the ghost cells; none at an insulated one. */
static void read_faces(struct block *b)
{
    static const char *const names[3][2] = {{"x0", "x1"}, {"y0", "y1"}, {"z0", "z1"}};
    int64_t size = (b->n[0] + 2) * b->stride[0];
    double *cells = numbers(size);
    /* Cells of ours and of the neighbours, into their places among the ghost cells. */
    int64_t low = b->first[0] > 0, high = b->first[0] + b->n[0] < b->whole[0];
    int64_t shape[3] = {b->n[0] + low + high, b->n[1], b->n[2]}, offset[3] = {b->first[0] - low, 0, 0};
    int64_t bytes[3] = {8 * b->stride[0], 8 * b->stride[1], 8};
    fb_array part = {.dtype = FB_F64, .ndim = 3, .shape = shape, .strides = bytes, .data = cells + at(b, -low, 0, 0)};
    check(fb_get_part(b->run, "mesh/diffusivity", 0, offset, NULL, &part));
    for (int axis = 0; axis < 3; axis++) {
        double fixed[2] = {0, 0};
        int is[2];
        for (int end = 0; end < 2; end++)
            is[end] = is_fixed(b->run, names[axis][end], &fixed[end]);
        b->D[axis] = numbers(size);
        for (int64_t i = 0; i <= b->n[0]; i++)
            for (int64_t j = 0; j <= b->n[1]; j++)
                for (int64_t k = 0; k <= b->n[2]; k++) {
                    int64_t index[3] = {i, j, k}, here = at(b, i, j, k), below = here - b->stride[axis];
                    int64_t place = b->first[axis] + index[axis];
                    int end = place == 0 ? 0 : place == b->whole[axis] ? 1 : -1;
                    if (end < 0)
                        b->D[axis][here] = cells[here] > 0 ? 2 * cells[here] * cells[below] / (cells[here] + cells[below]) : 0;
                    else if (is[end]) {
                        b->D[axis][here] = 2 * cells[end ? below : here];
                        b->T[end ? here : below] = b->next[end ? here : below] = fixed[end];
                    }
                }
    }
    free(cells);
}

/* --- the computation ----------------------------------------------------------------------------- */

/* Waits, and lets others have the core meanwhile. */
static void wait_for(int count, MPI_Request *requests)
{
    for (int i = 0; i < count; i++)
        for (int done = 0; !done;) {
            MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
            if (!done)
                sched_yield();
        }
}

/* The ghost cells that are a neighbour's. */
static void exchange(struct block *b)
{
    int count = (int)b->stride[0], below = b->rank - 1, above = b->rank + 1, n = 0;
    MPI_Request requests[4];
    double *T = b->T;
    if (below >= 0) {
        MPI_Irecv(T, count, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[n++]);
        MPI_Isend(T + b->stride[0], count, MPI_DOUBLE, below, 0, MPI_COMM_WORLD, &requests[n++]);
    }
    if (above < b->ranks) {
        MPI_Irecv(T + (b->n[0] + 1) * b->stride[0], count, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[n++]);
        MPI_Isend(T + b->n[0] * b->stride[0], count, MPI_DOUBLE, above, 0, MPI_COMM_WORLD, &requests[n++]);
    }
    wait_for(n, requests);
}

/* One explicit step of dT/dt = div(D grad T). */
static void advance(struct block *b)
{
    double c[3];
    exchange(b);
    for (int axis = 0; axis < 3; axis++)
        c[axis] = b->dt / (b->h[axis] * b->h[axis]);
    const double *T = b->T, *Dx = b->D[0], *Dy = b->D[1], *Dz = b->D[2];
    int64_t sx = b->stride[0], sy = b->stride[1];
    for (int64_t i = 0; i < b->n[0]; i++)
        for (int64_t j = 0; j < b->n[1]; j++)
            for (int64_t p = at(b, i, j, 0); p < at(b, i, j, b->n[2]); p++)
                b->next[p] = T[p] + c[0] * (Dx[p + sx] * (T[p + sx] - T[p]) - Dx[p] * (T[p] - T[p - sx]))
                             + c[1] * (Dy[p + sy] * (T[p + sy] - T[p]) - Dy[p] * (T[p] - T[p - sy]))
                             + c[2] * (Dz[p + 1] * (T[p + 1] - T[p]) - Dz[p] * (T[p] - T[p - 1]));
    double *old = b->T;
    b->T = b->next;
    b->next = old;
}

/* The part that this rank has in the mean temperature of all cells. */
static double share_of_mean(const struct block *b)
{
    double sum = 0;
    for (int64_t i = 0; i < b->n[0]; i++)
        for (int64_t j = 0; j < b->n[1]; j++)
            for (int64_t p = at(b, i, j, 0); p < at(b, i, j, b->n[2]); p++)
                sum += b->T[p];
    return sum / (double)(b->whole[0] * b->whole[1] * b->whole[2]);
}

/* --- the run -------------------------------------------------------------------------------------- */

/* Our cells of T, without the ghost cells around them. */
static fb_array own_cells(struct block *b, int64_t bytes[3])
{
    for (int axis = 0; axis < 3; axis++)
        bytes[axis] = 8 * b->stride[axis];
    return (fb_array){.dtype = FB_F64, .ndim = 3, .shape = b->n, .strides = bytes, .data = b->T + at(b, 0, 0, 0)};
}

/* Keeps the state before `step`. */
static fb_status keep(int64_t step, void *block)
{
    struct block *b = block;
    fb_snapshot *snapshot = NULL;
    const double middle[] = {0.5, 0.5, 0.5}; /* of each cell */
    fb_piece_opts kelvin = {.size = sizeof kelvin, .units = "K", .spacing = b->h, .position = middle};
    int64_t bytes[3];
    fb_array T = own_cells(b, bytes);
    double t = (double)step * b->dt, mean = share_of_mean(b);
    const char *curve[] = {"mean"};
    check(fb_history_append(b->mean, t, 1, curve, &mean)); /* added up over the ranks */
    check(fb_snapshot_begin(b->run, step, t, &snapshot));
    check(fb_snapshot_mesh(snapshot, "T", &(fb_component){.values = &T}, 1, b->first, b->whole, &kelvin));
    check(fb_snapshot_end(snapshot));
    return fb_snapshot_free(snapshot);
}

/* The state before the first step: of the last complete snapshot, or all cells alike. */
static int64_t begin(struct block *b)
{
    fb_snapshot *last = NULL;
    fb_step_info info = {.size = sizeof info};
    int64_t bytes[3];
    fb_array T = own_cells(b, bytes);
    check(fb_restart(b->run, &last));
    if (last) {
        check(fb_snapshot_step(last, &info));
        check(fb_snapshot_get_part(last, "T", b->first, NULL, &T));
    } else {
        double cold = parameter(b->run, "initial temperature");
        for (int64_t i = 0; i < b->n[0]; i++)
            for (int64_t j = 0; j < b->n[1]; j++)
                for (int64_t p = at(b, i, j, 0); p < at(b, i, j, b->n[2]); p++)
                    b->T[p] = cold;
    }
    check(fb_steps_from(b->run, last));
    check(fb_snapshot_free(last));
    return last ? info.step : 0;
}

int main(int argc, char **argv)
{
    struct block b = {0};
    fb_diagram_opts history = {.size = sizeof history, .kind = "history", .x = "t [s]", .y = "T [K]", .reduce = "sum"};
    fb_save_opts save = {.size = sizeof save};
    int quiet = argc == 3 && !strcmp(argv[2], "--without-output"), more;
    int64_t step = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
    if (argc < 2 || (argc > 2 && !quiet))
        fail("give the run that mesh.py has made:  heat3d RUN [--without-output]");

    check(fb_run_open(argv[1], "r+", NULL, &b.run));
    read_box(&b);
    b.T = numbers((b.n[0] + 2) * b.stride[0]);
    b.next = numbers((b.n[0] + 2) * b.stride[0]);
    read_faces(&b);
    int64_t steps = (int64_t)parameter(b.run, "steps"), start = begin(&b);
    if (b.rank == 0)
        printf("heat3d: %" PRId64 " x %" PRId64 " x %" PRId64 " cells, steps %" PRId64 " to %" PRId64 "\n", b.whole[0],
               b.whole[1], b.whole[2], start, steps);
    if (quiet) { /* to see what output costs */
        for (step = start; step < steps; step++)
            advance(&b);
    } else {
        save.every = (int64_t)parameter(b.run, "snapshot every");
        check(fb_diagram_open(b.run, "temperature", &history, &b.mean));
        check(fb_on_save(b.run, keep, &b, &save));
        while ((more = fb_step(b.run, &step, steps)) > 0)
            advance(&b);
        if (more < 0)
            fail(fb_last_error());
    }
    double mean = share_of_mean(&b), all = 0;
    MPI_Reduce(&mean, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    check(quiet ? fb_run_close_unfinished(b.run) : fb_run_close(b.run));
    if (b.rank == 0)
        printf("heat3d: step %" PRId64 ", mean temperature %.6f K\n", step, all);
    free(b.T);
    free(b.next);
    for (int axis = 0; axis < 3; axis++)
        free(b.D[axis]);
    MPI_Finalize();
    return 0;
}
