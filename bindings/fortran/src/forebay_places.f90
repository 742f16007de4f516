!> Where arrays belong: blocks of global arrays, parts of data sets; whether they fit; what arguments C is given.

module forebay_places
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_shim
  use forebay_structures
  implicit none
  private
  public :: place_of, part_of, fits, name_column, number_of

  !> A call as the service's procedure sees it; good until that returns.
  type, public :: fb_request
    type(c_ptr) :: handle = c_null_ptr
  end type fb_request

contains

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
