!> A rank of several, each of which appends to the same histories.
!> Rank and number of ranks come from the launcher's environment.

program histories
  use check
  implicit none
  integer(int64), parameter :: steps = 10
  character(len=*), parameter :: ways(4) = [character(len=4) :: 'sum', 'min', 'max', 'mean']
  type(fb_run) :: run
  type(fb_snapshot) :: snapshot
  type(fb_rows) :: rows
  real(real64), allocatable :: column(:)
  type(fb_diagram) :: kept, reduced(4), refused_one
  integer(int32) :: rank, size
  integer(int64) :: step
  integer :: d, stat
  real(real64) :: value
  call fb_run_open(place(), 'a', run)
  call fb_rank(run, rank, size)
  call fb_diagram_open(run, 'kept', kept, kind='history')
  do d = 1, 4
    call fb_diagram_open(run, trim(ways(d)), reduced(d), kind='history', reduce=trim(ways(d)))
  end do
  call fb_diagram_open(run, 'product', refused_one, kind='history', reduce='product', stat=stat, errmsg=said)
  call refused(stat, FB_BAD_ARGUMENT, 'product')
  do while (fb_step(run, step, steps))
    value = 0.1d0 * (rank + 1) + real(step, real64)
    call fb_history_append(kept, 0.5d0 * step, ['w'], [value])
    do d = 1, 4
      call fb_history_append(reduced(d), 0.5d0 * step, ['w'], [value])
    end do
  end do
  ! Nobody leaves before all have come.
  call fb_snapshot_begin(run, steps, snapshot)
  call fb_snapshot_put(snapshot, 'x', [real(rank, real64)], append=.true.)
  call fb_snapshot_end(snapshot)
  call fb_snapshot_wait(snapshot, timeout=30d0)
  call fb_history(run, 'kept', rows)
  call fb_rows_get(rows, 2, column)
  call expect(ubound(column, 1) == steps .and. all(abs(column - [(0.5d0 * d, d=0, 9)]) <= 0), 'a history is read back')
  call fb_history(run, 'no such history', rows, stat=stat, errmsg=said)
  call refused(stat, FB_NOT_FOUND, 'no such history')
  call fb_run_close(run)
  call finish()
end program histories
