/* Arrays of a snapshot that say what they are, and attributes of everything that has some: described PLACE. */

#include "check.h"

#include <math.h>

enum { NX = 6, NY = 3 };

static double T[NX][NY], x[NX], y[NY];
static char large[(64 << 10) + 1];
static float u[NX][NY];
static const char kinds[NY][8] = { "ion", "electron", "probe" };

static void take(fb_run *run)
{
    const char *const xy[] = { "x", "y" }, *const xk[] = { "x", "kind" };
    const fb_coord along_xy[] = { { "x", FB_DENSE(x, FB_F64, NX), "m" }, { "y", FB_DENSE(y, FB_F64, NY), NULL } };
    const fb_coord along_kind[] = { { "x", FB_DENSE(x, FB_F64, NX), "m" }, { "kind", FB_DENSE(kinds, FB_STR, NY, 8), NULL } };
    const fb_piece_opts of_t = { .size = sizeof of_t, .units = "K", .dims = xy, .ndims = 2, .coords = along_xy, .ncoords = 2,
                                 .attrs = "{\"long_name\": \"temperature\", \"none\": null, \"gone\": 1}" };
    const fb_piece_opts of_u = { .size = sizeof of_u, .dims = xk, .ndims = 2, .coords = along_kind, .ncoords = 2,
                                 .attrs = "{\"_FillValue\": -1}" };
    const double sigma = 0.5;
    const int32_t n = 3;
    const float box[] = { 1, 2.5f };
    const char walls[2][3] = { "in", "out" };
    static double steps[20000];
    for (int i = 0; i < 20000; ++i) steps[i] = i / 100;
    fb_snapshot *s = NULL;
    OK(fb_snapshot_begin(run, 1, 0.5, &s));
    FAILS(FB_NOT_FOUND, "put it first", fb_attr_set_f64(fb_of_array(s, "T"), "sigma", sigma));
    OK(fb_snapshot_put_with(s, "T", FB_DENSE(T, FB_F64, NX, NY), NULL, NULL, &of_t));
    OK(fb_snapshot_put_with(s, "u", FB_DENSE(u, FB_F32, NX, NY), NULL, NULL, &of_u));
    const int64_t first[] = { 0, 0 }, global[] = { NX, NY };
    const fb_piece_opts shared = { .size = sizeof shared, .overlap = "equal" }, wrong = { .size = sizeof wrong, .overlap = "mean" };
    const fb_piece_opts packed = { .size = sizeof packed, .compress = "gzip" }, zip = { .size = sizeof zip, .compress = "zip" };
    OK(fb_snapshot_put_with(s, "small", FB_DENSE(steps, FB_F64, 20000), NULL, NULL, &packed));
    const fb_piece_opts plain = { .size = sizeof plain, .compress = "none" };
    OK(fb_snapshot_put_with(s, "plain", FB_DENSE(steps, FB_F64, 20000), NULL, NULL, &plain));
    OK(fb_snapshot_put(s, "opened", FB_DENSE(steps, FB_F64, 20000), NULL, NULL));
    FAILS(FB_BAD_ARGUMENT, "\"zip\"", fb_snapshot_put_with(s, "v", FB_DENSE(T, FB_F64, NX, NY), NULL, NULL, &zip));
    OK(fb_snapshot_put_with(s, "nodes", FB_DENSE(T, FB_F64, NX, NY), first, global, &shared));
    FAILS(FB_BAD_ARGUMENT, "\"mean\"", fb_snapshot_put_with(s, "v", FB_DENSE(T, FB_F64, NX, NY), first, global, &wrong));
    FAILS(FB_BAD_ARGUMENT, "offset and global", fb_snapshot_put_with(s, "v", FB_DENSE(T, FB_F64, NX, NY), NULL, NULL, &shared));
    /* Strides written out: those of one element are right for both orders. */
    const int64_t row[2] = { 1, 4 }, one[2] = { 1, 1 }, rest[2] = { 1, 3 }, begin[2] = { 0, 0 }, then[2] = { 0, 1 };
    const fb_array cell = { FB_F64, 2, one, (const int64_t[]){ 8, 8 }, T }, behind = { FB_F64, 2, rest, (const int64_t[]){ 24, 8 }, T };
    OK(fb_snapshot_put(s, "row", &cell, begin, row));
    OK(fb_snapshot_put(s, "row", &behind, then, row));
    fb_array place = { .dtype = FB_F64, .ndim = 2, .shape = (const int64_t[]){ NX, NY } };
    OK(fb_snapshot_allocate(s, "p", &place, NULL, NULL, &of_t));
    memcpy(place.data, T, sizeof T);
    OK(fb_attr_put(fb_of_array(s, "T"), "sigma", FB_ONE(&sigma, FB_F64)));
    OK(fb_attr_put(fb_of_array(s, "T"), "n", FB_ONE(&n, FB_I32)));
    OK(fb_attr_put(fb_of_array(s, "T"), "box", FB_DENSE(box, FB_F32, 2)));
    OK(fb_attr_put(fb_of_array(s, "T"), "walls", FB_DENSE(walls, FB_STR, 2, 3)));
    OK(fb_attr_delete(fb_of_array(s, "T"), "gone"));
    OK(fb_attr_set_str(fb_of_array(s, "x"), "axis", "X"));
    /* In two blocks, which say the same; what is set between them stays. */
    const int64_t whole[2] = { NX, NY }, lower[2] = { 0, 0 }, upper[2] = { NX / 2, 0 };
    OK(fb_snapshot_put_with(s, "blocks", FB_DENSE(T, FB_F64, NX / 2, NY), lower, whole, &of_t));
    OK(fb_attr_set_f64(fb_of_array(s, "blocks"), "sigma", sigma));
    OK(fb_snapshot_put_with(s, "blocks", FB_DENSE(T[NX / 2], FB_F64, NX / 2, NY), upper, whole, &of_t));
    /* The unit may stand where xarray has it. */
    OK(fb_snapshot_put_with(s, "kelvin", FB_ONE(&sigma, FB_F64), NULL, NULL,
                            &(fb_piece_opts){ .size = sizeof(fb_piece_opts), .attrs = "{\"units\": \"K\"}" }));
    FAILS(FB_BAD_ARGUMENT, "units", fb_attr_set_str(fb_of_array(s, "T"), "units", "K"));
    FAILS(FB_BAD_ARGUMENT, "no value of the dtype f32", fb_attr_set_f64(fb_of_array(s, "u"), "_FillValue", 0.1));
    FAILS(FB_BAD_ARGUMENT, "fb_snapshot_at", fb_attr_has(fb_of_array(s, "T"), "sigma", &(int){ 0 }));
    OK(fb_snapshot_end(s));
    OK(fb_snapshot_wait(s, 60));
    FAILS(FB_CLOSED, "too late", fb_attr_set_f64(fb_of_array(s, "T"), "sigma", sigma));
    OK(fb_snapshot_free(s));
}

