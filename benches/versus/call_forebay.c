/* call_forebay BROKER: void calls from C to the server of the bench `call`, both sides active:
 * the median and the fastest of batches of 100. */
#include "ours.h"

enum { BATCHES = 5000, BATCH = 100 };

int main(int argc, char **argv) {
    check(argc > 1, "reading the arguments");
    static double times[BATCHES];
    fb_client *client;
    done(fb_connect(argv[1], &client));
    for (int i = 0; i < 20000; i++) done(fb_call(client, "void", NULL, 0));
    for (int batch = 0; batch < BATCHES; batch++) {
        double start = now();
        for (int i = 0; i < BATCH; i++) done(fb_call(client, "void", NULL, 0));
        times[batch] = (now() - start) / BATCH * 1e6;
    }
    done(fb_disconnect(client));
    qsort(times, BATCHES, sizeof *times, by_size);
    printf("{\"median_us\": %.4f, \"fastest_us\": %.4f}\n", times[BATCHES / 2], times[0]);
    return 0;
}
