/* Good calls in the wrong place: from within callbacks and services, while others work, and ends of the
   program with everything open: misuse PLACE [end|close]. */

#include "check.h"

#include <math.h>
#include <pthread.h>

struct shared {
    fb_run *run;
    fb_server *server;
    fb_client *client;
    int64_t seen;
    int closes;
};

/* What a Save may do: output. What it may not: the loop it is called from. */
static fb_status save(int64_t step, void *user)
{
    struct shared *shared = user;
    const int64_t three = 3;
    int64_t other = 0;
    fb_snapshot *snapshot = NULL;
    FAILS(FB_CONFLICT, "in use", (fb_status)-fb_step(shared->run, &other, 1000));
    FAILS(FB_CONFLICT, "in use", fb_steps_from(shared->run, NULL));
    OK(fb_snapshot_begin(shared->run, step, NAN, &snapshot));
    OK(fb_snapshot_put(snapshot, "x", FB_DENSE("abc", FB_U8, three), NULL, NULL));
    OK(fb_snapshot_end(snapshot));
    OK(fb_snapshot_free(snapshot));
    shared->seen = step;
    return shared->closes ? fb_run_close(shared->run) : FB_OK;
}

/* A service that stops its own server, and one that calls another service of it. */
static fb_status suicide(fb_request *request, void *user)
{
    struct shared *shared = user;
    (void)request;
    FAILS(FB_CONFLICT, "another thread", fb_server_stop(shared->server));
    FAILS(FB_CONFLICT, "another thread", fb_server_free(shared->server));
    return FB_OK;
}

static fb_status echo(fb_request *request, void *user)
{
    int64_t n = 0;
    (void)user;
    fb_status status = fb_request_i64(request, 0, &n);
    return status != FB_OK ? status : fb_request_set_i64(request, 1, n);
}

static fb_status chain(fb_request *request, void *user)
{
    struct shared *shared = user;
    int64_t n = 0, back = 0;
    OK(fb_request_i64(request, 0, &n));
    const fb_status status = FB_CALL(shared->client, "echo", FB_IN_I64(n), FB_OUT_I64(&back));
    /* Its own request is its again. */
    return status != FB_OK ? status : fb_request_set_i64(request, 1, back + 1);
}

static fb_status endless(fb_request *request, void *user)
{
    int given_up = 0;
    (void)user;
    while (!given_up) OK(fb_request_cancelled(request, &given_up));
    return FB_OK;
}

static void *put_until_closed(void *user)
{
    struct shared *shared = user;
    const int64_t three = 3;
    fb_status status = FB_OK;
    for (int64_t i = 0; status == FB_OK; ++i) status = fb_put(shared->run, "x", i % 8, FB_DENSE("abc", FB_U8, three));
    /* While the run closes it may seem that its owner has gone. */
    check(status == FB_CLOSED || status == FB_SERVER_LOST, "the putting ends with the run", __FILE__, __LINE__);
    return NULL;
}

/* Waits, as soon as the other thread does not look just now. */
static void *wait_for(void *user)
{
    fb_status status;
    while ((status = fb_wait(user, 30)) == FB_CONFLICT) continue;
    return (void *)(intptr_t)status;
}

static void services(struct shared *shared)
{
    const fb_server_opts two = { .size = sizeof two, .workers = 2 };
    OK(fb_server_create(&two, &shared->server));
    OK(fb_service_register(shared->server, "suicide()", suicide, shared));
    OK(fb_service_register(shared->server, "echo(in n:i64, out same:i64)", echo, shared));
    OK(fb_service_register(shared->server, "chain(in n:i64, out more:i64)", chain, shared));
    OK(fb_service_register(shared->server, "endless()", endless, shared));
    OK(fb_server_start(shared->server));
    OK(fb_connect(NULL, &shared->client));
    OK(fb_call(shared->client, "suicide", NULL, 0));
    int64_t more = 0;
    OK(FB_CALL(shared->client, "chain", FB_IN_I64(41), FB_OUT_I64(&more)));
    CHECK(more == 42);

    /* One waits for a call, another gives it up; a third that waits too is told to leave it. */
    fb_future *future = NULL;
    pthread_t waiter;
    void *outcome = NULL;
    OK(fb_call_async(shared->client, "endless", NULL, 0, &future));
    CHECK(pthread_create(&waiter, NULL, wait_for, future) == 0);
    fb_status status;
    while ((status = fb_wait(future, 0)) == FB_TIMEOUT) {
    }
    CHECK(status == FB_CONFLICT && strstr(fb_last_error(), "in use") != NULL);
    /* The client goes while a call is under way: who waits is told, in time. */
    OK(fb_disconnect(shared->client));
    CHECK(pthread_join(waiter, &outcome) == 0);
    CHECK((fb_status)(intptr_t)outcome == FB_CLOSED);
    OK(fb_cancel(future));
    OK(fb_future_free(future));
    OK(fb_server_free(shared->server));
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    struct shared shared = { NULL, NULL, NULL, -1, argc > 2 && strcmp(argv[2], "close") == 0 };
    const fb_open_opts opts = { .size = sizeof opts, .buffer = 4 << 20 };
    services(&shared);
    OK(fb_run_open(argv[1], "w", &opts, &shared.run));
    OK(fb_on_save(shared.run, save, &shared, NULL));
    puts("ready");
    fflush(stdout);
    int64_t step = -1;
    int going = 1;
    while (shared.seen < 0 && (going = fb_step(shared.run, &step, INT64_C(1) << 40)) > 0) continue;
    if (shared.closes) {
        /* The run was closed within its own loop: the loop ends, and the program goes on. */
        CHECK(fb_step(shared.run, &step, INT64_C(1) << 40) == -FB_CLOSED);
        NOTHING_IN_USE();
        printf("done, after %d\n", going);
        return 0;
    }
    CHECK(going == 1 && shared.seen == step);

    if (argc > 2) {
        /* The end with everything open: what was put and ended is not lost. */
        const int64_t three = 3;
        fb_snapshot *snapshot = NULL;
        OK(fb_put(shared.run, "last", 0, FB_DENSE("xyz", FB_U8, three)));
        OK(fb_snapshot_begin(shared.run, step + 1, NAN, &snapshot));
        puts("done");
        return 0;
    }
    pthread_t putters[2];
    for (int i = 0; i < 2; ++i) CHECK(pthread_create(&putters[i], NULL, put_until_closed, &shared) == 0);
    OK(fb_run_close(shared.run));
    for (int i = 0; i < 2; ++i) CHECK(pthread_join(putters[i], NULL) == 0);
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
