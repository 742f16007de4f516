/* Bags of tasks: bag [small] (with servers of its own; small: what valgrind is able to do, which does not map the memory for
   large arrays and hangs when a child of fork ends itself), bag serve (a server until it is told to end), bag killing PID (on servers that are there,
   of which it kills that one in the middle). */

#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TASKS = 1000 };

static atomic_int is_open, at_gate;

static void rest(void) { nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL); }

static fb_status square(fb_request *request, void *user)
{
    double x = 0;
    CHECK(fb_request_f64(request, 0, &x) == FB_OK);
    if (user) rest();
    return fb_request_set_f64(request, 1, x * x);
}

/* z = a x + y, and y grows by one. */
static fb_status axpyz(fb_request *request, void *user)
{
    double a = 0;
    fb_array x, y, z;
    (void)user;
    CHECK(fb_request_f64(request, 0, &a) == FB_OK);
    CHECK(fb_request_array(request, 1, FB_F64, &x) == FB_OK);
    CHECK(fb_request_array(request, 2, FB_F64, &y) == FB_OK);
    CHECK(fb_request_array(request, 3, FB_F64, &z) == FB_OK);
    for (int64_t i = 0; i < x.shape[0]; ++i) {
        ((double *)z.data)[i] = a * ((double *)x.data)[i] + ((double *)y.data)[i];
        ((double *)y.data)[i] += 1;
    }
    return FB_OK;
}

/* A matrix, element by element as it lies in memory; a number and a text that change. */
static fb_status kinds(fb_request *request, void *user)
{
    fb_array m;
    int64_t n = 0;
    const char *name = NULL;
    char said[64];
    (void)user;
    CHECK(fb_request_i64(request, 0, &n) == FB_OK);
    CHECK(fb_request_str(request, 1, &name) == FB_OK);
    CHECK(fb_request_array(request, 2, FB_F64, &m) == FB_OK);
    for (int64_t i = 0; i < m.shape[0] * m.shape[1]; ++i) ((double *)m.data)[i] = (double)(n + i);
    snprintf(said, sizeof said, "%s %d", name, (int)n);
    CHECK(fb_request_set_i64(request, 0, -n) == FB_OK);
    return fb_request_set_str(request, 3, said);
}

static fb_status picky(fb_request *request, void *user)
{
    int64_t n = 0;
    char text[64];
    (void)user;
    CHECK(fb_request_i64(request, 0, &n) == FB_OK);
    snprintf(text, sizeof text, "%d is not to my taste", (int)n);
    return n % 100 == 7 ? fb_request_fail(request, text) : fb_request_set_i64(request, 1, 2 * n);
}

/* Waits until the gate is open. */
static fb_status gate(fb_request *request, void *user)
{
    int64_t n = 0;
    int given_up = 0;
    (void)user;
    CHECK(fb_request_i64(request, 0, &n) == FB_OK);
    atomic_fetch_add(&at_gate, 1);
    while (!atomic_load(&is_open) && !given_up) {
        CHECK(fb_request_cancelled(request, &given_up) == FB_OK);
        rest();
    }
    return fb_request_set_i64(request, 1, n);
}

/* Ends with that status. */
static fb_status ends(fb_request *request, void *user)
{
    int64_t n = 0;
    (void)user;
    CHECK(fb_request_i64(request, 0, &n) == FB_OK);
    return fb_request_set_i64(request, 1, n);
}

static fb_server *serve(const char *name, void *slow)
{
    fb_server *server = NULL;
    const fb_server_opts opts = { .size = sizeof opts, .name = name, .workers = 2 };
    OK(fb_server_create(&opts, &server));
    OK(fb_service_register(server, "square(in x:f64, out y:f64)", square, slow));
    OK(fb_service_register(server, "axpyz(in a:f64, in x:f64[n], inout y:f64[n], out z:f64[n])", axpyz, NULL));
    OK(fb_service_register(server, "kinds(inout n:i64, in name:str, out m:f64[r,c], out said:str)", kinds, NULL));
    OK(fb_service_register(server, "picky(in n:i64, out twice:i64)", picky, NULL));
    OK(fb_service_register(server, "gate(in n:i64, out same:i64)", gate, NULL));
    FAILS(FB_BAD_ARGUMENT, "names \"m\"",
          fb_service_register(server, "ends(in n:i64, out info:i64 status) cost m*n", ends, NULL));
    OK(fb_service_register(server, "ends(in n:i64, out info:i64 status) cost n**2 + 3*n", ends, NULL));
    return server;
}

