/* Handles in many threads, several runs at once, frees that race, a child by fork: threads PLACE. */

#define _POSIX_C_SOURCE 200809L
#include "check.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, PUTS = 50 };

struct own {
    fb_run *shared;
    const char *place;
    int number;
    pthread_t thread;
};

/* Puts into the run of all and into a run of its own, which another thread would not know. */
static void *work(void *user)
{
    struct own *own = user;
    char name[600];
    fb_run *mine = NULL;
    fb_snapshot *snapshot = NULL;
    const fb_open_opts opts = { .size = sizeof opts, .buffer = 4 << 20 };
    const int64_t three = 3;
    snprintf(name, sizeof name, "%s-%d", own->place, own->number);
    OK(fb_run_open(name, "w", &opts, &mine));
    snprintf(name, sizeof name, "of/%d", own->number);
    for (int32_t i = 0; i < PUTS; ++i) {
        const int32_t sent[3] = { i, own->number, -i };
        int32_t got[3] = { 0 };
        OK(fb_put(own->shared, name, i, FB_DENSE(sent, FB_I32, three)));
        OK(fb_get(own->shared, name, i, FB_DENSE(got, FB_I32, three)));
        CHECK(memcmp(sent, got, sizeof got) == 0);
        OK(fb_put(mine, "x", i, FB_DENSE(sent, FB_I32, three)));
    }
    /* The text of an error is of the thread that made it. */
    int32_t none[3];
    FAILS(FB_NOT_FOUND, name, fb_get(own->shared, name, -1, FB_DENSE(none, FB_I32, three)));
    OK(fb_snapshot_begin(mine, 1, NAN, &snapshot));
    OK(fb_snapshot_put(snapshot, "x", FB_DENSE("123456789abc", FB_I32, three), NULL, NULL));
    OK(fb_snapshot_end(snapshot));
    OK(fb_run_close(mine));
    CHECK(strstr(fb_last_error(), name) != NULL);
    return NULL;
}

/* Of many that free one handle, one does; the others are told. */
static void *free_it(void *user)
{
    const fb_status outcome = fb_table_free(user);
    CHECK(outcome == FB_OK || outcome == FB_CLOSED);
    return (void *)(intptr_t)(outcome == FB_OK);
}

static void races(fb_run *run)
{
    const fb_column column = { .name = "a", .dtype = FB_F64 };
    for (int round = 0; round < 20; ++round) {
        fb_table *table = NULL;
        pthread_t threads[THREADS];
        intptr_t freed = 0;
        OK(fb_table_open(run, "t", &column, 1, NULL, &table));
        for (int i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, free_it, table) == 0);
        for (int i = 0; i < THREADS; ++i) {
            void *one = NULL;
            CHECK(pthread_join(threads[i], &one) == 0);
            freed += (intptr_t)one;
        }
        CHECK(freed == 1);
    }
}

static void child(fb_run *run)
{
    fflush(NULL);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        const double x = 1;
        FAILS(FB_CLOSED, "fork", fb_put(run, "of the child", 0, FB_ONE(&x, FB_F64)));
        FAILS(FB_CLOSED, "fork", fb_flush(run));
        OK(fb_run_close(run));
        /* Tools that look for leaks at the end would find what threads held that are not here. */
        raise(SIGKILL);
    }
    int status = -1;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    fb_run *run = NULL;
    const fb_open_opts opts = { .size = sizeof opts, .buffer = 4 << 20 };
    OK(fb_run_open(argv[1], "w", &opts, &run));
    struct own owns[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        owns[i].shared = run, owns[i].place = argv[1], owns[i].number = i;
        CHECK(pthread_create(&owns[i].thread, NULL, work, &owns[i]) == 0);
    }
    for (int i = 0; i < THREADS; ++i) CHECK(pthread_join(owns[i].thread, NULL) == 0);
    races(run);
    child(run);
    const double x = 2;
    OK(fb_put(run, "of the parent", 0, FB_ONE(&x, FB_F64)));
    OK(fb_run_close(run));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
