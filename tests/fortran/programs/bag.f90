!> Bags of tasks, on two servers of the same program, or on those that are there: `bag killing PID` kills that one in the
!> middle.

module bag_services
  use check
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  interface
    function kill(pid, signal) bind(c) result(status)
      import :: c_int
      integer(c_int), value :: pid, signal
      integer(c_int) :: status
    end function kill
  end interface
contains

  recursive subroutine square(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    real(real64) :: x
    ! Nothing was given; what is shared by threads is not called for that.
    associate (unused => user)
    end associate
    call fb_request_scalar(request, 1, x, stat=status)
    if (status == FB_OK) call fb_request_set(request, 2, x*x, stat=status)
  end subroutine square

  !> A matrix grows by one, and another one is its double; a text and a truth value that change; odd numbers fail.
  recursive subroutine kinds(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    integer(int64) :: n
    real(real64), pointer :: m(:, :), double(:, :)
    character(len=:), allocatable :: name
    logical :: truth
    associate (unused => user)
    end associate
    call fb_request_scalar(request, 1, n, stat=status)
    call fb_request_array(request, 2, m, stat=status)
    call fb_request_array(request, 3, double, stat=status)
    call fb_request_str(request, 4, name, stat=status)
    call fb_request_scalar(request, 6, truth, stat=status)
    if (mod(n, 2_int64) == 1) then
      call fb_request_fail(request, 'it is odd', status)
      return
    end if
    m = m + 1
    double = 2*m
    call fb_request_set(request, 5, name//'!', stat=status)
    call fb_request_set(request, 6, .not. truth, stat=status)
  end subroutine kinds

  recursive subroutine patient(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    logical :: given_up
    associate (unused => user)
    end associate
    given_up = .false.
    do while (.not. given_up .and. status == FB_OK)
      call fb_request_cancelled(request, given_up, stat=status)
    end do
  end subroutine patient

end module bag_services

program bag_of_tasks
  use bag_services
  implicit none
  integer, parameter :: TASKS = 1000
  type(fb_server) :: servers(2)
  type(fb_client) :: client
  integer :: stat, i
  logical :: there
  there = command_argument_count() > 0
  do i = 1, merge(0, 2, there)
    call fb_server_create(servers(i), name='of many', workers=2)
    call fb_service_register(servers(i), 'square(in x:f64, out y:f64)', square)
    call fb_service_register(servers(i), 'kinds(in n:i64, inout m:f64[r,c] order F, out double:f64[r,c] order F, '// &
        'in name:str, out said:str, inout truth:bool)', kinds)
    call fb_service_register(servers(i), 'patient(in n:i64)', patient)
    call fb_server_start(servers(i))
  end do
  call fb_connect(client)
  if (there) then
    call squares(killed())
  else
    call squares(0_c_int)
    call places()
    call held()
    call refusals()
    call full()
    call given_up()
  end if
  call fb_disconnect(client)
  do i = 1, merge(0, 2, there)
    call fb_server_free(servers(i))
  end do
  call finish()

contains

  function killed() result(pid)
    integer(c_int) :: pid
    character(len=20) :: word
    call get_command_argument(2, word)
    read (word, *) pid
  end function killed

  subroutine squares(pid)
    integer(c_int), intent(in) :: pid
    type(fb_bag) :: bag
    type(fb_bag_totals) :: totals
    real(real64), target, asynchronous :: y(TASKS)
    real(real64), target :: loop
    integer :: i, n, outcome, state
    call fb_bag_open(client, 'square', bag, ordered=.true.)
    do i = 1, TASKS
      call fb_bag_add(bag, [fb_in(0.5d0*i), fb_out(y(i))], index=n)
      call expect(n == i, 'tasks count from 1')
    end do
    call fb_bag_end(bag)
    i = 0
    do while (fb_bag_next(bag, n, stat=outcome, errmsg=said))
      i = i + 1
      if (pid > 0 .and. i == TASKS/4) call expect(kill(pid, 9_c_int) == 0, 'it was killed')
      call expect(n == i .and. outcome == FB_OK, 'results come in order')
      call expect(abs(y(n) - 0.25d0*n*n) <= 0, 'a result')
    end do
    call expect(i == TASKS .and. n == 0, 'all results')
    call fb_bag_counts(bag, totals)
    call expect(totals%done == TASKS .and. totals%failed == 0 .and. totals%under_way == 0, 'the counts')
    call fb_bag_state(bag, TASKS, state)
    call expect(state == FB_TASK_DONE, 'the state of the last one')
    call fb_call(client, 'square', [fb_in(0.5d0*TASKS), fb_out(loop)])
    call expect(abs(loop - y(TASKS)) <= 0, 'as a call')
    call fb_bag_free(bag)
    call expect(.not. fb_is_there(bag), 'it was given back')
  end subroutine squares

  !> Arrays, sections, texts and truth values land in their places; who fails says so, and the others go on.
  subroutine places()
    integer, parameter :: MANY = 20
    type(fb_bag) :: bag
    real(real64), target, asynchronous :: m(3, 4, MANY), double(3, 4, MANY), wide(6, 8)
    character(len=10), target, asynchronous :: texts(MANY)
    logical, target, asynchronous :: truths(MANY)
    integer(int64) :: n
    integer :: i, outcome, seen
    m = reshape([(real(i, real64), i=1, size(m))], shape(m))
    double = 0
    wide = 0
    texts = ''
    truths = .false.
    call fb_bag_open(client, 'kinds', bag, ordered=.false., window=3, tail=.false.)
    do i = 1, MANY
      if (i == 2) then
        call fb_bag_add(bag, [fb_in(i), fb_inout(m(:, :, i)), fb_out(wide(1:6:2, 1:8:2)), fb_in('ions'), fb_out(texts(i)), &
            fb_inout(truths(i))])
      else
        call fb_bag_add(bag, [fb_in(i), fb_inout(m(:, :, i)), fb_out(double(:, :, i)), fb_in('ions'), fb_out(texts(i)), &
            fb_inout(truths(i))], timeout=20d0)
      end if
    end do
    call fb_bag_end(bag)
    seen = 0
    do while (fb_bag_next(bag, n, stat=outcome, errmsg=said))
      seen = seen + 1
      i = int(n)
      if (mod(i, 2) == 1) then
        call refused(outcome, FB_REMOTE_ERROR, 'it is odd')
        call expect(texts(i) == '' .and. .not. truths(i) .and. abs(m(1, 1, i) - 12*(i - 1) - 1) <= 0, 'nothing of what failed')
        cycle
      end if
      call expect(outcome == FB_OK .and. texts(i) == 'ions!' .and. truths(i), 'a text and a truth value')
      call expect(all(abs(m(:, :, i) - reshape([(12d0*(i - 1) + seen_from(n), n=1, 12)], [3, 4]) - 1) <= 0), 'inout')
      if (i == 2) double(:, :, i) = wide(1:6:2, 1:8:2)
      call expect(all(abs(double(:, :, i) - 2*m(:, :, i)) <= 0), 'out')
    end do
    call expect(seen == MANY .and. all(abs(wide(2:6:2, :)) <= 0), 'all of them, and nothing between')
  end subroutine places

  !> Tasks on a matrix that a server holds run there in the order of the input, and what they write stays there.
  subroutine held()
    integer, parameter :: MANY = 20
    type(fb_bag) :: bag
    type(fb_ref) :: m
    real(real64), target, asynchronous :: double(3, 4, MANY)
    real(real64) :: there(3, 4)
    character(len=10), target, asynchronous :: texts(MANY)
    logical, target, asynchronous :: truths(MANY)
    integer(int64) :: n
    integer :: i, outcome
    truths = .false.
    call fb_ref_create(client, FB_F64, [3, 4], m)
    call fb_bag_open(client, 'kinds', bag)
    do i = 1, MANY
      call fb_bag_add(bag, [fb_in(2*i), fb_ref(m), fb_out(double(:, :, i)), fb_in('ions'), fb_out(texts(i)), fb_inout(truths(i))])
    end do
    call fb_bag_end(bag)
    i = 0
    do while (fb_bag_next(bag, n, stat=outcome, errmsg=said))
      i = i + 1
      call expect(outcome == FB_OK .and. n == i .and. all(abs(double(:, :, i) - 2*i) <= 0), 'in the order of the input')
    end do
    call fb_ref_get(m, there)
    call expect(i == MANY .and. all(abs(there - MANY) <= 0), 'what is written stays there')
    call fb_ref_kill(m)
    call fb_bag_free(bag)
  end subroutine held

  pure function seen_from(n) result(x)
    integer(int64), intent(in) :: n
    real(real64) :: x
    x = real(n, real64)
  end function seen_from

  subroutine refusals()
    type(fb_bag) :: bag, none
    real(real64), target, asynchronous :: y
    integer :: n, state
    logical :: more
    y = 0
    call fb_bag_open(client, 'nobody', bag, stat=stat, errmsg=said)
    call refused(stat, FB_NO_SERVER, 'nobody')
    call expect(.not. fb_is_there(bag), 'no bag')
    call fb_bag_open(client, 'square', bag, window=-1, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'window of -1')
    call fb_bag_end(none, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'NULL')
    call fb_bag_open(client, 'square', bag)
    more = fb_bag_next(bag, n, stat=stat, errmsg=said)
    call expect(.not. more .and. n == 0, 'nothing to wait for')
    call refused(stat, FB_CONFLICT, 'fb_bag_end')
    call fb_bag_add(bag, [fb_in(1d0)], stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '2 parameters')
    call fb_bag_state(bag, 1, state, stat=stat, errmsg=said)
    call refused(stat, FB_NOT_FOUND, 'no task')
    call fb_bag_add(bag, [fb_in(3d0), fb_out(y)])
    call fb_bag_end(bag)
    call fb_bag_add(bag, [fb_in(3d0), fb_out(y)], stat=stat, errmsg=said)
    call refused(stat, FB_CONFLICT, 'has ended')
    more = fb_bag_next(bag, n)
    call expect(more .and. n == 1 .and. abs(y - 9) <= 0, 'the one that was right')
  end subroutine refusals

  subroutine full()
    integer, parameter :: LENGTH = 300, MANY = 8
    type(fb_bag) :: bag
    real(real64), allocatable, target, asynchronous :: m(:, :, :), double(:, :, :)
    character(len=10), target, asynchronous :: texts(MANY)
    logical, target, asynchronous :: truths(MANY)
    integer :: i, n, times
    logical :: more
    allocate (m(LENGTH, LENGTH, MANY), double(LENGTH, LENGTH, MANY), source=0d0)
    truths = .false.
    times = 0
    call fb_bag_open(client, 'kinds', bag, bytes=2**20)
    do i = 1, MANY
      do
        call fb_bag_add(bag, [fb_in(2*i), fb_inout(m(:, :, i)), fb_out(double(:, :, i)), fb_in('a'), fb_out(texts(i)), &
            fb_inout(truths(i))], stat=stat, errmsg=said)
        if (stat == FB_OK) exit
        call refused(stat, FB_FULL, 'fb_bag_next')
        times = times + 1
        more = fb_bag_next(bag, n)
        call expect(more .and. texts(n) == 'a!' .and. abs(double(LENGTH, LENGTH, n) - 2) <= 0, 'one that was taken')
      end do
    end do
    call expect(times > 0, 'results fill a bag')
    call fb_bag_end(bag)
    do while (fb_bag_next(bag, n))
      call expect(truths(n), 'the others')
    end do
  end subroutine full

  subroutine given_up()
    type(fb_bag) :: bag
    integer :: i, n, outcome
    logical :: more
    call fb_bag_open(client, 'patient', bag)
    do i = 1, 20
      call fb_bag_add(bag, [fb_in(i)])
    end do
    more = fb_bag_next(bag, n, timeout=0.01d0, stat=stat, errmsg=said)
    call expect(more .and. n == 0, 'not in time')
    call refused(stat, FB_TIMEOUT, 'no task is over')
    call fb_bag_cancel(bag, 1)
    more = fb_bag_next(bag, n, stat=outcome, errmsg=said)
    call expect(more .and. n == 1, 'one that was given up')
    call refused(outcome, FB_CANCELLED, 'cancelled')
    ! The others are given up with the bag.
  end subroutine given_up

end program bag_of_tasks
