!> fork beside handles: the child leaves their scope, whose end gives them back, and takes nothing from the parent.

module forking
  use, intrinsic :: iso_c_binding
  use check
  implicit none
  integer(c_int) :: gate(2)

  interface
    integer(c_int) function c_fork() bind(c, name='fork')
      import :: c_int
    end function c_fork
    integer(c_int) function c_waitpid(pid, status, options) bind(c, name='waitpid')
      import :: c_int
      integer(c_int), value :: pid, options
      integer(c_int), intent(out) :: status
    end function c_waitpid
    integer(c_int) function c_pipe(ends) bind(c, name='pipe')
      import :: c_int
      integer(c_int), intent(out) :: ends(2)
    end function c_pipe
    integer(c_size_t) function c_read(file, bytes, count) bind(c, name='read')
      import :: c_int, c_size_t, c_char
      integer(c_int), value :: file
      character(kind=c_char), intent(out) :: bytes(*)
      integer(c_size_t), value :: count
    end function c_read
    integer(c_size_t) function c_write(file, bytes, count) bind(c, name='write')
      import :: c_int, c_size_t, c_char
      integer(c_int), value :: file
      character(kind=c_char), intent(in) :: bytes(*)
      integer(c_size_t), value :: count
    end function c_write
  end interface

contains

  !> Waits until something comes through the pipe.
  recursive subroutine wait_there(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    character(kind=c_char) :: byte(1)
    real(real64) :: x
    call fb_request_scalar(request, 1, x, stat=status)
    call expect(c_read(gate(1), byte, 1_c_size_t) == 1, 'the gate opens')
    if (status == FB_OK) call fb_request_set(request, 2, 2 * x, stat=status)
    call ignore(user)
  end subroutine wait_there

  !> True in the parent, false in the child.
  logical function parent_goes_on()
    type(fb_server) :: server
    type(fb_client) :: client
    type(fb_future) :: running, queued
    type(fb_run) :: run
    type(fb_snapshot) :: snapshot
    real(real64), target :: back(2)
    real(real64) :: kept(3)
    integer(c_int) :: pid, status
    call expect(c_pipe(gate) == 0, 'a pipe')
    call fb_server_create(server, name='gates', workers=1)
    call fb_service_register(server, 'wait_there(in x:f64, out y:f64)', wait_there)
    call fb_server_start(server)
    call fb_connect(client)
    call fb_run_open(place(), 'w', run)
    call fb_snapshot_begin(run, 0, snapshot)
    call fb_snapshot_put(snapshot, 'E', [1d0, 2d0, 3d0])
    call fb_call_async(client, 'wait_there', [fb_in(1d0), fb_out(back(1))], running)
    call fb_call_async(client, 'wait_there', [fb_in(2d0), fb_out(back(2))], queued)

    pid = c_fork()
    parent_goes_on = pid /= 0
    if (.not. parent_goes_on) return
    call expect(pid > 0 .and. c_waitpid(pid, status, 0) == pid, 'the child ends')
    call expect(status == 0, 'it ends in order')

    call expect(c_write(gate(2), ['a', 'b'], 2_c_size_t) == 2, 'the gate is opened')
    call fb_wait(running, timeout=20d0)
    call fb_wait(queued, timeout=20d0)
    call expect(all(abs(back - [2, 4]) <= 0), 'the calls of the parent are done')
    call fb_snapshot_put(snapshot, 'B', [4d0, 5d0, 6d0])
    call fb_snapshot_end(snapshot)
    call fb_snapshot_wait(snapshot, timeout=20d0)
    call fb_snapshot_at(run, 0, snapshot)
    call fb_snapshot_get(snapshot, 'B', kept)
    call expect(all(abs(kept - [4, 5, 6]) <= 0), 'what the parent put behind the child')
  end function parent_goes_on

end module forking

program forks
  use forking
  implicit none
  integer(int64) :: count
  if (.not. parent_goes_on()) stop
  call fb_in_use(count)
  call expect(count == 0, 'the end of the scope gives all back in the parent')
  call finish()
end program forks
