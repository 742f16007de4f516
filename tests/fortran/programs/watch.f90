!> Watching and steering: parameters of every kind, buttons, messages, diagrams. Its loop ends when Quit is pressed, and
!> it works on behind it until its input ends.

module buttons
  use check
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  interface
    integer(c_int) function c_isatty(unit) bind(c, name='isatty')
      import :: c_int
      integer(c_int), value :: unit
    end function c_isatty
  end interface
  type :: counts
    integer :: saves = 0, kicks = 0
  end type counts
  type(fb_run) :: run
contains

  subroutine save_it(step, user, status)
    integer(int64), intent(in) :: step
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    call expect(step >= 0, 'Save comes with a step')
    select type (user)
    type is (counts)
      user%saves = user%saves + 1
    class default
      status = FB_INTERNAL
    end select
  end subroutine save_it

  subroutine kick(step, user, status)
    integer(int64), intent(in) :: step
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    type(fb_dataset) :: info
    select type (user)
    type is (counts)
      user%kicks = user%kicks + 1
    end select
    if (step >= 0) call fb_dataset_info(run, 'nothing', info, stat=status)
  end subroutine kick

end module buttons

program watch
  use buttons
  implicit none
  type(counts), target :: counted
  real(real64), target :: nu
  real(real32), target :: single
  integer(int64), target :: every, seed
  integer, target :: short
  logical, target :: filter
  character(len=12), target :: scheme
  type(fb_diagram) :: curve, points, history, none
  character(len=:), allocatable :: operator_url, viewer_url
  real(real64) :: x(64), wide(2, 64)
  logical :: wants
  integer(int64) :: step
  integer :: i, stat

  call fb_run_open(place(), 'w', run, buffer=8 * 2**20)
  nu = 0.5
  single = 0.25
  every = 10
  seed = 9007199254740993_int64 ! no double is that
  short = 3
  filter = .false.
  scheme = 'upwind'
  call fb_parameter(run, 'nu', nu, min=0d0, max=4d0, units='1/s', help='rate of collisions')
  call fb_parameter(run, 'single', single, max=2.0)
  call fb_parameter(run, 'every', every, min=1_int64)
  call fb_parameter(run, 'seed', seed)
  call fb_parameter(run, 'short', short)
  call fb_parameter(run, 'filter', filter)
  call fb_parameter(run, 'scheme', scheme)
  call fb_parameter(run, 'nu', nu, min=1d0, max=0d0, stat=stat, errmsg=said)
  call expect(stat == FB_BAD_ARGUMENT, 'limits that cross')
  call steered_with(counted)
  call fb_message(run, 'the wave breaks', level=FB_WARNING)
  call fb_message(run, '?', 7, stat=stat, errmsg=said)
  call refused(stat, FB_BAD_ARGUMENT, '7')

  call fb_diagram_open(run, 'Field', curve, v='E [V/m]', xscale='log')
  call fb_diagram_open(run, 'Phase space', points, kind='scatter', x='x [m]', y='v [m/s]')
  call fb_diagram_open(run, 'Energy', history, kind='history', x='t [s]', y='W [J]', yscale='log', every=2)
  call fb_diagram_open(run, 'Pie', none, kind='pie', stat=stat, errmsg=said)
  call refused(stat, FB_BAD_ARGUMENT, 'pie')
  call fb_monitor(run, operator_url=operator_url, viewer_url=viewer_url)
  call expect(index(operator_url, 'http://127.0.0.1:') == 1 .and. viewer_url /= operator_url, 'two links')
  call fb_monitor_url(run, operator_url)
  call expect((operator_url == viewer_url) .neqv. c_isatty(1_c_int) /= 0, 'a terminal gets the link of who may steer, no log does')

  x = [(real(i, real64), i=1, 64)]
  wide = spread(x, 1, 2)
  wants = .false.
  call fb_diagram_wants(curve, wants)
  call expect(wants, 'the first update is wanted')
  call fb_diagram_wants(points, wants, curve='electrons')
  call expect(wants, 'that of a curve with a name, too')
  print '(a)', 'ready'
  flush (output_unit)
  do while (fb_step(run, step, 1000000000))
    call fb_curve_update(curve, x, wide(2, :))
    call fb_curve_update(points, real(x, real32), real(x, real32), curve='electrons')
    if (mod(step, 64_int64) == 0) &
      call fb_history_append(history, real(step, real64), [character(len=8) :: 'field', 'kinetic'], [1d0, 2d0])
    if (step == 0) then
      call fb_curve_update(curve, x, x(1:3), stat=stat, errmsg=said)
      call refused(stat, FB_BAD_ARGUMENT, 'points')
      call fb_history_append(history, 0d0, ['a'], x, stat=stat, errmsg=said)
      call refused(stat, FB_BAD_ARGUMENT, 'value')
    end if
  end do
  print '(a, f4.1, f6.2, i4, i21, i4, l2, 1x, 2a, i2, i2)', 'now', nu, single, every, seed, short, filter, scheme, '|', &
      counted%saves, counted%kicks
  flush (output_unit)
  read (*, '(a)', iostat=stat) scheme
  call expect(stat < 0, 'the end of the input')
  call fb_diagram_free(points)
  call fb_diagram_free(curve)
  call fb_diagram_free(history)
  call fb_run_close(run)
  call finish()
contains

  !> What a caller may only look at is given to procedures as it stands.
  subroutine steered_with(user)
    type(counts), target, intent(in) :: user
    call fb_on_save(run, save_it, user=user)
    call fb_on_command(run, 'kick', kick, user=user)
  end subroutine steered_with

end program watch
