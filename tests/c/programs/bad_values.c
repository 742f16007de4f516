/* Values that cannot be, at every door for arrays, names and options: bad_values PLACE. */

#include "check.h"

#include <math.h>

static const int64_t four[9] = { 4, 1, 1, 1, 1, 1, 1, 1, 1 };
static double x[16];

/* What may be wrong about an array, and a word of what is said of it. */
struct wrong {
    const char *word;
    int dtype, ndim;
    const int64_t *shape;
};

static const int64_t negative[1] = { -4 }, endless[2] = { INT64_MAX, INT64_MAX }, large[1] = { INT64_MAX / 4 };
static const struct wrong wrongs[] = {
    { "rank 9", FB_F64, 9, four },       { "rank -1", FB_F64, -1, four },  { "NULL", FB_F64, 1, NULL },
    { "-4", FB_F64, 1, negative },       { "", FB_F64, 2, endless },       { "", FB_F64, 1, large },
    { "99 is no fb_dtype", 99, 1, four }, { "0 is no fb_dtype", 0, 1, four }, { "-7 is no fb_dtype", -7, 1, four },
};

#define EACH_WRONG(call)                                                 \
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; ++i) {        \
        const fb_dtype dtype = (fb_dtype)wrongs[i].dtype;                \
        const int ndim = wrongs[i].ndim;                                 \
        const int64_t *shape = wrongs[i].shape;                          \
        FAILS(FB_BAD_ARGUMENT, wrongs[i].word, call);                    \
    }

static void arrays(fb_run *run, fb_snapshot *snapshot, fb_client *client)
{
    fb_ref *reference = NULL;
    OK(fb_put(run, "x", 0, FB_DENSE(x, FB_F64, four[0])));
    EACH_WRONG(fb_put(run, "y", 0, &(fb_array){ dtype, ndim, shape, NULL, (void *)(x) }));
    EACH_WRONG(fb_put_if_version(run, "y", 0, &(fb_array){ dtype, ndim, shape, NULL, (void *)(x) }, 0, NULL, NULL));
    EACH_WRONG(fb_get(run, "x", 0, &(fb_array){ dtype, ndim, shape, NULL, (void *)(x) }));
    EACH_WRONG(fb_get_part(run, "x", 0, four, NULL, &(fb_array){ dtype, ndim, shape, NULL, (void *)(x) }));
    EACH_WRONG(fb_snapshot_put(snapshot, "y", &(fb_array){ dtype, ndim, shape, NULL, (void *)(x) }, NULL, NULL));
    EACH_WRONG(fb_snapshot_put(snapshot, "y", &(fb_array){ dtype, ndim, shape, NULL, (void *)(x) }, FB_APPEND, NULL));
    EACH_WRONG(fb_snapshot_allocate(snapshot, "y", &(fb_array){ dtype, ndim, shape, NULL, NULL }, NULL, NULL, NULL));
    EACH_WRONG(fb_ref_create(client, &(fb_array){ dtype, ndim, shape, NULL, x }, NULL, &reference));
    CHECK(reference == NULL);
    FAILS(FB_BAD_ARGUMENT, "array is NULL", fb_put(run, "y", 0, NULL));
    FAILS(FB_BAD_ARGUMENT, "array is NULL", fb_get(run, "x", 0, NULL));
    const int64_t apart[1] = { 16 }, nowhere[1] = { INT64_MIN }, still[1] = { 0 };
    fb_array strided = { .dtype = FB_F64, .ndim = 1, .shape = four, .strides = apart };
    FAILS(FB_BAD_ARGUMENT, "lie apart", fb_snapshot_allocate(snapshot, "y", &strided, NULL, NULL, NULL));
    strided.strides = nowhere;
    strided.data = x;
    FAILS(FB_BAD_ARGUMENT, "leaves the memory", fb_put(run, "y", 0, &strided));
    strided.strides = still;
    FAILS(FB_BAD_ARGUMENT, "share memory", fb_get(run, "x", 0, &strided));
    const int64_t two[2] = { 2, 2 }, close[2] = { 8, 8 }, halves[2] = { 16, 4 }, down[1] = { -8 };
    const fb_array crowded = { FB_F64, 2, two, close, x };
    OK(fb_put(run, "window", 0, &crowded));
    FAILS(FB_BAD_ARGUMENT, "strides of [8, 8] bytes elements of an array of shape (2, 2) share", fb_get(run, "window", 0, &crowded));
    const fb_array cut = { FB_F64, 2, two, halves, x };
    FAILS(FB_BAD_ARGUMENT, "share bytes; strides count bytes", fb_get(run, "window", 0, &cut));
    /* Strides of elements where those of bytes are wanted. */
    const int64_t counted[2] = { 2, 1 };
    const fb_array elements = { FB_F64, 2, two, counted, x };
    FAILS(FB_BAD_ARGUMENT, "share bytes; strides count bytes", fb_put(run, "y", 0, &elements));
    const fb_array nothing = { FB_F64, 1, four, down, NULL };
    FAILS(FB_BAD_ARGUMENT, "data is NULL", fb_put(run, "y", 0, &nothing));
    FAILS(FB_BAD_ARGUMENT, "data is NULL", fb_get(run, "x", 0, &nothing));
    FAILS(FB_BAD_ARGUMENT, "data is NULL", fb_put(run, "y", 0, FB_ONE(NULL, FB_F64)));
    FAILS(FB_BAD_ARGUMENT, "the shape is NULL", fb_put(run, "y", 0, &(fb_array){ FB_F64, 1, NULL, apart, x }));
    FAILS(FB_BAD_ARGUMENT, "NULL", fb_put(run, "y", 0, FB_DENSE(NULL, FB_F64, four[0])));
    const int64_t offset[1] = { -1 }, zero[1] = { 0 }, backwards[1] = { -1 };
    FAILS(FB_BAD_ARGUMENT, "-1", fb_get_part(run, "x", 0, offset, NULL, FB_DENSE(x, FB_F64, four[0])));
    FAILS(FB_BAD_ARGUMENT, "", fb_get_part(run, "x", 0, zero, zero, FB_DENSE(x, FB_F64, four[0])));
    FAILS(FB_BAD_ARGUMENT, "", fb_get_part(run, "x", 0, zero, backwards, FB_DENSE(x, FB_F64, four[0])));
    FAILS(FB_NOT_FOUND, "y", fb_get(run, "y", 0, FB_DENSE(x, FB_F64, four[0])));
}

