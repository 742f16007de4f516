// The header in C++: its structures, functions and macros: plusplus PLACE.

#include <forebay.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define OK(call) \
    do { \
        if ((call) != FB_OK) { \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, fb_last_error()); \
            return 1; \
        } \
    } while (0)

static fb_status twice(fb_request *request, void *)
{
    fb_array x;
    const fb_status status = fb_request_array(request, 1, FB_F64, &x);
    if (status != FB_OK) return status;
    double factor = 0;
    fb_request_f64(request, 0, &factor);
    for (int64_t i = 0; i < x.shape[0] * x.shape[1]; ++i) static_cast<double *>(x.data)[i] *= factor;
    return fb_request_set_str(request, 2, "twice");
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    std::vector<double> field(12, 1.5), back(12);
    const int64_t shape[] = { 3, 4 };
    fb_run *run = nullptr;
    fb_open_opts opts = fb_open_opts();
    opts.size = sizeof opts;
    opts.buffer = 4 << 20;
    OK(fb_run_open(argv[1], "w", &opts, &run));
    OK(fb_put(run, "E", 0, FB_DENSE(field.data(), FB_F64, shape[0], shape[1])));
    OK(fb_get(run, "E", 0, FB_DENSE(back.data(), FB_F64, shape[0], shape[1])));
    const double columns[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
    double rows[3][2], one = 0;
    OK(fb_put(run, "F", 0, FB_DENSE_F(columns, FB_F64, 3, 2)));
    OK(fb_get(run, "F", 0, FB_DENSE(rows, FB_F64, 3, 2)));
    OK(fb_put(run, "dt", 0, FB_ONE(&rows[1][1], FB_F64)));
    OK(fb_get(run, "dt", 0, FB_ONE(&one, FB_F64)));
    if (rows[2][0] != 3 || rows[0][1] != 4 || one != 5) return 1;
    fb_snapshot *snapshot = nullptr;
    OK(fb_snapshot_begin(run, 0, 0.0, &snapshot));
    OK(fb_snapshot_put(snapshot, "E", FB_DENSE(field.data(), FB_F64, shape[0], shape[1]), FB_APPEND, nullptr));
    OK(fb_snapshot_end(snapshot));
    OK(fb_run_close(run));
    if (field != back) return 1;

    fb_server *server = nullptr;
    fb_client *client = nullptr;
    OK(fb_server_create(nullptr, &server));
    OK(fb_service_register(server, "twice(in f:f64, inout x:f64[r,c], out said:str)", twice, nullptr));
    OK(fb_server_start(server));
    OK(fb_connect(nullptr, &client));
    char said[16];
    OK(FB_CALL(client, "twice", FB_IN_F64(2), FB_INOUT_ARRAY(field.data(), FB_F64, 3, field.size() / 3),
               FB_OUT_STR(said, sizeof said)));
    if (field[11] != 3) return 1;
    OK(fb_disconnect(client));
    OK(fb_server_free(server));
    std::puts("done");
    return 0;
}
