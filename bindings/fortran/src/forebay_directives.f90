!> What programs call that `forebay cc` made of directives. Nobody writes these calls by hand.
!
! Arrays at servers and calls under way have names, which are those of the whole program; all its files share one
! connection. The program carries directives out from one thread at a time.

module forebay_directives
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, fbd_int => int32, fbd_long => int64, output_unit
  use forebay
  use forebay_base, only: settle
  implicit none
  private
  public :: fbd_begin, fbd_end, fbd_status, fbd_well, fbd_int, fbd_long
  public :: fbd_connect, fbd_create, fbd_create_room, fbd_find, fbd_kill, fbd_arg, fbd_call, fbd_start, fbd_wait
  public :: fbd_array, fbd_stat, fbd_said
  public :: fb_arg, fb_in, fb_inout, fb_ref_get, fb_ref_put
  public :: FB_I8, FB_I16, FB_I32, FB_I64, FB_U8, FB_U16, FB_U32, FB_U64, FB_F16, FB_F32, FB_F64, FB_C64, FB_C128, FB_BOOL

  !> An array at a server, or a call under way.
  type :: named
    character(len=:), allocatable :: name, made_at
    type(fb_ref) :: array
    type(fb_future) :: call
    type(named), pointer :: next => null()
  end type named

  type(named), pointer :: arrays => null(), calls => null()
  type(fb_client) :: client
  !> The array that a directive is about, and what became of it so far.
  type(fb_ref) :: fbd_array
  integer :: fbd_stat = FB_OK
  character(len=1024) :: fbd_said = ''
  !> Where it stands.
  character(len=:), allocatable :: its_place, its_text

  interface
    function fbf_room(array, dtype, ndim, shape) bind(c) result(status)
      import
      type(*), intent(in) :: array(..)
      integer(c_int), intent(inout) :: dtype, ndim
      integer(c_int64_t), intent(inout) :: shape(*)
      integer(c_int) :: status
    end function fbf_room
    subroutine c_exit(status) bind(c, name='exit')
      import
      integer(c_int), value :: status
    end subroutine c_exit
  end interface

