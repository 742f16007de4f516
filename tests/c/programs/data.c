/* Data sets and their descriptors: data PLACE. */

#include "check.h"

#include <math.h>

static void every_type(fb_run *run)
{
    unsigned char sent[16 * 6], got[16 * 6];
    const int64_t shape[2] = { 2, 3 };
    int64_t size, known = 0;
    for (int code = 1; (size = fb_dtype_size((fb_dtype)code)) > 0; ++code) {
        const fb_dtype type = (fb_dtype)code;
        if (type == FB_STR || type == FB_BYTES) continue; /* texts, below */
        char name[32];
        snprintf(name, sizeof name, "types/%d", code);
        for (int b = 0; b < (int)sizeof sent; ++b) sent[b] = (unsigned char)(type == FB_BOOL ? b % 2 : b + code);
        memset(got, 0xee, sizeof got);
        OK(fb_put(run, name, 0, FB_DENSE(sent, type, shape[0], shape[1])));
        OK(fb_get(run, name, 0, FB_DENSE(got, type, shape[0], shape[1])));
        CHECK(memcmp(sent, got, 6 * (size_t)size) == 0);
        CHECK(6 * (size_t)size == sizeof got || got[6 * size] == 0xee);
        ++known;
    }
    CHECK(known >= 14 && fb_dtype_size(FB_C128) == 16 && fb_dtype_size(FB_F16) == 2);
    int64_t deleted = 0;
    OK(fb_delete(run, "types/*", FB_ALL_SETS, &deleted));
    CHECK(deleted == known);
}

static void arrays_and_parts(fb_run *run)
{
    double field[4][5], part[2][2], column[5][4];
    for (int i = 0; i < 20; ++i) (&field[0][0])[i] = i;
    const int64_t shape[2] = { 4, 5 };
    const fb_put_opts opts = { .size = sizeof opts, .units = "V/m", .attrs = "{\"solver\": \"spectral\", \"order\": 4}" };
    OK(fb_put_with(run, "E", 7, FB_DENSE(field, FB_F64, shape[0], shape[1]), &opts));

    fb_info info;
    OK(fb_dataset_info(run, "E", 7, &info));
    CHECK(strcmp(info.name, "E") == 0 && strcmp(info.units, "V/m") == 0);
    CHECK(info.dtype == FB_F64 && info.order == FB_ROW_MAJOR && info.set == 7 && info.version == 1);
    CHECK(info.ndim == 2 && info.shape[0] == 4 && info.shape[1] == 5 && info.nbytes == 160);

    const int64_t offset[2] = { 1, 0 }, count[2] = { 2, 2 }, step[2] = { 2, 3 };
    OK(fb_get_part(run, "E", 7, offset, step, FB_DENSE(part, FB_F64, count[0], count[1])));
    CHECK(part[0][0] == 5 && part[0][1] == 8 && part[1][0] == 15 && part[1][1] == 18);
    OK(fb_get_part(run, "E", 7, offset, NULL, FB_DENSE_F(part, FB_F64, count[0], count[1])));
    CHECK(part[0][0] == 5 && part[0][1] == 10 && part[1][0] == 6 && part[1][1] == 11);

    /* The array of Fortran with the same elements. */
    for (int j = 0; j < 5; ++j)
        for (int i = 0; i < 4; ++i) column[j][i] = field[i][j];
    OK(fb_put(run, "F", 0, FB_DENSE_F(column, FB_F64, shape[0], shape[1])));
    OK(fb_dataset_info(run, "F", 0, &info));
    CHECK(info.order == FB_COLUMN_MAJOR && info.shape[0] == 4 && info.shape[1] == 5);
    double back[4][5] = { { 0 } };
    OK(fb_get(run, "F", 0, FB_DENSE(back, FB_F64, shape[0], shape[1])));
    CHECK(memcmp(back, field, sizeof back) == 0);

    FAILS(FB_BAD_ARGUMENT, "f64", fb_get(run, "E", 7, FB_DENSE(back, FB_F32, shape[0], shape[1])));
    const int64_t other[2] = { 5, 4 };
    FAILS(FB_BAD_ARGUMENT, "4", fb_get(run, "E", 7, FB_DENSE(back, FB_F64, other[0], other[1])));
    FAILS(FB_NOT_FOUND, "nowhere", fb_get(run, "nowhere", 0, FB_DENSE(back, FB_F64, shape[0], shape[1])));
    const int64_t beyond[2] = { 3, 0 };
    FAILS(FB_BAD_ARGUMENT, "", fb_get_part(run, "E", 7, beyond, step, FB_DENSE(part, FB_F64, count[0], count[1])));
}

