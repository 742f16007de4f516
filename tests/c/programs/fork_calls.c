/* fork while calls are under way and a server runs: the child is told at every one of them and frees them, ends
   by exit with all its handlers, and the parent's calls and services go on as if nothing had been. */

#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static fb_server *server;
static fb_client *client;
static fb_future *running, *queued;
static atomic_int begun, may_go_on;

static fb_status gate(fb_request *request, void *user)
{
    double x = 0;
    (void)user;
    atomic_fetch_add(&begun, 1);
    while (!atomic_load(&may_go_on)) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    CHECK(fb_request_f64(request, 0, &x) == FB_OK);
    return fb_request_set_f64(request, 1, 2 * x);
}

static void child(void)
{
    fb_future *both[] = { running, queued }, *another;
    char **signatures, *signature;
    int64_t count;
    int which = -1, done = -1;
    double y;
    fb_arg args[] = { FB_IN_F64(1), FB_OUT_F64(&y) };
    FAILS(FB_CLOSED, "after fork", fb_wait(running, FB_FOREVER));
    OK(fb_wait_any(both, 2, FB_FOREVER, &which));
    OK(fb_probe(queued, &done));
    CHECK(done);
    OK(fb_cancel(queued));
    FAILS(FB_CLOSED, "after fork", fb_wait(queued, 0));
    OK(fb_cancel_all(both, 2));
    FAILS(FB_CLOSED, "after fork", fb_call_async(client, "gate", args, 2, &another));
    FAILS(FB_CLOSED, "after fork", fb_services(client, &signatures, &count));
    FAILS(FB_CLOSED, "after fork", fb_signature(client, "gate", &signature));
    OK(fb_future_free(running));
    OK(fb_future_free(queued));
    OK(fb_disconnect(client));
    OK(fb_server_stop(server));
    OK(fb_server_free(server));
    exit(0);
}

int main(void)
{
    const fb_server_opts opts = { .size = sizeof opts, .name = "gates", .workers = 1 };
    double back[3] = { 0 };
    fb_arg one[] = { FB_IN_F64(1), FB_OUT_F64(&back[0]) };
    fb_arg two[] = { FB_IN_F64(2), FB_OUT_F64(&back[1]) };
    fb_arg three[] = { FB_IN_F64(3), FB_OUT_F64(&back[2]) };
    int status = -1;
    OK(fb_server_create(&opts, &server));
    OK(fb_service_register(server, "gate(in x:f64, out y:f64)", gate, NULL));
    OK(fb_server_start(server));
    OK(fb_connect(NULL, &client));
    OK(fb_call_async(client, "gate", one, 2, &running));
    OK(fb_call_async(client, "gate", two, 2, &queued));
    while (!atomic_load(&begun)) nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);

    for (int freed = 0; freed < 2; ++freed) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            if (freed) child();
            exit(0);
        }
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }

    atomic_store(&may_go_on, 1);
    OK(fb_wait(running, FB_FOREVER));
    OK(fb_wait(queued, FB_FOREVER));
    OK(fb_call(client, "gate", three, 2));
    CHECK(back[0] == 2 && back[1] == 4 && back[2] == 6);
    OK(fb_future_free(running));
    OK(fb_future_free(queued));
    OK(fb_disconnect(client));
    OK(fb_server_stop(server));
    OK(fb_server_free(server));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
