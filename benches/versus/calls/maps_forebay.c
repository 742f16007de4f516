/* maps_forebay BROKER void COUNT: tasks without arguments, in a bag and by calls of one's own, in turns.
 * maps_forebay BROKER bag FILE BYTES: tasks of the durations in a file, one a line, with so many bytes each.
 * maps_forebay BROKER share SECONDS LENGTH: for so long, tasks of one length; how many were done.
 * maps_forebay BROKER serve spin|sleep: the server. */
#include "../ours.h"

enum { UNDER_WAY = 1000 };

static fb_client *client;

/* --- the server --- */
static int sleeps;

static fb_status nothing(fb_request *request, void *user) {
    (void)request, (void)user;
    return FB_OK;
}

/* Work is time on the core: what others take of it does not count. */
static double on_core(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static fb_status spend(fb_request *request, void *user) {
    double seconds;
    (void)user;
    fb_status status = fb_request_f64(request, 0, &seconds);
    if (status != FB_OK) return status;
    if (sleeps) {
        struct timespec t = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
        nanosleep(&t, NULL);
        return FB_OK;
    }
    for (double over = on_core() + seconds; on_core() < over;) {}
    return FB_OK;
}

static void serve(const char *broker) {
    fb_server *server;
    done(fb_server_create(&(fb_server_opts){.size = sizeof(fb_server_opts), .name = "maps", .broker = broker}, &server));
    done(fb_service_register(server, "nothing()", nothing, NULL));
    done(fb_service_register(server, "number(in x:f64)", nothing, NULL));
    done(fb_service_register(server, "spend(in seconds:f64, in data:u8[n])", spend, NULL));
    serve_to_the_end(server);
}

/* --- a bag --- */
static int64_t tasks, bytes, over;
static double *lengths, deadline;
static unsigned char *data;

static int input(int64_t task, fb_arg *args, void *user) {
    (void)user;
    if (deadline > 0 ? now() > deadline : task >= tasks) return 0;
    args[0] = FB_IN_F64(lengths[deadline > 0 ? 0 : task]);
    args[1] = FB_IN_ARRAY(data, FB_U8, bytes);
    return 2;
}

static int output(int64_t task, fb_status outcome, void *user) {
    (void)task, (void)user;
    done(outcome);
    over++;
    return deadline > 0 && now() > deadline;
}

static double in_a_bag(void) {
    fb_bag *bag;
    fb_bag_opts opts = {.size = sizeof opts, .unordered = 1};
    double start = now();
    done(fb_bag_open(client, "spend", &opts, &bag));
    fb_status status = fb_bag_run(bag, input, output, NULL);
    if (status != FB_CANCELLED) done(status);
    done(fb_bag_free(bag));
    return now() - start;
}

/* Void tasks: as many are held as by hand. */
static double void_bag(void) {
    fb_bag *bag;
    int64_t index = 0, held = 0;
    fb_status outcome;
    double start = now();
    done(fb_bag_open(client, "nothing", NULL, &bag));
    for (int64_t added = 0; added < tasks;) {
        for (; held < UNDER_WAY && added < tasks; held++, added++) done(fb_bag_add(bag, NULL, 0, FB_FOREVER, NULL));
        for (; held > UNDER_WAY / 2; held--) {
            done(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
            done(outcome);
        }
    }
    done(fb_bag_end(bag));
    for (;;) {
        done(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
        if (index < 0) break;
        done(outcome);
    }
    done(fb_bag_free(bag));
    return now() - start;
}

/* The same by hand: so many sent, then taken. */
static double by_hand(void) {
    static fb_future *sent[UNDER_WAY];
    double start = now();
    for (int64_t n = 0; n < tasks; n += UNDER_WAY) {
        for (int i = 0; i < UNDER_WAY; i++) done(fb_call_async(client, "nothing", NULL, 0, &sent[i]));
        for (int i = 0; i < UNDER_WAY; i++) {
            done(fb_wait(sent[i], FB_FOREVER));
            done(fb_future_free(sent[i]));
        }
    }
    return now() - start;
}

/* Seconds of a copy of a task's bytes in warm memory: what the client's core cannot do without. */
static double a_copy(void) {
    unsigned char *to = calloc((size_t)bytes + 1, 1);
    double least = 1;
    for (int i = 0; i < 50; i++) {
        double start = now();
        memcpy(to, data, (size_t)bytes);
        __asm__ volatile("" : : "r"(to) : "memory");
        double took = now() - start;
        if (took < least) least = took;
    }
    free(to);
    return least;
}

static int64_t read_lengths(const char *path) {
    FILE *file = fopen(path, "r");
    int64_t n = 0;
    check(file != NULL, "opening the durations");
    lengths = malloc(sizeof *lengths * 1000000);
    while (n < 1000000 && fscanf(file, "%lf", &lengths[n]) == 1) n++;
    fclose(file);
    return n;
}

int main(int argc, char **argv) {
    check(argc > 3, "reading the arguments");
    const char *how = argv[2];
    if (strcmp(how, "serve") == 0) {
        sleeps = strcmp(argv[3], "sleep") == 0;
        serve(argv[1]);
        return 0;
    }
    done(fb_connect(argv[1], &client));
    if (strcmp(how, "void") == 0) {
        tasks = atoll(argv[3]);
        by_hand();
        double bag = void_bag(), hand = by_hand();
        printf("{\"bag\": %.4f, \"by hand\": %.4f}\n", bag / (double)tasks * 1e6, hand / (double)tasks * 1e6);
    } else {
        check(argc > 4, "reading the arguments");
        bytes = strcmp(how, "bag") == 0 ? atoll(argv[4]) : 0;
        data = calloc((size_t)bytes + 1, 1);
        /* Who serves is found, and each server called once, before the clock runs. */
        double warm[64];
        for (int i = 0; i < 64; i++) warm[i] = 1e-4;
        lengths = warm, tasks = 64;
        in_a_bag();
        over = 0;
        if (strcmp(how, "bag") == 0) {
            tasks = read_lengths(argv[3]);
            double took = in_a_bag();
            check(over == tasks, "doing all tasks");
            printf("{\"seconds\": %.6f, \"copy\": %.9f}\n", took, a_copy());
        } else {
            double length = atof(argv[4]);
            lengths = &length, deadline = now() + atof(argv[3]);
            in_a_bag();
            printf("{\"busy\": %.6f}\n", (double)over * length);
        }
    }
    done(fb_disconnect(client));
    return 0;
}
