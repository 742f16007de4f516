!> Texts of the length they are stored with, and what else is for texts and bytes alone.

module forebay_texts
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_places
  use forebay_shim
  use forebay_structures
  implicit none
  private
  public :: fb_get_alloc, fb_snapshot_get_alloc, fb_in_text, fb_in_bytes, fb_out_bytes, fb_in_file, fb_out_file
  public :: fb_request_str, fb_request_bytes, fb_request_set, fb_request_set_bytes

  interface fb_get_alloc
    module procedure get_alloc
  end interface fb_get_alloc
  interface fb_snapshot_get_alloc
    module procedure snapshot_get_alloc
  end interface fb_snapshot_get_alloc
  interface fb_request_set
    module procedure request_set
  end interface fb_request_set

contains

  !> Reads a text of a run into a variable that gets its length.
  subroutine get_alloc(run, name, words, set, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: name
    character(len=:), allocatable, intent(inout) :: words
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:)
    type(lib_info_struct), target :: info
    integer(c_int64_t) :: number
    integer(c_int) :: status
    number = 0
    status = whole(set, number)
    if (status == FB_OK) status = lib_dataset_info(id(run%at), text(name, c_name), number, c_loc(info))
    if (status == FB_OK) status = make(words, info, name)
    if (status == FB_OK) status = fbf_get(id(run%at), c_null_ptr, c_loc(c_name), number, FB_STR, 1, words, 0, &
        c_null_ptr, c_null_ptr, c_null_ptr)
    call settle(status, stat, errmsg)
  end subroutine get_alloc

  !> Reads a text of a complete snapshot into a variable that gets its length.
  subroutine snapshot_get_alloc(snapshot, name, words, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: name
    character(len=:), allocatable, intent(inout) :: words
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:)
    type(lib_info_struct), target :: info
    integer(c_int) :: status
    status = lib_snapshot_info(id(snapshot%at), text(name, c_name), c_loc(info))
    if (status == FB_OK) status = make(words, info, name)
    if (status == FB_OK) status = fbf_get(c_null_ptr, id(snapshot%at), c_loc(c_name), 0_c_int64_t, FB_STR, 1, words, &
        0, c_null_ptr, c_null_ptr, c_null_ptr)
    call settle(status, stat, errmsg)
  end subroutine snapshot_get_alloc

  function make(words, info, name) result(status)
    character(len=:), allocatable, intent(inout) :: words
    type(lib_info_struct), intent(in) :: info
    character(len=*), intent(in) :: name
    integer(c_int) :: status
    integer :: bad
    status = fits(1, info, int(FB_STR, c_int), name)
    if (status /= FB_OK) return
    if (allocated(words)) deallocate (words)
    allocate (character(len=info%shape(1)) :: words, stat=bad)
    if (bad /= 0) status = note('there is no memory for '//name)
  end function make

  !> A text of any length that goes to the service: a variable with the target attribute.
  function fb_in_text(words) result(made)
    character(len=*), pointer, intent(in) :: words
    type(fb_arg) :: made
    call fbf_argument(IS_IN, FB_STR, 1, words, made)
  end function fb_in_text

  !> The path of a file that goes to the service.
  function fb_in_file(path) result(made)
    character(len=*), intent(in) :: path
    type(fb_arg) :: made
    call fbf_file(IS_IN, path, made)
  end function fb_in_file

  !> The path of a file that comes back.
  function fb_out_file(path) result(made)
    character(len=*), intent(in) :: path
    type(fb_arg) :: made
    call fbf_file(IS_OUT, path, made)
  end function fb_out_file

  !> Bytes that go to the service.
  function fb_in_bytes(bytes) result(made)
    integer(c_int8_t), pointer, intent(in) :: bytes(:)
    type(fb_arg) :: made
    call fbf_raw(IS_IN, bytes, c_null_ptr, made)
  end function fb_in_bytes

  !> Room for bytes that come back; `length` gets their number.
  function fb_out_bytes(bytes, length) result(made)
    integer(c_int8_t), pointer, intent(in) :: bytes(:)
    integer(c_int64_t), pointer, intent(in) :: length
    type(fb_arg) :: made
    call fbf_raw(IS_OUT, bytes, c_loc(length), made)
  end function fb_out_bytes

  !> A text parameter of a request; of a file, its path: the procedure reads that file, or writes it.
  subroutine fb_request_str(request, index, words, stat, errmsg)
    type(fb_request), intent(in) :: request
    integer, intent(in) :: index
    character(len=:), allocatable, intent(inout) :: words
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr), target :: where
    integer(c_int) :: status
    where = c_null_ptr
    status = lib_request_str(request%handle, index - 1, c_loc(where))
    if (status == FB_OK) words = text_from(where)
    call settle(status, stat, errmsg)
  end subroutine fb_request_str

  !> A parameter of bytes in place, good until the procedure returns or sets it.
  subroutine fb_request_bytes(request, index, bytes, stat, errmsg)
    type(fb_request), intent(in) :: request
    integer, intent(in) :: index
    integer(c_int8_t), pointer, intent(inout) :: bytes(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int8_t), target, save :: none(1) = 0
    type(c_ptr), target :: where
    integer(c_int64_t) :: count
    integer(c_int) :: status
    where = c_null_ptr
    count = 0
    status = lib_request_bytes(request%handle, index - 1, c_loc(where), count)
    if (status == FB_OK .and. count > 0) call c_f_pointer(where, bytes, [count])
    if (status == FB_OK .and. count == 0) bytes => none(:0)
    call settle(status, stat, errmsg)
  end subroutine fb_request_bytes

  subroutine request_set(request, index, value, stat, errmsg)
    type(fb_request), intent(in) :: request
    integer, intent(in) :: index
    character(len=*), intent(in) :: value
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_value(:)
    call settle(lib_request_set_str(request%handle, index - 1, text(value, c_value)), stat, errmsg)
  end subroutine request_set

  !> Gives a result of bytes its value.
  subroutine fb_request_set_bytes(request, index, bytes, stat, errmsg)
    type(fb_request), intent(in) :: request
    integer, intent(in) :: index
    integer(c_int8_t), contiguous, target, intent(in) :: bytes(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: where
    where = c_null_ptr
    if (size(bytes) > 0) where = c_loc(bytes)
    call settle(lib_request_set_bytes(request%handle, index - 1, where, size(bytes, kind=c_int64_t)), stat, errmsg)
  end subroutine fb_request_set_bytes

end module forebay_texts
