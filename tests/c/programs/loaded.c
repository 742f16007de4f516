/* A program that loads the library by hand, as interpreters do with their extensions: loaded LIBRARY PLACE.
   It lets go of it while a run is open, loads it again, and goes on. */

#include <forebay.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* C99 has no cast from a pointer to data to one to a function. */
static int find(void *library, const char *name, void *function, size_t size)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, size);
    return found != NULL;
}

#define FIND(library, name) find(library, #name, &name##_, sizeof name##_)

int main(int argc, char **argv)
{
    fb_status (*fb_run_open_)(const char *, const char *, const fb_open_opts *, fb_run **);
    fb_status (*fb_put_)(fb_run *, const char *, int64_t, const fb_array *);
    fb_status (*fb_run_close_)(fb_run *);
    const char *(*fb_last_error_)(void);
    const fb_open_opts opts = { .size = sizeof opts, .buffer = 4 << 20 };
    fb_run *run = NULL;
    if (argc != 3) return 2;
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || !FIND(library, fb_run_open) || !FIND(library, fb_put) || !FIND(library, fb_last_error) ||
        !FIND(library, fb_run_close)) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    if (fb_run_open_(argv[2], "w", &opts, &run) != FB_OK || fb_put_(run, "x", 0, FB_DENSE("abc", FB_U8, 3)) != FB_OK) {
        fprintf(stderr, "%s\n", fb_last_error_());
        return 1;
    }
    if (dlclose(library) != 0) return 1;
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || !FIND(library, fb_put) || !FIND(library, fb_run_close)) return 1;
    for (int64_t set = 1; set < 1000; ++set)
        if (fb_put_(run, "x", set, FB_DENSE("abc", FB_U8, 3)) != FB_OK) return 1;
    if (fb_run_close_(run) != FB_OK) return 1;
    puts("done");
    return dlclose(library);
}
