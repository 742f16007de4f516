! The two-stream instability as a client of Forebay, in Fortran, by one process.
!
!     gfortran two_stream.f90 $(pkg-config --cflags --libs forebay-fortran) -o two_stream_f
!     ./two_stream_f two_stream.toml
!
! The same by many ranks of MPI is two_stream_mpi.f90.

include 'deck.f90'
include 'physics.f90'
include 'report.f90'
include 'alone.f90'
include 'simulation.f90'
