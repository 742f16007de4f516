/* The services that the test programs offer and call. */

#ifndef SERVICES_H
#define SERVICES_H

#include "check.h"

static inline fb_status axpy(fb_request *request, void *user)
{
    double a = 0;
    fb_array x, y;
    fb_status status;
    (void)user;
    if ((status = fb_request_f64(request, 0, &a)) != FB_OK) return status;
    if ((status = fb_request_array(request, 1, FB_F64, &x)) != FB_OK) return status;
    if ((status = fb_request_array(request, 2, FB_F64, &y)) != FB_OK) return status;
    CHECK(x.ndim == 1 && x.strides == NULL && x.dtype == FB_F64);
    for (int64_t i = 0; i < x.shape[0]; ++i) ((double *)y.data)[i] += a * ((double *)x.data)[i];
    return FB_OK;
}

/* Says of a matrix how it lies in memory, and gives its sum. */
static inline fb_status layout(fb_request *request, void *user)
{
    fb_array m;
    fb_order order;
    fb_status status;
    double sum = 0;
    (void)user;
    if ((status = fb_request_array(request, 0, FB_F64, &m)) != FB_OK) return status;
    if ((status = fb_request_order(request, 0, &order)) != FB_OK) return status;
    CHECK((m.strides != NULL) == (order == FB_COLUMN_MAJOR));
    CHECK(!m.strides || (m.strides[0] == 8 && m.strides[1] == 8 * m.shape[0]));
    for (int64_t i = 0; i < m.shape[0] * m.shape[1]; ++i) sum += ((double *)m.data)[i] * (double)(i + 1);
    if ((status = fb_request_set_i64(request, 1, order)) != FB_OK) return status;
    return fb_request_set_f64(request, 2, sum);
}

/* Every kind of value that is no array, changed a little. */
static inline fb_status values(fb_request *request, void *user)
{
    int64_t whole = 0, count = 0;
    double complex_[2];
    const char *text = NULL, *signature = NULL;
    const void *bytes = NULL;
    char longer[64];
    int parameters = 0, given_up = -1;
    (void)user;
    CHECK(fb_request_count(request, &parameters) == FB_OK && parameters == 6);
    CHECK(fb_request_signature(request, &signature) == FB_OK && strncmp(signature, "values(", 7) == 0);
    CHECK(fb_request_cancelled(request, &given_up) == FB_OK && given_up == 0);
    CHECK(fb_request_i64(request, 0, &whole) == FB_OK);
    CHECK(fb_request_scalar(request, 1, FB_C128, complex_) == FB_OK);
    CHECK(fb_request_str(request, 2, &text) == FB_OK);
    CHECK(fb_request_bytes(request, 3, &bytes, &count) == FB_OK);
    complex_[0] += 1;
    complex_[1] *= 2;
    snprintf(longer, sizeof longer, "%s and %lld bytes", text, (long long)count);
    CHECK(fb_request_set_i64(request, 0, whole + 1) == FB_OK);
    CHECK(fb_request_set_scalar(request, 1, FB_C128, complex_) == FB_OK);
    CHECK(fb_request_set_str(request, 4, longer) == FB_OK);
    CHECK(fb_request_set_bytes(request, 5, bytes, count) == FB_OK);
    CHECK(fb_request_set_f64(request, 2, 1.0) == FB_BAD_ARGUMENT);
    CHECK(fb_request_f64(request, 99, complex_) == FB_BAD_ARGUMENT);
    fb_array none;
    CHECK(fb_request_array(request, 0, FB_F64, &none) == FB_BAD_ARGUMENT);
    return FB_OK;
}

static inline fb_status fails(fb_request *request, void *user)
{
    return fb_request_fail(request, user);
}

/* Runs until its caller gives it up. */
static inline fb_status patient(fb_request *request, void *user)
{
    int given_up = 0;
    (void)user;
    while (!given_up) {
        if (fb_request_cancelled(request, &given_up) != FB_OK) return FB_INTERNAL;
    }
    return FB_OK;
}

static inline void offer(fb_server *server)
{
    OK(fb_service_register(server, "axpy(in a:f64, in x:f64[n], inout y:f64[n])", axpy, NULL));
    OK(fb_service_register(server, "layout(in m:f64[r,c], out order:i32, out sum:f64)", layout, NULL));
    OK(fb_service_register(server, "columns(in m:f64[r,c] order F, out order:i32, out sum:f64)", layout, NULL));
    OK(fb_service_register(
        server, "values(inout n:i32, inout z:c128, in name:str, in raw:bytes, out said:str, out same:bytes)", values,
        NULL));
    OK(fb_service_register(server, "fails()", fails, (void *)"the matrix is singular"));
    OK(fb_service_register(server, "patient()", patient, NULL));
}

#endif