/* Memory over the file of a data set. */
static void mapped(fb_run *run, int is_far)
{
    enum { N = 40000 };
    static double much[N], less[N];
    fb_array map = { .ndim = 0 };
    for (int i = 0; i < N; ++i) much[i] = i;
    OK(fb_put(run, "much", 0, FB_DENSE(much, FB_F64, N)));
    if (is_far) {
        FAILS(FB_BAD_ARGUMENT, "another host", fb_map(run, "much", 0, FB_F64, &map));
        return;
    }
    OK(fb_map(run, "much", 0, FB_F64, &map));
    CHECK(map.dtype == FB_F64 && map.ndim == 1 && map.shape[0] == N && map.strides == NULL);
    OK(fb_put(run, "much", 0, FB_DENSE(less, FB_F64, N)));
    OK(fb_flush(run));
    CHECK(memcmp(map.data, much, sizeof much) == 0); /* it stays what it was */
    OK(fb_free(map.data));
    FAILS(FB_BAD_ARGUMENT, "freed before", fb_free(map.data));

    OK(fb_map(run, "F", 0, FB_F64, &map));
    CHECK(map.ndim == 2 && map.shape[0] == 4 && map.shape[1] == 5 && map.strides[0] == 8 && map.strides[1] == 32);
    CHECK(((double *)map.data)[4 * 3 + 2] == 5 * 2 + 3);
    OK(fb_free(map.data));
    FAILS(FB_BAD_ARGUMENT, "f64", fb_map(run, "F", 0, FB_F32, &map));
    FAILS(FB_NOT_FOUND, "nowhere", fb_map(run, "nowhere", 0, FB_F64, &map));
}

/* Elements that lie apart: the interior of a field with ghost cells, backwards, every other one, in both orders. */
static void strides(fb_run *run)
{
    double ghosts[6][7], back[6][7], whole[4][5];
    for (int i = 0; i < 42; ++i) (&ghosts[0][0])[i] = i, (&back[0][0])[i] = -1;
    const int64_t inner[2] = { 4, 5 }, lines[2] = { sizeof *ghosts, sizeof **ghosts };
    const fb_array interior = { FB_F64, 2, inner, lines, &ghosts[1][1] }, there = { FB_F64, 2, inner, lines, &back[1][1] };
    OK(fb_put(run, "interior", 0, &interior));
    OK(fb_get(run, "interior", 0, FB_DENSE(whole, FB_F64, 4, 5)));
    CHECK(whole[0][0] == 8 && whole[0][4] == 12 && whole[3][4] == 33);
    OK(fb_get(run, "interior", 0, &there));
    for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 7; ++j) {
            int is_inner = i > 0 && i < 5 && j > 0 && j < 6;
            CHECK(back[i][j] == (is_inner ? ghosts[i][j] : -1));
        }
    fb_info info;
    OK(fb_dataset_info(run, "interior", 0, &info));
    CHECK(info.order == FB_ROW_MAJOR);

    /* The same memory with its axes the other way round lies as arrays of Fortran do, and is kept so. */
    const int64_t turned[2] = { 5, 4 }, columns[2] = { sizeof **ghosts, sizeof *ghosts };
    const fb_array fortran = { FB_F64, 2, turned, columns, &ghosts[1][1] };
    OK(fb_put(run, "turned", 0, &fortran));
    OK(fb_dataset_info(run, "turned", 0, &info));
    CHECK(info.order == FB_COLUMN_MAJOR && info.shape[0] == 5 && info.shape[1] == 4);
    double other[5][4];
    OK(fb_get(run, "turned", 0, FB_DENSE(other, FB_F64, 5, 4)));
    for (int i = 0; i < 5; ++i)
        for (int j = 0; j < 4; ++j) CHECK(other[i][j] == whole[j][i]);

    const int64_t three[1] = { 3 }, backwards[1] = { -2 * (int64_t)sizeof **ghosts };
    const fb_array odd = { FB_F64, 1, three, backwards, &ghosts[0][5] };
    double got[3];
    OK(fb_put(run, "odd", 0, &odd));
    OK(fb_get(run, "odd", 0, FB_DENSE(got, FB_F64, 3)));
    CHECK(got[0] == 5 && got[1] == 3 && got[2] == 1);
    const int64_t offset[2] = { 1, 0 }, step[2] = { 2, 3 }, two[2] = { 2, 2 };
    const fb_array part = { FB_F64, 2, two, lines, &back[0][0] };
    OK(fb_get_part(run, "interior", 0, offset, step, &part));
    CHECK(back[0][0] == whole[1][0] && back[0][1] == whole[1][3] && back[1][0] == whole[3][0] && back[1][1] == whole[3][3]);
    CHECK(back[0][2] == -1 && back[2][0] == -1);
    int64_t deleted = 0;
    OK(fb_delete(run, "interior", 0, &deleted));
    OK(fb_delete(run, "turned", 0, &deleted));
    OK(fb_delete(run, "odd", 0, &deleted));
}

