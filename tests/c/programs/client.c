/* None of the ranks: what it may write beside them, and what is theirs alone: client PLACE. */
#include "check.h"

#include <math.h>

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    const fb_open_opts opts = { .size = sizeof opts, .client = 1 };
    const fb_open_opts numbered = { .size = sizeof numbered, .client = 1, .rank = 0, .ranks = 1 };
    fb_run *run = NULL;
    FAILS(FB_BAD_ARGUMENT, "mode \"r+\"", fb_run_open(argv[1], "a", &opts, &run));
    FAILS(FB_BAD_ARGUMENT, "rank is theirs to say", fb_run_open(argv[1], "r+", &numbered, &run));
    OK(fb_run_open(argv[1], "r+", &opts, &run));
    int32_t rank = -1, ranks = -1;
    OK(fb_rank(run, &rank, &ranks));
    CHECK(rank == 0 && ranks == 0);

    const double value = 2.5;
    double back = 0.0;
    OK(fb_put(run, "beside", 0, FB_ONE(&value, FB_F64)));
    OK(fb_get(run, "beside", 0, FB_ONE(&back, FB_F64)));
    CHECK(back == value);
    OK(fb_attr_set_str(fb_of_run(run), "who", "a client"));
    const fb_column columns[] = { { .name = "n", .dtype = FB_I64 } };
    fb_table *table = NULL;
    OK(fb_table_open(run, "seen", columns, 1, NULL, &table));
    const int64_t numbers[] = { 4, 5 };
    const fb_values rows[] = { { .column = "n", .array = FB_DENSE(numbers, FB_I64, 2) } };
    OK(fb_table_insert(table, 2, rows, 1));
    OK(fb_message(run, FB_WARNING, "from a client"));

    fb_snapshot *snapshot = NULL;
    FAILS(FB_BAD_ARGUMENT, "a snapshot is the ranks' alone", fb_snapshot_begin(run, 7, NAN, &snapshot));
    FAILS(FB_BAD_ARGUMENT, "a restart is the ranks' alone", fb_restart(run, &snapshot));
    fb_table *grown = NULL;
    OK(fb_table_open(run, "grown", NULL, 0, NULL, &grown));
    FAILS(FB_BAD_ARGUMENT, "a row of a history is the ranks' alone", fb_table_insert(grown, 2, rows, 1));
    OK(fb_table_free(grown));
    OK(fb_table_free(table));
    OK(fb_run_close(run));
    NOTHING_IN_USE();
    puts("done");
    return 0;
}
