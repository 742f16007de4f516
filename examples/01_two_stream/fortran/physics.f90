! The physics of the example: a one-dimensional electrostatic particle-in-cell code.
!
! One step goes
!
!     rho on the grid -> field solve (elsewhere) -> E on the grid
!       -> push: E at the particles -> v(t - dt/2) to v(t + dt/2) -> x(t) to x(t + dt)
!       -> sums of this rank's particles -> added up over all ranks (elsewhere) -> collect: rho, energy, momentum
!
! Each rank has a contiguous part of every beam, so all parts one behind the other are the beam, whatever the number of
! ranks. Nothing here knows of Forebay or MPI. Units are normalised: speed U, time 1/wp, permittivity of vacuum 1.
! Positions and half-step velocities determine the rest to the bit for a given number of ranks: sums go in one order.

module physics
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use deck, only: input_deck
  implicit none
  private
  public :: make_plasma, share_first, quiet_start, half_step_back, deposit, push, collect, total_force, field_energy
  public :: growth_from_dispersion, growth_from_history

  ! Units of what is kept (e and m of the electron, n0 the density of a beam).
  character(len=*), parameter, public :: UNIT_X = 'U/wp', UNIT_V = 'U', UNIT_T = '1/wp', UNIT_E = 'm U wp/e', &
      UNIT_PHI = 'm U^2/e', UNIT_RHO = 'e n0', UNIT_ENERGY = 'm n0 U^3/wp', UNIT_MOMENTUM = 'm n0 U^2/wp'
  real(real64), parameter :: TWO_PI = 6.283185307179586476925_real64

  !> This rank's particles of one beam, and what they are made of.
  type, public :: species
    integer(int64) :: first = 0 ! number of the beam's particles that are on lower ranks
    real(real64), allocatable :: x(:), v(:)
    real(real64) :: qm = 0, q = 0, m = 0
  end type species

  !> All beams on their grid. `rho` belongs to the present positions after `collect`.
  type, public :: plasma
    type(species), allocatable :: species(:)
    real(real64) :: background = 0 ! charge density of the ions
    real(real64), allocatable :: rho(:)
    ! Of each beam: particles at grid + 2 points, sum of v v', sum of v'.
    real(real64), allocatable :: sums(:, :)
    real(real64) :: kinetic = 0, momentum = 0 ! energy centred in time, momentum at the half step
  end type plasma