/* What is refused, each with the rest as it was. */
static void refuse(fb_run *run)
{
    const char *const xy[] = { "x", "y" }, *const one[] = { "x" }, *const same[] = { "x", "x" };
    const fb_coord short_x[] = { { "x", FB_DENSE(x, FB_F64, NX - 1), NULL } }, other[] = { { "z", FB_DENSE(x, FB_F64, NX), NULL } };
    const fb_coord none[] = { { "x", NULL, NULL } }, first[] = { { "x", FB_DENSE(x, FB_F64, NX), NULL } };
    const struct {
        fb_piece_opts opts;
        const char *says;
    } bad[] = {
        { { .dims = one, .ndims = 1 }, "the array has 2" },
        { { .dims = same, .ndims = 2 }, "two axes" },
        { { .dims = xy }, "ndims is 0" },
        { { .dims = (const char *[]){ "x", NULL }, .ndims = 2 }, "dims[1] is NULL" },
        { { .coords = first, .ncoords = 1 }, "without dims" },
        { { .dims = xy, .ndims = 2, .coords = first }, "ncoords is 0" },
        { { .dims = xy, .ndims = 2, .coords = other, .ncoords = 1 }, "no such axis" },
        { { .dims = xy, .ndims = 2, .coords = short_x, .ncoords = 1 }, "5 elements, and the axis has 6" },
        { { .dims = xy, .ndims = 2, .coords = none, .ncoords = 1 }, "the coordinate \"x\"" },
        { { .dims = xy, .ndims = 2, .coords = first, .ncoords = -1 }, "-1" },
        { { .units = "m", .attrs = "{\"units\": \"K\"}" }, "say it once" },
        { { .attrs = "{\"units\": 1}" }, "as a text" },
        { { .attrs = "[1]" }, "JSON object" },
        { { .attrs = "{\"DIMENSION_LIST\": 1}" }, "DIMENSION_LIST" },
    };
    fb_snapshot *s = NULL;
    OK(fb_snapshot_begin(run, 2, NAN, &s));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
        fb_piece_opts opts = bad[i].opts;
        opts.size = sizeof opts;
        FAILS(FB_BAD_ARGUMENT, bad[i].says, fb_snapshot_put_with(s, "T", FB_DENSE(T, FB_F64, NX, NY), NULL, NULL, &opts));
    }
    const fb_coord of_it[] = { { "x", FB_DENSE(&T[0][0], FB_F64, NX), NULL } };
    const fb_piece_opts opts = { .size = sizeof opts, .dims = xy, .ndims = 2, .coords = first, .ncoords = 1 };
    const fb_piece_opts differs = { .size = sizeof differs, .dims = xy, .ndims = 2, .coords = of_it, .ncoords = 1 };
    OK(fb_snapshot_put_with(s, "T", FB_DENSE(T, FB_F64, NX, NY), NULL, NULL, &opts));
    FAILS(FB_CONFLICT, "\"T\"", fb_snapshot_put_with(s, "p", FB_DENSE(T, FB_F64, NX, NY), NULL, NULL, &differs));
    OK(fb_snapshot_discard(s));
    OK(fb_snapshot_free(s));
}

