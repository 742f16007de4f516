!> A run to which something happens, as in damage.c: damage PLACE write|read|go|lose|again.

program damage
  use check
  implicit none
  type(fb_run) :: run
  type(fb_snapshot) :: snapshot
  type(fb_step_info) :: about
  character(len=8) :: what
  real(real64) :: field(1000)
  integer(int64), allocatable :: steps(:)
  integer(int64) :: step, packed, single
  integer :: stat
  logical :: dropped
  field = 0
  call get_command_argument(2, what)
  if (what == 'read') then
    call fb_run_open(place(), 'r', run)
  else
    call fb_run_open(place(), 'a', run, buffer=8 * 2**20, late='ignore', pack='no')
  end if
  select case (what)
  case ('write')
    do step = 0, 3
      call take(step)
    end do
  case ('read')
    call fb_snapshot_at(run, 2, snapshot)
    call fb_snapshot_get(snapshot, 'E', field)
    call expect(all(abs(field - 2.25_real64) < epsilon(field)), 'what is sound is read')
    call fb_snapshot_free(snapshot)
    call fb_snapshot_at(run, 3, snapshot)
    call fb_snapshot_get(snapshot, 'E', field, stat=stat, errmsg=said)
    call refused(stat, FB_CORRUPT, '0000000003.h5')
    call fb_snapshot_free(snapshot)
  case ('go')
    ! stat stands where it has always stood: what came later comes behind it.
    call fb_restart(run, snapshot, stat, said, strict=.true.)
    call refused(stat, FB_CORRUPT, 'step 3 is damaged')
    call fb_restart(run, snapshot)
    call fb_snapshot_step(snapshot, about)
    call fb_snapshot_passed(snapshot, steps)
    call expect(about%step == 2, 'the damaged snapshot is passed over')
    call expect(size(steps) == 1, 'and that is said')
    if (size(steps) == 1) call expect(steps(1) == 3, 'by its number')
    call fb_snapshot_free(snapshot)
    call take(3_int64)
    call fb_drop(run, 1, dropped)
    call expect(dropped, 'there was one to drop')
    call fb_drop(run, 1, dropped=dropped)
    call expect(.not. dropped, 'there is none any more')
    call fb_drop(run, 0)
    call take(1_int64)
    call fb_snapshots(run, steps)
    call expect(size(steps) == 3, 'three are left')
    if (size(steps) == 3) call expect(all(steps == [1, 2, 3]), 'with their numbers')
    call fb_pack(run, 1_int64, 2_int64, packed=packed, single=single)
    call expect(packed == 2 .and. single == 0, 'two lie in a pack')
    call fb_snapshot_at(run, 2, snapshot)
    call fb_snapshot_get(snapshot, 'E', field)
    call expect(all(abs(field - 2.25_real64) < epsilon(field)), 'and are read from there')
    call fb_snapshot_free(snapshot)
  case ('lose')
    call lose()
  case ('again')
    call again()
  end select
  if (what /= 'lose') call fb_run_close(run)
  if (failures > 0) stop 1
  print '(a)', 'done'

contains

  subroutine lose()
    call take(0_int64)
    call say('ready')
    read (*, '(a)') what
    what = 'lose'
    call fb_snapshot_begin(run, 1, snapshot)
    call fb_snapshot_put(snapshot, 'E', field)
    call fb_snapshot_end(snapshot)
    call say('waiting')
    call fb_snapshot_wait(snapshot, stat=stat, errmsg=said)
    call refused(stat, FB_SERVER_LOST, 'lost')
    call fb_flush(run, stat=stat, errmsg=said)
    call refused(stat, FB_SERVER_LOST, 'lost')
    call fb_rename(run, 'a', 'b', stat=stat, errmsg=said)
    call refused(stat, FB_SERVER_LOST, 'lost')
    call fb_put(run, 'a', field, stat=stat, errmsg=said)
    call refused(stat, FB_SERVER_LOST, 'lost')
    call fb_snapshot_free(snapshot)
    call fb_run_close(run, stat=stat, errmsg=said)
    call refused(stat, FB_SERVER_LOST, 'lost')
  end subroutine lose

  subroutine again()
    do while (fb_step(run, step, 2))
      call fb_snapshot_begin(run, step, snapshot, stat=stat, errmsg=said)
      call refused(stat, FB_CONFLICT, 'complete steps up to 1')
    end do
    call fb_snapshots(run, steps)
    call expect(size(steps) == 2, 'what was acknowledged is there')
  end subroutine again

  subroutine say(word)
    character(len=*), intent(in) :: word
    print '(a)', word
    flush (output_unit)
  end subroutine say

  subroutine take(number)
    integer(int64), intent(in) :: number
    type(fb_snapshot) :: taken
    real(real64) :: values(1000)
    values = real(number, real64) + 0.25_real64
    call fb_snapshot_begin(run, number, taken, time=real(number, real64))
    call fb_snapshot_put(taken, 'E', values)
    call fb_snapshot_end(taken)
    call fb_snapshot_wait(taken)
    call fb_snapshot_free(taken)
  end subroutine take

end program damage
