/* The field solve of the example as a service, in C:

       cc poisson1d.c $(pkg-config --cflags --libs forebay) -o poisson1d && ./poisson1d

   It offers what python/poisson1d.py offers, and serves until SIGTERM or Ctrl-C. The same matrix is
   solved here by two sums where Python takes a Fourier transform, so results agree to rounding; where
   they are to agree to the bit, let all servers be of one language. */

#include <forebay.h>
#include <stdio.h>
#include <stdlib.h>

/* Potential and field of a charge density on a periodic grid.

   Solves -phi'' = rho with second differences and differentiates with centred differences, as ES1
   does. `half[i]` is the field between the points i - 1 and i: its differences are the density, and
   its sum over the period is 0, for phi is periodic. The mean of rho has no effect; that of phi is 0. */
static void solve(double length, int64_t n, const double *rho, double *phi, double *E, double *half)
{
    double dx = length / (double)n, rho_mean = 0, half_mean = 0, phi_mean = 0, sum = 0;
    for (int64_t i = 0; i < n; i++)
        rho_mean += rho[i] / (double)n;
    for (int64_t i = 0; i < n; i++) {
        half[i] = sum;
        half_mean += sum / (double)n;
        sum += dx * (rho[i] - rho_mean);
    }
    sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double right = half[(i + 1) % n] - half_mean;
        E[i] = 0.5 * (half[i] - half_mean + right);
        phi[i] = sum;
        phi_mean += sum / (double)n;
        sum -= dx * right;
    }
    for (int64_t i = 0; i < n; i++)
        phi[i] -= phi_mean;
}

/* The array that is parameter `index`, with its length. */
static fb_status array(fb_request *request, int index, int64_t *n, double **data)
{
    fb_array found;
    fb_status status = fb_request_array(request, index, FB_F64, &found);
    if (status == FB_OK) {
        *data = found.data;
        *n = found.shape[0];
    }
    return status;
}

static fb_status poisson1d(fb_request *request, void *user)
{
    double length = 0, *rho = NULL, *phi = NULL, *E = NULL;
    int64_t n = 0;
    (void)user;
    fb_status status = fb_request_f64(request, 0, &length);
    if (!status)
        status = array(request, 1, &n, &rho);
    if (!status)
        status = array(request, 2, &n, &phi);
    if (!status)
        status = array(request, 3, &n, &E);
    if (status)
        return status;
    double *half = calloc((size_t)n + 1, sizeof(double));
    if (!half)
        return fb_request_fail(request, "there is not enough memory for the field solve");
    solve(length, n, rho, phi, E, half);
    free(half);
    return FB_OK;
}

int main(void)
{
    fb_server_opts opts = {.size = sizeof opts, .name = "poisson1d in C"};
    fb_server *server = NULL;
    fb_status status = fb_server_create(&opts, &server);
    if (!status)
        status = fb_service_register(server, "poisson1d(in length:f64, in rho:f64[n], out phi:f64[n], out E:f64[n])", poisson1d, NULL);
    if (!status)
        status = fb_serve(server);
    if (status)
        fprintf(stderr, "poisson1d: %s\n", fb_last_error());
    fb_server_free(server);
    return status ? 1 : 0;
}