/* What only a program in need of advice hears: the advice must be of use in C. */
static void advice(fb_run *run, fb_snapshot *snapshot)
{
    fb_run *none = NULL;
    fb_snapshot *another = NULL;
    fb_diagram *history = NULL;
    double many[2] = { 0, 1 };
    const int64_t endless[1] = { 1 << 27 };
    fb_array place = { .dtype = FB_F64, .ndim = 1, .shape = endless };
    CHECK(speaks_python("mode=\"a\"") && speaks_python("call run.close() again") && speaks_python("is None."));
    CHECK(!speaks_python("give rank and ranks (`docker run --shm-size=...`) of run.fb"));
    FAILS(FB_NOT_FOUND, "give the path", fb_run_open("nowhere", "r", NULL, &none));
    FAILS(FB_FULL, "larger buffer", fb_snapshot_allocate(snapshot, "large", &place, NULL, NULL, NULL));
    FAILS(FB_CONFLICT, "not ended", fb_snapshot_begin(run, 1, NAN, &another));
    const fb_diagram_opts kind = { .size = sizeof kind, .kind = "history" };
    OK(fb_diagram_open(run, "energies", &kind, &history));
    FAILS(FB_BAD_ARGUMENT, "append", fb_curve_update(history, NULL, 2, many, many));
    OK(fb_diagram_free(history));
    const fb_open_opts alone = { .size = sizeof alone, .rank = 1 };
    FAILS(FB_BAD_ARGUMENT, "rank 1 of 0", fb_run_open("nowhere", "w", &alone, &none));
    CHECK(none == NULL && another == NULL && place.data == NULL);
}

static void names(fb_run *run, fb_snapshot *snapshot)
{
    char endless_name[1000];
    memset(endless_name, 'n', sizeof endless_name);
    endless_name[sizeof endless_name - 1] = 0;
    const char *const bad[] = { "", endless_name, "a\xff\xfe", "/", "a//b" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        FAILS(FB_BAD_ARGUMENT, "", fb_put(run, bad[i], 0, FB_DENSE(x, FB_F64, four[0])));
        FAILS(FB_BAD_ARGUMENT, "", fb_snapshot_put(snapshot, bad[i], FB_DENSE(x, FB_F64, four[0]), NULL, NULL));
    }
    const fb_put_opts unit = { .size = sizeof unit, .units = endless_name };
    FAILS(FB_BAD_ARGUMENT, "unit", fb_put_with(run, "y", 0, FB_DENSE(x, FB_F64, four[0]), &unit));
    const fb_put_opts attrs = { .size = sizeof attrs, .attrs = "{ no JSON" };
    FAILS(FB_BAD_ARGUMENT, "no JSON", fb_put_with(run, "y", 0, FB_DENSE(x, FB_F64, four[0]), &attrs));
    fb_table *table = NULL;
    const fb_column columns[] = { { .name = "a", .dtype = FB_F64 }, { .name = "a", .dtype = FB_F64 } }, complex_ = { .name = "z", .dtype = FB_C128 };
    FAILS(FB_BAD_ARGUMENT, "a", fb_table_open(run, "t", columns, 2, NULL, &table));
    FAILS(FB_BAD_ARGUMENT, "c128", fb_table_open(run, "t", &complex_, 1, NULL, &table));
    fb_rows *rows = NULL;
    FAILS(FB_BAD_ARGUMENT, "", fb_sql(run, "select from where", NULL, 0, &rows));
}

