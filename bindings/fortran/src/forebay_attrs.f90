!> Descriptors: the attributes of a run, of a table (`table`), or of a data set (`name` and `set`).

module forebay_attrs
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  implicit none
  private
  public :: fb_attr_set, fb_attr_set_json, fb_attr_get, fb_attr_get_json, fb_attr_delete, fb_attr_has

  !> Sets an attribute to a number, a truth value or a text.
  interface fb_attr_set
    module procedure set_f64, set_f32, set_i64, set_i32, set_logical, set_str
  end interface fb_attr_set

  !> Reads an attribute that is a number, a truth value or a text.
  interface fb_attr_get
    module procedure get_f64, get_i64, get_i32, get_logical, get_str
  end interface fb_attr_get

  !> An attribute, or, without a key, all of one owner.
  type :: attribute
    type(c_ptr) :: owner = c_null_ptr, key = c_null_ptr
    integer(c_int64_t) :: set = 0
    character(kind=c_char), allocatable :: c_owner(:), c_key(:)
  end type attribute

contains

  !> What is meant: its owner's name and set, and its key, as C has them.
  function find(one, name, set, table, key) result(status)
    type(attribute), target, intent(inout) :: one
    character(len=*), intent(in), optional :: name, table, key
    class(*), intent(in), optional :: set
    integer(c_int) :: status
    status = whole(set, one%set)
    one%key = text(key, one%c_key)
    if (present(table)) then
      one%set = FB_OF_TABLE
      one%owner = text(table, one%c_owner)
      if (present(name)) status = note('an attribute is of a table or of a data set, not of both')
    else
      one%owner = text(name, one%c_owner)
    end if
  end function find

  subroutine set_f64(run, key, value, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    real(c_double), intent(in) :: value
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    integer(c_int) :: status
    status = find(one, name, set, table, key)
    if (status == FB_OK) status = lib_attr_set_f64(id(run%at), one%owner, one%set, one%key, value)
    call settle(status, stat, errmsg)
  end subroutine set_f64

  subroutine set_f32(run, key, value, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    real(c_float), intent(in) :: value
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call set_f64(run, key, real(value, c_double), name, set, table, stat, errmsg)
  end subroutine set_f32

  subroutine set_i64(run, key, value, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    integer(c_int64_t), intent(in) :: value
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    integer(c_int) :: status
    status = find(one, name, set, table, key)
    if (status == FB_OK) status = lib_attr_set_i64(id(run%at), one%owner, one%set, one%key, value)
    call settle(status, stat, errmsg)
  end subroutine set_i64

  subroutine set_i32(run, key, value, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    integer(c_int32_t), intent(in) :: value
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call set_i64(run, key, int(value, c_int64_t), name, set, table, stat, errmsg)
  end subroutine set_i32

  !> By way of JSON, which knows truth values.
  subroutine set_logical(run, key, value, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    logical, intent(in) :: value
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer :: i
    character(len=:), allocatable :: quoted
    quoted = ''
    do i = 1, len_trim(key)
      if (key(i:i) == '"' .or. key(i:i) == '\') quoted = quoted//'\'
      quoted = quoted//key(i:i)
    end do
    call fb_attr_set_json(run, '{"'//quoted//'":'//trim(merge('true ', 'false', value))//'}', name, set, table, stat, errmsg)
  end subroutine set_logical

  subroutine set_str(run, key, value, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key, value
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    character(kind=c_char), allocatable, target :: c_value(:)
    integer(c_int) :: status
    status = find(one, name, set, table, key)
    if (status == FB_OK) status = lib_attr_set_str(id(run%at), one%owner, one%set, one%key, text(value, c_value))
    call settle(status, stat, errmsg)
  end subroutine set_str

  !> Sets several attributes of any kind: a JSON object. Null values delete.
  subroutine fb_attr_set_json(run, json, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: json
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    character(kind=c_char), allocatable, target :: c_json(:)
    integer(c_int) :: status
    status = find(one, name, set, table)
    if (status == FB_OK) status = lib_attr_set_json(id(run%at), one%owner, one%set, text(json, c_json))
    call settle(status, stat, errmsg)
  end subroutine fb_attr_set_json

  subroutine get_f64(run, key, value, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    real(c_double), intent(inout), target :: value
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    integer(c_int) :: status
    status = find(one, name, set, table, key)
    if (status == FB_OK) status = lib_attr_get_f64(id(run%at), one%owner, one%set, one%key, c_loc(value))
    call settle(status, stat, errmsg)
  end subroutine get_f64

  !> Reads an attribute that is an integer, or a truth value.
  function read_i64(run, key, value, name, set, table) result(status)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    integer(c_int64_t), intent(inout), target :: value
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer(c_int) :: status
    type(attribute), target :: one
    status = find(one, name, set, table, key)
    if (status == FB_OK) status = lib_attr_get_i64(id(run%at), one%owner, one%set, one%key, c_loc(value))
  end function read_i64

  subroutine get_i64(run, key, value, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    integer(c_int64_t), intent(inout) :: value
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(read_i64(run, key, value, name, set, table), stat, errmsg)
  end subroutine get_i64

  subroutine get_i32(run, key, value, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    integer(c_int32_t), intent(inout) :: value
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: wide
    integer(c_int) :: status
    wide = 0
    status = read_i64(run, key, wide, name, set, table)
    if (status == FB_OK .and. abs(wide) > huge(value)) &
        status = note('the attribute '//trim(key)//' is too great for an integer of 4 bytes; give one of 8')
    if (status == FB_OK) value = int(wide, c_int32_t)
    call settle(status, stat, errmsg)
  end subroutine get_i32

  subroutine get_logical(run, key, value, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    logical, intent(inout) :: value
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: truth
    integer(c_int) :: status
    truth = 0
    status = read_i64(run, key, truth, name, set, table)
    if (status == FB_OK) value = truth /= 0
    call settle(status, stat, errmsg)
  end subroutine get_logical

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
    status = find(one, name, set, table, key)
    if (status == FB_OK) status = lib_attr_get_str(id(run%at), one%owner, one%set, one%key, where)
    if (status == FB_OK) call text_taken(where, value)
    call settle(status, stat, errmsg)
  end subroutine get_str

  !> Reads all attributes as a JSON object.
  subroutine fb_attr_get_json(run, json, name, set, table, stat, errmsg)
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
    status = find(one, name, set, table)
    if (status == FB_OK) status = lib_attr_get_json(id(run%at), one%owner, one%set, where)
    if (status == FB_OK) call text_taken(where, json)
    call settle(status, stat, errmsg)
  end subroutine fb_attr_get_json

  !> Deletes an attribute; one that is not there is nothing.
  subroutine fb_attr_delete(run, key, name, set, table, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: key
    character(len=*), intent(in), optional :: name, table
    class(*), intent(in), optional :: set
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(attribute), target :: one
    integer(c_int) :: status
    status = find(one, name, set, table, key)
    if (status == FB_OK) status = lib_attr_delete(id(run%at), one%owner, one%set, one%key)
    call settle(status, stat, errmsg)
  end subroutine fb_attr_delete

  !> Whether there is such an attribute.
  subroutine fb_attr_has(run, key, has, name, set, table, stat, errmsg)
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
    status = find(one, name, set, table, key)
    if (status == FB_OK) status = lib_attr_has(id(run%at), one%owner, one%set, one%key, answer)
    if (status == FB_OK) has = answer /= 0
    call settle(status, stat, errmsg)
  end subroutine fb_attr_has

end module forebay_attrs
