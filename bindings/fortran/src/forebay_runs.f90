!> Runs: opened, closed before their end, listed; and what the library gives, as Fortran has it.

module forebay_runs
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_structures
  implicit none
  private
  public :: fb_run_open, fb_run_close_unfinished, fb_list
  public :: fb_version, fb_status_name, fb_status_remedy, fb_fail, fb_in_use
  public :: described, names_taken, numbers_taken, as_array

  !> What a data set, an array of a snapshot or a reference is.
  type, public :: fb_dataset
    character(len=FB_NAME_ROOM - 1) :: name = ''
    character(len=FB_UNIT_ROOM - 1) :: units = ''
    !> Its dtype, such as FB_F64.
    integer :: dtype = 0
    !> FB_ROW_MAJOR or FB_COLUMN_MAJOR, as it was put.
    integer :: order = 0
    !> Its rank, and that many extents.
    integer :: ndim = 0
    integer(c_int64_t) :: shape(FB_MAX_RANK) = 0
    integer(c_int64_t) :: set = 0
    !> How often it was put.
    integer(c_int64_t) :: version = 0
    integer(c_int64_t) :: nbytes = 0
  end type fb_dataset

contains

  !> Opens a run by its name or path; `mode` is r, r+, a, w or x, as in C. A `client` is none of the ranks and writes
  !> beside them.
  subroutine fb_run_open(place, mode, run, buffer, full, late, rank, ranks, scratch, program, &
      elsewhere, keep, client, stat, errmsg, pack, compress)
    character(len=*), intent(in) :: place, mode
    type(fb_run), intent(inout) :: run
    class(*), intent(in), optional :: buffer
    character(len=*), intent(in), optional :: full, late, program, elsewhere, keep, pack, compress
    integer, intent(in), optional :: rank, ranks
    logical, intent(in), optional :: scratch, client
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_place(:), c_mode(:), c_full(:), c_late(:), c_program(:), &
      c_elsewhere(:), c_keep(:), c_pack(:), c_compress(:)
    type(lib_open_opts_struct), target :: opts
    type(c_ptr) :: made
    integer(c_int) :: status
    opts%size = c_sizeof(opts)
    opts%full = text(full, c_full)
    opts%late = text(late, c_late)
    opts%program = text(program, c_program)
    opts%elsewhere = text(elsewhere, c_elsewhere)
    opts%keep = text(keep, c_keep)
    opts%pack = text(pack, c_pack)
    opts%compress = text(compress, c_compress)
    if (present(rank)) opts%rank = rank
    if (present(ranks)) opts%ranks = ranks
    if (present(scratch)) opts%scratch = merge(1, 0, scratch)
    if (present(client)) opts%client = merge(1, 0, client)
    made = c_null_ptr
    status = whole(buffer, opts%buffer)
    if (status == FB_OK) status = lib_run_open(text(place, c_place), text(mode, c_mode), c_loc(opts), made)
    if (status == FB_OK) call hold(run%at, A_RUN, made)
    call settle(status, stat, errmsg)
  end subroutine fb_run_open

  !> Closes a run as fb_run_close does, for a program that did not come to its end: fb_restart goes on with the run.
  subroutine fb_run_close_unfinished(run, stat, errmsg)
    type(fb_run), intent(inout) :: run
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: status
    status = lib_run_close_unfinished(id(run%at))
    call gave_back(run%at, status, stat, errmsg)
  end subroutine fb_run_close_unfinished

  ! --- data sets by name ----------------------------------------------------------------------------

  !> A description, as Fortran has it.
  pure function described(info) result(made)
    type(lib_info_struct), intent(in) :: info
    type(fb_dataset) :: made
    made%name = text_in(info%name)
    made%units = text_in(info%units)
    made%dtype = info%dtype
    made%order = info%order
    made%ndim = info%ndim
    made%shape = info%shape
    made%set = info%set
    made%version = info%version
    made%nbytes = info%nbytes
  end function described

  !> Describes the data sets whose names match a glob, of one set or of all.
  subroutine fb_list(run, pattern, infos, set, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: pattern
    type(fb_dataset), allocatable, intent(inout) :: infos(:)
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_pattern(:)
    type(lib_info_struct), pointer :: found(:)
    type(c_ptr) :: where
    integer(c_int64_t) :: number, count, i
    integer(c_int) :: status
    number = FB_ALL_SETS
    count = 0
    where = c_null_ptr
    status = whole(set, number)
    if (status == FB_OK) status = lib_list(id(run%at), text(pattern, c_pattern), number, where, count)
    if (status == FB_OK) then
      if (allocated(infos)) deallocate (infos)
      allocate (infos(count))
      call c_f_pointer(where, found, [count])
      do i = 1, count
        infos(i) = described(found(i))
      end do
      status = lib_free(where)
    end if
    call settle(status, stat, errmsg)
  end subroutine fb_list

  ! --- the library ----------------------------------------------------------------------------------

  !> Names that C made for us, as an array; they are given back.
  function names_taken(where, count, names) result(status)
    type(c_ptr), intent(in) :: where
    integer(c_int64_t), intent(in) :: count
    character(len=*), allocatable, intent(inout) :: names(:)
    integer(c_int) :: status
    integer(c_int) :: freed
    type(c_ptr), pointer :: found(:)
    call c_f_pointer(where, found, [count])
    status = as_array(found, names)
    freed = lib_free(where)
    if (status == FB_OK) status = freed
  end function names_taken

  !> Numbers that the library gave, as an array; its memory goes back.
  function numbers_taken(where, count, numbers) result(status)
    type(c_ptr), intent(in) :: where
    integer(c_int64_t), intent(in) :: count
    integer(c_int64_t), allocatable, intent(inout) :: numbers(:)
    integer(c_int) :: status
    integer(c_int64_t), pointer :: found(:)
    call c_f_pointer(where, found, [count])
    numbers = found
    status = lib_free(where)
  end function numbers_taken

  !> Texts that C has, as an array; null is blank.
  function as_array(found, words) result(status)
    type(c_ptr), intent(in) :: found(:)
    character(len=*), allocatable, intent(inout) :: words(:)
    integer(c_int) :: status
    character(len=:), allocatable :: word
    integer :: i
    status = FB_OK
    if (allocated(words)) deallocate (words)
    allocate (words(size(found)))
    do i = 1, size(found)
      word = text_from(found(i))
      words(i) = word
      if (len(word) > len(words)) status = note('"'//word//'" is longer than the elements of the array; give longer ones')
    end do
    if (status /= FB_OK) deallocate (words)
  end function as_array

  !> The version of the library, such as 0.1.0.
  function fb_version() result(version)
    character(len=:), allocatable :: version
    version = text_from(lib_version())
  end function fb_version

  !> The name of a status, such as NotFound.
  function fb_status_name(code) result(name)
    integer, intent(in) :: code
    character(len=:), allocatable :: name
    name = text_from(lib_status_name(code))
  end function fb_status_name

  !> What to do about a status.
  function fb_status_remedy(code) result(remedy)
    integer, intent(in) :: code
    character(len=:), allocatable :: remedy
    remedy = text_from(lib_status_remedy(code))
  end function fb_status_remedy

  !> For a procedure of the program that Forebay calls and that fails by itself: sets the `status` it returns, with a
  !> text for whoever hears of it. `code` is one such as FB_IO.
  subroutine fb_fail(code, words, status)
    integer, intent(in) :: code
    character(len=*), intent(in) :: words
    integer, intent(inout) :: status
    character(kind=c_char), allocatable, target :: c_words(:)
    status = lib_fail(code, text(words, c_words))
  end subroutine fb_fail

  !> How many handles the program has and has not given back.
  subroutine fb_in_use(count)
    integer(c_int64_t), intent(inout) :: count
    call settle(lib_in_use(count))
  end subroutine fb_in_use

end module forebay_runs
