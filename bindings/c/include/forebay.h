/* forebay.h: the C library of Forebay, a runtime around parallel simulations: call services, keep data,
   take snapshots, watch and steer. Link with -lforebay (pkg-config forebay).

   Every function returns a status, FB_OK (0) when all went well; fb_last_error() then tells what
   happened, the value, and what to do. Results are written only when it is FB_OK. Handles (fb_run * and
   its like) are opaque: any number at once, from any thread; what is NULL, foreign, or freed before is
   refused with FB_BAD_ARGUMENT or FB_CLOSED. Functions named ..._free and ..._close take NULL for
   nothing. Options are structures that begin with their size; all members zero, or NULL for all of
   them, are the defaults: fb_open_opts opts = { .size = sizeof opts, .buffer = 1 << 30 };

   This file is made from bindings/c/src by its test `header`: FB_WRITE_HEADER=1 cargo test -p forebay-c. */

#ifndef FOREBAY_H
#define FOREBAY_H

#include <stddef.h>
#include <stdint.h>

#define FB_VERSION_MAJOR 0
#define FB_VERSION_MINOR 1
#define FB_VERSION_PATCH 0
#define FB_VERSION "0.1.0"

/* Casts that neither language warns of. */
#ifdef __cplusplus
#define FB_AS_(type, value) static_cast<type>(value)
#define FB_ADDRESS_(number) reinterpret_cast<const int64_t *>(static_cast<intptr_t>(number))
#else
#define FB_AS_(type, value) ((type)(value))
#define FB_ADDRESS_(number) ((const int64_t *)(intptr_t)(number))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Highest rank of an array. */
#define FB_MAX_RANK 8
/* Room for a name, for a unit, and for the text of an error that is kept, the zero at its end included. */
#define FB_NAME_ROOM 256
#define FB_UNIT_ROOM 65
#define FB_TEXT_ROOM 1024
/* As a timeout: no limit. */
#define FB_FOREVER (-1.0)
/* As a time limit of fb_steps_with: the end of the Slurm job. */
#define FB_JOB_END (-1.0)
/* As the number of steps of fb_step: the loop goes on until somebody ends it. */
#define FB_NO_END INT64_MAX
/* As a set number, where a function says so: all sets. */
#define FB_ALL_SETS INT64_MIN
/* As the set number of an fb_object: the table of that name. */
#define FB_TABLE (INT64_MIN + 1)
/* As an offset of fb_snapshot_put: behind the arrays of lower ranks, along axis 0. */
#define FB_APPEND FB_ADDRESS_(-1)

/* What became of a call. */
typedef enum fb_status {
    FB_OK = 0,
    /* The run, data set, step, table, service or file named does not exist. */
    FB_NOT_FOUND = 1,
    /* Somebody was faster: the step exists, the version moved on, another process owns the run, or data of it lie in memory elsewhere. */
    FB_CONFLICT = 2,
    /* A value, type, shape or name is not acceptable; nothing was sent or stored. */
    FB_BAD_ARGUMENT = 3,
    /* No live server offers the service. */
    FB_NO_SERVER = 4,
    /* The process at the other end died, stopped or was cut off before it answered. */
    FB_SERVER_LOST = 5,
    /* The service ran and failed; the text is the remote one. */
    FB_REMOTE_ERROR = 6,
    /* The time given was over before the answer came. */
    FB_TIMEOUT = 7,
    /* The call or the run was cancelled at the user's wish. */
    FB_CANCELLED = 8,
    /* A declared limit, a disk or `/dev/shm` is full. */
    FB_FULL = 9,
    /* The run is open for reading, or its directory cannot be written. */
    FB_READ_ONLY = 10,
    /* The other side, or the run on disk, speaks a version that this one does not know. */
    FB_VERSION_MISMATCH = 11,
    /* The other side knows who is asking and says no: wrong user, wrong token, viewer instead of operator. */
    FB_REFUSED = 12,
    /* Bytes on disk or on the wire are not what their checksum or format says. */
    FB_CORRUPT = 13,
    /* The run, client or server was closed before this call, or belongs to the parent process. */
    FB_CLOSED = 14,
    /* The operating system refused a read, write or mapping; the text has its words. */
    FB_IO = 15,
    /* Forebay broke a promise to itself: a defect. */
    FB_INTERNAL = 16,
    /* Three servers died while they ran this call or this task, so it is given up. */
    FB_POISONED = 17,
} fb_status;

/* Types of elements. */
typedef enum fb_dtype {
    /* i8, 1 bytes. */
    FB_I8 = 1,
    /* i16, 2 bytes. */
    FB_I16 = 2,
    /* i32, 4 bytes. */
    FB_I32 = 3,
    /* i64, 8 bytes. */
    FB_I64 = 4,
    /* u8, 1 bytes. */
    FB_U8 = 5,
    /* u16, 2 bytes. */
    FB_U16 = 6,
    /* u32, 4 bytes. */
    FB_U32 = 7,
    /* u64, 8 bytes. */
    FB_U64 = 8,
    /* f32, 4 bytes. */
    FB_F32 = 9,
    /* f64, 8 bytes. */
    FB_F64 = 10,
    /* c64, 8 bytes. */
    FB_C64 = 11,
    /* c128, 16 bytes. */
    FB_C128 = 12,
    /* bool, 1 bytes. */
    FB_BOOL = 13,
    /* str, 1 bytes. */
    FB_STR = 14,
    /* bytes, 1 bytes. */
    FB_BYTES = 15,
    /* f16, 2 bytes. */
    FB_F16 = 16,
} fb_dtype;

/* A number, as its dtype says. */
typedef union {
    /* FB_I8. */
    int8_t i8;
    /* FB_I16. */
    int16_t i16;
    /* FB_I32. */
    int32_t i32;
    /* FB_I64. */
    int64_t i64;
    /* FB_U8. */
    uint8_t u8;
    /* FB_U16. */
    uint16_t u16;
    /* FB_U32. */
    uint32_t u32;
    /* FB_U64. */
    uint64_t u64;
    /* FB_F32. */
    float f32;
    /* FB_F64. */
    double f64;
    /* FB_C64: real and imaginary part. */
    float c64[2];
    /* FB_C128: real and imaginary part. */
    double c128[2];
    /* FB_BOOL: 0 or 1. */
    uint8_t truth;
    /* FB_F16: its bits. */
    uint16_t f16;
} fb_scalar;

/* Which index runs fastest in memory: the last (C) or the first (Fortran). */
typedef enum fb_order { FB_ROW_MAJOR = 0, FB_COLUMN_MAJOR = 1 } fb_order;

/* How serious a message is. */
typedef enum fb_level { FB_DEBUG = 0, FB_INFO = 1, FB_WARNING = 2, FB_ERROR = 3 } fb_level;

/* Kinds of arguments. */
enum { FB_SCALAR = 0, FB_ARRAY = 1, FB_TEXT = 2, FB_RAW = 3, FB_REFERENCE = 4, FB_FILE = 5 };

/* When arguments that go only are the caller's again: when the call is complete; when it has been sent, and a
   lost server ends it; when it has been sent, since they were copied. */
enum { FB_TRANSFER_NOWAIT = 0, FB_TRANSFER_WAIT = 1, FB_TRANSFER_COPY = 2 };

/* What a service prints to. */
enum { FB_STDOUT = 1, FB_STDERR = 2 };

/* What has become of a task: it is not over, it has results, it has an error, it was given up. */
enum { FB_TASK_OPEN = 0, FB_TASK_DONE = 1, FB_TASK_FAILED = 2, FB_TASK_CANCELLED = 3 };

/* Directions of arguments. */
enum { FB_IN = 1, FB_OUT = 2, FB_INOUT = 3 };

/* --- handles ------------------------------------------------------------------------------- */

/* Many calls of one service. */
typedef struct fb_bag fb_bag;

/* A client of the services that a broker knows. */
typedef struct fb_client fb_client;

/* A diagram of a run. */
typedef struct fb_diagram fb_diagram;

/* A call under way. */
typedef struct fb_future fb_future;

/* Calls that run at the same time. */
typedef struct fb_group fb_group;

/* An array that a server holds for a client. */
typedef struct fb_ref fb_ref;

/* A call as the service function sees it; good until the function returns, in its thread. */
typedef struct fb_request fb_request;

/* Rows that a query gave. */
typedef struct fb_rows fb_rows;

/* An open run. */
typedef struct fb_run fb_run;

/* A server of services. */
typedef struct fb_server fb_server;

/* A snapshot: one being taken, or a complete one that is read. */
typedef struct fb_snapshot fb_snapshot;

/* A relational table of a run. */
typedef struct fb_table fb_table;

/* --- errors, versions, memory -------------------------------------------------------------- */

/* The version of the library as text, such as "0.1.0". */
const char *fb_version(void);

/* The text of the last error of this thread: what happened, the value, what to do. Good until the
   next error of this thread; "" when it had none. */
const char *fb_last_error(void);

/* The name of a status, such as "NotFound"; "OK" of FB_OK, NULL of a number that is no status. */
const char *fb_status_name(fb_status code);

/* What to do about a status when the text of the error names nothing better; NULL of a number that is
   no status. */
const char *fb_status_remedy(fb_status code);

/* For a function of the program that Forebay calls and that fails by itself: keeps a text as this thread's last error and
   returns `code`, which is to be returned. Write `return fb_fail(FB_IO, "the file of the mesh is gone");`. FB_BAD_ARGUMENT,
   with a text that says so, when `code` is FB_OK or no status, or the text is no UTF-8. In a function that is told the end
   of a call, which returns nothing, the failure is found by fb_failed. */
fb_status fb_fail(fb_status code,
                  const char *text);

/* Gives back memory that a function of this library allocated for the caller, as its description
   says. NULL is nothing; what is not such memory, or was freed before, is refused. */
fb_status fb_free(void *memory);

/* How many handles and pieces of memory the program has and has not given back: 0 at the end of a
   program without leaks. */
fb_status fb_in_use(int64_t *count);

/* --- runs ---------------------------------------------------------------------------------- */

/* How a run is opened. Zero is the default of every member. */
typedef struct {
    /* sizeof(fb_open_opts). */
    size_t size;
    /* Bytes of this process's buffer; 0: FOREBAY_BUFFER, else 256 MiB, less where many ranks share little memory. */
    uint64_t buffer;
    /* What a snapshot does when no buffer has room: "block" (NULL), "drop_oldest", "drop_newest", "spill". */
    const char *full;
    /* This rank, when `ranks` is given. */
    int32_t rank;
    /* Number of ranks; 0: rank and number from the launcher's environment (Slurm, Open MPI, MPICH, PMIx). */
    int32_t ranks;
    /* Whether the run is deleted when it is closed. */
    int scratch;
    /* Name of the program, for people; NULL: that of the executable. */
    const char *program;
    /* What becomes of an error of something that was acknowledged earlier: "raise" (NULL: the next
       call fails with it, or fb_flush, or fb_run_close), "warn" (a line on standard error), "ignore"
       (it is counted in fb_stats and shown on the page). fb_snapshot_wait fails with it always. */
    const char *late;
    /* What becomes of data that a program which was killed left in memory elsewhere (on another host, in another
       /dev/shm, of another user): "refuse" (the opening fails and says where they lie), "abandon" (they are
       given up, and the run goes on from its last step on disk); NULL: FOREBAY_ELSEWHERE, else "refuse". */
    const char *elsewhere;
    /* Which complete snapshots stay: "last 5", "every 10" (by number), or both: "last 5, every 100"; NULL: all. What may be
       gone on from stays, too: checkpoints, where the run began and went back to, the newest one. All ranks say the same. */
    const char *keep;
    /* Whether this program is none of the ranks: it puts data sets, changes attributes, inserts into tables and says
       messages beside them, while nothing in their run waits for it; mode "r+", also from another host, a buffer of
       8 MiB if 0 is given. Snapshots, restarts, loops, parameters, diagrams and rows of histories fail with
       FB_BAD_ARGUMENT. fb_rank gives 0 and 0. */
    int client;
    /* Small snapshots, of less than 1 MiB, are put together as fb_pack does it, behind the program's back: each time when
       so many of one layout follow each other before the newest one. NULL: 1,000, and none with keep. "auto": 1,000. Another number as "100", and
       "no": none are. Those with meshes or particles stay as they are, for programs that read openPMD. */
    const char *pack;
    /* How arrays of this rank's snapshots are compressed that do not say it themselves: "gzip", "zstd", as
       fb_piece_opts.compress; NULL: not. */
    const char *compress;
} fb_open_opts;

