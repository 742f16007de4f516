!> What the test programs share: expectations, and the word `done` when all were met.

module check
  use forebay
  use, intrinsic :: iso_fortran_env
  implicit none
  integer :: failures = 0
  character(len=500) :: said = ''
contains

  !> The first word of the command line: where the run is.
  function place() result(path)
    character(len=:), allocatable :: path
    integer :: n
    call get_command_argument(1, length=n)
    allocate (character(len=n) :: path)
    call get_command_argument(1, path)
  end function place

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (holds) return
    failures = failures + 1
    write (error_unit, '(3a)') 'not so: ', what, trim(' ('//trim(said)//')')
  end subroutine expect

  !> A status that was wanted, with a text that names something.
  subroutine refused(stat, wanted, word)
    integer, intent(in) :: stat, wanted
    character(len=*), intent(in) :: word
    call expect(stat == wanted, 'the status is '//fb_status_name(wanted)//', for '//word)
    call expect(index(said, word) > 0, 'the text names '//word)
    said = ''
  end subroutine refused

  !> What a callback was given and has no use for.
  subroutine ignore(user)
    class(*), intent(in) :: user
    select type (user)
    type is (integer)
      call expect(user == 0, 'nothing was given')
    class default
      call expect(.false., 'nothing was to be given')
    end select
  end subroutine ignore

  !> Ends the program: all given back, all met.
  subroutine finish()
    integer(int64) :: count
    call fb_in_use(count)
    call expect(count == 0, 'all handles were given back')
    if (failures > 0) error stop 'expectations were not met'
    print '(a)', 'done'
  end subroutine finish

end module check
