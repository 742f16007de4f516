/* The program that is hurt, in C: a single rank of what `program.rs` does, with the same log. */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <forebay.h>

enum { PIECE = 3000, LARGE = 20000, STATE = 500, AHEAD = 2, PATH = 512 };
enum { DONE = 0, TOLD = 3, LOST = 4 };

static const char *dir, *start;
static int rank, ranks, calls, log_fd;

/* One write: a process killed here has written the line or nothing. */
static void say(const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (n < 0) exit(LOST);
    if ((size_t)n > sizeof line - 2) n = sizeof line - 2;
    line[n++] = '\n';
    if (write(log_fd, line, (size_t)n) != n) exit(LOST);
}

/* An error ends the program, with its text in the log. */
static void must(fb_status status)
{
    if (status == FB_OK) return;
    say("X %d: %s", (int)status, fb_last_error());
    exit(TOLD);
}

static void nap(double seconds)
{
    struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&t, NULL);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void field(int64_t step, int64_t n, double *values)
{
    for (int64_t i = 0; i < n; i++) values[i] = (double)step * 1e6 + rank * 1e5 + (double)i * 0.25;
}

/* Tells the other ranks. */
static void tell(const char *name, int64_t what)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/%s.%d", dir, name, rank);
    FILE *file = fopen(path, "w");
    if (!file || fprintf(file, "%s %lld", start, (long long)what) < 0 || fclose(file)) exit(LOST);
}

/* What another rank of this start has told; -9: nothing yet. */
static int64_t told(const char *name, int other)
{
    char path[PATH], text[64] = "";
    snprintf(path, sizeof path, "%s/%s.%d", dir, name, other);
    FILE *file = fopen(path, "r");
    if (!file) return -9;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    size_t stem = strlen(start);
    if (strncmp(text, start, stem) || text[stem] != ' ' || !text[stem + 1]) return -9;
    return strtoll(text + stem + 1, NULL, 10);
}

/* The last step, once the driver has named it; -1 before. */
static int64_t last_step(void)
{
    char path[PATH];
    long long last = -1;
    snprintf(path, sizeof path, "%s/stop", dir);
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    if (fscanf(file, "%lld", &last) != 1) last = -1;
    fclose(file);
    return last;
}

/* A rank of before may be about to be noticed, or an owner be stopped just now. */
static fb_run *open_run(void)
{
    char place[PATH];
    fb_open_opts opts = { .size = sizeof opts, .buffer = 8 << 20, .rank = rank, .ranks = ranks };
    fb_run *run = NULL;
    double until = now() + 10.0;
    snprintf(place, sizeof place, "%s/chaos", dir);
    for (;;) {
        fb_status status = fb_run_open(place, "a", &opts, &run);
        int passing = status == FB_CONFLICT || status == FB_SERVER_LOST || status == FB_TIMEOUT || status == FB_NO_SERVER;
        if (!passing || now() > until) {
            must(status);
            return run;
        }
        nap(0.02);
    }
}

static void put_block(fb_snapshot *snapshot, const char *name, int64_t n, const double *values)
{
    int64_t offset = rank * n, global = ranks * n;
    must(fb_snapshot_put(snapshot, name, FB_DENSE(values, FB_F64, n), &offset, &global));
}

static void take(fb_run *run, int64_t step, const double *state)
{
    static double values[PIECE];
    fb_snapshot *snapshot;
    int64_t few = 10 + rank, some = 64;
    field(step, PIECE, values);
    must(fb_snapshot_begin(run, step, (double)step * 0.1, &snapshot));
    put_block(snapshot, "electrons/x", PIECE, values);
    put_block(snapshot, "state", STATE, state);
    must(fb_snapshot_put(snapshot, "behind", FB_DENSE(values, FB_F64, few), FB_APPEND, NULL));
    if (rank == 0) must(fb_snapshot_put(snapshot, "E", FB_DENSE(values, FB_F64, some), NULL, NULL));
    must(fb_snapshot_end(snapshot));
    must(fb_snapshot_free(snapshot));
}

static void put_all(fb_run *run, int64_t step)
{
    static double values[LARGE];
    char name[32];
    int64_t one = 1, large = LARGE;
    say("p %lld", (long long)step);
    snprintf(name, sizeof name, "small/%d", rank);
    must(fb_put(run, name, 0, FB_DENSE(&step, FB_I64, one)));
    say("P %lld", (long long)step);
    if (step % 4 != 1) return;
    say("g %lld", (long long)step);
    field(step, LARGE, values);
    snprintf(name, sizeof name, "large/%d", rank);
    must(fb_put(run, name, 0, FB_DENSE(values, FB_F64, large)));
    say("G %lld", (long long)step);
}

