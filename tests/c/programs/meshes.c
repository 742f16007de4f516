/* Meshes and particles, elements in both orders, as another program in Python writes them: meshes PLACE. */

#include "check.h"

#include <math.h>

enum { NX = 6, NY = 3, N = 5 };

static const double spacing[] = { 0.2, 2.0 }, origin[] = { 0.0, 10.0 };
static double Ex[NX * NY], Ey[NX * NY], x[NX], y[NY], px[N], p[N * 3];
static float w[N];
static int64_t id[N], turned[N];

/* An array of two axes, row-major or column-major. */
#define PLANE(data, n, m) (rows ? FB_DENSE(data, FB_F64, n, m) : FB_DENSE_F(data, FB_F64, n, m))

static void fill(double *to, int rows, int n, int m, double more)
{
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < m; ++j) to[rows ? i * m + j : j * n + i] = 10 * i + j + more;
}

static void take(fb_run *run, int rows)
{
    const double mass = 9.1e-31, here[] = { 0.5, 0.0 }, there[] = { 0.0, 0.5 }, middle[] = { 0.5, 0.5 };
    const int64_t strides[] = { 8, 8 * NX }, first[] = { 0, 0 }, all[] = { NX, NY }, n = N, zero = 0;
    const fb_coord coords[] = { { "x", FB_DENSE(x, FB_F64, NX), "m" }, { "y", FB_DENSE(y, FB_F64, NY), NULL } };
    static double table[2000];
    for (int i = 0; i < 2000; ++i) table[i] = 0.5 * i;
    const fb_piece_opts kelvin = { .size = sizeof kelvin, .units = "K", .attrs = "{\"of\": \"all\"}" };
    OK(fb_constant(run, "table", FB_DENSE(table, FB_F64, 2000), 0, &kelvin));
    OK(fb_constant(run, "few", FB_DENSE(id, FB_I64, N), 0, NULL));
    FAILS(FB_CONFLICT, "say with step", fb_constant(run, "table", FB_DENSE(table, FB_F64, 1999), 0, &kelvin));
    fb_snapshot *s = NULL;
    OK(fb_snapshot_begin(run, 2 - rows, 0.5 * (2 - rows), &s));
    fill(Ex, rows, NX, NY, 0);
    fill(Ey, rows, NX, NY, 0.5);
    fill(p, rows, N, 3, 0);
    const fb_piece_opts of_e = { .size = sizeof of_e, .units = "kV/m", .dims = (const char *[]){ "x", "y" }, .ndims = 2,
                                 .coords = coords, .ncoords = 2, .attrs = "{\"note\": \"made\"}" };
    OK(fb_snapshot_mesh(s, "E", (fb_component[]){ { "x", PLANE(Ex, NX, NY), here }, { "y", PLANE(Ey, NX, NY), there } }, 2,
                        NULL, NULL, &of_e));
    const fb_piece_opts of_rho = { .size = sizeof of_rho, .units = "C/m^3", .spacing = spacing, .origin = origin };
    OK(fb_snapshot_mesh(s, "rho", &(fb_component){ .values = PLANE(Ey, NX, NY) }, 1, NULL, NULL, &of_rho));
    const fb_piece_opts of_t = { .size = sizeof of_t, .overlap = "equal", .spacing = spacing, .position = middle };
    OK(fb_snapshot_mesh(s, "T", &(fb_component){ .values = PLANE(Ex, NX, NY) }, 1, first, all, &of_t));
    const int32_t minus = -1;
    const int64_t larger[] = { 2 * NX, NY };
    const fb_piece_opts holed = { .size = sizeof holed, .fill = FB_ONE(&minus, FB_I32) };
    OK(fb_snapshot_put_with(s, "holes", PLANE(Ex, NX, NY), first, larger, &holed));
    fb_array place = { .dtype = FB_F64, .ndim = 2, .shape = all, .strides = rows ? NULL : strides };
    FAILS(FB_BAD_ARGUMENT, "offset and global", fb_snapshot_allocate_mesh(s, "B", "z", &place, NULL, NULL, &of_t));
    const fb_piece_opts of_b = { .size = sizeof of_b, .units = "T", .spacing = spacing, .position = middle };
    OK(fb_snapshot_allocate_mesh(s, "B", "z", &place, NULL, NULL, &of_b));
    memcpy(place.data, Ex, sizeof Ex);

    OK(fb_snapshot_particles(s, "electrons",
                             (fb_record[]){ { "position", "x", FB_DENSE(px, FB_F64, N), "mm", NULL, 0, NULL },
                                            { "momentum", NULL, PLANE(p, N, 3), "kg m/s", "{\"of\": \"them\"}", 0, NULL },
                                            { "weighting", NULL, FB_DENSE(w, FB_F32, N), NULL, NULL, 0, NULL },
                                            { "id", NULL, FB_DENSE(id, FB_I64, N), NULL, NULL, 0, NULL },
                                            { "mass", NULL, FB_ONE(&mass, FB_F64), "kg", NULL, 0, NULL } },
                             5, FB_APPEND, NULL));
    const fb_record ion = { .name = "position", .component = "x", .values = FB_DENSE(px, FB_F64, N), .as_dtype = FB_F32 };
    OK(fb_snapshot_particles(s, "ions", &ion, 1, &zero, &n));
    const fb_record ranked[] = { { .name = "position", .component = "x", .values = FB_DENSE(px, FB_F64, N), .compress = "zstd" },
                                 { .name = "id", .values = FB_DENSE(turned, FB_I64, N), .compress = "none" } };
    const fb_particles_opts by_id = { .size = sizeof by_id, .sort_by = "id" }, by_mass = { .size = sizeof by_mass, .sort_by = "mass" };
    OK(fb_snapshot_particles_with(s, "ranked", ranked, 2, FB_APPEND, NULL, &by_id));
    FAILS(FB_BAD_ARGUMENT, "not among its records", fb_snapshot_particles_with(s, "e", ranked, 2, FB_APPEND, NULL, &by_mass));
    const fb_piece_opts half = { .size = sizeof half, .as_dtype = FB_F16 }, byte = { .size = sizeof byte, .as_dtype = FB_I8 };
    const fb_piece_opts single = { .size = sizeof single, .as_dtype = FB_F32, .dims = (const char *[]){ "s" }, .ndims = 1,
                                   .spacing = middle };
    OK(fb_snapshot_put_with(s, "coarse", FB_DENSE(px, FB_F64, N), NULL, NULL, &half));
    OK(fb_snapshot_put_with(s, "short", FB_DENSE(id, FB_I64, N), NULL, NULL, &byte));
    OK(fb_snapshot_mesh(s, "line", &(fb_component){ .values = FB_DENSE(px, FB_F64, N) }, 1, NULL, NULL, &single));
    fb_array line = { .dtype = FB_F64, .ndim = 1, .shape = &n };
    const fb_piece_opts metres = { .size = sizeof metres, .units = "m" };
    OK(fb_snapshot_allocate_particles(s, "muons", "position", "x", &line, FB_APPEND, NULL, &metres));
    memcpy(line.data, px, sizeof px);
    OK(fb_snapshot_end(s));
    OK(fb_snapshot_free(s));
}

