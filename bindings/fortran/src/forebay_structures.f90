! Generated from forebay.h by bindings/make.py; do not edit.
!
! Twins of the structures of forebay.h, member by member, and what is known of its dtypes, by number.

module forebay_structures
  use forebay_constants
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int32_t, c_int64_t, c_null_char, c_null_ptr, c_ptr, c_size_t
  implicit none
  private

  !> Their names.
  character(len=5), parameter, public :: DTYPE_NAMES(16) = [character(len=5) :: &
      'i8', 'i16', 'i32', 'i64', 'u8', 'u16', 'u32', 'u64', &
      'f32', 'f64', 'c64', 'c128', 'bool', 'str', 'bytes', 'f16']
  !> As elements of what they are given.
  integer, parameter, public :: DTYPE_GIVEN_AS(16) = [integer :: &
      FB_I8, FB_I16, FB_I32, FB_I64, FB_I8, FB_I16, FB_I32, FB_I64, &
      FB_I32, FB_I64, FB_I64, FB_C128, FB_I8, FB_I8, FB_I8, FB_I16]

  type, public, bind(c) :: lib_open_opts_struct
    integer(c_size_t) :: size = 0
    integer(c_int64_t) :: buffer = 0
    type(c_ptr) :: full = c_null_ptr
    integer(c_int32_t) :: rank = 0
    integer(c_int32_t) :: ranks = 0
    integer(c_int) :: scratch = 0
    type(c_ptr) :: program = c_null_ptr
    type(c_ptr) :: late = c_null_ptr
    type(c_ptr) :: elsewhere = c_null_ptr
    type(c_ptr) :: keep = c_null_ptr
    integer(c_int) :: client = 0
    type(c_ptr) :: pack = c_null_ptr
    type(c_ptr) :: compress = c_null_ptr
  end type lib_open_opts_struct

  type, public, bind(c) :: fb_stats
    integer(c_size_t) :: size = 0
    real(c_double) :: visible_s = 0.0_c_double
    real(c_double) :: hidden_s = 0.0_c_double
    real(c_double) :: overlap = 0.0_c_double
    real(c_double) :: waited_s = 0.0_c_double
    real(c_double) :: lag_s = 0.0_c_double
    integer(c_int64_t) :: durable_step = 0
    integer(c_int64_t) :: steps = 0
    integer(c_int64_t) :: dropped_steps = 0
    integer(c_int64_t) :: snapshot_bytes = 0
    integer(c_int64_t) :: put_bytes = 0
    integer(c_int64_t) :: overflow_bytes = 0
    integer(c_int64_t) :: written_bytes = 0
    integer(c_int64_t) :: buffer_bytes = 0
    integer(c_int64_t) :: high_water_bytes = 0
    real(c_double) :: ideal_s = 0.0_c_double
    real(c_double) :: copy_bytes_per_s = 0.0_c_double
    integer(c_int64_t) :: late_errors = 0
    integer(c_int64_t) :: waiting_for_disk = 0
    integer(c_int64_t) :: embedded = 0
    integer(c_int64_t) :: in_memory = 0
    integer(c_int64_t) :: filled_elements = 0
    integer(c_int64_t) :: uncompressed_bytes = 0
    integer(c_int64_t) :: lost_range = 0
  end type fb_stats

  type, public, bind(c) :: lib_array_struct
    integer(c_int) :: dtype = 0
    integer(c_int) :: ndim = 0
    type(c_ptr) :: shape = c_null_ptr
    type(c_ptr) :: strides = c_null_ptr
    type(c_ptr) :: data = c_null_ptr
  end type lib_array_struct

  type, public, bind(c) :: lib_put_opts_struct
    integer(c_size_t) :: size = 0
    type(c_ptr) :: units = c_null_ptr
    type(c_ptr) :: attrs = c_null_ptr
  end type lib_put_opts_struct

  type, public, bind(c) :: lib_info_struct
    character(kind=c_char) :: name(256) = c_null_char
    character(kind=c_char) :: units(65) = c_null_char
    integer(c_int) :: dtype = 0
    integer(c_int) :: order = 0
    integer(c_int) :: ndim = 0
    integer(c_int64_t) :: shape(8) = 0
    integer(c_int64_t) :: set = 0
    integer(c_int64_t) :: version = 0
    integer(c_int64_t) :: nbytes = 0
  end type lib_info_struct

  type, public, bind(c) :: lib_object_struct
    type(c_ptr) :: run = c_null_ptr
    type(c_ptr) :: snapshot = c_null_ptr
    type(c_ptr) :: name = c_null_ptr
    integer(c_int64_t) :: set = 0
  end type lib_object_struct

  type, public, bind(c) :: lib_coord_struct
    type(c_ptr) :: dim = c_null_ptr
    type(c_ptr) :: values = c_null_ptr
    type(c_ptr) :: units = c_null_ptr
  end type lib_coord_struct

  type, public, bind(c) :: lib_piece_opts_struct
    integer(c_size_t) :: size = 0
    type(c_ptr) :: units = c_null_ptr
    type(c_ptr) :: dims = c_null_ptr
    integer(c_int) :: ndims = 0
    integer(c_int) :: ncoords = 0
    type(c_ptr) :: coords = c_null_ptr
    type(c_ptr) :: attrs = c_null_ptr
    type(c_ptr) :: overlap = c_null_ptr
    type(c_ptr) :: spacing = c_null_ptr
    type(c_ptr) :: origin = c_null_ptr
    type(c_ptr) :: position = c_null_ptr
    type(c_ptr) :: fill = c_null_ptr
    type(c_ptr) :: compress = c_null_ptr
    integer(c_int) :: as_dtype = 0
  end type lib_piece_opts_struct

  type, public, bind(c) :: lib_component_struct
    type(c_ptr) :: name = c_null_ptr
    type(c_ptr) :: values = c_null_ptr
    type(c_ptr) :: position = c_null_ptr
  end type lib_component_struct

  type, public, bind(c) :: lib_record_struct
    type(c_ptr) :: name = c_null_ptr
    type(c_ptr) :: component = c_null_ptr
    type(c_ptr) :: values = c_null_ptr
    type(c_ptr) :: units = c_null_ptr
    type(c_ptr) :: attrs = c_null_ptr
    integer(c_int) :: as_dtype = 0
    type(c_ptr) :: compress = c_null_ptr
  end type lib_record_struct

  type, public, bind(c) :: lib_particles_opts_struct
    integer(c_size_t) :: size = 0
    type(c_ptr) :: sort_by = c_null_ptr
  end type lib_particles_opts_struct

  type, public, bind(c) :: lib_checkpoint_info_struct
    character(kind=c_char) :: tag(256) = c_null_char
    integer(c_int64_t) :: id = 0
    integer(c_int64_t) :: parent = 0
    integer(c_int64_t) :: step = 0
    real(c_double) :: time = 0.0_c_double
    integer(c_int) :: kept = 0
  end type lib_checkpoint_info_struct

  type, public, bind(c) :: fb_step_info
    integer(c_size_t) :: size = 0
    integer(c_int64_t) :: step = 0
    real(c_double) :: time = 0.0_c_double
    integer(c_int64_t) :: nbytes = 0
    integer(c_int) :: finished = 0
  end type fb_step_info

  type, public, bind(c) :: fb_array_stats
    integer(c_size_t) :: size = 0
    real(c_double) :: min = 0.0_c_double
    real(c_double) :: max = 0.0_c_double
    real(c_double) :: mean = 0.0_c_double
    integer(c_int64_t) :: nans = 0
  end type fb_array_stats

  type, public, bind(c) :: lib_series_opts_struct
    integer(c_size_t) :: size = 0
    type(c_ptr) :: offset = c_null_ptr
    type(c_ptr) :: step = c_null_ptr
    integer(c_int) :: missing_nan = 0
  end type lib_series_opts_struct

  type, public, bind(c) :: lib_arg_struct
    integer(c_int) :: kind = 0
    integer(c_int) :: direction = 0
    integer(c_int) :: dtype = 0
    integer(c_int) :: order = 0
    integer(c_int) :: ndim = 0
    type(c_ptr) :: data = c_null_ptr
    type(c_ptr) :: reference = c_null_ptr
    type(c_ptr) :: length = c_null_ptr
    integer(c_int64_t) :: value(2) = 0
    integer(c_int64_t) :: shape(8) = 0
    integer(c_int64_t) :: strides(8) = 0
  end type lib_arg_struct

  type, public, bind(c) :: lib_column_struct
    type(c_ptr) :: name = c_null_ptr
    integer(c_int) :: dtype = 0
    type(c_ptr) :: units = c_null_ptr
    integer(c_int) :: ndim = 0
    type(c_ptr) :: shape = c_null_ptr
  end type lib_column_struct

  type, public, bind(c) :: lib_table_opts_struct
    integer(c_size_t) :: size = 0
    integer(c_int) :: history = 0
  end type lib_table_opts_struct

  type, public, bind(c) :: lib_column_info_struct
    character(kind=c_char) :: name(256) = c_null_char
    character(kind=c_char) :: units(65) = c_null_char
    integer(c_int) :: dtype = 0
    integer(c_int) :: ndim = 0
    integer(c_int64_t) :: shape(8) = 0
  end type lib_column_info_struct

  type, public, bind(c) :: lib_values_struct
    type(c_ptr) :: column = c_null_ptr
    type(c_ptr) :: array = c_null_ptr
    type(c_ptr) :: texts = c_null_ptr
  end type lib_values_struct

  type, public, bind(c) :: lib_loop_opts_struct
    integer(c_size_t) :: size = 0
    integer(c_int64_t) :: start = 0
    type(c_ptr) :: from = c_null_ptr
    real(c_double) :: time_limit = 0.0_c_double
    integer(c_int) :: keep_sigterm = 0
    integer(c_int64_t) :: stride = 0
  end type lib_loop_opts_struct

  type, public, bind(c) :: lib_save_opts_struct
    integer(c_size_t) :: size = 0
    integer(c_int64_t) :: every = 0
  end type lib_save_opts_struct

  type, public, bind(c) :: lib_diagram_opts_struct
    integer(c_size_t) :: size = 0
    type(c_ptr) :: kind = c_null_ptr
    type(c_ptr) :: x = c_null_ptr
    type(c_ptr) :: y = c_null_ptr
    type(c_ptr) :: v = c_null_ptr
    type(c_ptr) :: xscale = c_null_ptr
    type(c_ptr) :: yscale = c_null_ptr
    integer(c_int32_t) :: every = 0
    type(c_ptr) :: reduce = c_null_ptr
  end type lib_diagram_opts_struct

  type, public, bind(c) :: lib_parameter_opts_struct
    integer(c_size_t) :: size = 0
    type(c_ptr) :: min = c_null_ptr
    type(c_ptr) :: max = c_null_ptr
    type(c_ptr) :: units = c_null_ptr
    type(c_ptr) :: help = c_null_ptr
  end type lib_parameter_opts_struct

  type, public, bind(c) :: fb_failure
    integer(c_size_t) :: size = 0
    integer(c_int) :: code = 0
    integer(c_int32_t) :: server_pid = 0
    real(c_double) :: when = 0.0_c_double
    character(kind=c_char) :: server(256) = c_null_char
    character(kind=c_char) :: service(256) = c_null_char
    character(kind=c_char) :: text(1024) = c_null_char
  end type fb_failure

  type, public, bind(c) :: lib_task_view_struct
    integer(c_size_t) :: size = 0
    type(c_ptr) :: service = c_null_ptr
    integer(c_int64_t) :: bytes = 0
    integer(c_int64_t) :: cost = 0
    integer(c_int64_t) :: waiting = 0
  end type lib_task_view_struct

  type, public, bind(c) :: lib_server_view_struct
    integer(c_size_t) :: size = 0
    type(c_ptr) :: name = c_null_ptr
    integer(c_int32_t) :: pid = 0
    integer(c_int32_t) :: workers = 0
    integer(c_int32_t) :: mine = 0
    integer(c_int32_t) :: others = 0
    integer(c_int32_t) :: room = 0
    integer(c_int) :: is_late = 0
    real(c_double) :: expected = 0.0_c_double
    real(c_double) :: ahead = 0.0_c_double
  end type lib_server_view_struct

  type, public, bind(c) :: fb_timing
    integer(c_size_t) :: size = 0
    real(c_double) :: sending = 0.0_c_double
    real(c_double) :: waiting = 0.0_c_double
    real(c_double) :: running = 0.0_c_double
    real(c_double) :: total = 0.0_c_double
    integer(c_int32_t) :: reissued = 0
    integer(c_int32_t) :: server_pid = 0
    character(kind=c_char) :: server(256) = c_null_char
  end type fb_timing

  type, public, bind(c) :: lib_bag_opts_struct
    integer(c_size_t) :: size = 0
    integer(c_int64_t) :: window = 0
    integer(c_int64_t) :: bytes = 0
    integer(c_int) :: unordered = 0
    integer(c_int) :: no_tail = 0
  end type lib_bag_opts_struct

  type, public, bind(c) :: fb_bag_totals
    integer(c_size_t) :: size = 0
    integer(c_int64_t) :: pulled = 0
    integer(c_int64_t) :: under_way = 0
    integer(c_int64_t) :: done = 0
    integer(c_int64_t) :: failed = 0
    integer(c_int64_t) :: cancelled = 0
  end type fb_bag_totals

  type, public, bind(c) :: lib_ref_opts_struct
    integer(c_size_t) :: size = 0
    type(c_ptr) :: server = c_null_ptr
    type(c_ptr) :: with = c_null_ptr
    type(c_ptr) :: services = c_null_ptr
  end type lib_ref_opts_struct

  type, public, bind(c) :: lib_server_opts_struct
    integer(c_size_t) :: size = 0
    type(c_ptr) :: name = c_null_ptr
    type(c_ptr) :: broker = c_null_ptr
    integer(c_int) :: workers = 0
    integer(c_int64_t) :: memory = 0
    type(c_ptr) :: listen = c_null_ptr
    integer(c_int) :: output = 0
    type(c_ptr) :: scratch = c_null_ptr
  end type lib_server_opts_struct

  type, public, bind(c) :: fb_server_load
    integer(c_size_t) :: size = 0
    integer(c_int32_t) :: running = 0
    integer(c_int32_t) :: queued = 0
    integer(c_int64_t) :: served = 0
  end type fb_server_load
end module forebay_structures
