/* Calls as a client, of a server in the same program ("calls") or of one that is there ("calls there"). */

#include "services.h"

#include <unistd.h>

static void by_value(fb_client *client)
{
    double x[1000], y[1000], wide[2000];
    for (int i = 0; i < 1000; ++i) x[i] = i, y[i] = 1, wide[2 * i] = i, wide[2 * i + 1] = -1;
    OK(FB_CALL(client, "axpy", FB_IN_F64(2), FB_IN_ARRAY(x, FB_F64, 1000), FB_INOUT_ARRAY(y, FB_F64, 1000)));
    CHECK(y[0] == 1 && y[999] == 1999);
    /* Every second element of a wider array. */
    fb_arg args[] = { FB_IN_F64(1), FB_IN_ARRAY(wide, FB_F64, 1000), FB_INOUT_ARRAY(y, FB_F64, 1000) };
    args[1].strides[0] = 2 * sizeof *wide;
    OK(fb_call(client, "axpy", args, 3));
    CHECK(y[999] == 2998);

    const double m[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
    int32_t order = -1;
    double sum = 0;
    OK(FB_CALL(client, "layout", FB_IN_ARRAY(m, FB_F64, 2, 3), FB_OUT_I32(&order), FB_OUT_F64(&sum)));
    CHECK(order == FB_ROW_MAJOR && sum == 91);
    OK(FB_CALL(client, "layout", FB_IN_ARRAY_F(m, FB_F64, 3, 2), FB_OUT_I32(&order), FB_OUT_F64(&sum)));
    CHECK(order == FB_COLUMN_MAJOR && sum == 91);
    /* The interior of a field with ghost cells, by columns and by rows, and a service that demands columns. */
    const double field[4][5] = { { 0 }, { 0, 1, 2, 3, 0 }, { 0, 4, 5, 6, 0 }, { 0 } };
    fb_arg inside[] = { FB_IN_ARRAY(&field[1][1], FB_F64, 3, 2), FB_OUT_I32(&order), FB_OUT_F64(&sum) };
    inside[0].strides[0] = sizeof **field, inside[0].strides[1] = sizeof *field;
    OK(fb_call(client, "layout", inside, 3));
    CHECK(order == FB_COLUMN_MAJOR && sum == 91);
    inside[0].shape[0] = 2, inside[0].shape[1] = 3;
    inside[0].strides[0] = sizeof *field, inside[0].strides[1] = sizeof **field;
    OK(fb_call(client, "layout", inside, 3));
    CHECK(order == FB_ROW_MAJOR && sum == 91);
    OK(fb_call(client, "columns", inside, 3));
    CHECK(order == FB_COLUMN_MAJOR && sum == 86);
    OK(FB_CALL(client, "columns", FB_IN_ARRAY(m, FB_F64, 2, 3), FB_OUT_I32(&order), FB_OUT_F64(&sum)));
    CHECK(order == FB_COLUMN_MAJOR && sum == 86);

    int32_t n = 41;
    double z[2] = { 1, 2 };
    char said[64] = "", same[8] = "";
    int64_t length = 0;
    OK(FB_CALL(client, "values", FB_INOUT_I32(&n), FB_INOUT_C128(z), FB_IN_STR("ions"), FB_IN_BYTES("\0\1\2", 3),
               FB_OUT_STR(said, sizeof said), FB_OUT_BYTES(same, sizeof same, &length)));
    CHECK(n == 42 && z[0] == 2 && z[1] == 4 && strcmp(said, "ions and 3 bytes") == 0);
    CHECK(length == 3 && memcmp(same, "\0\1\2", 3) == 0);
    n = 41;
    FAILS(FB_FULL, "said", FB_CALL(client, "values", FB_INOUT_I32(&n), FB_INOUT_C128(z), FB_IN_STR("ions"),
                                   FB_IN_BYTES("", 0), FB_OUT_STR(said, 3), FB_OUT_BYTES(same, 8, &length)));
    CHECK(n == 41);
}

static void bad_calls(fb_client *client)
{
    double x[4] = { 0 }, y[4] = { 0 };
    float f[4] = { 0 };
    FAILS(FB_NO_SERVER, "nobody", FB_CALL(client, "nobody", FB_IN_F64(1)));
    FAILS(FB_BAD_ARGUMENT, "3 parameters", FB_CALL(client, "axpy", FB_IN_F64(1)));
    FAILS(FB_BAD_ARGUMENT, "x", FB_CALL(client, "axpy", FB_IN_F64(1), FB_IN_F64(1), FB_INOUT_ARRAY(y, FB_F64, 4)));
    FAILS(FB_BAD_ARGUMENT, "f32",
          FB_CALL(client, "axpy", FB_IN_F64(1), FB_IN_ARRAY(f, FB_F32, 4), FB_INOUT_ARRAY(y, FB_F64, 4)));
    FAILS(FB_BAD_ARGUMENT, "n",
          FB_CALL(client, "axpy", FB_IN_F64(1), FB_IN_ARRAY(x, FB_F64, 3), FB_INOUT_ARRAY(y, FB_F64, 4)));
    FAILS(FB_BAD_ARGUMENT, "FB_INOUT",
          FB_CALL(client, "axpy", FB_IN_F64(1), FB_IN_ARRAY(x, FB_F64, 4), FB_IN_ARRAY(y, FB_F64, 4)));
    FAILS(FB_BAD_ARGUMENT, "y",
          FB_CALL(client, "axpy", FB_IN_F64(1), FB_IN_ARRAY(y, FB_F64, 4), FB_INOUT_ARRAY(y, FB_F64, 4)));
    fb_arg nine[] = { FB_IN_F64(1), FB_IN_ARRAY(x, FB_F64, 4), FB_INOUT_ARRAY(y, FB_F64, 4) };
    nine[1].ndim = 9;
    FAILS(FB_BAD_ARGUMENT, "rank 9", fb_call(client, "axpy", nine, 3));
    nine[1].ndim = 1;
    nine[1].data = NULL;
    FAILS(FB_BAD_ARGUMENT, "NULL", fb_call(client, "axpy", nine, 3));
    nine[1].data = x;
    nine[1].kind = 77;
    FAILS(FB_BAD_ARGUMENT, "77", fb_call(client, "axpy", nine, 3));
    FAILS(FB_REMOTE_ERROR, "the matrix is singular", fb_call(client, "fails", NULL, 0));
    FAILS(FB_TIMEOUT, "patient", fb_call_within(client, "patient", NULL, 0, 0.05));
}

static void under_way(fb_client *client)
{
    double x[64], y[4][64];
    fb_future *futures[4] = { NULL }, *patient = NULL;
    for (int i = 0; i < 64; ++i) x[i] = i, y[0][i] = y[1][i] = y[2][i] = y[3][i] = 0;
    for (int c = 0; c < 4; ++c) {
        const fb_arg args[] = { FB_IN_F64(c), FB_IN_ARRAY(x, FB_F64, 64), FB_INOUT_ARRAY(y[c], FB_F64, 64) };
        OK(fb_call_async(client, "axpy", args, 3, &futures[c]));
    }
    int which = -1, done = -1;
    OK(fb_wait_any(futures, 4, FB_FOREVER, &which));
    CHECK(which >= 0 && which < 4);
    OK(fb_probe_any(futures, 4, &which));
    CHECK(which >= 0 && which < 4);
    OK(fb_wait_all(futures, 4, FB_FOREVER));
    for (int c = 0; c < 4; ++c) {
        OK(fb_probe(futures[c], &done));
        OK(fb_wait(futures[c], 0));
        CHECK(done == 1 && y[c][63] == 63.0 * c);
    }
    fb_timing timing = { .size = sizeof timing };
    OK(fb_call_timing(futures[3], &timing));
    CHECK(timing.total > 0 && timing.running >= 0 && timing.reissued == 0 && strcmp(timing.server, "of C") == 0);
    for (int c = 0; c < 4; ++c) OK(fb_future_free(futures[c]));
    FAILS(FB_CLOSED, "freed", fb_wait(futures[0], 0));
    FAILS(FB_CLOSED, "freed", fb_future_free(futures[0]));

    /* What goes only is ours again when these return. */
    for (int transfer = FB_TRANSFER_WAIT; transfer <= FB_TRANSFER_COPY; ++transfer) {
        const fb_arg args[] = { FB_IN_F64(1), FB_IN_ARRAY(x, FB_F64, 64), FB_INOUT_ARRAY(y[0], FB_F64, 64) };
        for (int i = 0; i < 64; ++i) x[i] = i, y[0][i] = 0;
        OK(fb_call_async_as(client, "axpy", args, 3, transfer, &futures[0]));
        memset(x, 0xff, sizeof x);
        OK(fb_wait(futures[0], FB_FOREVER));
        CHECK(y[0][63] == 63.0);
        OK(fb_future_free(futures[0]));
    }
    FAILS(FB_BAD_ARGUMENT, "FB_TRANSFER_COPY", fb_call_async_as(client, "void", NULL, 0, 9, &futures[0]));

    OK(fb_call_async(client, "patient", NULL, 0, &patient));
    FAILS(FB_TIMEOUT, "", fb_wait(patient, 0.01));
    FAILS(FB_TIMEOUT, "", fb_wait_all(&patient, 1, 0.01));
    FAILS(FB_TIMEOUT, "", fb_wait_any(&patient, 1, 0.01, &which));
    OK(fb_probe_any(&patient, 1, &which));
    CHECK(which == -1);
    OK(fb_cancel(patient));
    FAILS(FB_CANCELLED, "", fb_wait(patient, FB_FOREVER));
    OK(fb_future_free(patient));
    OK(fb_call_async(client, "patient", NULL, 0, &patient));
    OK(fb_cancel_all(&patient, 1));
    FAILS(FB_CANCELLED, "", fb_wait(patient, FB_FOREVER));
    OK(fb_future_free(patient));
    /* One that is freed under way is cancelled. */
    OK(fb_call_async(client, "patient", NULL, 0, &patient));
    OK(fb_future_free(patient));
    fb_future *twice[2];
    OK(fb_call_async(client, "patient", NULL, 0, &patient));
    twice[0] = twice[1] = patient;
    FAILS(FB_BAD_ARGUMENT, "twice", fb_wait_all(twice, 2, 0));
    OK(fb_future_free(patient));
}

static void references(fb_client *client)
{
    double x[100], y[100], part[3];
    for (int i = 0; i < 100; ++i) x[i] = i;
    const int64_t offset = 10, step = 2;
    fb_ref *rx = NULL, *ry = NULL;
    OK(fb_ref_create(client, FB_DENSE(x, FB_F64, 100), NULL, &rx));
    const fb_ref_opts beside = { .size = sizeof beside, .with = rx };
    OK(fb_ref_create(client, FB_DENSE(NULL, FB_F64, 100), &beside, &ry));
    OK(FB_CALL(client, "axpy", FB_IN_F64(3), FB_REF(rx), FB_REF(ry)));
    OK(FB_CALL(client, "axpy", FB_IN_F64(1), FB_IN_ARRAY(x, FB_F64, 100), FB_REF(ry)));
    OK(fb_ref_get(ry, FB_DENSE(y, FB_F64, 100)));
    CHECK(y[0] == 0 && y[99] == 396);
    OK(fb_ref_get_part(ry, &offset, &step, FB_DENSE(part, FB_F64, 3)));
    CHECK(part[0] == 40 && part[1] == 48 && part[2] == 56);
    OK(fb_ref_put_part(ry, &offset, NULL, FB_DENSE(part, FB_F64, 3)));
    OK(fb_ref_get(ry, FB_DENSE(y, FB_F64, 100)));
    CHECK(y[9] == 36 && y[10] == 40 && y[11] == 48 && y[12] == 56 && y[13] == 52);
    OK(fb_ref_put(ry, FB_DENSE(x, FB_F64, 100)));
    OK(fb_ref_get(ry, FB_DENSE(y, FB_F64, 100)));
    CHECK(memcmp(x, y, sizeof x) == 0);

    fb_info info;
    char *name = NULL;
    uint32_t pid = 0;
    OK(fb_ref_info(ry, &info));
    CHECK(info.dtype == FB_F64 && info.ndim == 1 && info.shape[0] == 100 && info.nbytes == 800);
    OK(fb_ref_server(ry, &name, &pid));
    CHECK(strcmp(name, "of C") == 0 && pid > 0);
    OK(fb_free(name));
    const int64_t beyond = 99, huge = INT64_C(1) << 40;
    fb_ref *none = NULL;
    FAILS(FB_FULL, "", fb_ref_create(client, FB_DENSE(NULL, FB_F64, huge), NULL, &none));
    FAILS(FB_BAD_ARGUMENT, "", fb_ref_get_part(ry, &beyond, NULL, FB_DENSE(part, FB_F64, 3)));
    FAILS(FB_BAD_ARGUMENT, "array", FB_CALL(client, "axpy", FB_REF(rx), FB_REF(rx), FB_REF(ry)));
    OK(fb_ref_kill(rx));
    FAILS(FB_CLOSED, "fb_ref", fb_ref_get(rx, FB_DENSE(x, FB_F64, 100)));
    FAILS(FB_CLOSED, "fb_ref", fb_ref_kill(rx));
    OK(fb_ref_kill(ry));
}

/* Arrays on a server, written and read where the elements lie apart, in both orders. */
static void references_apart(fb_client *client)
{
    double field[4][5], back[4][5], dense[2][3], turned_dense[3][2];
    for (int i = 0; i < 20; ++i) (&field[0][0])[i] = i, (&back[0][0])[i] = -1;
    const int64_t rows[2] = { 2, 3 }, lines[2] = { sizeof *field, sizeof **field };
    const int64_t columns[2] = { 3, 2 }, turned[2] = { sizeof **field, sizeof *field };
    const fb_array inside = { FB_F64, 2, rows, lines, &field[1][1] }, there = { FB_F64, 2, rows, lines, &back[1][1] };
    const fb_array fortran = { FB_F64, 2, columns, turned, &field[1][1] };
    const fb_array back_turned = { FB_F64, 2, columns, turned, &back[1][1] };
    fb_info info;
    fb_ref *by_rows = NULL, *by_columns = NULL;
    OK(fb_ref_create(client, &inside, NULL, &by_rows));
    OK(fb_ref_get(by_rows, FB_DENSE(dense, FB_F64, 2, 3)));
    CHECK(dense[0][0] == 6 && dense[0][2] == 8 && dense[1][0] == 11 && dense[1][2] == 13);
    OK(fb_ref_create(client, &fortran, NULL, &by_columns));
    OK(fb_ref_info(by_columns, &info));
    CHECK(info.order == FB_COLUMN_MAJOR && info.shape[0] == 3 && info.shape[1] == 2);
    OK(fb_ref_get(by_columns, FB_DENSE_F(dense, FB_F64, 3, 2)));
    CHECK(dense[0][0] == 6 && dense[0][2] == 8 && dense[1][0] == 11 && dense[1][2] == 13);
    /* Into memory of the other order. */
    OK(fb_ref_get(by_rows, FB_DENSE_F(turned_dense, FB_F64, 2, 3)));
    CHECK(turned_dense[0][0] == 6 && turned_dense[2][0] == 8 && turned_dense[0][1] == 11 && turned_dense[2][1] == 13);
    OK(fb_ref_get(by_columns, FB_DENSE(turned_dense, FB_F64, 3, 2)));
    CHECK(turned_dense[0][0] == 6 && turned_dense[2][0] == 8 && turned_dense[0][1] == 11 && turned_dense[2][1] == 13);
    for (int i = 0; i < 20; ++i) (&field[0][0])[i] += 100;
    OK(fb_ref_put(by_rows, &inside));
    OK(fb_ref_put(by_columns, &fortran));
    OK(fb_ref_get(by_rows, &there));
    CHECK(back[1][1] == 106 && back[2][3] == 113 && back[1][4] == -1 && back[0][1] == -1 && back[3][1] == -1);
    memset(&back[1][1], 0, 3 * sizeof **back);
    OK(fb_ref_get(by_columns, &back_turned));
    CHECK(back[1][1] == 106 && back[1][2] == 107 && back[1][3] == 108 && back[1][4] == -1);
    CHECK(back[2][1] == 111 && back[2][2] == 112 && back[2][3] == 113 && back[2][4] == -1);
    /* A part of each: the first index of one is the last of the other. */
    const int64_t at[2] = { 1, 0 }, one[2] = { 1, 2 };
    const fb_array pair = { FB_F64, 2, one, turned, &field[0][0] };
    OK(fb_ref_put_part(by_columns, at, NULL, &pair));
    OK(fb_ref_get(by_columns, FB_DENSE_F(dense, FB_F64, 3, 2)));
    CHECK(dense[0][0] == 106 && dense[0][1] == 100 && dense[1][1] == 105 && dense[1][2] == 113);
    FAILS(FB_BAD_ARGUMENT, "was given for a part", fb_ref_put(by_rows, &fortran));
    FAILS(FB_BAD_ARGUMENT, "was asked for", fb_ref_get(by_rows, &fortran));
    OK(fb_ref_kill(by_rows));
    OK(fb_ref_kill(by_columns));
}

static void tied(fb_client *client, int here)
{
    fb_client *one = NULL;
    FAILS(FB_BAD_ARGUMENT, "\"luck\" is no rule of placement", fb_place_by(client, "luck"));
    OK(fb_place_by(client, "turns"));
    FAILS(FB_CONFLICT, "a rule of placement already; connect another client", fb_place_by(client, "least"));
    OK(fb_on(client, "of nobody", 0, &one));
    FAILS(FB_NO_SERVER, "no server \"of nobody\" offers axpy", fb_call(one, "axpy", NULL, 0));
    OK(fb_disconnect(one));
    if (!here) return;
    OK(fb_on(client, "of C", 0, &one));
    by_value(one);
    OK(fb_disconnect(one));
    OK(fb_on(client, NULL, (uint32_t)getpid(), &one));
    by_value(one);
    OK(fb_disconnect(one));
}

int main(int argc, char **argv)
{
    fb_server *server = NULL;
    (void)argv;
    if (argc == 1) {
        const fb_server_opts opts = { .size = sizeof opts, .name = "of C", .workers = 2, .memory = 1 << 20 };
        OK(fb_server_create(&opts, &server));
        offer(server);
        FAILS(FB_BAD_ARGUMENT, "", fb_service_register(server, "bad signature", axpy, NULL));
        FAILS(FB_BAD_ARGUMENT, "NULL", fb_service_register(server, "nothing()", NULL, NULL));
        OK(fb_server_start(server));
        FAILS(FB_CONFLICT, "runs", fb_server_start(server));
    }
    fb_client *client = NULL;
    OK(fb_connect(NULL, &client));
    OK(fb_patience(client, 0.05));
    FAILS(FB_NO_SERVER, "waited 0.05 s in vain", fb_call(client, "nobody", NULL, 0));
    OK(fb_patience(client, 0));
    FAILS(FB_BAD_ARGUMENT, "a silence of 0 s", fb_silence(client, 0));
    OK(fb_silence(client, 30));
    OK(fb_silence(client, 20));
    by_value(client);
    tied(client, argc == 1);
    bad_calls(client);
    under_way(client);
    references(client);
    references_apart(client);

    char **signatures = NULL, *signature = NULL;
    int64_t count = 0;
    OK(fb_services(client, &signatures, &count));
    CHECK(count == 6 && strcmp(signatures[0], "axpy(in a:f64, in x:f64[n], inout y:f64[n])") == 0);
    OK(fb_free(signatures));
    OK(fb_signature(client, "fails", &signature));
    CHECK(strcmp(signature, "fails()") == 0);
    OK(fb_free(signature));
    if (server) {
        fb_server_load load = { .size = sizeof load };
        OK(fb_load(server, &load));
        CHECK(load.served > 0);
        OK(fb_server_trouble(server));
        OK(fb_service_remove(server, "fails"));
        OK(fb_server_stop(server));
        OK(fb_server_stop(server));
        FAILS(FB_CLOSED, "stopped", fb_server_start(server));
        OK(fb_server_free(server));
    }
    OK(fb_disconnect(client));
    FAILS(FB_CLOSED, "fb_client", fb_call(client, "fails", NULL, 0));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
