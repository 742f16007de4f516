! A program that calls BLAS as ever, with the compiler's eye on the arguments.
program typed
  use blas_remote
  implicit none
  real(8) :: a(2, 2), c(2, 2)
  a = reshape([1d0, 2d0, 3d0, 4d0], [2, 2])
  c = 0
  call dgemm('N', 'T', 2, 2, 2, 1d0, a, 2, a, 2, 0d0, c, 2)
  print '(5f6.1)', c, ddot(2, a, 2, a(2, 1), 2)
end program typed
