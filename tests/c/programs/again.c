/* Calls that outlive their server while nobody waits for them: again serve NOTE (a server until it is told to end), again
   call NOTE (kills the server that has begun the call, by itself, and waits for the call when another one has begun it;
   then kills that one, too, which holds an array). */

#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

static void rest(void) { nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL); }

/* Notes that it has begun, takes its time, and gives the sum and its pid. */
static fb_status slow_sum(fb_request *request, void *user)
{
    fb_array x;
    double sum = 0;
    FILE *note = fopen(user, "a");
    CHECK(note && fprintf(note, "%d\n", (int)getpid()) > 0 && fclose(note) == 0);
    CHECK(fb_request_array(request, 0, FB_F64, &x) == FB_OK);
    for (int64_t i = 0; i < x.shape[0]; ++i) sum += ((const double *)x.data)[i];
    for (int ms = 0; ms < 500; ++ms) rest();
    CHECK(fb_request_set_f64(request, 1, sum) == FB_OK);
    return fb_request_set_i64(request, 2, getpid());
}

static void serve(char *note)
{
    fb_server *server = NULL;
    const fb_server_opts opts = { .size = sizeof opts, .name = "again" };
    OK(fb_server_create(&opts, &server));
    OK(fb_service_register(server, "slow_sum(in x:f64[n], out sum:f64, out pid:i64)", slow_sum, note));
    OK(fb_server_start(server));
    puts("ready");
    fflush(stdout);
    OK(fb_serve(server));
    OK(fb_server_free(server));
}

/* Who has begun it, in order. */
static int begun(const char *note, int pids[2])
{
    FILE *file = fopen(note, "r");
    int n = 0;
    while (file && n < 2 && fscanf(file, "%d", &pids[n]) == 1) ++n;
    if (file) fclose(file);
    return n;
}

/* Whoever calls on an array of a server that is killed is told that it is lost, though nobody offers the service. */
static void lost_array(fb_client *client, int pid)
{
    static double x[10000];
    fb_ref *held = NULL;
    fb_future *call = NULL;
    double sum = 0;
    int64_t who = 0;
    OK(fb_ref_create(client, FB_DENSE(x, FB_F64, 10000), NULL, &held));
    CHECK(kill(pid, SIGKILL) == 0);
    const fb_arg own[] = { FB_IN_ARRAY(x, FB_F64, 10000), FB_OUT_F64(&sum), FB_OUT_I64(&who) };
    while (fb_call(client, "slow_sum", own, 3) != FB_NO_SERVER) rest();
    const fb_arg args[] = { FB_REF(held), FB_OUT_F64(&sum), FB_OUT_I64(&who) };
    FAILS(FB_SERVER_LOST, "is lost", fb_call(client, "slow_sum", args, 3));
    FAILS(FB_SERVER_LOST, "make it anew", fb_call_async(client, "slow_sum", args, 3, &call));
}

int main(int argc, char **argv)
{
    static double x[10000];
    fb_client *client = NULL;
    fb_future *call = NULL;
    double sum = 0;
    int64_t pid = 0;
    int pids[2];
    CHECK(argc == 3);
    if (strcmp(argv[1], "serve") == 0) {
        serve(argv[2]);
        return 0;
    }
    for (int i = 0; i < 10000; ++i) x[i] = i;
    OK(fb_connect(NULL, &client));
    const fb_arg args[] = { FB_IN_ARRAY(x, FB_F64, 10000), FB_OUT_F64(&sum), FB_OUT_I64(&pid) };
    OK(fb_call_async(client, "slow_sum", args, 3, &call));
    while (begun(argv[2], pids) < 1) rest();
    CHECK(kill(pids[0], SIGKILL) == 0);
    while (begun(argv[2], pids) < 2) rest();
    OK(fb_wait(call, 60));
    CHECK(pid == pids[1] && pids[1] != pids[0] && sum == 49995000);
    fb_timing timing = { .size = sizeof timing };
    OK(fb_call_timing(call, &timing));
    CHECK(timing.reissued == 1);
    OK(fb_future_free(call));
    lost_array(client, pids[1]);
    OK(fb_disconnect(client));
    puts("done");
    return 0;
}