/* Figures of a run. What a figure means when there is none yet stands beside it. */
typedef struct {
    /* sizeof(fb_stats), set before the call. */
    size_t size;
    /* Seconds the program spent in output. */
    double visible_s;
    /* Seconds spent writing behind its back. */
    double hidden_s;
    /* hidden_s / (visible_s + hidden_s). */
    double overlap;
    /* Seconds the program waited for room in the buffer; part of visible_s. */
    double waited_s;
    /* How far durability lags behind, in seconds. */
    double lag_s;
    /* Last durable step, -1 before the first. */
    int64_t durable_step;
    /* Snapshots ended. */
    int64_t steps;
    /* Snapshots dropped because buffers were full. */
    int64_t dropped_steps;
    /* Bytes put into snapshots. */
    int64_t snapshot_bytes;
    /* Bytes put into data sets. */
    int64_t put_bytes;
    /* Bytes that did not fit the buffer and went to overflow segments. */
    int64_t overflow_bytes;
    /* Bytes made durable. */
    int64_t written_bytes;
    /* Size of the buffer. */
    int64_t buffer_bytes;
    /* Most bytes of the buffer in use at once. */
    int64_t high_water_bytes;
    /* Seconds that copying everything that was put would have cost: its bytes, divided by
       copy_bytes_per_s; 0 before there is such a speed. */
    double ideal_s;
    /* Speed of the fastest copy of at least 1 MiB that this process has made into its buffer; 0 before one. */
    double copy_bytes_per_s;
    /* Errors of things that were acknowledged earlier, told or not. */
    int64_t late_errors;
    /* 1 while everything waits for room on the disk. */
    int64_t waiting_for_disk;
    /* 1 when the owner of the run is threads of this process, 0 when it is the agent. */
    int64_t embedded;
    /* 1 when the buffer lies in shared memory, 0 when that had no room and it is a file. */
    int64_t in_memory;
    /* Elements of snapshots that no rank put, and that have the value of fb_piece_opts.fill. */
    int64_t filled_elements;
    /* Bytes that were to be compressed and went out as they were, for the buffers were nearly full. */
    int64_t uncompressed_bytes;
    /* Finite values of this process's arrays that are infinite with less precision (fb_piece_opts.as_dtype). */
    int64_t lost_range;
} fb_stats;

/* Opens a run: `place` is its name, "two_stream" meaning the directory two_stream.fb, or its path.

   `mode` is "r" (read), "r+" (must exist), "a" (created when absent), "w" (created anew), "x" (must
   not exist). `opts` may be NULL. Close it with fb_run_close. Fails with FB_NOT_FOUND, FB_CONFLICT
   (mode "x", another process writes it, or data of it lie elsewhere), FB_VERSION_MISMATCH, FB_READ_ONLY,
   FB_BAD_ARGUMENT. */
fb_status fb_run_open(const char *place, const char *mode, const fb_open_opts *opts, fb_run **run);

/* Drains and closes a run, and frees it with its snapshots, tables and diagrams. NULL is nothing.

   When it fails the run is closed all the same and the text says what was lost, unless it can be
   tried again: then the handle stays good (fb_rank answers). */
fb_status fb_run_close(fb_run *run);

/* Drains and closes the run of a program that did not come to its end, and frees it with its snapshots,
   tables and diagrams. The run is not marked as finished, so that fb_restart goes on with it. NULL is
   nothing. */
fb_status fb_run_close_unfinished(fb_run *run);

/* This rank and the number of ranks, 0 and 0 of a client; either may be NULL. */
fb_status fb_rank(fb_run *run, int32_t *rank, int32_t *ranks);

/* The directory of the run, absolute; free it with fb_free. */
fb_status fb_path(fb_run *run, char **path);

/* Whether the run is open for reading only: 1 or 0. */
fb_status fb_is_read_only(fb_run *run, int *read_only);

/* Waits until everything put so far is durable; reports what could not be written. */
fb_status fb_flush(fb_run *run);

/* Figures of the run so far. */
fb_status fb_run_stats(fb_run *run, fb_stats *stats);

/* --- arrays -------------------------------------------------------------------------------- */

/* An array of the caller's. What is put is only read; what is got is written. */
typedef struct {
    /* Type of the elements. */
    fb_dtype dtype;
    /* Number of dimensions, at most FB_MAX_RANK; 0: one number or truth value. */
    int ndim;
    /* Extents, `ndim` of them. Of FB_STR and FB_BYTES the last one counts bytes. */
    const int64_t *shape;
    /* Bytes from an element to its neighbour along each axis, `ndim` of them, negative ones too; NULL: the
       elements lie together, and the last index runs fastest. */
    const int64_t *strides;
    /* The element whose indices are all 0. */
    void *data;
} fb_array;

/* --- data sets ----------------------------------------------------------------------------- */

/* What may go with a put. Zero is the default of every member. */
typedef struct {
    /* sizeof(fb_put_opts). */
    size_t size;
    /* Unit, such as "V/m"; NULL: none, also where an earlier version had one. */
    const char *units;
    /* Attributes as a JSON object; NULL: none, also where an earlier version had some. */
    const char *attrs;
} fb_put_opts;

/* What a data set is. */
typedef struct {
    /* Its name. */
    char name[FB_NAME_ROOM];
    /* Its unit, or "". */
    char units[FB_UNIT_ROOM];
    /* Its fb_dtype. */
    fb_dtype dtype;
    /* FB_ROW_MAJOR or FB_COLUMN_MAJOR, as it was put. */
    fb_order order;
    /* Number of dimensions. */
    int ndim;
    /* Extents, `ndim` of them. */
    int64_t shape[FB_MAX_RANK];
    /* Its set number; 0 in snapshots. */
    int64_t set;
    /* How often it was put; 0 in snapshots, whose arrays never change. */
    uint64_t version;
    /* Bytes of the whole array. */
    int64_t nbytes;
} fb_info;

/* Stores or replaces a data set.

   The data are copied when it returns and may be changed at once; they are durable after fb_flush. An array whose
   first index runs fastest, as Fortran has them, is kept so. */
fb_status fb_put(fb_run *run,
                 const char *name,
                 int64_t set,
                 const fb_array *array);

/* Stores or replaces a data set, with a unit or attributes; `opts` may be NULL. The data are copied
   when it returns; they are durable after fb_flush. */
fb_status fb_put_with(fb_run *run,
                      const char *name,
                      int64_t set,
                      const fb_array *array,
                      const fb_put_opts *opts);

/* Stores only if the stored version is still `version` (0: there must be none yet); else
   FB_CONFLICT. `opts` may be NULL; `new_version` gets the version stored, and may be NULL. */
fb_status fb_put_if_version(fb_run *run,
                            const char *name,
                            int64_t set,
                            const fb_array *array,
                            uint64_t version,
                            const fb_put_opts *opts,
                            uint64_t *new_version);

/* Reads a data set into `array`. Dtype and shape must be those stored (fb_info tells them); otherwise
   FB_BAD_ARGUMENT, and nothing is written. */
fb_status fb_get(fb_run *run, const char *name, int64_t set, const fb_array *array);

/* A data set as memory that is read when it is touched, so it may be larger than what there is of memory; it is not to be
   written. `dtype` is what the program expects; otherwise FB_BAD_ARGUMENT. `array` gets what it is: `strides` are NULL, or
   those of an array whose first index runs fastest. It stays as it is when the data set is put again, deleted, or the run
   closed, until fb_free(array.data), which frees its shape, too. No checksums are compared, and small data sets are copied.
   FB_BAD_ARGUMENT for a run on another host. */
fb_status fb_map(fb_run *run,
                 const char *name,
                 int64_t set,
                 fb_dtype dtype,
                 fb_array *array);

/* Reads a part of a data set: from `offset` on, along each axis as many elements as `array` has, every
   `step`-th (NULL: every one). The rank of `array` is that of the data set. */
fb_status fb_get_part(fb_run *run,
                      const char *name,
                      int64_t set,
                      const int64_t *offset,
                      const int64_t *step,
                      const fb_array *array);

/* Describes a data set. */
fb_status fb_dataset_info(fb_run *run, const char *name, int64_t set, fb_info *info);

/* Describes the data sets whose names match a glob such as "field*", of one set or FB_ALL_SETS, by
   name and set. Free `infos` with fb_free. */
fb_status fb_list(fb_run *run, const char *pattern, int64_t set, fb_info **infos, int64_t *count);

/* Deletes the data sets whose names match a glob, of one set or FB_ALL_SETS; `count` gets how many,
   and may be NULL. */
fb_status fb_delete(fb_run *run, const char *pattern, int64_t set, int64_t *count);

/* Renames a data set with all its sets; `count` gets how many, and may be NULL. */
fb_status fb_rename(fb_run *run, const char *from, const char *to, int64_t *count);

/* Copies a data set with all its sets; `count` gets how many, and may be NULL. */
fb_status fb_copy(fb_run *run, const char *from, const char *to, int64_t *count);

/* --- attributes ---------------------------------------------------------------------------- */

/* What has attributes. Made by fb_of_run, fb_of_dataset, fb_of_table and fb_of_array. */
typedef struct {
    /* The run, for its own attributes, those of a data set or of a table; else NULL. */
    fb_run *run;
    /* The snapshot, for those of one of its arrays; else NULL. */
    fb_snapshot *snapshot;
    /* Name of the data set, the table or the array; NULL: the run itself. */
    const char *name;
    /* Set number of the data set; FB_TABLE: it is a table. */
    int64_t set;
} fb_object;

/* Sets an attribute to a number, a truth value, a text, or an array of them.

   A text is an array of FB_STR of one dimension, which counts its bytes, several are one of two. A single number is kept as
   the number it is, an array with its dtype and shape, up to 64 KiB. Attributes of an array of a snapshot are set behind
   its put, before the end of the snapshot; those that stand for elements, such as _FillValue, take its dtype. */
fb_status fb_attr_put(fb_object of,
                      const char *key,
                      const fb_array *value);

/* Reads an attribute into `value`, whose shape is that of the attribute (fb_attr_info tells it).

   Its dtype may be another one where the numbers stay what they are: 3 goes into FB_F64, 3.0 not into FB_I64; a real number
   is rounded to FB_F32. A text may have more room than it needs; the rest gets zeros. */
fb_status fb_attr_get(fb_object of,
                      const char *key,
                      const fb_array *value);

/* Describes an attribute: its name, and its dtype and shape as an array. The dtype is 0 when it is neither a number nor a
   text nor an array, but what Python keeps beside these; fb_attr_get_json reads it. */
fb_status fb_attr_info(fb_object of,
                       const char *key,
                       fb_info *info);

/* Sets an attribute to a real number. */
fb_status fb_attr_set_f64(fb_object of, const char *key, double value);

/* Sets an attribute to an integer. */
fb_status fb_attr_set_i64(fb_object of, const char *key, int64_t value);

/* Sets an attribute to a text. */
fb_status fb_attr_set_str(fb_object of, const char *key, const char *value);

/* Sets several attributes of any kind: a JSON object. Null values delete; what is not named stays. */
fb_status fb_attr_set_json(fb_object of, const char *json);

/* Reads an attribute that is a real number or an integer; an integer that a double would round is FB_BAD_ARGUMENT. */
fb_status fb_attr_get_f64(fb_object of,
                          const char *key,
                          double *value);

/* Reads an attribute that is an integer or a truth value (1 or 0); a real number, and an integer of 2^63 and more, is
   FB_BAD_ARGUMENT. */
fb_status fb_attr_get_i64(fb_object of,
                          const char *key,
                          int64_t *value);

/* Reads an attribute that is a text; free it with fb_free. */
fb_status fb_attr_get_str(fb_object of, const char *key, char **value);

/* Reads all attributes as a JSON object; free it with fb_free. */
fb_status fb_attr_get_json(fb_object of, char **json);

/* Deletes an attribute; one that is not there is nothing. */
fb_status fb_attr_delete(fb_object of, const char *key);

/* Whether there is such an attribute: 1 or 0. */
fb_status fb_attr_has(fb_object of, const char *key, int *has);

/* --- snapshots being taken ----------------------------------------------------------------- */

/* The values along an axis of an array of a snapshot. They become an array of the snapshot, beside that one, under the
   name of the axis, and arrays beside each other share them. */
typedef struct {
    /* The axis: one of fb_piece_opts.dims. */
    const char *dim;
    /* One number for each index along the whole axis, of all ranks alike or of one: an array of one dimension; of FB_STR
       one of two, the last of which counts bytes. */
    const fb_array *values;
    /* Unit, such as "m"; NULL: none. */
    const char *units;
} fb_coord;

