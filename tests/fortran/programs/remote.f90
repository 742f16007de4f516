!> A run on another host: small sets, snapshots, what is read back; then it goes until Quit is pressed.

module remote_save
  use check
  implicit none
contains

  subroutine save_it(step, user, status)
    integer(int64), intent(in) :: step
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    select type (user)
    type is (integer)
      user = user + 1
    class default
      status = FB_INTERNAL
    end select
    call expect(step >= 3, 'Save comes when the snapshots are taken')
  end subroutine save_it

end module remote_save

program remote
  use remote_save
  implicit none
  integer, parameter :: nx = 300, ny = 200
  type(fb_run) :: run
  type(fb_snapshot) :: s
  real(real64), target :: nu = 0.5
  integer, target :: saves = 0
  real(real64) :: field(nx, ny)
  character(len=12) :: name
  integer(int64) :: step
  integer :: n

  call fb_run_open(place(), 'w', run, buffer=8 * 2**20)
  call fb_parameter(run, 'nu', nu, min=0d0)
  call fb_on_save(run, save_it, saves)
  do n = 0, 9
    write (name, '(a, i0)') 'small/', n
    call fb_put(run, trim(name), [n, n * n])
  end do
  do while (fb_step(run, step, 1000000000))
    if (step < 3) then
      field = at(step)
      call fb_snapshot_begin(run, step, s, time=0.5d0 * real(step, real64))
      call fb_snapshot_put(s, 'field', field)
      call fb_snapshot_end(s)
      field = 0
      call fb_snapshot_wait(s, timeout=60d0)
      call fb_snapshot_free(s)
    else if (step == 3) then
      call read_back()
      print '(a)', 'ready'
      flush (output_unit)
    end if
  end do
  call fb_run_close(run)
  print '(a, f4.1, i3)', 'now', nu, saves
  call finish()

contains

  !> The field of a step.
  pure function at(step) result(f)
    integer(int64), intent(in) :: step
    real(real64) :: f(nx, ny)
    integer :: i
    f = reshape([(real(step * 1000000_int64 + i, real64), i=0, nx * ny - 1)], [nx, ny])
  end function at

  subroutine read_back()
    integer :: pair(2), stat
    real(real64), allocatable :: whole(:, :)
    allocate (whole(nx, ny))
    pair = 0
    call fb_get(run, 'small/7', pair)
    call expect(all(pair == [7, 49]), 'a small set')
    call fb_get(run, 'small/99', pair, stat=stat, errmsg=said)
    call refused(stat, FB_NOT_FOUND, 'small/99')
    call fb_snapshot_at(run, 2, s)
    call fb_snapshot_get(s, 'field', whole)
    call expect(all(abs(whole - at(2_int64)) <= 0), 'the field of the last snapshot')
    call fb_snapshot_free(s)
  end subroutine read_back

end program remote
