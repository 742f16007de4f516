!> Where arrays belong: blocks of global arrays, parts of data sets; what they say of themselves; whether they fit; what
!> arguments C is given.

module forebay_places
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_shim
  use forebay_structures
  implicit none
  private
  public :: place_of, place_of_particles, part_of, fits, name_column, number_of, about_array, about_points, object_of, array_of

  !> A call as the service's procedure sees it; good until that returns.
  type, public :: fb_request
    type(c_ptr) :: handle = c_null_ptr
  end type fb_request

  !> What goes with an array of a snapshot, and what C looks at meanwhile.
  type, public :: described_array
    type(said_of_array) :: said
    character(kind=c_char), allocatable :: units(:), attrs(:), overlap(:), record(:), component(:), compress(:)
    real(c_double) :: spacing(FB_MAX_RANK) = 0, origin(FB_MAX_RANK) = 0, position(FB_MAX_RANK) = 0
    character(kind=c_char) :: names(FB_NAME_ROOM, FB_MAX_RANK) = c_null_char
    type(c_ptr) :: dims(FB_MAX_RANK) = c_null_ptr
    type(fb_coordinate), allocatable :: coords(:)
    type(lib_array_struct) :: fill
    real(c_double) :: fill_real = 0
    integer(c_int64_t) :: fill_integer = 0
  end type described_array

  !> An attribute of something, or, without a key, all of them.
  type, public :: attribute
    type(lib_object_struct) :: of
    type(c_ptr) :: key = c_null_ptr
    character(kind=c_char), allocatable :: c_name(:), c_key(:)
  end type attribute

