/* The two-stream instability as a client of Forebay, by any number of ranks.

       mpicc two_stream.c $(pkg-config --cflags --libs forebay) -lm -o two_stream
       mpiexec -n 2 ./two_stream two_stream.toml

       deck -> quiet start (or the last complete snapshot)
       each step: rank 0: field solve by the service poisson1d -> fields to all ranks
         -> each rank pushes its particles -> sums over all ranks (MPI) -> history, diagrams

   A snapshot holds the state before its step. Each rank gives its slice of the fields, as a block of
   a global array, and its particles, appended in the order of ranks; the step appears as a whole. So
   a run goes on on any number of ranks: each reads its part of the beams. With the same number it
   goes on bit for bit. Without MPI: cc -DNO_MPI. */

#define _POSIX_C_SOURCE 200809L

#include <forebay.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "deck.h"
#include "options.h"
#include "physics.h"
#include "ranks.h"
#include "report.h"

/* The plasma, the run it is kept in, and the service it calls. */
struct simulation {
    const struct options *options;
    const struct deck *deck;
    fb_run *run;
    fb_client *client; /* of rank 0 */
    fb_table *history; /* of rank 0 */
    fb_diagram *phase_space, *field, *energies;
    struct plasma plasma;
    double *phi, *E;      /* [grid] each, one behind the other */
    double *force, *points;
    double amplitude;     /* of the external field: steerable */
    int64_t start, solved; /* first step, step that phi and E belong to */
    struct clocked clocked;
};

static volatile sig_atomic_t interrupted;

/* Ctrl-C and requests to end are seen once a step; a second one ends the program at once. */
static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Ends all ranks: what was acknowledged is in the run. */
static void fail(const char *text)
{
    if (ranks.size > 1)
        fprintf(stderr, "two_stream: rank %d: %s\n", ranks.rank, text);
    else
        fprintf(stderr, "two_stream: %s\n", text);
    ranks_abort(1);
}

static void check(fb_status status)
{
    if (status != FB_OK)
        fail(fb_last_error());
}

/* Memory, or the end of all ranks. */
static double *numbers(int64_t n)
{
    double *made = calloc((size_t)n, sizeof(double));
    if (!made)
        fail("there is not enough memory; use more ranks or fewer particles");
    return made;
}

/* --- the run: opened, of this deck, with its tables, diagrams and parameter -------------------- */

static void add_key(void *sum, const char *key, const char *value)
{
    const char *texts[] = {key, "=", value, "\n"};
    for (int t = 0; t < 4; t++)
        for (const char *c = texts[t]; *c; c++)
            *(double *)sum = fmod(*(double *)sum * 257 + (unsigned char)*c, 2147483647);
}

/* Ranks with different decks would wait for each other in vain. */
static void check_one_deck(const struct deck *deck)
{
    double mine = 0, sum;
    deck_flat(deck, add_key, &mine);
    sum = mine;
    ranks_sum(&sum, 1);
    if (sum != ranks.size * mine)
        fail("the deck of this rank is not that of the others; start all ranks with the same deck and options");
}

/* Opens the run; begins it anew when asked for, or when it is finished and that is wanted. */
static fb_run *open_run(const struct options *options)
{
    fb_open_opts opts = {.size = sizeof opts};
    fb_run *run = NULL;
#ifdef NO_MPI
    opts.ranks = 1; /* alone, whatever started this */
#endif
    check(fb_run_open(options->run, options->fresh ? "w" : "a", &opts, &run));
    if (!options->renew)
        return run;
    fb_snapshot *last = NULL;
    fb_step_info info = {.size = sizeof info};
    check(fb_restart(run, &last));
    if (last)
        check(fb_snapshot_step(last, &info));
    fb_snapshot_free(last);
    if (info.finished) {
        double none = 0;
        check(fb_run_close(run));
        ranks_sum(&none, 1); /* none begins anew before all have closed */
        check(fb_run_open(options->run, "w", &opts, &run));
    }
    return run;
}

/* Whether the run has a table of that name. */
static int has_table(fb_run *run, const char *name)
{
    char **names = NULL;
    int64_t count = 0;
    int found = 0;
    check(fb_tables(run, &names, &count));
    for (int64_t i = 0; i < count; i++)
        found |= strcmp(names[i], name) == 0;
    fb_free(names);
    return found;
}

static void keep_key(void *table, const char *key, const char *value)
{
    fb_values row[] = {{.column = "key", .texts = &key}, {.column = "value", .texts = &value}};
    check(fb_table_insert(table, 1, row, 2));
}

