!> Errors of what was acknowledged earlier, and figures, the same as in C (tests/c/programs/late.c); then how else a run
!> is opened and left.

program late
  use check
  implicit none
  type(fb_run) :: run
  type(fb_stats) :: stats
  integer :: stat
  call fb_run_open(place(), 'w', run, late='perhaps', stat=stat, errmsg=said)
  call refused(stat, FB_BAD_ARGUMENT, '"warn" or "ignore"')
  call raised()
  call quiet('warn', 12)
  call quiet('ignore', 22)
  call opened()
  call left()
  call words()
  call finish()

contains

  subroutine take(step)
    integer, intent(in) :: step
    type(fb_snapshot) :: snapshot
    real(real64), allocatable :: field(:)
    allocate (field(200000), source=0d0)
    call fb_snapshot_begin(run, step, snapshot, time=0.5d0 * step)
    call fb_snapshot_put(snapshot, 'E', field)
    ! The pieces of step 1, and of 11 and 21, do not make a whole, which shows when it is written.
    if (mod(step, 10) == 1) call fb_snapshot_put(snapshot, 'F', field(1:5), offset=[0], global=[9])
    call fb_snapshot_end(snapshot)
  end subroutine take

  subroutine raised()
    call fb_run_open(place(), 'w', run, buffer=16 * 2**20)
    call take(0)
    call take(1)
    call fb_flush(run, stat=stat, errmsg=said)
    call expect(stat /= FB_OK .and. index(said, 'lacks 4 of its 9') > 0, 'what was acknowledged fails later')
    said = ''
    call take(2)
    call fb_flush(run)
    call fb_run_stats(run, stats)
    call expect(stats%late_errors == 1 .and. stats%embedded == 1 .and. stats%waiting_for_disk == 0, 'figures')
    call expect(stats%copy_bytes_per_s > 0 .and. stats%ideal_s > 0 .and. stats%ideal_s <= stats%visible_s, 'speeds')
    call fb_run_close(run)
  end subroutine raised

  subroutine quiet(how, step)
    character(len=*), intent(in) :: how
    integer, intent(in) :: step
    type(fb_snapshot) :: last
    call fb_run_open(place(), 'r+', run, buffer=16 * 2**20, late=how)
    call fb_restart(run, last)
    call take(step - 1)
    call fb_flush(run)
    call take(step)
    call fb_run_stats(run, stats)
    call expect(stats%late_errors == 1, 'it is counted all the same')
    call fb_run_close(run)
  end subroutine quiet

  !> As a rank of others, as a run that is deleted, as one that is read.
  subroutine opened()
    character(len=:), allocatable :: path
    integer :: rank, ranks
    logical :: there, read_only
    call fb_run_open(place(), 'r+', run, buffer=16 * 2**20, full='spill', rank=0, ranks=1, program='late')
    call fb_rank(run, rank=rank, ranks=ranks)
    call fb_is_read_only(run, read_only)
    call expect(rank == 0 .and. ranks == 1 .and. .not. read_only, 'one rank, that writes')
    call fb_run_open(place(), 'r', run)
    call fb_is_read_only(run, read_only)
    call expect(read_only, 'a run that is read')
    call fb_put(run, 'E', [1d0], stat=stat, errmsg=said)
    call refused(stat, FB_READ_ONLY, 'for reading')
    call fb_run_open(place()//'.scratch', 'w', run, buffer=16 * 2**20, scratch=.true.)
    call fb_path(run, path)
    inquire (file=path//'/.', exist=there)
    call expect(there, 'a run for once')
    call fb_run_close(run)
    inquire (file=path//'/.', exist=there)
    call expect(.not. there, 'it is deleted when it is closed')
    call fb_run_open(place(), 'w', run, full='perhaps', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, 'perhaps')
    call fb_run_open(place(), 'w', run, rank=3, ranks=2, stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '3')
  end subroutine opened

  !> A run that did not come to its end says so to whoever goes on with it.
  subroutine left()
    type(fb_snapshot) :: last
    type(fb_step_info) :: about
    integer :: finished
    do finished = 0, 1
      call fb_run_open(place(), 'a', run, buffer=16 * 2**20)
      if (finished == 0) call fb_run_close_unfinished(run)
      if (finished == 1) call fb_run_close(run)
      call fb_run_open(place(), 'a', run, buffer=16 * 2**20)
      call fb_restart(run, last)
      call fb_snapshot_step(last, about)
      call expect(about%finished == finished .and. about%step == 22, 'whether it was finished')
      call fb_snapshot_free(last)
      call fb_run_close(run)
    end do
    call fb_run_close_unfinished(run, stat=stat, errmsg=said)
    call expect(stat == FB_OK .or. stat == FB_BAD_ARGUMENT, 'what is closed already')
    said = ''
  end subroutine left

  subroutine words()
    character(len=16) :: version
    write (version, '(i0, 2(a, i0))') FB_VERSION_MAJOR, '.', FB_VERSION_MINOR, '.', FB_VERSION_PATCH
    call expect(fb_version() == version, 'the version')
    call expect(fb_status_name(FB_NOT_FOUND) == 'NotFound' .and. fb_status_name(999) == '', 'names of statuses')
    call expect(len(fb_status_remedy(FB_NO_SERVER)) > 20 .and. fb_status_remedy(999) == '', 'what to do about them')
  end subroutine words

end program late
