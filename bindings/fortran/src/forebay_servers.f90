!> Servers: procedures of the program offered as services.

module forebay_servers
  use, intrinsic :: iso_c_binding
  use forebay_base
  use forebay_constants
  use forebay_library
  use forebay_places, only: fb_request
  use forebay_structures
  implicit none
  private
  public :: fb_server_create, fb_service_register, fb_service, fb_request_fail

  abstract interface
    !> A procedure that serves a call, in a thread of the server; with several workers it must be recursive.
    !> It leaves `status` at FB_OK, or lets a procedure of this module set it, or calls fb_request_fail.
    subroutine fb_service(request, user, status)
      import :: fb_request
      type(fb_request), intent(in) :: request
      class(*), intent(inout) :: user
      integer, intent(inout) :: status
    end subroutine fb_service
  end interface

  type, extends(attachment) :: offered
    procedure(fb_service), pointer, nopass :: serve => null()
    class(*), pointer :: user => null()
  end type offered

  integer, target, save :: nobody = 0

contains

  !> Makes a server; give it services, then start it with fb_serve or fb_server_start. With `output` calls that fail bring
  !> what this process printed meanwhile (fb_call_output): standard output and standard error are pipes then. `scratch` is
  !> where files of calls are kept, and how much of them: '/scratch/me:50GiB'.
  subroutine fb_server_create(server, name, broker, workers, memory, listen, output, scratch, stat, errmsg)
    type(fb_server), intent(inout) :: server
    character(len=*), intent(in), optional :: name, broker, listen, scratch
    integer, intent(in), optional :: workers
    class(*), intent(in), optional :: memory
    logical, intent(in), optional :: output
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:), c_broker(:), c_listen(:), c_scratch(:)
    type(lib_server_opts_struct), target :: opts
    type(c_ptr) :: made
    integer(c_int) :: status
    made = c_null_ptr
    opts%size = c_sizeof(opts)
    opts%name = text(name, c_name)
    opts%broker = text(broker, c_broker)
    opts%listen = text(listen, c_listen)
    opts%scratch = text(scratch, c_scratch)
    if (present(workers)) opts%workers = workers
    if (present(output)) opts%output = merge(1, 0, output)
    status = whole(memory, opts%memory)
    if (status == FB_OK) status = lib_server_create(c_loc(opts), made)
    if (status == FB_OK) call hold(server%at, A_SERVER, made)
    call settle(status, stat, errmsg)
  end subroutine fb_server_create

  !> What the library calls: the procedure of the program, with what it was given.
  recursive function serve(request, user) bind(c) result(status)
    type(c_ptr), value :: request, user
    integer(c_int) :: status
    type(offered), pointer :: one
    integer :: answer
    call c_f_pointer(user, one)
    answer = FB_OK
    call one%serve(fb_request(request), one%user, answer)
    status = answer
  end function serve

  !> Offers a procedure under a signature such as 'axpy(in a:f64, in x:f64[n], inout y:f64[n])'. What is given
  !> as `user` must be a target, and live as long as the server.
  subroutine fb_service_register(server, signature, service, user, stat, errmsg)
    type(fb_server), intent(in) :: server
    character(len=*), intent(in) :: signature
    procedure(fb_service) :: service
    class(*), target, intent(in), optional :: user
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_signature(:)
    class(attachment), pointer :: kept
    type(offered), pointer :: one
    type(c_ptr) :: where
    where = c_null_ptr
    if (c_associated(server%at%handle)) then
      allocate (one)
      one%serve => service
      one%user => nobody
      if (present(user)) one%user => user
      where = c_loc(one)
      kept => one
      call attach(server%at, kept)
    end if
    call settle(lib_service_register(id(server%at), text(signature, c_signature), c_funloc(serve), where), stat, errmsg)
  end subroutine fb_service_register

  !> Fails the call: the caller gets FB_REMOTE_ERROR with this text. `status` is what the service returns.
  subroutine fb_request_fail(request, words, status)
    type(fb_request), intent(in) :: request
    character(len=*), intent(in) :: words
    integer, intent(inout) :: status
    character(kind=c_char), allocatable, target :: c_words(:)
    status = lib_request_fail(request%handle, text(words, c_words))
  end subroutine fb_request_fail

end module forebay_servers
