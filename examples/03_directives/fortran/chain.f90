! Two matrix products and a linear system. The plain compiler sees comments, and BLAS and LAPACK compute here; compiled by
! `forebay cc` servers compute, and the first product stays there for the second. README.md has the commands.
program chain
  implicit none
  integer, parameter :: n = 100, m = 4
  real(8) :: a(n, n), b(n, n), c(n, n), t(n, n)
  real(8), target :: s(m, m), x(m, 1), norm ! targets, for they go and come without a name at a server
  integer, target :: pivots(m), info
  real(8), external :: dnrm2
  integer :: i
  a = reshape([(1 / dble(1 + mod(i, 97)), i=0, n * n - 1)], [n, n])
  b = reshape([(1 / dble(1 + mod(i, 89)), i=0, n * n - 1)], [n, n])
  s = reshape([4d0, -1d0, 0d0, 0d0, -1d0, 4d0, -1d0, 0d0, 0d0, -1d0, 4d0, -1d0, 0d0, 0d0, -1d0, 4d0], [m, m])
  x(:, 1) = [2d0, 4d0, 6d0, 13d0]

  !$fb create far_a, a on 'blas'          ! room at the server
  !$fb create far_b, b on 'blas'
  !$fb create far_t, f64, n, n on 'blas'  ! has no array here: it stays there
  !$fb create far_c, c on 'blas'
  !$fb put far_a, a
  !$fb put far_b, b
  !$fb call dgemm('N', 'N', n, n, n, 1d0, far_a, far_b, 0d0, far_t)
  !$fb call dgemm('N', 'T', n, n, n, 1d0, far_t, far_a, 0d0, far_c)
  !$fb get far_c, c
  !$fb kill far_a, far_b, far_t, far_c
  !$fb local                              ! what the plain compiler takes instead
  call dgemm('N', 'N', n, n, n, 1d0, a, n, b, n, 0d0, t, n)
  call dgemm('N', 'T', n, n, n, 1d0, t, n, a, n, 0d0, c, n)
  !$fb end

  !$fb call dgesv(m, 1, out(s), out(pivots), out(x), out(info))
  !$fb local
  call dgesv(m, 1, s, m, pivots, x, m, info)
  !$fb end
  print '(a, 3(1x, z16.16))', 'c =', c(1, 1), c(2, 2), c(n, n)
  print '(a, i0, a, 4(1x, z16.16))', 'info = ', info, ', x =', x
  x(:, 1) = c(1:m, 1)
  !$fb call dnrm2(m, x(:, 1), out(norm))
  !$fb local
  norm = dnrm2(m, x, 1)
  !$fb end
  print '(a, z16.16)', 'norm of four of its elements = ', norm
end program chain
