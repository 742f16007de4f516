/* small_sqlite FILE COUNT: small data sets in one table of SQLite as the manual advises: write-ahead
 * log, 100 puts a transaction, prepared statements; a get is one SELECT. */
#include "common.h"

#include <sqlite3.h>

static void run(sqlite3 *db, const char *sql) { check(sqlite3_exec(db, sql, 0, 0, 0) == SQLITE_OK, sql); }

int main(int argc, char **argv) {
    check(argc > 2, "reading the arguments");
    int count = atoi(argv[2]), wrong = 0;
    static int32_t values[2000];
    sqlite3 *db;
    sqlite3_stmt *put, *get;
    small_fill(values, 2000);
    check(sqlite3_open(argv[1], &db) == SQLITE_OK, "opening");
    run(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
            "CREATE TABLE data(id INTEGER PRIMARY KEY, name TEXT, set_number INTEGER, dtype TEXT, shape TEXT, value BLOB, UNIQUE(name, set_number))");
    check(!sqlite3_prepare_v2(db, "INSERT OR REPLACE INTO data VALUES(NULL, ?1, 0, 'i32', ?2, ?3)", -1, &put, 0), "preparing");
    check(!sqlite3_prepare_v2(db, "SELECT value FROM data WHERE name = ?1 AND set_number = 0", -1, &get, 0), "preparing");

    double start = now();
    for (int i = 0; i < count; i++) {
        char name[32], shape[32];
        int n = small_length(i), chars = snprintf(name, sizeof name, "set/%05d", i);
        if (i % 100 == 0) run(db, "BEGIN IMMEDIATE");
        sqlite3_bind_text(put, 1, name, chars, SQLITE_STATIC);
        sqlite3_bind_text(put, 2, shape, snprintf(shape, sizeof shape, "[%d]", n), SQLITE_STATIC);
        sqlite3_bind_blob(put, 3, values + small_first(i), 4 * n, SQLITE_STATIC);
        check(sqlite3_step(put) == SQLITE_DONE, "a put");
        sqlite3_reset(put);
        if (i % 100 == 99 || i == count - 1) run(db, "COMMIT");
    }
    double written = now();
    for (int i = 0; i < count; i++) {
        char name[32];
        static int32_t out[1000];
        sqlite3_bind_text(get, 1, name, snprintf(name, sizeof name, "set/%05d", i), SQLITE_STATIC);
        check(sqlite3_step(get) == SQLITE_ROW, "a get");
        int bytes = sqlite3_column_bytes(get, 0);
        memcpy(out, sqlite3_column_blob(get, 0), (size_t)bytes);
        wrong += bytes != 4 * small_length(i) || out[0] != small_first(i);
        sqlite3_reset(get);
    }
    double read = now();
    check(wrong == 0, "reading back");
    sqlite3_finalize(put);
    sqlite3_finalize(get);
    sqlite3_close(db);
    print_small(count, written - start, written - start, read - written);
    return 0;
}