static void add_square(fb_bag *bag, double x, double *y)
{
    const fb_arg args[] = { FB_IN_F64(x), FB_OUT_F64(y) };
    OK(fb_bag_add(bag, args, 2, FB_FOREVER, NULL));
}

static void totals(fb_bag *bag, int64_t done, int64_t failed, int64_t cancelled)
{
    fb_bag_totals all = { .size = sizeof all };
    OK(fb_bag_counts(bag, &all));
    CHECK(all.done == done && all.failed == failed && all.cancelled == cancelled);
    CHECK(all.pulled == done + failed + cancelled && all.under_way == 0);
}

static void as_a_loop(fb_client *client)
{
    static double loop[TASKS], y[TASKS];
    fb_bag *bag = NULL;
    int64_t index = -2;
    fb_status outcome = FB_INTERNAL;
    for (int i = 0; i < TASKS; ++i) OK(FB_CALL(client, "square", FB_IN_F64(i * 0.5), FB_OUT_F64(&loop[i])));
    OK(fb_bag_open(client, "square", NULL, &bag));
    for (int i = 0; i < TASKS; ++i) add_square(bag, i * 0.5, &y[i]);
    OK(fb_bag_end(bag));
    OK(fb_bag_end(bag));
    for (int i = 0; i < TASKS; ++i) {
        OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
        CHECK(index == i && outcome == FB_OK && y[i] == loop[i]);
    }
    OK(fb_bag_next(bag, 0, &index, &outcome));
    CHECK(index == -1 && outcome == FB_OK);
    OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
    CHECK(index == -1);
    totals(bag, TASKS, 0, 0);
    OK(fb_bag_free(bag));

    /* As they end, and more than the servers have at a time are added while others are taken. */
    const fb_bag_opts opts = { .size = sizeof opts, .window = 3, .unordered = 1, .no_tail = 1 };
    int seen = 0;
    memset(y, 0, sizeof y);
    OK(fb_bag_open(client, "square", &opts, &bag));
    for (int i = 0; i < TASKS; ++i) {
        add_square(bag, i * 0.5, &y[i]);
        while (fb_bag_next(bag, 0, &index, &outcome) == FB_OK) {
            CHECK(index >= 0 && index <= i && outcome == FB_OK && y[index] == loop[index]);
            ++seen;
        }
    }
    OK(fb_bag_end(bag));
    for (; seen < TASKS; ++seen) {
        OK(fb_bag_next(bag, 20, &index, &outcome));
        CHECK(outcome == FB_OK && y[index] == loop[index]);
    }
    OK(fb_bag_next(bag, 20, &index, &outcome));
    CHECK(index == -1);
    OK(fb_bag_free(bag));
}

