! What the example prints at its end: physics from the table `history`, output from the run's own figures. The same
! lines as the examples in Python and C.

module report
  use, intrinsic :: iso_fortran_env, only: int64, output_unit, real64
  use deck, only: input_deck
  use forebay
  use physics, only: growth_from_dispersion, growth_from_history
  implicit none
  private
  public :: print_report, fixed

  !> What the client measured itself.
  type, public :: clocked
    real(real64) :: seconds = 0 ! of the loop
    real(real64), allocatable :: calls(:) ! seconds of each field solve
    integer(int64) :: ncalls = 0
  end type clocked

contains

  !> A number with so many decimals, as C's %.4f prints it.
  function fixed(x, decimals) result(text)
    real(real64), intent(in) :: x
    integer, intent(in) :: decimals
    character(len=:), allocatable :: text
    character(len=40) :: room, form
    write (form, '(a, i0, a)') '(f40.', decimals, ')'
    write (room, form) x
    text = trim(adjustl(room))
  end function fixed

  !> The same of an integer.
  function whole(n) result(text)
    integer(int64), intent(in) :: n
    character(len=:), allocatable :: text
    character(len=24) :: room
    write (room, '(i0)') n
    text = trim(room)
  end function whole

  subroutine print_report(run, d, c)
    type(fb_run), intent(in) :: run
    type(input_deck), intent(in) :: d
    type(clocked), intent(inout) :: c
    type(fb_table) :: table
    type(fb_rows) :: rows
    real(real64), allocatable :: t(:), field(:), kinetic(:), momentum(:)
    character(len=:), allocatable :: path
    call fb_path(run, path)
    print '(2a)', 'run           ', path
    call fb_table_open(run, 'history', table)
    call fb_table_select(table, rows, [character(len=8) :: 'time', 'field', 'kinetic', 'momentum'])
    call fb_rows_get(rows, 1, t)
    call fb_rows_get(rows, 2, field)
    call fb_rows_get(rows, 3, kinetic)
    call fb_rows_get(rows, 4, momentum)
    if (size(t) > 0) then
      call report_growth(d, t, field)
      call report_conserved(d, field + kinetic, momentum)
    else
      print '(a)', 'history       empty: the run ended before its first step'
    end if
    call report_output(run, c)
    if (c%ncalls > 0) print '(5a)', 'calls         ', whole(c%ncalls), ' to poisson1d, median ', &
        fixed(1e6_real64 * median(c%calls(:c%ncalls)), 1), ' us'
    flush (output_unit)
  end subroutine print_report

  subroutine report_growth(d, t, field)
    type(input_deck), intent(in) :: d
    real(real64), intent(in) :: t(:), field(:)
    real(real64) :: theory, measured
    character(len=:), allocatable :: beside
    theory = growth_from_dispersion(d)
    measured = growth_from_history(t, field)
    beside = ''
    if (theory > 0) beside = ', '//merge('+', ' ', measured >= theory)//fixed(100 * (measured / theory - 1), 1)//' %'
    if (measured > 0) then
      print '(5a)', 'growth rate   ', fixed(measured, 4), ' wp; by the dispersion relation ', fixed(theory, 4), &
          ' wp'//beside(:min(2, len(beside)))//trim(adjustl(beside(3:)))
    else
      print '(3a)', 'growth rate   not reached yet; by the dispersion relation ', fixed(theory, 4), ' wp'
    end if
  end subroutine report_growth

  subroutine report_conserved(d, energy, momentum)
    type(input_deck), intent(in) :: d
    real(real64), intent(in) :: energy(:), momentum(:)
    character(len=12) :: drift
    ! Momentum is compared with that of one beam, for the sum of both is 0.
    write (drift, '(es12.1e2)') maxval(abs(momentum - momentum(1))) &
        / max(1e-300_real64, maxval(d%length * abs(d%beams%drift) * d%beams%plasma_frequency**2))
    print '(5a)', 'energy        drift ', fixed(100 * (maxval(energy) - minval(energy)) / abs(energy(1)), 2), ' % over ', &
        whole(size(energy, kind=int64)), ' steps'
    drift = adjustl(drift)
    drift(index(drift, 'E'):index(drift, 'E')) = 'e'
    print '(3a)', 'momentum      drift ', trim(drift), ' of that of one beam'
  end subroutine report_conserved

  subroutine report_output(run, c)
    type(fb_run), intent(in) :: run
    type(clocked), intent(in) :: c
    type(fb_stats) :: stats
    integer(int64), allocatable :: steps(:)
    call fb_run_stats(run, stats)
    call fb_snapshots(run, steps)
    print '(5a)', 'snapshots     ', whole(size(steps, kind=int64)), ', this time ', &
        fixed(real(stats%written_bytes, real64) / 1e6_real64, 1), ' MB written'
    if (c%ncalls > 0) print '(5a)', 'output        ', fixed(100 * stats%visible_s / c%seconds, 2), ' % of ', &
        fixed(c%seconds, 1), ' s visible to the simulation'
  end subroutine report_output

  !> By taking out the least one until the middle is reached, a half at a time.
  pure function median(values) result(middle)
    real(real64), intent(in) :: values(:)
    real(real64) :: middle, low, high
    integer :: n
    n = size(values)
    low = ranked(values, (n + 1) / 2)
    high = ranked(values, n / 2 + 1)
    middle = 0.5_real64 * (low + high)
  end function median

  !> The value that `place` - 1 others are not greater than.
  pure recursive function ranked(values, place) result(value)
    real(real64), intent(in) :: values(:)
    integer, intent(in) :: place
    real(real64) :: value, pivot
    integer :: less, equal
    pivot = values((size(values) + 1) / 2)
    less = count(values < pivot)
    equal = size(values) - less - count(values > pivot)
    if (place <= less) then
      value = ranked(pack(values, values < pivot), place)
    else if (place <= less + equal) then
      value = pivot
    else
      value = ranked(pack(values, values > pivot), place - less - equal)
    end if
  end function ranked

end module report
