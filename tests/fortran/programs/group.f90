!> Groups of calls, procedures that are told the ends of calls, and the calls that have failed.

module group_services
  use check
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none

  !> What a procedure that is told leaves behind. Another thread writes it.
  type :: noted
    integer :: times = 0, outcome = -1
    real(real64), pointer :: y => null()
    real(real64) :: seen = 0
    type(fb_client) :: client
  end type noted

  integer, volatile :: is_open = 0

  interface
    function usleep(microseconds) bind(c) result(status)
      import :: c_int
      integer(c_int), value :: microseconds
      integer(c_int) :: status
    end function usleep
  end interface

contains

  recursive subroutine rest()
    if (usleep(1000_c_int) /= 0) return
  end subroutine rest

  recursive subroutine square(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    real(real64) :: x
    associate (unused => user)
    end associate
    call fb_request_scalar(request, 1, x, stat=status)
    if (x < 0) then
      call fb_request_fail(request, 'no square of what is below zero', status)
    else
      call fb_request_set(request, 2, x*x, stat=status)
    end if
  end subroutine square

  !> A text and a truth value that change, and an array; odd numbers fail.
  recursive subroutine kinds(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    integer(int64) :: n
    real(real64), pointer :: x(:)
    character(len=:), allocatable :: name
    logical :: truth
    associate (unused => user)
    end associate
    nullify (x)
    call fb_request_scalar(request, 1, n, stat=status)
    call fb_request_str(request, 2, name, stat=status)
    call fb_request_scalar(request, 4, truth, stat=status)
    call fb_request_array(request, 5, x, stat=status)
    if (mod(n, 2_int64) == 1) then
      call fb_request_fail(request, 'it is odd', status)
      return
    end if
    x = x + n
    call fb_request_set(request, 3, name//'!', stat=status)
    call fb_request_set(request, 4, .not. truth, stat=status)
  end subroutine kinds

  recursive subroutine gate(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    logical :: given_up
    associate (unused => user)
    end associate
    given_up = .false.
    do while (is_open == 0 .and. .not. given_up .and. status == FB_OK)
      call rest()
      call fb_request_cancelled(request, given_up, stat=status)
    end do
  end subroutine gate

  recursive subroutine note(future, user)
    type(fb_future), intent(in) :: future
    class(*), intent(inout) :: user
    character(len=200) :: words
    integer :: status
    logical :: done
    select type (user)
    type is (noted)
      call fb_probe(future, done)
      call fb_wait(future, stat=status, errmsg=words)
      user%outcome = merge(status, -2, done)
      if (associated(user%y)) user%seen = user%y
      call fb_disconnect(user%client, stat=status, errmsg=words)
      if (status /= FB_BAD_ARGUMENT .or. index(words, 'another thread') == 0) user%outcome = -3
      user%times = user%times + 1
    end select
  end subroutine note

  recursive subroutine count_alone(future, user)
    type(fb_future), intent(in) :: future
    class(*), intent(inout) :: user
    integer :: status
    call fb_wait(future, stat=status)
    ! Nothing was given.
    select type (user)
    type is (integer)
      is_open = 2 + status + user
    end select
  end subroutine count_alone

  !> Until it was told so often.
  subroutine until(told, times)
    type(noted), intent(inout), volatile :: told
    integer, intent(in) :: times
    do while (told%times < times)
      call rest()
    end do
  end subroutine until

end module group_services

program groups
  use group_services
  implicit none
  type(fb_server) :: server
  type(fb_client) :: client
  integer :: stat
  call fb_server_create(server, workers=2)
  call fb_service_register(server, 'square(in x:f64, out y:f64)', square)
  call fb_service_register(server, 'kinds(in n:i64, in name:str, out said:str, inout truth:bool, inout x:f64[m])', kinds)
  call fb_service_register(server, 'gate()', gate)
  call fb_server_start(server)
  call fb_connect(client)
  call all_at_once()
  call within()
  call places()
  call given_up()
  call told()
  call failed()
  call fb_disconnect(client)
  call fb_server_stop(server)
  call fb_server_free(server)
  call finish()

contains

  subroutine all_at_once()
    type(fb_group) :: group
    real(real64), target, asynchronous :: y(12)
    integer :: i, which
    call fb_group_begin(client, group)
    do i = 1, 12
      call fb_group_call(group, 'square', [fb_in(1d0*i), fb_out(y(i))])
    end do
    call fb_group_end(group, which)
    call expect(which == 0 .and. all(abs(y - [(1d0*i*i, i=1, 12)]) <= 0), 'all results')
    call expect(.not. fb_is_there(group), 'it has ended')

    call fb_group_begin(client, group)
    do i = 1, 12
      call fb_group_call(group, 'square', [fb_in(merge(-1d0, 1d0*i, i == 3 .or. i == 8)), fb_out(y(i))])
    end do
    call fb_group_call(group, 'nobody', [fb_in(1)], stat=stat, errmsg=said)
    call refused(stat, FB_NO_SERVER, 'nobody')
    call fb_group_end(group, which, stat=stat, errmsg=said)
    call refused(stat, FB_REMOTE_ERROR, 'call 3 of 12 (square): ')
    call expect(which == 3 .and. abs(y(12) - 144) <= 0, 'others run on')
    call fb_group_end(group, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'NULL')
    call fb_group_begin(client, group)
    call fb_group_end(group, timeout=0d0)
  end subroutine all_at_once

  subroutine within()
    type(fb_group) :: outer, inner, deep, none
    real(real64), target, asynchronous :: y(4)
    integer(int64) :: which
    call fb_group_begin(client, inner, none, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'parent')
    call fb_group_begin(client, outer)
    call fb_group_call(outer, 'square', [fb_in(1d0), fb_out(y(1))])
    call fb_group_begin(client, inner, outer)
    call fb_group_call(inner, 'square', [fb_in(-1d0), fb_out(y(2))])
    call fb_group_end(inner, which, stat=stat, errmsg=said)
    call refused(stat, FB_REMOTE_ERROR, 'call 1 of 1 (square): ')
    call fb_group_begin(client, inner, parent=outer)
    call fb_group_call(inner, 'square', [fb_in(-2d0), fb_out(y(3))])
    call fb_group_begin(client, deep, parent=inner)
    call fb_group_call(deep, 'square', [fb_in(3d0), fb_out(y(4))])
    call fb_group_end(outer, which, stat=stat, errmsg=said)
    call refused(stat, FB_REMOTE_ERROR, 'call 2 of 3 (square): ')
    call expect(which == 2 .and. abs(y(1) - 1) <= 0 .and. abs(y(4) - 9) <= 0, 'the others')
    call fb_group_end(inner, stat=stat, errmsg=said)
    call refused(stat, FB_CLOSED, 'fb_group')
    call fb_group_cancel(deep, stat=stat, errmsg=said)
    call refused(stat, FB_CLOSED, 'fb_group')
  end subroutine within

  !> Texts, truth values and sections land in their places, also those of a group that another one ends.
  subroutine places()
    integer, parameter :: MANY = 20
    type(fb_group) :: outer, inner
    character(len=10), target, asynchronous :: texts(MANY)
    logical, target, asynchronous :: truths(MANY)
    real(real64), target, asynchronous :: x(2*MANY)
    integer :: i, which
    x = 0
    texts = 'before'
    truths = .false.
    call fb_group_begin(client, outer)
    call fb_group_begin(client, inner, parent=outer)
    do i = 1, MANY
      if (i <= MANY/2) then
        call fb_group_call(outer, 'kinds', [fb_in(i), fb_in('ions'), fb_out(texts(i)), fb_inout(truths(i)), &
            fb_inout(x(i::MANY))])
      else
        call fb_group_call(inner, 'kinds', [fb_in(i), fb_in('ions'), fb_out(texts(i)), fb_inout(truths(i)), &
            fb_inout(x(i::MANY))])
      end if
    end do
    call fb_group_end(outer, which, stat=stat, errmsg=said)
    call refused(stat, FB_REMOTE_ERROR, 'call 1 of 20 (kinds): ')
    do i = 1, MANY
      call expect(texts(i) == merge('before', 'ions! ', mod(i, 2) == 1), 'a text')
      call expect(truths(i) .neqv. mod(i, 2) == 1, 'a truth value')
      call expect(all(abs(x(i::MANY) - merge(0, i, mod(i, 2) == 1)) <= 0), 'a section')
    end do
  end subroutine places

  subroutine given_up()
    type(fb_group) :: group
    integer :: which
    is_open = 0
    call fb_group_begin(client, group)
    call fb_group_call(group, 'gate', [fb_arg ::])
    call fb_group_end(group, which, timeout=0.02d0, stat=stat, errmsg=said)
    call refused(stat, FB_TIMEOUT, 'call 1 of 1 (gate)')
    call expect(which == 0 .and. fb_is_there(group), 'it goes on')
    call fb_group_cancel(group)
    call fb_group_call(group, 'gate', [fb_arg ::], stat=stat, errmsg=said)
    call refused(stat, FB_CANCELLED, 'cancelled')
    call fb_group_end(group, which, stat=stat, errmsg=said)
    call refused(stat, FB_CANCELLED, 'call 1 of 1 (gate): ')
    call scope()
    is_open = 1
  end subroutine given_up

  !> What a scope leaves open is given up at its end.
  subroutine scope()
    type(fb_group) :: outer, inner
    logical, target, asynchronous :: truth
    real(real64), target, asynchronous :: x(3)
    character(len=10), target, asynchronous :: words
    truth = .false.
    x = 0
    call fb_group_begin(client, outer)
    call fb_group_begin(client, inner, outer)
    call fb_group_call(inner, 'gate', [fb_arg ::])
    call fb_group_call(inner, 'kinds', [fb_in(2), fb_in('a'), fb_out(words), fb_inout(truth), fb_inout(x)])
  end subroutine scope

  subroutine told()
    type(noted), target :: one
    type(fb_future) :: future
    real(real64), target, asynchronous :: y
    y = 0
    one%client = client
    one%y => y
    call fb_call_async(client, 'square', [fb_in(5d0), fb_out(y)], future)
    call fb_notify(future, note, user=one)
    call until(one, 1)
    call expect(one%outcome == FB_OK .and. abs(one%seen - 25) <= 0, 'told with its result')
    call fb_notify(future, note, one)
    call until(one, 2)
    call fb_future_free(future)

    call fb_call_async(client, 'square', [fb_in(-5d0), fb_out(y)], future)
    call fb_notify(future, note, one)
    call until(one, 3)
    call expect(one%outcome == FB_REMOTE_ERROR, 'told of a failure')
    is_open = 0
    call fb_call_async(client, 'gate', [fb_arg ::], future)
    call fb_notify(future, note, one)
    call fb_cancel(future)
    call until(one, 4)
    call expect(one%outcome == FB_CANCELLED, 'told of its being given up')

    call fb_call_async(client, 'gate', [fb_arg ::], future)
    call fb_notify(future, count_alone)
    is_open = 1
    do while (is_open /= 2)
      call rest()
    end do
    call fb_future_free(future)
    call fb_notify(future, note, one, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'NULL')
    ! Freed before its end: nobody is told.
    is_open = 0
    call fb_call_async(client, 'gate', [fb_arg ::], future)
    call fb_notify(future, note, one)
    call fb_future_free(future)
    is_open = 1
    call fb_call_async(client, 'square', [fb_in(2d0), fb_out(y)], future)
    call fb_notify(future, note, one)
    call until(one, 5)
    call expect(one%times == 5 .and. abs(one%seen - 4) <= 0, 'told five times')
  end subroutine told

  subroutine failed()
    type(fb_client) :: other
    type(fb_failure) :: failure
    real(real64), target :: y
    character(len=:), allocatable :: service, words, server
    call fb_connect(other)
    call fb_failed(other, 1, failure, stat=stat, errmsg=said)
    call refused(stat, FB_NOT_FOUND, 'no failed call')
    call fb_call(other, 'square', [fb_in(-1d0), fb_out(y)], stat=stat)
    call fb_call(other, 'nobody', stat=stat)
    call fb_failed(other, 1, failure, service=service)
    call expect(failure%code == FB_NO_SERVER .and. service == 'nobody' .and. failure%server_pid == 0, 'the newest')
    call fb_failed(other, 2_int64, failure, service, words=words, server=server)
    call expect(failure%code == FB_REMOTE_ERROR .and. service == 'square', 'the one before')
    call expect(index(words, 'no square of what is below zero') > 0, 'its text')
    call expect(failure%server_pid > 0 .and. len(server) > 0 .and. failure%when > 1d9, 'its server and its time')
    call fb_failed(other, 3, failure, stat=stat, errmsg=said)
    call refused(stat, FB_NOT_FOUND, 'no failed call')
  end subroutine failed

end program groups