/* Results are written where the arguments of their task point, and what goes is free at once. */
static void places(fb_client *client, int length)
{
    enum { MANY = 50, MOST = 3000 };
    static double x[MOST], y[MANY][MOST], z[MANY][MOST], wide[2 * MOST];
    fb_bag *bag = NULL;
    int64_t index = -2;
    fb_status outcome = FB_INTERNAL;
    OK(fb_bag_open(client, "axpyz", NULL, &bag));
    for (int n = 0; n < MANY; ++n) {
        for (int i = 0; i < length; ++i) x[i] = i, y[n][i] = n;
        fb_arg args[] = { FB_IN_F64(n), FB_IN_ARRAY(x, FB_F64, length), FB_INOUT_ARRAY(y[n], FB_F64, length),
                          FB_OUT_ARRAY(z[n], FB_F64, length) };
        /* The last one's elements lie apart. */
        if (n == MANY - 1) args[3].data = wide, args[3].strides[0] = 2 * sizeof *wide;
        OK(fb_bag_add(bag, args, 4, FB_FOREVER, &index));
        CHECK(index == n);
        memset(args, 0xff, sizeof args);
        memset(x, 0xff, sizeof x);
    }
    OK(fb_bag_end(bag));
    for (int n = 0; n < MANY; ++n) {
        CHECK(y[n][7] == n && z[n][7] == 0);
        OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
        CHECK(index == n && outcome == FB_OK);
        for (int i = 0; i < length; ++i) {
            CHECK(y[n][i] == n + 1);
            CHECK((n == MANY - 1 ? wide[2 * i] : z[n][i]) == (double)n * i + n);
            CHECK(wide[2 * i + 1] == 0);
        }
    }
    OK(fb_bag_free(bag));

    /* A number in and out, a text, a matrix of either order whose size is the caller's to say. */
    double rows[2][3], columns[3][2];
    int64_t numbers[3] = { 10, 20, 30 };
    char said[2][16], little[4];
    OK(fb_bag_open(client, "kinds", NULL, &bag));
    const fb_arg first[] = { FB_INOUT_I64(&numbers[0]), FB_IN_STR("ions"), FB_OUT_ARRAY(rows, FB_F64, 2, 3),
                             FB_OUT_STR(said[0], 16) };
    const fb_arg second[] = { FB_INOUT_I64(&numbers[1]), FB_IN_STR("holes"), FB_OUT_ARRAY_F(columns, FB_F64, 2, 3),
                              FB_OUT_STR(said[1], 16) };
    const fb_arg third[] = { FB_INOUT_I64(&numbers[2]), FB_IN_STR("electrons"), FB_OUT_ARRAY(rows, FB_F64, 2, 3),
                             FB_OUT_STR(little, 4) };
    OK(fb_bag_add(bag, first, 4, FB_FOREVER, NULL));
    OK(fb_bag_add(bag, second, 4, FB_FOREVER, NULL));
    OK(fb_bag_add(bag, third, 4, FB_FOREVER, NULL));
    OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
    CHECK(outcome == FB_OK && numbers[0] == -10 && strcmp(said[0], "ions 10") == 0);
    CHECK(rows[0][0] == 10 && rows[1][2] == 15);
    OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
    CHECK(outcome == FB_OK && numbers[1] == -20 && strcmp(said[1], "holes 20") == 0);
    CHECK(columns[0][0] == 20 && columns[2][1] == 25);
    OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
    FAILS(FB_FULL, "more room", outcome);
    CHECK(numbers[2] == 30 && index == 2);
    OK(fb_bag_free(bag));
}

static void failing(fb_client *client)
{
    static int64_t twice[TASKS];
    char wanted[32];
    fb_bag *bag = NULL;
    int64_t index = -2;
    fb_status outcome = FB_INTERNAL;
    OK(fb_bag_open(client, "picky", NULL, &bag));
    for (int64_t n = 0; n < TASKS; ++n) {
        const fb_arg args[] = { FB_IN_I64(n), FB_OUT_I64(&twice[n]) };
        OK(fb_bag_add(bag, args, 2, FB_FOREVER, NULL));
    }
    OK(fb_bag_end(bag));
    for (int n = 0; n < TASKS; ++n) {
        OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
        CHECK(index == n);
        snprintf(wanted, sizeof wanted, "%d is not to my taste", n);
        if (n % 100 == 7) FAILS(FB_REMOTE_ERROR, wanted, outcome);
        else CHECK(outcome == FB_OK && twice[n] == 2 * n);
    }
    int state = -1;
    OK(fb_bag_state(bag, 107, &state));
    CHECK(state == FB_TASK_FAILED);
    OK(fb_bag_state(bag, 108, &state));
    CHECK(state == FB_TASK_DONE);
    FAILS(FB_NOT_FOUND, "no task 1000", fb_bag_state(bag, TASKS, &state));
    FAILS(FB_NOT_FOUND, "no task -1", fb_bag_cancel(bag, -1));
    totals(bag, TASKS - 10, 10, 0);
    OK(fb_bag_free(bag));
}

struct lazy {
    fb_bag *bag;
    double y[TASKS];
    int64_t asked, taken, last;
    int wrong;
};

static int input(int64_t index, fb_arg *args, void *user)
{
    struct lazy *lazy = user;
    CHECK(index == lazy->asked && args[1].kind == 0 && args[1].data == NULL);
    if (index == TASKS) return 0;
    /* Not all is asked for at once: this is as lazy as it is said. */
    CHECK(index <= lazy->taken + 2048);
    ++lazy->asked;
    args[0] = FB_IN_F64((double)index);
    args[1] = FB_OUT_F64(&lazy->y[index]);
    return index == lazy->wrong ? 1 : 2;
}