/* Keeps the deck in the table `input`, if it is not there. */
static void keep_deck(fb_run *run, const struct deck *deck)
{
    fb_column columns[] = {{.name = "key", .dtype = FB_STR}, {.name = "value", .dtype = FB_STR}};
    fb_table *table = NULL;
    int64_t rows = 0;
    check(fb_table_open(run, "input", columns, 2, NULL, &table));
    check(fb_table_count(table, &rows));
    if (rows == 0)
        deck_flat(deck, keep_key, table);
    fb_table_free(table);
}

static void same_key(void *table, const char *key, const char *value)
{
    const char *columns[] = {"value"}, *old = NULL;
    fb_arg which = FB_IN_STR(key);
    fb_rows *rows = NULL;
    int64_t found = 0;
    char text[512];
    check(fb_table_select(table, columns, 1, "key = ?", &which, 1, &rows));
    check(fb_rows_count(rows, &found, NULL));
    if (found == 1)
        check(fb_rows_str(rows, 0, &old));
    if (old && strcmp(key, "steps") != 0 && strcmp(old, value) != 0) {
        snprintf(text, sizeof text,
                 "the run was begun with %s = %s, the deck now says %s; "
                 "give another --run, or --fresh to begin anew",
                 key, old, value);
        fail(text);
    }
    fb_rows_free(rows);
}

/* A run that exists goes on only with the deck it was begun with (the number of steps may grow). */
static void check_same_deck(fb_run *run, const struct deck *deck)
{
    fb_table *table = NULL;
    if (!has_table(run, "input"))
        return;
    check(fb_table_open(run, "input", NULL, 0, NULL, &table));
    deck_flat(deck, same_key, table);
    fb_table_free(table);
}

static fb_status take_snapshot(int64_t step, void *simulation);

/* Tables, diagrams, the parameter, the button Save. */
static void declare(struct simulation *s)
{
    const struct deck *deck = s->deck;
    fb_column columns[] = {{.name = "step", .dtype = FB_I64},
                           {.name = "time", .dtype = FB_F64, .units = UNIT_T},
                           {.name = "field", .dtype = FB_F64, .units = UNIT_ENERGY},
                           {.name = "kinetic", .dtype = FB_F64, .units = UNIT_ENERGY},
                           {.name = "momentum", .dtype = FB_F64, .units = UNIT_MOMENTUM}};
    fb_table_opts history = {.size = sizeof history, .history = 1};
    fb_diagram_opts phase_space = {.size = sizeof phase_space, .kind = "scatter", .x = "x [" UNIT_X "]", .y = "v [" UNIT_V "]"};
    fb_diagram_opts field = {.size = sizeof field, .kind = "curve", .x = "x [" UNIT_X "]", .y = "E [" UNIT_E "]"};
    fb_diagram_opts energies = {.size = sizeof energies, .kind = "history", .x = "t [" UNIT_T "]", .y = "energy [" UNIT_ENERGY "]", .yscale = "log"};
    double least = -deck->field_limit;
    fb_parameter_opts amplitude = {.size = sizeof amplitude, .min = &least, .max = &deck->field_limit, .units = UNIT_E,
                                   .help = "Amplitude of a standing wave that pulls at the electrons"};
    if (ranks.rank == 0)
        check(fb_table_open(s->run, "history", columns, 5, &history, &s->history));
    check(fb_diagram_open(s->run, "Phase space", &phase_space, &s->phase_space));
    check(fb_diagram_open(s->run, "Electric field", &field, &s->field));
    check(fb_diagram_open(s->run, "Energies", &energies, &s->energies));
    s->amplitude = deck->field_amplitude;
    check(fb_parameter_f64(s->run, "external_field", &s->amplitude, &amplitude));
    fb_save_opts kept = {.size = sizeof kept, .every = deck->snapshot_every};
    check(fb_on_save(s->run, take_snapshot, s, &kept));
}

/* --- one step ----------------------------------------------------------------------------------- */