/* What may go with an array of a snapshot. Zero is the default of every member. */
typedef struct {
    /* sizeof(fb_piece_opts). */
    size_t size;
    /* Unit, such as "V/m"; NULL: none. */
    const char *units;
    /* Names of its axes, `ndims` of them: one for each index; of FB_STR the last extent, which counts bytes, has none.
       NULL: they have no names. */
    const char *const *dims;
    /* Number of names. */
    int ndims;
    /* Number of coordinates. */
    int ncoords;
    /* Values along some of the axes, `ncoords` of them. */
    const fb_coord *coords;
    /* Attributes as a JSON object; NULL: none. fb_attr_put adds others, up to the end of the snapshot. */
    const char *attrs;
    /* What holds where blocks of ranks lie over each other: that is an error, "refuse" (NULL); they have the same bits
       there, "equal" (other ones are a late FB_CONFLICT, and the highest rank's are kept); the highest rank's block counts,
       "last". All ranks say the same, with offset and global. The blocks wait in the buffer until the lower ranks have
       ended the snapshot. */
    const char *overlap;
    /* Of a mesh (fb_snapshot_mesh): the distance from one point to the next along each axis, as many numbers as there are
       axes; NULL: as coords have it, or 1. */
    const double *spacing;
    /* Of a mesh: where its first point is, a number for each axis; NULL: as coords have it, or 0. */
    const double *origin;
    /* Of a mesh: where in its cell the field is, as a part of the spacing from 0 to less than 1, a number for each
       axis; NULL: 0. */
    const double *position;
    /* The value of elements that no rank puts, one number or truth value, FB_ONE(&missing, FB_F64); NULL: the blocks of all
       ranks must cover the whole. Given with offset and global; it must be a value of the array's dtype, is kept as the
       attribute "_FillValue", and all ranks say the same. fb_run_stats counts such elements. */
    const fb_array *fill;
    /* "gzip": chunks of about a megabyte are compressed behind the program's back, by threads that run when nobody else
       wants the processor; every reader of HDF5 reads them. What does not become smaller by a twentieth, and less than
       64 KiB, is kept as it is. "zstd": faster; netCDF reads it, and h5py with the package hdf5plugin. "none": not. Not
       together with overlap. NULL: as fb_open_opts.compress says. */
    const char *compress;
    /* Keeps the array with less precision: FB_F64 as FB_F32 or FB_F16, FB_F32 as FB_F16, FB_C128 as FB_C64, and integers as
       shorter ones, if every value is one of these (FB_BAD_ARGUMENT names the first that is not). 0: as it is. It is converted
       while it is copied, rounded to the nearest; the attribute "original_dtype" has the dtype that it had. fb_run_stats counts
       finite values that are infinite there. Not of what is allocated. */
    fb_dtype as_dtype;
} fb_piece_opts;

/* Begins the snapshot of a step; `time` may be NAN. One at a time in a run.

   Snapshot N is the state after N steps, which is what fb_step finds before it gives step N. Put arrays into it, then
   end it. When that state is kept already, by Save or since fb_restart went back to it, all of that does nothing
   (fb_snapshot_taken). FB_CONFLICT if the step exists otherwise, if the loop has ended at another one
   (fb_position), or if another snapshot is not ended.
   The handle stays good for fb_snapshot_wait; free it with fb_snapshot_free, or leave it to
   fb_run_close. */
fb_status fb_snapshot_begin(fb_run *run,
                            int64_t step,
                            double time,
                            fb_snapshot **snapshot);

/* Whether the snapshot is taken; 0 in `taken` when its state is kept already, and nothing is to be done.

   Insert rows of histories without asking for it: behind fb_restart the rows of its head go when the program comes to
   that head, where the snapshot stands: rows that wait for a snapshot that is taken would not be made again. */
fb_status fb_snapshot_taken(fb_snapshot *snapshot,
                            int *taken);

/* Copies an array into the snapshot.

   With `offset` and `global` NULL it is the whole array, of one rank. With both it is this rank's block
   of an array of shape `global`. With FB_APPEND as `offset` it comes behind the arrays of lower ranks
   along axis 0 (particles); `global` is not looked at. The data may be changed when it returns. */
fb_status fb_snapshot_put(fb_snapshot *snapshot,
                          const char *name,
                          const fb_array *array,
                          const int64_t *offset,
                          const int64_t *global);

/* Copies an array into the snapshot, with a unit, names of its axes, coordinates and attributes; `opts` may be NULL.
   `offset` and `global` say where it lies in the whole array, as for fb_snapshot_put. Ranks say the same of an array, or
   one says it. FB_CONFLICT if an axis of that name has another coordinate, or another length, beside it. */
fb_status fb_snapshot_put_with(fb_snapshot *snapshot,
                               const char *name,
                               const fb_array *array,
                               const int64_t *offset,
                               const int64_t *global,
                               const fb_piece_opts *opts);

/* A place in the buffer for an array of the snapshot, to be filled in place: nothing is copied then.
   `array` says dtype and shape, and its `data` gets the place; `strides` are NULL, or those of an array whose first
   index runs fastest. It is good until the snapshot is ended, discarded or freed: its memory is used again then, and
   who writes there damages other arrays. Its content is undefined at first.
   `opts` may be NULL. FB_FULL if the policy is to drop and there is no room. */
fb_status fb_snapshot_allocate(fb_snapshot *snapshot,
                               const char *name,
                               fb_array *array,
                               const int64_t *offset,
                               const int64_t *global,
                               const fb_piece_opts *opts);

/* Ends the snapshot: it is buffered, that is, it survives the death of this process. Ending it twice
   does nothing; FB_CLOSED if it was discarded. */
fb_status fb_snapshot_end(fb_snapshot *snapshot);

/* Gives the snapshot up, as if it had never begun. After its end this does nothing. */
fb_status fb_snapshot_discard(fb_snapshot *snapshot);

/* Waits until the ended snapshot is durable on all ranks; FB_TIMEOUT after `timeout` seconds
   (FB_FOREVER: no limit). */
fb_status fb_snapshot_wait(fb_snapshot *snapshot, double timeout);

/* Frees a snapshot's handle; one that is not ended is discarded. NULL is nothing. */
fb_status fb_snapshot_free(fb_snapshot *snapshot);

/* Puts an array once a run: every snapshot that this rank takes from now on has it under that name.

   Of up to 4 KiB each snapshot has a copy; a larger one lies once in the run, as a data set, and the file of each snapshot
   has a link to it. The same bits again are nothing, also when the program is started anew, which says it again;
   FB_CONFLICT for others. With a `step` of 1 or more they take its place from that step on; 0: from the beginning. `opts`
   says units, dims and attrs, and may be NULL. One rank says it, the whole of it, or all say the same, between snapshots. */
fb_status fb_constant(fb_run *run,
                      const char *name,
                      const fb_array *array,
                      int64_t step,
                      const fb_piece_opts *opts);

/* --- meshes and particles of snapshots ----------------------------------------------------- */

/* A component of a mesh. */
typedef struct {
    /* Its name, such as "x"; NULL: the mesh is this one array. */
    const char *name;
    /* Its values. */
    const fb_array *values;
    /* Where in its cell this component is, a number for each axis; NULL: as fb_piece_opts.position says. */
    const double *position;
} fb_component;

/* A record of a species of particles, or a component of one. */
typedef struct {
    /* Its name: "position", "momentum", "weighting", "mass". */
    const char *name;
    /* Which component of it, such as "x"; NULL: the whole record. */
    const char *component;
    /* A number for each particle, of a whole record also up to three of them side by side, {n, 3}; or, without dimensions
       (FB_ONE), one number for all particles. */
    const fb_array *values;
    /* Unit, such as "kg m/s"; NULL: none. */
    const char *units;
    /* Attributes as a JSON object; NULL: none. */
    const char *attrs;
    /* Keeps an array with less precision, as fb_piece_opts.as_dtype does; 0: as it is. */
    fb_dtype as_dtype;
    /* How it is compressed, as fb_piece_opts.compress says; NULL: as fb_open_opts.compress does. */
    const char *compress;
} fb_record;

/* What may go with a species of particles. Zero is the default of every member. */
typedef struct {
    /* sizeof(fb_particles_opts). */
    size_t size;
    /* A record that is an integer for each particle, such as "id": in the file of the step the particles of all ranks lie in
       its order, whichever rank has them; equal ones in the order of ranks. Their arrays have the attribute "sorted_by". A
       species of more than a quarter of the ranks' buffers lies in the order of ranks, and the array "NAME/order" has the
       indices that put it in order. All ranks say the same. NULL: in the order of ranks. */
    const char *sort_by;
} fb_particles_opts;

/* Copies a field on a regular mesh into the snapshot: readers of openPMD, VTK and ParaView find it in the file of the step.

   The component "x" of the mesh "E" is the array "E_x" of the snapshot; a mesh that is one array has one component without
   a name. `opts` says units, dims, coords, attrs, overlap and as_dtype of all components, as for fb_snapshot_put_with, and where the
   points are: spacing, origin, position. Without dims the axes are x, y and z. `offset` and `global` as for
   fb_snapshot_put. FB_CONFLICT if components of one mesh are not on one grid; FB_BAD_ARGUMENT if readers cannot take it. */
fb_status fb_snapshot_mesh(fb_snapshot *snapshot,
                           const char *name,
                           const fb_component *components,
                           int ncomponents,
                           const int64_t *offset,
                           const int64_t *global,
                           const fb_piece_opts *opts);

/* A place in the buffer for a field on a regular mesh, or for one `component` of it (NULL: the mesh is one array), to be
   filled in place, as fb_snapshot_allocate gives it. All else as for fb_snapshot_mesh. */
fb_status fb_snapshot_allocate_mesh(fb_snapshot *snapshot,
                                    const char *name,
                                    const char *component,
                                    fb_array *array,
                                    const int64_t *offset,
                                    const int64_t *global,
                                    const fb_piece_opts *opts);

/* Copies a species of particles into the snapshot: readers of openPMD, VTK and ParaView find it in the file of the step.

   The component "x" of the record "position" of "electrons" is the array "electrons/position/x" of the snapshot. Each rank
   gives its own particles: `offset` is FB_APPEND, or the index of the first one, one number, and `global` the number of
   all; both NULL: they are all there are. FB_BAD_ARGUMENT if readers cannot take it. */
fb_status fb_snapshot_particles(fb_snapshot *snapshot,
                                const char *name,
                                const fb_record *records,
                                int nrecords,
                                const int64_t *offset,
                                const int64_t *global);

/* As fb_snapshot_particles, in an order that `opts` says; NULL: none. */
fb_status fb_snapshot_particles_with(fb_snapshot *snapshot,
                                     const char *name,
                                     const fb_record *records,
                                     int nrecords,
                                     const int64_t *offset,
                                     const int64_t *global,
                                     const fb_particles_opts *opts);

/* A place in the buffer for a `record` of a species of particles, or for one `component` of it (NULL: the whole record),
   to be filled in place, as fb_snapshot_allocate gives it; `opts` says units and attrs. All else as for
   fb_snapshot_particles, which takes the records that are one number for all, and in whose order these lie, too, if the
   species was put with one before. */
fb_status fb_snapshot_allocate_particles(fb_snapshot *snapshot,
                                         const char *name,
                                         const char *record,
                                         const char *component,
                                         fb_array *array,
                                         const int64_t *offset,
                                         const int64_t *global,
                                         const fb_piece_opts *opts);

/* --- complete snapshots -------------------------------------------------------------------- */

/* A step marked as restart point. */
typedef struct {
    /* Its tag, or "". */
    char tag[FB_NAME_ROOM];
    /* Its number, from 1. */
    int64_t id;
    /* The checkpoint before, on the way the run took; 0: none. */
    int64_t parent;
    /* The step. */
    int64_t step;
    /* Time of the step; NAN when none was given. */
    double time;
    /* Whether its step is in the run still, so that fb_restart_from can go back to it. */
    int kept;
} fb_checkpoint_info;

/* What a complete snapshot is. */
typedef struct {
    /* sizeof(fb_step_info), set before the call. */
    size_t size;
    /* Its number. */
    int64_t step;
    /* Its time; NAN when none was given. */
    double time;
    /* Bytes of its arrays. */
    int64_t nbytes;
    /* Whether the run had come to its end (of a snapshot that fb_restart gave): nothing is left to do. */
    int finished;
} fb_step_info;

/* What the values of an array of a snapshot come to; of complex numbers their absolute values. Integers beyond 2^53 are
   rounded here. */
typedef struct {
    /* sizeof(fb_array_stats), set before the call. */
    size_t size;
    /* The least value; NAN where there is none. */
    double min;
    /* The greatest value; NAN where there is none. */
    double max;
    /* The mean of those that are numbers; NAN where there is none. */
    double mean;
    /* How many are not a number: they count for none of the others. */
    int64_t nans;
} fb_array_stats;

/* The numbers of the complete snapshots, ascending; free `steps` with fb_free. A single rank sees all
   that it ended (this waits for the disk); of several ranks, what is durable. */
fb_status fb_snapshots(fb_run *run, int64_t **steps, int64_t *count);

/* The complete snapshot of a step; FB_NOT_FOUND names the nearest ones. Free it with
   fb_snapshot_free. */
fb_status fb_snapshot_at(fb_run *run, int64_t step, fb_snapshot **snapshot);

/* The last complete snapshot; NULL when there is none. Free it with fb_snapshot_free. */
fb_status fb_snapshot_last(fb_run *run, fb_snapshot **snapshot);

