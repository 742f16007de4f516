/* A program whose own functions bear names that are also inside the library: own_names PLACE. The library
   must neither clash with them nor call them. */

#include "check.h"

#include <math.h>

#define OWN(name)   \
    int name(void); \
    int name(void)  \
    {               \
        abort();    \
    }
OWN(H5open)
OWN(H5Fcreate)
OWN(H5Dwrite)
OWN(sqlite3_open_v2)
OWN(sqlite3_step)
OWN(rust_begin_unwind)
OWN(rust_eh_personality)

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    fb_run *run = NULL;
    fb_snapshot *snapshot = NULL;
    const double x[3] = { 1, 2, 3 };
    const int64_t three = 3;
    const fb_open_opts opts = { .size = sizeof opts, .buffer = 4 << 20 };
    OK(fb_run_open(argv[1], "w", &opts, &run));
    OK(fb_put(run, "x", 0, FB_DENSE(x, FB_F64, three)));
    OK(fb_snapshot_begin(run, 0, NAN, &snapshot));
    OK(fb_snapshot_put(snapshot, "x", FB_DENSE(x, FB_F64, three), NULL, NULL));
    OK(fb_snapshot_end(snapshot));
    OK(fb_snapshot_wait(snapshot, FB_FOREVER));
    OK(fb_run_close(run));
    puts("done");
    return 0;
}