static void text_scalars_and_nothing(fb_run *run)
{
    const char words[] = "two streams of electrons";
    char read[sizeof words] = "";
    const int64_t length = sizeof words - 1, none = 0;
    OK(fb_put(run, "title", 0, FB_DENSE(words, FB_STR, length)));
    OK(fb_get(run, "title", 0, FB_DENSE(read, FB_STR, length)));
    CHECK(strcmp(read, words) == 0);
    double scalar = 2.5, again = 0;
    OK(fb_put(run, "dt", 0, FB_ONE(&scalar, FB_F64)));
    OK(fb_get(run, "dt", 0, FB_ONE(&again, FB_F64)));
    CHECK(again == 2.5);
    OK(fb_put(run, "nothing", 0, FB_DENSE(NULL, FB_F32, none)));
    OK(fb_get(run, "nothing", 0, FB_DENSE(NULL, FB_F32, none)));
}

static void versions_and_names(fb_run *run)
{
    const int64_t one = 1;
    int32_t value = 1;
    uint64_t version = 0;
    OK(fb_put_if_version(run, "v", 0, FB_DENSE(&value, FB_I32, one), 0, NULL, &version));
    CHECK(version == 1);
    FAILS(FB_CONFLICT, "v", fb_put_if_version(run, "v", 0, FB_DENSE(&value, FB_I32, one), 0, NULL, NULL));
    value = 2;
    OK(fb_put_if_version(run, "v", 0, FB_DENSE(&value, FB_I32, one), 1, NULL, &version));
    CHECK(version == 2);
    OK(fb_put(run, "v", 3, FB_DENSE(&value, FB_I32, one)));

    fb_info *infos = NULL;
    int64_t count = -1;
    OK(fb_list(run, "v", FB_ALL_SETS, &infos, &count));
    CHECK(count == 2 && infos[0].set == 0 && infos[1].set == 3 && infos[0].version == 2);
    OK(fb_free(infos));
    OK(fb_copy(run, "v", "w", &count));
    CHECK(count == 2);
    OK(fb_rename(run, "w", "x", &count));
    CHECK(count == 2);
    OK(fb_list(run, "[wx]", 3, &infos, &count));
    CHECK(count == 1 && strcmp(infos[0].name, "x") == 0);
    OK(fb_free(infos));
    OK(fb_list(run, "nobody*", FB_ALL_SETS, &infos, &count));
    CHECK(count == 0 && infos == NULL);
    OK(fb_delete(run, "x", 3, NULL));
    FAILS(FB_NOT_FOUND, "x", fb_get(run, "x", 3, FB_DENSE(&value, FB_I32, one)));
}

