!> A rank of two: its columns of a global array, copied and in place, and its particles behind those of the other.
!> Rank and number of ranks come from the launcher's environment.

program ranks
  use check
  implicit none
  type(fb_run) :: run
  type(fb_snapshot) :: snapshot
  real(real64) :: e(4, 3)
  real(real64), pointer :: b(:, :)
  integer(int32) :: rank, size
  integer :: i, j
  nullify (b)
  call fb_run_open(place(), 'a', run)
  call fb_rank(run, rank, size)
  call expect(size == 2, 'two ranks')
  e = reshape([((10d0 * i + j + 3 * rank, i=1, 4), j=1, 3)], [4, 3])
  call fb_snapshot_begin(run, 1, snapshot)
  call fb_snapshot_put(snapshot, 'E', e, offset=[0, 3 * rank], global=[4, 6])
  call fb_snapshot_allocate(snapshot, 'B', b, shape(e), offset=[0, 3 * rank], global=[4, 6])
  b = e
  call fb_snapshot_put(snapshot, 'x', spread(rank + 1d0, 1, rank + 1), append=.true.)
  ! A rank without particles has them in the order of the others.
  call fb_snapshot_put(snapshot, 'v', e(:4 * rank, :), append=.true.)
  call fb_snapshot_end(snapshot)
  call fb_snapshot_wait(snapshot, timeout=30d0)
  call fb_run_close(run)
  call finish()
end program ranks
