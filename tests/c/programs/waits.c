/* A call that one thread waits for is looked at, and given up, by another one, which waits for nothing. */

#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_int begun;

static fb_status patient(fb_request *request, void *user)
{
    int given_up = 0;
    fb_status status = FB_OK;
    (void)user;
    atomic_store(&begun, 1);
    while (status == FB_OK && !given_up) status = fb_request_cancelled(request, &given_up);
    return status;
}

static void *waits(void *future)
{
    FAILS(FB_CANCELLED, "patient", fb_wait(future, FB_FOREVER));
    return NULL;
}

static void *waits_for_any(void *future)
{
    int which = -1;
    OK(fb_wait_any((fb_future *const *)&future, 1, FB_FOREVER, &which));
    FAILS(FB_CANCELLED, "patient", fb_wait(future, FB_FOREVER));
    return NULL;
}

int main(void)
{
    fb_server *server = NULL;
    fb_client *client = NULL;
    OK(fb_server_create(NULL, &server));
    OK(fb_service_register(server, "patient()", patient, NULL));
    OK(fb_server_start(server));
    OK(fb_connect(NULL, &client));
    void *(*const ways[])(void *) = { waits, waits_for_any };
    for (int way = 0; way < 2; ++way) {
        fb_future *future = NULL;
        pthread_t thread;
        int done = -1, which = -2;
        atomic_store(&begun, 0);
        OK(fb_call_async(client, "patient", NULL, 0, &future));
        CHECK(pthread_create(&thread, NULL, ways[way], future) == 0);
        while (!atomic_load(&begun)) {}
        /* The other thread has the call by now, or soon. */
        for (int i = 0; i < 100000; ++i) {
            OK(fb_probe(future, &done));
            OK(fb_probe_any(&future, 1, &which));
            CHECK(done == 0 && which == -1);
        }
        OK(fb_cancel(future));
        CHECK(pthread_join(thread, NULL) == 0);
        OK(fb_probe(future, &done));
        OK(fb_probe_any(&future, 1, &which));
        CHECK(done == 1 && which == 0);
        OK(fb_future_free(future));
    }
    OK(fb_disconnect(client));
    OK(fb_server_stop(server));
    OK(fb_server_free(server));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
