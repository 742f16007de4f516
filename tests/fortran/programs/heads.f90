!> Loops of every shape, the same as in C (tests/c/programs/heads.c).

module kept_states
  use check
  implicit none
  type(fb_run) :: run
  integer(int64) :: kept(8) = -1
  integer :: n = 0
contains

  subroutine keep(step, user, status)
    integer(int64), intent(in) :: step
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    type(fb_snapshot) :: snapshot
    n = n + 1
    kept(n) = step
    call fb_snapshot_begin(run, step, snapshot)
    call fb_snapshot_put(snapshot, 'x', step)
    call fb_snapshot_end(snapshot, stat=status)
    select type (user) ! nothing was given
    end select
  end subroutine keep

  subroutine fail(step, user, status)
    integer(int64), intent(in) :: step
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    if (step == 4) call fb_fail(FB_FULL, 'the tape is full', status)
    select type (user) ! nothing was given
    end select
  end subroutine fail

end module kept_states

program heads
  use kept_states
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_null_char
  implicit none
  interface
    integer(c_int) function c_setenv(name, value, anew) bind(c, name='setenv')
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: name(*), value(*)
      integer(c_int), value :: anew
    end function c_setenv
  end interface
  integer(int64) :: step
  integer :: stat, count
  type(fb_stats) :: stats
  ! Who says no size of the buffer has the one of the environment.
  call expect(c_setenv('FOREBAY_BUFFER'//c_null_char, '3MiB'//c_null_char, 1_c_int) == 0, 'the environment')
  call fb_run_open(place(), 'w', run)
  call fb_run_stats(run, stats)
  call expect(stats%buffer_bytes == 3 * 2**20, 'the buffer of the environment')
  call fb_on_save(run, keep, every=-1, stat=stat, errmsg=said)
  call refused(stat, FB_BAD_ARGUMENT, 'every -1 steps')
  call fb_on_save(run, keep, every=10)

  call fb_steps_with(run, stride=7)
  if (fb_step(run, step, 20, stat=stat, errmsg=said)) continue
  call refused(stat, FB_BAD_ARGUMENT, 'does not meet 20')
  call fb_steps_with(run, stride=7)
  count = 0
  do while (fb_step(run, step, 21))
    call expect(step == 7 * count, 'heads are a stride apart')
    count = count + 1
  end do
  call expect(count == 3 .and. step == 21, 'a loop ends at its number')
  call expect(n == 2 .and. all(kept(:2) == [0, 21]), 'the first and the last state are kept')

  ! Another loop that begins below the state that is there.
  if (fb_step(run, step, 30, stat=stat, errmsg=said)) continue
  call refused(stat, FB_CONFLICT, 'the state of step 21: numbers of steps grow; give it a start of 21 or more')
  call fb_steps_with(run, start=29)
  if (fb_step(run, step, 25, stat=stat, errmsg=said)) continue
  call refused(stat, FB_BAD_ARGUMENT, 'a loop from 29 to 25 has no step')

  call fb_finish(run, stat=stat, errmsg=said)
  call refused(stat, FB_CONFLICT, 'no loop is under way')
  call fb_steps_with(run, start=21)
  do while (fb_step(run, step, FB_NO_END))
    if (step == 33) call fb_finish(run)
  end do
  call expect(step == 34 .and. n == 4 .and. all(kept(:4) == [0, 21, 30, 34]), 'a loop without an end is finished')

  call expect(fb_reach(run, 34) .and. fb_reach(run, 34_int64) .and. fb_reach(run, 40), 'steps are reached')
  if (fb_reach(run, 39, stat=stat, errmsg=said)) continue
  call refused(stat, FB_CONFLICT, 'behind step 40')
  call fb_finish(run)
  call expect(.not. fb_reach(run, 45) .and. .not. fb_reach(run, 50), 'it has ended for ever')
  call expect(fb_position(run) == 45, 'it ended where it was finished')
  call expect(n == 6 .and. all(kept(:6) == [0, 21, 30, 34, 40, 45]), 'each state is kept once')
  call fb_run_close(run)
  call goes_on_where_it_says()
  call says_whether_a_step_that_was_left_is_computed()
  call says_why_the_program_could_not_keep_its_state()
  call finish()

contains

  !> Snapshots that the program counts: number 2 is of step 20, so the loop is told where it goes on.
  subroutine goes_on_where_it_says()
    type(fb_snapshot) :: snapshot
    call fb_run_open(place(), 'w', run)
    do while (fb_step(run, step, 28))
      if (mod(step, 10_int64) /= 0) cycle
      call fb_snapshot_begin(run, step / 10, snapshot)
      call fb_snapshot_put(snapshot, 'x', step)
      call fb_snapshot_end(snapshot)
    end do
    call fb_restart(run, snapshot)
    call expect(fb_position(run) == -1, 'nobody knows the position')
    call fb_steps_from(run, snapshot)
    if (fb_step(run, step, 40, stat=stat, errmsg=said)) continue
    call refused(stat, FB_CONFLICT, 'snapshot 2 was taken at step 20')
    call fb_steps_with(run, start=22)
    if (fb_step(run, step, 40, stat=stat, errmsg=said)) continue
    call refused(stat, FB_CONFLICT, 'start=20 if step 20 is to be')
    call fb_steps_with(run, start=20)
    count = 0
    do while (fb_step(run, step, 40))
      call expect(step == 20 + count, 'it goes on at step 20')
      count = count + 1
    end do
    call expect(count == 20 .and. step == 40, 'it goes on to its end')
    call fb_run_close(run)

    call fb_run_open(place(), 'w', run)
    if (fb_step(run, step, 10)) then
      call fb_snapshot_begin(run, 5, snapshot)
      call fb_snapshot_put(snapshot, 'x', step)
      call fb_snapshot_end(snapshot)
    end if
    call fb_restart(run, snapshot)
    call fb_steps_with(run, start=0)
    call expect(fb_step(run, step, 10) .and. step == 0, 'it goes on at head 0, too')
    call fb_run_close(run)
  end subroutine goes_on_where_it_says

  !> In the body of a loop that was left only the program knows whether the step is computed.
  subroutine says_whether_a_step_that_was_left_is_computed()
    call fb_run_open(place(), 'w', run)
    do while (fb_step(run, step, 30))
      if (step == 23) exit
    end do
    call fb_steps_with(run, start=0)
    if (fb_step(run, step, 30, stat=stat, errmsg=said)) continue
    call refused(stat, FB_CONFLICT, 'start=23 if step 23 was not computed')
    call fb_run_close(run)
  end subroutine says_whether_a_step_that_was_left_is_computed

  !> A procedure of the program that fails by itself says why, and fb_step says it again.
  subroutine says_why_the_program_could_not_keep_its_state()
    call fb_run_open(place(), 'w', run)
    call fb_on_save(run, fail, every=2)
    count = 0
    stat = FB_OK
    do while (fb_step(run, step, 9, stat=stat, errmsg=said))
      count = count + 1
    end do
    call expect(count == 4, 'it ends where the state could not be kept')
    call refused(stat, FB_FULL, 'the tape is full')
    call fb_run_close(run)
  end subroutine says_why_the_program_could_not_keep_its_state
end program heads
