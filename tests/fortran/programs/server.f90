!> Serves the test services, under the name given, until it is told to end: server NAME [ADDRESS TO LISTEN AT,
!> ADDRESS OF THE BROKER].

program server
  use services
  implicit none
  type(fb_server) :: here
  character(len=80) :: address, broker
  call get_command_argument(2, address)
  call get_command_argument(3, broker)
  if (address == '') then
    call fb_server_create(here, name=place(), workers=2)
  else
    call fb_server_create(here, name=place(), workers=2, listen=address, broker=broker)
  end if
  call offer(here)
  call fb_server_start(here)
  print '(a)', 'ready'
  flush (output_unit)
  call fb_serve(here)
  call fb_server_free(here)
  call expect(.true., 'served')
  print '(a)', 'served'
end program server