contains

  !> What an array of a snapshot says of itself.
  function about_array(units, dims, coords, attrs, overlap, fill, compress, made) result(status)
    character(len=*), intent(in), optional :: units, dims(:), attrs, overlap, compress
    type(fb_coordinate), intent(in), optional :: coords(:)
    class(*), intent(in), optional :: fill
    type(described_array), target, intent(inout) :: made
    integer(c_int) :: status
    integer :: i
    status = FB_OK
    made%said%units = text(units, made%units)
    made%said%attrs = text(attrs, made%attrs)
    made%said%overlap = text(overlap, made%overlap)
    made%said%compress = text(compress, made%compress)
    if (present(fill)) status = about_fill(fill, made)
    if (present(coords)) then
      made%coords = coords
      made%said%ncoords = size(coords)
      if (size(coords) > 0) made%said%coords = c_loc(made%coords)
    end if
    if (.not. present(dims)) return
    if (size(dims) > FB_MAX_RANK) then
      status = note('dims names more than 8 axes; 8 is the highest rank')
      return
    end if
    do i = 1, size(dims)
      if (len_trim(dims(i)) >= FB_NAME_ROOM) status = &
          note('the name '//trim(dims(i))//' of an axis is too long; 255 bytes are the most')
      call name_column(dims(i), made%names(:, i))
      made%dims(i) = c_loc(made%names(1, i))
    end do
    made%said%dims = c_loc(made%dims)
    made%said%ndims = size(dims)
  end function about_array

  !> The value of elements that no rank puts: a real or an integer, which the library makes one of the array's dtype.
  function about_fill(fill, made) result(status)
    class(*), intent(in) :: fill
    type(described_array), target, intent(inout) :: made
    integer(c_int) :: status
    status = FB_OK
    made%fill%dtype = FB_F64
    made%fill%data = c_loc(made%fill_real)
    select type (fill)
    type is (real(c_double)); made%fill_real = fill
    type is (real(c_float)); made%fill_real = fill
    class default
      status = whole(fill, made%fill_integer)
      if (status /= FB_OK) status = note('fill is neither a real nor an integer of 4 or 8 bytes; give one')
      made%fill%dtype = FB_I64
      made%fill%data = c_loc(made%fill_integer)
    end select
    made%said%fill = c_loc(made%fill)
  end function about_fill

  !> Where the points of a mesh are.
  function about_points(spacing, origin, position, made) result(status)
    real(c_double), intent(in), optional :: spacing(:), origin(:), position(:)
    type(described_array), target, intent(inout) :: made
    integer(c_int) :: status
    status = FB_OK
    made%said%kind = OF_MESH
    call take(spacing, made%spacing, made%said%spacing)
    call take(origin, made%origin, made%said%origin)
    call take(position, made%position, made%said%position)
  contains
    subroutine take(given, kept, at)
      real(c_double), intent(in), optional :: given(:)
      real(c_double), target, intent(inout) :: kept(FB_MAX_RANK)
      type(c_ptr), intent(inout) :: at
      if (.not. present(given)) return
      if (made%said%npoints == 0) made%said%npoints = size(given)
      if (size(given) /= made%said%npoints .or. size(given) > FB_MAX_RANK) then
        status = note('spacing, origin and position need a number for each axis of the mesh')
        return
      end if
      kept(:size(given)) = given
      at = c_loc(kept)
    end subroutine take
  end function about_points

  !> An attribute of a run, a data set or a table, or all of them.
  function object_of(run, name, set, table, key, one) result(status)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in), optional :: name, table, key
    class(*), intent(in), optional :: set
    type(attribute), target, intent(inout) :: one
    integer(c_int) :: status
    one%of%run = id(run%at)
    status = whole(set, one%of%set)
    one%key = text(key, one%c_key)
    if (present(table)) then
      one%of%set = FB_OF_TABLE
      one%of%name = text(table, one%c_name)
      if (present(name)) status = note('an attribute is of a table or of a data set, not of both')
    else
      one%of%name = text(name, one%c_name)
    end if
  end function object_of

  !> An attribute of an array of a snapshot, or all of them.
  function array_of(snapshot, name, key, one) result(status)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: name
    character(len=*), intent(in), optional :: key
    type(attribute), target, intent(inout) :: one
    integer(c_int) :: status
    status = FB_OK
    one%of%snapshot = id(snapshot%at)
    one%of%name = text(name, one%c_name)
    one%key = text(key, one%c_key)
    if (.not. c_associated(one%of%snapshot)) status = note('the snapshot is none; begin it with fb_snapshot_begin')
  end function array_of

  !> The place of a rank's array of a snapshot.
  function place_of(rank, offset, global, append, c_offset, c_global, at, of, place) result(status)
    integer, intent(in) :: rank
    class(*), intent(in), optional :: offset(:), global(:)
    logical, intent(in), optional :: append
    integer(c_int64_t), intent(inout), target :: c_offset(FB_MAX_RANK), c_global(FB_MAX_RANK)
    type(c_ptr), intent(inout) :: at, of
    integer(c_int), intent(inout) :: place
    integer(c_int) :: status
    integer :: n, m
    n = rank
    m = rank
    place = WHOLE_ARRAY
    status = wholes(offset, c_offset, n, at)
    if (status == FB_OK) status = wholes(global, c_global, m, of)
    if (status /= FB_OK) return
    if (present(offset) .neqv. present(global)) then
      status = note('a block of a global array needs both offset and global')
    else if (n /= rank .or. m /= rank) then
      status = note('offset and global need an element for each axis of the array')
    end if
    if (present(offset)) place = ITS_BLOCK
    if (.not. present(append)) return
    if (append .and. present(offset)) status = note('an array is a block of a global one or appended, not both')
    if (append) place = BEHIND
  end function place_of

  !> The place of a rank's particles.
  function place_of_particles(offset, global, append, c_offset, c_global, at, of, place) result(status)
    class(*), intent(in), optional :: offset, global
    logical, intent(in), optional :: append
    integer(c_int64_t), intent(inout), target :: c_offset(1), c_global(1)
    type(c_ptr), intent(inout) :: at, of
    integer(c_int), intent(inout) :: place
    integer(c_int) :: status
    at = c_loc(c_offset)
    of = c_loc(c_global)
    place = WHOLE_ARRAY
    status = whole(offset, c_offset(1))
    if (status == FB_OK) status = whole(global, c_global(1))
    if (present(offset) .neqv. present(global)) &
        status = note('particles at an offset need both offset and global, the number of all')
    if (present(offset)) place = ITS_BLOCK
    if (.not. present(append)) return
    if (append .and. present(offset)) status = note('particles are at an offset or appended, not both')
    if (append) place = BEHIND
  end function place_of_particles

  !> Offset, count and step of a part, as C has them.
  function part_of(offset, count, step, c_part, part, n) result(status)
    class(*), intent(in) :: offset(:)
    class(*), intent(in), optional :: count(:), step(:)
    integer(c_int64_t), intent(inout), target :: c_part(FB_MAX_RANK, 3)
    type(c_ptr), intent(inout) :: part(3)
    integer, intent(inout) :: n
    integer(c_int) :: status
    integer :: counts, steps
    status = wholes(offset, c_part(:, 1), n, part(1))
    counts = n
    steps = n
    if (status == FB_OK) status = wholes(count, c_part(:, 2), counts, part(2))
    if (status == FB_OK) status = wholes(step, c_part(:, 3), steps, part(3))
    if (status == FB_OK .and. (counts /= n .or. steps /= n)) &
        status = note('offset, count and step need an element for each axis of the data set')
  end function part_of

  !> Whether an array of that rank and dtype can hold what is described.
  function fits(rank, info, dtype, name) result(status)
    integer, intent(in) :: rank
    type(lib_info_struct), intent(in) :: info
    integer(c_int), intent(in) :: dtype
    character(len=*), intent(in) :: name
    integer(c_int) :: status
    character(len=40) :: stored, given
    status = FB_OK
    if (info%ndim == rank .and. info%dtype == dtype) return
    write (stored, '(a, 1x, i0)') trim(dtype_name(info%dtype)), info%ndim
    write (given, '(a, 1x, i0)') trim(dtype_name(dtype)), rank
    status = note(trim(name)//' is of dtype and rank '//trim(stored)//', the array of '//trim(given)// &
        '; give one of that kind and rank')
  end function fits

  pure function dtype_name(dtype) result(name)
    integer(c_int), intent(in) :: dtype
    character(len=len(DTYPE_NAMES)) :: name
    name = '?'
    if (dtype >= 1 .and. dtype <= size(DTYPE_NAMES)) name = DTYPE_NAMES(dtype)
  end function dtype_name

  !> The number of arguments; none were given: 0.
  pure function number_of(args) result(n)
    type(fb_arg), intent(in), optional :: args(:)
    integer(c_int) :: n
    n = 0
    if (present(args)) n = size(args)
  end function number_of

  !> The name of a column, with C's zero at its end.
  pure subroutine name_column(name, column)
    character(len=*), intent(in) :: name
    character(kind=c_char), intent(inout) :: column(FB_NAME_ROOM)
    integer :: i
    column = c_null_char
    do i = 1, min(len_trim(name), FB_NAME_ROOM - 1)
      column(i) = name(i:i)
    end do
  end subroutine name_column

end module forebay_places
