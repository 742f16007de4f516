/* Groups of calls, functions that are told the ends of calls, and the calls that have failed. */

#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_int is_open, at_gate;
static fb_client *client;

static void rest(void) { nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL); }

static fb_status square(fb_request *request, void *user)
{
    double x = 0;
    (void)user;
    CHECK(fb_request_f64(request, 0, &x) == FB_OK);
    if (x < 0) return fb_request_fail(request, "no square of what is below zero");
    return fb_request_set_f64(request, 1, x * x);
}

/* Waits until the gate is open or nobody wants it to. */
static fb_status gate(fb_request *request, void *user)
{
    int given_up = 0;
    (void)user;
    atomic_fetch_add(&at_gate, 1);
    while (!atomic_load(&is_open) && !given_up) {
        CHECK(fb_request_cancelled(request, &given_up) == FB_OK);
        rest();
    }
    return FB_OK;
}

static void call_square(fb_group *group, double x, double *y)
{
    const fb_arg args[] = { FB_IN_F64(x), FB_OUT_F64(y) };
    OK(fb_group_call(group, "square", args, 2, NULL));
}

static void shut(void)
{
    atomic_store(&is_open, 0);
    atomic_store(&at_gate, 0);
}

static void a_group_waits_for_all_and_tells_the_first_failure(void)
{
    fb_group *group = NULL;
    double y[12];
    int64_t index = -7;
    OK(fb_group_begin(client, NULL, &group));
    for (int i = 0; i < 12; ++i) call_square(group, i, &y[i]);
    OK(fb_group_end(group, FB_FOREVER, &index));
    CHECK(index == -1);
    for (int i = 0; i < 12; ++i) CHECK(y[i] == i * i);
    FAILS(FB_CLOSED, "fb_group", fb_group_end(group, FB_FOREVER, NULL));

    OK(fb_group_begin(client, NULL, &group));
    for (int i = 0; i < 12; ++i) call_square(group, i == 2 || i == 7 ? -1 : i, &y[i]);
    FAILS(FB_NO_SERVER, "nobody", fb_group_call(group, "nobody", NULL, 0, NULL));
    FAILS(FB_REMOTE_ERROR, "call 3 of 12 (square): ", fb_group_end(group, FB_FOREVER, &index));
    CHECK(index == 2 && y[11] == 121);

    OK(fb_group_begin(client, NULL, &group));
    OK(fb_group_end(group, 0, NULL));
}

static void groups_stand_within_groups(void)
{
    fb_group *outer = NULL, *inner = NULL, *deep = NULL;
    double y[4];
    int64_t index = -7;
    OK(fb_group_begin(client, NULL, &outer));
    call_square(outer, 1, &y[0]);
    OK(fb_group_begin(client, outer, &inner));
    call_square(inner, -1, &y[1]);
    FAILS(FB_REMOTE_ERROR, "call 1 of 1 (square): ", fb_group_end(inner, FB_FOREVER, &index));
    /* Told once; the next ones are ended by the outer one. */
    OK(fb_group_begin(client, outer, &inner));
    call_square(inner, -2, &y[2]);
    OK(fb_group_begin(client, inner, &deep));
    call_square(deep, 3, &y[3]);
    FAILS(FB_REMOTE_ERROR, "call 2 of 3 (square): ", fb_group_end(outer, FB_FOREVER, &index));
    CHECK(index == 1 && y[0] == 1 && y[3] == 9);
    FAILS(FB_CLOSED, "fb_group", fb_group_end(inner, FB_FOREVER, NULL));
    FAILS(FB_CLOSED, "fb_group", fb_group_cancel(deep));
}

static void a_group_that_is_not_over_goes_on_and_one_that_is_cancelled_ends_at_once(void)
{
    fb_group *outer = NULL, *inner = NULL;
    int64_t index = -7;
    shut();
    OK(fb_group_begin(client, NULL, &outer));
    OK(fb_group_begin(client, outer, &inner));
    OK(fb_group_call(inner, "gate", NULL, 0, NULL));
    FAILS(FB_TIMEOUT, "call 1 of 1 (gate)", fb_group_end(outer, 0.02, &index));
    CHECK(index == -1);
    atomic_store(&is_open, 1);
    OK(fb_group_end(outer, FB_FOREVER, &index));

    shut();
    OK(fb_group_begin(client, NULL, &outer));
    OK(fb_group_begin(client, outer, &inner));
    OK(fb_group_call(inner, "gate", NULL, 0, NULL));
    while (atomic_load(&at_gate) == 0) rest();
    OK(fb_group_cancel(outer));
    FAILS(FB_CANCELLED, "cancelled", fb_group_call(inner, "gate", NULL, 0, NULL));
    FAILS(FB_CANCELLED, "call 1 of 1 (gate): ", fb_group_end(outer, FB_FOREVER, &index));
    CHECK(index == 0);
}