static void look_at(fb_run *run)
{
    fb_snapshot *s = NULL;
    char **names = NULL, *text = NULL;
    int64_t count = 0, whole = 0;
    double real = 0, back[NX];
    float box[2];
    char walls[2][4];
    int has = -1;
    fb_info info;
    OK(fb_snapshot_at(run, 1, &s));
    fb_array_stats counted = { .size = sizeof counted };
    OK(fb_snapshot_stats(s, "small", &counted));
    CHECK(counted.min == 0 && counted.max == 199 && counted.mean == 99.5 && counted.nans == 0);
    OK(fb_snapshot_dims(s, "T", &names, &count));
    CHECK(count == 2 && strcmp(names[0], "x") == 0 && strcmp(names[1], "y") == 0);
    OK(fb_free(names));
    OK(fb_snapshot_coords(s, "u", &names, &count));
    CHECK(count == 2 && strcmp(names[0], "x") == 0 && strcmp(names[1], "kind") == 0);
    OK(fb_snapshot_get(s, names[0], FB_DENSE(back, FB_F64, NX)));
    CHECK(memcmp(back, x, sizeof x) == 0);
    OK(fb_free(names));
    OK(fb_snapshot_dims(s, "x", &names, &count));
    CHECK(count == 0 && names == NULL);
    FAILS(FB_NOT_FOUND, "none", fb_snapshot_dims(s, "none", &names, &count));
    OK(fb_snapshot_info(s, "kelvin", &info));
    CHECK(strcmp(info.units, "K") == 0);
    OK(fb_attr_get_f64(fb_of_array(s, "T"), "sigma", &real));
    OK(fb_attr_get_i64(fb_of_array(s, "T"), "n", &whole));
    OK(fb_attr_get_str(fb_of_array(s, "T"), "long_name", &text));
    CHECK(real == 0.5 && whole == 3 && strcmp(text, "temperature") == 0);
    OK(fb_free(text));
    OK(fb_attr_info(fb_of_array(s, "T"), "box", &info));
    CHECK(info.dtype == FB_F32 && info.ndim == 1 && info.shape[0] == 2 && strcmp(info.name, "box") == 0);
    OK(fb_attr_get(fb_of_array(s, "T"), "box", FB_DENSE(box, FB_F32, 2)));
    OK(fb_attr_get(fb_of_array(s, "T"), "walls", FB_DENSE(walls, FB_STR, 2, 4)));
    CHECK(box[1] == 2.5f && strcmp(walls[0], "in") == 0 && strcmp(walls[1], "out") == 0);
    OK(fb_attr_has(fb_of_array(s, "T"), "gone", &has));
    CHECK(has == 0);
    OK(fb_attr_get_f64(fb_of_array(s, "blocks"), "sigma", &real));
    OK(fb_attr_get_json(fb_of_array(s, "blocks"), &text));
    CHECK(real == 0.5 && strcmp(text, "{\"gone\":1,\"long_name\":\"temperature\",\"sigma\":0.5}") == 0);
    OK(fb_free(text));
    OK(fb_attr_info(fb_of_array(s, "u"), "_FillValue", &info));
    CHECK(info.dtype == FB_F32 && info.ndim == 0);
    FAILS(FB_BAD_ARGUMENT, "complete", fb_attr_set_f64(fb_of_array(s, "T"), "sigma", 1));
    fb_object both = fb_of_array(s, "T");
    both.run = run;
    FAILS(FB_BAD_ARGUMENT, "both", fb_attr_has(both, "sigma", &has));
    FAILS(FB_BAD_ARGUMENT, "the array", fb_attr_has(fb_of_array(s, NULL), "sigma", &has));
    OK(fb_snapshot_free(s));
}