static void refuse(fb_run *run)
{
    const fb_piece_opts grid = { .size = sizeof grid, .spacing = spacing };
    const int64_t n = N;
    const double nan = NAN;
    const fb_array *plane = FB_DENSE(Ex, FB_F64, NX, NY);
    fb_array place = { .dtype = FB_F64, .ndim = 1, .shape = &n };
    fb_snapshot *s = NULL;
    OK(fb_snapshot_begin(run, 3, NAN, &s));
    FAILS(FB_BAD_ARGUMENT, "fb_snapshot_mesh", fb_snapshot_put_with(s, "E", plane, NULL, NULL, &grid));
    FAILS(FB_BAD_ARGUMENT, "fb_snapshot_mesh", fb_snapshot_allocate(s, "E", &place, NULL, NULL, &grid));
    const fb_piece_opts filled = { .size = sizeof filled, .fill = FB_ONE(&nan, FB_F64) };
    const fb_piece_opts texts = { .size = sizeof texts, .fill = FB_DENSE("a", FB_STR, 1) };
    FAILS(FB_BAD_ARGUMENT, "shape of the whole", fb_snapshot_put_with(s, "E", plane, NULL, NULL, &filled));
    FAILS(FB_BAD_ARGUMENT, "no value of the dtype i64", fb_snapshot_put_with(s, "n", FB_DENSE(id, FB_I64, N), &n, &n, &filled));
    FAILS(FB_BAD_ARGUMENT, "str", fb_snapshot_put_with(s, "E", plane, NULL, NULL, &texts));
    FAILS(FB_BAD_ARGUMENT, "no components", fb_snapshot_mesh(s, "E", NULL, 0, NULL, NULL, NULL));
    FAILS(FB_BAD_ARGUMENT, "NULL", fb_snapshot_mesh(s, "E", NULL, 1, NULL, NULL, NULL));
    FAILS(FB_BAD_ARGUMENT, "the component \"x\"", fb_snapshot_mesh(s, "E", &(fb_component){ .name = "x" }, 1, NULL, NULL, NULL));
    const fb_component both[] = { { "x", plane, NULL }, { "y", FB_DENSE(Ex, FB_F64, NY, NX), NULL } };
    FAILS(FB_BAD_ARGUMENT, "have the shapes", fb_snapshot_mesh(s, "E", both, 2, NULL, NULL, &grid));
    FAILS(FB_BAD_ARGUMENT, "no name of a mesh", fb_snapshot_mesh(s, "a/b", both, 1, NULL, NULL, &grid));
    const int64_t far[] = { 0, 200, -129 };
    const fb_piece_opts byte = { .size = sizeof byte, .as_dtype = FB_I8 };
    FAILS(FB_BAD_ARGUMENT, "\"far\": the element [1] is 200", fb_snapshot_put_with(s, "far", FB_DENSE(far, FB_I64, 3), NULL, NULL, &byte));
    FAILS(FB_BAD_ARGUMENT, "use f32 or f16", fb_snapshot_put_with(s, "E", plane, NULL, NULL, &byte));
    FAILS(FB_BAD_ARGUMENT, "filled in place", fb_snapshot_allocate(s, "E", &place, NULL, NULL, &byte));
    const double huge[] = { 1e300, 1, -1e39 };
    OK(fb_snapshot_put_with(s, "huge", FB_DENSE(huge, FB_F64, 3), NULL, NULL,
                            &(fb_piece_opts){ .size = sizeof(fb_piece_opts), .as_dtype = FB_F32 }));
    const fb_piece_opts wrong = { .size = sizeof wrong, .position = spacing };
    FAILS(FB_BAD_ARGUMENT, "leaves the cell", fb_snapshot_mesh(s, "E", both, 1, NULL, NULL, &wrong));
    FAILS(FB_BAD_ARGUMENT, "no array", fb_snapshot_particles(s, "e", NULL, 0, NULL, NULL));
    fb_record records[] = { { "position", "x", FB_DENSE(px, FB_F64, N), NULL, NULL, 0, NULL }, { "mass", NULL, FB_ONE(&nan, FB_F64), NULL, NULL, 0, NULL } };
    FAILS(FB_BAD_ARGUMENT, "finite number", fb_snapshot_particles(s, "e", records, 2, NULL, NULL));
    records[1] = (fb_record){ "id", NULL, FB_DENSE(id, FB_I64, N - 1), NULL, NULL, 0, NULL };
    FAILS(FB_BAD_ARGUMENT, "has 4", fb_snapshot_particles(s, "e", records, 2, NULL, NULL));
    records[1] = (fb_record){ .name = "id" };
    FAILS(FB_BAD_ARGUMENT, "the record \"id\"", fb_snapshot_particles(s, "e", records, 2, NULL, NULL));
    const fb_piece_opts named = { .size = sizeof named, .dims = (const char *[]){ "n" }, .ndims = 1 };
    FAILS(FB_BAD_ARGUMENT, "leave dims out", fb_snapshot_allocate_particles(s, "e", "id", NULL, &place, NULL, NULL, &named));
    OK(fb_snapshot_discard(s));
    OK(fb_snapshot_free(s));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    for (int i = 0; i < NX; ++i) x[i] = 0.2 * i;
    for (int j = 0; j < NY; ++j) y[j] = 10 + 2 * j;
    for (int i = 0; i < N; ++i) px[i] = 0.1 * i, w[i] = 1, id[i] = i, turned[i] = N - 1 - i;
    fb_run *run = NULL;
    const fb_open_opts opts = { .size = sizeof opts, .buffer = 8 << 20 };
    OK(fb_run_open(argv[1], "w", &opts, &run));
    take(run, 1);
    take(run, 0);
    refuse(run);
    OK(fb_flush(run));
    fb_stats stats = { .size = sizeof stats };
    OK(fb_run_stats(run, &stats));
    CHECK(stats.filled_elements == 2 * NX * NY);
    CHECK(stats.lost_range == 2);
    OK(fb_run_close(run));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
