/* A linear system, solved by LAPACK in another process:

       forebay serve --idl blas.fbi &
       forebay serve --idl lapack.fbi &
       c++ -std=c++17 solve.cpp $(pkg-config --cflags --libs forebay) -o solve && ./solve */

#include <cstdio>
#include <forebay.hpp>

int main()
try {
    constexpr int n = 5;
    std::vector<double> a(n * n), x(n); // a[i + n * j] is row i, column j
    std::vector<std::int32_t> pivots(n), two(2);
    std::int32_t info = 0;
    double norm = 0;
    for (int i = 0; i < n; i++) {
        a[i + n * i] = 4.0;
        if (i > 0) a[i + n * (i - 1)] = -1.5;
        if (i < n - 1) a[i + n * (i + 1)] = -1.0;
        for (int j = 0; j < n; j++) x[i] += a[i + n * j] * (j + 1); // so that the solution is 1, 2, 3, ...
    }
    fb::client client;
    client.patience(30); // servers that are just being started are waited for
    const auto by_column = [](std::vector<double> &values, std::int64_t rows, std::int64_t columns) {
        return fb::inout(fb::view<double>(values.data(), { rows, columns }, { 8, 8 * rows }));
    };
    client.call("dgesv", n, 1, by_column(a, n, n), fb::out(pivots), by_column(x, n, 1), fb::out(info));
    std::printf("info = %d\nx =", info);
    for (double value : x) std::printf(" %.3f", value);
    std::printf("\npivots =");
    for (std::int32_t pivot : pivots) std::printf(" %d", pivot);
    client.call("dnrm2", n, x, fb::out(norm));
    std::printf("\nnorm of x = %.3f\n", norm);
    std::vector<double> singular{ 1, 2, 2, 4 }, b{ 1, 1 };
    client.call("dgesv", 2, 1, by_column(singular, 2, 2), fb::out(two), by_column(b, 2, 1), fb::out(info));
    std::printf("a singular matrix: info = %d\n", info);
} catch (const fb::error &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
