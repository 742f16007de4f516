/* The physics of the example: a one-dimensional electrostatic particle-in-cell code.

   One step goes

       rho on the grid -> field solve (elsewhere) -> E on the grid
         -> plasma_push: E at the particles -> v(t - dt/2) to v(t + dt/2) -> x(t) to x(t + dt)
         -> sums of this rank's particles -> added up over all ranks (elsewhere)
         -> plasma_collect: rho on the grid, energy, momentum

   Each rank has a contiguous part of every beam, so all parts one behind the other are the beam,
   whatever the number of ranks. Nothing here knows of Forebay or MPI. Units are normalised:
   speed U, time 1/wp, permittivity of vacuum 1. Positions and half-step velocities determine the
   rest to the bit for a given number of ranks: sums go in one order. */

#ifndef TWO_STREAM_PHYSICS_H
#define TWO_STREAM_PHYSICS_H

#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "deck.h"

/* Units of what is kept (e and m of the electron, n0 the density of a beam). */
#define UNIT_X "U/wp"
#define UNIT_V "U"
#define UNIT_T "1/wp"
#define UNIT_E "m U wp/e"
#define UNIT_PHI "m U^2/e"
#define UNIT_RHO "e n0"
#define UNIT_ENERGY "m n0 U^3/wp"
#define UNIT_MOMENTUM "m n0 U^2/wp"

#define TWO_PI 6.283185307179586476925
#define PUSH_BLOCK 1024 /* particles pushed, then deposited: they are still in the first cache */

/* This rank's particles of one beam, and what they are made of. */
struct species {
    const struct beam *beam;
    int64_t first, n; /* the beam's particles first .. first + n - 1 are here */
    double *x, *v;
    double qm, q, m;
};

/* All beams on their grid. `rho` belongs to the present positions after plasma_collect. */
struct plasma {
    const struct deck *deck;
    struct species species[DECK_BEAMS];
    double background;       /* charge density of the ions */
    double *rho;             /* [grid] */
    double *left, *rise;     /* scratch: the force at a grid point, and its rise to the next one */
    int64_t nsums;           /* length of sums, without one more that is the caller's to use */
    double *sums;            /* for each beam: particles at grid + 2 points, sum of v v', sum of v' */
    double kinetic, momentum; /* energy centred in time, momentum at the half step */
};

/* Where part `rank` of `size` begins when n things are dealt out evenly and in order. */
static int64_t share_first(int64_t n, int rank, int size)
{
    return n / size * rank + (n % size < rank ? n % size : rank);
}

/* Length of a beam's part of the sums: two more points than cells, for a particle at the right
   end of the box that rounding puts into the cell behind it. */
static int64_t sums_of_beam(const struct deck *deck) { return deck->grid + 4; }

/* Makes room for this rank's part; -1 when there is not enough memory. */
static int plasma_make(struct plasma *plasma, const struct deck *deck, int rank, int size)
{
    double charge = 0;
    memset(plasma, 0, sizeof *plasma);
    plasma->deck = deck;
    plasma->nsums = deck->beams * sums_of_beam(deck);
    plasma->rho = calloc((size_t)deck->grid, sizeof(double));
    plasma->left = calloc((size_t)deck->grid + 2, sizeof(double));
    plasma->rise = calloc((size_t)deck->grid + 1, sizeof(double));
    plasma->sums = calloc((size_t)plasma->nsums + 1, sizeof(double));
    int bad = !plasma->rho || !plasma->left || !plasma->rise || !plasma->sums;
    for (int b = 0; b < deck->beams; b++) {
        struct species *s = &plasma->species[b];
        const struct beam *beam = s->beam = &deck->beam[b];
        s->first = share_first(beam->count, rank, size);
        s->n = share_first(beam->count, rank + 1, size) - s->first;
        s->x = malloc(((size_t)s->n + 1) * sizeof(double));
        s->v = malloc(((size_t)s->n + 1) * sizeof(double));
        s->qm = beam->charge_to_mass;
        /* wp^2 = (q/m) q n with n = count / L */
        s->q = beam->plasma_frequency * beam->plasma_frequency * deck->length / ((double)beam->count * s->qm);
        s->m = s->q / s->qm;
        charge += s->q * (double)beam->count;
        bad |= !s->x || !s->v;
    }
    plasma->background = -charge / deck->length;
    return bad ? -1 : 0;
}

static void plasma_free(struct plasma *plasma)
{
    for (int b = 0; b < plasma->deck->beams; b++) {
        free(plasma->species[b].x);
        free(plasma->species[b].v);
    }
    free(plasma->rho);
    free(plasma->left);
    free(plasma->rise);
    free(plasma->sums);
}

