! The field solve of the example as a service, in Fortran:
!
!     gfortran poisson1d.f90 $(pkg-config --cflags --libs forebay-fortran) -o poisson1d && ./poisson1d
!
! It offers what python/poisson1d.py and c/poisson1d.c offer, and serves until SIGTERM or Ctrl-C.

module solver
  use, intrinsic :: iso_fortran_env, only: real64
  use forebay
  implicit none
contains

  !> Potential and field of a charge density on a periodic grid.
  !>
  !> Solves -phi'' = rho with second differences and differentiates with centred differences, as ES1 does. half(i) is
  !> the field between the points i - 1 and i: its differences are the density, and its sum over the period is 0, for
  !> phi is periodic. The mean of rho has no effect; that of phi is 0.
  pure subroutine solve(length, rho, phi, e)
    real(real64), intent(in) :: length, rho(:)
    real(real64), intent(out) :: phi(:), e(:)
    real(real64) :: half(size(rho) + 1), dx, mean
    integer :: i, n
    n = size(rho)
    dx = length / n
    mean = sum(rho) / n
    half(1) = 0
    do i = 1, n
      half(i + 1) = half(i) + dx * (rho(i) - mean)
    end do
    half(:n) = half(:n) - sum(half(:n)) / n
    half(n + 1) = half(1)
    e = 0.5_real64 * (half(:n) + half(2:))
    phi(1) = 0
    do i = 2, n
      phi(i) = phi(i - 1) - dx * half(i)
    end do
    phi = phi - sum(phi) / n
  end subroutine solve

  recursive subroutine poisson1d(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    real(real64), pointer :: rho(:), phi(:), e(:)
    real(real64) :: length
    call fb_request_scalar(request, 1, length, stat=status)
    if (status == FB_OK) call fb_request_array(request, 2, rho, stat=status)
    if (status == FB_OK) call fb_request_array(request, 3, phi, stat=status)
    if (status == FB_OK) call fb_request_array(request, 4, e, stat=status)
    if (status /= FB_OK) return
    if (size(rho) > 0) call solve(length, rho, phi, e)
    select type (user) ! nothing was given with the service
    end select
  end subroutine poisson1d

end module solver

program serve
  use solver
  implicit none
  type(fb_server) :: server
  call fb_server_create(server, name='poisson1d in Fortran')
  call fb_service_register(server, 'poisson1d(in length:f64, in rho:f64[n], out phi:f64[n], out E:f64[n])', poisson1d)
  call fb_serve(server)
  call fb_server_free(server)
end program serve
