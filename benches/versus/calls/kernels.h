/* What the programs on several servers and on several ranks compute, the same for all: forces among particles, a product of
 * matrices, a dot product, a picture by rays. Each work has tiles, which may be computed in any order and anywhere. */
#ifndef VERSUS_KERNELS_H
#define VERSUS_KERNELS_H

#include <math.h>

#include "../common.h"

/* --- forces: 16 x 16 tiles of 625 particles, those below the diagonal by symmetry --- */
enum { BLOCKS = 16, PER_BLOCK = 625, PARTICLES = BLOCKS * PER_BLOCK };

static inline double spread(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / 9007199254740992.0;
}

/* x, y, z of all particles, in a box of edge 1. */
static inline void scatter_particles(double *at) {
    uint64_t state = 8;
    for (int i = 0; i < 3 * PARTICLES; i++) at[i] = spread(&state);
}

/* Forces of some particles on others, or among themselves (same): added to `fa` and, turned round, to `fb`. */
static inline void forces(const double *a, int na, const double *b, int nb, int same, double *fa, double *fb) {
    for (int i = 0; i < na; i++) {
        double x = 0, y = 0, z = 0;
        for (int j = same ? i + 1 : 0; j < nb; j++) {
            double dx = b[3 * j] - a[3 * i], dy = b[3 * j + 1] - a[3 * i + 1], dz = b[3 * j + 2] - a[3 * i + 2];
            double square = dx * dx + dy * dy + dz * dz + 1e-6, f = 1 / (square * sqrt(square));
            x += f * dx, y += f * dy, z += f * dz;
            fb[3 * j] -= f * dx, fb[3 * j + 1] -= f * dy, fb[3 * j + 2] -= f * dz;
        }
        fa[3 * i] += x, fa[3 * i + 1] += y, fa[3 * i + 2] += z;
    }
}

/* --- a product: C = A B of 1,024, by 8 x 8 tiles of 128 --- */
enum { EDGE = 1024, TILES = 8, TILE = EDGE / TILES };

static inline void fill_matrix(double *m, int which) {
    for (int i = 0; i < EDGE * EDGE; i++) m[i] = (i * 7 + which) % 13 - 6;
}

/* The tile in row r and column s of C, of tiles that are packed: `a` a row of them, `b` a column of them. */
static inline void tile_product(const double *a, const double *b, double *c) {
    memset(c, 0, sizeof *c * TILE * TILE);
    for (int t = 0; t < TILES; t++, a += TILE * TILE, b += TILE * TILE)
        for (int i = 0; i < TILE; i++)
            for (int k = 0; k < TILE; k++) {
                double x = a[i * TILE + k];
                for (int j = 0; j < TILE; j++) c[i * TILE + j] += x * b[k * TILE + j];
            }
}

/* --- a dot product of 10^7 numbers, in 64 parts --- */
enum { LENGTH = 10000000, PARTS = 64 };

static inline int64_t part_begin(int part) { return (int64_t)LENGTH * part / PARTS; }
static inline double dot(const double *x, const double *y, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* --- a picture by rays: spheres that mirror, and a floor; rows are of very unlike length --- */
enum { WIDE = 512, HIGH = 384, SPHERES = 60, DEEP = 6 };

typedef struct {
    double x, y, z;
} Vec;
typedef struct {
    Vec centre;
    double radius, mirror, shade;
} Sphere;

static inline Vec vec(double x, double y, double z) { return (Vec){x, y, z}; }
static inline Vec plus(Vec a, Vec b) { return vec(a.x + b.x, a.y + b.y, a.z + b.z); }
static inline Vec less(Vec a, Vec b) { return vec(a.x - b.x, a.y - b.y, a.z - b.z); }
static inline Vec by(Vec a, double k) { return vec(a.x * k, a.y * k, a.z * k); }
static inline double in(Vec a, Vec b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
static inline Vec unit(Vec a) { return by(a, 1 / sqrt(in(a, a))); }

/* The same spheres for all; most lie in the lower half of the picture. */
static inline const Sphere *scene(void) {
    static Sphere all[SPHERES];
    if (all[0].radius == 0) {
        uint64_t state = 3;
        for (int i = SPHERES - 1; i >= 0; i--) {
            double radius = 0.15 + 0.35 * spread(&state);
            all[i].centre = vec(6 * spread(&state) - 3, radius + 0.4 * spread(&state), 4 + 8 * spread(&state));
            all[i].mirror = 0.2 + 0.7 * spread(&state);
            all[i].shade = 0.3 + 0.7 * spread(&state);
            all[i].radius = radius;
        }
    }
    return all;
}

/* The nearest thing that a ray meets: its distance, and which sphere, or -1 for the floor, -2 for nothing. */
static inline double meet(Vec from, Vec way, int *what) {
    double nearest = INFINITY;
    *what = -2;
    if (way.y < -1e-9 && -from.y / way.y > 1e-6) nearest = -from.y / way.y, *what = -1;
    const Sphere *all = scene();
    for (int i = 0; i < SPHERES; i++) {
        Vec out = less(from, all[i].centre);
        double b = in(out, way), c = in(out, out) - all[i].radius * all[i].radius, square = b * b - c;
        if (square < 0) continue;
        double root = sqrt(square), at = -b - root > 1e-6 ? -b - root : -b + root;
        if (at > 1e-6 && at < nearest) nearest = at, *what = i;
    }
    return nearest;
}

/* How bright it is where a ray comes from, over at most so many mirrors. */
static inline double bright(Vec from, Vec way, int deep) {
    double share = 1, sum = 0;
    const Vec light = unit(vec(0.5, 1, -0.6));
    for (; deep > 0; deep--) {
        int what, above;
        double at = meet(from, way, &what);
        if (what == -2) return sum + share * (0.3 + 0.5 * way.y);
        Vec here = plus(from, by(way, at)), up = vec(0, 1, 0);
        double mirror = 0.25, shade = ((int)floor(here.x) + (int)floor(here.z)) & 1 ? 0.9 : 0.2;
        if (what >= 0) {
            const Sphere *s = &scene()[what];
            up = unit(less(here, s->centre)), mirror = s->mirror, shade = s->shade;
        }
        meet(here, light, &above);
        double lit = above == -2 && in(up, light) > 0 ? in(up, light) : 0;
        sum += share * (1 - mirror) * shade * (0.2 + 0.8 * lit);
        share *= mirror;
        from = here;
        way = less(way, by(up, 2 * in(way, up)));
    }
    return sum;
}

/* A row of the picture, 2 x 2 rays a point. */
static inline void rays(int row, double *points) {
    for (int i = 0; i < WIDE; i++) {
        points[i] = 0;
        for (int k = 0; k < 4; k++) {
            double x = (i + 0.25 + 0.5 * (k & 1) - WIDE / 2.0) / WIDE;
            double y = (HIGH / 2.0 - row - 0.25 - 0.5 * (k >> 1)) / WIDE;
            points[i] += 0.25 * bright(vec(0, 1.2, -1), unit(vec(x, y - 0.1, 1)), DEEP);
        }
    }
}

#endif
