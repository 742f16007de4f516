/* void_forebay BROKER SECONDS | serve: a service without arguments, called from C. */
#include "../ours.h"
#include "void.h"

static fb_client *client;
static fb_future *under_way[UNDER_WAY];

static fb_status nothing(fb_request *request, void *user) {
    (void)request, (void)user;
    return FB_OK;
}

static void serve(const char *broker) {
    fb_server *server;
    done(fb_server_create(&(fb_server_opts){.size = sizeof(fb_server_opts), .broker = broker}, &server));
    done(fb_service_register(server, "nothing()", nothing, NULL));
    serve_to_the_end(server);
}

static void call(void) { done(fb_call(client, "nothing", NULL, 0)); }
static void send(int i) { done(fb_call_async(client, "nothing", NULL, 0, &under_way[i])); }
static void take(int i) {
    done(fb_wait(under_way[i], FB_FOREVER));
    done(fb_future_free(under_way[i]));
}

int main(int argc, char **argv) {
    check(argc > 2, "reading the arguments");
    int serves = strcmp(argv[2], "serve") == 0;
    half(serves);
    if (serves) {
        serve(argv[1]);
        return 0;
    }
    done(fb_connect(argv[1], &client));
    measure_void(&(Way){call, send, take}, atof(argv[2]));
    done(fb_disconnect(client));
    return 0;
}
