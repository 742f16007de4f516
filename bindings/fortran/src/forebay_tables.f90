!> Relational tables, and the rows that queries give. Columns of rows count from 1.

module forebay_tables
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_places, only: name_column, number_of
  use forebay_runs, only: as_array
  use forebay_shim
  use forebay_structures
  implicit none
  private
  public :: fb_table_open, fb_table_columns, fb_table_insert, fb_table_select, fb_table_update, fb_table_delete
  public :: fb_table_index
  public :: fb_sql, fb_rows_get, fb_rows_bytes

  !> A column of a table.
  type, public :: fb_column
    character(len=FB_NAME_ROOM - 1) :: name = ''
    integer :: dtype = FB_F64
    character(len=FB_UNIT_ROOM - 1) :: units = ''
    !> Number of axes of the array that each value is, of numbers or truth values, and their extents; 0: a single value.
    integer :: ndim = 0
    integer(c_int64_t) :: shape(FB_MAX_RANK) = 0
  end type fb_column

  !> A column of arrays: fb_column('v', FB_F64, 'm/s', shape=[3]).
  interface fb_column
    module procedure column_of_arrays, column_of_arrays_i64
  end interface fb_column

  !> A column of rows: real numbers (NaN: no value), integers, or texts (blank: no value).
  interface fb_rows_get
    module procedure rows_f64, rows_i64, rows_str
  end interface fb_rows_get

