!> A run that is told to end: ending PLACE TIME_LIMIT STEPS, the same as in C (tests/c/programs/ending.c). It goes on from
!> the last snapshot, and its state depends on all its past. Prints from where to where it went, and why it ended.

module state
  use check
  implicit none
  type(fb_run) :: run
  real(real64) :: x = 0.3_real64
  interface
    function c_usleep(microseconds) bind(c, name='usleep') result(bad)
      use, intrinsic :: iso_c_binding, only: c_int
      integer(c_int), value :: microseconds
      integer(c_int) :: bad
    end function c_usleep
  end interface
contains

  subroutine keep(step, user, status)
    integer(int64), intent(in) :: step
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    type(fb_snapshot) :: snapshot
    call fb_snapshot_begin(run, step, snapshot, time=0.1_real64 * real(step, real64), stat=status)
    if (status == FB_OK) call fb_snapshot_put(snapshot, 'x', [x], stat=status)
    if (status == FB_OK) call fb_snapshot_end(snapshot, stat=status)
    call ignore(user)
  end subroutine keep

end module state

program ending
  use state
  implicit none
  type(fb_snapshot) :: last
  type(fb_step_info) :: about
  character(len=:), allocatable :: why
  character(len=40) :: word
  real(real64) :: limit, one(1)
  integer :: nobody = 0
  integer(int64) :: steps, step, begun
  integer :: stat
  logical :: hurried
  call get_command_argument(2, word)
  read (word, *) limit
  call get_command_argument(3, word)
  read (word, *) steps
  hurried = limit > 0 .or. steps > 1000000
  call fb_run_open(place(), 'a', run, buffer=8 * 2**20)
  call fb_restart(run, last)
  if (fb_is_there(last)) then
    call fb_snapshot_step(last, about)
    call fb_snapshot_get(last, 'x', one)
    x = one(1)
    call fb_snapshot_free(last)
  end if
  begun = about%step
  call fb_on_save(run, keep)
  step = begun - 1
  call fb_steps_with(run, start=begun, time_limit=-7d0)
  if (fb_step(run, step, steps, stat=stat, errmsg=said)) call expect(.false., 'a step before the time began')
  call refused(stat, FB_BAD_ARGUMENT, '-7')
  call fb_steps_with(run, start=begun, time_limit=limit, keep_sigterm=.false.)
  do while (fb_step(run, step, steps))
    if (step == begun) print '(a)', 'ready' ! from here on SIGTERM is heard
    if (step == begun) flush (output_unit)
    x = 3.9_real64 * x * (1 - x)
    if (hurried) stat = c_usleep(1000)
  end do
  call fb_ended_by(run, why)
  stat = FB_OK
  if (why == '') then
    why = 'itself'
    call keep(steps, nobody, stat)
  end if
  call expect(stat == FB_OK, 'the last state is kept')
  print '(i0, a, i0, 2a)', begun, ' to ', step, ' ended by ', why
  call fb_run_close(run)
  if (failures > 0) error stop 'expectations were not met'
end program ending