static int output(int64_t index, fb_status outcome, void *user)
{
    struct lazy *lazy = user;
    int64_t other = -1;
    CHECK(index == lazy->taken++);
    if (index == lazy->wrong) FAILS(FB_BAD_ARGUMENT, "2 parameters and got 1", outcome);
    else CHECK(outcome == FB_OK && lazy->y[index] == (double)index * (double)index);
    FAILS(FB_CONFLICT, "in use", fb_bag_end(lazy->bag));
    FAILS(FB_CONFLICT, "in use", fb_bag_next(lazy->bag, 0, &other, &outcome));
    return index == lazy->last;
}

static int nothing(int64_t index, fb_arg *args, void *user)
{
    (void)index, (void)args, (void)user;
    return -3;
}

static void lazily(fb_client *client)
{
    static struct lazy lazy;
    int64_t index = -2;
    fb_status outcome = FB_INTERNAL;
    lazy.last = -1, lazy.wrong = 44;
    OK(fb_bag_open(client, "square", NULL, &lazy.bag));
    OK(fb_bag_run(lazy.bag, input, output, &lazy));
    CHECK(lazy.taken == TASKS && lazy.asked == TASKS);
    totals(lazy.bag, TASKS - 1, 1, 0);
    OK(fb_bag_free(lazy.bag));

    /* Ended early, by the one and by the other. */
    lazy = (struct lazy){ .last = 10, .wrong = -1 };
    OK(fb_bag_open(client, "square", NULL, &lazy.bag));
    FAILS(FB_CANCELLED, "output of task 10 gave 1", fb_bag_run(lazy.bag, input, output, &lazy));
    CHECK(lazy.taken == 11);
    FAILS(FB_CLOSED, "closed", fb_bag_next(lazy.bag, 0, &index, &outcome));
    OK(fb_bag_free(lazy.bag));
    OK(fb_bag_open(client, "square", NULL, &lazy.bag));
    FAILS(FB_CANCELLED, "input of task 0 gave -3", fb_bag_run(lazy.bag, nothing, output, &lazy));
    FAILS(FB_CLOSED, "closed", fb_bag_run(lazy.bag, input, output, &lazy));
    OK(fb_bag_free(lazy.bag));
}

static void *take(void *user)
{
    int64_t index = -2;
    fb_status outcome = FB_INTERNAL, status;
    while ((status = fb_bag_next(user, 30, &index, &outcome)) == FB_CONFLICT) continue;
    return (void *)(intptr_t)status;
}

static void add_gate(fb_bag *bag, int64_t n, int64_t *same)
{
    const fb_arg args[] = { FB_IN_I64(n), FB_OUT_I64(same) };
    OK(fb_bag_add(bag, args, 2, FB_FOREVER, NULL));
}

static void given_up(fb_client *client)
{
    enum { MANY = 20 };
    int64_t same[MANY] = { 0 }, index = -2;
    fb_status outcome = FB_INTERNAL;
    fb_bag *bag = NULL;
    int state = -1;
    atomic_store(&is_open, 0);
    OK(fb_bag_open(client, "gate", NULL, &bag));
    for (int n = 0; n < MANY; ++n) add_gate(bag, n, &same[n]);
    FAILS(FB_TIMEOUT, "no task is over", fb_bag_next(bag, 0.01, &index, &outcome));
    OK(fb_bag_state(bag, 0, &state));
    CHECK(state == FB_TASK_OPEN);
    /* One that runs and one that waits. */
    OK(fb_bag_cancel(bag, 0));
    OK(fb_bag_cancel(bag, MANY - 1));
    OK(fb_bag_state(bag, MANY - 1, &state));
    CHECK(state == FB_TASK_CANCELLED);
    atomic_store(&is_open, 1);
    OK(fb_bag_end(bag));
    for (int n = 0; n < MANY; ++n) {
        OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
        CHECK(index == n);
        if (n == 0 || n == MANY - 1) FAILS(FB_CANCELLED, "cancelled", outcome);
        else CHECK(outcome == FB_OK && same[n] == n);
    }
    OK(fb_bag_cancel(bag, 3));
    totals(bag, MANY - 2, 0, 2);
    OK(fb_bag_free(bag));

    /* Freed in the middle, while another thread waits: it is told, and no task begins any more. */
    pthread_t waiter;
    void *told = NULL;
    atomic_store(&is_open, 0);
    atomic_store(&at_gate, 0);
    OK(fb_bag_open(client, "gate", NULL, &bag));
    for (int n = 0; n < MANY; ++n) add_gate(bag, n, &same[n]);
    while (atomic_load(&at_gate) == 0) rest();
    CHECK(pthread_create(&waiter, NULL, take, bag) == 0);
    fb_status status;
    while ((status = fb_bag_next(bag, 0, &index, &outcome)) == FB_TIMEOUT) rest();
    FAILS(FB_CONFLICT, "in use", status);
    OK(fb_bag_state(bag, 0, &state));
    OK(fb_bag_free(bag));
    CHECK(pthread_join(waiter, &told) == 0);
    CHECK((fb_status)(intptr_t)told == FB_CLOSED);
    FAILS(FB_CLOSED, "fb_bag", fb_bag_end(bag));
    FAILS(FB_CLOSED, "fb_bag", fb_bag_free(bag));
    CHECK(atomic_load(&at_gate) < MANY);
    atomic_store(&is_open, 1);
}