/* Goes back to the last complete step: parameters take their values of that step, later rows of
   histories are removed; go on with fb_steps_from(run, snapshot). `snapshot` gets NULL when there is
   none, which fb_steps_from takes, too: it begins at 0. Snapshots that `forebay repair` marked as
   damaged are passed over (fb_snapshot_passed), and their numbers are free. Free the snapshot with
   fb_snapshot_free. */
fb_status fb_restart(fb_run *run, fb_snapshot **snapshot);

/* Goes back to the last complete step, as fb_restart does, and fails with FB_CORRUPT when a damaged
   snapshot would have to be passed over, with FB_CONFLICT when arrays of the step were kept with less precision
   (fb_piece_opts.as_dtype). Free the snapshot with fb_snapshot_free. */
fb_status fb_restart_strict(fb_run *run, fb_snapshot **snapshot);

/* Goes back to the step of the checkpoint `tag`: parameters take their values of that step, later rows
   of histories are removed. Later snapshots are listed no more, their files stay in the run's
   directory. FB_NOT_FOUND names the checkpoints there are. Free the snapshot with fb_snapshot_free. */
fb_status fb_restart_from(fb_run *run, const char *tag, fb_snapshot **snapshot);

/* Gives a complete snapshot up: it is listed no more, its file goes, and its number is free. `dropped`
   gets whether there was one, and may be NULL. A rank that is to write the number again calls it, too. */
fb_status fb_drop(fb_run *run, int64_t step, int *dropped);

/* Puts complete snapshots from `first` to `last` together, both among them (INT64_MIN and INT64_MAX: all), as far as they
   can be: small ones of one layout that follow each other become one file of stacked arrays. They are read, listed and
   restarted from as before. `packed` gets how many lie in packs now that did not before, and may be NULL. `single` gets how
   many stay in files of their own, and may be NULL; `forebay pack` says why. FB_FULL when the disk has no room for both, with
   nothing lost. */
fb_status fb_pack(fb_run *run,
                  int64_t first,
                  int64_t last,
                  int64_t *packed,
                  int64_t *single);

/* Marks the last ended step as a restart point under a tag (NULL: none); `step` gets its number, and
   may be NULL. */
fb_status fb_checkpoint(fb_run *run, const char *tag, int64_t *step);

/* The checkpoints, in the order they were made; free them, in one piece, with fb_free. */
fb_status fb_checkpoints(fb_run *run, fb_checkpoint_info **checkpoints, int64_t *count);

/* Number, time and size of a complete snapshot. */
fb_status fb_snapshot_step(fb_snapshot *snapshot, fb_step_info *info);

/* The values of the parameters when it was taken, as a JSON object; free it with fb_free. */
fb_status fb_snapshot_parameters(fb_snapshot *snapshot, char **json);

/* The numbers of the damaged snapshots that fb_restart passed over to come to this one; free them with
   fb_free. */
fb_status fb_snapshot_passed(fb_snapshot *snapshot, int64_t **steps, int64_t *count);

/* The names of its arrays; free them, in one piece, with fb_free. */
fb_status fb_snapshot_names(fb_snapshot *snapshot, char ***names, int64_t *count);

/* Describes one of its arrays. */
fb_status fb_snapshot_info(fb_snapshot *snapshot, const char *name, fb_info *info);

/* The least, the greatest and the mean value of one of its arrays, without reading it: they were counted when it was
   written. FB_NOT_FOUND of truth values, texts and bytes, and in snapshots of earlier versions. */
fb_status fb_snapshot_stats(fb_snapshot *snapshot,
                            const char *name,
                            fb_array_stats *stats);

/* The names of the axes of one of its arrays, in the order of the indices; none when they have no names. Free them, in one
   piece, with fb_free. */
fb_status fb_snapshot_dims(fb_snapshot *snapshot,
                           const char *name,
                           char ***dims,
                           int64_t *count);

/* The coordinates of one of its arrays, one for each axis that has a name: the names of the arrays that hold them, which
   fb_snapshot_info and fb_snapshot_get take; "" where an axis has none. Free them, in one piece, with fb_free. */
fb_status fb_snapshot_coords(fb_snapshot *snapshot,
                             const char *name,
                             char ***coords,
                             int64_t *count);

/* Reads one of its arrays. Dtype and shape must be those stored. */
fb_status fb_snapshot_get(fb_snapshot *snapshot, const char *name, const fb_array *array);

/* One of its arrays as memory that is read when it is touched, as fb_map gives a data set. While it is mapped the file of
   the snapshot is kept. */
fb_status fb_snapshot_map(fb_snapshot *snapshot,
                          const char *name,
                          fb_dtype dtype,
                          fb_array *array);

/* Reads a part of one of its arrays, as fb_get_part does. */
fb_status fb_snapshot_get_part(fb_snapshot *snapshot,
                               const char *name,
                               const int64_t *offset,
                               const int64_t *step,
                               const fb_array *array);

/* --- one array over many steps ------------------------------------------------------------- */

/* What may go with a series. Zero is the default of every member. */
typedef struct {
    /* sizeof(fb_series_opts). */
    size_t size;
    /* The element with which the part of each array begins, one index an axis; NULL: the arrays are wanted whole. */
    const int64_t *offset;
    /* Every how many-th element is taken along each axis; NULL: every one. */
    const int64_t *step;
    /* 1: NaN stands for the array of a step that has none, if it is of floats or complex numbers; 0: that is FB_NOT_FOUND. */
    int missing_nan;
} fb_series_opts;

/* Reads one array of the snapshots over time, or the same part of it at each step: the first axis of `array` is that of
   the steps, the others are those of the part. `steps`: `count` numbers of snapshots, in the order in which they are
   wanted; NULL: all complete ones, as fb_snapshots lists them. `opts` may be NULL.
   FB_CONFLICT if the arrays differ in dtype or shape; the text names the first step at which they do. */
fb_status fb_series(fb_run *run,
                    const char *name,
                    const int64_t *steps,
                    int64_t count,
                    const fb_array *array,
                    const fb_series_opts *opts);

/* --- arguments of calls and of SQL --------------------------------------------------------- */

/* An argument of a call: one for each parameter of the signature, in its order, results included. Make
   it with the macros FB_IN_F64 and their like. */
typedef struct {
    /* FB_SCALAR, FB_ARRAY, FB_TEXT, FB_RAW, FB_REFERENCE or FB_FILE. */
    int kind;
    /* FB_IN, FB_OUT or FB_INOUT. */
    int direction;
    /* Type of the scalar or of the elements. */
    fb_dtype dtype;
    /* FB_ROW_MAJOR or FB_COLUMN_MAJOR, of an array without strides. */
    fb_order order;
    /* Number of dimensions of an array. */
    int ndim;
    /* First element of an array; text; path of a file; the variable of a scalar that comes back. */
    void *data;
    /* Of FB_REFERENCE: an array that a server holds, in the place of an array. */
    fb_ref *reference;
    /* Gets the number of bytes of a text or of bytes that come back; may be NULL. */
    int64_t *length;
    /* Value of a scalar that only goes. */
    fb_scalar value;
    /* Extents of an array; number of bytes of FB_RAW, and room for bytes or text that come back. */
    int64_t shape[FB_MAX_RANK];
    /* Bytes from an element to its neighbour along each axis; all zero: dense in `order`. */
    int64_t strides[FB_MAX_RANK];
} fb_arg;

/* --- tables -------------------------------------------------------------------------------- */

/* A column of a table to be made. */
typedef struct {
    /* Its name. */
    const char *name;
    /* Type of its values: any but the complex ones. */
    fb_dtype dtype;
    /* Unit, such as "kg"; NULL: none. */
    const char *units;
    /* Number of axes of the array that each value is, of numbers or truth values; 0: a single value. */
    int ndim;
    /* Extents of that array, `ndim` of them. */
    const int64_t *shape;
} fb_column;

/* How a table is made. Zero is the default of every member. */
typedef struct {
    /* sizeof(fb_table_opts). */
    size_t size;
    /* Whether rows belong to the step they were made in and go when a restart goes back behind it. */
    int history;
} fb_table_opts;

/* A column of a table. */
typedef struct {
    /* Its name. */
    char name[FB_NAME_ROOM];
    /* Its unit, or "". */
    char units[FB_UNIT_ROOM];
    /* Type of its values, or of the elements of its arrays. */
    fb_dtype dtype;
    /* Number of axes of the array that each value is; 0: a single value. */
    int ndim;
    /* Extents of that array, `ndim` of them. */
    int64_t shape[FB_MAX_RANK];
} fb_column_info;

/* Values of one column. */
typedef struct {
    /* Name of the column. */
    const char *column;
    /* One value for each row: an array of one dimension, of FB_STR and FB_BYTES of two, the last of which counts
       bytes. Integers and reals of any width go into a column of their kind. Of a column of arrays the first axis is
       that of the rows, and the others are those of each array; of one row the first one may be absent. */
    const fb_array *array;
    /* Of a column of texts, in the place of an array: one for each row, NULL: no value. Both NULL: no value in any
       row. */
    const char *const *texts;
} fb_values;

/* Creates a table with its columns, or opens it when `columns` is NULL or says the same. `opts` may
   be NULL. Free it with fb_table_free. */
fb_status fb_table_open(fb_run *run,
                        const char *name,
                        const fb_column *columns,
                        int ncolumns,
                        const fb_table_opts *opts,
                        fb_table **table);

/* Frees the handle; the table stays in the run. NULL is nothing. */
fb_status fb_table_free(fb_table *table);

/* The names of the run's tables; free them, in one piece, with fb_free. */
fb_status fb_tables(fb_run *run, char ***names, int64_t *count);

/* The columns of a table; free them, in one piece, with fb_free. */
fb_status fb_table_columns(fb_table *table, fb_column_info **columns, int64_t *count);

/* Adds `nrows` rows: `nvalues` columns with `nrows` values each. Columns that are not named have no
   value. Pipelined; durable after fb_flush. */
fb_status fb_table_insert(fb_table *table, int64_t nrows, const fb_values *values, int nvalues);

/* Reads rows, in the order they came, where an SQL condition such as "mass > ?" holds (NULL: all):
   all columns (NULL, 0) or those named. The values of the `?` are `args`, made with FB_IN_F64,
   FB_IN_I64 and FB_IN_STR. Free the rows with fb_rows_free. */
fb_status fb_table_select(fb_table *table,
                          const char *const *columns,
                          int ncolumns,
                          const char *condition,
                          const fb_arg *args,
                          int nargs,
                          fb_rows **rows);

/* Makes an index of columns, unless there is one: conditions and SQL that ask for values of the first of them (and of
   the next) find their rows without reading all. Each insert takes a little longer. It is kept with the run. */
fb_status fb_table_index(fb_table *table,
                         const char *const *columns,
                         int ncolumns);

/* Changes the rows where a condition holds: each column named gets the one value given. `count` gets
   how many rows, and may be NULL. */
fb_status fb_table_update(fb_table *table,
                          const fb_values *values,
                          int nvalues,
                          const char *condition,
                          const fb_arg *args,
                          int nargs,
                          int64_t *count);

/* Removes the rows where a condition holds (NULL: all); `count` gets how many, and may be NULL. */
fb_status fb_table_delete(fb_table *table,
                          const char *condition,
                          const fb_arg *args,
                          int nargs,
                          int64_t *count);

/* The number of rows. */
fb_status fb_table_count(fb_table *table, int64_t *count);

/* Reads the points of a history: the columns step and t, and one for each curve, NaN where it has no point at that step
   and t. Free the rows with fb_rows_free. */
fb_status fb_history(fb_run *run,
                     const char *title,
                     fb_rows **rows);

/* Reads with SQL; statements that write are refused. Free the rows with fb_rows_free. */
fb_status fb_sql(fb_run *run, const char *query, const fb_arg *args, int nargs, fb_rows **rows);

/* --- rows of a query ----------------------------------------------------------------------- */

/* Frees rows. NULL is nothing. */
fb_status fb_rows_free(fb_rows *rows);

/* The number of rows and of columns; either may be NULL. */
fb_status fb_rows_count(fb_rows *rows, int64_t *nrows, int *ncolumns);

/* The name of a column, counted from 0; good until the rows are freed. */
fb_status fb_rows_name(fb_rows *rows, int column, const char **name);

/* A column as real numbers, one for each row; what has no value is NAN. */
fb_status fb_rows_f64(fb_rows *rows, int column, double *values);

/* A column as integers without a sign, one for each row; every row must have one, and none below 0. */
fb_status fb_rows_u64(fb_rows *rows, int column, uint64_t *values);

/* A column as integers, one for each row; every row must have one. */
fb_status fb_rows_i64(fb_rows *rows, int column, int64_t *values);

/* A column as texts, one pointer for each row, good until the rows are freed; NULL where there is no
   value. */
fb_status fb_rows_str(fb_rows *rows, int column, const char **values);

/* A column of arrays as one array: the first axis is that of the rows, the others are those of each array; their extents
   and the dtype are those of the column. What has no value is NAN in a column of reals, and an error in others. Of bytes
   that SQL gave there have to be as many as the array says. */
