!> Calls of services, calls under way, and arrays that servers hold.

module forebay_calls
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_places, only: number_of
  use forebay_shim
  use forebay_structures
  implicit none
  private
  public :: fb_connect, fb_on, fb_call, fb_call_async, fb_wait, fb_wait_all, fb_wait_any, fb_probe_any, fb_cancel_all
  public :: fb_call_timing, fb_failed, fb_ref_create, fb_ref_server, fb_ref

  !> Makes an array of zeros on a server.
  interface fb_ref_create
    module procedure ref_create_zeros
  end interface fb_ref_create

  !> An array that a server holds, as an argument in the place of an array.
  interface fb_ref
    module procedure ref_argument
  end interface fb_ref

contains

  !> Connects to the broker: the path of its socket, FOREBAY_BROKER, or the node's agent.
  subroutine fb_connect(client, broker, stat, errmsg)
    type(fb_client), intent(inout) :: client
    character(len=*), intent(in), optional :: broker
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_broker(:)
    type(c_ptr) :: made
    integer(c_int) :: status
    made = c_null_ptr
    status = lib_connect(text(broker, c_broker), made)
    if (status == FB_OK) call hold(client%at, A_CLIENT, made)
    call settle(status, stat, errmsg)
  end subroutine fb_connect

  !> A client whose calls go to one server only: that of the name `server` (to any of them if several share it), or that of
  !> the process `pid`. It shares the connections of `client`, and its arrays lie there.
  subroutine fb_on(client, tied, server, pid, stat, errmsg)
    type(fb_client), intent(in) :: client
    type(fb_client), intent(inout) :: tied
    character(len=*), intent(in), optional :: server
    integer(c_int32_t), intent(in), optional :: pid
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_server(:)
    type(c_ptr) :: made
    integer(c_int) :: status
    integer(c_int32_t) :: process
    made = c_null_ptr
    process = 0
    if (present(pid)) process = pid
    status = lib_on(id(client%at), text(server, c_server), process, made)
    if (status == FB_OK) call hold(tied%at, A_CLIENT, made)
    call settle(status, stat, errmsg)
  end subroutine fb_on

  !> Calls a service and waits for its results, at most `timeout` seconds: one argument for each parameter.
  subroutine fb_call(client, service, args, timeout, stat, errmsg)
    type(fb_client), intent(in) :: client
    character(len=*), intent(in) :: service
    type(fb_arg), intent(in), optional :: args(:)
    real(c_double), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_service(:)
    call settle(fbf_call(id(client%at), text(service, c_service), args, number_of(args), limit_of(timeout)), stat, errmsg)
  end subroutine fb_call

  !> Calls a service and returns at once; arrays and variables are the call's until fb_wait. With `transfer` FB_TRANSFER_WAIT or
  !> FB_TRANSFER_COPY, those that go only are the caller's again when this returns.
  subroutine fb_call_async(client, service, args, future, transfer, stat, errmsg)
    type(fb_client), intent(in) :: client
    character(len=*), intent(in) :: service
    type(fb_arg), intent(in) :: args(:)
    type(fb_future), intent(inout) :: future
    integer(c_int), intent(in), optional :: transfer
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_service(:)
    type(c_ptr) :: made, mending
    integer(c_int) :: status, how
    made = c_null_ptr
    mending = c_null_ptr
    how = FB_TRANSFER_NOWAIT
    if (present(transfer)) how = transfer
    status = fbf_call_async(id(client%at), text(service, c_service), args, size(args), how, made, mending)
    if (status == FB_OK) then
      call hold(future%at, A_FUTURE, made)
      call fbf_keep(future%at%box, future%at%serial, c_null_ptr, mending)
    end if
    call settle(status, stat, errmsg)
  end subroutine fb_call_async

  ! --- calls under way ------------------------------------------------------------------------------

  !> Texts and truth values of a complete call go into their variables.
  subroutine finish(future)
    type(fb_future), intent(in) :: future
    call fbf_finish(fbf_mending(future%at%box, future%at%serial))
  end subroutine finish

  !> Waits for a call, at most `timeout` seconds (0: looks only).
  subroutine fb_wait(future, timeout, stat, errmsg)
    type(fb_future), intent(in) :: future
    real(c_double), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: status
    status = lib_wait(id(future%at), limit_of(timeout))
    if (status == FB_OK) call finish(future)
    call settle(status, stat, errmsg)
  end subroutine fb_wait

  function ids(futures) result(handles)
    type(fb_future), intent(in) :: futures(:)
    type(c_ptr) :: handles(size(futures))
    integer :: i
    do i = 1, size(futures)
      handles(i) = id(futures(i)%at)
    end do
  end function ids

  !> Waits for all calls; the status is that of the first that failed.
  subroutine fb_wait_all(futures, timeout, stat, errmsg)
    type(fb_future), intent(in) :: futures(:)
    real(c_double), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: status, done
    integer :: i
    status = lib_wait_all(ids(futures), size(futures), limit_of(timeout))
    do i = 1, size(futures)
      done = 0
      if (status /= FB_OK) then
        if (lib_probe(id(futures(i)%at), done) /= FB_OK .or. done == 0) cycle
        if (lib_wait(id(futures(i)%at), 0.0_c_double) /= FB_OK) cycle
      end if
      call finish(futures(i))
    end do
    ! The text of the first that failed, which looking at the others may have replaced.
    if (status /= FB_OK) status = lib_wait_all(ids(futures), size(futures), 0.0_c_double)
    call settle(status, stat, errmsg)
  end subroutine fb_wait_all

  !> Waits for one call to be complete; `index` gets which, from 1. Its outcome is what fb_wait says.
  subroutine fb_wait_any(futures, index, timeout, stat, errmsg)
    type(fb_future), intent(in) :: futures(:)
    integer, intent(inout) :: index
    real(c_double), intent(in), optional :: timeout
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: status, which
    which = -1
    status = lib_wait_any(ids(futures), size(futures), limit_of(timeout), which)
    if (status == FB_OK) index = which + 1
    call settle(status, stat, errmsg)
  end subroutine fb_wait_any

  !> Which call is complete, without waiting: the first one, or 0.
  subroutine fb_probe_any(futures, index, stat, errmsg)
    type(fb_future), intent(in) :: futures(:)
    integer, intent(inout) :: index
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: status, which
    which = -1
    status = lib_probe_any(ids(futures), size(futures), which)
    if (status == FB_OK) index = which + 1
    call settle(status, stat, errmsg)
  end subroutine fb_probe_any

  !> Gives calls up.
  subroutine fb_cancel_all(futures, stat, errmsg)
    type(fb_future), intent(in) :: futures(:)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_cancel_all(ids(futures), size(futures)), stat, errmsg)
  end subroutine fb_cancel_all

  !> Where the time of a call went; `server` gets the name of the one that answered.
  subroutine fb_call_timing(future, timing, server, stat, errmsg)
    type(fb_future), intent(in) :: future
    type(fb_timing), intent(inout), target :: timing
    character(len=:), allocatable, intent(inout), optional :: server
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: status
    timing%size = c_sizeof(timing)
    status = lib_call_timing(id(future%at), c_loc(timing))
    if (status == FB_OK .and. present(server)) server = trim(text_in(timing%server))
    call settle(status, stat, errmsg)
  end subroutine fb_call_timing

  !> One of the last 1,000 calls of a client that have failed, counted from the newest, which is 1, until FB_NOT_FOUND; the
  !> texts in it are given as such, too. Calls that were given up are not among them, nor are tasks of a bag.
  subroutine fb_failed(client, index, failure, service, words, server, stat, errmsg)
    type(fb_client), intent(in) :: client
    class(*), intent(in) :: index
    type(fb_failure), intent(inout), target :: failure
    character(len=:), allocatable, intent(inout), optional :: service, words, server
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int64_t) :: c_index
    integer(c_int) :: status
    failure%size = c_sizeof(failure)
    status = whole(index, c_index)
    if (status == FB_OK) status = lib_failed(id(client%at), c_index - 1, c_loc(failure))
    if (status == FB_OK .and. present(service)) service = trim(text_in(failure%service))
    if (status == FB_OK .and. present(words)) words = trim(text_in(failure%text))
    if (status == FB_OK .and. present(server)) server = trim(text_in(failure%server))
    call settle(status, stat, errmsg)
  end subroutine fb_failed

  ! --- references -----------------------------------------------------------------------------------

  subroutine ref_create_zeros(client, dtype, shape, reference, server, with, stat, errmsg, services)
    type(fb_client), intent(in) :: client
    integer, intent(in) :: dtype
    class(*), intent(in) :: shape(:)
    type(fb_ref), intent(inout) :: reference
    character(len=*), intent(in), optional :: server
    type(fb_ref), intent(in), optional :: with
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(len=*), intent(in), optional :: services
    character(kind=c_char), allocatable, target :: c_server(:), c_services(:)
    integer(c_int64_t), target :: c_shape(FB_MAX_RANK)
    type(c_ptr) :: made, where, beside
    integer(c_int) :: status
    integer :: n
    made = c_null_ptr
    beside = c_null_ptr
    if (present(with)) beside = id(with%at)
    status = wholes(shape, c_shape, n, where)
    if (status == FB_OK) status = fbf_ref_zeros(id(client%at), dtype, n, c_shape, text(server, c_server), beside, &
      text(services, c_services), made)
    if (status == FB_OK) call hold(reference%at, A_REFERENCE, made)
    call settle(status, stat, errmsg)
  end subroutine ref_create_zeros

  function ref_argument(reference) result(made)
    type(fb_ref), intent(in) :: reference
    type(fb_arg) :: made
    made%kind = FB_REFERENCE
    made%direction = IS_INOUT
    made%reference = id(reference%at)
  end function ref_argument

  !> The server that holds the array: its name and pid.
  subroutine fb_ref_server(reference, name, pid, stat, errmsg)
    type(fb_ref), intent(in) :: reference
    character(len=:), allocatable, intent(inout) :: name
    integer(c_int32_t), intent(inout), optional :: pid
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr) :: where
    integer(c_int) :: status
    where = c_null_ptr
    status = lib_ref_server(id(reference%at), where, pid)
    if (status == FB_OK) call text_taken(where, name)
    call settle(status, stat, errmsg)
  end subroutine fb_ref_server

end module forebay_calls
