/* snapshot_hdf5 DIRECTORY STEPS MIB SECONDS: four arrays a step into one HDF5 file each (contiguous,
 * allocated early, no fill values), computing SECONDS between; at the end everything is synced. */
#include "common.h"

#include <fcntl.h>
#include <hdf5.h>
#include <unistd.h>

int main(int argc, char **argv) {
    check(argc > 4, "reading the arguments");
    int steps = atoi(argv[2]);
    hsize_t n = (hsize_t)atoi(argv[3]) << 17, part = n / 4;
    double seconds = atof(argv[4]), *field = malloc(n * 8), *visible = calloc((size_t)steps, 8);
    for (hsize_t i = 0; i < n; i++) field[i] = (double)(i % 251);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), make = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
    H5Pset_alloc_time(make, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(make, H5D_FILL_TIME_NEVER);
    char path[4096];

    double start = now();
    for (int step = 0; step < steps; step++) {
        compute(seconds);
        double began = now();
        snprintf(path, sizeof path, "%s/hdf5-%d.h5", argv[1], step);
        hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access), space = H5Screate_simple(1, &part, NULL);
        for (int a = 0; a < 4; a++) {
            char name[2] = {(char)('a' + a), 0};
            hid_t data = H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, make, H5P_DEFAULT);
            check(H5Dwrite(data, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, field + a * part) >= 0, "a write");
            H5Dclose(data);
        }
        H5Sclose(space);
        check(H5Fclose(file) >= 0, "closing");
        visible[step] = now() - began;
    }
    for (int step = 0; step < steps; step++) {
        snprintf(path, sizeof path, "%s/hdf5-%d.h5", argv[1], step);
        int descriptor = open(path, O_RDWR);
        check(descriptor >= 0 && fsync(descriptor) == 0, "fsync");
        close(descriptor);
    }
    print_steps(visible, steps, now() - start);
    return 0;
}
