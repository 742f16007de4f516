/* Functions of C over the services of a library. */
#include "blas.h"
#include <stdio.h>

int main(void)
{
    fb_client *client;
    double a[] = { 1, 2, 3, 4 }, c[2 * 3] = { 0 }, dot;
    if (fb_connect(NULL, &client) != FB_OK) return 1;
    if (blas_dgemm(client, 'N', 'T', 2, 2, 2, 1.0, a, 0, a, 0, 0.0, c, 3) != FB_OK) return puts(fb_last_error()), 1;
    if (blas_ddot(client, 2, a, 2, a + 1, 2, &dot) != FB_OK) return puts(fb_last_error()), 1;
    printf("%g %g %g %g %g %g %g\n", c[0], c[1], c[2], c[3], c[4], c[5], dot);
    if (blas_dgemm(client, 'N', 'N', -1, 2, 2, 1.0, a, 0, a, 0, 0.0, c, 3) != FB_OK) puts(fb_last_error());
    /* With fewer than its rows the columns of a matrix would lie over each other. */
    for (int64_t ld = -1; ld < 2; ld += 2)
        if (blas_dgemm(client, 'N', 'N', 2, 2, 2, 1.0, a + 2, ld, a, 2, 0.0, c, 3) != FB_OK) puts(fb_last_error());
    return fb_disconnect(client) != FB_OK;
}
