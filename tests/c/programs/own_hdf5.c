/* A program with an HDF5 of its own, of another version than the one inside Forebay: own_hdf5 PLACE FILE.
   Both write at the same time in one process, and this one reads what Forebay wrote. */

#include "check.h"

#include <hdf5.h>
#include <math.h>

enum { N = 1000 };

static void write_own(const char *file, const double *values)
{
    const hsize_t n = N;
    const hid_t id = H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, &n, NULL);
    const hid_t set = H5Dcreate2(id, "own", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CHECK(id >= 0 && space >= 0 && set >= 0);
    CHECK(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    CHECK(H5Dclose(set) >= 0 && H5Sclose(space) >= 0 && H5Fclose(id) >= 0);
}

static void read_back(const char *file, const char *name, double *values)
{
    const hid_t id = H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT);
    CHECK(id >= 0);
    const hid_t set = H5Dopen2(id, name, H5P_DEFAULT);
    CHECK(set >= 0);
    CHECK(H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    CHECK(H5Dclose(set) >= 0 && H5Fclose(id) >= 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    unsigned major = 0, minor = 0, release = 0;
    CHECK(H5get_libversion(&major, &minor, &release) >= 0);
    CHECK(major == H5_VERS_MAJOR && minor == H5_VERS_MINOR && major < 2);
    double field[N], back[N];
    const int64_t n = N;
    fb_run *run = NULL;
    const fb_open_opts opts = { .size = sizeof opts, .buffer = 4 << 20 };
    OK(fb_run_open(argv[1], "w", &opts, &run));
    for (int64_t step = 0; step < 10; ++step) {
        fb_snapshot *snapshot = NULL;
        for (int i = 0; i < N; ++i) field[i] = (double)step + i;
        OK(fb_snapshot_begin(run, step, NAN, &snapshot));
        OK(fb_snapshot_put(snapshot, "field", FB_DENSE(field, FB_F64, n), NULL, NULL));
        OK(fb_snapshot_end(snapshot));
        write_own(argv[2], field);
        memset(back, 0, sizeof back);
        read_back(argv[2], "own", back);
        CHECK(memcmp(field, back, sizeof field) == 0);
        OK(fb_snapshot_free(snapshot));
    }
    OK(fb_run_close(run));
    OK(fb_run_open(argv[1], "r", NULL, &run));
    fb_snapshot *last = NULL;
    OK(fb_snapshot_last(run, &last));
    OK(fb_snapshot_get(last, "field", FB_DENSE(back, FB_F64, n)));
    CHECK(memcmp(field, back, sizeof field) == 0);
    char *path = NULL, step[4096];
    OK(fb_path(run, &path));
    snprintf(step, sizeof step, "%s/steps/0000000009.h5", path);
    memset(back, 0, sizeof back);
    read_back(step, "field", back);
    CHECK(memcmp(field, back, sizeof field) == 0);
    OK(fb_free(path));
    OK(fb_run_close(run));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