/* Results that nobody takes fill a bag: who adds more is told, at once, and goes on when some were taken. */
static void full(fb_client *client)
{
    enum { LENGTH = 20000, MANY = 100 };
    static double x[LENGTH], y[MANY][LENGTH], z[MANY][LENGTH];
    const fb_bag_opts opts = { .size = sizeof opts, .bytes = 1 << 20 };
    fb_bag *bag = NULL;
    int64_t index = -2, taken = 0;
    fb_status outcome = FB_INTERNAL, status;
    int refused = 0;
    OK(fb_bag_open(client, "axpyz", &opts, &bag));
    for (int n = 0; n < MANY; ++n) {
        const fb_arg args[] = { FB_IN_F64(n), FB_IN_ARRAY(x, FB_F64, LENGTH), FB_INOUT_ARRAY(y[n], FB_F64, LENGTH),
                                FB_OUT_ARRAY(z[n], FB_F64, LENGTH) };
        while ((status = fb_bag_add(bag, args, 4, FB_FOREVER, NULL)) != FB_OK) {
            FAILS(FB_FULL, "take results with fb_bag_next", status);
            FAILS(FB_FULL, "take results", fb_bag_add(bag, args, 4, FB_FOREVER, NULL));
            ++refused;
            OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
            CHECK(index == taken++ && outcome == FB_OK && y[index][9] == 1);
        }
    }
    CHECK(refused > 10);
    OK(fb_bag_end(bag));
    for (; taken < MANY; ++taken) OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
    OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
    CHECK(index == -1);
    OK(fb_bag_free(bag));
}

