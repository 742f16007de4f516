! What ranks.f90 offers, for a program of one process: nothing of MPI is needed.

module ranks
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  private
  public :: ranks_begin, ranks_sum, ranks_tell, ranks_end

  integer, parameter, public :: my_rank = 0, nranks = 1
  !> As fb_run_open wants it: alone, whatever started this.
  integer, parameter, public :: RANKS_GIVEN = 1

contains

  subroutine ranks_begin()
  end subroutine ranks_begin

  subroutine ranks_sum(n, values)
    integer, intent(in) :: n
    real(real64), intent(inout) :: values(n)
    if (n < 0) values = 0 ! they are the sums as they are
  end subroutine ranks_sum

  subroutine ranks_tell(n, values)
    integer, intent(in) :: n
    real(real64), intent(inout) :: values(n)
    if (n < 0) values = 0 ! there is nobody to be told
  end subroutine ranks_tell

  subroutine ranks_end()
  end subroutine ranks_end

end module ranks