/* The same attributes on a run, a data set and a table: each comes back as what it was. */
static void everywhere(fb_run *run)
{
    const fb_column columns[] = { { .name = "a", .dtype = FB_F64 } };
    const double matrix[2][3] = { { 0, 1, 2 }, { 3, 4, 5 } }, turned[3][2] = { { 0, 3 }, { 1, 4 }, { 2, 5 } };
    const double z[2] = { 1.5, -2 }, nan = NAN;
    const uint64_t most = UINT64_MAX;
    const unsigned char raw[3] = { 0, 255, 0 }, yes = 1;
    fb_table *table = NULL;
    OK(fb_table_open(run, "bodies", columns, 1, NULL, &table));
    OK(fb_put(run, "set", 3, FB_ONE(&nan, FB_F64)));
    const fb_object all[] = { fb_of_run(run), fb_of_dataset(run, "set", 3), fb_of_table(run, "bodies") };
    for (int i = 0; i < 3; ++i) {
        double there[2][3] = { { 0 } }, real = 0, both[2] = { 0 };
        uint64_t huge = 0;
        int64_t whole = 0;
        unsigned char bytes[3] = { 1, 1, 1 }, truth = 0;
        char *json = NULL;
        fb_info info;
        OK(fb_attr_put(all[i], "matrix", FB_DENSE_F(turned, FB_F64, 2, 3)));
        OK(fb_attr_get(all[i], "matrix", FB_DENSE(there, FB_F64, 2, 3)));
        CHECK(memcmp(matrix, there, sizeof matrix) == 0);
        OK(fb_attr_put(all[i], "z", FB_ONE(z, FB_C128)));
        OK(fb_attr_get(all[i], "z", FB_ONE(both, FB_C128)));
        CHECK(memcmp(z, both, sizeof z) == 0);
        OK(fb_attr_put(all[i], "most", FB_ONE(&most, FB_U64)));
        OK(fb_attr_get(all[i], "most", FB_ONE(&huge, FB_U64)));
        CHECK(huge == UINT64_MAX);
        FAILS(FB_BAD_ARGUMENT, "18446744073709551615", fb_attr_get_i64(all[i], "most", &whole));
        FAILS(FB_BAD_ARGUMENT, "18446744073709551615", fb_attr_get_f64(all[i], "most", &real));
        OK(fb_attr_put(all[i], "nan", FB_ONE(&nan, FB_F64)));
        OK(fb_attr_get_f64(all[i], "nan", &real));
        CHECK(isnan(real));
        FAILS(FB_BAD_ARGUMENT, "NaN", fb_attr_get_i64(all[i], "nan", &whole));
        OK(fb_attr_put(all[i], "raw", FB_DENSE(raw, FB_BYTES, 3)));
        OK(fb_attr_get(all[i], "raw", FB_DENSE(bytes, FB_BYTES, 3)));
        CHECK(memcmp(raw, bytes, sizeof raw) == 0);
        OK(fb_attr_put(all[i], "yes", FB_ONE(&yes, FB_BOOL)));
        OK(fb_attr_get(all[i], "yes", FB_ONE(&truth, FB_BOOL)));
        CHECK(truth == 1);
        OK(fb_attr_set_f64(all[i], "whole", 1.0));
        FAILS(FB_BAD_ARGUMENT, "1.0", fb_attr_get_i64(all[i], "whole", &whole));
        /* A key that begins as the marks of values do. */
        OK(fb_attr_set_i64(all[i], "$c", 7));
        OK(fb_attr_get_i64(all[i], "$c", &whole));
        CHECK(whole == 7);
        OK(fb_attr_set_json(all[i], "{\"nested\": {\"of\": [1, \"\\\"a\\\"\"]}, \"no\": {\"$\": null}}"));
        OK(fb_attr_info(all[i], "nested", &info));
        CHECK(info.dtype == 0 && strcmp(info.name, "nested") == 0);
        FAILS(FB_BAD_ARGUMENT, "as JSON", fb_attr_get(all[i], "no", FB_ONE(&real, FB_F64)));
        OK(fb_attr_get_json(all[i], &json));
        CHECK(strstr(json, "\"nested\":{\"of\":[1,\"\\\"a\\\"\"]}") != NULL);
        OK(fb_free(json));
        FAILS(FB_BAD_ARGUMENT, "f64(2, 3)", fb_attr_get(all[i], "matrix", FB_DENSE(there, FB_F64, 3, 2)));
        FAILS(FB_BAD_ARGUMENT, "put it as an array", fb_attr_put(all[i], "long", FB_DENSE(large, FB_BYTES, sizeof large)));
        FAILS(FB_NOT_FOUND, "nobody", fb_attr_get(all[i], "nobody", FB_ONE(&real, FB_F64)));
        FAILS(FB_BAD_ARGUMENT, "NULL", fb_attr_put(all[i], NULL, FB_ONE(&real, FB_F64)));
    }
    FAILS(FB_NOT_FOUND, "nobody", fb_attr_put(fb_of_table(run, "nobody"), "yes", FB_ONE(&yes, FB_BOOL)));
    OK(fb_table_free(table));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    for (int i = 0; i < NX; ++i) {
        x[i] = 0.25 * i;
        for (int j = 0; j < NY; ++j) T[i][j] = 10 * i + j, u[i][j] = (float)T[i][j], y[j] = 10 + 2 * j;
    }
    fb_run *run = NULL;
    const fb_open_opts opts = { .size = sizeof opts, .buffer = 8 << 20, .compress = "zstd" };
    const fb_open_opts zip = { .size = sizeof zip, .compress = "zip" };
    FAILS(FB_BAD_ARGUMENT, "\"zip\"", fb_run_open(argv[1], "w", &zip, &run));
    OK(fb_run_open(argv[1], "w", &opts, &run));
    take(run);
    OK(fb_flush(run));
    refuse(run);
    look_at(run);
    everywhere(run);
    OK(fb_run_close(run));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
