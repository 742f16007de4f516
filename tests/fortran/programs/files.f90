!> Files as arguments, of a server in the same program. The first word of the command line is a folder.

module file_services
  use check
  implicit none
contains

  !> Copies a file of one line, with a text behind it.
  recursive subroutine append(request, user, status)
    type(fb_request), intent(in) :: request
    class(*), intent(inout) :: user
    integer, intent(inout) :: status
    character(len=:), allocatable :: from, words, to
    character(len=100) :: line
    integer :: unit
    call fb_request_str(request, 1, from)
    call fb_request_str(request, 2, words)
    call fb_request_str(request, 3, to)
    call ignore(user)
    if (words == 'fail') then
      call fb_request_fail(request, 'it was to fail', status)
      return
    end if
    open (newunit=unit, file=from, action='read')
    read (unit, '(a)') line
    close (unit)
    open (newunit=unit, file=to, action='write')
    write (unit, '(a)') trim(line)//' '//words
    close (unit)
    call fb_request_set(request, 4, len_trim(line))
  end subroutine append

  function line_of(path) result(line)
    character(len=*), intent(in) :: path
    character(len=100) :: line
    integer :: unit
    open (newunit=unit, file=path, action='read')
    read (unit, '(a)') line
    close (unit)
  end function line_of

end module file_services

program files
  use file_services
  implicit none
  type(fb_server) :: server
  type(fb_client) :: client
  type(fb_future) :: future
  type(fb_bag) :: bag
  type(fb_group) :: group
  integer, target, asynchronous :: length, lengths(5)
  integer, pointer :: one
  integer :: stat, unit, i
  integer(int64) :: index
  character(len=:), allocatable :: folder, in, out
  character(len=300) :: long

  folder = place()//'/'
  in = folder//'in'
  out = folder//'out'
  open (newunit=unit, file=in, action='write')
  write (unit, '(a)') 'mesh'
  close (unit)
  call fb_server_create(server, scratch=folder//'scratch:1MiB')
  call fb_service_register(server, 'append(in a:file, in words:str, out b:file, out length:i32)', append)
  call fb_server_start(server)
  call fb_connect(client)

  call fb_call(client, 'append', [fb_in_file(in), fb_in('here'), fb_out_file(out), fb_out(length)])
  call expect(line_of(out) == 'mesh here' .and. length == 4, 'a file there and back')
  call fb_call_async(client, 'append', [fb_in_file(in//'   '), fb_in('later'), fb_out_file(folder//'later'), &
      fb_out(length)], future)
  call fb_wait(future)
  call fb_future_free(future)
  call expect(line_of(folder//'later') == 'mesh later', 'a call that is waited for later')

  call fb_call(client, 'append', [fb_in_file(in), fb_in('fail'), fb_out_file(out), fb_out(length)], stat=stat, errmsg=said)
  call refused(stat, FB_REMOTE_ERROR, 'it was to fail')
  call expect(line_of(out) == 'mesh here', 'what was there stays')
  call fb_call(client, 'append', [fb_in_file('nothing'), fb_in(''), fb_out_file(out), fb_out(length)], stat=stat, errmsg=said)
  call refused(stat, FB_NOT_FOUND, 'check the path')
  call fb_call(client, 'append', [fb_in('in'), fb_in(''), fb_out_file(out), fb_out(length)], stat=stat, errmsg=said)
  call refused(stat, FB_BAD_ARGUMENT, 'it is a file')
  long = repeat('x', 300)
  call fb_call(client, 'append', [fb_in_file(long), fb_in(''), fb_out_file(out), fb_out(length)], stat=stat, errmsg=said)
  call refused(stat, FB_BAD_ARGUMENT, 'a path of more than 255 bytes')

  call fb_bag_open(client, 'append', bag)
  do i = 1, 5
    one => lengths(i)
    call fb_bag_add(bag, [fb_in_file(in), fb_in('task'), fb_out_file(folder//'task'//char(48 + i)), fb_out(one)])
  end do
  call fb_bag_end(bag)
  do while (fb_bag_next(bag, index, stat=stat, errmsg=said))
    call expect(stat == FB_OK, 'a task')
  end do
  call fb_bag_free(bag)
  call expect(all(lengths == 4) .and. line_of(folder//'task5') == 'mesh task', 'tasks')
  call fb_group_begin(client, group)
  call fb_group_call(group, 'append', [fb_in_file(in), fb_in('one'), fb_out_file(folder//'one'), fb_out(length)])
  call fb_group_end(group)
  call expect(line_of(folder//'one') == 'mesh one', 'a call of a group')

  call fb_disconnect(client)
  call fb_server_free(server)
  deallocate (folder, in, out)
  call finish()
end program files