fb_status fb_rows_array(fb_rows *rows,
                        int column,
                        const fb_array *values);

/* One cell as bytes, good until the rows are freed. */
fb_status fb_rows_bytes(fb_rows *rows, int64_t row, int column, const void **bytes, int64_t *count);

/* Whether a cell has no value: 1 or 0. A NaN has none. */
fb_status fb_rows_is_null(fb_rows *rows, int64_t row, int column, int *is_null);

/* --- watching and steering ----------------------------------------------------------------- */

/* How the next loop of fb_step goes. Zero is the default of every member. */
typedef struct {
    /* sizeof(fb_loop_opts). */
    size_t size;
    /* The first step, by its number; 0: where fb_steps_from has said before, else the first of all. */
    int64_t start;
    /* The first step, by the snapshot that fb_restart gave; NULL: as `start` says. */
    const fb_snapshot *from;
    /* Seconds since the process began by which everything is to be on disk, or FB_JOB_END; 0: as the
       environment variable FOREBAY_TIME_LIMIT says, none without it. */
    double time_limit;
    /* 1: SIGTERM does what it did. 0: where it would end the program, it saves and ends the run instead. */
    int keep_sigterm;
    /* From one head to the next; 0: 1. The number at which the loop ends must be one of them. */
    int64_t stride;
} fb_loop_opts;

/* A function of the program that the loop head calls, in its thread: with the step about to be computed
   and what was given as `user`. What it returns other than FB_OK is shown to whoever pressed the button,
   with the text of fb_last_error; the run goes on. It must return: no longjmp, no C++ exception. */
typedef fb_status (*fb_callback)(int64_t step, void *user);

/* When a state is kept. Zero is the default of every member. */
typedef struct {
    /* sizeof(fb_save_opts). */
    size_t size;
    /* Keeps the state at each head whose number it divides, and where the loop ends; 0: only at Save, and where
       something ends the loop from outside. */
    int64_t every;
} fb_save_opts;

/* How a diagram looks. Labels carry the unit in brackets: "x [m]". Zero is the default of every member. */
typedef struct {
    /* sizeof(fb_diagram_opts). */
    size_t size;
    /* "curve" (NULL), "scatter" or "history". */
    const char *kind;
    /* Label of the abscissa; NULL: "x". */
    const char *x;
    /* Label of the ordinate; NULL: "y". */
    const char *y;
    /* Label of the value, for fields; NULL: none. */
    const char *v;
    /* Scale of the abscissa: "linear" (NULL) or "log". */
    const char *xscale;
    /* Scale of the ordinate: "linear" (NULL) or "log". */
    const char *yscale;
    /* Steps between updates, as a hint; 0: 1. */
    uint32_t every;
    /* What becomes of the values that several ranks append to a history at one step and abscissa: "sum", "min",
       "max" or "mean" of all; NULL: the value of the lowest rank is kept. */
    const char *reduce;
} fb_diagram_opts;

/* The loop head: `while (fb_step(run, &step, nsteps) > 0)`.

   Returns 1 with the step about to be computed in `step`, 0 at the end or when somebody pressed Quit, with the
   number of the state that is there in `step` (`nsteps`, or less), and a negative status when it fails
   (fb_last_error tells). Run, Step, Stop, Save and Quit act here, and changed parameters get their values
   here; it waits while the run is held. Steps count from 0, or from where fb_steps_from says, to `nsteps` - 1. With
   FB_NO_END the loop goes on until somebody ends it: fb_finish, Quit, SIGTERM, the time limit.

   Behind the 0 of a loop the next call begins another one: FB_CONFLICT when that begins below the state that is
   there, so say where it goes on with fb_steps_with. After Quit, SIGTERM and the time limit it is 0 again. */
int fb_step(fb_run *run,
            int64_t *step,
            int64_t nsteps);

/* The next loop of fb_step begins at the snapshot that fb_restart gave; NULL is the first start, at 0. It begins
   anew even if one has ended. FB_CONFLICT, from fb_step, when the run went back to another step. */
fb_status fb_steps_from(fb_run *run,
                        const fb_snapshot *from);

/* The number of the state that the program holds, which is how many steps are behind it: that of the head in the
   body of a loop, where the loop ended behind it, where fb_restart went back to before it; -1 before anybody
   has said it. */
fb_status fb_position(fb_run *run,
                      int64_t *position);

/* Begins a loop of fb_step anew, as fb_steps_from does, with options; NULL is all defaults.

   When the time limit comes near, and when SIGTERM comes, all ranks save, mark a checkpoint and end the
   loop at the same step: fb_step returns 0, fb_ended_by tells why, and fb_restart goes on from there. */
fb_status fb_steps_with(fb_run *run, const fb_loop_opts *opts);

/* Why the loop was ended before its last step: "quit", "SIGTERM", "time limit", or the reason given to
   `forebay steer RUN end`; `why` is NULL when it was not. Free it with fb_free. */
fb_status fb_ended_by(fb_run *run, char **why);

/* The head for programs that go through their steps by themselves and give a call-back: returns, where the state of
   `step` is there, 1 to go on, 0 to end, and a negative status when it fails (fb_last_error tells).

   What fb_step does at a head is done here. Numbers grow; the same one again answers the same and does nothing. 0,
   from then on, once somebody pressed Quit, the time was over, or fb_finish was called. FB_CONFLICT when numbers do
   not grow, or lie below the step that fb_restart went back to. */
int fb_reach(fb_run *run,
             int64_t step);

/* The loop ends at its next head, as if that were its last one: for a loop without an end, or one that has
   converged. Call it in all ranks at the same step. FB_CONFLICT when no loop is under way. */
fb_status fb_finish(fb_run *run);

/* How the program keeps a state: `function` takes the snapshot of the number that it is given. `opts` may be NULL.

   The loop head calls it, before that step is computed: where somebody pressed Save, where something ends the loop
   from outside, and where `opts` says; so the body needs no snapshot. It is called once for each state, and with
   `every` again where the loop goes on behind fb_restart: there the snapshot stands, and rows of histories are made
   again. What it returns at a Save is shown to whoever pressed the button, and the run goes on; at the other heads
   fb_step returns it. */
fb_status fb_on_save(fb_run *run,
                     fb_callback function,
                     void *user,
                     const fb_save_opts *opts);

/* A button of the program's own, with what stands on it. */
fb_status fb_on_command(fb_run *run, const char *name, fb_callback function, void *user);

/* A message for the people who watch; `level` is FB_DEBUG, FB_INFO, FB_WARNING or FB_ERROR. */
fb_status fb_message(fb_run *run, fb_level level, const char *text);

/* Starts the run's page if it is not there. Gives the link of who may steer and of who may only look;
   either may be NULL; free them with fb_free. */
fb_status fb_monitor(fb_run *run, char **operator_url, char **viewer_url);

/* The link that a program prints: the one of who may steer when standard output is a terminal, otherwise
   the one of who may only look, for what is printed may stand in a log that others read. Starts the page
   if it is not there; free the link with fb_free. */
fb_status fb_monitor_url(fb_run *run, char **url);

/* Declares a diagram; `opts` may be NULL. Free it with fb_diagram_free, or leave it to fb_run_close. */
fb_status fb_diagram_open(fb_run *run, const char *title, const fb_diagram_opts *opts, fb_diagram **diagram);

/* Frees the handle; the diagram stays. NULL is nothing. */
fb_status fb_diagram_free(fb_diagram *diagram);

/* Replaces the points of a curve or a cloud of points (`curve` NULL: the only one) with `n` points;
   thinned while nobody watches, so that it costs next to nothing then. */
fb_status fb_curve_update(fb_diagram *diagram,
                          const char *curve,
                          int64_t n,
                          const double *x,
                          const double *y);

/* Adds a point at `t` to each of the `n` curves named; always recorded. */
fb_status fb_history_append(fb_diagram *diagram,
                            double t,
                            int n,
                            const char *const *names,
                            const double *values);

/* Whether an update of a curve would be copied just now (1 or 0): spares the work of making its
   points when nobody would see them. */
fb_status fb_diagram_wants(fb_diagram *diagram, const char *curve, int *wants);

/* --- parameters ---------------------------------------------------------------------------- */

/* What may go with a parameter. Zero is the default of every member. */
typedef struct {
    /* sizeof(fb_parameter_opts). */
    size_t size;
    /* Least value; NULL: none. */
    const double *min;
    /* Greatest value; NULL: none. */
    const double *max;
    /* Unit; NULL: none. */
    const char *units;
    /* A sentence of explanation; NULL: none. */
    const char *help;
} fb_parameter_opts;

/* Declares a steerable parameter that is a real number: the variable `value` holds its first value and
   gets each new one, in fb_step (and fb_restart) only, so that it changes at a step boundary and at the
   same step on all ranks. The variable must live until the run is closed. `opts` may be NULL. */
fb_status fb_parameter_f64(fb_run *run, const char *name, double *value, const fb_parameter_opts *opts);

/* Declares a steerable parameter that is an integer: the variable `value` holds its first value and
   gets each new one, in fb_step (and fb_restart) only. It must live until the run is closed. `opts` may
   be NULL. */
fb_status fb_parameter_i64(fb_run *run, const char *name, int64_t *value, const fb_parameter_opts *opts);

/* Declares a steerable parameter that is a truth value, 0 or 1: the variable `value` holds its first
   value and gets each new one, in fb_step (and fb_restart) only. It must live until the run is closed.
   `opts` may be NULL. */
fb_status fb_parameter_bool(fb_run *run, const char *name, int *value, const fb_parameter_opts *opts);

/* Declares a steerable parameter that is a text: the variable `value` holds its first value and gets
   each new one, in fb_step (and fb_restart) only. It has room for `capacity` bytes, the zero at its end
   included, and must live until the run is closed. `opts` may be NULL. */
fb_status fb_parameter_str(fb_run *run,
                           const char *name,
                           char *value,
                           size_t capacity,
                           const fb_parameter_opts *opts);

/* --- calls --------------------------------------------------------------------------------- */

/* A call that has failed. */
typedef struct {
    /* sizeof(fb_failure), set before the call. */
    size_t size;
    /* What kind of failure it is. */
    fb_status code;
    /* Pid of the server that had it; 0 where it has reached none. */
    uint32_t server_pid;
    /* Seconds since 1970 at which it was known. */
    double when;
    /* Name of that server. */
    char server[FB_NAME_ROOM];
    /* The service that was called. */
    char service[FB_NAME_ROOM];
    /* The beginning of the text of its error. */
    char text[FB_TEXT_ROOM];
} fb_failure;

/* Connects to the broker and takes its table of services.

   `broker` is the path of its socket, or its address "fb://HOST:PORT"; NULL: FOREBAY_BROKER, else the
   node's agent, which is started when there is none. Close it with fb_disconnect. */
fb_status fb_connect(const char *broker, fb_client **client);

/* For how many seconds each call of the client waits for a service that nobody offers yet, and an array for
   a server to hold it; 0: not at all, FB_FOREVER: as long as it takes; at first as FOREBAY_PATIENCE says, 0
   without it. For programs that are started before their servers. */
fb_status fb_patience(fb_client *client, double seconds);

/* For how many seconds, from 1 to 3600, a server on another host may say nothing before it is lost and its calls go
   elsewhere; of the servers that the client reaches from now on; as FOREBAY_SILENCE says, or 10, if not
   said. One that computes, or receives what is sent to it, says once a second that it lives. */
fb_status fb_silence(fb_client *client,
                     double seconds);

/* Which server gets a call is decided by that rule: "least" (the default), where the call is over first, by what is known of
   how long calls of that size take there and of what is there already; "turns", each server in turn, whatever it has to
   do. Once a client, FB_CONFLICT after that; fb_place_with gives a function. */
fb_status fb_place_by(fb_client *client,
                      const char *rule);

/* A client like `client`, whose calls go to one server only: that of the name `server` (to any of them if several share it)
   or, when `server` is NULL, that of the process `pid`. Its arrays lie there, too. It shares the connections of
   `client`; close it with fb_disconnect. Its calls fail with FB_NO_SERVER when there is no such server that offers the service. */
fb_status fb_on(fb_client *client,
                const char *server,
                uint32_t pid,
                fb_client **tied);

/* Closes a client: its calls under way end with FB_CLOSED, whichever thread waits for them, and the arrays that servers
   hold for it are freed; what is left of both is to be freed still, which takes no time. One that fb_on made ends alone,
   and with the client that it was made of. FB_BAD_ARGUMENT in a function that is told the end of a call. NULL is nothing. */
fb_status fb_disconnect(fb_client *client);

/* Calls a service by name and waits for its results.

   `args` are as many as the signature has parameters, results included. Arrays that come back are
   filled in place; scalars and texts that come back are written when all went well. Fails with
   FB_NO_SERVER (nobody offers it), FB_BAD_ARGUMENT (before anything is sent), FB_REMOTE_ERROR (the
   service failed; the text is its own), FB_SERVER_LOST (and no other server could take over). */
