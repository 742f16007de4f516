!> Bags of tasks: many calls of one service.

module forebay_bags
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_shim
  use forebay_structures
  implicit none
  private
  public :: fb_bag_open, fb_bag_add, fb_bag_next

  !> Adds a task: one argument for each parameter, as of fb_call. What goes is copied; arrays and variables that come back
  !> are the task's until the fb_bag_next that hands it out. `index` gets its number, from 1. FB_FULL when results that
  !> nobody took fill the bag: take some with fb_bag_next; FB_TIMEOUT when it is full of what is under way for so long.
  interface fb_bag_add
    module procedure add, add_64, add_32
  end interface fb_bag_add

  !> The next task that is over: do while (fb_bag_next(bag, index, stat=outcome)). Its number, from 1, in `index`, and its
  !> outcome in `stat`; false when all were handed out after fb_bag_end. When none is over in time it is true, with 0 in
  !> `index` and FB_TIMEOUT in `stat`; what fails otherwise is false, with 0 and its status.
  interface fb_bag_next
    module procedure next_64, next_32
  end interface fb_bag_next

contains

  !> Begins a bag of tasks, on what servers there are. Results come in the order of the input unless `ordered` is false;
  !> `window`: tasks at all servers together, learned without it; `bytes` of arguments and results that are kept at most.
  !> At the end, when nothing waits, a task whose server is slow or late goes to a second one, too, unless `tail` is false.
  subroutine fb_bag_open(client, service, bag, ordered, window, bytes, tail, stat, errmsg)
    type(fb_client), intent(in) :: client
    character(len=*), intent(in) :: service
    type(fb_bag), intent(inout) :: bag
    logical, intent(in), optional :: ordered, tail
    class(*), intent(in), optional :: window, bytes
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_service(:)
    type(lib_bag_opts_struct), target :: opts
    type(c_ptr) :: made
    integer(c_int) :: status
    made = c_null_ptr
    opts%size = c_sizeof(opts)
    if (present(ordered)) opts%unordered = merge(0, 1, ordered)
    if (present(tail)) opts%no_tail = merge(0, 1, tail)
    status = FB_OK
    if (present(window)) status = whole(window, opts%window)
    if (status == FB_OK .and. present(bytes)) status = whole(bytes, opts%bytes)
    if (status == FB_OK) status = lib_bag_open(id(client%at), text(service, c_service), c_loc(opts), made)
    if (status == FB_OK) then
      call hold(bag%at, A_BAG, made)
      call fbf_keep(bag%at%box, bag%at%serial, c_null_ptr, fbf_list())
    end if
    call settle(status, stat, errmsg)
  end subroutine fb_bag_open

  subroutine add_64(bag, args, index, timeout, stat, errmsg)
    type(fb_bag), intent(in) :: bag
    type(fb_arg), intent(in) :: args(:)
    integer(c_int64_t), intent(inout) :: index
    real(c_double), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: found
    integer(c_int) :: status
    found = -1
    status = fbf_bag_add(id(bag%at), args, size(args), limit_of(timeout), found, fbf_mending(bag%at%box, bag%at%serial))
    if (status == FB_OK) index = found + 1
    call settle(status, stat, errmsg)
  end subroutine add_64

  subroutine add_32(bag, args, index, timeout, stat, errmsg)
    type(fb_bag), intent(in) :: bag
    type(fb_arg), intent(in) :: args(:)
    integer(c_int32_t), intent(inout) :: index
    real(c_double), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: wide
    wide = index
    call add_64(bag, args, wide, timeout, stat, errmsg)
    index = int(wide, c_int32_t)
  end subroutine add_32

  subroutine add(bag, args, timeout, stat, errmsg)
    type(fb_bag), intent(in) :: bag
    type(fb_arg), intent(in) :: args(:)
    real(c_double), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: index
    index = 0
    call add_64(bag, args, index, timeout, stat, errmsg)
  end subroutine add

  function next_64(bag, index, timeout, stat, errmsg) result(more)
    type(fb_bag), intent(in) :: bag
    integer(c_int64_t), intent(inout) :: index
    real(c_double), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    logical :: more
    integer(c_int64_t) :: found
    integer(c_int) :: status, outcome
    found = -1
    outcome = FB_OK
    status = fbf_bag_next(id(bag%at), limit_of(timeout), found, outcome, fbf_mending(bag%at%box, bag%at%serial))
    index = found + 1
    more = status == FB_TIMEOUT .or. index > 0
    call settle(merge(outcome, status, status == FB_OK), stat, errmsg)
  end function next_64

  function next_32(bag, index, timeout, stat, errmsg) result(more)
    type(fb_bag), intent(in) :: bag
    integer(c_int32_t), intent(inout) :: index
    real(c_double), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    logical :: more
    integer(c_int64_t) :: wide
    wide = index
    more = next_64(bag, wide, timeout, stat, errmsg)
    index = int(wide, c_int32_t)
  end function next_32

end module forebay_bags