static void attributes(fb_run *run)
{
    double real = 0;
    int64_t whole = 0;
    int has = -1;
    char *text = NULL;
    OK(fb_attr_set_f64(fb_of_run(run), "dt", 0.25));
    OK(fb_attr_set_i64(fb_of_dataset(run, "E", 7), "order", 6));
    OK(fb_attr_set_str(fb_of_dataset(run, "E", 7), "author", "Birdsall"));
    OK(fb_attr_set_f64(fb_of_run(run), "blown up", NAN));
    OK(fb_attr_get_f64(fb_of_run(run), "blown up", &real));
    CHECK(isnan(real));
    OK(fb_attr_set_f64(fb_of_run(run), "blown up", -INFINITY));
    OK(fb_attr_get_f64(fb_of_run(run), "blown up", &real));
    CHECK(isinf(real) && real < 0);
    OK(fb_attr_delete(fb_of_run(run), "blown up"));
    FAILS(FB_BAD_ARGUMENT, "18446744073709551616", fb_attr_set_json(fb_of_run(run), "{\"n\": 18446744073709551616}"));
    OK(fb_attr_set_json(fb_of_run(run), "{\"box\": [1, 2.5], \"dt\": 0.5}"));
    OK(fb_attr_get_f64(fb_of_run(run), "dt", &real));
    OK(fb_attr_get_i64(fb_of_dataset(run, "E", 7), "order", &whole));
    CHECK(real == 0.5 && whole == 6);
    OK(fb_attr_get_str(fb_of_dataset(run, "E", 7), "solver", &text));
    CHECK(strcmp(text, "spectral") == 0);
    OK(fb_free(text));
    OK(fb_attr_get_json(fb_of_dataset(run, "E", 7), &text));
    CHECK(strstr(text, "\"author\":\"Birdsall\"") != NULL);
    OK(fb_free(text));
    OK(fb_attr_has(fb_of_dataset(run, "E", 7), "author", &has));
    CHECK(has == 1);
    OK(fb_attr_delete(fb_of_dataset(run, "E", 7), "author"));
    OK(fb_attr_delete(fb_of_dataset(run, "E", 7), "author"));
    OK(fb_attr_has(fb_of_dataset(run, "E", 7), "author", &has));
    CHECK(has == 0);
    FAILS(FB_NOT_FOUND, "author", fb_attr_get_str(fb_of_dataset(run, "E", 7), "author", &text));
    FAILS(FB_BAD_ARGUMENT, "solver", fb_attr_get_f64(fb_of_dataset(run, "E", 7), "solver", &real));
    FAILS(FB_BAD_ARGUMENT, "JSON", fb_attr_set_json(fb_of_run(run), "[1, 2]"));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    CHECK(strcmp(fb_version(), FB_VERSION) == 0);
    CHECK(strcmp(fb_status_name(FB_NOT_FOUND), "NotFound") == 0 && fb_status_name((fb_status)999) == NULL);
    CHECK(strlen(fb_status_remedy(FB_FULL)) > 10 && fb_status_remedy((fb_status)999) == NULL);
    fb_run *run = NULL;
    FAILS(FB_NOT_FOUND, argv[1], fb_run_open(argv[1], "r", NULL, &run));
    CHECK(run == NULL);
    const fb_open_opts opts = { .size = sizeof opts, .buffer = 8 << 20, .program = "data" };
    OK(fb_run_open(argv[1], "x", &opts, &run));
    fb_run *twice = NULL;
    FAILS(FB_CONFLICT, "this process has", fb_run_open(argv[1], "a", &opts, &twice));
    every_type(run);
    arrays_and_parts(run);
    mapped(run, strncmp(argv[1], "fb://", 5) == 0);
    strides(run);
    text_scalars_and_nothing(run);
    versions_and_names(run);
    attributes(run);

    int32_t rank = -1, ranks = -1;
    int read_only = -1;
    char *path = NULL;
    fb_stats stats = { .size = sizeof stats };
    OK(fb_rank(run, &rank, &ranks));
    OK(fb_is_read_only(run, &read_only));
    OK(fb_path(run, &path));
    CHECK(rank == 0 && ranks == 1 && read_only == 0 && (path[0] == '/' || strncmp(path, "fb://", 5) == 0));
    OK(fb_flush(run));
    OK(fb_run_stats(run, &stats));
    CHECK(stats.put_bytes > 0 && stats.buffer_bytes >= 8 << 20 && stats.durable_step == -1);
    OK(fb_run_close(run));
    FAILS(FB_CLOSED, "closed", fb_flush(run));

    /* Another handle reads what is on the disk, and nothing more. */
    double dt = 0;
    OK(fb_run_open(path, "r", NULL, &run));
    OK(fb_is_read_only(run, &read_only));
    OK(fb_get(run, "dt", 0, FB_ONE(&dt, FB_F64)));
    CHECK(read_only == 1 && dt == 2.5);
    FAILS(FB_READ_ONLY, "", fb_put(run, "dt", 0, FB_ONE(&dt, FB_F64)));
    OK(fb_run_close(run));
    OK(fb_free(path));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
