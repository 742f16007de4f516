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
@VERSION@

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
#define FB_MAX_RANK @MAX_RANK@
/* Room for a name, for a unit, and for the text of an error that is kept, the zero at its end included. */
#define FB_NAME_ROOM @NAME_ROOM@
#define FB_UNIT_ROOM @UNIT_ROOM@
#define FB_TEXT_ROOM @TEXT_ROOM@
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
@STATUS@
} fb_status;

/* Types of elements. */
typedef enum fb_dtype {
@DTYPE@
} fb_dtype;

/* A number, as its dtype says. */
typedef union {
@SCALAR@
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
