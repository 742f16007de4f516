/* A program that knows nothing of services: it calls BLAS as ever, and its own xerbla_ when it calls it wrongly. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *, const int *,
            const double *, const int *, const double *, double *, const int *);
void dsyrk_(const char *, const char *, const int *, const int *, const double *, const double *, const int *, const double *,
            double *, const int *);
double ddot_(const int *, const double *, const int *, const double *, const int *);

static int told;

void xerbla_(const char *name, const int *info, size_t length)
{
    (void)length;
    told = *info;
    printf("xerbla %.6s %d\n", name, *info);
}

/* The product of two blocks of one matrix, into a third block of it. */
static double product(void)
{
    const int n = 2, ld = 5;
    const double one = 1, zero = 0;
    double m[5 * 6];
    for (int i = 0; i < 30; i++) m[i] = i;
    dgemm_("N", "T", &n, &n, &n, &one, m, &ld, m + 2, &ld, &zero, m + 10, &ld);
    for (int i = 0; i < 30; i++)
        if ((i < 10 || i > 16 || i % 5 > 1) && m[i] != i) return -1; /* nothing else was touched */
    return m[10] + 10 * m[11] + 100 * m[15] + 1000 * m[16];
}

int main(int argc, char **argv)
{
    const int n = 2, three = 3, back = -2, wrong = -1;
    const double one = 1, zero = 0, x[] = { 1, 9, 2, 9, 3 }, y[] = { 4, 5, 6 };
    double c[] = { 7, 7, 7, 7 };
    printf("%.17g\n", product());
    printf("%.17g\n", ddot_(&three, x, &back, y, (const int[]){ 1 }));
    dsyrk_("L", "N", &n, &n, &one, x, &n, &zero, c, &n);
    printf("%g %g %g %g\n", c[0], c[1], c[2], c[3]);
    dsyrk_("L", "N", &wrong, &n, &one, x, &n, &zero, c, &n);
    if (told != 3) return 1;
    if (argc > 1 && strcmp(argv[1], "fork") == 0) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            int same = product() == product();
            fflush(stdout);
            _exit(same ? 7 : 1);
        }
        int status;
        waitpid(child, &status, 0);
        printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        printf("%.17g\n", product());
    }
    return 0;
}
