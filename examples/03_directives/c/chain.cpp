/* Two matrix products and a linear system, as in chain.c: vectors go as arrays do. */

#include <cstdio>
#include <vector>

extern "C" {
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);
void dgesv_(const int *, const int *, double *, const int *, int *, double *, const int *, int *);
double dnrm2_(const int *, const double *, const int *);
}

template <class T>
T norm_of(const std::vector<T> &x, int n)
{
    T norm = 0;
    //fb call dnrm2(n, array(x, n), &norm)       // without a name at the server: it goes and comes
    //fb local
    const int one = 1;
    norm = dnrm2_(&n, x.data(), &one);
    //fb end
    return norm;
}

int main()
{
    int n = 100, m = 4, info = 0;
    std::vector<double> a(n * n), b(n * n), c(n * n); // a[i + n * j] is row i, column j, as BLAS has it
    double s[4][4] = { { 4, -1, 0, 0 }, { -1, 4, -1, 0 }, { 0, -1, 4, -1 }, { 0, 0, -1, 4 } }; // symmetric
    std::vector<double> x{ 2, 4, 6, 13 };
    std::vector<int> pivots(m);
    for (int i = 0; i < n * n; i++) a[i] = 1.0 / (1 + i % 97), b[i] = 1.0 / (1 + i % 89);

    //fb create A, a, n, n order F on "blas"     // room at the server, column-major as BLAS has it
    //fb create B, b, n, n order F on "blas"
    //fb create T, f64, n, n order F on "blas"   // has no array here: it stays there
    //fb create C, c, n, n order F on "blas"
    //fb put A, a
    //fb put B, b
    //fb call dgemm('N', 'N', n, n, n, 1.0, A, B, 0.0, T)
    //fb call dgemm('N', 'T', n, n, n, 1.0, T, A, 0.0, C)
    //fb get C, c
    //fb kill A, B, T, C
    //fb local                                   // what the plain compiler takes instead
    const double unity = 1.0, zero = 0.0;
    std::vector<double> t(n * n);
    dgemm_("N", "N", &n, &n, &n, &unity, a.data(), &n, b.data(), &n, &zero, t.data(), &n);
    dgemm_("N", "T", &n, &n, &n, &unity, t.data(), &n, a.data(), &n, &zero, c.data(), &n);
    //fb end

    //fb call dgesv(m, 1, s, pivots, array(x, m, 1 order F), &info)
    //fb local
    const int one = 1;
    dgesv_(&m, &one, &s[0][0], &m, pivots.data(), x.data(), &m, &info);
    //fb end

    std::printf("c = %a %a %a\n", c[0], c[n + 1], c[n * n - 1]);
    std::printf("norm of its first column = %a\n", norm_of(c, n));
    std::printf("info = %d, x = %a %a %a %a\n", info, x[0], x[1], x[2], x[3]);
}
