// Functions of C++ over the services of a library.
#include "blas.hpp"
#include <cstdio>

int main()
{
    fb::client client;
    const double a[] = { 1, 2, 3, 4 };
    double c[4] = {};
    blas::dgemm(client, 'N', 'T', 2, 2, 2, 1.0, a, 0, a, 0, 0.0, c, 0);
    std::printf("%g %g %g %g %g\n", c[0], c[1], c[2], c[3], blas::ddot(client, 2, a, 2, a + 1, 2));
}
