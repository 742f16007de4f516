/* Tables, their rows, SQL: tables PLACE. */

#include "check.h"

#include <math.h>

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    fb_run *run = NULL;
    const fb_open_opts small = { .size = sizeof small, .buffer = 4 << 20 };
    OK(fb_run_open(argv[1], "w", &small, &run));
    const fb_column columns[] = { { .name = "id", .dtype = FB_I64 }, { .name = "mass", .dtype = FB_F64, .units = "kg" }, { .name = "kind", .dtype = FB_STR },
                                  { .name = "raw", .dtype = FB_BYTES } };
    fb_table *table = NULL, *again = NULL;
    const fb_table_opts opts = { .size = sizeof opts, .history = 1 };
    OK(fb_table_open(run, "bodies", columns, 4, &opts, &table));

    const int32_t ids[] = { 1, 2, 3 };
    const double masses[] = { 1.5, 2.5, 3.5 };
    const char *kinds[] = { "ion", NULL, "electron" };
    const fb_values rows3[] = { { .column = "id", .array = FB_DENSE(ids, FB_I32, 3) },
                                 { .column = "mass", .array = FB_DENSE(masses, FB_F64, 3) },
                                 { .column = "kind", .texts = kinds } };
    OK(fb_table_insert(table, 3, rows3, 3));
    int64_t count = 0;
    OK(fb_table_count(table, &count));
    CHECK(count == 3);

    fb_rows *rows = NULL;
    const fb_arg least[] = { FB_IN_F64(2.0) };
    OK(fb_table_select(table, NULL, 0, "mass > ?", least, 1, &rows));
    int ncolumns = 0, is_null = -1;
    OK(fb_rows_count(rows, &count, &ncolumns));
    CHECK(count == 2 && ncolumns == 4);
    const char *name = NULL, *texts[2];
    int64_t whole[2];
    double real[2];
    OK(fb_rows_name(rows, 1, &name));
    CHECK(strcmp(name, "mass") == 0);
    OK(fb_rows_i64(rows, 0, whole));
    OK(fb_rows_f64(rows, 1, real));
    OK(fb_rows_str(rows, 2, texts));
    CHECK(whole[0] == 2 && whole[1] == 3 && real[0] == 2.5 && texts[0] == NULL && strcmp(texts[1], "electron") == 0);
    OK(fb_rows_is_null(rows, 0, 2, &is_null));
    CHECK(is_null == 1);
    OK(fb_rows_f64(rows, 3, real));
    CHECK(isnan(real[0]));
    FAILS(FB_BAD_ARGUMENT, "", fb_rows_i64(rows, 3, whole));
    FAILS(FB_BAD_ARGUMENT, "9", fb_rows_f64(rows, 9, real));
    OK(fb_rows_free(rows));

    const char *only[] = { "kind" };
    const fb_arg which[] = { FB_IN_STR("ion"), FB_IN_I64(1) };
    OK(fb_table_select(table, only, 1, "kind = ? and id = ?", which, 2, &rows));
    OK(fb_rows_count(rows, &count, &ncolumns));
    CHECK(count == 1 && ncolumns == 1);
    OK(fb_rows_free(rows));

    const char *by[] = { "kind", "id" };
    OK(fb_table_index(table, by, 2));
    OK(fb_table_index(table, by, 2));
    FAILS(FB_BAD_ARGUMENT, "has no column \"colour\"", fb_table_index(table, &(const char *){ "colour" }, 1));
    FAILS(FB_BAD_ARGUMENT, "at least one", fb_table_index(table, NULL, 0));

    const double heavier = 9.0;
    const fb_values set[] = { { .column = "mass", .array = FB_ONE(&heavier, FB_F64) } };
    OK(fb_table_update(table, set, 1, "id = ?", &which[1], 1, &count));
    CHECK(count == 1);
    OK(fb_table_delete(table, "id = 2", NULL, 0, &count));
    CHECK(count == 1);
    OK(fb_sql(run, "select sum(mass), 'x' as letter, x'0102' from bodies", NULL, 0, &rows));
    const void *bytes = NULL;
    OK(fb_rows_f64(rows, 0, real));
    OK(fb_rows_bytes(rows, 0, 2, &bytes, &count));
    CHECK(real[0] == 12.5 && count == 2 && memcmp(bytes, "\1\2", 2) == 0);
    OK(fb_rows_free(rows));
    FAILS(FB_READ_ONLY, "delete", fb_sql(run, "delete from bodies", NULL, 0, &rows));

    /* What SQLite has no place for comes back as it went in. */
    const fb_column odd[] = { { .name = "k", .dtype = FB_U64 }, { .name = "f", .dtype = FB_F32 }, { .name = "v", .dtype = FB_F64 } };
    const uint64_t big[] = { UINT64_MAX, 1, UINT64_C(1) << 63 };
    const float single[] = { 0.1f, NAN, -INFINITY };
    const double reals[] = { NAN, 0.5, INFINITY };
    const fb_values odds[] = { { .column = "k", .array = FB_DENSE(big, FB_U64, 3) },
                               { .column = "f", .array = FB_DENSE(single, FB_F32, 3) },
                               { .column = "v", .array = FB_DENSE(reals, FB_F64, 3) } };
    fb_table *oddities = NULL;
    OK(fb_table_open(run, "odd", odd, 3, NULL, &oddities));
    OK(fb_table_insert(oddities, 3, odds, 3));
    OK(fb_table_select(oddities, NULL, 0, NULL, NULL, 0, &rows));
    uint64_t unsigned_[3];
    double back[3];
    int64_t signed_[3];
    OK(fb_rows_u64(rows, 0, unsigned_));
    CHECK(memcmp(unsigned_, big, sizeof big) == 0);
    FAILS(FB_BAD_ARGUMENT, "18446744073709551615", fb_rows_i64(rows, 0, signed_));
    OK(fb_rows_f64(rows, 1, back));
    CHECK((float)back[0] == 0.1f && isnan(back[1]) && isinf(back[2]));
    OK(fb_rows_f64(rows, 2, back));
    CHECK(isnan(back[0]) && back[1] == 0.5 && isinf(back[2]));
    OK(fb_rows_free(rows));
    const fb_values none[] = { { .column = "v", .array = FB_ONE(reals, FB_F64) }, { .column = "k", .array = FB_ONE(big, FB_U64) } };
    OK(fb_table_update(oddities, none, 2, "k = 1", NULL, 0, &count));
    const fb_arg least_of_all[] = { FB_IN_U64(big[2]) };
    OK(fb_table_select(oddities, NULL, 0, "k >= ? and v is null", least_of_all, 1, &rows));
    OK(fb_rows_count(rows, &count, NULL));
    CHECK(count == 2);
    OK(fb_rows_free(rows));
    OK(fb_table_free(oddities));

    /* Columns of arrays: what is given has an axis more, that of the rows. */
    const int64_t three[] = { 3 }, two_by_two[] = { 2, 2 };
    const fb_column of_arrays[] = { { .name = "v", .dtype = FB_F64, .ndim = 1, .shape = three },
                                    { .name = "m", .dtype = FB_I32, .ndim = 2, .shape = two_by_two },
                                    { .name = "n", .dtype = FB_I64 } };
    const double velocities[] = { 1, 2, 3, 4, NAN, 6 };
    const int matrices[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    const int64_t numbers[] = { 1, 2 };
    const fb_values of_two[] = { { .column = "v", .array = FB_DENSE(velocities, FB_F64, 2, 3) },
                                 { .column = "m", .array = FB_DENSE(matrices, FB_I32, 2, 2, 2) },
                                 { .column = "n", .array = FB_DENSE(numbers, FB_I64, 2) } };
    fb_table *atoms = NULL;
    fb_column_info *described = NULL;
    double found[3][3];
    int found_m[2][2][2];
    OK(fb_table_open(run, "atoms", of_arrays, 3, NULL, &atoms));
    OK(fb_table_columns(atoms, &described, &count));
    CHECK(count == 3 && described[0].ndim == 1 && described[0].shape[0] == 3 && described[1].shape[1] == 2 && described[2].ndim == 0);
    OK(fb_free(described));
    OK(fb_table_insert(atoms, 2, of_two, 3));
    OK(fb_table_insert(atoms, 1, &of_two[2], 0));
    OK(fb_table_select(atoms, NULL, 0, "n > 0", NULL, 0, &rows));
    OK(fb_rows_array(rows, 1, FB_DENSE(found_m, FB_I32, 2, 2, 2)));
    CHECK(memcmp(found_m, matrices, sizeof matrices) == 0);
    FAILS(FB_BAD_ARGUMENT, "f64(2, 3)", fb_rows_array(rows, 0, FB_DENSE(found, FB_F64, 3, 3)));
    FAILS(FB_BAD_ARGUMENT, "i32(2, 2, 2)", fb_rows_array(rows, 1, FB_DENSE(found, FB_F64, 2, 3)));
    OK(fb_rows_free(rows));
    const float other[] = { 7, 8, 9 };
    const fb_values one_array[] = { { .column = "v", .array = FB_DENSE(other, FB_F32, 3) } };
    OK(fb_table_update(atoms, one_array, 1, "n = 1", NULL, 0, &count));
    OK(fb_table_select(atoms, NULL, 0, NULL, NULL, 0, &rows));
    OK(fb_rows_array(rows, 0, FB_DENSE(found, FB_F64, 3, 3)));
    CHECK(count == 1 && found[0][2] == 9 && found[1][0] == 4 && isnan(found[1][1]) && isnan(found[2][0]));
    FAILS(FB_BAD_ARGUMENT, "row 2", fb_rows_array(rows, 1, FB_DENSE(found_m, FB_I32, 3, 2, 2)));
    OK(fb_rows_free(rows));
    FAILS(FB_BAD_ARGUMENT, "\"v\"", fb_table_select(atoms, NULL, 0, "v > 1", NULL, 0, &rows));
    FAILS(FB_BAD_ARGUMENT, "rows of f64(3,)", fb_table_insert(atoms, 3, of_two, 1));
    const fb_values flat[] = { { .column = "v", .array = FB_DENSE(velocities, FB_F64, 2) } };
    FAILS(FB_BAD_ARGUMENT, "v: one f64 is given for each row", fb_table_insert(atoms, 2, flat, 1));
    OK(fb_table_free(atoms));

    fb_column_info *infos = NULL;
    char **names = NULL;
    OK(fb_table_open(run, "bodies", NULL, 0, NULL, &again));
    OK(fb_table_columns(again, &infos, &count));
    CHECK(count == 4 && strcmp(infos[1].units, "kg") == 0 && infos[2].dtype == FB_STR);
    OK(fb_free(infos));
    OK(fb_tables(run, &names, &count));
    CHECK(count == 3 && strcmp(names[1], "bodies") == 0);
    OK(fb_free(names));
    OK(fb_attr_set_str(fb_of_table(run, "bodies"), "source", "test"));
    OK(fb_table_free(again));
    FAILS(FB_NOT_FOUND, "stars", fb_table_open(run, "stars", NULL, 0, NULL, &again));
    const fb_values wrong[] = { { .column = "colour", .array = FB_DENSE(masses, FB_F64, 3) } };
    FAILS(FB_NOT_FOUND, "colour", fb_table_insert(table, 3, wrong, 1));
    const fb_values mixed[] = { { .column = "mass", .texts = kinds } };
    FAILS(FB_BAD_ARGUMENT, "mass", fb_table_insert(table, 3, mixed, 1));
    const fb_values few[] = { { .column = "mass", .array = FB_DENSE(masses, FB_F64, 2) } };
    FAILS(FB_BAD_ARGUMENT, "2 values for 3 rows", fb_table_insert(table, 3, few, 1));
    FAILS(FB_BAD_ARGUMENT, "-3", fb_table_insert(table, -3, rows3, 3));

    /* The table goes with its run. */
    OK(fb_run_close(run));
    FAILS(FB_CLOSED, "fb_table", fb_table_count(table, &count));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
