/* works_forebay BROKER WORK FILE SERVERS | serve NAME TIMES: a work done by servers. Tasks are a bag, and go where there is room;
 * of the matrices each server holds both, and gets a task when it has done one. */
#include "../ours.h"
#include "works.h"

enum { AHEAD = 2, MOST_SERVERS = 16 };

static fb_client *client;
static const Work *work;
static double *x, *y;
static int given;

/* --- a server --- */
static fb_status tile(fb_request *request, void *user) {
    int64_t number, task;
    fb_array of[4];
    (void)user;
    fb_status status = fb_request_i64(request, 0, &number);
    if (status == FB_OK) status = fb_request_i64(request, 1, &task);
    for (int i = 0; status == FB_OK && i < 4; i++) status = fb_request_array(request, i + 2, FB_F64, &of[i]);
    if (status != FB_OK) return status;
    do_task(&works[number], (int)task, of[0].data, of[1].data, of[2].data, of[3].data);
    return FB_OK;
}

static void serve(const char *broker, const char *name) {
    fb_server *server;
    fb_server_opts opts = {.size = sizeof opts, .name = name, .broker = broker};
    done(fb_server_create(&opts, &server));
    done(fb_service_register(server,
                             "tile(in work:i64, in task:i64, in a:f64[n], in b:f64[m], out x:f64[k], out y:f64[l])",
                             tile, NULL));
    serve_to_the_end(server);
}

/* --- the client: a bag --- */
static void set(fb_arg *args, int64_t task) {
    int t = (int)task;
    fb_arg all[] = {FB_IN_I64(work - works),
                    FB_IN_I64(task),
                    FB_IN_ARRAY(work->a(t), FB_F64, work->na),
                    FB_IN_ARRAY(work->b(t), FB_F64, work->nb),
                    FB_OUT_ARRAY(x + work->nx * task, FB_F64, work->nx),
                    FB_OUT_ARRAY(y + work->ny * task, FB_F64, work->ny)};
    memcpy(args, all, sizeof all);
}

static int input(int64_t task, fb_arg *args, void *user) {
    (void)user;
    if (task >= work->tasks) return 0;
    set(args, task);
    return 6;
}

static int output(int64_t task, fb_status outcome, void *user) {
    (void)task, (void)user;
    done(outcome);
    return 0;
}

static void in_a_bag(void) {
    fb_bag *bag;
    fb_bag_opts opts = {.size = sizeof opts, .unordered = 1};
    done(fb_bag_open(client, "tile", &opts, &bag));
    done(fb_bag_run(bag, input, output, NULL));
    done(fb_bag_free(bag));
}

/* --- the client: references --- */
typedef struct {
    fb_ref *rows[TILES], *columns[TILES];
} Held;

static fb_future *send_to(const Held *held) {
    fb_arg args[6];
    fb_future *sent;
    set(args, given);
    args[2] = FB_REF(held->rows[given / TILES]);
    args[3] = FB_REF(held->columns[given % TILES]);
    given++;
    done(fb_call_async(client, "tile", args, 6, &sent));
    return sent;
}

/* Each server has some tasks ahead, and gets another one for each that is over. */
static void by_references(int servers) {
    Held held[MOST_SERVERS];
    fb_future *under_way[MOST_SERVERS * AHEAD];
    int whose[MOST_SERVERS * AHEAD], n = 0;
    given = 0;
    for (int s = 0; s < servers; s++) {
        char name[32];
        snprintf(name, sizeof name, "works-%d", s);
        fb_ref_opts opts = {.size = sizeof opts, .server = name};
        for (int t = 0; t < TILES; t++) {
            done(fb_ref_create(client, FB_DENSE(row_of(t * TILES), FB_F64, work->na), &opts, &held[s].rows[t]));
            done(fb_ref_create(client, FB_DENSE(column_of(t), FB_F64, work->nb), &opts, &held[s].columns[t]));
        }
        for (int i = 0; i < AHEAD && given < work->tasks; i++) whose[n] = s, under_way[n++] = send_to(&held[s]);
    }
    while (n > 0) {
        int which;
        done(fb_wait_any(under_way, n, FB_FOREVER, &which));
        done(fb_future_free(under_way[which]));
        if (given < work->tasks) {
            under_way[which] = send_to(&held[whose[which]]);
        } else {
            under_way[which] = under_way[--n], whose[which] = whose[n];
        }
    }
    for (int s = 0; s < servers; s++)
        for (int t = 0; t < TILES; t++) {
            done(fb_ref_kill(held[s].rows[t]));
            done(fb_ref_kill(held[s].columns[t]));
        }
}

int main(int argc, char **argv) {
    check(argc > 4, "reading the arguments");
    if (strcmp(argv[2], "serve") == 0) {
        times_over = atoi(argv[4]);
        serve(argv[1], argv[3]);
        return 0;
    }
    work = work_of(argv[2]);
    int servers = atoi(argv[4]), holds = strcmp(work->name, "matrix") == 0;
    prepare(work);
    double *all = calloc((size_t)work->all, sizeof *all), best = INFINITY;
    x = calloc((size_t)(work->nx * work->tasks + 1), sizeof *x);
    y = calloc((size_t)(work->ny * work->tasks + 1), sizeof *y);
    done(fb_connect(argv[1], &client));
    /* The first time finds the servers, and is not counted. */
    for (int turn = 0; turn < 3; turn++) {
        memset(all, 0, sizeof *all * (size_t)work->all);
        double start = now();
        if (holds) {
            by_references(servers);
        } else {
            in_a_bag();
        }
        for (int task = 0; task < work->tasks; task++)
            work->collect(task, x + work->nx * task, y + work->ny * task, all);
        if (turn > 0) best = fmin(best, now() - start);
    }
    finish(work, all, argv[3], best);
    done(fb_disconnect(client));
    return 0;
}