static void misuse(fb_client *client)
{
    double y = 0;
    int64_t index = -2;
    fb_status outcome = FB_INTERNAL;
    fb_bag *bag = NULL;
    const fb_arg args[] = { FB_IN_F64(3), FB_OUT_F64(&y) }, nowhere[] = { FB_IN_F64(3), FB_OUT_F64(NULL) };
    const fb_arg text[] = { FB_IN_STR("three"), FB_OUT_F64(&y) };
    const fb_bag_opts bad = { .size = sizeof bad, .window = -1 };
    OK(fb_patience(client, 0.05));
    FAILS(FB_NO_SERVER, "nobody", fb_bag_open(client, "nobody", NULL, &bag));
    OK(fb_patience(client, 0));
    FAILS(FB_BAD_ARGUMENT, "window of -1", fb_bag_open(client, "square", &bad, &bag));
    FAILS(FB_BAD_ARGUMENT, "service is NULL", fb_bag_open(client, NULL, NULL, &bag));
    FAILS(FB_BAD_ARGUMENT, "bag is NULL", fb_bag_open(client, "square", NULL, NULL));
    FAILS(FB_BAD_ARGUMENT, "NULL", fb_bag_end(NULL));
    FAILS(FB_BAD_ARGUMENT, "is a fb_client", fb_bag_end((fb_bag *)(void *)client));
    FAILS(FB_BAD_ARGUMENT, "no fb_bag", fb_bag_free((fb_bag *)(void *)&y));
    OK(fb_bag_free(NULL));

    OK(fb_bag_open(client, "square", NULL, &bag));
    FAILS(FB_CONFLICT, "fb_bag_end", fb_bag_next(bag, FB_FOREVER, &index, &outcome));
    FAILS(FB_TIMEOUT, "fb_bag_end", fb_bag_next(bag, 30, &index, &outcome));
    FAILS(FB_BAD_ARGUMENT, "2 parameters and got 1", fb_bag_add(bag, args, 1, FB_FOREVER, &index));
    FAILS(FB_BAD_ARGUMENT, "NULL", fb_bag_add(bag, NULL, 2, FB_FOREVER, &index));
    FAILS(FB_BAD_ARGUMENT, "NULL", fb_bag_add(bag, nowhere, 2, FB_FOREVER, &index));
    FAILS(FB_BAD_ARGUMENT, "text", fb_bag_add(bag, text, 2, FB_FOREVER, &index));
    FAILS(FB_BAD_ARGUMENT, "index is NULL", fb_bag_next(bag, 0, NULL, &outcome));
    FAILS(FB_BAD_ARGUMENT, "outcome is NULL", fb_bag_next(bag, 0, &index, NULL));
    FAILS(FB_BAD_ARGUMENT, "state is NULL", fb_bag_state(bag, 0, NULL));
    FAILS(FB_BAD_ARGUMENT, "totals", fb_bag_counts(bag, NULL));
    FAILS(FB_BAD_ARGUMENT, "input is NULL", fb_bag_run(bag, NULL, output, NULL));
    FAILS(FB_BAD_ARGUMENT, "output is NULL", fb_bag_run(bag, input, NULL, NULL));
    /* None of them was a task. */
    OK(fb_bag_add(bag, args, 2, 0, &index));
    CHECK(index == 0);
    OK(fb_bag_end(bag));
    FAILS(FB_CONFLICT, "has ended", fb_bag_add(bag, args, 2, 0, &index));
    OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
    CHECK(index == 0 && outcome == FB_OK && y == 9);
    OK(fb_bag_free(bag));
}

/* A child of fork is told, and the parent's bag goes on. */
static void forked(fb_client *client)
{
    double y = 0;
    int64_t index = -2, same = 0;
    fb_status outcome = FB_INTERNAL;
    fb_bag *bag = NULL;
    fb_bag_totals all = { .size = sizeof all };
    int state = -1;
    const fb_arg args[] = { FB_IN_F64(3), FB_OUT_F64(&y) };
    atomic_store(&is_open, 0);
    OK(fb_bag_open(client, "gate", NULL, &bag));
    add_gate(bag, 5, &same);
    fflush(NULL);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        FAILS(FB_CLOSED, "fork", fb_bag_add(bag, args, 2, FB_FOREVER, NULL));
        FAILS(FB_CLOSED, "fork", fb_bag_next(bag, FB_FOREVER, &index, &outcome));
        FAILS(FB_CLOSED, "fork", fb_bag_end(bag));
        FAILS(FB_CLOSED, "fork", fb_bag_run(bag, input, output, NULL));
        FAILS(FB_CLOSED, "fork", fb_bag_state(bag, 0, &state));
        FAILS(FB_CLOSED, "fork", fb_bag_counts(bag, &all));
        FAILS(FB_CLOSED, "fork", fb_bag_cancel(bag, 0));
        OK(fb_bag_free(bag));
        /* Tools that look for leaks at the end would find what threads held that are not here. */
        raise(SIGKILL);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    atomic_store(&is_open, 1);
    OK(fb_bag_end(bag));
    OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
    CHECK(index == 0 && outcome == FB_OK && same == 5);
    OK(fb_bag_free(bag));
}

/* On servers of other programs, of which it kills one when a quarter of the results is there. */
static void killing(fb_client *client, pid_t pid)
{
    static double y[TASKS];
    fb_bag *bag = NULL;
    int64_t index = -2;
    fb_status outcome = FB_INTERNAL;
    OK(fb_bag_open(client, "square", NULL, &bag));
    for (int i = 0; i < TASKS; ++i) add_square(bag, i, &y[i]);
    OK(fb_bag_end(bag));
    for (int i = 0; i < TASKS; ++i) {
        if (i == TASKS / 4) CHECK(kill(pid, SIGKILL) == 0);
        OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
        CHECK(index == i && outcome == FB_OK && y[i] == (double)i * i);
    }
    totals(bag, TASKS, 0, 0);
    OK(fb_bag_free(bag));
}

