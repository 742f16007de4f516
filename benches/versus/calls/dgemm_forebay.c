/* dgemm_forebay BROKER SECONDS | serve NAME: C += A B for squares of 4 to 512: called here, and by a server, the matrices by
 * reference or by value; the server is a service in C, or the library served as it is. All take turns, batch by batch;
 * what the machine itself needs for the copies and for a call without arguments is measured among them. */
#include "../ours.h"

enum { LEAST = 4, MOST = 512, ROUNDS = 400, WAYS = 7 };

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);

static fb_client *client;
static double *a, *b, *c, *d;
static fb_ref *ra, *rb, *rc;
static int n;

static void product(const double *x, const double *y, double *z, int m) {
    const double one = 1;
    dgemm_("N", "N", &m, &m, &m, &one, x, &m, y, &m, &one, z, &m);
}

static fb_status multiply(fb_request *request, void *user) {
    (void)user;
    fb_array of[3];
    for (int i = 0; i < 3; i++) {
        fb_status status = fb_request_array(request, i, FB_F64, &of[i]);
        if (status != FB_OK) return status;
    }
    product(of[0].data, of[1].data, of[2].data, (int)of[0].shape[0]);
    return FB_OK;
}

static fb_status nothing(fb_request *request, void *user) {
    (void)request, (void)user;
    return FB_OK;
}

static void serve(const char *broker, const char *name) {
    fb_server *server;
    fb_server_opts opts = {.size = sizeof opts, .name = name, .broker = broker};
    done(fb_server_create(&opts, &server));
    done(fb_service_register(server, "multiply(in a:f64[n,n] order F, in b:f64[n,n] order F, inout c:f64[n,n] order F)",
                             multiply, NULL));
    done(fb_service_register(server, "nothing()", nothing, NULL));
    serve_to_the_end(server);
}

static void locally(void) { product(a, b, c, n); }

static void by_value(void) {
    done(FB_CALL(client, "multiply", FB_IN_ARRAY_F(a, FB_F64, n, n), FB_IN_ARRAY_F(b, FB_F64, n, n),
                 FB_INOUT_ARRAY_F(c, FB_F64, n, n)));
}

static void by_reference(void) { done(FB_CALL(client, "multiply", FB_REF(ra), FB_REF(rb), FB_REF(rc))); }

static void library_by_value(void) {
    done(FB_CALL(client, "dgemm", FB_IN_STR("N"), FB_IN_STR("N"), FB_IN_I32(n), FB_IN_I32(n), FB_IN_I32(n),
                 FB_IN_F64(1.0), FB_IN_ARRAY_F(a, FB_F64, n, n), FB_IN_ARRAY_F(b, FB_F64, n, n), FB_IN_F64(1.0),
                 FB_INOUT_ARRAY_F(c, FB_F64, n, n)));
}

static fb_ref *la, *lb, *lc;

static void library_by_reference(void) {
    done(FB_CALL(client, "dgemm", FB_IN_STR("N"), FB_IN_STR("N"), FB_IN_I32(n), FB_IN_I32(n), FB_IN_I32(n),
                 FB_IN_F64(1.0), FB_REF(la), FB_REF(lb), FB_IN_F64(1.0), FB_REF(lc)));
}

static void copies(void) {
    size_t bytes = sizeof *a * (size_t)n * (size_t)n;
    memcpy(d, a, bytes);
    memcpy(d, b, bytes);
    memcpy(d, c, bytes);
    memcpy(c, d, bytes);
}

static void call(void) { done(fb_call(client, "nothing", NULL, 0)); }

static const struct {
    const char *name;
    void (*does)(void);
} ways[WAYS] = {{"local", locally},
                {"by value", by_value},
                {"by reference", by_reference},
                {"library, by value", library_by_value},
                {"library, by reference", library_by_reference},
                {"copies", copies},
                {"call", call}};

static void fill(double *of, double start) {
    for (int i = 0; i < n * n; i++) of[i] = start + 1e-3 * (i % 97);
}

static fb_ref *hold(double *of, const char *server) {
    fb_ref *made;
    fb_ref_opts opts = {.size = sizeof opts, .server = server};
    done(fb_ref_create(client, FB_DENSE_F(of, FB_F64, n, n), &opts, &made));
    return made;
}

/* Every way gives the product that is computed here, to the last bit. */
static void checked(void) {
    size_t bytes = sizeof *a * (size_t)n * (size_t)n;
    double *right = malloc(bytes);
    fill(c, 0.5);
    locally();
    memcpy(right, c, bytes);
    void (*const values[])(void) = {by_value, library_by_value};
    for (int i = 0; i < 2; i++) {
        fill(c, 0.5);
        values[i]();
        check(memcmp(right, c, bytes) == 0, "a product by value");
    }
    by_reference();
    done(fb_ref_get(rc, FB_DENSE_F(c, FB_F64, n, n)));
    check(memcmp(right, c, bytes) == 0, "a product by reference");
    library_by_reference();
    done(fb_ref_get(lc, FB_DENSE_F(c, FB_F64, n, n)));
    check(memcmp(right, c, bytes) == 0, "a product by reference, of the library");
    free(right);
}

/* Microseconds of each way at this n: medians of batches that take turns. */
static void measure(double seconds) {
    static double times[WAYS][ROUNDS];
    int batch[WAYS], rounds = 0;
    for (int w = 0; w < WAYS; w++) {
        ways[w].does();
        double start = now();
        for (int i = 0; i < 10; i++) ways[w].does();
        double one = (now() - start) / 10;
        batch[w] = one < 1e-3 ? (int)(1e-3 / one) + 1 : 1;
    }
    for (double over = now() + seconds; rounds < ROUNDS && (rounds < 5 || now() < over); rounds++) {
        for (int w = 0; w < WAYS; w++) {
            /* The one before goes to sleep meanwhile, and who is called now is awake, with what it works on in its caches. */
            double start = now();
            while (now() < start + 3e-4) ways[w].does();
            start = now();
            for (int i = 0; i < batch[w]; i++) ways[w].does();
            times[w][rounds] = (now() - start) / batch[w] * 1e6;
        }
    }
    printf("%s\"%d\": {", n == LEAST ? "" : ", ", n);
    for (int w = 0; w < WAYS; w++) {
        qsort(times[w], (size_t)rounds, sizeof **times, by_size);
        printf("%s\"%s\": %.4f", w ? ", " : "", ways[w].name, times[w][rounds / 2]);
    }
    printf("}");
}

int main(int argc, char **argv) {
    check(argc > 2, "reading the arguments");
    if (strcmp(argv[2], "serve") == 0) {
        serve(argv[1], argv[3]);
        return 0;
    }
    done(fb_connect(argv[1], &client));
    done(fb_patience(client, 30));
    double **all[] = {&a, &b, &c, &d};
    for (int i = 0; i < 4; i++) *all[i] = aligned_alloc(64, sizeof *a * MOST * MOST);
    printf("{");
    for (n = LEAST; n <= MOST; n *= 2) {
        fill(a, 0.1);
        fill(b, -0.2);
        fill(c, 0.5);
        ra = hold(a, "multiply"), rb = hold(b, "multiply"), rc = hold(c, "multiply");
        la = hold(a, "libopenblas.so.0"), lb = hold(b, "libopenblas.so.0"), lc = hold(c, "libopenblas.so.0");
        checked();
        measure(atof(argv[2]));
        fb_ref *made[] = {ra, rb, rc, la, lb, lc};
        for (int i = 0; i < 6; i++) done(fb_ref_kill(made[i]));
    }
    printf("}\n");
    done(fb_disconnect(client));
    return 0;
}
