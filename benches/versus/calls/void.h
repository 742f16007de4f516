/* How a call without arguments is measured, the same for everyone: each program says how a call is made and
 * waited for, how one is sent, and how its answer is taken. Client and server have half of the cores each. */
#ifndef VERSUS_VOID_H
#define VERSUS_VOID_H

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common.h"

enum { BATCH = 100, UNDER_WAY = 1000, MOST = 20000 };

/* A call that is waited for; the i-th of at most UNDER_WAY calls sent, and its answer taken, in the same order. */
typedef struct {
    void (*call)(void);
    void (*send)(int i);
    void (*take)(int i);
} Way;

/* This process on the first half of its cores, or on the second one: with one core, where it is. */
static inline void half(int second) {
    cpu_set_t all, mine;
    check(sched_getaffinity(0, sizeof all, &all) == 0, "asking for the cores");
    int cores = CPU_COUNT(&all), seen = 0;
    CPU_ZERO(&mine);
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &all) && (seen++ >= cores / 2) == second) CPU_SET(c, &mine);
    if (cores > 1) check(sched_setaffinity(0, sizeof mine, &mine) == 0, "taking a half of the cores");
}

/* A server beside this process, which ends with it. Its pid. */
static inline pid_t beside(void (*serve)(const char *), const char *where) {
    pid_t parent = getpid(), child = fork();
    check(child >= 0, "starting a server");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        half(1);
        serve(where);
        _exit(0);
    }
    half(0);
    return child;
}

static inline void end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* Microseconds of a call, the median of batches, for so many seconds. */
static inline double batches(const Way *way, int waits, double seconds) {
    static double times[MOST];
    int n = 0;
    for (double over = now() + seconds; n < MOST && (n < 3 || now() < over); n++) {
        double start = now();
        for (int i = 0; i < BATCH; i++) {
            if (waits) {
                way->call();
            } else {
                way->send(0);
                way->take(0);
            }
        }
        times[n] = (now() - start) / BATCH * 1e6;
    }
    qsort(times, (size_t)n, sizeof *times, by_size);
    return times[n / 2];
}

/* Microseconds a call with UNDER_WAY of them sent and then taken; `pause` seconds between the two, which do not count,
 * leave the client's own part alone. */
static inline double crowds(const Way *way, double pause, double seconds) {
    static double times[MOST];
    int n = 0;
    for (double over = now() + seconds; n < MOST && (n < 3 || now() < over); n++) {
        double start = now();
        for (int i = 0; i < UNDER_WAY; i++) way->send(i);
        double sent = now();
        if (pause > 0) usleep((useconds_t)(pause * 1e6));
        double again = pause > 0 ? now() : sent;
        for (int i = 0; i < UNDER_WAY; i++) way->take(i);
        times[n] = (sent - start + now() - again) / UNDER_WAY * 1e6;
    }
    qsort(times, (size_t)n, sizeof *times, by_size);
    return times[n / 2];
}

/* All of it, as the driver wants it. */
static inline void measure_void(const Way *way, double seconds) {
    batches(way, 1, seconds / 10);
    double call = batches(way, 1, seconds / 4), get = batches(way, 0, seconds / 4);
    double rate = crowds(way, 0, seconds / 4), client = crowds(way, 3e-6 * UNDER_WAY * rate, seconds / 2);
    printf("{\"synchronous\": %.4f, \"asynchronous + get\": %.4f, \"client part\": %.4f, \"under way\": %.4f}\n", call,
           get, client, rate);
}

#endif