static void a_call_of_a_group_may_be_held_beside_it(void)
{
    fb_group *group = NULL;
    fb_future *first = NULL, *second = NULL;
    double y[2];
    OK(fb_group_begin(client, NULL, &group));
    OK(fb_group_call(group, "square", (fb_arg[]){ FB_IN_F64(2), FB_OUT_F64(&y[0]) }, 2, &first));
    OK(fb_group_call(group, "square", (fb_arg[]){ FB_IN_F64(3), FB_OUT_F64(&y[1]) }, 2, &second));
    OK(fb_wait(first, FB_FOREVER));
    CHECK(y[0] == 4);
    /* The group waits for it although nobody holds it any more. */
    OK(fb_future_free(second));
    OK(fb_group_end(group, FB_FOREVER, NULL));
    CHECK(y[1] == 9);
    OK(fb_wait(first, 0));
    OK(fb_future_free(first));
}

/* --- functions that are told ------------------------------------------------------------------------ */

struct told {
    atomic_int times;
    pthread_t thread;
    fb_future *future;
    fb_status outcome;
    double *y;
    double seen;
};

static void note(fb_future *future, void *user)
{
    struct told *told = user;
    int done = 0;
    told->thread = pthread_self();
    told->future = future;
    CHECK(fb_probe(future, &done) == FB_OK && done);
    told->outcome = fb_wait(future, FB_FOREVER);
    if (told->y != NULL) told->seen = *told->y;
    CHECK(fb_disconnect(client) == FB_BAD_ARGUMENT);
    atomic_fetch_add(&told->times, 1);
}

static void until_told(struct told *told, int times)
{
    while (atomic_load(&told->times) < times) rest();
}

static fb_future *at_the_gate(void)
{
    fb_future *future = NULL;
    OK(fb_call_async(client, "gate", NULL, 0, &future));
    return future;
}

static void a_function_is_told_once_whatever_became_of_the_call(void)
{
    fb_future *future = NULL;
    double y = 0;
    struct told told = { .y = &y };
    shut();
    future = at_the_gate();
    OK(fb_notify(future, note, &told));
    CHECK(atomic_load(&told.times) == 0);
    atomic_store(&is_open, 1);
    until_told(&told, 1);
    CHECK(told.future == future && told.outcome == FB_OK && !pthread_equal(told.thread, pthread_self()));
    /* Registered behind the end: told soon, by another thread. */
    OK(fb_notify(future, note, &told));
    until_told(&told, 2);
    CHECK(!pthread_equal(told.thread, pthread_self()));
    OK(fb_future_free(future));

    OK(fb_call_async(client, "square", (fb_arg[]){ FB_IN_F64(5), FB_OUT_F64(&y) }, 2, &future));
    OK(fb_notify(future, note, &told));
    until_told(&told, 3);
    CHECK(told.outcome == FB_OK && told.seen == 25);
    OK(fb_future_free(future));

    OK(fb_call_async(client, "square", (fb_arg[]){ FB_IN_F64(-5), FB_OUT_F64(&y) }, 2, &future));
    OK(fb_notify(future, note, &told));
    FAILS(FB_REMOTE_ERROR, "below zero", fb_wait(future, FB_FOREVER));
    until_told(&told, 4);
    CHECK(told.outcome == FB_REMOTE_ERROR);
    OK(fb_future_free(future));

    shut();
    future = at_the_gate();
    OK(fb_notify(future, note, &told));
    OK(fb_cancel(future));
    until_told(&told, 5);
    CHECK(told.outcome == FB_CANCELLED);
    FAILS(FB_BAD_ARGUMENT, "done", fb_notify(future, NULL, NULL));
    OK(fb_future_free(future));
    FAILS(FB_CLOSED, "fb_future", fb_notify(future, note, &told));
    CHECK(atomic_load(&told.times) == 5);
}

