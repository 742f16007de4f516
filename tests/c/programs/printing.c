/* What services print comes to callers of calls that fail: printing serve; printing call; printing kill. */

#define _POSIX_C_SOURCE 200809L

#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t two_are_here = PTHREAD_COND_INITIALIZER;
static int here;

/* Prints as many lines as it is told, and fails. */
static fb_status says(fb_request *request, void *user)
{
    int64_t lines = 0;
    (void)user;
    OK(fb_request_i64(request, 0, &lines));
    for (int64_t i = 0; i < lines; ++i) printf("line %lld\n", (long long)i);
    if (lines > 0) fprintf(stderr, "after %lld lines\n", (long long)lines);
    return fb_request_fail(request, "it was said");
}

/* Prints, and does not fail. */
static fb_status murmurs(fb_request *request, void *user)
{
    (void)request;
    (void)user;
    printf("a murmur\n");
    return FB_OK;
}

/* Waits until another call is here, prints, and fails. */
static fb_status meets(fb_request *request, void *user)
{
    (void)user;
    pthread_mutex_lock(&lock);
    ++here;
    pthread_cond_broadcast(&two_are_here);
    while (here % 2 != 0) pthread_cond_wait(&two_are_here, &lock);
    pthread_mutex_unlock(&lock);
    printf("we have met\n");
    return fb_request_fail(request, "both fail");
}

/* Prints more than a pipe takes, and is killed at once. */
static fb_status dies(fb_request *request, void *user)
{
    (void)request;
    (void)user;
    for (int i = 0; i < 20000; ++i) printf("word %d\n", i);
    fflush(stdout);
    fprintf(stderr, "the last words\n");
    kill(getpid(), SIGKILL);
    return FB_OK;
}

static int serve(void)
{
    fb_server *server = NULL;
    const fb_server_opts opts = { .size = sizeof opts, .name = "that prints", .workers = 2, .output = 1 };
    OK(fb_server_create(&opts, &server));
    CHECK(!isatty(1) && !isatty(2));
    OK(fb_service_register(server, "says(in lines:i64)", says, NULL));
    OK(fb_service_register(server, "murmurs()", murmurs, NULL));
    OK(fb_service_register(server, "meets()", meets, NULL));
    OK(fb_service_register(server, "dies() effects", dies, NULL));
    OK(fb_server_start(server));
    puts("ready");
    fflush(stdout);
    OK(fb_serve(server));
    OK(fb_server_free(server));
    NOTHING_IN_USE();
    puts("served");
    return 0;
}

static fb_future *begin(fb_client *client, const char *service, const fb_arg *args, int count)
{
    fb_future *call = NULL;
    OK(fb_call_async(client, service, args, count, &call));
    return call;
}

static int64_t output_is(fb_future *call, int stream, const char *wanted)
{
    char *words = NULL;
    int64_t others = -1;
    OK(fb_call_output(call, stream, &words, &others));
    if (strcmp(words, wanted) != 0) fprintf(stderr, "wanted %s, got %s", wanted, words);
    CHECK(strcmp(words, wanted) == 0);
    OK(fb_free(words));
    return others;
}

