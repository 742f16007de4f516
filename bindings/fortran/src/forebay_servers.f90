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
  public :: fb_server_create, fb_service_register, fb_service_remove, fb_server_start, fb_server_stop, fb_serve, fb_load
  public :: fb_server_trouble, fb_server_free, fb_service
  public :: fb_request_order, fb_request_fail, fb_request_cancelled, fb_request_signature, fb_request_count

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

  !> Makes a server; give it services, then start it with fb_serve or fb_server_start.
  subroutine fb_server_create(server, name, broker, workers, memory, listen, stat, errmsg)
    type(fb_server), intent(inout) :: server
    character(len=*), intent(in), optional :: name, broker, listen
    integer, intent(in), optional :: workers
    class(*), intent(in), optional :: memory
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:), c_broker(:), c_listen(:)
    type(lib_server_opts_struct), target :: opts
    type(c_ptr) :: made
    integer(c_int) :: status
    made = c_null_ptr
    opts%size = c_sizeof(opts)
    opts%name = text(name, c_name)
    opts%broker = text(broker, c_broker)
    opts%listen = text(listen, c_listen)
    if (present(workers)) opts%workers = workers
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

  !> Offers a service no more.
  subroutine fb_service_remove(server, name, stat, errmsg)
    type(fb_server), intent(in) :: server
    character(len=*), intent(in) :: name
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(kind=c_char), allocatable, target :: c_name(:)
    call settle(lib_service_remove(id(server%at), text(name, c_name)), stat, errmsg)
  end subroutine fb_service_remove

  !> Starts a server: when it returns, clients of the broker find its services.
  subroutine fb_server_start(server, stat, errmsg)
    type(fb_server), intent(in) :: server
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_server_start(id(server%at)), stat, errmsg)
  end subroutine fb_server_start

  !> Stops a server. Not from within a service.
  subroutine fb_server_stop(server, stat, errmsg)
    type(fb_server), intent(in) :: server
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_server_stop(id(server%at)), stat, errmsg)
  end subroutine fb_server_stop

  !> Starts a server if it does not run, and serves until fb_server_stop, SIGTERM or SIGINT.
  subroutine fb_serve(server, stat, errmsg)
    type(fb_server), intent(in) :: server
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_serve(id(server%at)), stat, errmsg)
  end subroutine fb_serve

  !> How busy a server is; all zero when it does not run.
  subroutine fb_load(server, load, stat, errmsg)
    type(fb_server), intent(in) :: server
    type(fb_server_load), intent(inout), target :: load
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    load%size = c_sizeof(load)
    call settle(lib_load(id(server%at), c_loc(load)), stat, errmsg)
  end subroutine fb_load

  !> The trouble that a running server has behind the scenes: its status and text.
  subroutine fb_server_trouble(server, stat, errmsg)
    type(fb_server), intent(in) :: server
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_server_trouble(id(server%at)), stat, errmsg)
  end subroutine fb_server_trouble

  !> Stops and frees a server.
  subroutine fb_server_free(server, stat, errmsg)
    type(fb_server), intent(inout) :: server
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call give_back(server%at, stat, errmsg)
  end subroutine fb_server_free

  ! --- requests: parameters count from 1 ------------------------------------------------------------

  !> The order of an array parameter, as the caller has it.
  subroutine fb_request_order(request, index, order, stat, errmsg)
    type(fb_request), intent(in) :: request
    integer, intent(in) :: index
    integer, intent(inout) :: order
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_request_order(request%handle, index - 1, order), stat, errmsg)
  end subroutine fb_request_order

  !> Fails the call: the caller gets FB_REMOTE_ERROR with this text. `status` is what the service returns.
  subroutine fb_request_fail(request, words, status)
    type(fb_request), intent(in) :: request
    character(len=*), intent(in) :: words
    integer, intent(inout) :: status
    character(kind=c_char), allocatable, target :: c_words(:)
    status = lib_request_fail(request%handle, text(words, c_words))
  end subroutine fb_request_fail

  !> Whether the caller gave up: long services look now and then, and return.
  subroutine fb_request_cancelled(request, cancelled, stat, errmsg)
    type(fb_request), intent(in) :: request
    logical, intent(inout) :: cancelled
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: status, answer
    answer = 0
    status = lib_request_cancelled(request%handle, answer)
    if (status == FB_OK) cancelled = answer /= 0
    call settle(status, stat, errmsg)
  end subroutine fb_request_cancelled

  !> The signature of what was called.
  subroutine fb_request_signature(request, signature, stat, errmsg)
    type(fb_request), intent(in) :: request
    character(len=:), allocatable, intent(inout) :: signature
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_ptr), target :: where
    integer(c_int) :: status
    where = c_null_ptr
    status = lib_request_signature(request%handle, c_loc(where))
    if (status == FB_OK) signature = text_from(where)
    call settle(status, stat, errmsg)
  end subroutine fb_request_signature

  !> The number of parameters, results included.
  subroutine fb_request_count(request, count, stat, errmsg)
    type(fb_request), intent(in) :: request
    integer, intent(inout) :: count
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call settle(lib_request_count(request%handle, count), stat, errmsg)
  end subroutine fb_request_count

end module forebay_servers
