! Generated from forebay.h by bindings/make.py; do not edit.
!
! The constants of forebay.h: statuses, dtypes, orders, levels, kinds and directions of arguments.

module forebay_constants
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  private
  integer, parameter, public :: FB_OK = 0
  integer, parameter, public :: FB_NOT_FOUND = 1
  integer, parameter, public :: FB_CONFLICT = 2
  integer, parameter, public :: FB_BAD_ARGUMENT = 3
  integer, parameter, public :: FB_NO_SERVER = 4
  integer, parameter, public :: FB_SERVER_LOST = 5
  integer, parameter, public :: FB_REMOTE_ERROR = 6
  integer, parameter, public :: FB_TIMEOUT = 7
  integer, parameter, public :: FB_CANCELLED = 8
  integer, parameter, public :: FB_FULL = 9
  integer, parameter, public :: FB_READ_ONLY = 10
  integer, parameter, public :: FB_VERSION_MISMATCH = 11
  integer, parameter, public :: FB_REFUSED = 12
  integer, parameter, public :: FB_CORRUPT = 13
  integer, parameter, public :: FB_CLOSED = 14
  integer, parameter, public :: FB_IO = 15
  integer, parameter, public :: FB_INTERNAL = 16
  integer, parameter, public :: FB_POISONED = 17
  integer, parameter, public :: FB_I8 = 1
  integer, parameter, public :: FB_I16 = 2
  integer, parameter, public :: FB_I32 = 3
  integer, parameter, public :: FB_I64 = 4
  integer, parameter, public :: FB_U8 = 5
  integer, parameter, public :: FB_U16 = 6
  integer, parameter, public :: FB_U32 = 7
  integer, parameter, public :: FB_U64 = 8
  integer, parameter, public :: FB_F32 = 9
  integer, parameter, public :: FB_F64 = 10
  integer, parameter, public :: FB_C64 = 11
  integer, parameter, public :: FB_C128 = 12
  integer, parameter, public :: FB_BOOL = 13
  integer, parameter, public :: FB_STR = 14
  integer, parameter, public :: FB_BYTES = 15
  integer, parameter, public :: FB_F16 = 16
  integer, parameter, public :: FB_ROW_MAJOR = 0
  integer, parameter, public :: FB_COLUMN_MAJOR = 1
  integer, parameter, public :: FB_DEBUG = 0
  integer, parameter, public :: FB_INFO = 1
  integer, parameter, public :: FB_WARNING = 2
  integer, parameter, public :: FB_ERROR = 3
  integer, parameter, public :: FB_SCALAR = 0
  integer, parameter, public :: FB_ARRAY = 1
  integer, parameter, public :: FB_TEXT = 2
  integer, parameter, public :: FB_RAW = 3
  integer, parameter, public :: FB_REFERENCE = 4
  integer, parameter, public :: FB_FILE = 5
  integer, parameter, public :: FB_TRANSFER_NOWAIT = 0
  integer, parameter, public :: FB_TRANSFER_WAIT = 1
  integer, parameter, public :: FB_TRANSFER_COPY = 2
  integer, parameter, public :: FB_STDOUT = 1
  integer, parameter, public :: FB_STDERR = 2
  integer, parameter, public :: FB_TASK_OPEN = 0
  integer, parameter, public :: FB_TASK_DONE = 1
  integer, parameter, public :: FB_TASK_FAILED = 2
  integer, parameter, public :: FB_TASK_CANCELLED = 3
  integer, parameter, public :: IS_IN = 1
  integer, parameter, public :: IS_OUT = 2
  integer, parameter, public :: IS_INOUT = 3
  integer, parameter, public :: FB_MAX_RANK = 8
  integer, parameter, public :: FB_NAME_ROOM = 256
  integer, parameter, public :: FB_UNIT_ROOM = 65
  integer, parameter, public :: FB_TEXT_ROOM = 1024
  integer, parameter, public :: FB_VERSION_MAJOR = 0
  integer, parameter, public :: FB_VERSION_MINOR = 1
  integer, parameter, public :: FB_VERSION_PATCH = 0
  !> As a timeout: no limit.
  real(real64), parameter, public :: FB_FOREVER = -1.0_real64
  !> As a time limit of fb_steps_with: the end of the Slurm job.
  real(real64), parameter, public :: FB_JOB_END = -1.0_real64
  !> As the number of steps of fb_step: the loop goes on until somebody ends it.
  integer(int64), parameter, public :: FB_NO_END = huge(0_int64)
  !> As a set number, where a procedure says so: all sets; and, FB_TABLE of C, the table of that name.
  integer(int64), parameter, public :: FB_ALL_SETS = -huge(0_int64) - 1_int64
  integer(int64), parameter, public :: FB_OF_TABLE = -huge(0_int64)
end module forebay_constants