/* A chain: each end begins the next call, until there were ten. */
struct chain {
    double y[10];
    fb_future *futures[10];
    atomic_int ended;
};

static void go_on(fb_future *future, void *user)
{
    struct chain *chain = user;
    const int n = atomic_load(&chain->ended) + 1;
    CHECK(fb_wait(future, FB_FOREVER) == FB_OK);
    if (n < 10) {
        const fb_arg args[] = { FB_IN_F64(chain->y[n - 1] + 1), FB_OUT_F64(&chain->y[n]) };
        CHECK(fb_call_async(client, "square", args, 2, &chain->futures[n]) == FB_OK);
        CHECK(fb_notify(chain->futures[n], go_on, chain) == FB_OK);
    }
    CHECK(fb_future_free(future) == FB_OK); /* this very one */
    atomic_store(&chain->ended, n);
}

static void who_is_told_makes_new_calls(void)
{
    struct chain chain = { .ended = 0 };
    const fb_arg args[] = { FB_IN_F64(0), FB_OUT_F64(&chain.y[0]) };
    OK(fb_call_async(client, "square", args, 2, &chain.futures[0]));
    OK(fb_notify(chain.futures[0], go_on, &chain));
    while (atomic_load(&chain.ended) < 10) rest();
    CHECK(chain.y[3] == 25); /* 0, 1, 4, 25 */
}

struct slow {
    atomic_int begun, over;
};

static void take_time(fb_future *future, void *user)
{
    struct slow *slow = user;
    (void)future;
    atomic_store(&slow->begun, 1);
    for (int i = 0; i < 50; ++i) rest();
    atomic_store(&slow->over, 1);
}

static void who_frees_a_call_waits_for_who_is_told_and_nobody_is_told_behind_that(void)
{
    struct slow slow = { .begun = 0 };
    struct told told = { .y = NULL };
    fb_future *future = NULL;
    double y = 0;
    OK(fb_call_async(client, "square", (fb_arg[]){ FB_IN_F64(1), FB_OUT_F64(&y) }, 2, &future));
    OK(fb_notify(future, take_time, &slow));
    while (!atomic_load(&slow.begun)) rest();
    OK(fb_future_free(future));
    CHECK(atomic_load(&slow.over));

    shut();
    future = at_the_gate();
    OK(fb_notify(future, note, &told));
    OK(fb_future_free(future));
    /* What is told behind it comes behind it. */
    atomic_store(&is_open, 1);
    struct told last = { .y = NULL };
    future = at_the_gate();
    OK(fb_notify(future, note, &last));
    until_told(&last, 1);
    CHECK(atomic_load(&told.times) == 0);
    OK(fb_future_free(future));
}

static void a_child_of_fork_is_told_of_nothing(void)
{
    struct told told = { .y = NULL };
    fb_group *group = NULL;
    fb_future *future = NULL;
    shut();
    OK(fb_group_begin(client, NULL, &group));
    OK(fb_group_call(group, "gate", NULL, 0, &future));
    OK(fb_notify(future, note, &told));
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        FAILS(FB_CLOSED, "parent", fb_group_call(group, "gate", NULL, 0, NULL));
        FAILS(FB_CLOSED, "parent", fb_group_cancel(group));
        FAILS(FB_CLOSED, "parent", fb_group_end(group, FB_FOREVER, NULL));
        FAILS(FB_CLOSED, "parent", fb_notify(future, note, &told));
        OK(fb_future_free(future));
        fb_failure failure = { .size = sizeof failure };
        FAILS(FB_NOT_FOUND, "no failed call", fb_failed(client, 0, &failure));
        fflush(NULL);
        _exit(atomic_load(&told.times));
    }
    int how = -1;
    CHECK(waitpid(child, &how, 0) == child && how == 0);
    atomic_store(&is_open, 1);
    until_told(&told, 1);
    CHECK(told.outcome == FB_OK);
    OK(fb_future_free(future));
    OK(fb_group_end(group, FB_FOREVER, NULL));
}

/* --- what has failed -------------------------------------------------------------------------------- */

static void throws(fb_future *future, void *user)
{
    (void)future;
    CHECK(fb_fail(FB_IO, "the disk of the program is full") == FB_IO);
    atomic_store((atomic_int *)user, 1);
}

