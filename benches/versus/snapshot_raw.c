/* snapshot_raw HOW DIRECTORY STEPS MIB SECONDS: the limits of the machine, step by step as the others.
 * HOW: memcpy (into warm memory), stream (the same with stores that go past the caches), buffered
 * (write into a file), direct (past the page cache, synced: what a durable step costs at least). */
#define _GNU_SOURCE
#include "common.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

static void stream(char *to, const char *from, size_t bytes) {
#ifdef __x86_64__
    for (size_t at = 0; at + 16 <= bytes; at += 16)
        _mm_stream_si128((__m128i *)(to + at), _mm_load_si128((const __m128i *)(from + at)));
    _mm_sfence();
#else
    memcpy(to, from, bytes);
#endif
}

static void *pages(size_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    check(p != MAP_FAILED, "taking memory");
    return p;
}

int main(int argc, char **argv) {
    check(argc > 5, "reading the arguments");
    const char *how = argv[1];
    int steps = atoi(argv[3]), files = !strcmp(how, "buffered") || !strcmp(how, "direct");
    size_t bytes = (size_t)atoi(argv[4]) << 20;
    double seconds = atof(argv[5]), *visible = calloc((size_t)steps, 8);
    char *from = pages(bytes), *to = files ? NULL : pages(bytes), path[4096];
    for (size_t i = 0; i < bytes / 8; i++) ((double *)from)[i] = (double)(i % 251);

    double start = now();
    for (int step = 0; step < steps; step++) {
        if (seconds > 0) compute(seconds);
        double began = now();
        if (!strcmp(how, "memcpy")) {
            memcpy(to, from, bytes);
            __asm__ volatile("" : : "r"(to) : "memory");
        } else if (!strcmp(how, "stream")) {
            stream(to, from, bytes);
        } else {
            int direct = !strcmp(how, "direct");
            snprintf(path, sizeof path, "%s/raw-%d", argv[2], step);
            int file = open(path, O_CREAT | O_TRUNC | O_WRONLY | (direct ? O_DIRECT : 0), 0600);
            check(file >= 0, "making a file");
            for (size_t at = 0, n = 8 << 20; at < bytes; at += n)
                check(pwrite(file, from + at, n < bytes - at ? n : bytes - at, (off_t)at) > 0, "a write");
            if (direct) check(fsync(file) == 0, "fsync");
            close(file);
        }
        visible[step] = now() - began;
    }
    for (int step = 0; files && step < steps; step++) {
        snprintf(path, sizeof path, "%s/raw-%d", argv[2], step);
        int file = open(path, O_RDWR);
        check(file >= 0 && fsync(file) == 0, "fsync");
        close(file);
    }
    print_steps(visible, steps, now() - start);
    return 0;
}
