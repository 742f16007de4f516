/* void_zmq SOCKET SECONDS: ZeroMQ over ipc: REQ and REP for calls that are waited for, DEALER and ROUTER for many. */
#include <zmq.h>

#include "void.h"

static void *req, *dealer;

/* The server: one socket of each kind, each request answered with nothing. */
static void serve(const char *where) {
    void *context = zmq_ctx_new(), *rep = zmq_socket(context, ZMQ_REP), *router = zmq_socket(context, ZMQ_ROUTER);
    char other[256], from[256];
    snprintf(other, sizeof other, "%s-many", where);
    check(zmq_bind(rep, where) == 0 && zmq_bind(router, other) == 0, "binding");
    zmq_pollitem_t both[] = {{rep, 0, ZMQ_POLLIN, 0}, {router, 0, ZMQ_POLLIN, 0}};
    for (;;) {
        check(zmq_poll(both, 2, -1) > 0, "polling");
        if (both[0].revents) {
            check(zmq_recv(rep, from, sizeof from, 0) == 0, "receiving");
            check(zmq_send(rep, NULL, 0, 0) == 0, "answering");
        }
        /* What is there is answered before the next look at both. */
        for (int n; both[1].revents && (n = zmq_recv(router, from, sizeof from, ZMQ_DONTWAIT)) >= 0;) {
            check(zmq_recv(router, NULL, 0, 0) == 0, "receiving");
            check(zmq_send(router, from, (size_t)n, ZMQ_SNDMORE) == n && zmq_send(router, NULL, 0, 0) == 0, "answering");
        }
    }
}

static void call(void) { check(zmq_send(req, NULL, 0, 0) == 0 && zmq_recv(req, NULL, 0, 0) == 0, "a call"); }
static void send(int i) {
    (void)i;
    check(zmq_send(dealer, NULL, 0, 0) == 0, "sending");
}
static void take(int i) {
    (void)i;
    check(zmq_recv(dealer, NULL, 0, 0) == 0, "receiving");
}

int main(int argc, char **argv) {
    check(argc > 2, "reading the arguments");
    pid_t server = beside(serve, argv[1]);
    void *context = zmq_ctx_new();
    char other[256];
    snprintf(other, sizeof other, "%s-many", argv[1]);
    req = zmq_socket(context, ZMQ_REQ);
    dealer = zmq_socket(context, ZMQ_DEALER);
    int none = 0;
    zmq_setsockopt(req, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(dealer, ZMQ_LINGER, &none, sizeof none);
    check(zmq_connect(req, argv[1]) == 0 && zmq_connect(dealer, other) == 0, "connecting");
    measure_void(&(Way){call, send, take}, atof(argv[2]));
    zmq_close(req);
    zmq_close(dealer);
    zmq_ctx_term(context);
    end(server);
    return 0;
}
