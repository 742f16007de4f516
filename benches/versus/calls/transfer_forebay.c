/* transfer_forebay BROKER SECONDS | serve: 4 bytes to 64 MiB to a server and back: an array that it holds put and got, an
 * argument of a call, beside a copy in warm memory and the same bytes through a socket of the system, in turns. */
#include <sys/socket.h>

#include "../ours.h"
#include "void.h"

enum { MOST_BYTES = 64 << 20, WAYS = 5, ROUNDS = 4000 };

static fb_client *client;
static fb_ref *held;
static unsigned char *from, *into;
static int64_t n;
static int line;

static fb_status take(fb_request *request, void *user) {
    fb_array x;
    (void)user;
    fb_status status = fb_request_array(request, 0, FB_U8, &x);
    if (status != FB_OK) return status;
    const unsigned char *bytes = x.data;
    return bytes[0] == 1 && bytes[x.shape[0] - 1] == 1 ? FB_OK : fb_request_fail(request, "other bytes than were sent");
}

static void serve(const char *broker) {
    fb_server *server;
    done(fb_server_create(&(fb_server_opts){.size = sizeof(fb_server_opts), .name = "held", .broker = broker}, &server));
    done(fb_service_register(server, "take(in x:u8[n])", take, NULL));
    serve_to_the_end(server);
}

/* Reads what comes and says so by one byte; the length of each goes before it. */
static void drain(const char *end) {
    int fd = atoi(end);
    unsigned char *to = malloc(MOST_BYTES);
    for (int64_t wanted; recv(fd, &wanted, sizeof wanted, MSG_WAITALL) == (ssize_t)sizeof wanted;) {
        if (wanted > 0 && recv(fd, to, (size_t)wanted, MSG_WAITALL) != wanted) break;
        if (send(fd, to, 1, 0) != 1) break;
    }
}

static void put(void) { done(fb_ref_put(held, FB_DENSE(from, FB_U8, n))); }
static void get(void) { done(fb_ref_get(held, FB_DENSE(into, FB_U8, n))); }
static void call(void) { done(FB_CALL(client, "take", FB_IN_ARRAY(from, FB_U8, n))); }
static void copy(void) {
    memcpy(into, from, (size_t)n);
    __asm__ volatile("" : : "r"(into) : "memory");
}
static void raw(void) {
    char answer;
    check(send(line, &n, sizeof n, MSG_MORE) == (ssize_t)sizeof n, "sending");
    for (int64_t at = 0, some; at < n; at += some) {
        some = send(line, from + at, (size_t)(n - at), 0);
        check(some > 0, "sending");
    }
    check(recv(line, &answer, 1, 0) == 1, "being answered");
}

static const struct {
    const char *name;
    void (*does)(void);
} ways[WAYS] = {{"put", put}, {"get", get}, {"call", call}, {"copy", copy}, {"socket", raw}};

/* Microseconds of each way for so many bytes: medians of batches that take turns. */
static void measure(double seconds) {
    static double times[WAYS][ROUNDS];
    int batch[WAYS], rounds = 0;
    for (int w = 0; w < WAYS; w++) {
        for (int i = 0; i < 2; i++) ways[w].does();
        double start = now();
        for (int i = 0; i < 3; i++) ways[w].does();
        double one = (now() - start) / 3;
        batch[w] = one < 5e-4 ? (int)(5e-4 / one) + 1 : 1;
    }
    for (double over = now() + seconds; rounds < ROUNDS && (rounds < 5 || now() < over); rounds++) {
        for (int w = 0; w < WAYS; w++) {
            ways[w].does();
            double start = now();
            for (int i = 0; i < batch[w]; i++) ways[w].does();
            times[w][rounds] = (now() - start) / batch[w] * 1e6;
        }
    }
    printf("%s\"%lld\": {", n == 4 ? "" : ", ", (long long)n);
    for (int w = 0; w < WAYS; w++) {
        qsort(times[w], (size_t)rounds, sizeof **times, by_size);
        printf("%s\"%s\": %.4f", w ? ", " : "", ways[w].name, times[w][rounds / 2]);
    }
    printf("}");
}

int main(int argc, char **argv) {
    check(argc > 2, "reading the arguments");
    if (strcmp(argv[2], "serve") == 0) {
        half(1);
        serve(argv[1]);
        return 0;
    }
    int ends[2];
    char other[16];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "making a socket");
    snprintf(other, sizeof other, "%d", ends[1]);
    pid_t reader = beside(drain, other);
    line = ends[0];
    done(fb_connect(argv[1], &client));
    from = aligned_alloc(64, MOST_BYTES);
    into = aligned_alloc(64, MOST_BYTES);
    memset(from, 1, MOST_BYTES);
    memset(into, 0, MOST_BYTES);
    printf("{");
    for (n = 4; n <= MOST_BYTES; n *= 4) {
        done(fb_ref_create(client, FB_DENSE(from, FB_U8, n), &(fb_ref_opts){.size = sizeof(fb_ref_opts)}, &held));
        get();
        check(memcmp(from, into, (size_t)n) == 0, "getting what was put");
        measure(atof(argv[2]));
        done(fb_ref_kill(held));
    }
    printf("}\n");
    done(fb_disconnect(client));
    end(reader);
    return 0;
}