fb_status fb_call(fb_client *client, const char *service, const fb_arg *args, int nargs);

/* Calls a service by name and waits for its results, at most `timeout` seconds: then the call is
   cancelled and FB_TIMEOUT returned. `args` and the other errors are those of fb_call. */
fb_status fb_call_within(fb_client *client,
                         const char *service,
                         const fb_arg *args,
                         int nargs,
                         double timeout);

/* Calls a service and returns at once. The arrays, texts and variables of `args` (not `args` itself)
   are the call's until fb_wait or fb_future_free. Free the future with fb_future_free. */
fb_status fb_call_async(fb_client *client,
                        const char *service,
                        const fb_arg *args,
                        int nargs,
                        fb_future **future);

/* Calls a service and returns at once, with a choice of how arguments are handed over. Free the future
   with fb_future_free.

   `transfer`: FB_TRANSFER_NOWAIT: arrays, texts and variables of `args` are the call's until fb_wait or
   fb_future_free, as with fb_call_async. FB_TRANSFER_WAIT: arrays and texts that go only are the
   caller's again when this returns, and a call whose server is lost after that fails with
   FB_SERVER_LOST. FB_TRANSFER_COPY: they are the caller's again, too, for they were copied: the call is
   issued again if its server is lost, and over the network it leaves while the caller does something
   else; FB_FULL when there is no room for copies. What comes back is the call's until fb_wait in any
   case. */
fb_status fb_call_async_as(fb_client *client,
                           const char *service,
                           const fb_arg *args,
                           int nargs,
                           int transfer,
                           fb_future **future);

/* The signatures of the services that are offered, by name, such as
   "axpy(in a:f64, in x:f64[n], inout y:f64[n])"; free them, in one piece, with fb_free. */
fb_status fb_services(fb_client *client, char ***signatures, int64_t *count);

/* The signature of a service; free it with fb_free. */
fb_status fb_signature(fb_client *client, const char *service, char **signature);

/* One of the last 1,000 calls of a client that have failed, counted from the newest: `index` 0, 1 and so on, until
   FB_NOT_FOUND. Calls that were given up are not among them, nor are tasks of a bag, which tells of its own. */
fb_status fb_failed(fb_client *client,
                    int64_t index,
                    fb_failure *failure);

/* --- which server gets a call -------------------------------------------------------------- */

/* A call that is to go somewhere. */
typedef struct {
    /* sizeof(fb_task_view) of the library. */
    size_t size;
    /* What is called. */
    const char *service;
    /* Bytes of its arrays. */
    uint64_t bytes;
    /* What it costs; 0 if its service does not say that. */
    uint64_t cost;
    /* How many calls of this service wait, this one among them. */
    int64_t waiting;
} fb_task_view;

/* A server that could get it. */
typedef struct {
    /* sizeof(fb_server_view) of the library. */
    size_t size;
    /* Its name, which others may share. */
    const char *name;
    /* Its process. */
    uint32_t pid;
    /* How many calls it works on at a time. */
    uint32_t workers;
    /* Calls of this client that are there. */
    uint32_t mine;
    /* Calls of others that were there when the broker was last asked; 0 of tasks of a bag. */
    uint32_t others;
    /* How many more it may have so that none waits there while another server idles. */
    uint32_t room;
    /* 1: what is there, of a bag, takes much longer than it should. */
    int is_late;
    /* Seconds that the call is expected to run there; less than 0 before any has. */
    double expected;
    /* Seconds that all calls of this client there are expected to run; less than 0 if the service does not say what its calls
       cost. */
    double ahead;
} fb_server_view;

/* Returns the index of the server that is to get the call, of `count` with the one first whose turn it is; -1: "least"
   decides. What is given is good until it returns. */
typedef int (*fb_placement_fn)(const fb_task_view *task, const fb_server_view *servers, int count, void *user);

/* Which server gets a call is decided by a function, which is called with `user`, once a client: FB_CONFLICT after that.

   It is called for a call in the thread that makes it, for a task of a bag in the thread that gives tasks and takes results
   or, meanwhile, in one of the library, and by several threads at once if several make calls. Nothing is locked then, and
   what it calls itself goes by "least". A task for which the server that it names has no room waits, and is asked for again. An
   index that is none is told on standard error the first time, and "least" decides. */
fb_status fb_place_with(fb_client *client,
                        fb_placement_fn function,
                        void *user);

/* --- calls under way ----------------------------------------------------------------------- */

/* Where the time of a call went. */
typedef struct {
    /* sizeof(fb_timing), set before the call. */
    size_t size;
    /* Seconds of checking, copying and sending, here. */
    double sending;
    /* Seconds of waiting at the server before it began. */
    double waiting;
    /* Seconds of running at the server. */
    double running;
    /* Seconds from the call to its results. */
    double total;
    /* How often it was issued again because a server was lost. */
    uint32_t reissued;
    /* Pid of the server that answered; 0 before. */
    uint32_t server_pid;
    /* Name of the server that answered. */
    char server[FB_NAME_ROOM];
} fb_timing;

/* Waits for a call; FB_TIMEOUT after `timeout` seconds (FB_FOREVER: no limit; 0: looks only), when it is
   still under way and may be waited for again. Results are written when it returns FB_OK. Waiting
   again for a call that is complete returns the same, in any thread. One thread at a time waits for a call:
   another one gets FB_CONFLICT meanwhile, and may look at the call with fb_probe and give it up with fb_cancel. */
fb_status fb_wait(fb_future *future, double timeout);

/* Waits for all of `count` calls. FB_TIMEOUT when not all are complete in time; else the status of the
   first that failed, or FB_OK. */
fb_status fb_wait_all(fb_future *const *futures, int count, double timeout);

/* Waits for one of `count` calls to be complete; `index` gets which. Its outcome is what fb_wait says. */
fb_status fb_wait_any(fb_future *const *futures, int count, double timeout, int *index);

/* Whether a call is complete (1 or 0), without waiting, in any thread. fb_wait then writes its results. */
fb_status fb_probe(fb_future *future, int *done);

/* Gives a call up: it is not begun any more, and a running service may notice. Waiting for it gives
   FB_CANCELLED, unless it was complete before; a thread that waits just now is told soon. */
fb_status fb_cancel(fb_future *future);

/* Which of `count` calls is complete, without waiting: `index` gets the first one, or -1. */
fb_status fb_probe_any(fb_future *const *futures, int count, int *index);

/* Gives `count` calls up, as fb_cancel does with one. */
fb_status fb_cancel_all(fb_future *const *futures, int count);

/* Where the time of a call went; whole when it is complete. */
fb_status fb_call_timing(fb_future *future, fb_timing *timing);

/* What the service of a call that has failed, or whose status is not 0, printed to `stream`, FB_STDOUT or FB_STDERR: the
   last 20 lines, of 4,096 bytes at most. `words` gets them, or an empty text; free it with fb_free.

   Servers in Python bring them, those of `forebay serve --idl`, and those made with `output` in fb_server_opts. What is
   printed belongs to the server's process: `others` gets how many other calls may have printed some of it, 0 if all is
   this call's. `others` may be NULL. */
fb_status fb_call_output(fb_future *future,
                         int stream,
                         char **words,
                         int64_t *others);

/* Frees a call; one that is not complete is cancelled, but for one of a group, which is the group's. A function that is
   told of its end just now is waited for, unless it is its own thread that frees; none is told any more. NULL is nothing. */
fb_status fb_future_free(fb_future *future);

/* --- the ends of calls, told --------------------------------------------------------------- */

/* Hears of the end of a call: `future` is complete, fb_wait for it returns at once. */
typedef void (*fb_done_fn)(fb_future *future, void *user);

/* Has `done` called with the call and `user` when it is complete: once, on a thread of the client, also when it was
   cancelled or its server is lost. `user` may be NULL.

   In it fb_wait for the call returns at once, as does fb_wait_all, and new calls may be made. A call that is waited for
   there keeps others from being told meanwhile. A call that is complete already is told soon, never before this
   returns. fb_disconnect is refused there; fb_future_free is not. */
fb_status fb_notify(fb_future *future,
                    fb_done_fn done,
                    void *user);

/* --- calls that run at the same time ------------------------------------------------------- */

/* Begins a group: calls that run at the same time and are waited for together. `parent`, which may be NULL, is a group
   that it stands within: the end of that ends this one first, if it is open still. Groups stand 64 deep at most. End it with
   fb_group_end. */
fb_status fb_group_begin(fb_client *client,
                         fb_group *parent,
                         fb_group **group);

/* Calls a service within a group and returns at once. The arrays, texts and variables of `args` are the call's until
   fb_group_end. `future`, which may be NULL, gets the call, to look at it, to wait for it alone or to be told its end;
   free it with fb_future_free before or behind the group's end, which waits for it in any case. */
fb_status fb_group_call(fb_group *group,
                        const char *service,
                        const fb_arg *args,
                        int nargs,
                        fb_future **future);

/* Waits for all calls of a group, and for those of groups within it that are open, which end first; then frees it and
   them. The status is that of the first call that failed, in the order in which they were made, and its text begins "call
   3 of 12 (dgesv): "; others run on. `index`, which may be NULL, gets which, counted from 0, or -1.

   FB_TIMEOUT with `index` -1 when a call is under way after `timeout` seconds: the group goes on, and may be ended again. */
fb_status fb_group_end(fb_group *group,
                       double timeout,
                       int64_t *index);

/* Gives up what is not complete of a group's calls, and of those of groups within it; no more calls are made in it. It is
   ended by fb_group_end still, which takes no time then and tells FB_CANCELLED if nothing failed before. */
fb_status fb_group_cancel(fb_group *group);

/* --- many calls of one service ------------------------------------------------------------- */

/* How a bag of tasks is worked on. Zero is the default of every member. */
typedef struct {
    /* sizeof(fb_bag_opts). */
    size_t size;
    /* Tasks at all servers together; 0: as many as keep the servers busy, which is learned. */
    int64_t window;
    /* Most bytes of arguments and results that are kept, at least 1 MiB; 0: 256 MiB, or an eighth of the memory if
       that is less. */
    uint64_t bytes;
    /* 1: results come as tasks end; 0: in the order of the input. */
    int unordered;
    /* 1: a task is given to one server at a time; 0: at the end, when nothing waits, a task whose server is slow or late
       goes to a second one, too, and the first end of the two counts. Never of a service with effects. */
    int no_tail;
} fb_bag_opts;

/* Gives the next task: sets as many of `args`, which are all zero, as the signature has parameters, as for fb_call,
   and returns their number; 0: there is no more, less: the bag is closed. `index` is that of the task. */
typedef int (*fb_bag_input_fn)(int64_t index, fb_arg *args, void *user);

/* Takes a task that is over: its results are in their places, or `outcome` says why not, and fb_last_error the text.
   Returns 0 to go on; anything else closes the bag. */
typedef int (*fb_bag_output_fn)(int64_t index, fb_status outcome, void *user);

/* How many tasks of a bag are where. */
typedef struct {
    /* sizeof(fb_bag_totals), set before the call. */
    size_t size;
    /* Tasks so far. */
    int64_t pulled;
    /* Those at servers. */
    int64_t under_way;
    /* Those that have results. */
    int64_t done;
    /* Those that have an error. */
    int64_t failed;
    /* Those that were given up. */
    int64_t cancelled;
} fb_bag_totals;

/* Begins a bag of tasks: many calls of one service, on what servers there are, those that come later too. `opts` may be
   NULL.

   A task goes to a server as soon as that has room for it, and to another one if that is lost, with the arguments that
   were copied, unless the service has effects. FB_NO_SERVER when nobody offers it, which is
   waited for as fb_patience says. One thread at a time gives tasks and takes results: another one gets FB_CONFLICT
   meanwhile, and may ask fb_bag_state and fb_bag_counts, and use fb_bag_cancel and fb_bag_free. Free it with
   fb_bag_free; after fb_disconnect it takes and gives nothing more: FB_CLOSED. */
fb_status fb_bag_open(fb_client *client,
                      const char *service,
                      const fb_bag_opts *opts,
                      fb_bag **bag);

/* Adds a task; `index`, which may be NULL, gets its number, counted from 0.

   `args` are those of fb_call: as many as the signature has parameters, results included. What goes is copied, and the
   caller's again when this returns; what comes is written where `args` point by the fb_bag_next that hands the task
   out. With FB_REF the task runs at the server that holds the array, tasks on one array in their order, and what they write
   stays there; it is over with FB_SERVER_LOST when that server is lost. What is wrong with the arguments is FB_BAD_ARGUMENT, and
   no task is added. When the bag is full of what is under way it is
   waited for, at most `timeout` seconds: FB_TIMEOUT. FB_FULL, at once, when it is full of results that nobody took, and
   when 65,536 tasks were not: take some with fb_bag_next. FB_CONFLICT after fb_bag_end. */