static void calls_that_have_failed_are_remembered(void)
{
    fb_client *other = NULL;
    fb_failure failure = { .size = sizeof failure };
    fb_future *future = NULL;
    atomic_int is_told = 0;
    double y = 0;
    char text[16];
    const fb_arg bad[] = { FB_IN_F64(-1), FB_OUT_F64(&y) };
    const double before = (double)time(NULL);
    OK(fb_connect(NULL, &other));
    FAILS(FB_NOT_FOUND, "no failed call 0", fb_failed(other, 0, &failure));
    OK(fb_call(other, "square", (fb_arg[]){ FB_IN_F64(1), FB_OUT_F64(&y) }, 2));
    FAILS(FB_NOT_FOUND, "no failed call 0", fb_failed(other, 0, &failure));
    FAILS(FB_REMOTE_ERROR, "below zero", fb_call(other, "square", bad, 2));
    OK(fb_failed(other, 0, &failure));
    CHECK(failure.code == FB_REMOTE_ERROR && strcmp(failure.service, "square") == 0);
    CHECK(failure.server_pid == (uint32_t)getpid() && failure.server[0] != 0);
    CHECK(strstr(failure.text, "no square of what is below zero") != NULL);
    CHECK(failure.when >= before && failure.when < before + 100);

    FAILS(FB_NO_SERVER, "nobody", fb_call(other, "nobody", NULL, 0));
    FAILS(FB_BAD_ARGUMENT, "square", fb_call(other, "square", (fb_arg[]){ FB_IN_STR("x"), FB_OUT_STR(text, 16) }, 2));
    shut();
    FAILS(FB_TIMEOUT, "gate", fb_call_within(other, "gate", NULL, 0, 0.02));
    OK(fb_failed(other, 0, &failure));
    CHECK(failure.code == FB_TIMEOUT && strcmp(failure.service, "gate") == 0);
    OK(fb_failed(other, 1, &failure));
    CHECK(failure.code == FB_BAD_ARGUMENT && failure.server_pid == 0);
    OK(fb_failed(other, 2, &failure));
    CHECK(failure.code == FB_NO_SERVER && strcmp(failure.service, "nobody") == 0);
    OK(fb_failed(other, 3, &failure));
    CHECK(failure.code == FB_REMOTE_ERROR);
    FAILS(FB_NOT_FOUND, "4", fb_failed(other, 4, &failure));
    FAILS(FB_NOT_FOUND, "-1", fb_failed(other, -1, &failure));
    FAILS(FB_BAD_ARGUMENT, "NULL", fb_failed(other, 0, NULL));

    /* A call that was given up has not failed; a function that is told has, if it says so. */
    OK(fb_call_async(other, "gate", NULL, 0, &future));
    OK(fb_cancel(future));
    FAILS(FB_CANCELLED, "gate", fb_wait(future, FB_FOREVER));
    OK(fb_failed(other, 3, &failure));
    CHECK(failure.code == FB_REMOTE_ERROR);
    OK(fb_notify(future, throws, &is_told));
    while (!atomic_load(&is_told)) rest();
    OK(fb_future_free(future));
    OK(fb_failed(other, 0, &failure));
    CHECK(failure.code == FB_IO && strcmp(failure.service, "gate") == 0);
    CHECK(strcmp(failure.text, "the disk of the program is full") == 0);
    OK(fb_disconnect(other));
    FAILS(FB_CLOSED, "fb_client", fb_failed(other, 0, &failure));
}

int main(int argc, char **argv)
{
    fb_server *server = NULL;
    (void)argv;
    OK(fb_server_create(NULL, &server));
    OK(fb_service_register(server, "square(in x:f64, out y:f64)", square, NULL));
    OK(fb_service_register(server, "gate()", gate, NULL));
    OK(fb_server_start(server));
    OK(fb_connect(NULL, &client));
    a_group_waits_for_all_and_tells_the_first_failure();
    groups_stand_within_groups();
    a_group_that_is_not_over_goes_on_and_one_that_is_cancelled_ends_at_once();
    a_call_of_a_group_may_be_held_beside_it();
    a_function_is_told_once_whatever_became_of_the_call();
    who_is_told_makes_new_calls();
    who_frees_a_call_waits_for_who_is_told_and_nobody_is_told_behind_that();
    calls_that_have_failed_are_remembered();
    /* Without: valgrind, in which a child of fork hangs when it ends itself. */
    if (argc == 1) a_child_of_fork_is_told_of_nothing();
    OK(fb_disconnect(client));
    OK(fb_server_stop(server));
    OK(fb_server_free(server));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