contains

  !> A directive begins: where it stands, and how it is written.
  subroutine fbd_begin(file, line, directive)
    character(len=*), intent(in) :: file, directive
    integer(fbd_int), intent(in) :: line
    character(len=12) :: number
    write (number, '(i0)') line
    its_place = file//':'//trim(number)
    its_text = directive
    fbd_stat = FB_OK
    fbd_said = ''
  end subroutine fbd_begin

  !> Ends a directive that has no `status`: one that has failed ends the program.
  subroutine fbd_end()
    if (fbd_stat == FB_OK) return
    flush (output_unit)
    write (error_unit, '(5a)') its_place, ': fb ', its_text, ': ', trim(fbd_said)
    flush (error_unit)
    call c_exit(1_c_int)
  end subroutine fbd_end

  !> What became of the directive, for its variable.
  integer function fbd_status()
    fbd_status = fbd_stat
  end function fbd_status

  logical function fbd_well()
    fbd_well = fbd_stat == FB_OK
  end function fbd_well

  subroutine refuse(status, words)
    integer, intent(in) :: status
    character(len=*), intent(in) :: words
    fbd_stat = status
    fbd_said = words
  end subroutine refuse

  !> Connects; without it, whoever needs the connection first does.
  subroutine fbd_connect(broker)
    character(len=*), intent(in), optional :: broker
    if (fb_is_there(client)) then
      call refuse(FB_CONFLICT, 'the program is connected already; connect once, before all other directives')
    else
      call fb_connect(client, broker, stat=fbd_stat, errmsg=fbd_said)
    end if
  end subroutine fbd_connect

  subroutine need_client()
    if (.not. fb_is_there(client)) call fbd_connect()
  end subroutine need_client

  function found(list, name) result(one)
    type(named), pointer, intent(in) :: list
    character(len=*), intent(in) :: name
    type(named), pointer :: one
    one => list
    do while (associated(one))
      if (one%name == name) return
      one => one%next
    end do
  end function found

  !> Room for a new name of a list, which `keep` adds to it; none if it is taken, or there is no connection.
  function fresh(list, name, where, remedy) result(one)
    type(named), pointer, intent(in) :: list
    character(len=*), intent(in) :: name, where, remedy
    type(named), pointer :: one
    one => found(list, name)
    if (associated(one)) then
      call refuse(FB_CONFLICT, name//' is '//where//' already, since '//one%made_at//'; '//remedy// &
                  ' it first, or take another name')
      nullify (one)
      return
    end if
    if (fbd_well()) call need_client()
    if (.not. fbd_well()) return
    allocate (one)
    one%name = name
    one%made_at = its_place
  end function fresh

  !> What is new comes into its list, if all went well.
  subroutine keep(list, one)
    type(named), pointer, intent(inout) :: list
    type(named), pointer, intent(inout) :: one
    if (fbd_well()) then
      one%next => list
      list => one
    else
      deallocate (one)
    end if
  end subroutine keep

  !> Takes a name out of a list.
  subroutine remove(list, one)
    type(named), pointer, intent(inout) :: list
    type(named), pointer, intent(inout) :: one
    type(named), pointer :: before
    if (associated(list, one)) then
      list => one%next
    else
      before => list
      do while (.not. associated(before%next, one))
        before => before%next
      end do
      before%next => one%next
    end if
    deallocate (one)
  end subroutine remove

  !> Room at a server for what an array holds, of zeros.
  subroutine fbd_create(name, array, server, services)
    character(len=*), intent(in) :: name
    type(*), intent(in) :: array(..)
    character(len=*), intent(in), optional :: server, services
    integer(c_int) :: dtype, ndim
    integer(c_int64_t) :: shape(FB_MAX_RANK)
    call settle(fbf_room(array, dtype, ndim, shape), fbd_stat, fbd_said)
    if (fbd_well()) call create(name, dtype, int(ndim), shape, server, services)
  end subroutine fbd_create

  !> Room at a server, of zeros.
  subroutine fbd_create_room(name, dtype, shape, server, services)
    character(len=*), intent(in) :: name
    integer, intent(in) :: dtype
    integer(c_int64_t), intent(in) :: shape(:)
    character(len=*), intent(in), optional :: server, services
    call create(name, dtype, size(shape), shape, server, services)
  end subroutine fbd_create_room

  subroutine create(name, dtype, ndim, shape, server, services)
    character(len=*), intent(in) :: name
    integer, intent(in) :: dtype, ndim
    integer(c_int64_t), intent(in) :: shape(:)
    character(len=*), intent(in), optional :: server, services
    type(named), pointer :: one
    one => fresh(arrays, name, 'at a server', 'kill')
    if (.not. associated(one)) return
    call fb_ref_create(client, dtype, shape(1:ndim), one%array, server=server, services=services, &
                       stat=fbd_stat, errmsg=fbd_said)
    call keep(arrays, one)
  end subroutine create

  !> The array of a name becomes fbd_array.
  subroutine fbd_find(name)
    character(len=*), intent(in) :: name
    type(named), pointer :: one
    one => found(arrays, name)
    if (associated(one)) then
      fbd_array = one%array
    else
      call refuse(FB_NOT_FOUND, 'there is no '//name//' at a server; create it first')
    end if
  end subroutine fbd_find

  subroutine fbd_kill(name)
    character(len=*), intent(in) :: name
    type(named), pointer :: one
    call fbd_find(name)
    if (.not. fbd_well()) return
    one => found(arrays, name)
    call fb_ref_kill(one%array, stat=fbd_stat, errmsg=fbd_said)
    call remove(arrays, one)
  end subroutine fbd_kill

  !> The array of that name as an argument. One that is not there is told of by the call.
  function fbd_arg(name) result(made)
    character(len=*), intent(in) :: name
    type(fb_arg) :: made
    type(named), pointer :: one
    one => found(arrays, name)
    if (associated(one)) then
      made = fb_ref(one%array)
    else
      call fbd_find(name)
    end if
  end function fbd_arg

  subroutine fbd_call(service, args)
    character(len=*), intent(in) :: service
    type(fb_arg), intent(in) :: args(:)
    if (fbd_well()) call need_client()
    if (fbd_well()) call fb_call(client, service, args, stat=fbd_stat, errmsg=fbd_said)
  end subroutine fbd_call

  !> A call that goes on behind the directive.
  subroutine fbd_start(name, service, args)
    character(len=*), intent(in) :: name, service
    type(fb_arg), intent(in) :: args(:)
    type(named), pointer :: one
    one => fresh(calls, name, 'under way', 'wait for')
    if (.not. associated(one)) return
    call fb_call_async(client, service, args, one%call, stat=fbd_stat, errmsg=fbd_said)
    call keep(calls, one)
  end subroutine fbd_start

  subroutine fbd_wait(name)
    character(len=*), intent(in) :: name
    type(named), pointer :: one
    one => found(calls, name)
    if (associated(one)) then
      call fb_wait(one%call, stat=fbd_stat, errmsg=fbd_said)
      call remove(calls, one)
    else
      call refuse(FB_NOT_FOUND, 'no call '//name//' is under way; start it with async')
    end if
  end subroutine fbd_wait

end module forebay_directives
