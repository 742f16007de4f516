! The ranks of the program, by MPI.
!
! Only this file knows MPI. Forebay learns rank and number of ranks from the launcher's environment and never touches
! MPI_COMM_WORLD. A rank that ends without ranks_end, by `stop 1` or an error of Forebay, has its launcher end the others.

module ranks
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  implicit none
  private
  public :: ranks_begin, ranks_sum, ranks_tell, ranks_end

  integer, protected, public :: my_rank = 0, nranks = 1
  !> As fb_run_open wants it: as the launcher says.
  integer, parameter, public :: RANKS_GIVEN = 0

  interface
    function c_sched_yield() bind(c, name='sched_yield') result(bad)
      import :: c_int
      integer(c_int) :: bad
    end function c_sched_yield
  end interface

contains

  subroutine ranks_begin()
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, my_rank)
    call MPI_Comm_size(MPI_COMM_WORLD, nranks)
  end subroutine ranks_begin

  !> Waits, and lets others have the core meanwhile: MPI's own waiting spins, and where there are more ranks than cores,
  !> or a service is to be called, nobody else would come to the turn.
  subroutine wait(request)
    type(MPI_Request), intent(inout) :: request
    logical :: done
    integer(c_int) :: bad
    done = .false.
    do while (.not. done)
      call MPI_Test(request, done, MPI_STATUS_IGNORE)
      if (.not. done) bad = c_sched_yield()
    end do
  end subroutine wait

  !> Adds values up over all ranks, in place.
  subroutine ranks_sum(n, values)
    integer, intent(in) :: n
    real(real64), intent(inout), asynchronous :: values(n)
    type(MPI_Request) :: request
    call MPI_Iallreduce(MPI_IN_PLACE, values, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, request)
    call wait(request)
    call MPI_F_sync_reg(values)
  end subroutine ranks_sum

  !> All ranks get the values of rank 0.
  subroutine ranks_tell(n, values)
    integer, intent(in) :: n
    real(real64), intent(inout), asynchronous :: values(n)
    type(MPI_Request) :: request
    call MPI_Ibcast(values, n, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, request)
    call wait(request)
    call MPI_F_sync_reg(values)
  end subroutine ranks_tell

  subroutine ranks_end()
    call MPI_Finalize()
  end subroutine ranks_end

end module ranks
