!> Descriptors: the attributes of a run, of a table (`table`), of a data set (`name` and `set`), or of an array of a snapshot.
!
! Numbers, truth values and arrays are set and read by the modules of their elements. Here is the rest.

module forebay_attrs
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_places
  use forebay_shim
  use forebay_structures, only: lib_info_struct
  implicit none
  private
  public :: fb_attr_get, fb_attr_get_alloc, fb_attr_kind, fb_attr_set_json, fb_attr_get_json, fb_attr_delete, fb_attr_has

  !> Reads an attribute that is a text into a variable that gets its length.
  interface fb_attr_get
    module procedure get_str, array_get_str
  end interface fb_attr_get
  !> Reads an attribute that is a list of texts into an array that is allocated for it.
  interface fb_attr_get_alloc
    module procedure get_texts, array_get_texts
  end interface fb_attr_get_alloc
  !> What an attribute is: its dtype, such as FB_F64, and its shape, without extents for a single number; the last extent of
  !> texts is their length. 0 is what is neither a number nor a text nor an array; fb_attr_get_json reads it.
  interface fb_attr_kind
    module procedure run_attr_kind, array_attr_kind
  end interface fb_attr_kind
  !> Sets several attributes of any kind: a JSON object. Null values delete.
  interface fb_attr_set_json
    module procedure set_json, array_set_json
  end interface fb_attr_set_json
  !> Reads all attributes as a JSON object.
  interface fb_attr_get_json
    module procedure get_json, array_get_json
  end interface fb_attr_get_json
  !> Deletes an attribute; one that is not there is nothing.
  interface fb_attr_delete
    module procedure delete, array_delete
  end interface fb_attr_delete
  !> Whether there is such an attribute.
  interface fb_attr_has
    module procedure has_one, array_has
  end interface fb_attr_has