/* Tasks on arrays that a server holds: they run there, in order, and what they write stays there. */
static void held(fb_client *client)
{
    enum { MANY = 200, LENGTH = 3000 };
    static double x[LENGTH], y[LENGTH], z[MANY][LENGTH];
    const fb_ref_opts first = { .size = sizeof first, .server = "first" }, second = { .size = sizeof second, .server = "second" };
    fb_ref *a = NULL, *b = NULL, *elsewhere = NULL;
    fb_bag *bag = NULL;
    fb_bag_totals all = { .size = sizeof all };
    int64_t index = -2;
    fb_status outcome = FB_INTERNAL;
    for (int i = 0; i < LENGTH; ++i) x[i] = i;
    OK(fb_ref_create(client, FB_DENSE(x, FB_F64, LENGTH), &first, &a));
    OK(fb_ref_create(client, FB_DENSE(NULL, FB_F64, LENGTH), &first, &b));
    OK(fb_ref_create(client, FB_DENSE(NULL, FB_F64, LENGTH), &second, &elsewhere));
    OK(fb_bag_open(client, "axpyz", NULL, &bag));
    for (int n = 0; n < MANY; ++n) {
        fb_arg args[] = { FB_IN_F64(2), FB_REF(a), FB_REF(b), FB_OUT_ARRAY(z[n], FB_F64, LENGTH) };
        OK(fb_bag_add(bag, args, 4, FB_FOREVER, &index));
    }
    fb_arg apart[] = { FB_IN_F64(2), FB_REF(a), FB_REF(elsewhere), FB_OUT_ARRAY(y, FB_F64, LENGTH) };
    FAILS(FB_BAD_ARGUMENT, "are held by different servers", fb_bag_add(bag, apart, 4, FB_FOREVER, &index));
    OK(fb_bag_end(bag));
    for (int n = 0; n < MANY; ++n) {
        OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
        CHECK(index == n && outcome == FB_OK);
        /* y of that turn, for they run in the order of the input. */
        CHECK(z[n][0] == n && z[n][LENGTH - 1] == 2 * (LENGTH - 1) + n);
    }
    OK(fb_bag_counts(bag, &all));
    CHECK(all.pulled == MANY && all.done == MANY);
    OK(fb_ref_get(b, FB_DENSE(y, FB_F64, LENGTH)));
    CHECK(y[0] == MANY && y[LENGTH - 1] == MANY);
    OK(fb_bag_free(bag));
    OK(fb_ref_kill(a));
    OK(fb_ref_kill(b));
    OK(fb_ref_kill(elsewhere));
}

/* A status is a number like others: the task is done. */
static void statuses(fb_client *client)
{
    fb_bag *bag = NULL;
    fb_bag_totals all = { .size = sizeof all };
    int64_t index = -2, info[3] = { 9, 9, 9 };
    fb_status outcome = FB_INTERNAL;
    char *signature = NULL;
    OK(fb_signature(client, "ends", &signature));
    CHECK(strcmp(signature, "ends(in n:i64, out info:i64 status) cost n*n + 3*n") == 0);
    OK(fb_free(signature));
    OK(fb_bag_open(client, "ends", NULL, &bag));
    for (int64_t n = 0; n < 3; ++n) {
        fb_arg args[] = { FB_IN_I64(n), FB_OUT_I64(&info[n]) };
        OK(fb_bag_add(bag, args, 2, FB_FOREVER, NULL));
    }
    OK(fb_bag_end(bag));
    for (int64_t n = 0; n < 3; ++n) {
        OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
        CHECK(index == n && outcome == FB_OK && info[n] == n);
    }
    OK(fb_bag_counts(bag, &all));
    CHECK(all.done == 3 && all.failed == 0);
    OK(fb_bag_free(bag));
}

static atomic_int asked;

/* Always the server of that name; now and then nonsense. What it calls itself goes without it. */
static int by_name(const fb_task_view *task, const fb_server_view *servers, int count, void *user)
{
    const int number = atomic_fetch_add(&asked, 1);
    CHECK(task->size == sizeof *task && task->waiting > 0 && task->cost == (strcmp(task->service, "ends") ? 0 : 4));
    double y = 0;
    OK(FB_CALL((fb_client *)((void **)user)[0], "square", FB_IN_F64(3), FB_OUT_F64(&y)));
    CHECK(y == 9);
    if (number % 10 == 9) return number % 20 == 9 ? -1 : 77;
    for (int i = 0; i < count; ++i) {
        CHECK(servers[i].size == sizeof *servers && servers[i].workers == 2 && servers[i].pid > 0);
        if (strcmp(servers[i].name, ((void **)user)[1]) == 0) return i;
    }
    return -1;
}

