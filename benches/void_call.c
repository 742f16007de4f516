/* Void calls through the C library, for the program `call` of these benches, which starts it:

       void_call BROKER        prints median, fastest and 99 % of batches of 100, in microseconds a call */
#include <forebay.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCH = 100, WARM = 200, BATCHES = 9800 };

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int failed(void)
{
    fprintf(stderr, "void_call: %s\n", fb_last_error());
    return 1;
}

int main(int argc, char **argv)
{
    static double times[BATCHES];
    fb_client *client = NULL;

    if (argc != 2) {
        fprintf(stderr, "usage: void_call BROKER\n");
        return 2;
    }
    if (fb_connect(argv[1], &client) != FB_OK)
        return failed();
    for (int batch = -WARM; batch < BATCHES; batch++) {
        double begin = now_us();
        for (int call = 0; call < BATCH; call++)
            if (fb_call(client, "void", NULL, 0) != FB_OK)
                return failed();
        if (batch >= 0)
            times[batch] = (now_us() - begin) / BATCH;
    }
    qsort(times, BATCHES, sizeof *times, ascending);
    printf("%.4f %.4f %.4f\n", times[BATCHES / 2], times[0], times[BATCHES * 99 / 100]);
    return fb_disconnect(client) == FB_OK ? 0 : failed();
}
