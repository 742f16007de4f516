/* small_hdf5 FILE COUNT: small data sets, each a data set of one HDF5 file in its newest format. */
#include "common.h"

#include <fcntl.h>
#include <hdf5.h>
#include <unistd.h>

int main(int argc, char **argv) {
    check(argc > 2, "reading the arguments");
    int count = atoi(argv[2]), wrong = 0;
    static int32_t values[2000], out[1000];
    small_fill(values, 2000);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    hid_t file = H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
    hid_t group = H5Gcreate2(file, "set", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    check(group >= 0, "making the file");

    double start = now();
    for (int i = 0; i < count; i++) {
        char name[32];
        hsize_t n = (hsize_t)small_length(i);
        snprintf(name, sizeof name, "%05d", i);
        hid_t space = H5Screate_simple(1, &n, NULL);
        hid_t data = H5Dcreate2(group, name, H5T_NATIVE_INT32, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        check(H5Dwrite(data, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values + small_first(i)) >= 0, "a put");
        H5Dclose(data);
        H5Sclose(space);
    }
    double written = now();
    H5Fflush(file, H5F_SCOPE_GLOBAL);
    int descriptor = open(argv[1], O_RDWR);
    check(fsync(descriptor) == 0, "fsync");
    double durable = now();
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%05d", i);
        hid_t data = H5Dopen2(group, name, H5P_DEFAULT), space = H5Dget_space(data);
        hssize_t n = H5Sget_simple_extent_npoints(space);
        check(H5Dread(data, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) >= 0, "a get");
        wrong += n != small_length(i) || out[0] != small_first(i);
        H5Sclose(space);
        H5Dclose(data);
    }
    double read = now();
    check(wrong == 0, "reading back");
    H5Gclose(group);
    H5Fclose(file);
    close(descriptor);
    print_small(count, written - start, durable - start, read - durable);
    return 0;
}