static void placed(fb_server **servers)
{
    fb_client *client = NULL;
    fb_bag *bag = NULL;
    int64_t index = -2, info = 0;
    fb_status outcome = FB_INTERNAL;
    fb_server_load before[2] = { { .size = sizeof *before }, { .size = sizeof *before } }, after = { .size = sizeof after };
    static char name[] = "second";
    static double y[TASKS];
    OK(fb_connect(NULL, &client));
    void *user[] = { client, name };
    FAILS(FB_BAD_ARGUMENT, "the function is NULL", fb_place_with(client, NULL, NULL));
    OK(fb_place_with(client, by_name, user));
    FAILS(FB_CONFLICT, "another client", fb_place_by(client, "turns"));
    for (int i = 0; i < 2; ++i) OK(fb_load(servers[i], &before[i]));
    for (int n = 0; n < 50; ++n) OK(FB_CALL(client, "ends", FB_IN_I64(1), FB_OUT_I64(&info)));
    CHECK(atomic_load(&asked) == 50);
    OK(fb_load(servers[0], &after));
    /* Its calls of its own, some of those for which it gives no answer, and no others. */
    CHECK(after.served - before[0].served <= 50 + 5);
    OK(fb_bag_open(client, "square", NULL, &bag));
    for (int n = 0; n < TASKS; ++n) add_square(bag, n, &y[n]);
    OK(fb_bag_end(bag));
    for (int n = 0; n < TASKS; ++n) {
        OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
        CHECK(index == n && outcome == FB_OK && y[n] == (double)n * n);
    }
    CHECK(atomic_load(&asked) >= 50 + TASKS);
    OK(fb_bag_free(bag));
    OK(fb_disconnect(client));
}

int main(int argc, char **argv)
{
    fb_server *servers[2] = { NULL, NULL };
    fb_client *client = NULL;
    const int is_small = argc == 2 && strcmp(argv[1], "small") == 0;
    const int alone = argc == 1 || is_small;
    if (argc == 2 && !is_small) {
        servers[0] = serve("one of many", argv[1]);
        OK(fb_server_start(servers[0]));
        puts("ready");
        fflush(stdout);
        OK(fb_serve(servers[0]));
        OK(fb_server_free(servers[0]));
        return 0;
    }
    for (int i = 0; i < 2 && alone; ++i) {
        servers[i] = serve(i ? "second" : "first", NULL);
        OK(fb_server_start(servers[i]));
    }
    OK(fb_connect(NULL, &client));
    if (argc == 3) {
        killing(client, (pid_t)atol(argv[2]));
    } else {
        as_a_loop(client);
        places(client, is_small ? 30 : 3000);
        failing(client);
        lazily(client);
        given_up(client);
        if (!is_small) full(client);
        if (!is_small) held(client);
        statuses(client);
        if (!is_small) placed(servers);
        misuse(client);
        if (!is_small) forked(client);
        for (int i = 0; i < 2; ++i) {
            fb_server_load load = { .size = sizeof load };
            OK(fb_load(servers[i], &load));
            CHECK(load.served > 0);
        }
    }
    /* A bag ends with its client, whose results are to be taken before. */
    double y = 0;
    int64_t index = -2;
    fb_status outcome = FB_INTERNAL;
    fb_bag *bag = NULL;
    OK(fb_bag_open(client, "square", NULL, &bag));
    add_square(bag, 8, &y);
    OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
    CHECK(index == 0 && outcome == FB_OK && y == 64);
    OK(fb_disconnect(client));
    FAILS(FB_CLOSED, "fb_client", fb_bag_open(client, "square", NULL, &bag));
    FAILS(FB_CLOSED, "this client was closed; connect another one", fb_bag_next(bag, FB_FOREVER, &index, &outcome));
    OK(fb_bag_free(bag));
    for (int i = 0; i < 2 && alone; ++i) {
        OK(fb_server_stop(servers[i]));
        OK(fb_server_free(servers[i]));
    }
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
