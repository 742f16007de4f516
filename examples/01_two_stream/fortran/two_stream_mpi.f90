! The two-stream instability as a client of Forebay, in Fortran, by any number of ranks of MPI.
!
!     mpifort two_stream_mpi.f90 $(pkg-config --cflags --libs forebay-fortran) -o two_stream_mpi_f
!     mpiexec -n 2 ./two_stream_mpi_f two_stream.toml

include 'deck.f90'
include 'physics.f90'
include 'report.f90'
include 'ranks.f90'
include 'simulation.f90'