static void single(fb_client *client)
{
    const fb_arg two[] = { FB_IN_I64(2) }, many[] = { FB_IN_I64(1000) }, one[] = { FB_IN_I64(1) };
    for (int again = 0; again < 3; ++again) {
        fb_future *call = begin(client, "says", two, 1);
        FAILS(FB_REMOTE_ERROR, "it was said", fb_wait(call, FB_FOREVER));
        CHECK(output_is(call, FB_STDOUT, "line 0\nline 1\n") == 0);
        CHECK(output_is(call, FB_STDERR, "after 2 lines\n") == 0);
        char *nothing = NULL;
        FAILS(FB_BAD_ARGUMENT, "FB_STDOUT", fb_call_output(call, 3, &nothing, NULL));
        OK(fb_future_free(call));
    }
    /* Of many lines the last 20. */
    fb_future *call = begin(client, "says", many, 1);
    FAILS(FB_REMOTE_ERROR, "it was said", fb_wait(call, FB_FOREVER));
    char *words = NULL;
    OK(fb_call_output(call, FB_STDOUT, &words, NULL));
    CHECK(strncmp(words, "line 980\n", 9) == 0 && strstr(words, "line 999\n") != NULL);
    OK(fb_free(words));
    OK(fb_future_free(call));
    /* What went well tells nothing, and its lines are not those of the next call that fails. */
    call = begin(client, "murmurs", NULL, 0);
    OK(fb_wait(call, FB_FOREVER));
    CHECK(output_is(call, FB_STDOUT, "") == 0);
    OK(fb_future_free(call));
    call = begin(client, "says", one, 1);
    FAILS(FB_REMOTE_ERROR, "it was said", fb_wait(call, FB_FOREVER));
    CHECK(output_is(call, FB_STDOUT, "line 0\n") == 0);
    OK(fb_future_free(call));
}

static void two_at_once(fb_client *client)
{
    fb_future *calls[2];
    for (int i = 0; i < 2; ++i) calls[i] = begin(client, "meets", NULL, 0);
    for (int i = 0; i < 2; ++i) FAILS(FB_REMOTE_ERROR, "both fail", fb_wait(calls[i], FB_FOREVER));
    for (int i = 0; i < 2; ++i) {
        char *words = NULL;
        int64_t others = 0;
        OK(fb_call_output(calls[i], FB_STDOUT, &words, &others));
        CHECK(strstr(words, "we have met\n") != NULL && others >= 1);
        OK(fb_free(words));
        OK(fb_future_free(calls[i]));
    }
}

static int heard;

static int one_task(int64_t index, fb_arg *args, void *user)
{
    (void)user;
    if (index == 3) return 0;
    args[0] = FB_IN_I64(index);
    return 1;
}

static int one_end(int64_t index, fb_status outcome, void *user)
{
    char *words = NULL;
    static const char *const wanted[] = { "", "line 0\n", "line 0\nline 1\n" };
    OK(fb_bag_output(user, FB_STDOUT, &words, NULL));
    CHECK(outcome == FB_REMOTE_ERROR && strcmp(words, wanted[index]) == 0);
    OK(fb_free(words));
    ++heard;
    return 0;
}

static void bags(fb_client *client)
{
    fb_bag *bag = NULL;
    const fb_bag_opts one = { .size = sizeof one, .window = 1 };
    OK(fb_bag_open(client, "says", &one, &bag));
    OK(fb_bag_run(bag, one_task, one_end, bag));
    CHECK(heard == 3);
    OK(fb_bag_free(bag));
    int64_t lines = 1, index = -1;
    fb_status outcome = FB_OK;
    const fb_arg args[] = { FB_IN_I64(lines) };
    OK(fb_bag_open(client, "says", &one, &bag));
    OK(fb_bag_add(bag, args, 1, FB_FOREVER, NULL));
    OK(fb_bag_next(bag, FB_FOREVER, &index, &outcome));
    char *words = NULL;
    int64_t others = -1;
    OK(fb_bag_output(bag, FB_STDERR, &words, &others));
    CHECK(outcome == FB_REMOTE_ERROR && strcmp(words, "after 1 lines\n") == 0 && others == 0);
    OK(fb_free(words));
    OK(fb_bag_free(bag));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "serve") == 0) return serve();
    fb_client *client = NULL;
    OK(fb_connect(NULL, &client));
    if (strcmp(what, "kill") == 0) {
        FAILS(FB_SERVER_LOST, "dies", fb_call(client, "dies", NULL, 0));
    } else {
        single(client);
        two_at_once(client);
        bags(client);
    }
    OK(fb_disconnect(client));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
