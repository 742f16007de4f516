!> None of the ranks, the same as in C (tests/c/programs/client.c): program RUN.

program client
  use check
  implicit none
  type(fb_run) :: run
  type(fb_table) :: seen, grown
  type(fb_snapshot) :: snapshot
  real(real64) :: back
  integer(int64), target :: numbers(2)
  integer :: rank, ranks, stat

  call fb_run_open(place(), 'a', run, client=.true., stat=stat, errmsg=said)
  call refused(stat, FB_BAD_ARGUMENT, 'mode "r+"')
  call fb_run_open(place(), 'r+', run, client=.true.)
  call fb_rank(run, rank, ranks)
  call expect(rank == 0 .and. ranks == 0, 'it is none of the ranks')
  call fb_put(run, 'beside', 2.5d0)
  call fb_get(run, 'beside', back)
  call expect(abs(back - 2.5d0) < 1d-12, 'it reads what it has put')
  call fb_attr_set(run, 'who', 'a client')
  call fb_table_open(run, 'seen', seen, columns=[fb_column('n', FB_I64)])
  numbers = [4_int64, 5_int64]
  call fb_table_insert(seen, [fb_values('n', numbers)])
  call fb_message(run, 'from a client', level=FB_WARNING)
  call fb_snapshot_begin(run, 7_int64, snapshot, stat=stat, errmsg=said)
  call refused(stat, FB_BAD_ARGUMENT, 'a snapshot is the ranks'' alone')
  call fb_table_open(run, 'grown', grown)
  call fb_table_insert(grown, [fb_values('n', numbers)], stat=stat, errmsg=said)
  call refused(stat, FB_BAD_ARGUMENT, 'a row of a history is the ranks'' alone')
  call fb_table_free(grown)
  call fb_table_free(seen)
  call fb_run_close(run)
  call finish()
end program client
