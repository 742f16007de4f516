!> Data that a killed program left in memory which the next one does not see, the same as in C
!> (tests/c/programs/elsewhere.c): program RUN write, or program RUN refuse|abandon|perhaps|usual.

program elsewhere
  use check
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  interface
    integer(c_int) function raise(signal) bind(c)
      import :: c_int
      integer(c_int), value :: signal
    end function raise
  end interface
  type(fb_run) :: run
  character(len=16) :: what
  integer :: stat
  integer(c_int) :: ignored
  call get_command_argument(2, what)
  select case (what)
  case ('refuse')
    call fb_run_open(place(), 'a', run, elsewhere='refuse', stat=stat, errmsg=said)
    call refused(stat, FB_CONFLICT, 'left data in memory')
  case ('perhaps')
    call fb_run_open(place(), 'a', run, elsewhere='perhaps', stat=stat, errmsg=said)
    call refused(stat, FB_BAD_ARGUMENT, '"refuse" or "abandon"')
  case ('abandon')
    call fb_run_open(place(), 'a', run, elsewhere='abandon')
    call fb_run_close(run)
  case default
    call fb_run_open(place(), 'a', run, buffer=8 * 2**20)
    call fb_put(run, 'first', 1d0)
    if (what == 'write') then
      call fb_flush(run)
      call fb_put(run, 'second', 2d0)
      ignored = raise(9_c_int) ! SIGKILL
    end if
    call fb_run_close(run)
  end select
  call finish()
end program elsewhere