fb_status fb_bag_add(fb_bag *bag,
                     const fb_arg *args,
                     int nargs,
                     double timeout,
                     int64_t *index);

/* There are no more tasks; saying it again is nothing. */
fb_status fb_bag_end(fb_bag *bag);

/* Hands a task out that is over, at most `timeout` seconds later: `index` gets its number, and `outcome` its status,
   whose text is then that of fb_last_error. With FB_OK its results are in their places.

   In the order of the input, unless the bag is unordered. When all tasks were handed out after fb_bag_end `index` gets
   -1. FB_TIMEOUT when none is over in time; at once when none is under way and fb_bag_end was not said, which is
   FB_CONFLICT where it would be waited for ever. */
fb_status fb_bag_next(fb_bag *bag,
                      double timeout,
                      int64_t *index,
                      fb_status *outcome);

/* Works on all tasks in one call: `input` is asked for a task when one more is of use, and `output` is given each that
   is over. Both are called in this thread; `user` is theirs.

   What is wrong with arguments is the outcome of their task. FB_OK when the input ended and all tasks were given to
   `output`; FB_CANCELLED when one of the two closed the bag. */
fb_status fb_bag_run(fb_bag *bag,
                     fb_bag_input_fn input,
                     fb_bag_output_fn output,
                     void *user);

/* What the service printed to `stream` in the task that was handed out last, by fb_bag_next or to the function of
   fb_bag_run, if that has failed: as fb_call_output. Free the text with fb_free. `others` may be NULL. */
fb_status fb_bag_output(fb_bag *bag,
                        int stream,
                        char **words,
                        int64_t *others);

/* Where a task is: FB_TASK_OPEN, FB_TASK_DONE, FB_TASK_FAILED or FB_TASK_CANCELLED, in any thread. FB_NOT_FOUND when
   none of that number was added. */
fb_status fb_bag_state(fb_bag *bag,
                       int64_t index,
                       int *state);

/* How many tasks are where, in any thread. */
fb_status fb_bag_counts(fb_bag *bag, fb_bag_totals *totals);

/* Gives a task up, in any thread: unless it is over it is handed out with FB_CANCELLED, and is not begun any more.
   FB_NOT_FOUND when none of that number was added. */
fb_status fb_bag_cancel(fb_bag *bag,
                        int64_t index);

/* Frees a bag: tasks that are not over are given up, none begins any more, and what comes is the caller's again. A
   thread that waits for results is told FB_CLOSED. NULL is nothing. */
fb_status fb_bag_free(fb_bag *bag);

/* --- references ---------------------------------------------------------------------------- */

/* Where an array is to be held. Zero is the default of every member. */
typedef struct {
    /* sizeof(fb_ref_opts). */
    size_t size;
    /* Name of the server; NULL: the one that holds the client's newest array, the first in turn. */
    const char *server;
    /* The server that holds this one; NULL: as above. */
    fb_ref *with;
    /* Names of services with commas between them, where neither is said: a server that offers most of them, so that
       calls may be given the array; NULL: any. */
    const char *services;
} fb_ref_opts;

/* Makes an array on a server with this content; `data` NULL: of zeros. It lies there as it does here.

   `opts` may be NULL. The array lives until fb_ref_kill, fb_disconnect or the end of the program.
   Calls take it as FB_REF(ref) in the place of an array, and no data move. */
fb_status fb_ref_create(fb_client *client,
                        const fb_array *array,
                        const fb_ref_opts *opts,
                        fb_ref **reference);

/* Describes the array; its name is "". */
fb_status fb_ref_info(fb_ref *reference, fb_info *info);

/* The server that holds the array: its name (free it with fb_free) and pid; either may be NULL. */
fb_status fb_ref_server(fb_ref *reference, char **name, uint32_t *pid);

/* Writes the whole array. */
fb_status fb_ref_put(fb_ref *reference, const fb_array *array);

/* Writes a part of the array, which is picked as fb_get_part picks it. */
fb_status fb_ref_put_part(fb_ref *reference,
                          const int64_t *offset,
                          const int64_t *step,
                          const fb_array *array);

/* Reads the whole array. Dtype and shape must be its own. */
fb_status fb_ref_get(fb_ref *reference, const fb_array *array);

/* Reads a part of the array, which is picked as fb_get_part picks it. */
fb_status fb_ref_get_part(fb_ref *reference,
                          const int64_t *offset,
                          const int64_t *step,
                          const fb_array *array);

/* Ends the array on its server and frees the handle. NULL is nothing. A call under way that uses it
   keeps it until it is complete. */
fb_status fb_ref_kill(fb_ref *reference);

/* --- servers ------------------------------------------------------------------------------- */

/* How a server is made. Zero is the default of every member. */
typedef struct {
    /* sizeof(fb_server_opts). */
    size_t size;
    /* Its name, for people; NULL: "server". */
    const char *name;
    /* The path of the broker's socket, or its address "fb://HOST:PORT"; NULL: FOREBAY_BROKER, else the
       node's agent. */
    const char *broker;
    /* How many requests may be served at a time, each in a thread of its own; 0: one. */
    int workers;
    /* Most bytes of arrays it holds for clients (fb_ref_create); 0: half of the machine's memory. */
    uint64_t memory;
    /* Where it listens for clients of other hosts, "tcp://HOST:PORT"; NULL: at any port when its agent
       listens or is on another host. */
    const char *listen;
    /* 1: calls that fail, or whose status is not 0, bring what this process printed meanwhile (fb_call_output). From
       fb_server_create until it is freed standard output and standard error are pipes then, from which everything goes at once to where it went
       before: isatty says no. It needs the program forebay, which passes on what is left there if this process is killed. */
    int output;
    /* Where files of calls are kept while they are needed, and how much of them, "DIR:SIZE" as in "/scratch/me:50GiB".
       NULL: 10 GiB in the directory for temporary files. */
    const char *scratch;
} fb_server_opts;

/* A function that serves a call. It runs in a thread of the server; with several workers in several at a
   time. `request` gives the parameters in place (fb_request_array and its like). It returns FB_OK, or
   what fb_request_fail returned; any other status is told to the caller with the text of
   fb_last_error. It must return: no longjmp, no C++ exception. */
typedef fb_status (*fb_service_fn)(fb_request *request, void *user);

/* How busy a server is. */
typedef struct {
    /* sizeof(fb_server_load), set before the call. */
    size_t size;
    /* Requests being served. */
    uint32_t running;
    /* Requests waiting. */
    uint32_t queued;
    /* Requests served so far. */
    uint64_t served;
} fb_server_load;

/* Makes a server; `opts` may be NULL. Give it services, then start it with fb_serve or
   fb_server_start. Free it with fb_server_free. */
fb_status fb_server_create(const fb_server_opts *opts, fb_server **server);

/* Offers a function under a signature such as "axpy(in a:f64, in x:f64[n], inout y:f64[n])", before or
   after the start. A service with side effects, which must not run twice when a server is lost, has
   `effects` behind its parentheses. Behind that `cost 2*n*n + m` says how the work of a call grows with what it is passed:
   clients know by it which calls are long before one has run. */
fb_status fb_service_register(fb_server *server,
                              const char *signature,
                              fb_service_fn function,
                              void *user);

/* Offers a service of a running server no more. */
fb_status fb_service_remove(fb_server *server, const char *name);

/* Starts a server: when it returns, clients of the broker find its services. */
fb_status fb_server_start(fb_server *server);

/* Stops a server: it leaves the broker and ends what it began. Stopping twice does nothing. FB_CONFLICT
   from within a service of its own. */
fb_status fb_server_stop(fb_server *server);

/* Starts a server if it does not run, and serves until fb_server_stop, SIGTERM or SIGINT; then it is
   stopped and FB_OK returned. Signals that the program handles itself stay with it. */
fb_status fb_serve(fb_server *server);

/* How busy a server is; all zero when it does not run. */
fb_status fb_load(fb_server *server, fb_server_load *load);

/* The trouble that a running server has behind the scenes, such as a broker that does not answer: its
   status, with its text as this thread's last error. FB_OK while there is none. */
fb_status fb_server_trouble(fb_server *server);

/* Stops and frees a server. NULL is nothing. */
fb_status fb_server_free(fb_server *server);

/* --- calls as a service function sees them ------------------------------------------------- */

/* An array parameter in place. `dtype` is what the function expects; otherwise FB_BAD_ARGUMENT. Parameters count
   from 0. Its elements lie together, with strides only where the first index runs fastest, as the caller has it. It
   is good until the function returns. */
fb_status fb_request_array(fb_request *request,
                           int index,
                           fb_dtype dtype,
                           fb_array *array);

/* The order of an array parameter: FB_ROW_MAJOR or FB_COLUMN_MAJOR, as the caller has it. */
fb_status fb_request_order(fb_request *request, int index, fb_order *order);

/* A scalar parameter as a real number. */
fb_status fb_request_f64(fb_request *request, int index, double *value);

/* A scalar parameter as an integer. */
fb_status fb_request_i64(fb_request *request, int index, int64_t *value);

/* A scalar parameter of any dtype, converted to the one wanted if its value survives that. */
fb_status fb_request_scalar(fb_request *request, int index, fb_dtype dtype, void *value);

/* A text parameter, good until the function returns; of a file, its path: the function reads that file, or writes it. */
fb_status fb_request_str(fb_request *request,
                         int index,
                         const char **text);

/* A parameter of bytes, good until the function returns or sets it. */
fb_status fb_request_bytes(fb_request *request, int index, const void **bytes, int64_t *count);

/* Gives a scalar result a real number as its value, converted to the dtype of the signature. */
fb_status fb_request_set_f64(fb_request *request, int index, double value);

/* Gives a scalar result an integer as its value, converted to the dtype of the signature. */
fb_status fb_request_set_i64(fb_request *request, int index, int64_t value);

/* Gives a scalar result a scalar of any dtype as its value, converted to the dtype of the signature. */
fb_status fb_request_set_scalar(fb_request *request, int index, fb_dtype dtype, const void *value);

/* Gives a text result its value. */
fb_status fb_request_set_str(fb_request *request, int index, const char *text);

/* Gives a result of bytes its value. */
fb_status fb_request_set_bytes(fb_request *request, int index, const void *bytes, int64_t count);

/* Fails the call: the caller gets FB_REMOTE_ERROR with this text. Write
   `return fb_request_fail(request, "...");`. */
fb_status fb_request_fail(fb_request *request, const char *text);

/* Whether the caller gave up (1 or 0): long services look now and then, and return. */
fb_status fb_request_cancelled(fb_request *request, int *cancelled);

/* The signature of what was called, good until the function returns. */
fb_status fb_request_signature(fb_request *request, const char **signature);

/* The number of parameters, results included. */
fb_status fb_request_count(fb_request *request, int *count);

#ifdef __cplusplus
} /* extern "C" */
#endif

/* --- arrays whose elements lie together ------------------------------------------------------

       fb_put(run, "E", 0, FB_DENSE(e, FB_F64, nx, ny));
       fb_put(run, "dt", 0, FB_ONE(&dt, FB_F64));

   A pointer, the type of the elements, and their extents, the last index running fastest; of FB_DENSE_F the
   first one. Each is an fb_array, good for the call (in C: in its block). For elements that lie apart fill in an
   fb_array with strides. */

/* Bytes of an element; 0: there is no such type. */
static inline int64_t fb_dtype_size(fb_dtype dtype);

static inline int64_t fb_dtype_size(fb_dtype dtype)
{
    static const int64_t sizes[] = { 0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 8, 16, 1, 1, 1, 2 };
    return FB_AS_(size_t, dtype) < sizeof sizes / sizeof *sizes ? sizes[dtype] : 0;
}

static inline const char *fb_dtype_name_(fb_dtype dtype)
{
    static const char *const names[] = { "?", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "c64", "c128", "bool", "str", "bytes", "f16" };
    return names[FB_AS_(size_t, dtype) < sizeof names / sizeof *names ? dtype : 0];
}

static inline void fb_first_fastest_(fb_dtype dtype, int ndim, const int64_t *shape, int64_t *strides)
{
    /* Without a sign: extents that are too large are refused by the library. */
    uint64_t next = FB_AS_(uint64_t, fb_dtype_size(dtype));
    int few = 1;
    for (int axis = 0; axis < ndim && axis < FB_MAX_RANK; ++axis) few = few && shape[axis] <= 1;
    for (int axis = 0; axis < ndim && axis < FB_MAX_RANK; ++axis) {
        strides[axis] = FB_AS_(int64_t, next);
        /* The strides of an array without elements tell its order, too, and so do those of a single one. */
        if (few) next *= 2;
        else if (shape[axis] > 1) next *= FB_AS_(uint64_t, shape[axis]);
    }
}

#ifdef __cplusplus

struct fb_dense_ {
    int64_t shape[FB_MAX_RANK];
    int64_t strides[FB_MAX_RANK];
    fb_array array;
    operator const fb_array *()
    {
        array.shape = shape;
        array.strides = array.strides ? strides : 0;
        return &array;
    }
};