contains

  subroutine get_str(run, key, value, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    character(len=:), allocatable, intent(inout) :: value
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    integer(c_int) :: status
    type(c_ptr) :: where
    where = c_null_ptr
    status = object_of(run, name, set, table, key, one)
    if (status == FB_OK) status = fbf_attr_get_str(one%of, one%key, where)
    if (status == FB_OK) call text_taken(where, value)
    call settle(status, stat, errmsg)
  end subroutine get_str

  subroutine array_get_str(snapshot, key, value, name, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: key, name
    character(len=:), allocatable, intent(inout) :: value
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    integer(c_int) :: status
    type(c_ptr) :: where
    where = c_null_ptr
    status = array_of(snapshot, name, key, one)
    if (status == FB_OK) status = fbf_attr_get_str(one%of, one%key, where)
    if (status == FB_OK) call text_taken(where, value)
    call settle(status, stat, errmsg)
  end subroutine array_get_str

  subroutine get_texts(run, key, value, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    character(len=*), allocatable, intent(inout) :: value(:)
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    integer(c_int) :: status
    status = object_of(run, name, set, table, key, one)
    if (status == FB_OK) status = make(value, one, key)
    if (status == FB_OK) status = fbf_attr_get(one%of, one%key, FB_STR, 1, value)
    call settle(status, stat, errmsg)
  end subroutine get_texts

  subroutine array_get_texts(snapshot, key, value, name, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: key, name
    character(len=*), allocatable, intent(inout) :: value(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    integer(c_int) :: status
    status = array_of(snapshot, name, key, one)
    if (status == FB_OK) status = make(value, one, key)
    if (status == FB_OK) status = fbf_attr_get(one%of, one%key, FB_STR, 1, value)
    call settle(status, stat, errmsg)
  end subroutine array_get_texts

  subroutine run_attr_kind(run, key, kind, name, set, table, shape, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    integer, intent(out) :: kind
    integer(c_int64_t), allocatable, intent(inout), optional :: shape(:)
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    type(lib_info_struct) :: info
    integer(c_int) :: status
    status = object_of(run, name, set, table, key, one)
    if (status == FB_OK) status = fbf_attr_info(one%of, one%key, info)
    kind = 0
    if (status == FB_OK) kind = info%dtype
    if (status == FB_OK .and. present(shape)) shape = info%shape(:info%ndim)
    call settle(status, stat, errmsg)
  end subroutine run_attr_kind

  subroutine array_attr_kind(snapshot, key, kind, name, shape, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: key, name
    integer, intent(out) :: kind
    integer(c_int64_t), allocatable, intent(inout), optional :: shape(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    type(lib_info_struct) :: info
    integer(c_int) :: status
    status = array_of(snapshot, name, key, one)
    if (status == FB_OK) status = fbf_attr_info(one%of, one%key, info)
    kind = 0
    if (status == FB_OK) kind = info%dtype
    if (status == FB_OK .and. present(shape)) shape = info%shape(:info%ndim)
    call settle(status, stat, errmsg)
  end subroutine array_attr_kind

  subroutine set_json(run, json, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: json
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    character(kind=c_char), allocatable, target :: c_json(:)
    integer(c_int) :: status
    status = object_of(run, name, set, table, one=one)
    if (status == FB_OK) status = fbf_attr_set_json(one%of, text(json, c_json))
    call settle(status, stat, errmsg)
  end subroutine set_json

  subroutine array_set_json(snapshot, json, name, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: name
    character(len=*), intent(in) :: json
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    character(kind=c_char), allocatable, target :: c_json(:)
    integer(c_int) :: status
    status = array_of(snapshot, name, one=one)
    if (status == FB_OK) status = fbf_attr_set_json(one%of, text(json, c_json))
    call settle(status, stat, errmsg)
  end subroutine array_set_json

  subroutine get_json(run, json, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=:), allocatable, intent(inout) :: json
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    integer(c_int) :: status
    type(c_ptr) :: where
    where = c_null_ptr
    status = object_of(run, name, set, table, one=one)
    if (status == FB_OK) status = fbf_attr_get_json(one%of, where)
    if (status == FB_OK) call text_taken(where, json)
    call settle(status, stat, errmsg)
  end subroutine get_json

  subroutine array_get_json(snapshot, json, name, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: name
    character(len=:), allocatable, intent(inout) :: json
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    integer(c_int) :: status
    type(c_ptr) :: where
    where = c_null_ptr
    status = array_of(snapshot, name, one=one)
    if (status == FB_OK) status = fbf_attr_get_json(one%of, where)
    if (status == FB_OK) call text_taken(where, json)
    call settle(status, stat, errmsg)
  end subroutine array_get_json

  subroutine delete(run, key, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    integer(c_int) :: status
    status = object_of(run, name, set, table, key, one)
    if (status == FB_OK) status = fbf_attr_delete(one%of, one%key)
    call settle(status, stat, errmsg)
  end subroutine delete

  subroutine array_delete(snapshot, key, name, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: key, name
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    integer(c_int) :: status
    status = array_of(snapshot, name, key, one)
    if (status == FB_OK) status = fbf_attr_delete(one%of, one%key)
    call settle(status, stat, errmsg)
  end subroutine array_delete

  subroutine has_one(run, key, has, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    logical, intent(inout) :: has
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    integer(c_int) :: status, answer
    answer = 0
    status = object_of(run, name, set, table, key, one)
    if (status == FB_OK) status = fbf_attr_has(one%of, one%key, answer)
    if (status == FB_OK) has = answer /= 0
    call settle(status, stat, errmsg)
  end subroutine has_one

  subroutine array_has(snapshot, key, has, name, stat, errmsg)
    type(fb_snapshot), intent(in) :: snapshot
    character(len=*), intent(in) :: key, name
    logical, intent(inout) :: has
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    integer(c_int) :: status, answer
    answer = 0
    status = array_of(snapshot, name, key, one)
    if (status == FB_OK) status = fbf_attr_has(one%of, one%key, answer)
    if (status == FB_OK) has = answer /= 0
    call settle(status, stat, errmsg)
  end subroutine array_has

  !> Allocates an array for an attribute that is a list of texts.
  function make(value, one, key) result(status)
    character(len=*), allocatable, intent(inout) :: value(:)
    type(attribute), intent(in) :: one
    character(len=*), intent(in) :: key
    integer(c_int) :: status
    type(lib_info_struct) :: info
    integer :: bad
    status = fbf_attr_info(one%of, one%key, info)
    if (status == FB_OK) status = fits(2, info, int(FB_STR, c_int), key)
    if (status /= FB_OK) return
    if (allocated(value)) deallocate (value)
    allocate (value(info%shape(1)), stat=bad)
    if (bad /= 0) status = note('there is no memory for '//key)
  end function make

end module forebay_attrs
