!> The procedures of the C shim (arrays.c, data.c, calls.c), and the arguments it makes.

module forebay_shim
  use, intrinsic :: iso_c_binding
  use forebay_constants, only: FB_MAX_RANK, FB_NAME_ROOM
  use forebay_structures, only: lib_info_struct, lib_object_struct
  implicit none
  public

  !> Where an array of a snapshot belongs.
  integer(c_int), parameter :: WHOLE_ARRAY = 0, ITS_BLOCK = 1, BEHIND = 2

  !> An argument of a call or of SQL; made by fb_in, fb_out, fb_inout and their like.
  type, bind(c) :: fb_arg
    private
    type(c_ptr) :: data = c_null_ptr
    integer(c_int) :: elements = 0, ndim = 0, truth = 0
    integer(c_int64_t) :: size = 0, shape(FB_MAX_RANK) = 0, stride(FB_MAX_RANK) = 0
    integer(c_int), public :: kind = 0, direction = 0, dtype = 0
    integer(c_int) :: given = 0
    type(c_ptr), public :: reference = c_null_ptr
    type(c_ptr) :: length = c_null_ptr
    integer(c_int64_t) :: value(2) = 0
    character(kind=c_char) :: text(256) = c_null_char
  end type fb_arg

  !> Values of one column; made by fb_values.
  type, bind(c) :: fb_row_values
    character(kind=c_char) :: column(FB_NAME_ROOM) = c_null_char
    type(fb_arg) :: values
  end type fb_row_values

  !> The values along an axis of an array of a snapshot; made by fb_coord.
  type, bind(c) :: fb_coordinate
    character(kind=c_char) :: dim(FB_NAME_ROOM) = c_null_char, units(FB_NAME_ROOM) = c_null_char
    type(fb_arg) :: values
  end type fb_coordinate

  !> A component of a mesh; made by fb_component.
  type, bind(c) :: fb_mesh_component
    character(kind=c_char) :: name(FB_NAME_ROOM) = c_null_char
    real(c_double) :: position(FB_MAX_RANK) = 0
    integer(c_int) :: npositions = 0
    type(fb_arg) :: values
  end type fb_mesh_component

  !> A record of particles, or a component of one; made by fb_record.
  type, bind(c) :: fb_particle_record
    character(kind=c_char) :: name(FB_NAME_ROOM) = c_null_char, component(FB_NAME_ROOM) = c_null_char
    character(kind=c_char) :: units(FB_NAME_ROOM) = c_null_char
    character(kind=c_char) :: compress(FB_NAME_ROOM) = c_null_char
    integer(c_int) :: as_dtype = 0
    type(fb_arg) :: values
  end type fb_particle_record

  !> What an array of a snapshot is.
  integer(c_int), parameter :: OF_MESH = 1, OF_PARTICLES = 2

  !> What goes with an array of a snapshot.
  type, bind(c) :: said_of_array
    type(c_ptr) :: units = c_null_ptr, attrs = c_null_ptr, dims = c_null_ptr, coords = c_null_ptr, overlap = c_null_ptr
    type(c_ptr) :: spacing = c_null_ptr, origin = c_null_ptr, position = c_null_ptr
    type(c_ptr) :: fill = c_null_ptr, compress = c_null_ptr, record = c_null_ptr, component = c_null_ptr
    integer(c_int) :: ndims = 0, ncoords = 0, npoints = 0, kind = 0, as_dtype = 0
  end type said_of_array

  interface
    function fbf_put(run, name, set, dtype, truth, array, units, attrs, version, new_version) bind(c) result(status)
      import
      type(c_ptr), value :: run, name, units, attrs, version, new_version
      integer(c_int64_t), value :: set
      integer(c_int), value :: dtype, truth
      type(*), intent(in) :: array(..)
      integer(c_int) :: status
    end function fbf_put
    function fbf_get(run, snapshot, name, set, dtype, truth, array, ndim, offset, count, step) bind(c) result(status)
      import
      type(c_ptr), value :: run, snapshot, name, offset, count, step
      integer(c_int64_t), value :: set
      integer(c_int), value :: dtype, truth, ndim
      type(*), intent(inout) :: array(..)
      integer(c_int) :: status
    end function fbf_get
    function fbf_series(run, name, dtype, truth, array, steps, count, ndim, offset, step, missing_nan) &
        bind(c) result(status)
      import
      type(c_ptr), value :: run, name, steps, offset, step
      integer(c_int64_t), value :: count
      integer(c_int), value :: dtype, truth, ndim, missing_nan
      type(*), intent(inout) :: array(..)
      integer(c_int) :: status
    end function fbf_series
    function fbf_constant(run, name, dtype, truth, array, step, said) bind(c) result(status)
      import
      type(c_ptr), value :: run, name
      integer(c_int), value :: dtype, truth
      type(*), intent(in) :: array(..)
      integer(c_int64_t), value :: step
      type(said_of_array), intent(in) :: said
      integer(c_int) :: status
    end function fbf_constant
    function fbf_rows_array(rows, column, dtype, truth, array) bind(c) result(status)
      import
      type(c_ptr), value :: rows
      integer(c_int), value :: column, dtype, truth
      type(*), intent(inout) :: array(..)
      integer(c_int) :: status
    end function fbf_rows_array
    function fbf_snapshot_put(snapshot, name, dtype, truth, array, place, offset, global, said) bind(c) result(status)
      import
      type(c_ptr), value :: snapshot, name, offset, global
      integer(c_int), value :: dtype, truth, place
      type(*), intent(in) :: array(..)
      type(said_of_array), intent(in) :: said
      integer(c_int) :: status
    end function fbf_snapshot_put
    function fbf_snapshot_mesh(snapshot, name, components, count, place, offset, global, said) bind(c) result(status)
      import
      type(c_ptr), value :: snapshot, name, offset, global
      type(fb_mesh_component), intent(in) :: components(*)
      integer(c_int), value :: count, place
      type(said_of_array), intent(in) :: said
      integer(c_int) :: status
    end function fbf_snapshot_mesh
    function fbf_snapshot_particles(snapshot, name, records, count, place, offset, global, sort_by) bind(c) result(status)
      import
      type(c_ptr), value :: snapshot, name, offset, global, sort_by
      type(fb_particle_record), intent(in) :: records(*)
      integer(c_int), value :: count, place
      integer(c_int) :: status
    end function fbf_snapshot_particles
    function fbf_attr_put(of, key, dtype, truth, array) bind(c) result(status)
      import
      type(lib_object_struct), intent(in) :: of
      type(c_ptr), value :: key
      integer(c_int), value :: dtype, truth
      type(*), intent(in) :: array(..)
      integer(c_int) :: status
    end function fbf_attr_put
    function fbf_attr_get(of, key, dtype, truth, array) bind(c) result(status)
      import
      type(lib_object_struct), intent(in) :: of
      type(c_ptr), value :: key
      integer(c_int), value :: dtype, truth
      type(*), intent(inout) :: array(..)
      integer(c_int) :: status
    end function fbf_attr_get
    function fbf_attr_info(of, key, info) bind(c) result(status)
      import
      type(lib_object_struct), intent(in) :: of
      type(c_ptr), value :: key
      type(lib_info_struct), intent(inout) :: info
      integer(c_int) :: status
    end function fbf_attr_info
    function fbf_attr_get_str(of, key, words) bind(c) result(status)
      import
      type(lib_object_struct), intent(in) :: of
      type(c_ptr), value :: key
      type(c_ptr), intent(inout) :: words
      integer(c_int) :: status
    end function fbf_attr_get_str
    function fbf_attr_set_json(of, json) bind(c) result(status)
      import
      type(lib_object_struct), intent(in) :: of
      type(c_ptr), value :: json
      integer(c_int) :: status
    end function fbf_attr_set_json
    function fbf_attr_get_json(of, json) bind(c) result(status)
      import
      type(lib_object_struct), intent(in) :: of
      type(c_ptr), intent(inout) :: json
      integer(c_int) :: status
    end function fbf_attr_get_json
    function fbf_attr_delete(of, key) bind(c) result(status)
      import
      type(lib_object_struct), intent(in) :: of
      type(c_ptr), value :: key
      integer(c_int) :: status
    end function fbf_attr_delete
    function fbf_attr_has(of, key, has) bind(c) result(status)
      import
      type(lib_object_struct), intent(in) :: of
      type(c_ptr), value :: key
      integer(c_int), intent(inout) :: has
      integer(c_int) :: status
    end function fbf_attr_has
    function fbf_ref_create(client, dtype, truth, array, server, with, services, reference) &
        bind(c) result(status)
      import
      type(c_ptr), value :: client, server, with, services
      integer(c_int), value :: dtype, truth
      type(*), intent(in) :: array(..)
      type(c_ptr), intent(inout) :: reference
      integer(c_int) :: status
    end function fbf_ref_create
    function fbf_ref_zeros(client, dtype, ndim, shape, server, with, services, reference) &
        bind(c) result(status)
      import
      type(c_ptr), value :: client, server, with, services
      integer(c_int), value :: dtype, ndim
      integer(c_int64_t), intent(in) :: shape(*)
      type(c_ptr), intent(inout) :: reference
      integer(c_int) :: status
    end function fbf_ref_zeros
    function fbf_ref_write(reference, dtype, truth, array, ndim, offset, count, step, put) &
        bind(c, name='fbf_ref_move') result(status)
      import
      type(c_ptr), value :: reference, offset, count, step
      integer(c_int), value :: dtype, truth, ndim, put
      type(*), intent(in) :: array(..)
      integer(c_int) :: status
    end function fbf_ref_write
    function fbf_ref_read(reference, dtype, truth, array, ndim, offset, count, step, put) &
        bind(c, name='fbf_ref_move') result(status)
      import
      type(c_ptr), value :: reference, offset, count, step
      integer(c_int), value :: dtype, truth, ndim, put
      type(*), intent(inout) :: array(..)
      integer(c_int) :: status
    end function fbf_ref_read
    subroutine fbf_argument(direction, dtype, truth, array, made) bind(c)
      import
      integer(c_int), value :: direction, dtype, truth
      type(*), intent(in) :: array(..)
      type(fb_arg), intent(inout) :: made
    end subroutine fbf_argument
    subroutine fbf_value(dtype, truth, scalar, made) bind(c)
      import
      integer(c_int), value :: dtype, truth
      type(*), intent(in) :: scalar(..)
      type(fb_arg), intent(inout) :: made
    end subroutine fbf_value
    subroutine fbf_file(direction, path, made) bind(c)
      import
      integer(c_int), value :: direction
      type(*), intent(in) :: path(..)
      type(fb_arg), intent(inout) :: made
    end subroutine fbf_file
    subroutine fbf_raw(direction, array, length, made) bind(c)
      import
      integer(c_int), value :: direction
      type(*), intent(in) :: array(..)
      type(c_ptr), value :: length
      type(fb_arg), intent(inout) :: made
    end subroutine fbf_raw
    function fbf_call(client, service, args, count, timeout) bind(c) result(status)
      import
      type(c_ptr), value :: client, service
      type(fb_arg), intent(in), optional :: args(*)
      integer(c_int), value :: count
      real(c_double), value :: timeout
      integer(c_int) :: status
    end function fbf_call
    function fbf_call_async(client, service, args, count, transfer, future, mending) bind(c) result(status)
      import
      type(c_ptr), value :: client, service
      type(fb_arg), intent(in) :: args(*)
      integer(c_int), value :: count, transfer
      type(c_ptr), intent(inout) :: future, mending
      integer(c_int) :: status
    end function fbf_call_async
    function fbf_list() bind(c) result(list)
      import
      type(c_ptr) :: list
    end function fbf_list
    function fbf_bag_add(bag, args, count, timeout, index, tasks) bind(c) result(status)
      import
      type(c_ptr), value :: bag, tasks
      type(fb_arg), intent(in) :: args(*)
      integer(c_int), value :: count
      real(c_double), value :: timeout
      integer(c_int64_t), intent(inout) :: index
      integer(c_int) :: status
    end function fbf_bag_add
    function fbf_bag_next(bag, timeout, index, outcome, tasks) bind(c) result(status)
      import
      type(c_ptr), value :: bag, tasks
      real(c_double), value :: timeout
      integer(c_int64_t), intent(inout) :: index
      integer(c_int), intent(inout) :: outcome
      integer(c_int) :: status
    end function fbf_bag_next
    function fbf_group_call(group, service, args, count, calls) bind(c) result(status)
      import
      type(c_ptr), value :: group, service, calls
      type(fb_arg), intent(in) :: args(*)
      integer(c_int), value :: count
      integer(c_int) :: status
    end function fbf_group_call
    subroutine fbf_group_ended(calls) bind(c)
      import
      type(c_ptr), value :: calls
    end subroutine fbf_group_ended
    subroutine fbf_finish(mending) bind(c)
      import
      type(c_ptr), value :: mending
    end subroutine fbf_finish
    function fbf_table_write(table, values, nvalues, update, condition, args, nargs, count) bind(c) result(status)
      import
      type(c_ptr), value :: table, condition
      type(fb_row_values), intent(in) :: values(*)
      integer(c_int), value :: nvalues, update, nargs
      type(fb_arg), intent(in), optional :: args(*)
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function fbf_table_write
    function fbf_table_delete(table, condition, args, nargs, count) bind(c) result(status)
      import
      type(c_ptr), value :: table, condition
      type(fb_arg), intent(in), optional :: args(*)
      integer(c_int), value :: nargs
      integer(c_int64_t), intent(inout), optional :: count
      integer(c_int) :: status
    end function fbf_table_delete
    function fbf_select(run, table, columns, ncolumns, condition, args, nargs, rows) bind(c) result(status)
      import
      type(c_ptr), value :: run, table, columns, condition
      integer(c_int), value :: ncolumns, nargs
      type(fb_arg), intent(in), optional :: args(*)
      type(c_ptr), intent(inout) :: rows
      integer(c_int) :: status
    end function fbf_select
  end interface

contains

  !> How many axes an array has that was given.
  pure function axes_of(values) result(n)
    type(fb_arg), intent(in) :: values
    integer :: n
    n = values%ndim
  end function axes_of
end module forebay_shim
