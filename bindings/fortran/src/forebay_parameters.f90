!> Steerable parameters: variables of the program that get new values in fb_step, at the same step on all ranks.
!
! Of the kinds that C has, the library writes into the variable; of the others it writes into a shadow, from
! where fb_step brings the variable up to date. A variable must be a target and live until the run is closed.

module forebay_parameters
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_structures
  implicit none
  private
  public :: fb_parameter

  !> Declares a steerable parameter; the variable holds its first value.
  interface fb_parameter
    module procedure parameter_f64, parameter_f32, parameter_i64, parameter_i32, parameter_logical, parameter_str
  end interface fb_parameter

  !> What the library writes into, and the variable that stands for.
  type, extends(attachment) :: shadow
    real(c_double) :: f64 = 0
    integer(c_int64_t) :: i64 = 0
    integer(c_int) :: truth = 0
    character(kind=c_char), allocatable :: letters(:)
    real(c_float), pointer :: to_f32 => null()
    integer(c_int32_t), pointer :: to_i32 => null()
    logical, pointer :: to_logical => null()
    character(len=:), pointer :: to_str => null()
  contains
    procedure :: refresh => bring
  end type shadow

contains

  subroutine bring(self)
    class(shadow), intent(inout) :: self
    if (associated(self%to_f32)) self%to_f32 = real(self%f64, c_float)
    if (associated(self%to_i32)) self%to_i32 = int(self%i64, c_int32_t)
    if (associated(self%to_logical)) self%to_logical = self%truth /= 0
    if (associated(self%to_str)) self%to_str = text_in(self%letters)
  end subroutine bring

  !> The options, as C has them; a limit that is not allocated is none.
  subroutine describe(opts, least, most, units, help, c_unit, c_help)
    type(lib_parameter_opts_struct), intent(inout) :: opts
    real(c_double), intent(in), optional, target :: least, most
    character(len=*), intent(in), optional :: units, help
    character(kind=c_char), allocatable, target, intent(inout) :: c_unit(:), c_help(:)
    opts%size = c_sizeof(opts)
    if (present(least)) opts%min = c_loc(least)
    if (present(most)) opts%max = c_loc(most)
    opts%units = text(units, c_unit)
    opts%help = text(help, c_help)
  end subroutine describe

  !> Keeps a shadow with its run, or forgets it when it is not to be.
  subroutine keep(run, one, status)
    type(fb_run), intent(in) :: run
    type(shadow), pointer, intent(in) :: one
    integer(c_int), intent(in) :: status
    class(attachment), pointer :: kept
    kept => one
    if (status == FB_OK) then
      call attach(run%at, kept)
      call one%refresh()
    else
      deallocate (kept)
    end if
  end subroutine keep

  subroutine parameter_f64(run, name, value, min, max, units, help, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: name
    real(c_double), pointer, intent(in) :: value
    real(c_double), intent(in), optional, target :: min, max
    character(len=*), intent(in), optional :: units, help
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:), c_unit(:), c_help(:)
    type(lib_parameter_opts_struct), target :: opts
    call describe(opts, min, max, units, help, c_unit, c_help)
    call settle(lib_parameter_f64(id(run%at), text(name, c_name), c_loc(value), c_loc(opts)), stat, errmsg)
  end subroutine parameter_f64

  subroutine parameter_f32(run, name, value, min, max, units, help, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: name
    real(c_float), pointer, intent(in) :: value
    real(c_float), intent(in), optional :: min, max
    character(len=*), intent(in), optional :: units, help
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:), c_unit(:), c_help(:)
    type(lib_parameter_opts_struct), target :: opts
    real(c_double), allocatable, target :: least, most
    type(shadow), pointer :: one
    integer(c_int) :: status
    allocate (one)
    one%to_f32 => value
    one%f64 = value
    if (present(min)) least = min
    if (present(max)) most = max
    call describe(opts, least, most, units, help, c_unit, c_help)
    status = lib_parameter_f64(id(run%at), text(name, c_name), c_loc(one%f64), c_loc(opts))
    call keep(run, one, status)
    call settle(status, stat, errmsg)
  end subroutine parameter_f32

  subroutine parameter_i64(run, name, value, min, max, units, help, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: name
    integer(c_int64_t), pointer, intent(in) :: value
    integer(c_int64_t), intent(in), optional :: min, max
    character(len=*), intent(in), optional :: units, help
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:), c_unit(:), c_help(:)
    type(lib_parameter_opts_struct), target :: opts
    real(c_double), allocatable, target :: least, most
    if (present(min)) least = real(min, c_double)
    if (present(max)) most = real(max, c_double)
    call describe(opts, least, most, units, help, c_unit, c_help)
    call settle(lib_parameter_i64(id(run%at), text(name, c_name), c_loc(value), c_loc(opts)), stat, errmsg)
  end subroutine parameter_i64

  !> The limits are never beyond what the variable can hold.
  subroutine parameter_i32(run, name, value, min, max, units, help, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: name
    integer(c_int32_t), pointer, intent(in) :: value
    integer(c_int32_t), intent(in), optional :: min, max
    character(len=*), intent(in), optional :: units, help
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:), c_unit(:), c_help(:)
    type(lib_parameter_opts_struct), target :: opts
    real(c_double), target :: least, most
    type(shadow), pointer :: one
    integer(c_int) :: status
    allocate (one)
    one%to_i32 => value
    one%i64 = value
    least = -huge(value)
    most = huge(value)
    if (present(min)) least = min
    if (present(max)) most = max
    call describe(opts, least, most, units, help, c_unit, c_help)
    status = lib_parameter_i64(id(run%at), text(name, c_name), c_loc(one%i64), c_loc(opts))
    call keep(run, one, status)
    call settle(status, stat, errmsg)
  end subroutine parameter_i32

  subroutine parameter_logical(run, name, value, units, help, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: name
    logical, pointer, intent(in) :: value
    character(len=*), intent(in), optional :: units, help
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:), c_unit(:), c_help(:)
    type(lib_parameter_opts_struct), target :: opts
    type(shadow), pointer :: one
    integer(c_int) :: status
    allocate (one)
    one%to_logical => value
    one%truth = merge(1, 0, value)
    call describe(opts, units=units, help=help, c_unit=c_unit, c_help=c_help)
    status = lib_parameter_bool(id(run%at), text(name, c_name), c_loc(one%truth), c_loc(opts))
    call keep(run, one, status)
    call settle(status, stat, errmsg)
  end subroutine parameter_logical

  subroutine parameter_str(run, name, value, units, help, stat, errmsg)
    type(fb_run), intent(in) :: run
    character(len=*), intent(in) :: name
    character(len=*), pointer, intent(in) :: value
    character(len=*), intent(in), optional :: units, help
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:), c_unit(:), c_help(:)
    type(lib_parameter_opts_struct), target :: opts
    type(shadow), pointer :: one
    integer(c_int) :: status
    integer :: i
    allocate (one)
    one%to_str => value
    allocate (one%letters(len(value) + 1), source=c_null_char)
    do i = 1, len_trim(value)
      one%letters(i) = value(i:i)
    end do
    call describe(opts, units=units, help=help, c_unit=c_unit, c_help=c_help)
    status = lib_parameter_str(id(run%at), text(name, c_name), c_loc(one%letters), size(one%letters, kind=c_size_t), &
        c_loc(opts))
    call keep(run, one, status)
    call settle(status, stat, errmsg)
  end subroutine parameter_str

end module forebay_parameters
