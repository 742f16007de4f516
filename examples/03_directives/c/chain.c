/* Two matrix products and a linear system. The plain compiler sees comments, and BLAS and LAPACK compute here; compiled by
   `forebay cc` servers compute, and the first product stays there for the second. README.md has the commands. */

#include <stdio.h>

enum { N = 100, SMALL = 4 };

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);
void dgesv_(const int *, const int *, double *, const int *, int *, double *, const int *, int *);
double dnrm2_(const int *, const double *, const int *);

int main(void)
{
    static double a[N * N], b[N * N], t[N * N], c[N * N]; /* a[i + N * j] is row i, column j, as BLAS has it */
    double s[SMALL][SMALL] = { { 4, -1, 0, 0 }, { -1, 4, -1, 0 }, { 0, -1, 4, -1 }, { 0, 0, -1, 4 } }; /* symmetric */
    double x[SMALL] = { 2, 4, 6, 13 }, norm = 0;
    int n = N, m = SMALL, one = 1, info = 0, pivots[SMALL];
    double unity = 1.0, zero = 0.0;
    for (int i = 0; i < N * N; i++) a[i] = 1.0 / (1 + i % 97), b[i] = 1.0 / (1 + i % 89);

    //fb create A, a, N, N order F on "blas"     /* room at the server, column-major as BLAS has it */
    //fb create B, b, N, N order F on "blas"
    //fb create T, f64, N, N order F on "blas"   /* has no array here: it stays there */
    //fb create C, c, N, N order F on "blas"
    //fb put A, a
    //fb put B, b
    //fb call dgemm('N', 'N', n, n, n, 1.0, A, B, 0.0, T)
    //fb call dgemm('N', 'T', n, n, n, 1.0, T, A, 0.0, C)
    //fb get C, c
    //fb kill A, B, T, C
    //fb local                                   /* what the plain compiler takes instead */
    dgemm_("N", "N", &n, &n, &n, &unity, a, &n, b, &n, &zero, t, &n);
    dgemm_("N", "T", &n, &n, &n, &unity, t, &n, a, &n, &zero, c, &n);
    //fb end

    //fb call dnrm2(n, array(c, n), &norm)       /* without a name at the server: it goes and comes */
    //fb call dgesv(m, 1, s, pivots, array(x, m, 1 order F), &info)
    //fb local
    norm = dnrm2_(&n, c, &one);
    dgesv_(&m, &one, &s[0][0], &m, pivots, x, &m, &info);
    //fb end

    printf("c = %a %a %a\n", c[0], c[N + 1], c[N * N - 1]);
    printf("norm of its first column = %a\n", norm);
    printf("info = %d, x = %a %a %a %a\n", info, x[0], x[1], x[2], x[3]);
    return 0;
}