/* Rank 0 calls the service; with patience it waits so long for a first server. */
static void call_poisson1d(struct simulation *s, double patience)
{
    const struct deck *deck = s->deck;
    fb_arg args[] = {FB_IN_F64(deck->length), FB_IN_ARRAY(s->plasma.rho, FB_F64, deck->grid),
                     FB_OUT_ARRAY(s->phi, FB_F64, deck->grid), FB_OUT_ARRAY(s->E, FB_F64, deck->grid)};
    double deadline = now() + patience, begin;
    fb_status status;
    while (begin = now(), (status = fb_call(s->client, "poisson1d", args, 4)) == FB_NO_SERVER && begin < deadline) {
        if (interrupted)
            fail("interrupted while waiting for a server of poisson1d");
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    check(status);
    struct clocked *c = &s->clocked;
    if ((c->ncalls & (c->ncalls - 1)) == 0) { /* room is doubled at powers of two */
        double *more = realloc(c->calls, (size_t)(2 * c->ncalls + 1) * sizeof(double));
        if (!more)
            fail("there is not enough memory");
        c->calls = more;
    }
    c->calls[c->ncalls++] = now() - begin;
}

/* The fields of the state before `step`, on all ranks. */
static void solve(struct simulation *s, int64_t step, double patience)
{
    if (step == s->solved)
        return;
    if (ranks.rank == 0)
        call_poisson1d(s, patience);
    ranks_tell(s->phi, 2 * s->deck->grid);
    s->solved = step;
}

/* This rank's slice of a field on the grid, whose axis is x. */
static void put_field(struct simulation *s, fb_snapshot *snapshot, const char *name, const double *field, const char *unit)
{
    int64_t grid = s->deck->grid, first = share_first(grid, ranks.rank, ranks.size);
    int64_t n = share_first(grid, ranks.rank + 1, ranks.size) - first;
    const fb_coord x = {"x", FB_DENSE(s->points, FB_F64, grid), UNIT_X};
    const fb_component slice = {.values = FB_DENSE(field + first, FB_F64, n)};
    fb_piece_opts opts = {.size = sizeof opts, .units = unit, .coords = &x, .ncoords = 1};
    check(fb_snapshot_mesh(snapshot, name, &slice, 1, &first, &grid, &opts));
}

/* This rank's particles of a beam, behind those of lower ranks. */
static void put_particles(fb_snapshot *snapshot, const struct species *beam)
{
    const fb_record records[] = {
        {.name = "position", .component = "x", .values = FB_DENSE(beam->x, FB_F64, beam->n), .units = UNIT_X},
        {.name = "velocity", .component = "x", .values = FB_DENSE(beam->v, FB_F64, beam->n), .units = UNIT_V}};
    char name[DECK_NAME + 16];
    snprintf(name, sizeof name, "electrons_%s", beam->beam->name);
    check(fb_snapshot_particles(snapshot, name, records, 2, FB_APPEND, NULL));
}

/* Keeps the state before `step`, with the fields of that state. */
static fb_status take_snapshot(int64_t step, void *simulation)
{
    struct simulation *s = simulation;
    fb_snapshot *snapshot = NULL;
    int taken = 0; /* not where it is the one that the run went back to */
    check(fb_snapshot_begin(s->run, step, (double)step * s->deck->dt, &snapshot));
    check(fb_snapshot_taken(snapshot, &taken));
    if (taken) {
        solve(s, step, 0);
        put_field(s, snapshot, "E", s->E, UNIT_E);
        put_field(s, snapshot, "phi", s->phi, UNIT_PHI);
        put_field(s, snapshot, "rho", s->plasma.rho, UNIT_RHO);
        for (int b = 0; b < s->deck->beams; b++)
            put_particles(snapshot, &s->plasma.species[b]);
    }
    check(fb_snapshot_end(snapshot));
    return fb_snapshot_free(snapshot);
}

/* Adds the sums of all ranks up; says whether one of them was told to end. */
static int collect(struct simulation *s)
{
    double *told = &s->plasma.sums[s->plasma.nsums];
    *told = interrupted;
    ranks_sum(s->plasma.sums, s->plasma.nsums + 1);
    plasma_collect(&s->plasma);
    return *told != 0;
}

/* What rank 0 tells of a step. */
static void record(struct simulation *s, int64_t step, double energy)
{
    const struct plasma *plasma = &s->plasma;
    const char *names[] = {"field", "kinetic"};
    double t = (double)step * s->deck->dt, values[] = {energy, plasma->kinetic};
    fb_values row[] = {{.column = "step", .array = FB_ONE(&step, FB_I64)},
                       {.column = "time", .array = FB_ONE(&t, FB_F64)},
                       {.column = "field", .array = FB_ONE(&energy, FB_F64)},
                       {.column = "kinetic", .array = FB_ONE(&plasma->kinetic, FB_F64)},
                       {.column = "momentum", .array = FB_ONE(&plasma->momentum, FB_F64)}};
    check(fb_history_append(s->energies, t, 2, names, values));
    check(fb_table_insert(s->history, 1, row, 5));
}

/* Computes one step; says whether to go on. */
static int advance(struct simulation *s, int64_t step)
{
    struct plasma *plasma = &s->plasma;
    solve(s, step, step == s->start ? s->options->wait : 0);
    for (int b = 0; b < s->deck->beams; b++) {
        const struct species *beam = &plasma->species[b];
        check(fb_curve_update(s->phase_space, beam->beam->name, beam->n, beam->x, beam->v));
    }
    if (ranks.rank == 0)
        check(fb_curve_update(s->field, NULL, s->deck->grid, s->points, s->E));
    double energy = field_energy(s->deck, s->E);
    total_force(s->deck, s->E, s->amplitude, s->force);
    plasma_push(plasma, s->force);
    int told = collect(s);
    if (ranks.rank == 0)
        record(s, step, energy);
    return !told;
}

/* --- the whole ---------------------------------------------------------------------------------- */

/* This rank's particles, from a snapshot. */
static void load(struct simulation *s, fb_snapshot *from)
{
    char name[DECK_NAME + 32];
    for (int b = 0; b < s->deck->beams; b++) {
        const struct species *beam = &s->plasma.species[b];
        for (int what = 0; what < 2 && beam->n; what++) {
            snprintf(name, sizeof name, "electrons_%s/%s/x", beam->beam->name, what ? "velocity" : "position");
            check(fb_snapshot_get_part(from, name, &beam->first, NULL, FB_DENSE(what ? beam->v : beam->x, FB_F64, beam->n)));
        }
    }
}

/* Makes the state before the first step: from the last complete snapshot, or the quiet start. */
static void begin(struct simulation *s)
{
    fb_snapshot *last = NULL;
    fb_step_info info = {.size = sizeof info};
    int64_t grid = s->deck->grid;
    s->phi = numbers(2 * grid);
    s->E = s->phi + grid;
    s->force = numbers(grid);
    s->points = numbers(grid);
    for (int64_t i = 0; i < grid; i++)
        s->points[i] = (double)i * deck_dx(s->deck);
    if (plasma_make(&s->plasma, s->deck, ranks.rank, ranks.size))
        fail("there is not enough memory; use more ranks or fewer particles");
    check(fb_restart(s->run, &last));
    declare(s);
    s->solved = -1;
    if (last) {
        check(fb_snapshot_step(last, &info));
        s->start = info.step;
        load(s, last);
    } else {
        if (ranks.rank == 0)
            keep_deck(s->run, s->deck);
        plasma_quiet_start(&s->plasma);
    }
    plasma_deposit(&s->plasma);
    collect(s);
    if (!last) {
        solve(s, 0, s->options->wait);
        total_force(s->deck, s->E, s->amplitude, s->force);
        plasma_half_step_back(&s->plasma, s->force);
    }
    check(fb_steps_from(s->run, last));
    check(fb_snapshot_free(last));
}

/* Runs the loop; says whether it was interrupted. */
static int loop(struct simulation *s)
{
    double since = now();
    int64_t step;
    int more;
    while ((more = fb_step(s->run, &step, s->deck->steps)) > 0) {
        if (!advance(s, step))
            return 1;
    }
    if (more < 0)
        fail(fb_last_error());
    s->clocked.seconds = now() - since;
    return 0;
}

static void end(struct simulation *s)
{
    free(s->clocked.calls);
    free(s->phi);
    free(s->force);
    free(s->points);
    plasma_free(&s->plasma);
    check(fb_disconnect(s->client));
}

/* From the open run to the report; the exit status. */
static int simulate(const struct options *options, const struct deck *deck)
{
    struct simulation s = {.options = options, .deck = deck};
    char *page = NULL;
    double all = 0;
    check_one_deck(deck);
    s.run = open_run(options);
    if (ranks.rank == 0) {
        check_same_deck(s.run, deck);
        if (options->monitor)
            check(fb_monitor_url(s.run, &page));
        if (page)
            printf("the page: %s\n", page);
        fb_free(page);
        fflush(stdout);
        check(fb_connect(NULL, &s.client));
    }
    begin(&s);
    if (ranks.rank == 0 && s.start >= deck->steps)
        puts("the run is finished; begin anew with --fresh, or go further with --steps");
    else if (ranks.rank == 0 && s.start)
        printf("going on from step %" PRId64 "\n", s.start);
    fflush(stdout);
    int told = loop(&s);
    if (!told) {
        check(fb_flush(s.run));
        ranks_sum(&all, 1); /* all ranks have flushed: the last step is durable */
        if (ranks.rank == 0)
            check(report(s.run, deck, &s.clocked));
    }
    check(told ? fb_run_close_unfinished(s.run) : fb_run_close(s.run));
    end(&s);
    if (told && ranks.rank == 0)
        fprintf(stderr, "two_stream: interrupted; start it again to go on from the last snapshot\n");
    return told ? 130 : 0;
}

int main(int argc, char **argv)
{
    struct options options;
    struct deck deck;
    struct deck_error error;
    ranks_begin(&argc, &argv);
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int status = options_read(argc, argv, ranks.rank == 0, &options) - 1;
    if (status < 0) {
        int bad = deck_load(options.deck, &deck, &error);
        if (!bad && options.particles)
            bad = deck_share(&deck, options.particles, &error);
        if (!bad && options.steps)
            deck.steps = options.steps;
        if (bad && ranks.rank == 0)
            fprintf(stderr, "two_stream: %s\n", error.text);
        status = bad ? 1 : simulate(&options, &deck);
    }
    ranks_end();
    return status;
}
