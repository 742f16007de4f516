/* A wait that ends just when its call does: whoever waits again has the result of the call, and not the end of that wait. */

#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <time.h>

enum { ROUNDS = 5, CALLS = 300 };

static fb_status nap(fb_request *request, void *user)
{
    int64_t us = 0;
    (void)user;
    CHECK(fb_request_i64(request, 0, &us) == FB_OK);
    nanosleep(&(struct timespec){ .tv_nsec = 1000 * us }, NULL);
    return fb_request_set_i64(request, 1, us);
}

int main(void)
{
    fb_server *server = NULL;
    fb_client *client = NULL;
    const fb_server_opts opts = { .size = sizeof opts, .name = "slices", .workers = 2 };
    OK(fb_server_create(&opts, &server));
    OK(fb_service_register(server, "nap(in us:i64, out same:i64)", nap, NULL));
    OK(fb_server_start(server));
    OK(fb_connect(NULL, &client));
    for (int round = 0; round < ROUNDS; ++round) {
        fb_future *calls[CALLS];
        int64_t same[CALLS];
        for (int i = 0; i < CALLS; ++i) {
            const fb_arg args[] = { FB_IN_I64(4000 + i), FB_OUT_I64(&same[i]) };
            OK(fb_call_async(client, "nap", args, 2, &calls[i]));
        }
        for (int i = 0; i < CALLS; ++i) {
            fb_status status = fb_wait(calls[i], 0.001);
            CHECK(status == FB_OK || status == FB_TIMEOUT);
            OK(fb_wait(calls[i], FB_FOREVER));
            CHECK(same[i] == 4000 + i);
            OK(fb_future_free(calls[i]));
        }
    }
    OK(fb_disconnect(client));
    OK(fb_server_stop(server));
    OK(fb_server_free(server));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