contains

  function column_of_arrays_i64(name, dtype, units, shape) result(made)
    character(len=*), intent(in) :: name
    integer, intent(in) :: dtype
    character(len=*), intent(in), optional :: units
    integer(c_int64_t), intent(in) :: shape(:)
    type(fb_column) :: made
    integer :: given
    made%name = name
    made%dtype = dtype
    if (present(units)) made%units = units
    ! One of more axes than there may be is refused by the library.
    made%ndim = size(shape)
    given = min(size(shape), FB_MAX_RANK)
    made%shape(:given) = shape(:given)
  end function column_of_arrays_i64

  function column_of_arrays(name, dtype, units, shape) result(made)
    character(len=*), intent(in) :: name
    integer, intent(in) :: dtype
    character(len=*), intent(in), optional :: units
    integer(c_int), intent(in) :: shape(:)
    type(fb_column) :: made
    made = column_of_arrays_i64(name, dtype, units, int(shape, c_int64_t))
  end function column_of_arrays

  !> Creates a table with its columns, or opens it when they are not given or the same.
  subroutine fb_table_open(run, name, table, columns, history, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: name
    type(fb_table), intent(inout) :: table
    type(fb_column), intent(in), optional :: columns(:)
    logical, intent(in), optional :: history
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:), names(:, :), units(:, :)
    integer(c_int64_t), allocatable, target :: shapes(:, :)
    type(lib_column_struct), allocatable, target :: c_columns(:)
    type(lib_table_opts_struct), target :: opts
    type(c_ptr) :: made, first
    integer(c_int) :: status
    integer :: i, n
    n = 0
    first = c_null_ptr
    made = c_null_ptr
    if (present(columns)) then
      n = size(columns)
      allocate (c_columns(n), names(FB_NAME_ROOM, n), units(FB_NAME_ROOM, n), shapes(FB_MAX_RANK, n))
      do i = 1, n
        call name_column(columns(i)%name, names(:, i))
        call name_column(columns(i)%units, units(:, i))
        c_columns(i)%name = c_loc(names(1, i))
        c_columns(i)%dtype = columns(i)%dtype
        if (columns(i)%units /= '') c_columns(i)%units = c_loc(units(1, i))
        c_columns(i)%ndim = columns(i)%ndim
        shapes(:, i) = columns(i)%shape
        c_columns(i)%shape = c_loc(shapes(1, i))
      end do
      if (n > 0) first = c_loc(c_columns)
    end if
    opts%size = c_sizeof(opts)
    if (present(history)) opts%history = merge(1, 0, history)
    status = lib_table_open(id(run%at), text(name, c_name), first, n, c_loc(opts), made)
    if (status == FB_OK) call hold(table%at, A_TABLE, made)
    call settle(status, stat, errmsg)
  end subroutine fb_table_open

  !> The columns of a table.
  subroutine fb_table_columns(table, columns, stat, errmsg)
    type(fb_table), intent(in) :: table
    type(fb_column), allocatable, intent(inout) :: columns(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(lib_column_info_struct), pointer :: found(:)
    integer(c_int64_t) :: count, i
    type(c_ptr) :: where
    integer(c_int) :: status
    where = c_null_ptr
    count = 0
    status = lib_table_columns(id(table%at), where, count)
    if (status == FB_OK) then
      if (allocated(columns)) deallocate (columns)
      allocate (columns(count))
      call c_f_pointer(where, found, [count])
      do i = 1, count
        columns(i)%name = text_in(found(i)%name)
        columns(i)%units = text_in(found(i)%units)
        columns(i)%dtype = found(i)%dtype
        columns(i)%ndim = found(i)%ndim
        columns(i)%shape = found(i)%shape
      end do
      status = lib_free(where)
    end if
    call settle(status, stat, errmsg)
  end subroutine fb_table_columns

  !> Adds rows: as many as the arrays of `values` have elements, of columns of arrays as their last extent is.
  subroutine fb_table_insert(table, values, stat, errmsg)
    type(fb_table), intent(in) :: table
    type(fb_row_values), intent(in) :: values(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(fbf_table_write(id(table%at), values, size(values), 0, c_null_ptr, nargs=0), stat, errmsg)
  end subroutine fb_table_insert

  !> Changes the rows where a condition such as 'mass > ?' holds: each column named gets the one value given.
  subroutine fb_table_update(table, values, condition, args, count, stat, errmsg)
    type(fb_table), intent(in) :: table
    type(fb_row_values), intent(in) :: values(:)
    character(len=*), intent(in), optional :: condition
    type(fb_arg), intent(in), optional :: args(:)
    integer(c_int64_t), intent(inout), optional :: count
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_condition(:)
    call settle(fbf_table_write(id(table%at), values, size(values), 1, text(condition, c_condition), args, &
        number_of(args), count), stat, errmsg)
  end subroutine fb_table_update

  !> Makes an index of columns, unless there is one, by which conditions and SQL find their rows without reading all.
  subroutine fb_table_index(table, columns, stat, errmsg)
    type(fb_table), intent(in) :: table
    character(len=*), intent(in) :: columns(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), target :: names(FB_NAME_ROOM, size(columns))
    type(c_ptr) :: named(size(columns))
    integer :: i
    do i = 1, size(columns)
      call name_column(columns(i), names(:, i))
      named(i) = c_loc(names(1, i))
    end do
    call settle(lib_table_index(id(table%at), named, size(columns)), stat, errmsg)
  end subroutine fb_table_index

  !> Removes the rows where a condition holds, or all.
  subroutine fb_table_delete(table, condition, args, count, stat, errmsg)
    type(fb_table), intent(in) :: table
    character(len=*), intent(in), optional :: condition
    type(fb_arg), intent(in), optional :: args(:)
    integer(c_int64_t), intent(inout), optional :: count
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_condition(:)
    call settle(fbf_table_delete(id(table%at), text(condition, c_condition), args, number_of(args), count), stat, errmsg)
  end subroutine fb_table_delete

  !> Reads rows, in the order they came, where a condition holds: all columns or those named.
  subroutine fb_table_select(table, rows, columns, condition, args, stat, errmsg)
    type(fb_table), intent(in) :: table
    type(fb_rows), intent(inout) :: rows
    character(len=*), intent(in), optional :: columns(:), condition
    type(fb_arg), intent(in), optional :: args(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_condition(:), names(:, :)
    type(c_ptr), allocatable, target :: named(:)
    type(c_ptr) :: made, first
    integer(c_int) :: status
    integer :: i, n
    n = 0
    first = c_null_ptr
    made = c_null_ptr
    if (present(columns)) then
      n = size(columns)
      allocate (names(FB_NAME_ROOM, n), named(n + 1))
      do i = 1, n
        call name_column(columns(i), names(:, i))
        named(i) = c_loc(names(1, i))
      end do
      first = c_loc(named)
    end if
    status = fbf_select(c_null_ptr, id(table%at), first, n, text(condition, c_condition), args, number_of(args), made)
    if (status == FB_OK) call hold(rows%at, OF_ROWS, made)
    call settle(status, stat, errmsg)
  end subroutine fb_table_select

  !> Reads with SQL; statements that write are refused.
  subroutine fb_sql(run, query, rows, args, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: query
    type(fb_rows), intent(inout) :: rows
    type(fb_arg), intent(in), optional :: args(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_query(:)
    type(c_ptr) :: made
    integer(c_int) :: status
    made = c_null_ptr
    status = fbf_select(id(run%at), c_null_ptr, c_null_ptr, 0, text(query, c_query), args, number_of(args), made)
    if (status == FB_OK) call hold(rows%at, OF_ROWS, made)
    call settle(status, stat, errmsg)
  end subroutine fb_sql

  ! --- rows -----------------------------------------------------------------------------------------

  subroutine rows_f64(rows, column, values, stat, errmsg)
    type(fb_rows), intent(in) :: rows
    integer, intent(in) :: column
    real(c_double), allocatable, target, intent(inout) :: values(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    real(c_double), allocatable, target :: room(:)
    integer(c_int64_t) :: n
    integer(c_int) :: status
    n = 0
    status = lib_rows_count(id(rows%at), n)
    allocate (room(n + 1))
    if (status == FB_OK) status = lib_rows_f64(id(rows%at), column - 1, c_loc(room))
    if (status == FB_OK) values = room(:n)
    call settle(status, stat, errmsg)
  end subroutine rows_f64

  subroutine rows_i64(rows, column, values, stat, errmsg)
    type(fb_rows), intent(in) :: rows
    integer, intent(in) :: column
    integer(c_int64_t), allocatable, target, intent(inout) :: values(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t), allocatable, target :: room(:)
    integer(c_int64_t) :: n
    integer(c_int) :: status
    n = 0
    status = lib_rows_count(id(rows%at), n)
    allocate (room(n + 1))
    if (status == FB_OK) status = lib_rows_i64(id(rows%at), column - 1, c_loc(room))
    if (status == FB_OK) values = room(:n)
    call settle(status, stat, errmsg)
  end subroutine rows_i64

  subroutine rows_str(rows, column, values, stat, errmsg)
    type(fb_rows), intent(in) :: rows
    integer, intent(in) :: column
    character(len=*), allocatable, intent(inout) :: values(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr), allocatable, target :: texts(:)
    integer(c_int64_t) :: n
    integer(c_int) :: status
    n = 0
    status = lib_rows_count(id(rows%at), n)
    allocate (texts(n + 1))
    if (status == FB_OK) status = lib_rows_str(id(rows%at), column - 1, c_loc(texts))
    if (status == FB_OK) status = as_array(texts(:n), values)
    call settle(status, stat, errmsg)
  end subroutine rows_str

  !> One cell as bytes.
  subroutine fb_rows_bytes(rows, row, column, bytes, stat, errmsg)
    type(fb_rows), intent(in) :: rows
    class(*), intent(in) :: row
    integer, intent(in) :: column
    integer(c_int8_t), allocatable, intent(inout) :: bytes(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int8_t), pointer :: found(:)
    type(c_ptr), target :: where
    integer(c_int64_t) :: number, count
    integer(c_int) :: status
    count = 0
    where = c_null_ptr
    status = whole(row, number)
    if (status == FB_OK) status = lib_rows_bytes(id(rows%at), number - 1, column - 1, c_loc(where), count)
    if (status == FB_OK) then
      if (allocated(bytes)) deallocate (bytes)
      allocate (bytes(count))
      if (count > 0) call c_f_pointer(where, found, [count])
      if (count > 0) bytes = found
    end if
    call settle(status, stat, errmsg)
  end subroutine fb_rows_bytes

end module forebay_tables
