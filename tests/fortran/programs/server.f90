!> Serves the test services, under the name given, until it is told to end.

program server
  use services
  implicit none
  type(fb_server) :: here
  call fb_server_create(here, name=place(), workers=2)
  call offer(here)
  call fb_server_start(here)
  print '(a)', 'ready'
  flush (output_unit)
  call fb_serve(here)
  call fb_server_free(here)
  call expect(.true., 'served')
  print '(a)', 'served'
end program server
