//! The tables of `catalog.sqlite`. Drawn with the meaning of every column in
//! `spec/run-format.md`; a change there is a change of [`crate::layout::FORMAT`].

/// Everything a new catalog begins with.
pub const SCHEMA: &str = "
CREATE TABLE fb_run(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE fb_sessions(
    session INTEGER PRIMARY KEY, rank INTEGER NOT NULL, size INTEGER NOT NULL, program TEXT NOT NULL,
    segment TEXT NOT NULL, opened REAL NOT NULL, closed REAL, applied INTEGER NOT NULL DEFAULT 0);

CREATE TABLE fb_answers(
    session INTEGER NOT NULL, seq INTEGER NOT NULL, code INTEGER NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY(session, seq)) WITHOUT ROWID;

CREATE TABLE fb_data(
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, set_number INTEGER NOT NULL, dtype TEXT NOT NULL,
    shape TEXT NOT NULL, data_order TEXT NOT NULL, unit TEXT NOT NULL, attrs TEXT NOT NULL,
    version INTEGER NOT NULL, nbytes INTEGER NOT NULL, crc32c INTEGER NOT NULL, file TEXT,
    file_offset INTEGER, value BLOB, UNIQUE(name, set_number));

CREATE TABLE fb_tables(
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, columns TEXT NOT NULL,
    history INTEGER NOT NULL, attrs TEXT NOT NULL);

CREATE TABLE fb_steps(
    step INTEGER PRIMARY KEY, time REAL, file TEXT NOT NULL, nbytes INTEGER NOT NULL,
    parent INTEGER, parameters TEXT NOT NULL, committed REAL NOT NULL, serial INTEGER NOT NULL);

CREATE TABLE fb_backs(step INTEGER PRIMARY KEY, serial INTEGER NOT NULL);
CREATE INDEX fb_steps_by_file ON fb_steps(file);
CREATE INDEX fb_data_by_file ON fb_data(file) WHERE file IS NOT NULL;

CREATE TABLE fb_step_data(
    step INTEGER NOT NULL REFERENCES fb_steps(step), name TEXT NOT NULL, dtype TEXT NOT NULL,
    shape TEXT NOT NULL, data_order TEXT NOT NULL, unit TEXT NOT NULL, nbytes INTEGER NOT NULL,
    file_offset INTEGER NOT NULL, pieces TEXT NOT NULL, PRIMARY KEY(step, name)) WITHOUT ROWID;

CREATE TABLE fb_checkpoints(
    id INTEGER PRIMARY KEY, step INTEGER NOT NULL, tag TEXT, parent INTEGER,
    parameters TEXT NOT NULL, made REAL NOT NULL, serial INTEGER NOT NULL);

CREATE TABLE fb_parameters(
    name TEXT PRIMARY KEY, declaration TEXT NOT NULL, value TEXT NOT NULL, step INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE fb_diagrams(id INTEGER PRIMARY KEY, title TEXT NOT NULL, declaration TEXT NOT NULL);

CREATE TABLE fb_curves(
    diagram INTEGER NOT NULL, curve INTEGER NOT NULL, name TEXT NOT NULL,
    PRIMARY KEY(diagram, curve)) WITHOUT ROWID;

CREATE TABLE fb_points(
    diagram INTEGER NOT NULL, curve INTEGER NOT NULL, step INTEGER NOT NULL, t REAL, value REAL, session INTEGER NOT NULL DEFAULT 0);
CREATE INDEX fb_points_by_step ON fb_points(step);

CREATE TABLE fb_steering(
    id INTEGER PRIMARY KEY AUTOINCREMENT, who TEXT NOT NULL, act TEXT NOT NULL, asked REAL NOT NULL,
    step INTEGER, done REAL, code INTEGER, text TEXT);

CREATE TABLE fb_messages(
    id INTEGER PRIMARY KEY, session INTEGER NOT NULL, step INTEGER NOT NULL, level INTEGER NOT NULL,
    text TEXT NOT NULL, made REAL NOT NULL);
";

/// Most messages kept; older ones go.
pub const MESSAGES: i64 = 10_000;