/* Evenly spaced cold beams, each displaced in its mode; velocities still at t = 0. */
static void plasma_quiet_start(struct plasma *plasma)
{
    double length = plasma->deck->length;
    for (int b = 0; b < plasma->deck->beams; b++) {
        struct species *s = &plasma->species[b];
        double k = TWO_PI * (double)s->beam->mode / length;
        for (int64_t i = 0; i < s->n; i++) {
            double x = ((double)(s->first + i) + 0.5) * (length / (double)s->beam->count);
            x += s->beam->displacement * cos(k * x);
            s->x[i] = x - length * floor(x / length);
            s->v[i] = s->beam->drift;
        }
    }
}

/* Adds particles to the grid points left and right of them. The one place where this is done, so
   that a density made again from positions is the same to the bit. */
static void deposit(const double *x, int64_t n, double cells_per_length, double *points)
{
    for (int64_t i = 0; i < n; i++) {
        double place = x[i] * cells_per_length;
        int64_t cell = (int64_t)place;
        place -= (double)cell;
        points[cell] += 1.0 - place;
        points[cell + 1] += place;
    }
}

/* The force on the grid, times a factor, as plasma_kick wants it. */
static void plasma_force(struct plasma *plasma, const double *force, double factor)
{
    int64_t grid = plasma->deck->grid;
    for (int64_t i = 0; i < grid + 2; i++)
        plasma->left[i] = force[i % grid] * factor;
    for (int64_t i = 0; i < grid + 1; i++)
        plasma->rise[i] = plasma->left[i + 1] - plasma->left[i];
}

/* Change of velocity at a place: linear between grid points. */
static inline double plasma_kick(const struct plasma *plasma, double x, double cells_per_length)
{
    double place = x * cells_per_length;
    int64_t cell = (int64_t)place;
    return plasma->rise[cell] * (place - (double)cell) + plasma->left[cell];
}

/* Takes the velocities of a start from t = 0 to t = -dt/2, as leap-frog needs them. */
static void plasma_half_step_back(struct plasma *plasma, const double *force)
{
    const struct deck *deck = plasma->deck;
    double scale = (double)deck->grid / deck->length;
    for (int b = 0; b < deck->beams; b++) {
        struct species *s = &plasma->species[b];
        plasma_force(plasma, force, -0.5 * s->qm * deck->dt);
        for (int64_t i = 0; i < s->n; i++)
            s->v[i] += plasma_kick(plasma, s->x[i], scale);
    }
}

/* Sums of this rank for the positions as they are. */
static void plasma_deposit(struct plasma *plasma)
{
    const struct deck *deck = plasma->deck;
    memset(plasma->sums, 0, (size_t)plasma->nsums * sizeof(double));
    for (int b = 0; b < deck->beams; b++) {
        const struct species *s = &plasma->species[b];
        deposit(s->x, s->n, (double)deck->grid / deck->length, plasma->sums + b * sums_of_beam(deck));
    }
}

/* Pushes a block of particles; adds to the sums of v v' and of v'. */
static void plasma_push_block(struct plasma *plasma, double *x, double *v, int64_t n, double *moments)
{
    double length = plasma->deck->length, dt = plasma->deck->dt;
    double scale = (double)plasma->deck->grid / length, energy = 0, speed = 0;
    for (int64_t i = 0; i < n; i++) {
        double after = v[i] + plasma_kick(plasma, x[i], scale);
        double there = x[i] + dt * after;
        if (there < 0 || there >= length)
            there -= length * floor(there / length);
        energy += v[i] * after;
        speed += after;
        v[i] = after;
        x[i] = there;
    }
    moments[0] += energy;
    moments[1] += speed;
}

/* One leap-frog step of this rank's particles in the force on the grid; leaves its sums. */
static void plasma_push(struct plasma *plasma, const double *force)
{
    const struct deck *deck = plasma->deck;
    double scale = (double)deck->grid / deck->length;
    memset(plasma->sums, 0, (size_t)plasma->nsums * sizeof(double));
    for (int b = 0; b < deck->beams; b++) {
        struct species *s = &plasma->species[b];
        double *points = plasma->sums + b * sums_of_beam(deck), *moments = points + deck->grid + 2;
        plasma_force(plasma, force, s->qm * deck->dt);
        for (int64_t low = 0; low < s->n; low += PUSH_BLOCK) {
            int64_t n = s->n - low < PUSH_BLOCK ? s->n - low : PUSH_BLOCK;
            plasma_push_block(plasma, s->x + low, s->v + low, n, moments);
            deposit(s->x + low, n, scale, points);
        }
    }
}

/* Charge density, kinetic energy and momentum from the sums of all ranks. */
static void plasma_collect(struct plasma *plasma)
{
    const struct deck *deck = plasma->deck;
    int64_t grid = deck->grid;
    plasma->kinetic = plasma->momentum = 0;
    for (int64_t i = 0; i < grid; i++)
        plasma->rho[i] = plasma->background;
    for (int b = 0; b < deck->beams; b++) {
        const struct species *s = &plasma->species[b];
        double *points = plasma->sums + b * sums_of_beam(deck);
        points[0] += points[grid]; /* the box is periodic */
        points[1] += points[grid + 1];
        for (int64_t i = 0; i < grid; i++)
            plasma->rho[i] += points[i] * (s->q / deck_dx(deck));
        plasma->kinetic += 0.5 * s->m * points[grid + 2];
        plasma->momentum += s->m * points[grid + 3];
    }
}