template <class... Extents>
inline fb_dense_ fb_dense_of(bool first, const volatile void *data, fb_dtype dtype, Extents... extents)
{
    fb_dense_ made = fb_dense_();
    const int64_t given[] = { static_cast<int64_t>(extents)..., 0 };
    made.array.dtype = dtype;
    made.array.ndim = static_cast<int>(sizeof...(extents));
    made.array.data = const_cast<void *>(data);
    for (int axis = 0; axis < made.array.ndim && axis < FB_MAX_RANK; ++axis) made.shape[axis] = given[axis];
    fb_first_fastest_(dtype, made.array.ndim, given, made.strides);
    made.array.strides = first ? made.strides : 0;
    return made;
}

#define FB_DENSE(pointer, code, ...) fb_dense_of(false, pointer, code, __VA_ARGS__)
#define FB_DENSE_F(pointer, code, ...) fb_dense_of(true, pointer, code, __VA_ARGS__)
#define FB_ONE(pointer, code) fb_dense_of(false, pointer, code)

#else

static inline const fb_array *fb_dense_f_(fb_array *array, int64_t *strides)
{
    fb_first_fastest_(array->dtype, array->ndim, array->shape, strides);
    array->strides = strides;
    return array;
}

#define FB_DENSE_(pointer, code, ...) \
    (fb_array){ .dtype = (code), .ndim = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), \
                .shape = (int64_t[]){ __VA_ARGS__ }, .data = (void *)(pointer) }
#define FB_DENSE(pointer, code, ...) (&FB_DENSE_(pointer, code, __VA_ARGS__))
#define FB_DENSE_F(pointer, code, ...) \
    fb_dense_f_(&FB_DENSE_(pointer, code, __VA_ARGS__), (int64_t[FB_MAX_RANK]){ 0 })
#define FB_ONE(pointer, code) (&(fb_array){ .dtype = (code), .data = (void *)(pointer) })

#endif

/* --- what has attributes ----------------------------------------------------------------------

       fb_attr_put(fb_of_run(run), "dt", FB_ONE(&dt, FB_F64));
       fb_attr_set_str(fb_of_dataset(run, "E", 0), "solver", "spectral");
       fb_attr_put(fb_of_array(snapshot, "E"), "box", FB_DENSE(box, FB_F64, 2)); */

static inline fb_object fb_of_(fb_run *run, fb_snapshot *snapshot, const char *name, int64_t set)
{
    fb_object of;
    of.run = run;
    of.snapshot = snapshot;
    of.name = name;
    of.set = set;
    return of;
}

/* The run itself. */
static inline fb_object fb_of_run(fb_run *run)
{
    return fb_of_(run, 0, 0, 0);
}

/* A data set of a run. */
static inline fb_object fb_of_dataset(fb_run *run, const char *name, int64_t set)
{
    return fb_of_(run, 0, name ? name : "", set);
}

/* A table of a run. */
static inline fb_object fb_of_table(fb_run *run, const char *name)
{
    return fb_of_(run, 0, name ? name : "", FB_TABLE);
}

/* An array of a snapshot: of one being taken its attributes are set, of a complete one they are read. */
static inline fb_object fb_of_array(fb_snapshot *snapshot, const char *name)
{
    return fb_of_(0, snapshot, name, 0);
}

/* --- arguments of calls -------------------------------------------------------------------

   One for each parameter of the signature, results included:

       fb_arg args[] = { FB_IN_F64(2.0), FB_IN_ARRAY(x, FB_F64, n), FB_INOUT_ARRAY(y, FB_F64, n) };
       fb_call(client, "axpy", args, 3);

   or FB_CALL(client, "axpy", FB_IN_F64(2.0), FB_IN_ARRAY(x, FB_F64, n), FB_INOUT_ARRAY(y, FB_F64, n)).
   Arrays take a pointer, the type of the elements, and their extents; those that end in _F are
   column-major. For elements that lie apart set `strides`, in bytes. A text that comes back takes its room in
   bytes, the zero at its end included. */

#ifdef __cplusplus

inline fb_arg fb_arg_of(int kind, int direction, fb_dtype dtype, const volatile void *data)
{
    fb_arg arg = fb_arg();
    arg.kind = kind;
    arg.direction = direction;
    arg.dtype = dtype;
    arg.data = const_cast<void *>(data);
    return arg;
}

template <class... Extents>
inline fb_arg fb_arg_array(int direction, fb_dtype dtype, fb_order order, const volatile void *data, Extents... extents)
{
    fb_arg arg = fb_arg_of(FB_ARRAY, direction, dtype, data);
    const int64_t shape[] = { static_cast<int64_t>(extents)... };
    arg.order = order;
    arg.ndim = static_cast<int>(sizeof...(extents));
    for (int axis = 0; axis < arg.ndim && axis < FB_MAX_RANK; ++axis) arg.shape[axis] = shape[axis];
    return arg;
}

#define FB_SCALAR_MEMBER_(member, type, code, name) \
    inline fb_arg name(type value) \
    { \
        fb_arg arg = fb_arg_of(FB_SCALAR, FB_IN, code, 0); \
        arg.value.member = value; \
        return arg; \
    }
FB_SCALAR_MEMBER_(f64, double, FB_F64, FB_IN_F64)
FB_SCALAR_MEMBER_(f32, float, FB_F32, FB_IN_F32)
FB_SCALAR_MEMBER_(i32, int32_t, FB_I32, FB_IN_I32)
FB_SCALAR_MEMBER_(i64, int64_t, FB_I64, FB_IN_I64)
FB_SCALAR_MEMBER_(u64, uint64_t, FB_U64, FB_IN_U64)
#undef FB_SCALAR_MEMBER_

inline fb_arg FB_IN_BOOL(int value)
{
    fb_arg arg = fb_arg_of(FB_SCALAR, FB_IN, FB_BOOL, 0);
    arg.value.truth = value != 0;
    return arg;
}

inline fb_arg FB_IN_C128(double re, double im)
{
    fb_arg arg = fb_arg_of(FB_SCALAR, FB_IN, FB_C128, 0);
    arg.value.c128[0] = re;
    arg.value.c128[1] = im;
    return arg;
}

inline fb_arg fb_arg_room(int kind, int direction, fb_dtype dtype, const volatile void *data, int64_t room, int64_t *length)
{
    fb_arg arg = fb_arg_of(kind, direction, dtype, data);
    arg.shape[0] = room;
    arg.length = length;
    return arg;
}

inline fb_arg FB_REF(fb_ref *ref)
{
    fb_arg arg = fb_arg_of(FB_REFERENCE, FB_INOUT, fb_dtype(), 0);
    arg.reference = ref;
    return arg;
}

template <class... Args>
inline fb_status FB_CALL(fb_client *client, const char *service, const Args &...args)
{
    const fb_arg all[] = { args..., fb_arg() };
    return fb_call(client, service, all, static_cast<int>(sizeof...(args)));
}

#define FB_PLACE_(code, way, pointer) fb_arg_of(FB_SCALAR, way, code, pointer)
#define FB_ARRAY_(way, code, order, pointer, ...) fb_arg_array(way, code, order, pointer, __VA_ARGS__)
#define FB_ROOM_(kind, way, code, pointer, room, length) fb_arg_room(kind, way, code, pointer, room, length)

#else

#define FB_SCALAR_(code, member, x) \
    ((fb_arg){ .kind = FB_SCALAR, .direction = FB_IN, .dtype = code, .value = { .member = (x) } })
#define FB_IN_F64(x) FB_SCALAR_(FB_F64, f64, x)
#define FB_IN_F32(x) FB_SCALAR_(FB_F32, f32, x)
#define FB_IN_I32(x) FB_SCALAR_(FB_I32, i32, x)
#define FB_IN_I64(x) FB_SCALAR_(FB_I64, i64, x)
#define FB_IN_U64(x) FB_SCALAR_(FB_U64, u64, x)
#define FB_IN_BOOL(x) FB_SCALAR_(FB_BOOL, truth, (x) != 0)
#define FB_IN_C128(re, im) \
    ((fb_arg){ .kind = FB_SCALAR, .direction = FB_IN, .dtype = FB_C128, .value = { .c128 = { (re), (im) } } })
#define FB_REF(ref) ((fb_arg){ .kind = FB_REFERENCE, .direction = FB_INOUT, .reference = (ref) })
#define FB_PLACE_(code, way, pointer) \
    ((fb_arg){ .kind = FB_SCALAR, .direction = way, .dtype = code, .data = (void *)(pointer) })
#define FB_ARRAY_(way, code, ordering, pointer, ...) \
    ((fb_arg){ .kind = FB_ARRAY, .direction = way, .dtype = code, .order = ordering, \
               .ndim = (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), \
               .data = (void *)(pointer), .shape = { __VA_ARGS__ } })
#define FB_ROOM_(which, way, code, pointer, room, gets) \
    ((fb_arg){ .kind = which, .direction = way, .dtype = code, .data = (void *)(pointer), \
               .length = (gets), .shape = { (room) } })
#define FB_CALL(client, service, ...) \
    fb_call(client, service, (const fb_arg[]){ __VA_ARGS__ }, \
            (int)(sizeof((const fb_arg[]){ __VA_ARGS__ }) / sizeof(fb_arg)))

#endif

#define FB_OUT_F64(pointer) FB_PLACE_(FB_F64, FB_OUT, pointer)
#define FB_OUT_F32(pointer) FB_PLACE_(FB_F32, FB_OUT, pointer)
#define FB_OUT_I32(pointer) FB_PLACE_(FB_I32, FB_OUT, pointer)
#define FB_OUT_I64(pointer) FB_PLACE_(FB_I64, FB_OUT, pointer)
#define FB_OUT_U64(pointer) FB_PLACE_(FB_U64, FB_OUT, pointer)
#define FB_OUT_BOOL(pointer) FB_PLACE_(FB_BOOL, FB_OUT, pointer)
#define FB_OUT_C128(pointer) FB_PLACE_(FB_C128, FB_OUT, pointer)
#define FB_INOUT_F64(pointer) FB_PLACE_(FB_F64, FB_INOUT, pointer)
#define FB_INOUT_F32(pointer) FB_PLACE_(FB_F32, FB_INOUT, pointer)
#define FB_INOUT_I32(pointer) FB_PLACE_(FB_I32, FB_INOUT, pointer)
#define FB_INOUT_I64(pointer) FB_PLACE_(FB_I64, FB_INOUT, pointer)
#define FB_INOUT_U64(pointer) FB_PLACE_(FB_U64, FB_INOUT, pointer)
#define FB_INOUT_BOOL(pointer) FB_PLACE_(FB_BOOL, FB_INOUT, pointer)
#define FB_INOUT_C128(pointer) FB_PLACE_(FB_C128, FB_INOUT, pointer)

#define FB_IN_ARRAY(pointer, code, ...) FB_ARRAY_(FB_IN, code, FB_ROW_MAJOR, pointer, __VA_ARGS__)
#define FB_OUT_ARRAY(pointer, code, ...) FB_ARRAY_(FB_OUT, code, FB_ROW_MAJOR, pointer, __VA_ARGS__)
#define FB_INOUT_ARRAY(pointer, code, ...) FB_ARRAY_(FB_INOUT, code, FB_ROW_MAJOR, pointer, __VA_ARGS__)
#define FB_IN_ARRAY_F(pointer, code, ...) FB_ARRAY_(FB_IN, code, FB_COLUMN_MAJOR, pointer, __VA_ARGS__)
#define FB_OUT_ARRAY_F(pointer, code, ...) FB_ARRAY_(FB_OUT, code, FB_COLUMN_MAJOR, pointer, __VA_ARGS__)
#define FB_INOUT_ARRAY_F(pointer, code, ...) FB_ARRAY_(FB_INOUT, code, FB_COLUMN_MAJOR, pointer, __VA_ARGS__)

#define FB_IN_STR(text) FB_ROOM_(FB_TEXT, FB_IN, FB_STR, text, 0, 0)
#define FB_OUT_STR(buffer, room) FB_ROOM_(FB_TEXT, FB_OUT, FB_STR, buffer, room, 0)
#define FB_INOUT_STR(buffer, room) FB_ROOM_(FB_TEXT, FB_INOUT, FB_STR, buffer, room, 0)
#define FB_IN_BYTES(pointer, count) FB_ROOM_(FB_RAW, FB_IN, FB_BYTES, pointer, count, 0)
#define FB_OUT_BYTES(buffer, room, length) FB_ROOM_(FB_RAW, FB_OUT, FB_BYTES, buffer, room, length)

#define FB_IN_FILE(path) FB_ROOM_(FB_FILE, FB_IN, FB_STR, path, 0, 0)
#define FB_OUT_FILE(path) FB_ROOM_(FB_FILE, FB_OUT, FB_STR, path, 0, 0)

#endif /* FOREBAY_H */
