!> Groups of calls, and procedures that are told the ends of calls.

module forebay_groups
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_shim
  implicit none
  private
  public :: fb_group_begin, fb_group_call, fb_group_end, fb_notify, fb_done

  abstract interface
    !> A procedure of the program that is told the end of a call, with what was given as `user` (an integer 0 when nothing
    !> was). It runs in another thread, so it must be recursive; fb_wait for the call returns at once there.
    subroutine fb_done(future, user)
      import :: fb_future
      type(fb_future), intent(in) :: future
      class(*), intent(inout) :: user
    end subroutine fb_done
  end interface

  type, extends(attachment) :: notice
    procedure(fb_done), pointer, nopass :: done => null()
    class(*), pointer :: user => null()
    type(c_ptr) :: box = c_null_ptr
    integer(c_int64_t) :: serial = 0
  end type notice

  !> Waits for all calls of a group, and for those of groups within it that are open, which end first. The status is that of
  !> the first call that failed, in the order in which they were made, and its text begins "call 3 of 12 (dgesv): "; others
  !> run on. `index` gets which, from 1, or 0. FB_TIMEOUT with 0 in `index` when a call is under way after `timeout` seconds:
  !> the group goes on, and may be ended again.
  interface fb_group_end
    module procedure end_64, end_32, end_alone
  end interface fb_group_end

  integer, target, save :: nobody = 0

contains

  !> Begins a group: calls that run at the same time and are waited for together, within no group or within `parent`. At the
  !> end of its scope a group that was not ended is given up.
  subroutine fb_group_begin(client, group, parent, stat, errmsg)
    type(fb_client), intent(in) :: client
    type(fb_group), intent(inout) :: group
    type(fb_group), intent(in), optional :: parent
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: made, around, list
    integer(c_int) :: status
    made = c_null_ptr
    around = c_null_ptr
    list = c_null_ptr
    if (present(parent)) around = id(parent%at)
    status = FB_OK
    if (.not. present(parent)) then
      list = fbf_list()
      if (.not. c_associated(list)) status = note('there is no memory for the calls of a group')
    else if (.not. c_associated(around)) then
      status = note('the parent is no open group; begin it first, or leave it out')
    end if
    if (status == FB_OK) status = lib_group_begin(id(client%at), around, made)
    if (status /= FB_OK) then
      call fbf_drop(list)
    else
      call hold(group%at, A_GROUP, made)
      group%outermost = group%at%box
      group%its_serial = group%at%serial
      if (present(parent)) then
        group%outermost = parent%outermost
        group%its_serial = parent%its_serial
      else
        call fbf_keep(group%at%box, group%at%serial, c_null_ptr, list)
      end if
    end if
    call settle(status, stat, errmsg)
  end subroutine fb_group_begin

  !> Calls a service within a group and returns at once; arrays and variables are the call's until fb_group_end.
  subroutine fb_group_call(group, service, args, stat, errmsg)
    type(fb_group), intent(in) :: group
    character(len=*), intent(in) :: service
    type(fb_arg), intent(in) :: args(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_service(:)
    call settle(fbf_group_call(id(group%at), text(service, c_service), args, size(args), kept_calls(group)), stat, errmsg)
  end subroutine fb_group_call

  function kept_calls(group) result(calls)
    type(fb_group), intent(in) :: group
    type(c_ptr) :: calls
    calls = fbf_mending(group%outermost, group%its_serial)
  end function kept_calls

  subroutine end_64(group, index, timeout, stat, errmsg)
    type(fb_group), intent(inout) :: group
    integer(c_int64_t), intent(inout) :: index
    real(c_double), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(len=:), allocatable :: said
    integer(c_int64_t) :: found
    integer(c_int) :: status
    found = -1
    said = ''
    status = lib_group_end(id(group%at), limit_of(timeout), found)
    if (status /= FB_OK) said = text_from(lib_last_error()) ! what is done next has texts of its own
    if (status == FB_OK .or. status == FB_CLOSED .or. found >= 0) then
      call fbf_group_ended(kept_calls(group))
      call gave_back(group%at, FB_OK)
    end if
    index = found + 1
    call settle(status, stat, errmsg, said)
  end subroutine end_64

  subroutine end_32(group, index, timeout, stat, errmsg)
    type(fb_group), intent(inout) :: group
    integer(c_int32_t), intent(inout) :: index
    real(c_double), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: wide
    wide = index
    call end_64(group, wide, timeout, stat, errmsg)
    index = int(wide, c_int32_t)
  end subroutine end_32

  subroutine end_alone(group, timeout, stat, errmsg)
    type(fb_group), intent(inout) :: group
    real(c_double), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: index
    index = 0
    call end_64(group, index, timeout, stat, errmsg)
  end subroutine end_alone

  ! --- the ends of calls, told ------------------------------------------------------------------------

  recursive subroutine tell(handle, user) bind(c)
    type(c_ptr), value :: handle, user
    type(notice), pointer :: one
    type(fb_future) :: future
    procedure(fb_done), pointer :: done
    class(*), pointer :: given
    call c_f_pointer(user, one)
    ! Not a holder: the call is the program's, which may end it meanwhile, and `one` with it.
    future%at%handle = handle
    future%at%box = one%box
    future%at%serial = one%serial
    future%at%kind = A_FUTURE
    done => one%done
    given => one%user
    call done(future, given)
  end subroutine tell

  !> Has `done` called with the call and `user` when it is complete: once, in a thread of the client, also when it was
  !> cancelled or its server is lost. There fb_wait for the call returns at once, and new calls may be made; fb_disconnect is
  !> refused. A call that is complete already is told soon. What is given as `user` must be a target, and live as long as
  !> the call.
  subroutine fb_notify(future, done, user, stat, errmsg)
    type(fb_future), intent(in) :: future
    procedure(fb_done) :: done
    class(*), target, intent(in), optional :: user
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(notice), pointer :: one
    class(attachment), pointer :: kept
    type(c_ptr) :: where
    where = c_null_ptr
    if (c_associated(future%at%handle)) then
      allocate (one)
      one%done => done
      one%user => nobody
      if (present(user)) one%user => user
      one%box = future%at%box
      one%serial = future%at%serial
      where = c_loc(one)
      kept => one
      call attach(future%at, kept)
    end if
    call settle(lib_notify(id(future%at), c_funloc(tell), where), stat, errmsg)
  end subroutine fb_notify

end module forebay_groups