/* The field that pulls at the particles: E and a standing wave in the deck's mode. */
static void total_force(const struct deck *deck, const double *E, double amplitude, double *force)
{
    double k = TWO_PI * (double)deck->field_mode / (double)deck->grid;
    for (int64_t i = 0; i < deck->grid; i++)
        force[i] = E[i] + amplitude * cos(k * (double)i);
}

/* Energy of the self-consistent field: half the square of E, over the box. */
static double field_energy(const struct deck *deck, const double *E)
{
    double sum = 0;
    for (int64_t i = 0; i < deck->grid; i++)
        sum += E[i] * E[i];
    return 0.5 * deck_dx(deck) * sum;
}

/* --- growth rates, for the report ------------------------------------------------------------- */

/* Greatest imaginary part of the roots of c[0] + c[1] z + ... + c[n] z^n (Durand and Kerner). */
static double greatest_imaginary(const double *c, int n)
{
    double complex root[2 * DECK_BEAMS];
    double radius = 0, most = 0;
    for (int i = 0; i < n; i++)
        radius = fmax(radius, 1 + fabs(c[i] / c[n])); /* Cauchy's bound */
    for (int i = 0; i < n; i++)
        root[i] = radius * cexp(I * (TWO_PI * i / n + 0.4));
    for (int round = 0; round < 2000; round++) {
        double moved = 0;
        for (int i = 0; i < n; i++) {
            double complex value = c[n], others = c[n];
            for (int k = n - 1; k >= 0; k--)
                value = value * root[i] + c[k];
            for (int k = 0; k < n; k++)
                others *= k == i ? 1 : root[i] - root[k];
            if (cabs(others) == 0)
                continue;
            root[i] -= value / others;
            moved = fmax(moved, cabs(value / others));
        }
        if (moved < 1e-14 * radius)
            break;
    }
    for (int i = 0; i < n; i++)
        most = fmax(most, cimag(root[i]));
    return most;
}

/* Fastest growth rate of mode 1 by the cold-beam dispersion relation
       sum over beams of wp^2 / (omega - k v0)^2 = 1
   as a polynomial: the product of all denominators, less wp^2 times the product of the others. */
static double growth_from_dispersion(const struct deck *deck)
{
    double whole[2 * DECK_BEAMS + 1] = {0}, part[2 * DECK_BEAMS + 1], k = TWO_PI / deck->length;
    for (int without = -1; without < deck->beams; without++) {
        int degree = 0;
        part[0] = without < 0 ? -1 : deck->beam[without].plasma_frequency * deck->beam[without].plasma_frequency;
        for (int b = 0; b < deck->beams; b++) {
            double shift = k * deck->beam[b].drift;
            for (int twice = 0; twice < 2 && b != without; twice++) {
                part[++degree] = 0;
                for (int i = degree; i >= 0; i--)
                    part[i] = (i ? part[i - 1] : 0) - shift * part[i];
            }
        }
        for (int i = 0; i <= degree; i++)
            whole[i] += part[i];
    }
    return greatest_imaginary(whole, 2 * deck->beams);
}

/* Index of the first local maximum that reaches a tenth of the greatest value; -1: none. */
static int64_t first_peak(const double *energy, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, energy[i]);
    for (int64_t i = 1; i < n - 1; i++)
        if (energy[i] >= energy[i - 1] && energy[i] > energy[i + 1] && energy[i] > 0.1 * most)
            return i;
    return -1;
}

/* Growth rate of the field, half that of its energy, fitted where the energy climbs from 1e-4 to
   3e-2 of its first peak. 0 when there is no peak or are too few points. */
static int growth_from_history(const double *t, const double *energy, int64_t n, double *rate)
{
    int64_t peak = first_peak(energy, n), begin = 0, stop;
    if (peak < 0)
        return 0;
    for (int64_t i = 0; i <= peak; i++)
        if (energy[i] < 1e-4 * energy[peak])
            begin = i + 1;
    for (stop = begin; stop < peak && energy[stop] <= 3e-2 * energy[peak];)
        stop++;
    if (stop - begin < 3)
        return 0;
    double count = (double)(stop - begin), st = 0, sy = 0, stt = 0, sty = 0;
    for (int64_t i = begin; i < stop; i++) {
        double shifted = t[i] - t[begin], y = log(energy[i]);
        st += shifted;
        sy += y;
        stt += shifted * shifted;
        sty += shifted * y;
    }
    *rate = 0.5 * (count * sty - st * sy) / (count * stt - st * st);
    return 1;
}

#endif
