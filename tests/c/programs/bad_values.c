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
    void *place = NULL;
    OK(fb_put(run, "x", 0, FB_F64, 1, four, x));
    EACH_WRONG(fb_put(run, "y", 0, dtype, ndim, shape, x));
    EACH_WRONG(fb_put_if_version(run, "y", 0, dtype, ndim, shape, x, 0, NULL, NULL));
    EACH_WRONG(fb_get(run, "x", 0, dtype, ndim, shape, x));
    EACH_WRONG(fb_get_part(run, "x", 0, dtype, FB_ROW_MAJOR, ndim, four, shape, NULL, x));
    EACH_WRONG(fb_snapshot_put(snapshot, "y", dtype, ndim, shape, NULL, NULL, x));
    EACH_WRONG(fb_snapshot_put(snapshot, "y", dtype, ndim, shape, FB_APPEND, NULL, x));
    EACH_WRONG(fb_snapshot_allocate(snapshot, "y", dtype, ndim, shape, NULL, NULL, NULL, &place));
    EACH_WRONG(fb_ref_create(client, dtype, ndim, shape, x, NULL, &reference));
    CHECK(reference == NULL && place == NULL);
    FAILS(FB_BAD_ARGUMENT, "NULL", fb_put(run, "y", 0, FB_F64, 1, four, NULL));
    const fb_put_opts order = { .size = sizeof order, .order = (fb_order)5 };
    FAILS(FB_BAD_ARGUMENT, "5 is no order", fb_put_with(run, "y", 0, FB_F64, 1, four, x, &order));
    const int64_t offset[1] = { -1 }, zero[1] = { 0 }, backwards[1] = { -1 };
    FAILS(FB_BAD_ARGUMENT, "-1", fb_get_part(run, "x", 0, FB_F64, FB_ROW_MAJOR, 1, offset, four, NULL, x));
    FAILS(FB_BAD_ARGUMENT, "", fb_get_part(run, "x", 0, FB_F64, FB_ROW_MAJOR, 1, zero, four, zero, x));
    FAILS(FB_BAD_ARGUMENT, "", fb_get_part(run, "x", 0, FB_F64, FB_ROW_MAJOR, 1, zero, four, backwards, x));
    FAILS(FB_NOT_FOUND, "y", fb_get(run, "y", 0, FB_F64, 1, four, x));
}

/* What only a program in need of advice hears: the advice must be of use in C. */
static void advice(fb_run *run, fb_snapshot *snapshot)
{
    fb_run *none = NULL;
    fb_snapshot *another = NULL;
    fb_diagram *history = NULL;
    void *place = NULL;
    double many[2] = { 0, 1 };
    const int64_t endless[1] = { 1 << 27 };
    CHECK(speaks_python("mode=\"a\"") && speaks_python("call run.close() again") && speaks_python("is None."));
    CHECK(!speaks_python("give rank and ranks (`docker run --shm-size=...`) of run.fb"));
    FAILS(FB_NOT_FOUND, "give the path", fb_run_open("nowhere", "r", NULL, &none));
    FAILS(FB_FULL, "larger buffer", fb_snapshot_allocate(snapshot, "large", FB_F64, 1, endless, NULL, NULL, NULL, &place));
    FAILS(FB_CONFLICT, "not ended", fb_snapshot_begin(run, 1, NAN, &another));
    const fb_diagram_opts kind = { .size = sizeof kind, .kind = "history" };
    OK(fb_diagram_open(run, "energies", &kind, &history));
    FAILS(FB_BAD_ARGUMENT, "append", fb_curve_update(history, NULL, 2, many, many));
    OK(fb_diagram_free(history));
    const fb_open_opts alone = { .size = sizeof alone, .rank = 1 };
    FAILS(FB_BAD_ARGUMENT, "rank 1 of 0", fb_run_open("nowhere", "w", &alone, &none));
    CHECK(none == NULL && another == NULL && place == NULL);
}

static void names(fb_run *run, fb_snapshot *snapshot)
{
    char endless_name[1000];
    memset(endless_name, 'n', sizeof endless_name);
    endless_name[sizeof endless_name - 1] = 0;
    const char *const bad[] = { "", endless_name, "a\xff\xfe", "/", "a//b" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        FAILS(FB_BAD_ARGUMENT, "", fb_put(run, bad[i], 0, FB_F64, 1, four, x));
        FAILS(FB_BAD_ARGUMENT, "", fb_snapshot_put(snapshot, bad[i], FB_F64, 1, four, NULL, NULL, x));
    }
    const fb_put_opts unit = { .size = sizeof unit, .units = endless_name };
    FAILS(FB_BAD_ARGUMENT, "unit", fb_put_with(run, "y", 0, FB_F64, 1, four, x, &unit));
    const fb_put_opts attrs = { .size = sizeof attrs, .attrs = "{ no JSON" };
    FAILS(FB_BAD_ARGUMENT, "no JSON", fb_put_with(run, "y", 0, FB_F64, 1, four, x, &attrs));
    fb_table *table = NULL;
    const fb_column columns[] = { { "a", FB_F64, NULL }, { "a", FB_F64, NULL } }, complex_ = { "z", FB_C128, NULL };
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
    FAILS(FB_BAD_ARGUMENT, "aligned", fb_put(run, "y", 0, FB_F64, 1, crooked, x));
    FAILS(FB_BAD_ARGUMENT, "aligned", fb_rank(run, (int32_t *)(void *)(room + 1), NULL));
    /* The elements of an array may lie anywhere. */
    memcpy(room + 1, x, 32);
    OK(fb_put(run, "crooked", 0, FB_F64, 1, four, room + 1));
    OK(fb_get(run, "crooked", 0, FB_F64, 1, four, room + 3));
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
    OK(fb_snapshot_put(snapshot, "x", FB_F64, 1, four, NULL, NULL, x));
    OK(fb_snapshot_end(snapshot));
    FAILS(FB_CONFLICT, "already", fb_snapshot_begin(run, 0, NAN, &snapshot));
    OK(fb_disconnect(client));
    OK(fb_run_close(run));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
