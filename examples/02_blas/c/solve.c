/* A linear system, solved by LAPACK in another process:

       forebay serve --idl blas.fbi &
       forebay serve --idl lapack.fbi &
       cc solve.c $(pkg-config --cflags --libs forebay) -o solve && ./solve */

#include <forebay.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 5 };

static void check(fb_status status)
{
    if (status == FB_OK) return;
    fprintf(stderr, "%s\n", fb_last_error());
    exit(1);
}

int main(void)
{
    double a[N * N] = { 0 }, x[N] = { 0 }, norm = 0; /* a[i + N * j] is row i, column j */
    double singular[4] = { 1, 2, 2, 4 }, b[2] = { 1, 1 };
    int32_t pivots[N], info = 0;
    fb_client *client;
    for (int i = 0; i < N; i++) {
        a[i + N * i] = 4.0;
        if (i > 0) a[i + N * (i - 1)] = -1.5;
        if (i < N - 1) a[i + N * (i + 1)] = -1.0;
        for (int j = 0; j < N; j++) x[i] += a[i + N * j] * (j + 1); /* so that the solution is 1, 2, 3, ... */
    }
    check(fb_connect(NULL, &client));
    check(fb_patience(client, 30)); /* servers that are just being started are waited for */
    check(FB_CALL(client, "dgesv", FB_IN_I32(N), FB_IN_I32(1), FB_INOUT_ARRAY_F(a, FB_F64, N, N),
                  FB_OUT_ARRAY(pivots, FB_I32, N), FB_INOUT_ARRAY_F(x, FB_F64, N, 1), FB_OUT_I32(&info)));
    printf("info = %d\nx =", (int)info);
    for (int i = 0; i < N; i++) printf(" %.3f", x[i]);
    printf("\npivots =");
    for (int i = 0; i < N; i++) printf(" %d", (int)pivots[i]);
    check(FB_CALL(client, "dnrm2", FB_IN_I32(N), FB_IN_ARRAY(x, FB_F64, N), FB_OUT_F64(&norm)));
    printf("\nnorm of x = %.3f\n", norm);
    check(FB_CALL(client, "dgesv", FB_IN_I32(2), FB_IN_I32(1), FB_INOUT_ARRAY_F(singular, FB_F64, 2, 2),
                  FB_OUT_ARRAY(pivots, FB_I32, 2), FB_INOUT_ARRAY_F(b, FB_F64, 2, 1), FB_OUT_I32(&info)));
    printf("a singular matrix: info = %d\n", (int)info);
    check(fb_disconnect(client));
    return 0;
}
