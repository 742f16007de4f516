! A linear system, solved by LAPACK in another process:
!
!     forebay serve --idl blas.fbi &
!     forebay serve --idl lapack.fbi &
!     gfortran solve.f90 $(pkg-config --cflags --libs forebay-fortran) -o solve && ./solve
program solve
  use forebay
  implicit none
  integer, parameter :: n = 5
  type(fb_client) :: client
  real(8), target :: a(n, n), x(n, 1), norm, singular(2, 2), b(2, 1)
  integer, target :: pivots(n), info
  integer :: i
  a = 0
  do i = 1, n
    a(i, i) = 4
    if (i > 1) a(i, i - 1) = -1.5d0
    if (i < n) a(i, i + 1) = -1
  end do
  x(:, 1) = matmul(a, [(dble(i), i=1, n)]) ! so that the solution is 1, 2, 3, ...
  call fb_connect(client)
  call fb_patience(client, 30d0) ! servers that are just being started are waited for
  call fb_call(client, 'dgesv', [fb_in(n), fb_in(1), fb_inout(a), fb_out(pivots), fb_inout(x), fb_out(info)])
  print '(a, i0)', 'info = ', info
  print '(a, *(1x, f0.3))', 'x =', x
  print '(a, *(1x, i0))', 'pivots =', pivots
  call fb_call(client, 'dnrm2', [fb_in(n), fb_in(x(:, 1)), fb_out(norm)])
  print '(a, f0.3)', 'norm of x = ', norm
  singular = reshape([1d0, 2d0, 2d0, 4d0], [2, 2])
  b = 1
  call fb_call(client, 'dgesv', [fb_in(2), fb_in(1), fb_inout(singular), fb_out(pivots(1:2)), fb_inout(b), fb_out(info)])
  print '(a, i0)', 'a singular matrix: info = ', info
  call fb_disconnect(client)
end program solve