contains

  !> Where part `rank` of `ranks` begins when n things are dealt out evenly and in order.
  pure function share_first(n, rank, ranks) result(first)
    integer(int64), intent(in) :: n
    integer, intent(in) :: rank, ranks
    integer(int64) :: first
    first = n / ranks * rank + min(mod(n, int(ranks, int64)), int(rank, int64))
  end function share_first

  !> Makes room for this rank's part.
  subroutine make_plasma(p, d, rank, ranks)
    type(plasma), intent(out) :: p
    type(input_deck), intent(in) :: d
    integer, intent(in) :: rank, ranks
    integer(int64) :: n
    integer :: b
    allocate (p%species(size(d%beams)), p%rho(d%grid), p%sums(d%grid + 4, size(d%beams)))
    do b = 1, size(d%beams)
      associate (s => p%species(b), beam => d%beams(b))
        s%first = share_first(beam%count, rank, ranks)
        n = share_first(beam%count, rank + 1, ranks) - s%first
        allocate (s%x(n), s%v(n))
        s%qm = beam%charge_to_mass
        ! wp^2 = (q/m) q n with n = count / L
        s%q = beam%plasma_frequency**2 * d%length / (real(beam%count, real64) * s%qm)
        s%m = s%q / s%qm
        p%background = p%background - s%q * real(beam%count, real64) / d%length
      end associate
    end do
  end subroutine make_plasma

  !> Evenly spaced cold beams, each displaced in its mode; velocities still at t = 0.
  subroutine quiet_start(p, d)
    type(plasma), intent(inout) :: p
    type(input_deck), intent(in) :: d
    real(real64) :: k, x
    integer(int64) :: i
    integer :: b
    do b = 1, size(d%beams)
      associate (s => p%species(b), beam => d%beams(b))
        k = TWO_PI * real(beam%mode, real64) / d%length
        do i = 1, size(s%x, kind=int64)
          x = (real(s%first + i, real64) - 0.5_real64) * (d%length / real(beam%count, real64))
          x = x + beam%displacement * cos(k * x)
          s%x(i) = x - d%length * floor(x / d%length)
        end do
        s%v = beam%drift
      end associate
    end do
  end subroutine quiet_start

  !> Adds particles to the grid points left and right of them. Two more points than cells are for a particle at the
  !> right end of the box that rounding puts into the cell behind it.
  subroutine add(x, cells_per_length, points)
    real(real64), intent(in) :: x(:), cells_per_length
    real(real64), intent(inout) :: points(0:)
    real(real64) :: place
    integer(int64) :: i, cell
    do i = 1, size(x, kind=int64)
      place = x(i) * cells_per_length
      cell = int(place, int64)
      place = place - real(cell, real64)
      points(cell) = points(cell) + 1 - place
      points(cell + 1) = points(cell + 1) + place
    end do
  end subroutine add

  !> Sums of this rank for the positions as they are.
  subroutine deposit(p, d)
    type(plasma), intent(inout) :: p
    type(input_deck), intent(in) :: d
    integer :: b
    p%sums = 0
    do b = 1, size(p%species)
      call add(p%species(b)%x, real(d%grid, real64) / d%length, p%sums(:, b))
    end do
  end subroutine deposit

  !> Charge density, kinetic energy and momentum from the sums of all ranks.
  subroutine collect(p, d)
    type(plasma), intent(inout) :: p
    type(input_deck), intent(in) :: d
    real(real64) :: dx
    integer :: b
    dx = d%length / real(d%grid, real64)
    p%rho = p%background
    p%kinetic = 0
    p%momentum = 0
    do b = 1, size(p%species)
      associate (s => p%species(b), points => p%sums(:, b), n => d%grid)
        points(1:2) = points(1:2) + points(n + 1:n + 2) ! the box is periodic
        p%rho = p%rho + points(:n) * (s%q / dx)
        p%kinetic = p%kinetic + 0.5_real64 * s%m * points(n + 3)
        p%momentum = p%momentum + s%m * points(n + 4)
      end associate
    end do
  end subroutine collect

  !> The force at the grid points times a factor, the box repeated, and its rise to the next point.
  subroutine prepare(force, factor, left, rise)
    real(real64), intent(in) :: force(:), factor
    real(real64), intent(out) :: left(0:), rise(0:)
    integer(int64) :: i
    do i = 0, ubound(left, 1)
      left(i) = force(mod(i, size(force, kind=int64)) + 1) * factor
    end do
    rise = left(1:) - left(:ubound(left, 1) - 1)
  end subroutine prepare

  !> Change of velocity at a place: linear between grid points.
  pure function kick(place, left, rise) result(change)
    real(real64), intent(in) :: place, left(0:), rise(0:)
    real(real64) :: change
    integer(int64) :: cell
    cell = int(place, int64)
    change = rise(cell) * (place - real(cell, real64)) + left(cell)
  end function kick

  !> Takes the velocities of a start from t = 0 to t = -dt/2, as leap-frog needs them.
  subroutine half_step_back(p, d, force)
    type(plasma), intent(inout) :: p
    type(input_deck), intent(in) :: d
    real(real64), intent(in) :: force(:)
    real(real64) :: left(0:d%grid + 1), rise(0:d%grid), scale
    integer(int64) :: i
    integer :: b
    scale = real(d%grid, real64) / d%length
    do b = 1, size(p%species)
      associate (s => p%species(b))
        call prepare(force, -0.5_real64 * s%qm * d%dt, left, rise)
        do i = 1, size(s%v, kind=int64)
          s%v(i) = s%v(i) + kick(s%x(i) * scale, left, rise)
        end do
      end associate
    end do
  end subroutine half_step_back

  !> One leap-frog step of this rank's particles in the force on the grid; leaves its sums.
  subroutine push(p, d, force)
    type(plasma), intent(inout) :: p
    type(input_deck), intent(in) :: d
    real(real64), intent(in) :: force(:)
    real(real64) :: left(0:d%grid + 1), rise(0:d%grid), scale, after, there, energy, speed
    integer(int64) :: i
    integer :: b
    scale = real(d%grid, real64) / d%length
    p%sums = 0
    do b = 1, size(p%species)
      associate (s => p%species(b))
        call prepare(force, s%qm * d%dt, left, rise)
        energy = 0
        speed = 0
        do i = 1, size(s%v, kind=int64)
          after = s%v(i) + kick(s%x(i) * scale, left, rise)
          there = s%x(i) + d%dt * after
          if (there < 0 .or. there >= d%length) there = there - d%length * floor(there / d%length)
          energy = energy + s%v(i) * after
          speed = speed + after
          s%v(i) = after
          s%x(i) = there
        end do
        call add(s%x, scale, p%sums(:, b))
        p%sums(d%grid + 3:, b) = [energy, speed]
      end associate
    end do
  end subroutine push

  !> The field that pulls at the particles: E and a standing wave in the deck's mode.
  pure function total_force(d, e, amplitude) result(force)
    type(input_deck), intent(in) :: d
    real(real64), intent(in) :: e(:), amplitude
    real(real64) :: force(size(e)), k
    integer :: i
    k = TWO_PI * real(d%field_mode, real64) / real(d%grid, real64)
    force = e + amplitude * [(cos(k * i), i=0, size(e) - 1)]
  end function total_force

  !> Energy of the self-consistent field: half the square of E, over the box.
  pure function field_energy(d, e) result(energy)
    type(input_deck), intent(in) :: d
    real(real64), intent(in) :: e(:)
    real(real64) :: energy
    energy = 0.5_real64 * (d%length / real(d%grid, real64)) * sum(e * e)
  end function field_energy

  ! --- growth rates, for the report -----------------------------------------------------------------

  !> Fastest growth rate of mode 1 by the cold-beam dispersion relation
  !>     sum over beams of wp^2 / (omega - k v0)^2 = 1
  !> as a polynomial: the product of all denominators, less wp^2 times the product of the others.
  function growth_from_dispersion(d) result(rate)
    type(input_deck), intent(in) :: d
    real(real64) :: rate, k
    real(real64) :: whole(0:2 * size(d%beams)), part(0:2 * size(d%beams))
    integer :: without, b, twice, degree
    k = TWO_PI / d%length
    whole = 0
    do without = 0, size(d%beams)
      part = 0
      degree = 0
      part(0) = -1
      if (without > 0) part(0) = d%beams(without)%plasma_frequency**2
      do b = 1, size(d%beams)
        if (b == without) cycle
        do twice = 1, 2
          degree = degree + 1
          part(1:degree) = part(0:degree - 1) - k * d%beams(b)%drift * part(1:degree)
          part(0) = -k * d%beams(b)%drift * part(0)
        end do
      end do
      whole = whole + part
    end do
    rate = greatest_imaginary(whole)
  end function growth_from_dispersion

  !> Greatest imaginary part of the roots of c(0) + c(1) z + ... (Durand and Kerner).
  function greatest_imaginary(c) result(most)
    real(real64), intent(in) :: c(0:)
    real(real64) :: most, radius, moved
    complex(real64) :: root(ubound(c, 1)), value, others
    integer :: n, i, k, round
    n = ubound(c, 1)
    radius = 1 + maxval(abs(c(:n - 1))) / abs(c(n)) ! Cauchy's bound
    root = [(radius * exp(cmplx(0, TWO_PI * (i - 1) / n + 0.4_real64, real64)), i=1, n)]
    do round = 1, 2000
      moved = 0
      do i = 1, n
        value = c(n)
        others = c(n)
        do k = n - 1, 0, -1
          value = value * root(i) + c(k)
        end do
        do k = 1, n
          if (k /= i) others = others * (root(i) - root(k))
        end do
        if (abs(others) <= 0) cycle
        root(i) = root(i) - value / others
        moved = max(moved, abs(value / others))
      end do
      if (moved < 1e-14_real64 * radius) exit
    end do
    most = max(0.0_real64, maxval(aimag(root)))
  end function greatest_imaginary

  !> Growth rate of the field, half that of its energy, fitted where the energy climbs from 1e-4 to 3e-2 of its first
  !> peak, that is, its first local maximum that reaches a tenth of the greatest value. 0 when there is none yet.
  function growth_from_history(t, energy) result(rate)
    real(real64), intent(in) :: t(:), energy(:)
    real(real64) :: rate
    integer :: i, peak, first, last
    rate = 0
    peak = 0
    do i = 2, size(energy) - 1
      if (energy(i) < energy(i - 1) .or. energy(i) <= energy(i + 1) .or. energy(i) <= 0.1_real64 * maxval(energy)) cycle
      peak = i
      exit
    end do
    if (peak == 0) return
    first = findloc(energy(:peak) < 1e-4_real64 * energy(peak), .true., 1, back=.true.) + 1
    last = first - 1
    do while (last + 1 < peak .and. energy(last + 1) <= 3e-2_real64 * energy(peak))
      last = last + 1
    end do
    if (last - first < 2) return
    rate = 0.5_real64 * slope(t(first:last), log(energy(first:last)))
  end function growth_from_history

  !> Slope of the straight line through points.
  pure function slope(t, y) result(rise)
    real(real64), intent(in) :: t(:), y(:)
    real(real64) :: rise, shifted(size(t))
    shifted = t - sum(t) / size(t)
    rise = sum(shifted * (y - sum(y) / size(y))) / sum(shifted**2)
  end function slope

end module physics
