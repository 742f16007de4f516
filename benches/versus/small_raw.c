/* small_raw FILE COUNT: the floor of a file system: one write into a log for each put, one read from
 * a place that is remembered for each get; synced once at the end. Nothing is named or described. */
#define _GNU_SOURCE
#include "common.h"

#include <fcntl.h>
#include <unistd.h>

int main(int argc, char **argv) {
    check(argc > 2, "reading the arguments");
    int count = atoi(argv[2]), wrong = 0;
    static int32_t values[2000], out[1000];
    off_t *place = calloc((size_t)count + 1, sizeof *place);
    small_fill(values, 2000);
    int file = open(argv[1], O_CREAT | O_TRUNC | O_RDWR, 0600);
    check(file >= 0, "making the file");

    double start = now();
    for (int i = 0; i < count; i++) {
        ssize_t bytes = 4 * small_length(i);
        check(write(file, values + small_first(i), (size_t)bytes) == bytes, "a put");
        place[i + 1] = place[i] + bytes;
    }
    double written = now();
    check(fdatasync(file) == 0, "fdatasync");
    double durable = now();
    for (int i = 0; i < count; i++) {
        ssize_t bytes = pread(file, out, (size_t)(place[i + 1] - place[i]), place[i]);
        wrong += bytes != 4 * small_length(i) || out[0] != small_first(i);
    }
    double read = now();
    check(wrong == 0, "reading back");
    close(file);
    print_small(count, written - start, durable - start, read - durable);
    return 0;
}