/* Goes back to the last complete step, which it returns, and takes the state from there. */
static int64_t go_back(fb_run *run, double *state)
{
    fb_snapshot *kept;
    fb_step_info info = { .size = sizeof info };
    memset(state, 0, STATE * sizeof *state);
    must(fb_restart(run, &kept));
    if (!kept) return -1;
    int64_t all = (int64_t)ranks * STATE;
    double *states = malloc((size_t)all * sizeof *states);
    if (!states) exit(LOST);
    must(fb_snapshot_get(kept, "state", FB_DENSE(states, FB_F64, all)));
    memcpy(state, states + rank * STATE, STATE * sizeof *state);
    free(states);
    must(fb_snapshot_step(kept, &info));
    must(fb_snapshot_free(kept));
    return info.step;
}

static void advance(fb_client *client, int64_t step, double *state)
{
    static double x[STATE];
    const double third = 1.0 / 3.0;
    field(step, STATE, x);
    if (!client) {
        for (int i = 0; i < STATE; i++) state[i] += third * x[i];
        return;
    }
    fb_arg args[] = { FB_IN_F64(third), FB_IN_ARRAY(x, FB_F64, STATE), FB_INOUT_ARRAY(state, FB_F64, STATE) };
    fb_future *call;
    fb_timing timing = { .size = sizeof timing };
    must(fb_call_async(client, "axpy", args, 3, &call));
    must(fb_wait(call, 15.0));
    must(fb_call_timing(call, &timing));
    must(fb_future_free(call));
    say("C %lld %u", (long long)step, timing.reissued);
}

static void compute(fb_run *run, fb_table *table, fb_diagram *diagram, fb_client *client, int64_t back, double *state)
{
    int64_t step = 0;
    int more;
    const fb_loop_opts loop = { .size = sizeof loop, .start = back < 0 ? 0 : back };
    must(fb_steps_with(run, &loop));
    while ((more = fb_step(run, &step, (int64_t)1 << 40)) > 0) {
        int64_t last = last_step();
        if (last >= 0 && step > last) return;
        tell("at", step);
        for (int other = 0; other < ranks; other++)
            while (other != rank && told("at", other) < step - AHEAD) nap(0.001);
        if (rank == 0 && step > 0) {
            double value = (double)step * 0.5;
            fb_values row[] = { { .column = "at", .array = FB_ONE(&step, FB_I64) },
                                 { .column = "value", .array = FB_ONE(&value, FB_F64) } };
            say("r %lld", (long long)step);
            must(fb_table_insert(table, 1, row, 2));
            must(fb_history_append(diagram, (double)step, 1, (const char *const[]){ "E" }, &value));
            say("R %lld", (long long)step);
        }
        if (step > back) {
            say("b %lld", (long long)step);
            take(run, step, state);
            say("E %lld", (long long)step);
        }
        put_all(run, step);
        advance(client, step, state);
        if (step % 5 == 4) {
            must(fb_flush(run));
            say("F %lld", (long long)step);
        }
        nap(0.001);
    }
    if (more < 0) must((fb_status)-more);
}

int main(void)
{
    static double state[STATE];
    char path[PATH];
    dir = getenv("CHAOS_DIR");
    start = getenv("CHAOS_START");
    if (!dir || !start) return LOST;
    rank = atoi(getenv("CHAOS_RANK") ? getenv("CHAOS_RANK") : "0");
    ranks = atoi(getenv("CHAOS_SIZE") ? getenv("CHAOS_SIZE") : "1");
    calls = getenv("CHAOS_CALLS") && *getenv("CHAOS_CALLS");
    snprintf(path, sizeof path, "%s/log.%d", dir, rank);
    log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log_fd < 0) return LOST;

    fb_run *run = open_run();
    int64_t back = go_back(run, state);
    fb_column columns[] = { { .name = "at", .dtype = FB_I64 }, { .name = "value", .dtype = FB_F64, .units = "J" } };
    fb_table_opts history = { .size = sizeof history, .history = 1 };
    fb_table *table;
    must(fb_table_open(run, "history", columns, 2, &history, &table));
    say("o %lld", (long long)back);
    fb_diagram_opts kind = { .size = sizeof kind, .kind = "history" };
    fb_diagram *diagram;
    must(fb_diagram_open(run, "Energy", &kind, &diagram));
    fb_client *client = NULL;
    if (calls) must(fb_connect(NULL, &client));
    tell("here", back);
    for (int other = 0; other < ranks; other++)
        while (told("here", other) != back) nap(0.001);
    compute(run, table, diagram, client, back, state);
    must(fb_run_close(run));
    must(fb_disconnect(client));
    say("D ");
    return DONE;
}
