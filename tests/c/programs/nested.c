/* Services that call their own server, which has one worker, by fb_call and by fb_call_async: in this program, or
   `nested serve [ADDRESS]`, which serves until SIGTERM, and `nested call`. */

#include "check.h"

static fb_client *own;

static fb_status nested(fb_request *request, void *user)
{
    int64_t depth = 0, below = 0;
    fb_status status;
    (void)user;
    if ((status = fb_request_i64(request, 0, &depth)) != FB_OK) return status;
    if (depth > 0) {
        if ((status = FB_CALL(own, "nested", FB_IN_I64(depth - 1), FB_OUT_I64(&below))) != FB_OK) return status;
    }
    return fb_request_set_i64(request, 1, below + 1);
}

static fb_status sent(fb_request *request, void *user)
{
    int64_t depth = 0, below[2] = { 0, 0 };
    fb_future *futures[2] = { NULL, NULL };
    int which = -1;
    fb_status status;
    (void)user;
    if ((status = fb_request_i64(request, 0, &depth)) != FB_OK) return status;
    for (int i = 0; depth > 0 && i < 2; ++i) {
        const fb_arg args[] = { FB_IN_I64(depth - 1), FB_OUT_I64(&below[i]) };
        if ((status = fb_call_async(own, "sent", args, 2, &futures[i])) != FB_OK) return status;
    }
    if (depth > 0) {
        if ((status = fb_wait_any(futures, 2, FB_FOREVER, &which)) != FB_OK) return status;
        if ((status = fb_wait_all(futures, 2, FB_FOREVER)) != FB_OK) return status;
    }
    for (int i = 0; i < 2; ++i) fb_future_free(futures[i]);
    return fb_request_set_i64(request, 1, below[0] + below[1] + 1);
}

static void call(void)
{
    int64_t calls = 0;
    OK(FB_CALL(own, "nested", FB_IN_I64(9), FB_OUT_I64(&calls)));
    CHECK(calls == 10);
    OK(FB_CALL(own, "sent", FB_IN_I64(3), FB_OUT_I64(&calls)));
    CHECK(calls == 15);
}

int main(int argc, char **argv)
{
    const int serves = argc > 1 && strcmp(argv[1], "serve") == 0;
    const int calls = argc > 1 && strcmp(argv[1], "call") == 0;
    fb_server *server = NULL;
    const fb_server_opts opts = {
        .size = sizeof opts, .name = "nested", .workers = 1, .listen = argc > 2 ? argv[2] : NULL
    };
    if (!calls) {
        OK(fb_server_create(&opts, &server));
        OK(fb_service_register(server, "nested(in depth:i64, out calls:i64)", nested, NULL));
        OK(fb_service_register(server, "sent(in depth:i64, out calls:i64)", sent, NULL));
        OK(fb_server_start(server));
    }
    OK(fb_connect(NULL, &own));
    if (serves) {
        puts("ready");
        fflush(stdout);
        OK(fb_serve(server));
    } else {
        call();
        if (server != NULL) OK(fb_server_stop(server));
    }
    OK(fb_server_free(server));
    OK(fb_disconnect(own));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
