!> What services in Fortran print comes to callers of calls that fail: printing serve; printing call.

module printing_services
  use check
  implicit none
contains

  !> Prints as many lines as it is told, and fails.
  recursive subroutine says(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    integer :: lines, i
    call fb_request_scalar(request, 1, lines, stat=status)
    do i = 1, lines
      print '(a, i0)', 'line ', i
    end do
    write (error_unit, '(a, i0, a)') 'after ', lines, ' lines'
    call fb_request_fail(request, 'it was said', status)
    call ignore(user)
  end subroutine says
end module printing_services

program printing
  use printing_services
  implicit none
  character(len=80) :: what
  call get_command_argument(1, what)
  if (what == 'serve') then
    call serve()
  else
    call ask()
    print '(a)', 'done'
  end if

contains

  subroutine serve()
    type(fb_server) :: server
    call fb_server_create(server, name='that prints', output=.true.)
    call fb_service_register(server, 'says(in lines:i32)', says)
    call fb_server_start(server)
    print '(a)', 'ready'
    flush (output_unit)
    call fb_serve(server)
    call fb_server_free(server)
    print '(a)', 'served'
  end subroutine serve

  subroutine ask()
    type(fb_client) :: client
    type(fb_future) :: future
    type(fb_bag) :: bag
    character(len=:), allocatable :: words
    integer(int64) :: others
    integer :: status, task, lines
    lines = 2
    call fb_connect(client)
    do task = 1, 3
      call fb_call_async(client, 'says', [fb_in(lines)], future)
      call fb_wait(future, stat=status)
      call expect(status == FB_REMOTE_ERROR, 'the call fails')
      others = -1
      call fb_call_output(future, FB_STDOUT, words, others=others)
      call expect(words == 'line 1'//new_line('a')//'line 2'//new_line('a') .and. others == 0, 'its lines come')
      call fb_call_output(future, FB_STDERR, words)
      call expect(words == 'after 2 lines'//new_line('a'), 'and those of standard error')
      call fb_future_free(future)
    end do
    call fb_bag_open(client, 'says', bag)
    call fb_bag_add(bag, [fb_in(lines)])
    call fb_bag_end(bag)
    do while (fb_bag_next(bag, task, stat=status))
      call expect(status == FB_REMOTE_ERROR, 'the task fails')
      call fb_bag_output(bag, FB_STDERR, words, others=others)
      call expect(words == 'after 2 lines'//new_line('a') .and. others == 0, 'its lines come')
    end do
    call fb_bag_free(bag)
    call fb_disconnect(client)
  end subroutine ask
end program printing