static void options(fb_run *run)
{
    fb_run *none = NULL;
    const fb_open_opts forgotten = { .buffer = 1 << 20 };
    FAILS(FB_BAD_ARGUMENT, "sizeof(fb_open_opts)", fb_run_open("nowhere", "w", &forgotten, &none));
    const fb_open_opts huge = { .size = sizeof huge, .buffer = UINT64_MAX };
    FAILS(FB_BAD_ARGUMENT, "buffer", fb_run_open("nowhere", "w", &huge, &none));
    const fb_open_opts policy = { .size = sizeof policy, .full = "explode" };
    FAILS(FB_BAD_ARGUMENT, "explode", fb_run_open("nowhere", "w", &policy, &none));
    const fb_open_opts rank = { .size = sizeof rank, .rank = 3, .ranks = 2 };
    FAILS(FB_BAD_ARGUMENT, "rank 3", fb_run_open("nowhere", "w", &rank, &none));
    FAILS(FB_BAD_ARGUMENT, "rw", fb_run_open("nowhere", "rw", NULL, &none));
    fb_stats stats = { .size = 3 };
    FAILS(FB_BAD_ARGUMENT, "sizeof(fb_stats)", fb_run_stats(run, &stats));
    /* Of a caller built for an earlier version, what it does not know stays as it was. */
    struct {
        size_t size;
        double visible_s, beyond;
    } earlier = { 2 * sizeof(size_t), -1, -2 };
    OK(fb_run_stats(run, (fb_stats *)(void *)&earlier));
    CHECK(earlier.visible_s >= 0 && earlier.beyond == -2);
    fb_server *server = NULL;
    const fb_server_opts workers = { .size = sizeof workers, .workers = -1 };
    FAILS(FB_BAD_ARGUMENT, "-1", fb_server_create(&workers, &server));
    CHECK(none == NULL && server == NULL);
}

static void pointers(fb_run *run)
{
    /* Crooked, as casts make them. */
    char room[64];
    memset(room, 0, sizeof room);
    int64_t *crooked = (int64_t *)(void *)(room + 1);
    FAILS(FB_BAD_ARGUMENT, "aligned", fb_put(run, "y", 0, &(fb_array){ FB_F64, 1, crooked, NULL, x }));
    FAILS(FB_BAD_ARGUMENT, "aligned", fb_rank(run, (int32_t *)(void *)(room + 1), NULL));
    /* The elements of an array may lie anywhere. */
    memcpy(room + 1, x, 32);
    OK(fb_put(run, "crooked", 0, FB_DENSE(room + 1, FB_F64, four[0])));
    OK(fb_get(run, "crooked", 0, FB_DENSE(room + 3, FB_F64, four[0])));
    CHECK(memcmp(room + 3, x, 32) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    for (int i = 0; i < 16; ++i) x[i] = i;
    fb_run *run = NULL;
    fb_snapshot *snapshot = NULL;
    fb_client *client = NULL;
    const fb_open_opts opts = { .size = sizeof opts, .buffer = 4 << 20 };
    OK(fb_run_open(argv[1], "w", &opts, &run));
    OK(fb_snapshot_begin(run, 0, NAN, &snapshot));
    OK(fb_connect(NULL, &client));
    arrays(run, snapshot, client);
    names(run, snapshot);
    options(run);
    pointers(run);
    advice(run, snapshot);
    FAILS(FB_BAD_ARGUMENT, "not a number", fb_snapshot_wait(snapshot, NAN));
    OK(fb_snapshot_put(snapshot, "x", FB_DENSE(x, FB_F64, four[0]), NULL, NULL));
    OK(fb_snapshot_end(snapshot));
    FAILS(FB_CONFLICT, "already", fb_snapshot_begin(run, 0, NAN, &snapshot));
    OK(fb_disconnect(client));
    OK(fb_snapshot_begin(run, 5, NAN, &snapshot));
    OK(fb_snapshot_put(snapshot, "x", FB_DENSE(x, FB_F64, four[0]), NULL, NULL));
    FAILS(FB_CONFLICT, "snapshot 5 was not ended and is not in the run", fb_run_close(run));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
