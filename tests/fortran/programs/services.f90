!> The services that the test programs offer, the same as those in C (tests/c/programs/services.h).

module services
  use check
  implicit none
contains

  recursive subroutine axpy(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    real(real64), pointer :: x(:), y(:)
    real(real64) :: a
    nullify (x, y)
    call fb_request_scalar(request, 1, a, stat=status)
    if (status == FB_OK) call fb_request_array(request, 2, x, stat=status)
    if (status == FB_OK) call fb_request_array(request, 3, y, stat=status)
    if (status == FB_OK) y = y + a * x
    call ignore(user)
  end subroutine axpy

  !> Says of a matrix how it lies in memory, and the sum of its elements times their number in memory.
  recursive subroutine layout(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    real(real64), pointer :: m(:, :)
    real(real64) :: sum
    integer :: order, i, j
    nullify (m)
    call fb_request_array(request, 1, m, stat=status)
    call ignore(user)
    if (status /= FB_OK) return
    call fb_request_order(request, 1, order)
    sum = 0
    do j = 1, size(m, 2)
      do i = 1, size(m, 1)
        if (order == FB_COLUMN_MAJOR) then
          sum = sum + m(i, j) * (i + size(m, 1) * (j - 1))
        else
          sum = sum + m(i, j) * (j + size(m, 2) * (i - 1))
        end if
      end do
    end do
    call fb_request_set(request, 2, order)
    call fb_request_set(request, 3, sum)
  end subroutine layout

  !> Every kind of value that is no array, changed a little.
  recursive subroutine values(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    character(len=:), allocatable :: name, signature
    integer(int8), pointer :: raw(:)
    character(len=40) :: longer
    complex(real64) :: z
    integer :: n, count, bad
    logical :: given_up
    call fb_request_count(request, count)
    call fb_request_signature(request, signature)
    call fb_request_cancelled(request, given_up)
    if (count /= 6 .or. index(signature, 'values(') /= 1 .or. given_up) status = FB_INTERNAL
    call fb_request_scalar(request, 1, n)
    call fb_request_scalar(request, 2, z)
    call fb_request_str(request, 3, name)
    call fb_request_bytes(request, 4, raw)
    write (longer, '(2a, i0, a)') name, ' and ', size(raw), ' bytes'
    call fb_request_set(request, 1, n + 1)
    call fb_request_set(request, 2, cmplx(real(z) + 1, 2 * aimag(z), real64))
    call fb_request_set(request, 5, longer)
    call fb_request_set_bytes(request, 6, raw)
    call fb_request_scalar(request, 99, n, stat=bad)
    call ignore(user)
    if (bad /= FB_BAD_ARGUMENT) status = FB_INTERNAL
  end subroutine values

  recursive subroutine fails(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    select type (user)
    type is (character(len=*))
      call fb_request_fail(request, user, status)
    class default
      status = FB_INTERNAL
    end select
  end subroutine fails

  !> Runs until its caller gives it up.
  recursive subroutine patient(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    logical :: given_up
    call ignore(user)
    given_up = .false.
    do while (.not. given_up .and. status == FB_OK)
      call fb_request_cancelled(request, given_up, stat=status)
    end do
  end subroutine patient

  subroutine flip(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    logical :: truth
    call fb_request_scalar(request, 1, truth, stat=status)
    call ignore(user)
    if (status == FB_OK) call fb_request_set(request, 1, .not. truth, stat=status)
  end subroutine flip

  !> Calls itself, through the client that it was given.
  recursive subroutine nested(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    integer(int64) :: depth
    integer(int64), target :: below
    below = 0
    call fb_request_scalar(request, 1, depth, stat=status)
    select type (user)
    type is (fb_client)
      if (depth > 0) call fb_call(user, 'nested', [fb_in(depth - 1), fb_out(below)], stat=status)
    class default
      status = FB_INTERNAL
    end select
    if (status == FB_OK) call fb_request_set(request, 2, below + 1, stat=status)
  end subroutine nested

  subroutine offer(server)
    type(fb_server), intent(in) :: server
    character(len=22), target, save :: why = 'the matrix is singular'
    call fb_service_register(server, 'axpy(in a:f64, in x:f64[n], inout y:f64[n])', axpy)
    call fb_service_register(server, 'layout(in m:f64[r,c], out order:i32, out sum:f64)', layout)
    call fb_service_register(server, 'columns(in m:f64[r,c] order F, out order:i32, out sum:f64)', layout)
    call fb_service_register(server, &
        'values(inout n:i32, inout z:c128, in name:str, in raw:bytes, out said:str, out same:bytes)', values)
    call fb_service_register(server, 'fails()', fails, user=why)
    call fb_service_register(server, 'patient()', patient)
  end subroutine offer

end module services
